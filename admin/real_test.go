package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// real is the API over a store, a Service and a Dispatcher that run.
type real struct {
	t     *testing.T
	store *embedstore.Store
	base  string
}

func newReal(t *testing.T) *real {
	t.Helper()
	s, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := delivery.New(delivery.Options{Journal: s, Subscriptions: s, Client: client, HubURL: "http://hub.example/", CommitWindow: time.Millisecond, Sweep: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	service, err := subscriptions.New(subscriptions.Options{Store: s, Heads: s, Entries: s, Client: client, Changed: d.Apply, ResumeWithin: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{d.Run, service.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for shard := range journal.Partitions {
		if err := d.Start(ctx, shard); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	api := newAPI(Options{
		Topics: s, Subscriptions: s, Pings: s, Control: func() Control { return service },
		Info: func(context.Context) Info { return Info{} },
	})
	server := httptest.NewServer(api.handler())
	t.Cleanup(server.Close)
	return &real{t, s, server.URL + "/api/v1"}
}

// publish appends the n-th notification of a minute to the topic.
func (r *real) publish(n int) journal.Entry {
	r.t.Helper()
	body := []byte(fmt.Sprint(n))
	at := noon.Add(time.Duration(n) * time.Minute)
	e := journal.Entry{From: at.Add(-time.Minute), Until: at, Kind: journal.KindChange, MediaType: "application/xml", Size: int64(len(body)), Body: body}
	for {
		head, err := r.store.Head(r.t.Context(), theTopic)
		if err != nil {
			r.t.Error(err)
			return e
		}
		stored, err := r.store.Append(r.t.Context(), time.Now(), theTopic, e, head.Version)
		if !errors.Is(err, journal.ErrHeadMoved) {
			if err != nil {
				r.t.Error(err)
			}
			return stored
		}
	}
}

func (r *real) subscribe(callback string) string { return r.subscribeFor(callback, time.Hour) }

// subscribeFor makes a subscription with a lease of this length.
func (r *real) subscribeFor(callback string, lease time.Duration) string {
	r.t.Helper()
	id, now := subscriptions.ID(theTopic, callback), time.Now()
	head, err := r.store.Head(r.t.Context(), theTopic)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.store.Update(r.t.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{Subscription: &subscriptions.Subscription{
			ID: id, Topic: theTopic, Callback: callback, CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(lease),
			Start: head.Last, Cursor: journal.Cursor{Generation: journal.MintGeneration(0, now), Anchor: head.Last},
		}}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return id.String()
}

// call makes a call of the API and complains of another status.
func call[T any](r *real, status int, method, path, body string) T {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		r.t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, got, err)
	}
	return decodeBody[T](r.t, string(got))
}

// until waits for a condition.
func (r *real) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it never came that %s", what)
		}
	}
}

// receiver is a callback that is down at first.
type receiver struct {
	mu     sync.Mutex
	up     bool
	got    []string
	denied string
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch q := r.URL.Query(); {
	case q.Get("hub.mode") == "denied":
		c.denied = q.Get("hub.reason")
	case !c.up:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		c.got = append(c.got, string(body))
	}
}

func (c *receiver) does(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *receiver) has(want string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return strings.Join(c.got, " ") == want
	}
}

// The story of a subscriber that was down, over the real parts: the API shows that it fails and
// why, a retry delivers at once, a replay delivers again, and nothing was lost. In the end the
// subscription is removed.
func TestOperatingASubscription(t *testing.T) {
	r := newReal(t)
	first := r.publish(1)
	rcv := &receiver{}
	server := httptest.NewServer(rcv)
	defer server.Close()
	id := r.subscribe(server.URL + "/cb?secret=1")
	sub := "/subscriptions/" + id
	get := func() Subscription { return call[Subscription](r, 200, "GET", sub, "") }

	two, three := r.publish(2), r.publish(3)
	r.until("it fails", func() bool { return get().State == "failing" })
	s := get()
	if s.Lag == nil || s.Lag.Notifications != 2 || s.Lag.Seconds != 120 || s.LastStatus != 500 || s.Attempt != 1 || !s.NextAttemptAt.After(time.Now()) {
		t.Errorf("while it is down: %+v, lag %+v", s, s.Lag)
	}
	attempts := call[Page[Attempt]](r, 200, "GET", sub+"/attempts", "").Items
	if len(attempts) != 1 || attempts[0].Status != 500 || attempts[0].NotificationID != two.ID.String() {
		t.Errorf("attempts: %+v", attempts)
	}
	if n := call[NotificationStatus](r, 200, "GET", "/notifications/"+three.ID.String(), ""); n.Pending != 1 || n.Delivered != 0 {
		t.Errorf("%+v", n)
	}

	rcv.does(func() { rcv.up = true })
	if s := call[Subscription](r, 200, "POST", sub+"/retry", ""); s.NextAttemptAt.After(time.Now()) {
		t.Errorf("after the retry: %+v", s)
	}
	r.until("the retry delivers", rcv.has("2 3"))
	r.until("it is active", func() bool { return get().State == "active" && get().Lag.Notifications == 0 })
	if n := call[NotificationStatus](r, 200, "GET", "/notifications/"+two.ID.String(), ""); n.Pending != 0 || n.Delivered != 1 {
		t.Errorf("%+v", n)
	}
	if n := call[NotificationStatus](r, 200, "GET", "/notifications/"+first.ID.String(), ""); n.Pending+n.Delivered+n.Skipped != 0 {
		t.Errorf("from before it began: %+v", n)
	}
	if attempts := call[Page[Attempt]](r, 200, "GET", sub+"/attempts", "").Items; len(attempts) != 2 || attempts[1].Status != 200 || attempts[1].Attempt != 2 {
		t.Errorf("attempts: %+v", attempts)
	}

	since := fmt.Sprintf(`{"since": %q}`, first.Until.Format(time.RFC3339))
	if p := call[Replay](r, 200, "POST", sub+"/replay", since); p.Notifications != 2 || p.Subscription.ID != id {
		t.Errorf("%+v", p)
	}
	r.until("the replay delivers again", rcv.has("2 3 2 3"))
	if gaps := call[Page[Gap]](r, 200, "GET", sub+"/gaps", "").Items; len(gaps) != 0 {
		t.Errorf("gaps: %+v", gaps)
	}
	list := call[Page[Notification]](r, 200, "GET", "/topics/"+journal.TopicID(theTopic).String()+"/notifications?since="+two.From.Format(time.RFC3339), "").Items
	if len(list) != 2 || list[0].ID != two.ID.String() || list[1].ID != three.ID.String() {
		t.Errorf("%+v", list)
	}

	// Down again, with a notification that it will not get.
	rcv.does(func() { rcv.up = false })
	four := r.publish(4)
	r.until("it fails again", func() bool { return get().State == "failing" })
	for range 2 {
		if s := call[Subscription](r, 200, "DELETE", sub, ""); s.State != "ended" || s.EndReason != "removed" {
			t.Errorf("%+v", s)
		}
	}
	r.until("the callback is told", func() bool {
		rcv.mu.Lock()
		defer rcv.mu.Unlock()
		return rcv.denied == endNotice
	})
	gaps := call[Page[Gap]](r, 200, "GET", sub+"/gaps", "").Items
	if len(gaps) != 1 || gaps[0].Reason != "removed" || gaps[0].Count != 1 || !gaps[0].From.Equal(three.Until) || !gaps[0].Until.Equal(four.Until) {
		t.Errorf("%+v", gaps)
	}
	if n := call[NotificationStatus](r, 200, "GET", "/notifications/"+four.ID.String(), ""); n.Skipped != 1 || n.Pending != 0 {
		t.Errorf("%+v", n)
	}
	for _, path := range []string{"/retry", "/replay"} {
		body := ""
		if path == "/replay" {
			body = since
		}
		if p := call[Problem](r, 409, "POST", sub+path, body); !strings.Contains(p.Detail, "subscribe again") {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// After a reset the next notification may start at any time, and the topic says so. A trimmed
// notification is not mentioned any more.
func TestOperatingATopic(t *testing.T) {
	r := newReal(t)
	path := "/topics/" + journal.TopicID(theTopic).String()
	call[Problem](r, 404, "GET", path, "")
	call[Problem](r, 404, "POST", path+"/reset", "")
	one, _ := r.publish(1), r.publish(2)
	// Resets and publishes at the same time do not lose each other.
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range 20 {
			r.publish(3 + n)
		}
	})
	for range 20 {
		if topic := call[Topic](r, 200, "POST", path+"/reset", ""); !topic.Reset {
			t.Errorf("%+v", topic)
		}
	}
	wg.Wait()
	if _, err := r.store.Trim(t.Context(), theTopic, journal.Cut{KeepBytes: 5}); err != nil {
		t.Fatal(err)
	}
	topic := call[Topic](r, 200, "GET", path, "")
	items := call[Page[Notification]](r, 200, "GET", path+"/notifications?after="+one.ID.String(), "").Items
	if topic.Head.Seq != 22 || int64(len(items)) != topic.Retained.Entries || len(items) == 0 || items[len(items)-1].Seq != 22 {
		t.Errorf("%d retained: %+v", topic.Retained.Entries, items)
	}
	call[Problem](r, 404, "GET", "/notifications/"+one.ID.String(), "")
}
