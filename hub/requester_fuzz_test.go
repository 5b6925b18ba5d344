package hub

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// Whatever a client writes into X-Forwarded-For, the address that our own proxy
// appends is what counts; and without a proxy of ours nothing there does.
func FuzzRequester(f *testing.F) {
	for _, s := range []string{
		"", "203.0.113.5", "203.0.113.5, 10.1.1.1", "unknown", "[2001:db8::1]:4711, for=x", ",,,", "::ffff:10.0.0.1%eth0",
		strings.Repeat("10.1.1.1,", 70),
	} {
		f.Add(s, "198.51.100.7")
	}
	f.Add("10.0.0.1", "[2001:db8::7]:99")
	f.Add("x", "fe80::1%eth0")
	h := &Handler{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	f.Fuzz(func(t *testing.T, sent, client string) {
		if strings.Contains(client, ",") {
			return // that is more than one
		}
		r := newRequest(http.MethodPost, hubURL, nil)
		r.RemoteAddr = "192.0.2.1:99"
		r.Header["X-Forwarded-For"] = []string{sent, client}
		if got := h.proxies.requester(r); got != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%q and %q made %v of a stranger's request", sent, client, got)
		}

		r.RemoteAddr = "10.0.0.1:99"
		got := h.proxies.requester(r)
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q and %q: %v is another spelling of an address", sent, client, got)
		}
		if addr, err := parseAddr(strings.TrimSpace(client)); err == nil && !h.proxies.trust(addr) && got != addr {
			t.Errorf("behind %q, %q is taken for %v", sent, client, got)
		}
	})
}
