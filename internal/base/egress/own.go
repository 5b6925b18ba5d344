package egress

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
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
	return slices.ContainsFunc(p.own, func(own netip.AddrPort) bool {
		return own.Port() == to.Port() && (own.Addr().Unmap().WithZone("") == addr || own.Addr().IsUnspecified() && ofThisMachine(addr))
	})
}

// ofThisMachine reports whether an address is one of the machine. The addresses may change at
// any time, so they are read for each call. Calls are rare, because the port must be that of
// a listener.
func ofThisMachine(addr netip.Addr) bool {
	all, _ := net.InterfaceAddrs() // without them only loopback is known
	return addr.IsLoopback() || slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == addr
	})
}

// checkOwn refuses a URL whose host is an address of an own listener, or stands
// for one.
func (p policy) checkOwn(u *url.URL) *RefusedError {
	host, port, err := net.SplitHostPort(HostPort(u))
	if err != nil {
		return nil
	}
	hosts := []string{host}
	if isLocalhost(host) {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		if to, err := netip.ParseAddrPort(net.JoinHostPort(host, port)); err == nil && p.isOwn(to) {
			return ownRefusal(u.Hostname())
		}
	}
	return nil
}

// isLocalhost reports whether a name stands for the machine (RFC 6761, 6.3).
func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
