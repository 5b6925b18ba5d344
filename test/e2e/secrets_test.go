package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// The secrets of the scenario. What is looked for is what stands here; some are
// used with characters around them that are escaped differently everywhere.
const (
	hubSecret      = "hsOne7fK2mX9wRt4LpB8v"
	renewedSecret  = "hsTwo3kD8nQ5yTs6MwC1x"
	refusedSecret  = "hsThree9pL4bV7zGj2FhN5"
	publisherToken = "ptFour6rJ1cW8qXk3HdY7s"
	hmacSecret     = "hmFive2tM9gZ4vBn8SfA6e"
	adminToken     = "atSix5uP7jE1wCr9KiU3oQ"
	wrongToken     = "wtSeven8yG2lO6xDm4TqI1"
	callbackKey    = "ckEight4aR9hF3zNp7VbJ6"
	proxyPassword  = "ppNine1eS6kB8cLw5XgM2u"
)

// scene is a hub with secrets, and all that it said.
type scene struct {
	*hub
	files   string // the folder of its files of secrets
	sealKey [32]byte
	reader  *receiver
	gone    *httptest.Server // answers verifications, until it is closed
	source  *httptest.Server
	src     *source  // of the topic that the hub serves
	traces  string   // the collector's URL
	log     *os.File // stdout and stderr

	mu      sync.Mutex
	traced  bytes.Buffer // what came to the collector of traces
	answers bytes.Buffer // of the public listener and of commands that ask no hub; errors of the other
	api     bytes.Buffer // of the operator's listener and the commands that ask it
}

// Secrets never leave the hub in a log, an error, an answer, a metric, a trace or
// a crash, nor are they in its data folder, whatever happens to them: accepted,
// replaced, refused, not understood, on the way to what is not there.
func TestSecretsStayIn(t *testing.T) {
	s := newScene(t)
	exited := s.serve()
	s.says(`"event":"listening"`)
	s.subscribeAll()
	s.publishAll()
	s.badForms()
	s.says(`"reason":"gave_up"`)
	s.operate()
	s.reloadBroken()
	eventually(t, time.Minute, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.traced.Len() == 0 {
			return errors.New("no trace has come")
		}
		return nil
	})

	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-exited
	s.says("goroutine ") // its crash output
	s.startWithout()
	s.startAgain()
	s.judge()
}

// judge looks for the secrets in everything.
func (s *scene) judge() {
	log, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	secrets := map[string]string{
		"hub.secret": hubSecret, "the renewed secret": renewedSecret, "a refused secret": refusedSecret, "the token": publisherToken,
		"the HMAC secret": hmacSecret, "the operator's token": adminToken, "a wrong token": wrongToken, "the proxy's password": proxyPassword,
		"the seal key": string(s.sealKey[:]), "the seal key as text": base64.StdEncoding.EncodeToString(s.sealKey[:]),
	}
	asked := s.reader.asked()
	for i, v := range asked {
		if c := v.query["hub.challenge"]; len(c) == 1 {
			secrets[fmt.Sprint("challenge ", i)] = c[0]
		}
	}
	if len(secrets) < 15 {
		s.t.Errorf("only %d secrets were there", len(secrets))
	}
	outputs := map[string][]byte{
		"the API": s.api.Bytes(), "the data folder": folder(s.t, s.dir),
		"the log": log, "an answer": s.answers.Bytes(), "a trace": s.traced.Bytes(),
	}
	for name, output := range outputs {
		if len(output) < 1000 {
			s.t.Errorf("%s has %d bytes only", name, len(output))
		}
		for _, where := range found(secrets, output) {
			s.t.Errorf("%s holds %s", name, where)
		}
	}
	// The operator may see a callback's query, and the store has to keep it.
	for _, name := range []string{"the log", "an answer", "a trace"} {
		for _, where := range found(map[string]string{"a callback's query": callbackKey}, outputs[name]) {
			s.t.Errorf("%s holds %s", name, where)
		}
	}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{hub: newHub(t), files: t.TempDir(), reader: newReceiver(t, 1)}
	s.sealKey = sha256.Sum256([]byte("the seal key of the scenario"))
	s.gone = httptest.NewServer(s.reader)
	t.Cleanup(s.gone.Close)
	s.source = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/foreign/" {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="self", <%s>; rel="hub"`, r.Host, r.URL.Path, s.url()))
		}
		_, _ = io.WriteString(w, "what the topic serves")
	}))
	t.Cleanup(s.source.Close)
	s.write("admin", adminToken)
	s.write("hmac", hmacSecret)
	s.write("keys", "# the key\n"+base64.StdEncoding.EncodeToString(s.sealKey[:])+"\n")
	s.writePublishers()
	s.src, s.traces = newSource(s.source.URL+"/good/"), s.collector()
	var err error
	if s.log, err = os.Create(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.log.Close() })
	return s
}

// writePublishers writes the publishers file as it should be.
func (s *scene) writePublishers() {
	s.t.Helper()
	hash := sha256.Sum256([]byte(publisherToken))
	s.write("publishers.yaml", fmt.Sprintf("publishers:\n- name: a\n  topics: [%s/good/]\n  token_sha256: [%x]\n  hmac_secret_file: hmac\n", s.source.URL, hash))
}

func (s *scene) file(name string) string { return filepath.Join(s.files, name) }

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// serve starts the hub.
func (s *scene) serve() (exited chan struct{}) {
	s.t.Helper()
	return s.run("serve", "--dev", "--listen", s.addr, "--public-url", s.url(), "--admin-listen", s.admin, "--data-dir", s.dir,
		"--admin-token-file", s.file("admin"), "--publishers-file", s.file("publishers.yaml"), "--seal-key-file", s.file("keys"),
		"--publish-auth", "content,token", "--topic-check", "require", "--log-format", "json", "--log-level", "debug",
		"--retry-first", "50ms", "--give-up", "1s", "--otlp-endpoint", s.traces)
}

// run starts the binary, which writes to the log, and tells when it has ended.
func (s *scene) run(args ...string) (exited chan struct{}) {
	s.t.Helper()
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.files, "GOTRACEBACK=system"}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, exited = cmd, make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	s.exited = exited
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	return exited
}

// says waits until the log has a text.
func (s *scene) says(text string) {
	s.t.Helper()
	eventually(s.t, time.Minute, func() error {
		log, err := os.ReadFile(s.log.Name())
		if err == nil && !bytes.Contains(log, []byte(text)) {
			err = fmt.Errorf("the log does not say %s:\n%s", text, log[max(0, len(log)-2000):])
		}
		return err
	})
}

// collector takes traces.
func (s *scene) collector() string {
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				return
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.Copy(&s.traced, body)
	}))
	s.t.Cleanup(c.Close)
	return c.URL
}

// post sends a request to the public listener and keeps the answer.
func (s *scene) post(header http.Header, body []byte, want int) {
	s.t.Helper()
	a := do(s.t, http.MethodPost, s.url(), header, body)
	fmt.Fprintf(&s.answers, "%d %v %s\n", a.status, a.header, a.body)
	if a.status != want {
		s.t.Errorf("answered %d %q, want %d", a.status, a.body, want)
	}
}

// ask sends a form.
func (s *scene) ask(want int, pairs ...string) {
	s.t.Helper()
	a := s.form(pairs...)
	fmt.Fprintf(&s.answers, "%d %v %s\n", a.status, a.header, a.body)
	if a.status != want {
		s.t.Errorf("%v is answered %d %q, want %d", pairs, a.status, a.body, want)
	}
}

// subscribeAll makes subscriptions that come to all possible ends.
func (s *scene) subscribeAll() {
	s.t.Helper()
	const secret = "\"<" + hubSecret + "&=+/"
	query, topic := "?key="+callbackKey, s.source.URL+"/good/"
	s.reader.onGet(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuses":
			http.Error(w, r.URL.RawQuery, http.StatusNotFound)
		case "/moved":
			http.Redirect(w, r, "http://127.0.0.1:2/?"+r.URL.RawQuery, http.StatusFound)
		case "/breaks":
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		}
	})
	s.reader.onPost(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/failing":
			http.Error(w, r.Header.Get("X-Hub-Signature")+r.URL.String(), http.StatusInternalServerError)
		case "/ends":
			w.WriteHeader(http.StatusGone)
		}
	})
	there, nowhere := s.reader.url(0, ""), "http://"+ports.Addr()
	callbacks := []string{
		there + "/ok", there + "/failing", there + "/ends", there + "/leaves", s.gone.URL + "/vanishes",
		there + "/refuses", there + "/moved", there + "/breaks", nowhere + "/absent", "http://no-such-host.invalid/lost",
		strings.Replace(there, "http:", "https:", 1) + "/tls",
	}
	for _, c := range callbacks {
		s.ask(http.StatusAccepted, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", c+query, "hub.secret", secret)
	}
	s.ask(http.StatusAccepted, "hub.mode", "subscribe", "hub.topic", s.source.URL+"/foreign/", "hub.callback", there+"/denied"+query, "hub.secret", refusedSecret)
	s.verified("/ok", "/failing", "/ends", "/leaves", "/vanishes", "/refuses", "/moved", "/denied")
	s.says(`"event":"subscription_denied"`)
	s.says(`"event":"subscription_request_dropped"`)

	s.ask(http.StatusAccepted, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", there+"/ok"+query, "hub.secret", renewedSecret)
	s.ask(http.StatusAccepted, "hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", there+"/leaves"+query)
	s.verified("/ok", "/ok", "/leaves", "/leaves")
	s.says(`"reason":"unsubscribed"`)
	s.gone.CloseClientConnections()
	s.gone.Close()
}

// verified waits until callbacks were asked, as often as they are named.
func (s *scene) verified(paths ...string) {
	s.t.Helper()
	eventually(s.t, time.Minute, func() error {
		left := map[string]int{}
		for _, p := range paths {
			left[p]++
		}
		for _, v := range s.reader.asked() {
			left[v.callback]--
		}
		for p, n := range left {
			if n > 0 {
				return fmt.Errorf("%s was asked %d times too few", p, n)
			}
		}
		return nil
	})
}

// publishAll publishes with all kinds of credentials.
func (s *scene) publishAll() {
	s.t.Helper()
	src := s.src
	with := s.publishWith
	s.post(with(src.topic, "Authorization", "Bearer "+publisherToken), src.next(0), http.StatusOK)
	body := src.next(0)
	s.post(with(src.topic, "X-Hub-Signature", sign(wrongToken, body)), body, http.StatusUnauthorized)
	s.post(with(src.topic, "X-Hub-Signature", hmacSecret), body, http.StatusUnauthorized)
	s.post(with(src.topic, "X-Hub-Signature", sign(hmacSecret, body)), body, http.StatusOK)
	body = src.next(0)
	s.post(with(src.topic, "Authorization", "Bearer "+wrongToken), body, http.StatusUnauthorized)
	s.post(with(src.topic, "Authorization", wrongToken), body, http.StatusUnauthorized)
	s.post(with(src.topic, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+wrongToken))), body, http.StatusUnauthorized)
	s.post(with(s.source.URL+"/other/", "Authorization", "Bearer "+publisherToken), body, http.StatusForbidden)
	s.post(with(src.topic, "", ""), body, http.StatusForbidden)
	later := newSource(src.topic)
	later.until = src.until.Add(time.Hour)
	s.post(with(src.topic, "Authorization", "Bearer "+publisherToken), later.next(0), http.StatusConflict)
	s.post(with(src.topic, "Authorization", "Bearer "+publisherToken), body, http.StatusOK)
	s.signed(body)
}

// publishWith are the headers of a publish with one more, unless that is "".
func (s *scene) publishWith(topic, name, value string) http.Header {
	h := s.publishHeader(topic)
	if name != "" {
		h.Set(name, value)
	}
	return h
}

// signed waits until a body came to its subscriber, signed with the renewed
// secret.
func (s *scene) signed(body []byte) {
	s.t.Helper()
	eventually(s.t, time.Minute, func() error {
		for _, d := range s.reader.got() {
			if strings.HasPrefix(d.callback, "/ok") && bytes.Equal(d.body, body) && d.signature == sign(renewedSecret, body) {
				return nil
			}
		}
		return errors.New("it was not delivered, signed with the renewed secret")
	})
}

// badForms sends what is not understood, with secrets in it.
func (s *scene) badForms() {
	s.t.Helper()
	topic, callback := s.source.URL+"/good/", s.reader.url(0, "/ok?key="+callbackKey)
	s.ask(http.StatusBadRequest, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.secret", strings.Repeat(refusedSecret, 12))
	s.ask(http.StatusBadRequest, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.secret", refusedSecret, "hub.secret", hubSecret)
	s.ask(http.StatusBadRequest, "hub.mode", "subscript", "hub.topic", topic, "hub.callback", callback, "hub.secret", refusedSecret)
	s.ask(http.StatusBadRequest, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "http://["+callbackKey)
	s.ask(http.StatusBadRequest, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "ftp://x/?key="+callbackKey)
	s.ask(http.StatusBadRequest, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "http://me:"+refusedSecret+"@127.0.0.1/", "hub.secret", refusedSecret)
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	s.post(form, []byte("hub.mode=subscribe&hub.secret="+refusedSecret+"%zz"+refusedSecret+"&hub.callback="+callback), http.StatusBadRequest)
	s.post(http.Header{"Content-Type": {"text/" + wrongToken}, "Authorization": {"Bearer " + wrongToken}}, []byte(refusedSecret), http.StatusUnsupportedMediaType)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer " + publisherToken + "\x01\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: hub\r\n" + refusedSecret + "\r\n\r\n",
		"GET /?" + refusedSecret + " HTTP/9\r\n\r\n",
		"\x16\x03\x01" + refusedSecret + "\r\n\r\n",
	} {
		a, err := s.raw(request)
		if err != nil {
			a += err.Error()
		}
		s.answers.WriteString(a + "\n")
	}
}

// operate reads and does all that an operator can, by the API and the commands.
func (s *scene) operate() {
	s.t.Helper()
	api := func(method, path, token string) []byte {
		a := do(s.t, method, "http://"+s.admin+path, http.Header{"Authorization": {"Bearer " + token}}, nil)
		out := &s.api
		if a.status >= 400 {
			out = &s.answers // an error tells no callback either
		}
		fmt.Fprintf(out, "%s %s: %d %v %s\n", method, path, a.status, a.header, a.body)
		return a.body
	}
	var page struct {
		Items []struct{ ID, Callback string }
	}
	failing := ""
	for _, kind := range []string{"topics", "subscriptions"} {
		if err := json.Unmarshal(api("GET", "/api/v1/"+kind, adminToken), &page); err != nil || len(page.Items) == 0 {
			s.t.Errorf("the list of %s: %v", kind, err)
		}
		for _, item := range page.Items {
			if strings.Contains(item.Callback, "/failing") {
				failing = item.ID
			}
			for _, part := range []string{"", "/attempts", "/gaps", "/notifications"} {
				api("GET", "/api/v1/"+kind+"/"+item.ID+part, adminToken)
			}
			api("POST", "/api/v1/"+kind+"/"+item.ID+"/retry", adminToken)
		}
	}
	for _, token := range []string{adminToken, wrongToken, ""} {
		for _, path := range []string{"/api/v1/info", "/api/v1/now", "/api/v1/subscriptions", "/ui/", "/ui/subscriptions", "/ui/hub", "/metrics", "/readyz?verbose", "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline"} {
			api("GET", path, token)
		}
	}
	for _, args := range [][]string{
		{"info"},
		{"top"},
		{"events", "--json"},
		{"topic", "ls"},
		{"sub", "ls"},
		{"sub", "ls", "--json"},
		{"sub", "info", failing},
		{"sub", "attempts", failing},
	} {
		out, err := exec.CommandContext(s.t.Context(), binary, append(args, "--admin-url", "http://"+s.admin, "--admin-token-file", s.file("admin"))...).CombinedOutput()
		if err != nil {
			s.t.Errorf("%v: %v %s", args, err, out)
		}
		s.api.Write(out)
	}
	api("DELETE", "/api/v1/subscriptions/"+failing, adminToken)
	show := []string{
		"--admin-token-file", s.file("admin"), "--seal-key-file", s.file("keys"), "--publishers-file", s.file("publishers.yaml"),
		"--egress-proxy", "http://me:" + proxyPassword + "@127.0.0.1:3128",
	}
	for _, args := range [][]string{
		append([]string{"config", "show", "--effective"}, show...),
		append([]string{"config", "show", "--json"}, show...),
		append([]string{"config", "show"}, show...),
		{"token", "ls", "--publishers-file", s.file("publishers.yaml")},
	} {
		out, err := exec.CommandContext(s.t.Context(), binary, args...).CombinedOutput()
		if err != nil {
			s.t.Errorf("%v: %v %s", args, err, out)
		}
		s.answers.Write(out)
	}
}

// reloadBroken has the hub read a publishers file in which secrets stand where
// they do not belong.
func (s *scene) reloadBroken() {
	s.t.Helper()
	s.write("publishers.yaml", fmt.Sprintf("publishers:\n- name: a\n  topics: ['*']\n  token_sha256: [%s]\n- name: b\n  topics: ['*']\n  hmac_secret: %s\n", publisherToken, hmacSecret))
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.says(`"event":"reload_failed"`)
}

// startAgain starts the hub with its key, which signs as before.
func (s *scene) startAgain() {
	s.t.Helper()
	s.writePublishers()
	s.serve()
	body := s.src.next(0)
	eventually(s.t, time.Minute, func() error {
		header := s.publishWith(s.src.topic, "Authorization", "Bearer "+publisherToken)
		a, err := try(s.t.Context(), http.MethodPost, s.url(), header, body)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("a publish is answered %d %s", a.status, a.body)
		}
		return err
	})
	s.signed(body)
	s.terminate()
}

// startWithout starts hubs on the folder that lack the key, or have a file of
// keys that is none; they end.
func (s *scene) startWithout() {
	s.t.Helper()
	s.write("broken", hex.EncodeToString(s.sealKey[:])+"00\n")
	s.write("other", strings.Repeat("ab", 32)+"\n")
	for name, ends := range map[string]struct {
		says string
		code int
	}{"broken": {"line 1 is not a key", 2}, "other": {"put that key back", 1}, "": {"put that key back", 1}} {
		args := []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", s.dir}
		if name != "" {
			args = append(args, "--seal-key-file", s.file(name))
		}
		select {
		case <-s.run(args...):
		case <-time.After(2 * time.Minute):
			s.t.Fatal("a hub that lacks the key runs")
		}
		if code := s.cmd.ProcessState.ExitCode(); code != ends.code {
			s.t.Errorf("it ended with %d, want %d", code, ends.code)
		}
		s.says(ends.says)
	}
}
