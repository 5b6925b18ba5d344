package browser

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Why a request is refused.
var (
	// ErrCrossSite: a page of another origin sent the request.
	ErrCrossSite = errors.New("a web page of another origin had a browser send this")
	// ErrHost: a page sent the request to an unknown name. Somebody may have pointed that
	// name here (DNS rebinding), so that page and listener seem to have the same origin.
	ErrHost = errors.New("a browser sent this to a host name that is not one of this listener's")
)

// Local are the host names of this machine.
var Local = []string{"localhost", "127.0.0.1", "::1"}

// IsLocal reports whether a Host header names this machine, with or without a port. A listener on
// loopback that needs no token refuses other names: a page can point a name of its own here (DNS
// rebinding) and then reads the answers, too.
func IsLocal(hostport string) bool { return slices.Contains(Local, hostname(hostport)) }

// Guard refuses changes that a page of another origin makes a browser send. Goroutines may
// share it.
type Guard struct {
	origin *http.CrossOriginProtection
	hosts  []string
}

// NewGuard returns a Guard of a listener with these host names. It ignores their ports.
func NewGuard(hosts ...string) *Guard {
	g := &Guard{origin: http.NewCrossOriginProtection()}
	for _, host := range hosts {
		g.hosts = append(g.hosts, hostname(host))
	}
	return g
}

// Check returns ErrCrossSite or ErrHost for a request that changes something, has one of
// the headers Origin and Sec-Fetch-Site, and is not from a page of the listener's own
// origin. All browsers of today send at least one of them. Programs send neither and may
// use any Host, as proxies, probes and Services of Kubernetes do.
func (g *Guard) Check(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if len(r.Header.Values("Origin")) == 0 && len(r.Header.Values("Sec-Fetch-Site")) == 0 {
		return nil
	}
	if g.origin.Check(r) != nil {
		return ErrCrossSite
	}
	return g.CheckHost(r)
}

// CheckHost returns ErrHost for a request of any method that a browser sent for a page, to an unknown
// name: by DNS rebinding the page could read the answer.
func (g *Guard) CheckHost(r *http.Request) error {
	if len(r.Header.Values("Origin")) == 0 && len(r.Header.Values("Sec-Fetch-Site")) == 0 || slices.Contains(g.hosts, hostname(r.Host)) {
		return nil
	}
	return ErrHost
}

// hostname returns a Host header, or the host of a URL, without its port and in the spelling
// that is compared.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String() // IPv6 addresses have several spellings
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
