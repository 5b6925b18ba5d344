package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// callback plays a subscriber's host. It gets each request after its body was
// read and says what is answered; nil stands for 200.
type callback func(r *http.Request, body []byte) (*http.Response, error)

// received is a delivery as the transport saw it.
type received struct {
	url, id, body string
	attempt       int
	header        http.Header
	at            time.Time // when it began
}

// wire is a transport that leads to callbacks in memory. It reads bodies as fast as they come.
type wire struct {
	mu        sync.Mutex
	callbacks map[string]callback // by URL, or by host
	got       []received          // what was answered with 2xx
	tried     []received
	gotAt     map[string][]received
	triedAt   map[string][]received
	now, most map[string]int // exchanges at once: by host, and "" for all
	quiet     bool           // nothing is recorded
}

func newWire() *wire {
	return &wire{
		callbacks: make(map[string]callback), now: make(map[string]int), most: make(map[string]int),
		gotAt: make(map[string][]received), triedAt: make(map[string][]received),
	}
}

func (w *wire) count(host string, by int) {
	for _, k := range []string{"", host} {
		w.now[k] += by
		w.most[k] = max(w.most[k], w.now[k])
	}
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if w.quiet {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}
	rec := received{url: r.URL.String(), id: r.Header.Get("Webhook-Id"), header: r.Header, at: time.Now()}
	rec.attempt = attemptOf(r)
	w.mu.Lock()
	w.count(r.URL.Host, 1)
	answer := w.callbacks[rec.url]
	if answer == nil {
		answer = w.callbacks[r.URL.Host]
	}
	w.tried = append(w.tried, rec)
	w.triedAt[rec.url] = append(w.triedAt[rec.url], rec)
	w.mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	rec.body = string(body)
	var resp *http.Response
	var err error
	if answer != nil {
		resp, err = answer(r, body)
	}
	if resp == nil && err == nil {
		resp = status(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(r.URL.Host, -1)
	if err == nil && resp.StatusCode/100 == 2 {
		w.got = append(w.got, rec)
		w.gotAt[rec.url] = append(w.gotAt[rec.url], rec)
	}
	return resp, err
}

// over makes deliveries with a client of net/http.
func over(d Doer) post.HTTP { return post.HTTP{Doer: d} }

// attemptOf is what a delivery says it is.
func attemptOf(r *http.Request) int {
	n, _ := strconv.Atoi(strings.Join(r.Header["RSHub-Attempt"], ",")) //nolint:staticcheck // as it is spelled on the wire
	return n
}

// pass lets virtual time pass, and all that happens in it come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// at returns what was delivered to a URL.
func (w *wire) at(url string) []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gotAt[url]
}

// attempts returns what was tried at a URL.
func (w *wire) attempts(url string) []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.triedAt[url]
}

// everything returns what was tried anywhere.
func (w *wire) everything() []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried
}

// delivered returns what was delivered anywhere.
func (w *wire) delivered() []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got
}

func (w *wire) set(urlOrHost string, c callback) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callbacks[urlOrHost] = c
}

func status(code int, header ...string) *http.Response {
	r := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// answers always answers with a status.
func answers(code int, header ...string) callback {
	return func(*http.Request, []byte) (*http.Response, error) { return status(code, header...), nil }
}

// takes answers 200 after a time.
func takes(d time.Duration) callback {
	return func(r *http.Request, _ []byte) (*http.Response, error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// hangs never answers.
func hangs(r *http.Request, _ []byte) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// drips answers 200, and then a byte a second without end.
func drips(r *http.Request, _ []byte) (*http.Response, error) {
	resp := status(http.StatusOK)
	resp.ContentLength, resp.Body = -1, &dripping{r.Context()}
	return resp, nil
}

type dripping struct{ ctx context.Context }

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = '.'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (d *dripping) Close() error { return nil }

// unreachableError is what a transport says where no connection can be made.
type unreachableError struct{}

func (unreachableError) Error() string   { return "no route to host" }
func (unreachableError) Timeout() bool   { return true }
func (unreachableError) Temporary() bool { return true }

// down is a host that cannot be reached.
func down(*http.Request, []byte) (*http.Response, error) { return nil, unreachableError{} }

// bed is a Dispatcher with everything around it.
type bed struct {
	*memory
	*wire
	d    *Dispatcher
	t    testing.TB
	stop func() error // ends Run and returns its error
}

// newBed makes a bed without jitter. The functions change its options. It sweeps once a minute, since hours pass in
// many tests.
func newBed(t testing.TB, more ...func(*Options)) *bed {
	t.Helper()
	b := &bed{memory: newMemory(), wire: newWire(), t: t}
	o := Options{
		Journal: b.memory, Subscriptions: b.memory, Client: over(b.wire), HubURL: "https://hub.example/",
		Drain: 15 * time.Second, Rand: func() float64 { return 0.5 }, Sweep: time.Minute,
		Schedulers: 3,
	}
	for _, f := range more {
		f(&o)
	}
	var err error
	if b.d, err = New(o); err != nil {
		t.Fatal(err)
	}
	b.stop = func() error { return nil }
	return b
}

// sweeping has a bed sweep as often as a hub does.
func sweeping(o *Options) { o.Sweep = 0 }

// readFrom has all parts use another journal.
func (b *bed) readFrom(j Journal) {
	d := b.d
	d.o.Journal, d.bodies.reader, d.heads.journal, d.shards.journal, d.sender.journal, d.sender.rewinder.journal = j, j, j, j, j, j
}

// goOn has a new bed work on the store of another one.
func (b *bed) goOn(m *memory) {
	b.memory = m
	b.readFrom(m)
	b.d.shards.store, b.d.commits[0].store = m, m
}

// take acquires all shards, as the only hub of a store does.
func (b *bed) take() {
	b.t.Helper()
	for n := range journal.Partitions {
		if err := b.d.Start(context.Background(), n); err != nil {
			b.t.Fatal(err)
		}
	}
}

// removeAll removes all lanes, under the lock.
func (b *bed) removeAll() {
	for _, q := range b.d.sched.all {
		for _, set := range q.s.sets {
			for _, l := range slices.Clone(set.lanes) {
				q.s.remove(l)
			}
		}
	}
}

// single has a bed with one scheduler, which only returns.
func single(o *Options) { o.Schedulers = 1 }

func (d *Dispatcher) only() *sharedScheduler {
	if len(d.sched.all) > 1 {
		panic("the bed has several schedulers")
	}
	return d.sched.all[0]
}

// run starts the Dispatcher, with all shards. It is stopped at the end of the test.
func (b *bed) run() {
	b.t.Helper()
	b.take()
	b.runAlone()
}

// runAlone starts the Dispatcher without a shard. It listens on return.
func (b *bed) runAlone() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.d.Run(ctx) }()
	<-b.memory.listened
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
}

// end stops the Dispatcher and complains of its error.
func (b *bed) end() {
	b.t.Helper()
	if err := b.stop(); err != nil {
		b.t.Errorf("Run: %v", err)
	}
}

// cb is the n-th callback, each at a host of its own.
func cb(n int) string { return fmt.Sprintf("http://h%d.example/cb", n) }

const topicA, topicB = "https://source.example/a", "https://source.example/b"

// tell stores a subscription in a new state, and informs the Dispatcher.
func (b *bed) tell(s subscriptions.Subscription) {
	b.t.Helper()
	_, err := b.memory.Update(context.Background(), s.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec.Subscription = &s
		return rec, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.d.Apply(s)
}

// wantOrder complains unless exactly these entries were delivered to a URL, in
// this order.
func (b *bed) wantOrder(url string, entries ...journal.Entry) {
	b.t.Helper()
	var got, want []string
	for _, r := range b.at(url) {
		got = append(got, r.id)
	}
	for _, e := range entries {
		want = append(want, e.ID.String())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		b.t.Errorf("%s got %d notifications %v, want %d %v", url, len(got), got, len(want), want)
	}
}

// wantWaits complains unless the attempts at a URL came this long after each
// other.
func (b *bed) wantWaits(url string, waits ...time.Duration) {
	b.t.Helper()
	tried := b.attempts(url)
	var got []time.Duration
	for i := 1; i < len(tried); i++ {
		got = append(got, tried[i].at.Sub(tried[i-1].at))
	}
	if fmt.Sprint(got) != fmt.Sprint(waits) {
		b.t.Errorf("waits between attempts at %s:\n got %v\nwant %v", url, got, waits)
	}
}

// wantGaps complains unless the subscription has these gaps.
func (b *bed) wantGaps(s subscriptions.Subscription, want ...journal.Gap) {
	b.t.Helper()
	got, _ := b.stored(s)
	for i := range got.Gaps {
		got.Gaps[i].At = time.Time{}
	}
	if fmt.Sprint(got.Gaps) != fmt.Sprint(want) {
		b.t.Errorf("gaps\n got %v\nwant %v", got.Gaps, want)
	}
}

var errStore = errors.New("the store is down")
