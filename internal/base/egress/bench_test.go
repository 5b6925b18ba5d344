package egress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// What the guard costs a request on a connection that is kept: compare the two.
func BenchmarkPost(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer s.Close()
	guarded := newClient(b, Options{Allow: DevAllow(), UserAgent: "rshub/1"})
	bare := new(http.Transport)
	defer bare.CloseIdleConnections()
	for name, send := range map[string]func(*http.Request) (*http.Response, error){"guarded": guarded.Do, "bare": bare.RoundTrip} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.Repeat("x", 1024)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := send(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}

func BenchmarkPolicy(b *testing.B) {
	c := newClient(b, Options{Allow: DevAllow()})
	addr := netip.MustParseAddr("2606:4700:4700::1111")
	for b.Loop() {
		if c.policy.check(addr) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkBudget(b *testing.B) {
	budget := NewBudget(20)
	for b.Loop() {
		pl, _ := begin(budget, noon, "example.org:443")
		pl.confirm()
	}
}
