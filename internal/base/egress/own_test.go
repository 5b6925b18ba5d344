package egress

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// The process does not call its own listeners, whatever is allowed: not by their
// addresses, not by names that always or only now lead there.
func TestOwnListenersAreNotCalled(t *testing.T) {
	called := 0
	own := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	defer own.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	at := netip.MustParseAddrPort(own.Listener.Addr().String())
	_, port, _ := net.SplitHostPort(at.String())
	_, otherPort, _ := net.SplitHostPort(other.Listener.Addr().String())
	names := map[string][][]string{"hub.example": {{"127.0.0.1"}}, "mapped.example": {{"::ffff:127.0.0.1"}}}

	for why, listens := range map[string]netip.AddrPort{
		"at its address":       at,
		"at all, of IPv4":      netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()),
		"at all, as they come": netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port()),
	} {
		var told []Refusal
		c := newClient(t, Options{
			Allow: DevAllow(), Own: []netip.AddrPort{listens}, Resolver: resolver(t, names),
			Refused: func(r Refusal) { told = append(told, r) },
		})
		get := func(host string) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		var refused *RefusedError
		for _, host := range []string{"127.0.0.1:" + port, "[::ffff:127.0.0.1]:" + port, "localhost:" + port, "x.localhost.:" + port} {
			if err := c.CheckLiteral("http://" + host + "/"); !errors.As(err, &refused) || refused.Kind != RefusedOwn {
				t.Errorf("%s, %s: %v", why, host, err)
			}
		}
		for _, host := range []string{"127.0.0.1:" + port, "hub.example:" + port, "mapped.example:" + port} {
			if err := get(host); !errors.As(err, &refused) || refused.Kind != RefusedOwn {
				t.Errorf("%s, a call to %s: %v", why, host, err)
			}
		}
		if len(told) != 7 {
			t.Errorf("%s: told %v", why, told)
		}
		for _, host := range []string{"127.0.0.1:" + otherPort, "hub.example:" + otherPort} {
			if err := errors.Join(c.CheckLiteral("http://"+host+"/"), get(host)); err != nil {
				t.Errorf("%s: its neighbour %s: %v", why, host, err)
			}
		}
	}
	if called != 0 {
		t.Errorf("it was called %d times", called)
	}
}

// A listener at all addresses is at those of the machine, and at no others.
func TestOfThisMachine(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p := netip.MustParsePrefix(a.String()); !ofThisMachine(p.Addr()) {
			t.Errorf("%v is not", p)
		}
	}
	p := policy{own: []netip.AddrPort{netip.MustParseAddrPort("[::]:8080")}}
	for to, want := range map[string]bool{"127.9.9.9:8080": true, "[::1]:8080": true, "127.0.0.1:8081": false, "192.0.2.1:8080": false, "[2001:db8::1]:8080": false} {
		if got := p.isOwn(netip.MustParseAddrPort(to)); got != want {
			t.Errorf("%s: %t", to, got)
		}
	}
}
