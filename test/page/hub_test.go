package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// hub is one rshub serve process. Its folder and its ports outlive it.
type hub struct {
	t      *testing.T
	dir    string
	public string // base URLs of its listeners, with a slash at the end
	admin  string
	name   string // the hub URI, that of public unless hubs share one
	token  string // of the operator; empty: none is needed
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex
	log []string // the last lines
}

// start runs a hub with the settings of --dev and these, and waits until it is ready.
func start(t *testing.T, args ...string) *hub {
	t.Helper()
	h := newHub(t, args...)
	h.run()
	h.ready()
	return h
}

// newHub is a hub that does not run yet.
func newHub(t *testing.T, args ...string) *hub {
	t.Helper()
	listen, admin := ports.Addr(), ports.Addr()
	h := &hub{t: t, dir: filepath.Join(t.TempDir(), "data"), public: "http://" + listen + "/", name: "http://" + listen + "/", admin: "http://" + admin + "/"}
	h.args = append([]string{"serve", "--dev", "--listen", listen, "--public-url", h.public, "--admin-listen", admin, "--data-dir", h.dir, "--log-format", "json", "--topic-check=off"}, args...)
	return h
}

// ready waits until the hub is.
func (h *hub) ready() {
	h.t.Helper()
	h.await(func() error {
		status, body := h.get("readyz")
		if status != http.StatusOK {
			return fmt.Errorf("it is not ready: %d %s", status, body)
		}
		return nil
	})
}

func (h *hub) run() {
	h.t.Helper()
	h.cmd = exec.CommandContext(context.Background(), filepath.Join(built, "rshub"), h.args...)
	h.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir()}
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	cmd, exited, listening := h.cmd, make(chan struct{}), make(chan struct{})
	h.exited = exited
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	go func() {
		defer close(exited)
		seen := sync.OnceFunc(func() { close(listening) })
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			h.mu.Lock()
			h.log = append(h.log[max(0, len(h.log)-200):], lines.Text())
			h.mu.Unlock()
			if strings.Contains(lines.Text(), `"event":"listening"`) {
				seen()
			}
		}
		_ = cmd.Wait()
	}()
	select {
	case <-listening:
	case <-exited:
		h.t.Fatalf("the hub ended before it listened:\n%s", h.tail())
	case <-time.After(patience):
		h.t.Fatalf("the hub does not listen:\n%s", h.tail())
	}
}

func (h *hub) tail() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.log[max(0, len(h.log)-30):], "\n")
}

// await polls until check is content.
func (h *hub) await(check func() error) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("after %v: %v\n%s", patience, err, h.tail())
		}
	}
}

// restart ends the hub at once and starts it again, with further settings.
func (h *hub) restart(args ...string) {
	h.t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	<-h.exited
	h.args = append(h.args, args...)
	h.run()
}

// client makes all requests that do not come from the browser.
var client = &http.Client{Timeout: patience, Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 64}}

// send makes a request and returns the answer.
func send(t *testing.T, method, url string, header http.Header, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, got
}

// get asks the operator's listener.
func (h *hub) get(path string) (int, []byte) {
	h.t.Helper()
	var header http.Header
	if h.token != "" {
		header = http.Header{"Authorization": {"Bearer " + h.token}}
	}
	return send(h.t, http.MethodGet, h.admin+path, header, nil)
}

// api gets what the API answers to a path.
func (h *hub) api(path string, into any) {
	h.t.Helper()
	status, body := h.get("api/v1/" + path)
	if status != http.StatusOK || json.Unmarshal(body, into) != nil {
		h.t.Fatalf("GET %s: %d %s", path, status, body)
	}
}

// form posts a request of a subscriber, which may be refused.
func (h *hub) form(values url.Values) int {
	h.t.Helper()
	status, _ := send(h.t, http.MethodPost, h.public, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(values.Encode()))
	return status
}

func (h *hub) subscribe(topic string, callbacks ...string) {
	h.t.Helper()
	for _, callback := range callbacks {
		values := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}, "hub.secret": {"a secret"}}
		if status := h.form(values); status != http.StatusAccepted {
			h.t.Fatalf("subscribing %s: %d", callback, status)
		}
	}
}

// listed is what matters of a subscription in the list of the API.
type listed struct {
	ID, Callback, State string
	Gaps                int
}

// inState waits until this many subscriptions are in a state, and returns them.
func (h *hub) inState(state string, n int) []listed {
	h.t.Helper()
	var page struct{ Items []listed }
	h.await(func() error {
		h.api("subscriptions?limit=1000&state="+state, &page)
		if len(page.Items) < n {
			return fmt.Errorf("%d subscriptions are %s, want %d", len(page.Items), state, n)
		}
		return nil
	})
	return page.Items
}

// now waits until the page Now has all of these words.
func (h *hub) now(words ...string) {
	h.t.Helper()
	h.await(func() error {
		_, body := h.get("ui/")
		for _, w := range words {
			if !bytes.Contains(body, []byte(w)) {
				return fmt.Errorf("the page Now does not say %q", w)
			}
		}
		return nil
	})
}
