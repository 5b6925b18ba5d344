package page

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

// receivers is a server for callbacks. The first part of a path says how a delivery is answered.
// Every request for verification is confirmed. A GET of /page/... is answered with a page that
// tries to run scripts, with a word of nearly 1 MiB: pages show no longer documents.
//
//	/ok/...       204
//	/400/...      400 with a body
//	/500/...      500 with a body
//	/hostile/...  400 with a body that tries to run scripts
//	/hang/...     nothing, until the test ends
type receivers struct {
	url string // without a slash at the end
	// close ends it, as the end of the test does.
	close func()
	ended chan struct{}
}

// receive starts a server for callbacks on an address of this machine, such as 127.0.0.2.
func receive(t *testing.T, ip string) *receivers {
	t.Helper()
	r := &receivers{ended: make(chan struct{})}
	_, port, _ := net.SplitHostPort(ports.Addr())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip, port))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}}
	s.Start()
	r.close = sync.OnceFunc(func() { close(r.ended); s.CloseClientConnections(); s.Close() })
	t.Cleanup(r.close)
	r.url = "http://" + listener.Addr().String()
	return r
}

func (r *receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet && strings.HasPrefix(req.URL.Path, "/page/") {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.Join(hostile, "\n")+strings.Repeat("w", 1<<20-16<<10))
		return
	}
	if req.Method == http.MethodGet {
		_, _ = io.WriteString(w, req.URL.Query().Get("hub.challenge"))
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	how, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	switch how {
	case "400":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "Nothing is known of this topic\n")
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "Cannot write to the index: no space left on device\n")
	case "hostile":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, strings.Join(hostile, "\n"))
	case "hang":
		select {
		case <-r.ended:
		case <-req.Context().Done():
		}
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
