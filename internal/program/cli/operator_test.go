package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/admin"
)

// asked is the status and body of an answer of the operator's listener.
func asked(t *testing.T, s *Server, path, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.operator.URL("localhost")+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The operator's listener follows the rules of the hub's, and its flags need each other.
func TestOperatorRefuses(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := pair(t, dir, 1, time.Now().Add(-time.Hour))
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"can be reached from elsewhere, so it needs a token":                    {"--admin-listen", ":0"},
		"--admin-listen 127.0.0.1:9090":                                         {"--admin-listen", "0.0.0.0:9090"},
		"--listen :9090 and --admin-listen 127.0.0.1:9090 need different ports": {"--listen", ":9090", "--admin-listen", "127.0.0.1:9090"},
		"has 5 characters and needs at least 16":                                {"--admin-listen", ":0", "--admin-token-file", short},
		"--admin-token-file has no effect":                                      {"--admin-token-file", short},
		"--admin-tls-cert has no effect":                                        {"--admin-tls-cert", cert, "--admin-tls-key", key},
		"--admin-tls-cert and --admin-tls-key go together":                      {"--admin-listen", "127.0.0.1:0", "--admin-tls-cert", cert},
		"has run out": {"--admin-listen", "127.0.0.1:0", "--admin-tls-cert", cert, "--admin-tls-key", key},
		`--admin-listen "nonsense" is not an address`:    {"--admin-listen", "nonsense"},
		`--admin-listen "localhost:x" is not an address`: {"--admin-listen", "localhost:x"},
		"no such file": {"--admin-listen", "127.0.0.1:0", "--admin-token-file", filepath.Join(dir, "missing")},
	} {
		if _, err := opened(t, true, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// There is no operator's listener unless a flag says so.
func TestOperatorIsOffByDefault(t *testing.T) {
	s, err := opened(t, true)
	if err != nil {
		t.Fatal(err)
	}
	s.Figures("test", "test", "v1")
	s.Operate(func() []admin.Check { return nil }, func() {})
	s.Serve(t.Context(), http.NotFoundHandler())
	if s.operator.on() {
		t.Error("there is one")
	}
}

// Probes and scrapes need no token, and all else does. Readiness says in words why not, and
// ends with the context, while the other listener still answers.
func TestOperator(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := opened(t, true, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--admin-token-file", token)
	if err != nil {
		t.Fatal(err)
	}
	var wrong error
	looks := 0
	s.Figures("test", "test", "v1")
	s.Operate(func() []admin.Check { return []admin.Check{{Name: "a", Holds: "it holds", Err: wrong}} }, func() { looks++ })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Serve(ctx, http.NotFoundHandler())

	want := func(path, with string, status int, contains string) {
		t.Helper()
		if got, body := asked(t, s, path, with); got != status || !strings.Contains(body, contains) {
			t.Errorf("%s with %q: %d %s, want %d %s", path, with, got, body, status, contains)
		}
	}
	want("livez", "", 200, "ok")
	want("readyz", "", 200, "ok")
	want("readyz?verbose", "", 200, "[+] a: it holds")
	want("metrics", "", 200, "\ntest_ready 1\n")
	want("metrics", "", 200, `test_certificate_not_after_timestamp_seconds{listener="admin"} 0`)
	want("", "", 401, "token")
	want("", "0123456789abcdef", 200, "/readyz")
	want("api/v1/topics", "0123456789abcdef", 404, "nothing")
	want("metrics", "", 200, `test_operator_refused_total{reason="no_token"} 1`)
	wrong = errors.New("it is broken")
	want("readyz", "", 503, "[-] a: it is broken\nnot ready")
	want("metrics", "", 200, "\ntest_ready 0\n")
	if wrong = nil; looks != 4 {
		t.Errorf("%d looks", looks)
	}
	if err := os.WriteFile(token, []byte("another-token-of-the-operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("", "another-token-of-the-operator", 200, "/readyz")
	want("", "0123456789abcdef", 401, "token")
	cancel()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, body := asked(t, s, "readyz", ""); status == 503 {
			if !strings.Contains(body, "[-] draining: the program is shutting down") {
				t.Error(body)
			}
			return
		}
	}
	t.Error("it is ready while it ends")
}
