package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// The addresses of the network. It leads nowhere, so the public ones may be anybody's.
const (
	gateway     = "10.244.0.1" // of pods; the API server listens there
	podRange    = "10.244.0.0/16"
	serviceIPs  = "10.96.0.0/16"
	dnsIP       = "10.96.0.10"
	publicRange = "11.22.33.0/24"
	outsideIP   = "11.22.33.9" // Sources and subscribers of the tests
)

// network makes a bridge for pods. The addresses of Services and public ones are local here. The
// bridge has a fixed hardware address. Otherwise it takes the lowest one of its pods, which changes
// when a pod comes or goes, and for up to half a minute the other pods cannot reach the gateway.
func network() error {
	for _, line := range []string{
		"link set lo up",
		"link add pods address 02:00:00:00:00:01 type bridge",
		"addr add " + gateway + "/16 dev pods",
		"link set pods up",
		"route add local " + serviceIPs + " dev lo",
		"route add local " + publicRange + " dev lo",
	} {
		if err := command(context.Background(), "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// link makes a network namespace for a pod, with one interface on the bridge.
func link(ctx context.Context, namespace, ip string, number int) error {
	outer := fmt.Sprintf("pod%d", number)
	for _, line := range []string{
		"netns add " + namespace,
		"link add " + outer + " type veth peer name eth0 netns " + namespace,
		"link set " + outer + " master pods up",
		"-n " + namespace + " link set lo up",
		"-n " + namespace + " addr add " + ip + "/16 dev eth0",
		"-n " + namespace + " link set eth0 up",
		"-n " + namespace + " route add default via " + gateway,
	} {
		if err := command(ctx, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// forwarder is a TCP listener that leads each connection to one of its targets, in turns.
type forwarder struct {
	listener net.Listener

	mu      sync.Mutex
	targets []string
	next    int
}

func forward(ctx context.Context, addr string) (*forwarder, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.lead(ctx, c)
		}
	}()
	return f, nil
}

func (f *forwarder) set(targets []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets = targets
}

func (f *forwarder) target() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.targets) == 0 {
		return ""
	}
	f.next++
	return f.targets[f.next%len(f.targets)]
}

// lead copies between a connection and a target. Without a target, or if it refuses, the
// connection is reset, as kube-proxy has it.
func (f *forwarder) lead(ctx context.Context, c net.Conn) {
	in, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	to := f.target()
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", to)
	out, ok := conn.(*net.TCPConn)
	if to == "" || err != nil || !ok {
		_ = in.SetLinger(0)
		_ = in.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{in, out}, {out, in}} {
		both.Go(func() {
			if _, err := io.Copy(way[1], way[0]); err != nil {
				_ = way[1].SetLinger(0)
				_ = way[0].SetLinger(0)
				_ = way[0].Close()
				_ = way[1].Close()
			}
			_ = way[1].CloseWrite()
		})
	}
	both.Wait()
	_ = in.Close()
	_ = out.Close()
}

// names answers questions for addresses: those of Services, and those outside.
type names struct {
	mu  sync.Mutex
	all map[string]string // by the name with its last dot
}

func (n *names) set(name, ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ip == "" {
		delete(n.all, name)
		return
	}
	n.all[name] = ip
}

func (n *names) serve(ctx context.Context) error {
	c, err := new(net.ListenConfig).ListenPacket(ctx, "udp", dnsIP+":53")
	if err != nil {
		return err
	}
	go func() {
		question := make([]byte, 1500)
		for {
			size, from, err := c.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := n.answer(question[:size]); err == nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

func (n *names) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	q := m.Questions[0]
	n.mu.Lock()
	ip, known := n.all[strings.ToLower(q.Name.String())]
	n.mu.Unlock()
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true}, Questions: m.Questions}
	switch {
	case !known:
		reply.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, err
		}
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	return reply.Pack()
}
