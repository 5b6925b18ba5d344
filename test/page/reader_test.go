package page

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// read opens streams of topics from an address of this machine, as readers do, and waits until
// the hub has them. A topic that the hub never carried is refused, which is no error. A reader
// that is stuck reads no more than the header of the answer.
func (h *hub) read(ip, token string, stuck bool, topics ...[]string) {
	h.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	h.t.Cleanup(transport.CloseIdleConnections)
	open := 0
	for _, some := range topics {
		req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.public+"?after=earliest&"+url.Values{"hub.topic": some}.Encode(), nil)
		if err != nil {
			h.t.Fatal(err)
		}
		req.Header = http.Header{"Accept": {"text/event-stream"}, "User-Agent": {strings.ReplaceAll(hostile[0], "\n", "")}}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			continue
		}
		open++
		if !stuck {
			go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
		}
	}
	h.await(func() error {
		var page struct{ Items []struct{ Requester string } }
		h.api("streams?limit=1000", &page)
		page.Items = slices.DeleteFunc(page.Items, func(s struct{ Requester string }) bool { return !strings.HasPrefix(s.Requester, ip) })
		if len(page.Items) < open {
			return fmt.Errorf("%d of %d streams are open", len(page.Items), open)
		}
		return nil
	})
}
