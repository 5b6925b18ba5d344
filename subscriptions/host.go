package subscriptions

import (
	"net"

	"github.com/rshub/rshub/internal/base/egress"
)

// Host selects callbacks by their host, in whatever spelling they have it. The zero Host selects none.
type Host string

// ParseHost reads a host as people write it: a name or an address, with or without a port.
func ParseHost(text string) Host { return Host(egress.Host(text)) }

// Has reports whether the callback of a record is at the host.
func (h Host) Has(r Record) bool {
	at := r.CallbackHost()
	name, _, err := net.SplitHostPort(at)
	return err == nil && (at == string(h) || name == string(h))
}
