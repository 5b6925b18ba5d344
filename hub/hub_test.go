package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const (
	hubURL = "https://hub.example/websub/"
	topic  = "https://example.org/changes/"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// memory is a journal that forgets nothing, and fails when a test sets that.
type memory struct {
	mu      sync.Mutex
	topics  map[string][]journal.Entry
	fail    error
	appends int
	reads   int // of heads
	// before is called with each Append before anything is looked at, and between
	// with each Interval.
	before, between func()
}

func (m *memory) Head(_ context.Context, topic string) (journal.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	h := journal.Head{Topic: topic}
	for i := range m.topics[topic] {
		e := &m.topics[topic][i]
		h.Version, h.Kind = e.Nonce.Version(), e.Kind
		h.Last, h.ID, h.SHA256, h.ReceivedAt = e.Anchor(), e.ID, e.SHA256, e.ReceivedAt
		if e.Timed() {
			h.From, h.Until = e.From, e.Until
		}
	}
	return h, m.fail
}

func (m *memory) Interval(_ context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	if m.between != nil {
		m.between()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.topics[topic] {
		if e.Timed() && e.From.Equal(from) && e.Until.Equal(until) {
			return journal.Interval{From: from, Until: until, SHA256: e.SHA256, ID: e.ID, Position: e.Position}, m.fail
		}
	}
	return journal.Interval{}, cmp.Or(m.fail, journal.ErrNotFound)
}

func (m *memory) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	if m.before != nil {
		m.before()
	}
	head, err := m.Head(ctx, topic)
	if err != nil {
		return journal.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads--
	m.appends++
	if head.Version != ifHead || len(m.topics[topic]) != int(head.Last.Seq) {
		return journal.Entry{}, journal.ErrHeadMoved
	}
	e.ReceivedAt, e.Seq = now, head.Last.Seq+1
	e.Position, e.Nonce = journal.Position(e.Seq), journal.Nonce(e.Seq)
	e.Body = append([]byte(nil), e.Body...)
	if e.ID, err = journal.NewID(now, journal.Partition(journal.TopicID(topic))); err != nil {
		return journal.Entry{}, err
	}
	if m.topics == nil {
		m.topics = make(map[string][]journal.Entry)
	}
	m.topics[topic] = append(m.topics[topic], e)
	return e, nil
}

func (m *memory) Reset(context.Context, string, journal.Version) error {
	return errors.New("nobody resets here")
}

// entries are those of the topic of the tests.
func (m *memory) entries() []journal.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[topic]
}

func (m *memory) stored() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, entries := range m.topics {
		n += len(entries)
	}
	return n
}

// acceptor accepts subscription requests, or answers with an error.
type acceptor struct {
	mu        sync.Mutex
	requests  []websub.SubscribeRequest
	requester string
	err       error
}

func (a *acceptor) Accept(_ context.Context, r websub.SubscribeRequest, requester string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.requests, a.requester = append(a.requests, r), requester
	}
	return a.err
}

// topics answers the topic check, the comparison and the fetch.
type topics struct {
	check, content error
	fetch          func(ctx context.Context, topic string) (validate.Fetched, error)
}

func (t *topics) Check(context.Context, string) error { return t.check }

func (t *topics) Content(context.Context, string, string, []byte) error { return t.content }

func (t *topics) Fetch(ctx context.Context, topic string) (validate.Fetched, error) {
	return t.fetch(ctx, topic)
}

// world is a Handler and all that it works with.
type world struct {
	*Handler
	t       *testing.T
	journal *memory
	pings   *storetest.Memory
	subs    *acceptor
	topics  *topics
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, journal: &memory{}, pings: storetest.NewMemory(), subs: &acceptor{}, topics: &topics{}}
	o := Options{
		HubURL: hubURL, Journal: w.journal, Pings: w.pings, Subscriptions: w.subs, Topics: w.topics,
		Auth: PublishAuth{Content: true, Token: true},
		Publishers: validate.NewPublishers([]validate.Publisher{{
			Name: "alice", Topics: patterns("https://example.org/*"), Secret: "alice's secret",
			TokenSHA256: [][32]byte{sha256.Sum256([]byte("alice's token"))},
		}}),
		Now: func() time.Time { return noon },
	}
	for _, c := range change {
		if c != nil {
			c(&o)
		}
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	return w
}

// guarded refuses callbacks as the hub's client does.
func guarded() Callbacks {
	c, err := egress.New(egress.Options{})
	if err != nil {
		panic(err)
	}
	return c
}

func patterns(list ...string) []validate.Pattern {
	var out []validate.Pattern
	for _, s := range list {
		p, err := validate.ParsePattern(s)
		if err != nil {
			panic(err)
		}
		out = append(out, p)
	}
	return out
}

// doc is a notification from and until these minutes after eleven; what makes
// the bytes different.
func doc(from, until int, what string) string {
	return notification(fmt.Sprintf(`capability="change-notification" from="2026-01-01T11:%02d:00Z" until="2026-01-01T11:%02d:00Z"`, from, until),
		fmt.Sprintf(`<url><loc>http://example.org/%s</loc><rs:md change="created"/></url>`, what))
}

func notification(md string, entries ...string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md %s/>
%s</urlset>
`, md, strings.Join(entries, "\n"))
}

func link(topic string) string {
	return fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hubURL)
}

func newRequest(method, url string, body io.Reader) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), method, url, body)
}

// publish is a POST of a notification; change makes another request of it.
func publish(body string, change ...func(*http.Request)) *http.Request {
	r := newRequest(http.MethodPost, hubURL, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("Link", link(topic))
	for _, c := range change {
		if c != nil {
			c(r)
		}
	}
	return r
}

func with(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

func without(header string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del(header) }
}

func withToken(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }

// form is a POST of a form of these names and values.
func form(pairs ...string) *http.Request {
	var body []string
	for i := 0; i < len(pairs); i += 2 {
		body = append(body, strings.TrimPrefix(websub.AppendQuery("", websub.Param{Name: pairs[i], Value: pairs[i+1]}), "?"))
	}
	r := newRequest(http.MethodPost, hubURL, strings.NewReader(strings.Join(body, "&")))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func subscribeForm(more ...string) *http.Request {
	return form(append([]string{"hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "https://subscriber.example/cb"}, more...)...)
}

func (w *world) do(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// accept publishes a notification that has to be accepted.
func (w *world) accept(r *http.Request) accepted {
	w.t.Helper()
	rec := w.do(r)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%d: %s", rec.Code, rec.Body)
	}
	return decode[accepted](w.t, rec)
}

// marked are the topics that were pinged.
func (w *world) marked() (pings []journal.PingRecord) {
	for partition := range journal.Partitions {
		page, err := w.pings.PingRecords(context.Background(), partition, uuid.Nil, 1000)
		if err != nil {
			w.t.Error(err)
		}
		pings = append(pings, page...)
	}
	return pings
}

func decode[T any](t *testing.T, rec *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	d := json.NewDecoder(rec.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
