package egress

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone answers DNS questions over loopback UDP. Each lookup of a name takes its
// next answer; the last one stays.
type zone struct {
	mu    sync.Mutex
	names map[string][][]string
	asked map[string]int
}

// resolver serves answers until the test ends.
func resolver(t *testing.T, names map[string][][]string) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{names: names, asked: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := z.answer(buf[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); wg.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
}

func (z *zone) answer(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	addrs, known := z.next(strings.TrimSuffix(q.Name.String(), "."), q.Type)
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return m.Pack()
}

func (z *zone) next(name string, typ dnsmessage.Type) ([]string, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answers, known := z.names[name]
	if !known {
		return nil, false
	}
	key := name + " " + typ.String() // A and AAAA are asked for at once
	i := min(z.asked[key], len(answers)-1)
	z.asked[key]++
	return answers[i], true
}
