package subscriptions

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// memory is a Registry in memory. It keeps copies, as a store would.
type memory struct {
	mu      sync.Mutex
	records map[uuid.UUID]Record
	updates int
	fail    error     // what every method returns instead, if set
	full    error     // what Room returns, and Update of what Grows
	damaged uuid.UUID // the one that cannot be read
}

var _ Registry = (*memory)(nil)

func newMemory() *memory { return &memory{records: make(map[uuid.UUID]Record)} }

func clone(rec Record) Record {
	if rec.Subscription != nil {
		s := *rec.Subscription
		s.Gaps = slices.Clone(s.Gaps)
		rec.Subscription = &s
	}
	if rec.Request != nil {
		r := *rec.Request
		rec.Request = &r
	}
	return rec
}

func (m *memory) Room(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full
}

func (m *memory) Get(_ context.Context, id uuid.UUID) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == m.damaged && m.fail == nil {
		return Record{}, journal.ErrPacked
	}
	return clone(m.records[id]), m.fail
}

func (m *memory) Update(_ context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return Record{}, m.fail
	}
	stored := m.records[id]
	rec, err := change(clone(stored))
	if err != nil {
		return rec, err
	}
	if m.full != nil && Grows(stored, rec) {
		return Record{}, m.full
	}
	if rec.Subscription != nil && stored.Subscription != nil {
		rec = clone(rec)
		rec.Subscription.Cursor = journal.Merge(rec.Subscription.Cursor, stored.Subscription.Cursor)
	}
	m.updates++
	if rec.Subscription == nil && rec.Request == nil {
		delete(m.records, id)
	} else {
		m.records[id] = clone(rec)
	}
	return rec, nil
}

// size is how many records there are.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records)
}

func (m *memory) List(_ context.Context, shard int, after uuid.UUID, limit int) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []uuid.UUID
	for id := range m.records {
		if Shard(id) == shard && bytes.Compare(id[:], after[:]) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	var out []Record
	for _, id := range ids[:min(len(ids), limit)] {
		out = append(out, clone(m.records[id]))
	}
	return out, m.fail
}

func (m *memory) Changed(context.Context, int, uint64) ([]uuid.UUID, uint64, error) {
	return nil, 0, errors.New("not used here")
}

// commit is what a delivery does to the cursor.
func (m *memory) commit(id uuid.UUID, c journal.Cursor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sub := m.records[id].Subscription
	sub.Cursor = journal.Merge(sub.Cursor, c)
}

// breakWith has every method fail with err from now on; nil mends it.
func (m *memory) breakWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// call is a request that reached a callback.
type call struct {
	at  time.Time
	req *http.Request
}

// world is a Service on stores, topics and callbacks in memory. The callbacks
// echo every challenge unless told otherwise.
type world struct {
	*Service
	store   *memory
	virtual bool // in virtual time

	mu      sync.Mutex
	heads   map[string]journal.Anchor
	trimmed uint64                                              // up to which entry the topic was trimmed
	check   func(topic string) error                            // nil: every topic may be subscribed to
	answers map[string]func(*http.Request) (int, string, error) // by host
	calls   []call
	events  []Event
	changed []Subscription
}

func newWorld(o Options) *world {
	w := &world{store: newMemory(), heads: map[string]journal.Anchor{}, answers: map[string]func(*http.Request) (int, string, error){}}
	w.restart(o)
	return w
}

// restart puts a new Service on the same store.
func (w *world) restart(o Options) {
	o.Store, o.Heads = w.store, w
	o.Check = w
	if o.Client == nil {
		o.Client = w
	}
	o.Changed = func(s Subscription) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed = append(w.changed, s)
	}
	o.Event = func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}
	var err error
	if w.Service, err = New(o); err != nil {
		panic(err)
	}
}

func (w *world) Head(_ context.Context, topic string) (journal.Head, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := journal.Head{Topic: topic, Last: w.heads[topic]}
	if w.trimmed > 0 {
		head.Trimmed = entry(w.trimmed)
	}
	return head, nil
}

// Check is the topic check.
func (w *world) Check(_ context.Context, topic string) error {
	w.mu.Lock()
	f := w.check
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(topic)
}

// checking has the topic check answer with f from now on.
func (w *world) checking(f func(topic string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check = f
}

// publish moves the head of the topic to its n-th entry.
func (w *world) publish(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heads[topic] = entry(n)
}

func headAt(last journal.Anchor) journal.Head { return journal.Head{Last: last} }

func entry(n uint64) journal.Anchor {
	until := time.Unix(int64(n)*3600, 0).UTC()
	return journal.Anchor{Position: journal.Position(until.UnixNano()), Nonce: journal.Nonce(n * 7), Seq: n, Until: until}
}

func (w *world) answer(host string, f func(*http.Request) (int, string, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[host] = f
}

// Do is the network.
func (w *world) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.calls = append(w.calls, call{time.Now(), r})
	f := w.answers[r.URL.Host]
	w.mu.Unlock()
	if f == nil {
		f = echo
	}
	status, body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

func echo(r *http.Request) (int, string, error) {
	return http.StatusOK, r.URL.Query().Get("hub.challenge"), nil
}

func answering(status int) func(*http.Request) (int, string, error) {
	return func(*http.Request) (int, string, error) { return status, "", nil }
}

// hang is a host that never answers.
func hang(r *http.Request) (int, string, error) {
	<-r.Context().Done()
	return 0, "", r.Context().Err()
}

// callsTo are the requests that a host got; all of them where none is named.
func (w *world) callsTo(host string) []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []call
	for _, c := range w.calls {
		if host == "" || c.req.URL.Host == host {
			out = append(out, c)
		}
	}
	return out
}

// told are the changes that delivery was told of.
func (w *world) told() []Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changed)
}

func (w *world) eventsNamed(name string) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Event
	for _, e := range w.events {
		if name == "" || e.Name == name {
			out = append(out, e)
		}
	}
	return out
}

// run runs the Service until the returned function is called, which waits for it.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := w.Service
	go func() { done <- s.Run(ctx) }()
	if w.virtual {
		synctest.Wait() // what it finds is counted before anything is changed
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func (w *world) record(callback string) Record {
	rec, _ := w.store.Get(context.Background(), ID(topic, callback))
	return rec
}

func (w *world) accept(t *testing.T, r websub.SubscribeRequest) {
	t.Helper()
	if err := w.Accept(t.Context(), r, ""); err != nil {
		t.Fatalf("Accept: %v", err)
	}
}

const (
	topic    = "https://source.example/changes/"
	callback = "https://callback.example/in?a=1"
	cbHost   = "callback.example"
)

func subscribe(callback string) websub.SubscribeRequest {
	return websub.SubscribeRequest{Mode: websub.ModeSubscribe, Topic: topic, Callback: callback}
}

func unsubscribe(callback string) websub.SubscribeRequest {
	return websub.SubscribeRequest{Mode: websub.ModeUnsubscribe, Topic: topic, Callback: callback}
}

// virtual runs f with a world in virtual time.
func virtual(t *testing.T, o Options, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(o)
		w.virtual = true
		f(t, w)
	})
}

// settle lets a while of virtual time pass and everything come to rest.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
