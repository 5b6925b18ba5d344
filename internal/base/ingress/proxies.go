package ingress

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForwarded is how many addresses of an X-Forwarded-For are read.
const maxForwarded = 64

// Proxies are the ranges of the proxies that a listener trusts.
type Proxies []netip.Prefix

// Requester is the address that a request came from: that of the connection or, if that
// is a trusted proxy, the rightmost address in X-Forwarded-For that is not one. The zero
// Addr: unknown.
func (p Proxies) Requester(r *http.Request) netip.Addr {
	addr := remote(r)
	if !p.trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		hop, err := parseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr
		}
		addr = hop
		if !p.trust(addr) {
			return addr
		}
	}
	return addr
}

// HTTPS reports whether a request came over HTTPS, here or at a trusted proxy.
func (p Proxies) HTTPS(r *http.Request) bool {
	return r.TLS != nil || p.trust(remote(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// Sent reports whether a request came straight from one of the proxies.
func (p Proxies) Sent(r *http.Request) bool { return p.trust(remote(r)) }

// Network is what counts as one requester: an IPv4 address, or an IPv6 /64, since that
// much belongs to one household.
func Network(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "unknown"
	case addr.Unmap().Is4():
		return addr.Unmap().String()
	}
	p, _ := addr.Prefix(64) // an IPv6 address has as many bits
	return p.String()
}

func (p Proxies) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(r netip.Prefix) bool { return r.Contains(addr) })
}

func remote(r *http.Request) netip.Addr {
	addr, _ := parseAddr(r.RemoteAddr)
	return addr
}

// parseAddr reads an address with or without a port.
func parseAddr(s string) (netip.Addr, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), nil
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err
}
