package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/scripts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rspub": main, "rspub-killed": killed})
}

// The scripts run the real command.
func TestScripts(t *testing.T) { scripts.Run(t, "testdata/script", nil, nil) }

// command runs rspub in this process.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// testHub answers with a status and a body, and keeps the last request.
type testHub struct {
	*httptest.Server
	status int
	answer string
	header http.Header
	body   string
}

func newTestHub(t *testing.T) *testHub {
	h := &testHub{status: http.StatusOK, answer: `{"id":"x1"}`}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			h.header, h.body = r.Header.Clone(), string(body)
		}
		if strings.HasPrefix(h.answer, "{") {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(h.status)
		_, _ = io.WriteString(w, h.answer)
	}))
	t.Cleanup(h.Close)
	return h
}

const topic = "https://example.org/changes/"

// A notification is built from flags and posted with the headers of SRC-07.
func TestPublishBuilds_SRC07(t *testing.T) {
	h := newTestHub(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, "", "publish", "--dev", "--hub", h.URL+"/", "--topic", topic, "--token-file", token,
		"--capability-list", "https://example.org/capabilitylist.xml",
		"--from", "2026-11-21T09:00:00Z", "--until", "2026-11-21T10:00:00+01:00", "--updated", "https://example.org/a", "--deleted", "https://example.org/b")
	if code != 0 || !strings.Contains(out, "accepted") || !strings.Contains(out, "x1") {
		t.Fatalf("%d, %s, %s", code, out, errs)
	}
	if h.header.Get("Content-Type") != "application/xml" || h.header.Get("Authorization") != "Bearer t0ken" || !strings.Contains(h.header.Get("Link"), "<"+topic+`>; rel="self"`) {
		t.Errorf("it was posted with %v", h.header)
	}
	n, err := resourcesync.CheckNotification(strings.NewReader(h.body), resourcesync.DefaultLimits)
	if err != nil || n.Entries != 2 || !n.Until.Equal(n.From) || n.Up != "https://example.org/capabilitylist.xml" {
		t.Errorf("%+v, %v\n%s", n, err, h.body)
	}
}

// Before a token is sent over the network unencrypted, there is a warning for each hub. There is
// none on this machine and over https. (No hub here is called.)
func TestPublishWarnsOfTokenInClear(t *testing.T) {
	h := newTestHub(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"publish", "--topic", topic, "--from", "2026-11-21T09:00:00Z", "--created", "https://example.org/a"}
	const warned = "the token goes to http://10.0.0.1/ over the network unencrypted"
	for _, c := range []struct {
		more []string
		n    int
	}{
		{[]string{"--hub", "http://10.0.0.1/", "--token-file", token}, 1},
		{[]string{"--hub", "http://10.0.0.1/", "--hub", "https://10.0.0.1/", "--token-file", token, "--json"}, 1},
		{[]string{"--hub", "http://10.0.0.1/", "--secret-file", token}, 0},
		{[]string{"--hub", "http://10.0.0.1/"}, 0},
		{[]string{"--dev", "--hub", h.URL + "/", "--token-file", token}, 0},
	} {
		_, out, errs := command(t, "", append(args, c.more...)...)
		if n := strings.Count(errs, warned); n != c.n || strings.Count(errs, "unencrypted") != n || strings.Contains(errs+out, "t0ken") || strings.Contains(out, warned) {
			t.Errorf("%v: warned %d times:\n%s%s", c.more, n, errs, out)
		}
	}
}

// A document is sent unchanged, from a file or standard input, signed with a secret.
func TestPublishFile(t *testing.T) {
	h := newTestHub(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, doc, _ := command(t, "", "publish", "--dry-run", "--from", "2026-11-21T09:00:00Z", "--created", "https://example.org/a")
	h.answer = `{"id":"x2","duplicate":true}`
	code, out, errs := command(t, doc, "publish", "--dev", "--json", "--hub", h.URL+"/", "--topic", topic, "--secret-file", secret, "-")
	var got event
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || !got.Duplicate || got.ID != "x2" || got.Entries != 1 || got.Status != 200 {
		t.Errorf("%d, %s, %s, %v", code, out, errs, err)
	}
	if h.body != doc || !strings.HasPrefix(h.header.Get("X-Hub-Signature"), "sha256=") {
		t.Errorf("it was posted with %v:\n%s", h.header, h.body)
	}
	name := filepath.Join(t.TempDir(), "n.xml")
	if err := os.WriteFile(name, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command(t, "", "publish", "--dev", "--hub", h.URL+"/", "--topic", topic, name); code != 0 || h.body != doc {
		t.Errorf("%d, %s", code, errs)
	}
}

// Each refusal has its exit code, and says what to do.
func TestPublishIsRefused(t *testing.T) {
	h, good := newTestHub(t), newTestHub(t)
	args := []string{"publish", "--dev", "--hub", h.URL + "/", "--topic", topic, "--from", "2026-11-21T09:00:00Z", "--created", "https://example.org/a"}
	for _, test := range []struct {
		status int
		answer string
		code   int
		want   string
	}{
		{401, "who?", 4, "--token-file"},
		{403, "no", 4, "no. Give a token or secret that covers the topic with --token-file or --secret-file, or let the topic"},
		{403, `{"type":"x/no-credential","detail":"Publishing here takes a credential."}`, 4, "a credential. Give the credential with --token-file"},
		{403, `{"type":"x/topic-denied","detail":"The topic URI answered 404."}`, 4, "answered 404.\n"},
		{403, `{"type":"x/content-mismatch","detail":"other bytes"}`, 4, "--content-location"},
		{404, "", 4, "own public URL?"},
		{501, "", 4, "own public URL?"},
		{409, `{"type":"x/gap","detail":"there is a gap","expected_from":"2026-11-20T00:00:00Z"}`, 4, "there is a gap. Let it begin at 2026-11-20T00:00:00Z (--from, or from in the document)"},
		{422, "bad", 4, "bad"},
		{302, "", 4, "302"},
		{503, "full", 5, "later"},
		{429, "", 5, "later"},
	} {
		h.status, h.answer = test.status, test.answer
		if code, out, errs := command(t, "", args...); code != test.code || !strings.Contains(errs, test.want) || out != "" {
			t.Errorf("%d: exits %d, %q, %q", test.status, code, out, errs)
		}
	}
	for _, wrong := range [][]string{{"--hub", "hub.example"}, {"--topic", "changes"}, {"--content-location", "x"}} {
		if code, _, errs := command(t, "", append(args, wrong...)...); code != 2 || !strings.Contains(errs, fmt.Sprintf("%s %q is not an http or https URL", wrong[0], wrong[1])) {
			t.Errorf("%v: exits %d, %q", wrong, code, errs)
		}
	}
	for _, refused := range []struct{ hub, flag, want string }{
		{good.URL, "--dev=false", "--dev allows loopback and private addresses"},
		{"http://169.254.169.254/", "--dev", "the metadata service of a cloud"},
	} {
		code, _, errs := command(t, "", "publish", refused.flag, "--hub", refused.hub, "--topic", topic, "--from", "2026-11-21T09:00:00Z", "--created", "https://example.org/a")
		if code != 4 || !strings.Contains(errs, refused.want) || strings.Contains(errs, "running?") {
			t.Errorf("%s is not called: exits %d, %q", refused.hub, code, errs)
		}
	}
	if code, out, _ := command(t, "", append(args, "--hub", good.URL+"/")...); code != 6 || !strings.Contains(out, good.URL) {
		t.Errorf("one of two hubs: exits %d, %q", code, out)
	}
}

// proc is rspub in another process.
type proc struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
	log chan string
}

// start runs rspub serve until it listens.
func start(t *testing.T, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, log: make(chan string, 1000)}
	p.cmd = exec.CommandContext(t.Context(), "rspub", append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			var line struct{ Event, URL string }
			_ = json.Unmarshal(lines.Bytes(), &line)
			if line.Event == "listening" {
				listening <- line.URL
			}
			p.log <- lines.Text()
		}
	}()
	select {
	case p.url = <-listening:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		var all strings.Builder
		for line := range p.log {
			all.WriteString(line + "\n")
		}
		t.Fatalf("it does not listen after a minute\n%s", &all)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// stop ends the process as a person would, and returns its log.
func (p *proc) stop() string {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	var all strings.Builder
	for line := range p.log {
		all.WriteString(line + "\n")
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("it ends with %v\n%s", err, &all)
	}
	return all.String()
}

// said waits for a line of the log.
func (p *proc) said(what string) {
	p.t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case line, ok := <-p.log:
			if !ok {
				p.t.Fatalf("it ended without saying %q", what)
			}
			if strings.Contains(line, what) {
				return
			}
		case <-end:
			p.t.Fatalf("it does not say %q", what)
		}
	}
}

// A folder is served, passes rspub check, and continues after a restart. At SIGTERM rspub exits
// with 0.
func TestServe(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newTestHub(t)
	args := []string{"--dir", dir, "--state-dir", state, "--dev", "--hub", h.URL + "/", "--settle", "10ms", "--list-every", "10ms"}
	p := start(t, args...)
	eventually(t, func() error {
		code, out, errs := command(t, "", "check", "--dev", p.url)
		if code != 0 || strings.Contains(out, "WARN") || !strings.Contains(out, "resourcelist.xml") {
			return fmt.Errorf("check exits %d\n%s%s", code, out, errs)
		}
		return nil
	})
	if resp, err := http.Get(p.url); err != nil || resp.Header.Get("X-Request-Id") == "" { //nolint:noctx // a test
		t.Errorf("it does not pass the ingress: %v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if log := p.stop(); strings.Contains(log, `"level":"warn"`) || strings.Contains(log, `"level":"error"`) {
		t.Errorf("it warns of something:\n%s", log)
	}
	p = start(t, args...)
	eventually(t, func() error {
		if code, out, _ := command(t, "", "check", "--json", "--dev", p.url); code != 0 || !strings.Contains(out, `"failed":0`) {
			return fmt.Errorf("check exits %d\n%s", code, out)
		}
		return nil
	})
	p.stop()
}

// The files with the Source's own credentials are not published.
func TestServeHidesItsCredentials(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	trusted := httptest.NewTLSServer(nil) // for its certificate
	trusted.Close()
	pair := trusted.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"a.txt": []byte("a"), "token": []byte("t0ken"),
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(at(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newTestHub(t)
	p := start(t, "--dir", dir, "--state-dir", at("kept"), "--dev", "--hub", h.URL+"/", "--settle", "10ms", "--list-every", "10ms",
		"--token-file", at("token"), "--tls-cert", at("cert.pem"), "--tls-key", at("key.pem"))
	roots := x509.NewCertPool()
	roots.AddCert(trusted.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}
	defer client.CloseIdleConnections()
	get := func(path string) (status int, body string) {
		resp, err := client.Get(p.url + path) //nolint:noctx // of a test
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
	eventually(t, func() error {
		if status, body := get("resourcelist.xml"); status != http.StatusOK || strings.Count(body, "<url>") != 1 {
			return fmt.Errorf("the list: %d %s", status, body)
		}
		return nil
	})
	for path, want := range map[string]int{
		"data/a.txt": http.StatusOK, "data/token": http.StatusNotFound, "data/kept/lock": http.StatusNotFound,
		"data/cert.pem": http.StatusNotFound, "data/key.pem": http.StatusNotFound,
	} {
		if status, _ := get(path); status != want {
			t.Errorf("%s answers %d", path, status)
		}
	}
	p.stop()
}

// The start reports what keeps hubs and subscribers away, and what to do. It does not fail.
func TestServeChecksItself(t *testing.T) {
	other := newTestHub(t)
	p := start(t, "--dir", t.TempDir(), "--state-dir", t.TempDir(), "--dev", "--public-url", other.URL+"/", "--hub", "http://"+ports.Addr()+"/")
	p.said("public_url_unreachable")
	p.said("topic_check_failing")
	p.said("hub_unreachable")
	p.stop()
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute: %v", err)
		}
	}
}
