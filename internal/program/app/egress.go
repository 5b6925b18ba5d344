package app

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/rshub/rshub/internal/base/egress"
)

// egressClient returns the client for all calls to URLs that strangers name.
func (a *App) egressClient() (*egress.Client, error) {
	o := egress.Options{
		Allow:     a.cfg.AllowCIDR,
		PerHost:   a.cfg.PerHost,
		Idle:      2 * a.cfg.MaxInflight,
		UserAgent: userAgent(a.version, a.hubURL),
		RootCAs:   a.cfg.RootCAs,
		Resolver:  a.resolver,
		Refused:   a.metrics.Refused,
		Own:       addressesOf(a.public, a.admin),
	}
	if a.cfg.EgressProxy != "" {
		u, err := url.Parse(string(a.cfg.EgressProxy))
		if err != nil {
			return nil, fmt.Errorf("egress-proxy: %w", egress.WithoutURL(err))
		}
		o.Proxy = u
	}
	return egress.New(o)
}

// addressesOf are the addresses at which listeners listen.
func addressesOf(listeners ...net.Listener) (all []netip.AddrPort) {
	for _, l := range listeners {
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			all = append(all, tcp.AddrPort())
		}
	}
	return all
}
