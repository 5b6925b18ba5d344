package egress

import (
	"encoding/binary"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Whatever a resolver may take for an address is judged as that address: where
// CheckLiteral says nothing, neither the strict parser nor inet_aton reads one
// that is refused.
func FuzzCheckLiteral(f *testing.F) {
	for _, s := range []string{
		"http://example.org/", "http://127.0.0.1:80/?a=b", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "http://0x7f.1/",
		"http://0177.0.0.01./", "http://[fe80::1%25lo]/", "https://LOCALHOST/", "http://1.2.3.4.5/", "http://\uff11\uff12\uff17.0.0.1/", "://", "http://%31/",
	} {
		f.Add(s)
	}
	c, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if c.CheckLiteral(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" {
			t.Fatalf("nothing to say of %q, which has no host", raw)
		}
		host := strings.TrimSuffix(u.Hostname(), ".")
		if a, err := netip.ParseAddr(host); err == nil {
			if r := c.policy.check(a); r != nil {
				t.Fatalf("%q passes, but %v", raw, r)
			}
			return
		}
		if a, ok := inetAton(host); ok {
			t.Fatalf("%q passes, but some take it for %v", raw, a)
		}
	})
}

// inetAton is the C library's reading of an IPv4 address.
func inetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		if strings.ContainsAny(p, "_oObB+-") && !strings.HasPrefix(strings.ToLower(p), "0x") {
			return netip.Addr{}, false
		}
		n, err := strconv.ParseUint(p, 0, 32)
		if err != nil || strings.Contains(p, "_") {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return netip.Addr{}, false
			}
			v = v<<8 | n
			continue
		}
		width := 8 * (5 - len(parts))
		if n >= 1<<width {
			return netip.Addr{}, false
		}
		v = v<<width | n
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v)))), true
}
