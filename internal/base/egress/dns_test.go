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
// next answer; the last one stays. An answer is addresses, or a name that this
// one is an alias of. The name "*" stands for all that are not there.
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
	owner := q.Name
	for {
		answer, known := z.next(strings.TrimSuffix(owner.String(), "."), q.Type)
		if !known {
			m.RCode = dnsmessage.RCodeNameError
		}
		rh := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		alias := ""
		for _, s := range answer {
			a, err := netip.ParseAddr(s)
			switch {
			case err != nil:
				alias = s
			case a.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
		if alias == "" {
			return m.Pack()
		}
		if owner, err = dnsmessage.NewName(alias + "."); err != nil {
			return nil, err
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: rh, Body: &dnsmessage.CNAMEResource{CNAME: owner}})
	}
}

func (z *zone) next(name string, typ dnsmessage.Type) ([]string, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answers, known := z.names[strings.ToLower(name)]
	if !known {
		answers, known = z.names["*"]
	}
	if !known {
		return nil, false
	}
	key := name + " " + typ.String() // A and AAAA are asked for at once
	i := min(z.asked[key], len(answers)-1)
	z.asked[key]++
	return answers[i], true
}
