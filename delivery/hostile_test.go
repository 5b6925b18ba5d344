package delivery

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
)

// peer is what a callback's host does with a connection, closed when it returns.
type peer func(c *conn)

// conn is the host's end of a connection. It counts the bytes that the hub reads.
type conn struct {
	net.Conn
	taken *atomic.Int64
}

// request reads the header of a request and its body.
func (c *conn) request() {
	r, err := http.ReadRequest(bufio.NewReader(c.Conn))
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// say writes, and reports whether the hub took it.
func (c *conn) say(format string, args ...any) bool {
	n, err := fmt.Fprintf(c.Conn, format, args...)
	c.taken.Add(int64(n))
	return err == nil
}

// hold keeps the connection until the hub has enough of it.
func (c *conn) hold() { _, _ = io.Copy(io.Discard, c.Conn) }

// saying reads the request and answers.
func saying(format string, args ...any) peer {
	return func(c *conn) { c.request(); c.say(format, args...) }
}

// forever reads the request, begins an answer and then says the same until the hub
// has enough, every pause.
func forever(begin, again string, pause time.Duration) peer {
	return func(c *conn) {
		c.request()
		for ok := c.say("%s", begin); ok; ok = c.say("%s", again) {
			time.Sleep(pause)
		}
	}
}

// peers makes connections to peers in memory.
type peers struct {
	mu    sync.Mutex
	hosts map[string]peer // by name
	taken atomic.Int64    // bytes of answers
	dials atomic.Int64
}

// ways are the ways to peers, with the limits of the client that the hub has: its own, and that for
// proxied hosts.
var ways = map[string]func(p *peers) (c Doer, closeIdle func()){
	"pool": func(p *peers) (Doer, func()) {
		pool := post.NewPool(post.Options{Dial: p.dial, DialTLS: p.dial, PerHost: 8, Idle: 1024, IdleTimeout: 90 * time.Second})
		return pooled{pool, nil}, pool.CloseIdleConnections
	},
	"net/http": func(p *peers) (Doer, func()) {
		t := &http.Transport{MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, MaxIdleConnsPerHost: 8, DialContext: p.dial}
		return over(doer{t}), t.CloseIdleConnections
	},
}

// pooled is a Doer that makes POSTs over a Pool, and nothing else.
type pooled struct {
	*post.Pool
	Doer
}

type doer struct{ http.RoundTripper }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.RoundTrip(r) }

func newPeers(t *testing.T) *peers {
	// There net/http logs bytes that came and that nobody waits for.
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	return &peers{hosts: make(map[string]peer)}
}

func (p *peers) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.dials.Add(1)
	name, _, _ := strings.Cut(addr, ":")
	p.mu.Lock()
	act := p.hosts[name]
	p.mu.Unlock()
	if act == nil { // its backlog is full
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		act(&conn{theirs, &p.taken})
	}()
	return ours, nil
}

const (
	failed   = journal.StatusError
	timedOut = journal.StatusTimeout
	answered = "HTTP/1.1 200 OK\r\n"
	noBody   = "Content-Length: 0\r\n\r\n"
)

type hostileHost struct {
	act    peer
	status int
	after  time.Duration
}

// hostile are malicious hosts: the result of an attempt there, and after how long, with a time
// limit of 15 s.
var hostile = map[string]hostileHost{
	"never accepts":        {nil, timedOut, 5 * time.Second},
	"accepts, and no more": {(*conn).hold, timedOut, 15 * time.Second},
	"does not read":        {func(*conn) { time.Sleep(time.Minute) }, timedOut, 15 * time.Second},
	"reads a byte a second": {func(c *conn) {
		for b := make([]byte, 1); ; time.Sleep(time.Second) {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}, timedOut, 15 * time.Second},
	"hangs up at once":       {func(*conn) {}, failed, 0},
	"hangs up in the middle": {func(c *conn) { _, _ = io.CopyN(io.Discard, c, 40_000) }, failed, 0},
	"hangs up in the header": {saying("HTTP/1.1 200 OK\r\nConte"), failed, 0},
	"200 after the limit":    {func(c *conn) { c.request(); time.Sleep(20 * time.Second); c.say(answered + noBody) }, timedOut, 15 * time.Second},
	"200 before it has read": {func(c *conn) {
		_, _ = io.CopyN(io.Discard, c, 1000)
		c.say(answered + "Connection: close\r\n" + noBody)
		c.hold()
	}, 200, 0},
	"status line drips":       {forever("H", "T", time.Second), timedOut, 15 * time.Second},
	"header drips":            {forever(answered+"X: ", "x", time.Second), timedOut, 15 * time.Second},
	"header has no end":       {forever(answered, "X-Y: "+strings.Repeat("z", 1000)+"\r\n", 0), failed, 0},
	"header line has no end":  {forever(answered+"X: ", strings.Repeat("z", 1000), 0), failed, 0},
	"header is large":         {saying(answered+"X: %s\r\n"+noBody, strings.Repeat("z", 10<<20)), failed, 0},
	"1xx without end":         {forever("", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=b\r\n\r\n", 0), failed, 0},
	"1xx without end, slowly": {forever("", "HTTP/1.1 102 Processing\r\n\r\n", time.Second), timedOut, 15 * time.Second},
	"body without end":        {forever(answered+"\r\n", strings.Repeat("x", 1000), 0), 200, 0},
	"body drips":              {forever(answered+"\r\n", "x", 900*time.Millisecond), 200, time.Second},
	"body drips at the last moment": {func(c *conn) {
		c.request()
		time.Sleep(14900 * time.Millisecond)
		for ok := c.say(answered + "\r\n"); ok; ok = c.say("x") {
			time.Sleep(100 * time.Millisecond)
		}
	}, 200, 15 * time.Second},
	"gzip bomb":                      {forever(answered+"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", strings.Repeat("\x00", 1000), 0), 200, 0},
	"less than its length":           {saying(answered + "Content-Length: 100\r\n\r\nshort"), 200, 0},
	"more than its length":           {saying(answered+"Content-Length: 5\r\n\r\n%s", strings.Repeat("x", 1<<20)), 200, 0},
	"length is negative":             {saying(answered + "Content-Length: -1\r\n\r\n"), failed, 0},
	"two lengths":                    {saying(answered + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), failed, 0},
	"chunk without end":              {forever(answered+"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", strings.Repeat("x", 1000), 0), 200, 0},
	"chunk extension without end":    {forever(answered+"Transfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("x", 1000), 0), 200, 0},
	"trailer without end":            {forever(answered+"Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n", 0), 200, 0},
	"redirect to itself":             {saying("HTTP/1.1 307 Here\r\nLocation: /\r\n" + noBody), 307, 0},
	"redirect inwards":               {saying("HTTP/1.1 302 There\r\nLocation: http://169.254.169.254/\r\n" + noBody), 302, 0},
	"another protocol from now on":   {saying("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), 101, 0},
	"HTTP/0.9":                       {saying("<html>hello</html>"), failed, 0},
	"SMTP":                           {saying("220 mail.example ESMTP\r\n500 what?\r\n"), failed, 0},
	"HTTP/2":                         {saying("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80"), failed, 0},
	"status of four digits":          {saying("HTTP/1.1 2000 OK\r\n" + noBody), failed, 0},
	"status that there is not":       {saying("HTTP/1.1 999 What\r\n" + noBody), 999, 0},
	"answers that nobody asked for":  {saying("%s", strings.Repeat(answered+noBody, 1000)), 200, 0},
	"wait for less than no time":     {saying("HTTP/1.1 503 Busy\r\nRetry-After: -99999999999999999999\r\n" + noBody), 503, 0},
	"wait until the end of all time": {saying("HTTP/1.1 503 Busy\r\nRetry-After: %s\r\n"+noBody, strings.Repeat("9", 10_000)), 503, 0},
	"wait until a date of old":       {saying("HTTP/1.1 429 Slow\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n" + noBody), 429, 0},
	"wait for a while":               {saying("HTTP/1.1 429 Slow\r\nRetry-After: a while\r\nRetry-After: 5\r\n" + noBody), 429, 0},
}

// An attempt ends in time whatever the callback's host does. The hub reads little more of the
// answer than the limit for its header.
func TestHostileHostIsBounded(t *testing.T) {
	for way, to := range ways {
		for name, tc := range hostile {
			t.Run(way+"/"+name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { meetHostile(t, to, tc) }) })
		}
	}
}

func meetHostile(t *testing.T, to func(*peers) (Doer, func()), tc hostileHost) {
	p := newPeers(t)
	client, closeIdle := to(p)
	defer pass(2 * time.Minute) // until the hosts have noticed
	defer closeIdle()
	if tc.act != nil {
		p.hosts["h.example"] = tc.act
	}
	b := newBed(t, func(o *Options) { o.Client = client })
	out := b.d.sender.client.attempt(t.Context(), exchange{callback: "http://h.example/", secret: "s", attempt: 1, body: bodyOf(topicA, strings.Repeat("x", 100_000), "application/xml")})
	// A larger body has more time: 100,000 bytes at 128 KiB/s.
	if out.Status != tc.status || out.duration < tc.after || out.duration > tc.after+time.Second {
		t.Errorf("%d after %v (%v), want %d after %v", out.Status, out.duration, out.err, tc.status, tc.after)
	}
	if limit := int64(64<<10 + 16<<10); p.taken.Load() > limit {
		t.Errorf("%d bytes of the answer were taken", p.taken.Load())
	}
	if n := p.dials.Load(); n > 2 { // a request that the host did not read may be sent once more
		t.Errorf("%d connections", n)
	}
}

// Subscribers elsewhere get everything at once, whatever all hostile hosts do
// together; and a hostile one that mends its ways gets what it missed.
func TestHostileHostsDelayNobody(t *testing.T) {
	for way, to := range ways {
		t.Run(way, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { hostileDelayNobody(t, to) }) })
	}
}

func hostileDelayNobody(t *testing.T, to func(*peers) (Doer, func())) {
	var mu sync.Mutex
	got := make(map[string][]time.Time)
	healthy := func(name string) peer {
		return func(c *conn) {
			for r := bufio.NewReader(c.Conn); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				mu.Lock()
				got[name] = append(got[name], time.Now())
				mu.Unlock()
				c.say(answered + noBody)
			}
		}
	}
	p := newPeers(t)
	client, closeIdle := to(p)
	b := newBed(t, func(o *Options) { o.Client, o.MaxInflight = client, 100 })
	kinds, mends := 0, "" // mends: a host that takes nothing until it mends its ways
	for kind, tc := range hostile {
		each := 3
		if tc.after > time.Second {
			each = 12 // together they want more senders than there are
		}
		for n := range each {
			host := fmt.Sprintf("evil-%d-%d.example", kinds, n)
			if tc.act != nil {
				p.hosts[host] = tc.act
			}
			b.subscribe(topicA, "http://"+host+"/")
			if kind == "accepts, and no more" {
				mends = host
			}
		}
		kinds++
	}
	var names []string
	for n := range 100 {
		name := fmt.Sprintf("good-%d.example", n)
		names = append(names, name)
		p.hosts[name] = healthy(name)
		b.subscribe(topicA, "http://"+name+"/", served)
	}
	b.run()
	defer pass(2 * time.Minute)
	defer closeIdle()
	defer b.end()
	const publishes = 12
	body := []byte(strings.Repeat("x", 100_000))
	for n := range publishes {
		now := time.Now()
		b.publish(t, topicA, body)
		pass(20 * time.Second)
		mu.Lock()
		for _, name := range names {
			if at := got[name]; len(at) != n+1 || !at[n].Equal(now) {
				t.Fatalf("publish %d: %s got %d, want %d, each at once", n, name, len(at), n+1)
			}
		}
		mu.Unlock()
	}
	p.mu.Lock()
	p.hosts[mends] = healthy("evil")
	p.mu.Unlock()
	pass(2 * time.Hour)
	mu.Lock()
	defer mu.Unlock()
	if n := len(got["evil"]); n == 0 || n > publishes {
		t.Errorf("the one that mended its ways got %d of %d", n, publishes)
	}
}
