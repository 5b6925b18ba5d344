package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// visit opens a URL in a real browser until the test ends. In there evil.test and
// hub.test are this machine, and no other name is anything.
func visit(t *testing.T, address string) {
	t.Helper()
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium on this machine")
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP hub.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a browser is many processes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// attack is a page that sends a form to each address as soon as it is seen, and shows
// other pages.
func attack(form url.Values, to []string, shows ...string) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>Cats</title>")
	for i, action := range to {
		fmt.Fprintf(&b, "<iframe name=f%d></iframe><form method=post target=f%d action='%s'>", i, i, action)
		for name := range form {
			fmt.Fprintf(&b, "<input name='%s' value='%s'>", name, form.Get(name))
		}
		b.WriteString("</form>")
	}
	for _, address := range shows {
		fmt.Fprintf(&b, "<iframe src='%s'></iframe>", address)
	}
	b.WriteString("<script>for (const f of document.forms) f.submit()</script>")
	return b.String()
}

// page answers / with a page, and hands all else on to a hub as it came, Host included:
// so that the page has the origin that it has after a name was pointed to the hub.
func page(t *testing.T, hub, content string) *httptest.Server {
	t.Helper()
	to, err := url.Parse(hub)
	if err != nil {
		t.Fatal(err)
	}
	rest := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, content)
			return
		}
		rest.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// A page that somebody visits beside a hub neither subscribes a callback there nor
// changes anything at the operator's listener: not from its own origin, and not after
// its name was pointed to the hub. A page of a name that the operator allows may.
func TestPagesInABrowser(t *testing.T) {
	h := startHub(t, "--allow-host=hub.test")
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"http://127.0.0.1:2/t"}, "hub.callback": {"http://127.0.0.1:2/cb"}}
	own := page(t, h.url(), attack(form, []string{"/"}))
	_, port, _ := strings.Cut(own.Listener.Addr().String(), ":")
	elsewhere := page(t, h.url(), attack(form, []string{h.url(), "http://" + h.admin + "/api/v1/reload"},
		"http://evil.test:"+port+"/", "http://hub.test:"+port+"/"))
	visit(t, elsewhere.URL)
	h.counts("rshub_cross_site_refused_total 2", `rshub_operator_refused_total{reason="cross_site"} 1`,
		`rshub_subscription_requests_total{mode="subscribe",outcome="accepted"} 1`)
}

// counts waits until the hub's figures have these lines.
func (h *hub) counts(lines ...string) {
	h.t.Helper()
	var figures string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get("http://" + h.admin + "/metrics") //nolint:noctx // it answers at once
		if err != nil {
			h.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		figures = string(body)
		missing := false
		for _, line := range lines {
			missing = missing || !strings.Contains(figures, "\n"+line+"\n")
		}
		if !missing {
			return
		}
	}
	h.t.Errorf("the figures lack one of %q", lines)
}
