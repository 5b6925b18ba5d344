package subscriptions

import (
	"net"
	"net/netip"

	"golang.org/x/net/publicsuffix"

	"github.com/rshub/rshub/internal/base/egress"
)

// siteOf returns the site of a callback: the registrable domain of its host (example.co.uk,
// or user.github.io), because its owner can make any number of names below it; or the IPv4
// address; or the IPv6 /64. Any other host is a site by itself.
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
