package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
)

func ping(topics ...string) *http.Request {
	pairs := []string{"hub.mode", "publish"}
	for _, topic := range topics {
		pairs = append(pairs, "hub.url", topic)
	}
	return form(pairs...)
}

// strangers are n topics of one partition.
func strangers(n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		if topic := fmt.Sprintf("https://stranger.example/%d", i); journal.Partition(journal.TopicID(topic)) == 0 {
			out = append(out, topic)
		}
	}
	return out
}

var pingRefusals = []refused{
	{
		why: "a ping of nothing", req: func() *http.Request { return ping() },
		status: 400, slug: "bad-form", says: []string{"hub.url", "hub.topic"},
	},
	{
		why: "a ping of what is no topic", req: func() *http.Request { return ping(topic, "ftp://example.org/") },
		status: 400, slug: "bad-form", says: []string{"hub.url", "http"},
	},
	{
		why: "a ping of 101 topics", req: func() *http.Request { return ping(strangers(101)...) },
		status: 400, slug: "bad-form", says: []string{"100"},
	},
	{
		why: "a ping where a credential is needed", change: func(o *Options) { o.Auth = PublishAuth{Token: true} },
		req:    func() *http.Request { return ping(topic) },
		status: 403, slug: "no-credential", says: []string{"POST the notification"},
	},
	{
		why: "a ping with a token where one is needed", change: func(o *Options) { o.Auth = PublishAuth{Token: true} },
		req: func() *http.Request {
			r := ping(topic)
			withToken("alice's token")(r)
			return r
		},
		status: 403, slug: "no-credential",
	},
	{
		why: "a ping of a topic that is not served, beside one that is", change: func(o *Options) { o.TopicDeny = patterns("https://other.example/*") },
		req:    func() *http.Request { return ping(topic, "https://other.example/x") },
		status: 403, slug: "topic-not-allowed", says: []string{"https://other.example/x"},
	},
	{
		why: "a ping of an address that is never called", change: func(o *Options) { o.Callbacks = guarded() },
		req:    func() *http.Request { return ping(topic, "http://169.254.169.254/latest/") },
		status: 403, slug: "topic-not-allowed", says: []string{"169.254.169.254"},
	},
	{
		why: "too many pings", change: func(o *Options) { o.PublishRate = Rate{2, time.Hour} },
		before: func(w *world) { w.do(ping(topic, topic+"b")) },
		req:    func() *http.Request { return ping("https://other.example/") },
		status: 429, slug: "rate-limited", says: []string{"2 per hour"}, header: map[string]string{"Retry-After": "1800"},
	},
	{
		why: "more topics than may ever be pinged at once", change: func(o *Options) { o.PublishRate = Rate{2, time.Hour} },
		req:    func() *http.Request { return ping(topic, topic+"b", topic+"c") },
		status: 429, slug: "rate-limited", says: []string{"3 requests", "2 per hour", "less at once"},
	},
	{
		why: "too many strangers", before: func(w *world) {
			for topics := range slices.Chunk(strangers(journal.MaxPingRecords), 100) {
				w.do(ping(topics...))
			}
		},
		req: func() *http.Request {
			return ping(topic, strangers(journal.MaxPingRecords + 1)[journal.MaxPingRecords])
		},
		status: 429, slug: "too-many-pings", header: map[string]string{"Retry-After": "60"},
	},
	{
		why: "a ping while shutting down", before: func(w *world) { w.SetDraining(true) },
		req:    func() *http.Request { return ping(topic) },
		status: 503, slug: "draining", header: map[string]string{"Retry-After": "10"},
	},
	{
		why: "a ping while the store is down", change: failingPings(errors.New("no route to host")),
		req:    func() *http.Request { return ping(topic) },
		status: 503, slug: "store-unavailable", header: map[string]string{"Retry-After": "10"},
	},
	{
		why: "a ping while the store is full", change: failingPings(fmt.Errorf("%w: no room", journal.ErrFull)),
		req:    func() *http.Request { return ping(topic) },
		status: 503, slug: "store-full",
	},
}

type pings = journal.Pings

// brokenPings fail as a test sets it.
type brokenPings struct {
	pings
	ping       func(ctx context.Context) error
	setFetched func(m journal.PingRecord) error
	list       func() error
}

func (b *brokenPings) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
	if b.list != nil {
		if err := b.list(); err != nil {
			return nil, err
		}
	}
	return b.pings.PingRecords(ctx, partition, after, limit)
}

func (b *brokenPings) Ping(ctx context.Context, now time.Time, topics []string) error {
	if b.ping != nil {
		if err := b.ping(ctx); err != nil {
			return err
		}
	}
	return b.pings.Ping(ctx, now, topics)
}

func (b *brokenPings) SetFetched(ctx context.Context, m journal.PingRecord) error {
	if b.setFetched != nil {
		if err := b.setFetched(m); err != nil {
			return err
		}
	}
	return b.pings.SetFetched(ctx, m)
}

func failingPings(err error) func(*Options) {
	return func(o *Options) {
		o.Pings = &brokenPings{pings: o.Pings, ping: func(context.Context) error { return err }}
	}
}

// HUB-60: hub.url and hub.topic, each repeated, without a credential; the answer
// is 202 and one sentence, and each topic is marked once.
func TestPing_HUB60(t *testing.T) {
	for name, auth := range map[string]PublishAuth{"content": {Content: true}, "open": {Open: true}, "both, and token": {Content: true, Open: true, Token: true}} {
		w := newWorld(t, func(o *Options) { o.Auth = auth })
		rec := w.do(form("hub.mode", "publish", "hub.url", topic, "hub.topic", topic+"b", "hub.url", topic, "hub.url", topic+"c", "foo", "bar"))
		if rec.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", name, rec.Code, rec.Body)
		}
		checkSentence(t, rec.Body.String(), nil)
		if got := rec.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("%s: Content-Type %q", name, got)
		}
		w.do(ping(topic))
		pings := map[string]uint64{}
		for _, m := range w.marked() {
			pings[m.Topic] = m.Pings
			if !m.Waiting() || !m.PingedAt.Equal(noon) {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if len(pings) != 3 || pings[topic] != 2 || pings[topic+"b"] != 1 || pings[topic+"c"] != 1 {
			t.Errorf("%s: %v", name, pings)
		}
		if w.journal.stored() != 0 || len(w.subs.requests) != 0 {
			t.Errorf("%s: something else was stored", name)
		}
	}
}

// Durable before 202, as a publish is before 200 (invariant 1).
func TestPingIsDurableBefore202_HUB60(t *testing.T) {
	stored, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(o *Options) {
		o.Pings = &brokenPings{pings: o.Pings, ping: func(context.Context) error {
			close(stored)
			<-release
			return nil
		}}
	})
	answered := make(chan *httptest.ResponseRecorder)
	go func() { answered <- w.do(ping(topic)) }()
	<-stored
	select {
	case rec := <-answered:
		t.Fatalf("answered %d before it was stored", rec.Code)
	case <-time.After(20 * time.Millisecond):
	}
	if w.fetches.known(topic) {
		t.Error("it is about to be fetched, and not stored")
	}
	close(release)
	if rec := <-answered; rec.Code != http.StatusAccepted || len(w.marked()) != 1 {
		t.Errorf("%d, %v", rec.Code, w.marked())
	}
}

// A ping over a limit counts for nothing, and each of its topics would have.
func TestPingRateIsAllOrNone_HUB60(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PublishRate = Rate{5, time.Hour} })
	a, b := "https://a.example/", "https://b.example/"
	from := func(r *http.Request, addr string) *http.Request {
		r.RemoteAddr = addr
		return r
	}
	for i, tc := range []struct {
		addr   string
		topics []string
		want   int
	}{
		{"192.0.2.1:1", []string{a, a + "1", b}, 202},
		{"192.0.2.1:1", []string{b + "1", b + "2", b + "3"}, 429},          // the address has 2 left
		{"192.0.2.2:1", []string{a + "2", a + "3", a + "4", a + "5"}, 429}, // a.example has 3 left
		{"192.0.2.2:1", []string{a + "2", b + "1", b + "2", b + "3"}, 202},
		{"192.0.2.1:1", []string{a + "5", b + "5"}, 202},
		{"192.0.2.3:1", []string{b + "6"}, 429},
		{"192.0.2.3:1", []string{a + "6"}, 202},
	} {
		if rec := w.do(from(ping(tc.topics...), tc.addr)); rec.Code != tc.want {
			t.Errorf("%d: %d %s", i, rec.Code, rec.Body)
		}
	}
	// Publishes to a topic without a token count with the pings of that topic.
	if rec := w.do(from(publish(doc(0, 1, "a"), with("Link", link(b))), "192.0.2.4:1")); rec.Code != http.StatusTooManyRequests {
		t.Errorf("a publish: %d", rec.Code)
	}
	// Subscribing has a limit of its own.
	if rec := w.do(subscribeForm()); rec.Code != http.StatusAccepted {
		t.Errorf("%d", rec.Code)
	}
}

// One line and one event for each ping; what is not this hub's fault is no
// warning.
func TestPingIsTold(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	var events []Event
	w := newWorld(t, func(o *Options) {
		o.Log, o.Event = zap.New(core), func(e Event) { events = append(events, e) }
	})
	r := ping(topic)
	r.Header.Set("Traceparent", parent)
	w.do(r)
	w.do(ping(topic+"b", topic+"c"))
	w.do(ping())
	w.SetDraining(true)
	w.do(ping(topic))
	w.SetDraining(false)
	w.o.Pings = &brokenPings{pings: w.pings, ping: func(context.Context) error { return errors.New("no route to host") }}
	w.do(ping(topic))

	lines := logs.All()
	if len(lines) != 5 || len(events) != 5 {
		t.Fatalf("%d lines, %d events", len(lines), len(events))
	}
	for i, want := range []struct {
		outcome string
		status  int
		topic   string
		topics  int64
		level   zapcore.Level
	}{
		{"accepted", 202, topic, 1, zapcore.InfoLevel},
		{"accepted", 202, "", 2, zapcore.InfoLevel},
		{"bad-form", 400, "", 0, zapcore.InfoLevel},
		{"draining", 503, "", 0, zapcore.InfoLevel},
		{"store-unavailable", 503, topic, 1, zapcore.WarnLevel},
	} {
		e, line := events[i], lines[i].ContextMap()
		if e.Name != EventPing || e.Outcome != want.outcome || e.Status != want.status || e.Topic != want.topic {
			t.Errorf("event %d: %+v", i, e)
		}
		said, _ := line["topic"].(string)
		if line["event"] != "ping" || line["outcome"] != want.outcome || line["status"] != int64(want.status) || said != want.topic ||
			line["topics"] != want.topics || line["requester"] == nil || lines[i].Level != want.level {
			t.Errorf("line %d: %s %v", i, lines[i].Level, line)
		}
		if reason, _ := line["reason"].(string); (reason == "") != (want.status == 202) {
			t.Errorf("line %d: reason %q", i, reason)
		}
	}
	if events[0].TraceParent != parent {
		t.Errorf("traceparent %q", events[0].TraceParent)
	}
}

// The log of a refused form says what the answer said.
func TestLogOfARefusedForm(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(o *Options) { o.Log, o.Callbacks = zap.New(core), guarded() })
	rec := w.do(form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "http://10.0.0.1/"))
	reason, _ := logs.All()[0].ContextMap()["reason"].(string)
	if said := strings.TrimSpace(rec.Body.String()); !strings.HasPrefix(reason, said) {
		t.Errorf("logged %q, answered %q", reason, said)
	}
}

func (q *fetchQueue) known(topic string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[topic] != nil
}
