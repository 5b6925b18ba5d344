package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	victimAddr, honestAddr = "127.0.0.2", "127.0.0.3"
	reflectBudget          = 20
	strangersPart          = reflectBudget / 2 // the rest is the reserve
)

var reflectedFlag = flag.Int("reflected", 1000, "requests under one name of the victim, and under as many names, as callback and as topic")

// kind is a way in which strangers may have a hub call a victim: the i-th request
// of n.
type kind struct {
	name string
	n    int
	of   func(i int) form
}

// kinds are all of them, by one name of the victim and by a name for each request.
func kinds(hubURL string, v *victim, h *honest) []kind {
	reflected := *reflectedFlag
	names := func(i int) string { return fmt.Sprintf("http://n%d.victim.test:%s/%d", i, v.port, i) }
	one := func(i int) string { return fmt.Sprintf("http://victim.test:%s/%d", v.port, i) }
	elsewhere := func(i int) string { return fmt.Sprintf("http://c%d.elsewhere.test:%s/%d", i, h.port, i) }
	return []kind{
		{"callback, one name", reflected, func(i int) form { return subscription(h.url+"/topic", one(i)) }},
		{"callback, many names", reflected, func(i int) form { return subscription(h.url+"/topic", names(i)) }},
		{"topic, one name", reflected, func(i int) form { return subscription(one(i), elsewhere(i)) }},
		{"topic, many names", reflected, func(i int) form { return subscription(names(i), elsewhere(i)) }},
		{"denial", reflected / 5, func(i int) form { return subscription(fmt.Sprintf("%s/unlisted/%d", h.url, i%10), names(reflected+i)) }},
		{"ping", reflected / 25, func(i int) form {
			f := url.Values{"hub.mode": {"publish"}}
			for n := range 50 {
				f.Add("hub.url", names(i*50+n))
				f.Add("hub.url", one(i*50+n))
			}
			return form{media: "application/x-www-form-urlencoded", body: f.Encode()}
		}},
		{"publish", reflected / 5, func(i int) form {
			return form{"application/xml", notification(0, 1), fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, names(i), hubURL)}
		}},
	}
}

// startReflecting starts a hub with a budget, and hosts around it.
func startReflecting(t *testing.T) (*reflector, *victim, *honest, []kind) {
	t.Helper()
	names := answerNames(t)
	// Each requester has limits of its own, so the attack comes from 200 of them.
	a := newApp(t, "--trusted-proxy=127.0.0.1", "--topic-check=require", fmt.Sprintf("--verify-budget=%d", reflectBudget), "--max-pending=100000")
	a.resolver = names
	v := startVictim(t)
	h := startHonest(t, a)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	// One address alone cannot fill the queue of requests.
	strangers := []string{"127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4", "127.0.1.5", "127.0.1.6"}
	return newReflector(t, "http://"+a.Addr()+"/", strangers...), v, h, kinds(a.HubURL(), v, h)
}

// A hub must not be a cannon: whatever strangers send it, one victim gets no more
// than strangers' fraction of --verify-budget in any minute while it confirms none of the requests.
// That is so under one name and under many (-reflected), as callback and as topic, by subscriptions, pings and
// publishes, all at once. Honest subscribers elsewhere are still verified.
func TestReflector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	r, victim, honest, all := startReflecting(t)
	start := time.Now()
	for round, k := range all {
		r.send(k.name, k.n, attacker, k.of)
		honest.subscribe(t, r, round)
	}
	t.Logf("%d requests were accepted and %d put off in %v; the victim got %d", r.accepted.Load(), r.putOff.Load(), time.Since(start).Round(time.Second), victim.count())
	if r.accepted.Load() < int64(*reflectedFlag) {
		t.Errorf("only %d requests were accepted", r.accepted.Load())
	}
	victim.check(t)
}

// Each kind alone does reach the victim, as often as the budget says.
func TestReflectorByEachKind(t *testing.T) {
	t.Parallel()
	for i := range kinds("", new(victim), new(honest)) {
		r, victim, _, all := startReflecting(t)
		k := all[i]
		t.Run(k.name, func(t *testing.T) {
			r.send(k.name, min(k.n, 200), attacker, k.of)
			for start := time.Now(); victim.count() < strangersPart; time.Sleep(10 * time.Millisecond) {
				if time.Since(start) > time.Minute {
					t.Fatalf("the victim got %d requests", victim.count())
				}
			}
			victim.check(t)
		})
	}
}

// reflector sends what strangers may send.
type reflector struct {
	t      *testing.T
	hub    string
	client *http.Client
	// accepted were answered 200 or 202, putOff 429 or 503.
	accepted, putOff atomic.Int64
}

// form is a request to the hub.
type form struct{ media, body, link string }

func subscription(topic, callback string) form {
	f := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
	return form{media: "application/x-www-form-urlencoded", body: f.Encode()}
}

// newReflector sends from some addresses in turn, or from the usual one.
func newReflector(t *testing.T, hub string, from ...string) *reflector {
	t.Helper()
	var turn atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		if len(from) > 0 {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from[int(turn.Add(1))%len(from)])}
		}
		return d.DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &reflector{t: t, hub: hub, client: &http.Client{Transport: transport}}
}

func attacker(i int) string { return fmt.Sprintf("198.51.100.%d", i%200) }
func subscriber(int) string { return "203.0.113.1" }

// send makes n requests, 16 at a time, the i-th of them from an address.
func (r *reflector) send(what string, n int, from func(int) string, of func(int) form) {
	r.t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := r.one(from(int(i)), of(int(i))); err != nil {
					r.t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (r *reflector) one(from string, f form) error {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.hub, strings.NewReader(f.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", f.media)
	req.Header.Set("X-Forwarded-For", from)
	if f.link != "" {
		req.Header.Set("Link", f.link)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch s := resp.StatusCode; {
	case err != nil:
		return err
	case s/100 == 2:
		r.accepted.Add(1)
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
		r.putOff.Add(1)
	case s != http.StatusForbidden: // which a publish gets whose topic does not name this hub
		return fmt.Errorf("the hub answered %d %s", s, answer)
	}
	return nil
}

// victim answers whatever it is asked, and confirms nothing.
type victim struct {
	port string
	mu   sync.Mutex
	at   []time.Time
}

func startVictim(t *testing.T) *victim {
	t.Helper()
	v := new(victim)
	v.port = serveOn(t, victimAddr, func(w http.ResponseWriter, _ *http.Request) {
		v.mu.Lock()
		v.at = append(v.at, time.Now())
		v.mu.Unlock()
		_, _ = io.WriteString(w, "what do you want?")
	})
	return v
}

func (v *victim) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.at)
}

// check looks at every minute. The clock of the victim runs a little behind that of
// the budget, by the memory that a request needs on its way.
func (v *victim) check(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.at) < strangersPart {
		t.Errorf("the victim got %d requests: the budget was not used", len(v.at))
	}
	for i := strangersPart; i < len(v.at); i++ {
		if d := v.at[i].Sub(v.at[i-strangersPart]); d < 55*time.Second {
			t.Errorf("the victim got %d requests within %v, want %d a minute", strangersPart+1, d, strangersPart)
		}
	}
}

// honest is a Source, and the host of callbacks that want what was asked for.
type honest struct {
	url, port string

	mu       sync.Mutex
	verified map[string]bool
}

func startHonest(t *testing.T, a *App) *honest {
	t.Helper()
	h := &honest{verified: map[string]bool{}}
	h.port = serveOn(t, honestAddr, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/topic":
			w.Header().Set("Link", fmt.Sprintf(`<%s/topic>; rel="self", <%s>; rel="hub"`, h.url, a.HubURL()))
		case r.URL.Query().Has("hub.challenge"):
			h.mu.Lock()
			h.verified[r.URL.Path] = true
			h.mu.Unlock()
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		}
	})
	h.url = "http://honest.test:" + h.port
	return h
}

// subscribe requests subscriptions of this host and waits for their verification. The hub
// verifies them before it has made all the calls to the victim, which would take hours.
// subscribe asks once. If a verification fails on a busy machine, the hub tries again after
// 5 s, 30 s and 2 m.
func (h *honest) subscribe(t *testing.T, r *reflector, round int) {
	t.Helper()
	const n = 100
	path := func(i int) string { return fmt.Sprintf("/honest/%d/%d", round, i) }
	start := time.Now()
	r = newReflector(t, r.hub)
	r.send("honest", n, subscriber, func(i int) form { return subscription(h.url+"/topic", h.url+path(i)) })
	for missing := n; missing > 0; {
		if time.Since(start) > 4*time.Minute {
			t.Fatalf("round %d: %d of %d honest subscribers were not verified within four minutes", round, missing, n)
		}
		time.Sleep(20 * time.Millisecond)
		missing = 0
		h.mu.Lock()
		for i := range n {
			if !h.verified[path(i)] {
				missing++
			}
		}
		h.mu.Unlock()
	}
	t.Logf("round %d: honest subscribers were verified within %v", round, time.Since(start).Round(10*time.Millisecond))
}

// serveOn serves on a loopback address and returns the port.
func serveOn(t *testing.T, ip string, h http.HandlerFunc) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", ip+":0")
	if err != nil {
		t.Skipf("cannot listen on %s: %v", ip, err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// answerNames returns a resolver that asks a name server of the test, to which
// names below victim.test lead to the victim, and others to the honest host.
func answerNames(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			buf := make([]byte, 1500)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				if answer, err := answerName(buf[:n]); err == nil {
					_, _ = conn.WriteTo(answer, from)
				}
			}
		})
	}
	open := &lookups{conns: map[*net.UDPConn]bool{}}
	t.Cleanup(func() { open.end(); _ = conn.Close(); wg.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return open.dial(ctx, conn.LocalAddr().String())
	}}
}

// lookups are the connections to a name server. They outlive what they were made
// for, and end when the name server does.
type lookups struct {
	mu    sync.Mutex
	ended bool
	conns map[*net.UDPConn]bool
}

type lookup struct {
	*net.UDPConn
	of *lookups
}

func (l *lookups) dial(ctx context.Context, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, net.ErrClosed
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", addr)
	if err != nil {
		return nil, err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		_ = conn.Close()
		return nil, net.UnknownNetworkError("udp4")
	}
	l.conns[udp] = true
	return lookup{udp, l}, nil
}

func (l lookup) Close() error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.conns, l.UDPConn)
	return l.UDPConn.Close()
}

func (l *lookups) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for conn := range l.conns {
		_ = conn.Close()
	}
}

func answerName(query []byte) ([]byte, error) {
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
	if q.Type == dnsmessage.TypeA {
		ip := net.ParseIP(victimAddr)
		if !strings.HasSuffix(q.Name.String(), "victim.test.") {
			ip = net.ParseIP(honestAddr)
		}
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: [4]byte(ip.To4())},
		}}
	}
	return m.Pack()
}
