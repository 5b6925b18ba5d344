package cli

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The exit code of `health` is 0 or 1, and its one line says why.
func TestHealth(t *testing.T) {
	var host string
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			host = r.Host + r.URL.Path
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	ready := httptest.NewServer(answer(http.StatusOK, "ok\n"))
	defer ready.Close()
	secure := httptest.NewTLSServer(answer(http.StatusOK, "ok\n"))
	defer secure.Close()
	down := httptest.NewServer(answer(http.StatusServiceUnavailable, "[-] store: it is away\n[-] starting: not yet\nnot ready\n"))
	defer down.Close()
	other := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	defer other.Close()
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	port := at(ready)[strings.LastIndexByte(at(ready), ':'):]

	for _, c := range []struct {
		addr   string
		secure bool
		code   int
		want   string
	}{
		{at(ready), false, ExitOK, `^rshub is ready\.\n$`},
		{port, false, ExitOK, `^rshub is ready\.\n$`},
		{"0.0.0.0" + port, false, ExitOK, `^rshub is ready\.\n$`},
		{at(secure), true, ExitOK, `^rshub is ready\.\n$`},
		{at(down), false, ExitFailure, `^rshub health: rshub is not ready: store: it is away; starting: not yet\n$`},
		{at(other), false, ExitFailure, `^rshub health: what answers at .* is not the operator's listener of rshub: 302 Found\n$`},
		{at(ready), true, ExitFailure, `^rshub health: rshub does not answer at .*HTTP`},
		{"127.0.0.1:0", false, ExitFailure, `port that the system chooses`},
		{"", false, ExitFailure, `set --admin-listen`},
		{"here", false, ExitFailure, `"here" is not an address; write host:port`},
	} {
		var out, errs bytes.Buffer
		root := Root("rshub", "", "", Health("rshub", func(*cobra.Command) (string, bool, error) { return c.addr, c.secure, nil }))
		code := Execute(root, []string{"health"}, nil, &out, &errs)
		if got := out.String() + errs.String(); code != c.code || !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: %d, %q; want %d and %s", c.addr, code, got, c.code, c.want)
		}
		if _, p, err := net.SplitHostPort(c.addr); code == ExitOK && (err != nil || host != "localhost:"+p+"/readyz") {
			t.Errorf("%s: it asked for %s", c.addr, host)
		}
	}
}
