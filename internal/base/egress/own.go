package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// checkTo returns nil where an address and port may be called.
func (p policy) checkTo(to netip.AddrPort) *RefusedError {
	addr := to.Addr()
	if refused := p.check(addr); refused != nil {
		return refused
	}
	if p.isOwn(to) {
		return ownRefusal(to.String())
	}
	return checkPort(addr.String(), to.Port())
}

func ownRefusal(at string) *RefusedError {
	return &RefusedError{at, "is this hub itself, which would call itself in a loop; no flag allows it", RefusedOwn}
}

// isOwn reports whether one of the process's own listeners answers at an address.
func (p policy) isOwn(to netip.AddrPort) bool {
	addr := to.Addr().Unmap().WithZone("")
	for _, own := range p.own {
		if own.Port() == to.Port() && (own.Addr().Unmap().WithZone("") == addr || own.Addr().IsUnspecified() && ofThisMachine(addr)) {
			return true
		}
	}
	return false
}

// ofThisMachine reports whether an address is one of the machine's own. They may
// change at any time, so they are asked for anew; that is rare, as the port has to
// be a listener's.
func ofThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().WithZone("") == addr {
			return true
		}
	}
	return false
}

// checkOwn refuses a URL whose host is an address of an own listener, or stands
// for one.
func (p policy) checkOwn(u *url.URL) *RefusedError {
	host, port, err := net.SplitHostPort(HostPort(u))
	if err != nil {
		return nil
	}
	hosts := []string{host}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		if to, err := netip.ParseAddrPort(net.JoinHostPort(host, port)); err == nil && p.isOwn(to) {
			return ownRefusal(u.Hostname())
		}
	}
	return nil
}
