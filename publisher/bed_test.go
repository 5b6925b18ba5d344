package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const (
	bedTopic = "https://source.example/changes/"
	hubA     = "https://a.example/"
	hubB     = "https://b.example/"
)

// bed is a publisher and real hubs that call each other without a network, so that
// time may be virtual.
type bed struct {
	t   *testing.T
	dir string
	log bytes.Buffer

	mu     sync.Mutex
	hubs   map[string]*bedHub
	topic  http.Handler // nil: the topic's server is down
	posted []Posted
}

// bedHub is a hub in a bed.
type bedHub struct {
	b       *bed
	url     string
	dir     string
	max     int64
	handler *hub.Handler
	checker *validate.TopicChecker
	store   *embedstore.Store

	mu      sync.Mutex
	down    bool
	deaf    int // how many answers get lost
	posts   int
	answers func(w http.ResponseWriter) bool // in the place of the hub's, where it returns true
}

func newBed(t *testing.T, hubs ...string) *bed {
	t.Helper()
	b := &bed{t: t, dir: filepath.Join(t.TempDir(), "outbox"), hubs: map[string]*bedHub{}}
	for _, url := range hubs {
		h := &bedHub{b: b, url: url, dir: t.TempDir()}
		b.hubs[url] = h
		h.start()
		t.Cleanup(h.stop)
	}
	return b
}

type noSubscribers struct{}

func (noSubscribers) Accept(context.Context, websub.SubscribeRequest, string) error {
	return errors.New("none")
}

func (h *bedHub) start() {
	h.b.t.Helper()
	var err error
	if h.store, err = embedstore.Open(h.dir, embedstore.Options{MinFree: -1}); err != nil {
		h.b.t.Fatal(err)
	}
	if h.checker, err = validate.NewTopicChecker(validate.TopicOptions{HubURL: h.url, Client: h.b}); err != nil {
		h.b.t.Fatal(err)
	}
	h.handler, err = hub.New(hub.Options{
		HubURL: h.url, Journal: h.store, Pings: h.store, Topics: h.checker, Subscriptions: noSubscribers{},
		Auth: hub.PublishAuth{Content: true, Token: true}, MaxBody: h.max,
	})
	if err != nil {
		h.b.t.Fatal(err)
	}
}

func (h *bedHub) stop() {
	h.checker.Close()
	if err := h.store.Close(); err != nil {
		h.b.t.Error(err)
	}
}

// again stops the hub, changes what the function says, and starts it.
func (h *bedHub) again(change func()) {
	h.b.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop()
	change()
	h.start()
}

// backup returns a function that puts the hub's store back as it is now.
func (h *bedHub) backup() (restore func()) {
	h.b.t.Helper()
	saved := h.b.t.TempDir()
	clone := func(to, from string) {
		if err := os.RemoveAll(to); err != nil {
			h.b.t.Fatal(err)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			h.b.t.Fatal(err)
		}
	}
	h.again(func() { clone(saved, h.dir) })
	return func() { h.again(func() { clone(h.dir, saved) }) }
}

func (h *bedHub) set(change func(h *bedHub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *bedHub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.posts
}

// Do makes the requests of the publisher to the hubs, and of the hubs to the
// topic.
func (b *bed) Do(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), req.Body)
	in.Header, in.ContentLength = req.Header, req.ContentLength
	in.RemoteAddr = "192.0.2.1:1234"
	b.mu.Lock()
	h, topic := b.hubs[req.URL.Scheme+"://"+req.URL.Host+"/"], b.topic
	b.mu.Unlock()
	if h == nil {
		if topic == nil {
			return nil, errors.New("connection refused")
		}
		topic.ServeHTTP(w, in)
		return w.Result(), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts++
	if h.down {
		return nil, errors.New("connection refused")
	}
	if h.answers == nil || !h.answers(w) {
		h.handler.ServeHTTP(w, in)
	}
	if h.deaf > 0 {
		h.deaf--
		return nil, errors.New("connection reset by peer")
	}
	return w.Result(), nil
}

// open opens the publisher of the bed; its topic is served from then on.
func (b *bed) open(change func(*Options)) *Publisher {
	b.t.Helper()
	o := Options{
		Dir: b.dir, Topic: bedTopic, Client: b, Every: time.Second, CapabilityList: "https://source.example/capabilitylist.xml",
		Log: slog.New(slog.NewTextHandler(&lockedWriter{b: b}, nil)), Posted: func(p Posted) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.posted = append(b.posted, p)
		},
	}
	for _, url := range []string{hubA, hubB} {
		if b.hubs[url] != nil {
			o.Hubs = append(o.Hubs, Hub{URL: url})
		}
	}
	if change != nil {
		change(&o)
	}
	p, err := Open(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = p.Close() })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topic = p.Handler()
	return p
}

type lockedWriter struct{ b *bed }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.log.Write(p)
}

// logged is what was logged so far, in a bubble.
func (b *bed) logged() string {
	synctest.Wait() // a line may come after what it is about
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// running runs p until the function that it returns is called.
func (b *bed) running(p *Publisher) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

func resource(n int) string { return fmt.Sprintf("https://source.example/data/%06d", n) }

// record records the changes from (included) to (excluded), one by one or as one.
func (b *bed) record(p *Publisher, from, to int, at once) {
	b.t.Helper()
	var all []Change
	for n := from; n < to; n++ {
		c := Change{Seq: uint64(n + 1), Entry: resourcesync.Entry{Loc: resource(n), Change: resourcesync.Updated}}
		if all = append(all, c); at == oneByOne || n+1 == to {
			if err := p.Record(b.t.Context(), all...); err != nil {
				b.t.Fatal(err)
			}
			all = all[:0]
		}
	}
}

type once bool

const (
	together once = true
	oneByOne once = false
)

// journal returns what the hub has of the topic.
func (h *bedHub) journal() []journal.Entry {
	h.b.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	entries, err := h.store.Read(h.b.t.Context(), bedTopic, journal.Anchor{}, 1<<20, 1<<40)
	if err != nil {
		h.b.t.Fatal(err)
	}
	return entries
}

// check makes sure that the hub has consecutive intervals, and in them each of
// the first n changes exactly once and in order.
func (h *bedHub) check(n int) []journal.Entry {
	h.b.t.Helper()
	entries := h.journal()
	checkJournal(h.b.t, entries, n, resource)
	return entries
}

func checkJournal(t *testing.T, entries []journal.Entry, n int, loc func(int) string) {
	t.Helper()
	next := 0
	var last time.Time
	for k, e := range entries {
		if k > 0 && !e.From.Equal(entries[k-1].Until) {
			t.Errorf("interval %d begins at %v, and the one before ends at %v", k, e.From, entries[k-1].Until)
		}
		r := resourcesync.NewNotificationReader(bytes.NewReader(e.Body), resourcesync.Limits{})
		for {
			c, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Loc != loc(next) {
				t.Fatalf("in interval %d of %d comes %s, want %s", k, len(entries), c.Loc, loc(next))
			}
			if !c.Datetime.After(last) || c.Datetime.Before(e.From) || !c.Datetime.Before(e.Until) {
				t.Errorf("%s changed at %v: after %v, in [%v, %v)", c.Loc, c.Datetime, last, e.From, e.Until)
			}
			last = c.Datetime
			next++
		}
	}
	if next != n {
		t.Errorf("%d changes arrived, want %d", next, n)
	}
}

func (b *bed) hubStatus(p *Publisher, url string) HubStatus {
	for _, h := range p.Status().Hubs {
		if h.URL == url {
			return h
		}
	}
	b.t.Fatalf("%s is none of the hubs", url)
	return HubStatus{}
}
