package hub

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxForwarded is how many addresses of an X-Forwarded-For are looked at.
const maxForwarded = 64

// requester is the address that a request came from: that of the connection, or
// where that is a trusted proxy's, the rightmost one in X-Forwarded-For that is
// not. The zero Addr: it can't be told.
func (h *Handler) requester(r *http.Request) netip.Addr {
	addr := remote(r)
	if !h.trusted(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		hop, err := parseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr
		}
		addr = hop
		if !h.trusted(addr) {
			return addr
		}
	}
	return addr
}

// secure reports whether a request came over HTTPS, here or at a trusted proxy.
func (h *Handler) secure(r *http.Request) bool {
	return r.TLS != nil || h.trusted(remote(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func (h *Handler) trusted(addr netip.Addr) bool {
	for _, p := range h.o.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
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
