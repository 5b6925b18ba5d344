package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestHealth(t *testing.T) {
	answer := func(status int, text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("it asks for %s", r.URL)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
	}
	up := httptest.NewServer(answer(http.StatusOK, "ok\n"))
	defer up.Close()
	secure := httptest.NewTLSServer(answer(http.StatusOK, "ok\n"))
	defer secure.Close()
	down := httptest.NewServer(answer(http.StatusServiceUnavailable, "[-] store: the disk is full\n[-] drain: it is ending\nnot ready\n"))
	defer down.Close()
	other := httptest.NewServer(answer(http.StatusTeapot, "hello"))
	defer other.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tc := range []struct {
		addr   string
		secure bool
		code   int
		says   string
	}{
		{up.Listener.Addr().String(), false, ExitOK, "ready\n"},
		{strings.Replace(up.Listener.Addr().String(), "127.0.0.1", "0.0.0.0", 1), false, ExitOK, "ready\n"},
		{strings.Replace(up.Listener.Addr().String(), "127.0.0.1", "", 1), false, ExitOK, "ready\n"},
		{secure.Listener.Addr().String(), true, ExitOK, "ready\n"},
		{down.Listener.Addr().String(), false, ExitFailure, "not ready: [-] store: the disk is full"},
		{other.Listener.Addr().String(), false, ExitFailure, "it answers 418"},
		{gone.Listener.Addr().String(), false, ExitFailure, "nothing answers at"},
		{"", false, ExitUsage, "--admin-listen"},
		{"nothing", false, ExitUsage, "--admin-listen"},
	} {
		var out, errs bytes.Buffer
		root := Root("prog", "", "v1", HealthOf("prog", func(*cobra.Command) (string, bool, error) { return tc.addr, tc.secure, nil }))
		if code := Execute(root, []string{"health"}, nil, &out, &errs); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.says) {
			t.Errorf("%q: %d, %s%s", tc.addr, code, &out, &errs)
		}
	}
}
