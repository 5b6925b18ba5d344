package ingress

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// caller is a connection that only has an address, and knows when it was closed.
type caller struct {
	net.Conn
	from   string
	closed bool
}

func (c *caller) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}
func (c *caller) Close() error { c.closed = true; return nil }

// overTLS is a caller as net/http shows one that speaks TLS. Its own Close would
// have to say farewell.
type overTLS struct{ *caller }

func (c overTLS) NetConn() net.Conn { return c.caller }
func (c overTLS) Close() error      { panic("a farewell") }

// house is a gate and those who came to it.
type house struct {
	*gate
	t       *testing.T
	callers []*caller
}

func newHouse(t *testing.T, total, each int, exempt ...string) *house {
	var proxies []netip.Prefix
	for _, s := range exempt {
		proxies = append(proxies, netip.MustParsePrefix(s))
	}
	return &house{gate: newGate(Options{Name: "public listener", Total: total, PerNetwork: each, Exempt: proxies, Log: slog.New(slog.DiscardHandler)}), t: t}
}

// come has n connections from an address come in.
func (h *house) come(n int, from string) {
	for range n {
		c := &caller{from: from}
		h.callers = append(h.callers, c)
		h.state(c, http.StateNew)
	}
}

// gone checks which were closed, by number.
func (h *house) gone(want ...int) {
	h.t.Helper()
	closed := map[int]bool{}
	for _, i := range want {
		closed[i] = true
	}
	for i, c := range h.callers {
		if c.closed != closed[i] {
			h.t.Errorf("connection %d from %s: closed %t", i, c.from, c.closed)
		}
	}
}

// Over the limit of its network the connection goes that has waited the longest
// for a request.
func TestOneNetworkTakesNoMoreThanItsConnections(t *testing.T) {
	h := newHouse(t, 100, 3)
	h.come(3, "192.0.2.1")
	h.come(3, "192.0.2.2")
	h.gone()
	h.come(1, "192.0.2.1")
	h.gone(0)
	h.state(h.callers[1], http.StateActive)
	h.state(h.callers[2], http.StateActive)
	h.state(h.callers[2], http.StateIdle) // behind number 6 now
	h.come(1, "192.0.2.1")
	h.gone(0, 6)
}

// A connection with a request is never closed: rather the one that comes.
func TestRequestsInProgressStay(t *testing.T) {
	h := newHouse(t, 4, 2)
	h.come(2, "192.0.2.1")
	h.state(h.callers[0], http.StateActive)
	h.state(h.callers[1], http.StateActive)
	h.come(1, "192.0.2.1")
	h.gone(2)
	h.come(2, "192.0.2.3")
	h.state(h.callers[3], http.StateActive)
	h.state(h.callers[4], http.StateActive)
	h.come(1, "192.0.2.4") // the house is full
	h.gone(2, 5)
	h.state(h.callers[4], http.StateClosed)
	h.come(1, "192.0.2.4")
	h.gone(2, 5)
}

// In all there are no more than the total, whoever they are.
func TestAllNetworksTakeNoMoreThanTheTotal(t *testing.T) {
	h := newHouse(t, 3, 2, "198.51.100.0/24")
	h.come(1, "192.0.2.1")
	h.come(1, "192.0.2.2")
	h.come(2, "198.51.100.7")
	h.gone(0)
	h.come(3, "198.51.100.7")
	h.gone(0, 1, 2, 3)
	if n := len(h.guests); n != 3 || h.waiting.Len() != 3 {
		t.Errorf("%d connections", n)
	}
}

// A /64 of IPv6 is one network, an IPv4 address as well, however it is written; a
// trusted proxy is none.
func TestNetworks(t *testing.T) {
	h := newHouse(t, 100, 2, "2001:db8:9::1/128")
	h.come(1, "2001:db8:1:2::1")
	h.come(1, "2001:db8:1:2:ffff::1")
	h.come(1, "2001:db8:1:3::1")
	h.come(2, "::ffff:192.0.2.1")
	h.come(5, "2001:db8:9::1")
	h.gone()
	h.come(1, "2001:db8:1:2::2")
	h.come(1, "192.0.2.1")
	h.gone(0, 3)
	h.come(3, "2001:db8:9::2") // beside the proxy
	h.gone(0, 3, 12)
}

// Nothing is kept of those that left, however they did.
func TestGateForgets(t *testing.T) {
	h := newHouse(t, 5, 2)
	for range 3 {
		h.come(2, "192.0.2.1")
		h.come(4, "192.0.2.2")
		h.come(3, "192.0.2.3")
	}
	for i, c := range h.callers {
		if i%2 == 0 {
			h.state(c, http.StateActive)
		}
		h.state(c, http.StateClosed)
		h.state(c, http.StateClosed)
	}
	if len(h.guests) != 0 || len(h.networks) != 0 || h.waiting.Len() != 0 {
		t.Errorf("%d connections, %d networks, %d waiting", len(h.guests), len(h.networks), h.waiting.Len())
	}
}

// With TLS the connection below is closed, without a farewell for which it could
// have to wait; and the log says so once a minute.
func TestGateClosesBelowTLSAndSaysSo(t *testing.T) {
	log, lines := logged()
	h := newHouse(t, 10, 1)
	h.log = log
	for range 5 {
		c := &caller{from: "192.0.2.1"}
		h.callers = append(h.callers, c)
		h.state(overTLS{c}, http.StateNew)
	}
	h.gone(0, 1, 2, 3)
	got := lines()
	if len(got) != 1 {
		t.Fatalf("%d lines", len(got))
	}
	if got := got[0]; got["event"] != "connections_limited" || got["count"] != 1.0 || got["network"] != "192.0.2.1" {
		t.Errorf("%v", got)
	}
}
