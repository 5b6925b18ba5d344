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
		"http://0177.0.0.01./", "http://127.0.0.1../", "http://a..b/", "http://example.org:025/", "http://x@127.0.0.1\\@y/", "http://[64:ff9b:1:a9fe:a9:fe00::]/", "http://[fe80::1%25lo]/", "https://LOCALHOST/", "http://1.2.3.4.5/", "http://\uff11\uff12\uff17.0.0.1/", "://", "http://%31/",
		"http://\u0130.example/", "http://\u212aelvin/",
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
		if strings.ContainsFunc(host, func(r rune) bool { return r > '~' || strings.ContainsRune("%@:/\\?#, \t\r\n\x00", r) }) {
			t.Fatalf("%q passes, and a proxy may take %q for something else", raw, host)
		}
		if p := u.Port(); p == "25" || p == "0" {
			t.Fatalf("%q passes", raw)
		}
	})
}

// Whatever is allowed and whatever else an address holds, one in which an address
// of the metadata service or of the same network is embedded is refused.
func FuzzEmbedded(f *testing.F) {
	f.Add(uint64(0x0064ff9b_00000000), uint64(0), byte(0), byte(169), byte(254))
	f.Add(uint64(0x0064ff9b_0001abcd), uint64(0xffffffff_ffffffff), byte(1), byte(254), byte(1))
	f.Add(uint64(0x2002_0808_0808_0000), uint64(0x1234), byte(5), byte(169), byte(254))
	p, err := newPolicy(prefixes("0.0.0.0/0", "::/0"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, high, low uint64, form, c, d byte) {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], high)
		binary.BigEndian.PutUint64(b[8:], low)
		inner := [4]byte{169, 254, c, d}
		put := func(prefix []byte, at ...int) { // the prefix, the address at these bytes, nothing after it
			copy(b[:], prefix)
			for i, k := range at {
				b[k] = inner[i]
			}
			clear(b[at[3]+1:])
		}
		nat64, local := []byte{0, 0x64, 0xff, 0x9b, 11: 0}, []byte{0, 0x64, 0xff, 0x9b, 0, 1}
		switch form % 10 {
		case 0:
			put(nat64, 12, 13, 14, 15)
		case 1:
			put(local, 12, 13, 14, 15)
		case 2:
			b[8] = 0
			put(local, 6, 7, 9, 10)
		case 3:
			b[8] = 0
			put(local, 7, 9, 10, 11)
		case 4:
			b[8] = 0
			put(local, 9, 10, 11, 12)
		case 5:
			copy(b[:], []byte{0x20, 0x02, 169, 254, c, d})
		case 6:
			copy(b[:], []byte{0x20, 0x01, 0, 0})
			copy(b[12:], []byte{^inner[0], ^inner[1], ^c, ^d})
		case 7: // ISATAP, with either bit
			copy(b[8:], []byte{byte(low & 2), 0, 0x5e, 0xfe, 169, 254, c, d})
		case 8:
			put(make([]byte, 12), 12, 13, 14, 15)
		case 9:
			put([]byte{8: 0xff, 9: 0xff, 11: 0}, 12, 13, 14, 15)
		}
		if addr := netip.AddrFrom16(b); p.check(addr) == nil {
			t.Errorf("%v is called, and leads to %v", addr, netip.AddrFrom4(inner))
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
