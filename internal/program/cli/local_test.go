package cli

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// openLocal opens the listener of some flags.
func openLocal(t *testing.T, args ...string) (*Local, error) {
	t.Helper()
	var f LocalFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Add(flags, "rspub", "relay", "0", "it is tested")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f.Open(t.Context(), "test", slog.New(slog.DiscardHandler))
}

// An address that others can reach needs a token; a socket belongs to this user alone, and one
// that nobody listens at any more is replaced.
func TestLocalListener(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-16-chars"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "needs a token"},
		{[]string{"--listen", ":0"}, "needs a token"},
		{[]string{"--listen", "192.0.2.1:0"}, "needs a token"},
		{[]string{"--listen", "8091"}, "is not an address to listen on"},
		{[]string{"--listen", "nonsense"}, "is not an address to listen on"},
		{[]string{"--listen", "localhost:"}, "is not an address to listen on"},
		{[]string{"--listen", "nonsense", "--token-file", token}, "is not an address to listen on"},
		{[]string{"--listen", "unix:"}, "lacks the path"},
		{[]string{"--listen", "/run/relay.sock"}, "unix:/run/relay.sock"},
		{[]string{"--listen", "0.0.0.0:0", "--token-file", token}, ""},
		{[]string{"--listen", "localhost:0"}, ""},
		{[]string{"--listen", "[::1]:0", "--token-file", token + ".none"}, "--token-file"},
		{[]string{"--listen", "unix:" + token}, "is no socket"},
		{[]string{"--listen", "unix:" + filepath.Join(t.TempDir(), "s"), "--tls-cert", "c", "--tls-key", "k"}, "has no TLS"},
		{[]string{"--listen", "unix:" + filepath.Join(t.TempDir(), "none", "s")}, "opening the socket"},
	} {
		s, err := openLocal(t, tc.args...)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
		if err == nil {
			s.Stop(t.Context(), 0)
		}
	}
}

func TestLocalSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := stale.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false) // as a kill leaves it
	}
	_ = stale.Close()
	s, err := openLocal(t, "--listen", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if _, err := openLocal(t, "--listen", "unix:"+path); err == nil || !strings.Contains(err.Error(), "another program listens") {
		t.Errorf("a second one: %v", err)
	}
	s.Serve(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(text) != "here" || s.At() != "unix:"+path {
		t.Errorf("%q at %s", text, s.At())
	}
	s.Stop(t.Context(), 0)
	if rest, err := os.ReadDir(filepath.Dir(path)); err != nil || len(rest) > 0 {
		t.Errorf("there are left %v, %v", rest, err)
	}
}
