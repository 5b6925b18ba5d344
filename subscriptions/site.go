package subscriptions

import (
	"net"
	"net/netip"

	"golang.org/x/net/publicsuffix"

	"github.com/rshub/rshub/internal/base/egress"
)

// siteOf is what counts as one callback site: the registrable domain of the
// callback's host (example.co.uk, or user.github.io), since whoever has one can
// make any number of names below it; an IPv4 address; an IPv6 /64. A host that is
// none of these is a site by itself.
func siteOf(callback string) string {
	host, _, err := net.SplitHostPort(egress.HostPortOf(callback))
	if err != nil {
		return ""
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap().WithZone("")
		if p, err := addr.Prefix(64); addr.Is6() && err == nil {
			return p.String()
		}
		return addr.String()
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}
