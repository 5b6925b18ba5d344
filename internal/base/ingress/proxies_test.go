package ingress

import (
	"net/http"
	"net/http/httptest"
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
	p := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	f.Fuzz(func(t *testing.T, sent, client string) {
		if strings.Contains(client, ",") {
			return // that is more than one
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = "192.0.2.1:99"
		r.Header["X-Forwarded-For"] = []string{sent, client}
		if got := p.Requester(r); got != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%q and %q made %v of a stranger's request", sent, client, got)
		}

		r.RemoteAddr = "10.0.0.1:99"
		got := p.Requester(r)
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q and %q: %v is another spelling of an address", sent, client, got)
		}
		if addr, err := parseAddr(strings.TrimSpace(client)); err == nil && !p.trust(addr) && got != addr {
			t.Errorf("behind %q, %q is taken for %v", sent, client, got)
		}
	})
}

// An IPv6 requester is a /64, however its address is written, and what has no address is one
// requester.
func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := Network(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if got := Network(netip.Addr{}); got != "unknown" {
		t.Errorf("no address: %s", got)
	}
}

func TestRequester(t *testing.T) {
	p := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tc := range []struct {
		remote string
		header []string
		want   string
	}{
		{"192.0.2.1:99", nil, "192.0.2.1"},
		{"192.0.2.1:99", []string{"198.51.100.7"}, "192.0.2.1"}, // nobody said that it is a proxy
		{"10.0.0.1:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.1:99", []string{"203.0.113.5, 198.51.100.7, 10.1.1.1"}, "198.51.100.7"}, // the rightmost that is none of ours
		{"10.0.0.1:99", []string{"203.0.113.5", "198.51.100.7:4711"}, "198.51.100.7"},
		{"[::1]:99", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"[::ffff:10.0.0.1]:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.1:99", []string{"198.51.100.7, unknown, 10.2.2.2"}, "10.2.2.2"}, // what can't be read is not gone past
		{"10.0.0.1:99", []string{""}, "10.0.0.1"},
		{"10.0.0.1:99", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{"10.0.0.1:99", []string{strings.Repeat("10.1.1.1,", 1000) + "10.2.2.2"}, "10.1.1.1"},
		{"pipe", nil, "invalid IP"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = tc.remote
		r.Header["X-Forwarded-For"] = tc.header
		if got := p.Requester(r).String(); got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.remote, tc.header, got, tc.want)
		}
	}
}
