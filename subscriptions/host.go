package subscriptions

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

// Host selects callbacks by their host, in whatever spelling they have it. The zero Host selects none.
type Host struct{ name, port string } // port: empty for any

// ParseHost reads a host as people write it: a name or an address, with or without a port.
func ParseHost(text string) Host {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && addr.Is6() {
		text = "[" + addr.String() + "]"
	}
	u := url.URL{Scheme: "http", Host: text}
	name, port, err := net.SplitHostPort(egress.HostPort(&u))
	if u.Port() == "" || err != nil {
		port = ""
	}
	return Host{name, port}
}

// Has reports whether the callback of a record is at the host.
func (h Host) Has(r Record) bool {
	name, port, err := net.SplitHostPort(r.CallbackHost())
	return err == nil && name == h.name && (h.port == "" || port == h.port)
}
