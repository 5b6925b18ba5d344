package ingress

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/quiet"
)

// gate bounds the connections of a listener, in all and for each network. Where
// there are too many, the one goes that has waited the longest without a request:
// slow and idle clients make room for others, and requests in progress are never
// broken off. Its state may be called from many goroutines.
type gate struct {
	total      int            // 0: no limit
	perNetwork int            // 0: no limit
	exempt     []netip.Prefix // proxies: their connections are those of many clients
	listener   string         // for the log
	log        *slog.Logger
	quiet      *quiet.Limit

	mu       sync.Mutex
	guests   map[net.Conn]*guest
	networks map[string]*crowd // by Network
	waiting  list.List         // of *guest, in the order in which they began to wait
}

// crowd is the connections of one network.
type crowd struct {
	n       int
	waiting list.List // as gate.waiting
}

// guest is one connection. Both elements are nil while it has a request.
type guest struct {
	conn           net.Conn
	network        string
	crowd          *crowd // nil: exempt
	among, inCrowd *list.Element
}

func newGate(o Options) *gate {
	return &gate{
		total: o.Total, perNetwork: o.PerNetwork, exempt: o.Exempt, listener: o.Name, log: o.Log,
		quiet:  quiet.New(limitedEvery, 1),
		guests: make(map[net.Conn]*guest), networks: make(map[string]*crowd),
	}
}

// state is for http.Server.ConnState.
func (g *gate) state(c net.Conn, s http.ConnState) {
	if out := g.change(c, s); out != nil {
		if t, ok := out.(interface{ NetConn() net.Conn }); ok {
			out = t.NetConn() // closing TLS could block
		}
		_ = out.Close() // the server notices
	}
}

// change notes the state of a connection, and returns the one to close, if any.
func (g *gate) change(c net.Conn, s http.ConnState) (out net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s == http.StateNew {
		return g.enter(c)
	}
	v := g.guests[c]
	switch {
	case v == nil: // it went before
	case s == http.StateActive:
		g.busy(v)
	case s == http.StateIdle:
		g.wait(v)
	default:
		g.leave(v)
	}
	return nil
}

// enter adds a connection as the last of those that wait. If there are too many, it returns
// the first of them to be closed: the new one, if all others have requests.
func (g *gate) enter(c net.Conn) (out net.Conn) {
	addr, _ := parseAddr(c.RemoteAddr().String()) // the zero Addr: unknown
	v := &guest{conn: c, network: Network(addr)}
	if g.perNetwork > 0 && !g.isExempt(addr) {
		if v.crowd = g.networks[v.network]; v.crowd == nil {
			v.crowd = &crowd{}
			g.networks[v.network] = v.crowd
		}
		v.crowd.n++
	}
	g.guests[c] = v
	g.wait(v)
	var first *list.Element
	switch {
	case v.crowd != nil && v.crowd.n > g.perNetwork:
		first = v.crowd.waiting.Front()
	case g.total > 0 && len(g.guests) > g.total:
		first = g.waiting.Front()
	default:
		return nil
	}
	goes, _ := first.Value.(*guest)
	g.leave(goes)
	if leftOut, ok := g.quiet.Line(time.Now(), ""); ok {
		g.log.Warn("there are too many connections; those without a request make room", slog.String("event", "connections_limited"),
			slog.String("listener", g.listener), slog.Int("count", leftOut+1), slog.Int("connections", len(g.guests)),
			slog.String("network", goes.network))
	}
	return goes.conn
}

func (g *gate) wait(v *guest) {
	g.busy(v)
	v.among = g.waiting.PushBack(v)
	if v.crowd != nil {
		v.inCrowd = v.crowd.waiting.PushBack(v)
	}
}

func (g *gate) busy(v *guest) {
	if v.among != nil {
		g.waiting.Remove(v.among)
	}
	if v.inCrowd != nil {
		v.crowd.waiting.Remove(v.inCrowd)
	}
	v.among, v.inCrowd = nil, nil
}

func (g *gate) leave(v *guest) {
	g.busy(v)
	delete(g.guests, v.conn)
	if v.crowd == nil {
		return
	}
	if v.crowd.n--; v.crowd.n == 0 {
		delete(g.networks, v.network)
	}
}

func (g *gate) isExempt(addr netip.Addr) bool {
	for _, p := range g.exempt {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
