package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// The counts cover the subscriptions of the topic that began before the
// notification and had not ended by then.
func TestNotificationIsCounted(t *testing.T) {
	m := &memory{}
	entries := m.addEntries(theTopic, 5, 0)
	other := m.addEntries("https://example.org/other", 5, 0)
	add := func(topic string, n int, more func(*subscriptions.Subscription)) {
		for range n {
			s := &subscriptions.Subscription{Topic: topic, Callback: "https://s.example/" + uuid.NewString(), CreatedAt: noon, ExpiresAt: noon.Add(240 * time.Hour)}
			s.ID = subscriptions.ID(s.Topic, s.Callback)
			more(s)
			m.addRecord(subscriptions.Record{Subscription: s})
		}
	}
	it := entries[2]
	at := func(e journal.Entry) func(*subscriptions.Subscription) {
		return func(s *subscriptions.Subscription) { s.Cursor.Anchor = e.Anchor() }
	}
	add(theTopic, 300, at(it))
	add(theTopic, 100, at(entries[4]))
	add(theTopic, 30, at(entries[1]))
	add(theTopic, 20, func(s *subscriptions.Subscription) { // passed over
		s.Cursor.Anchor = entries[4].Anchor()
		s.Gaps = []journal.Gap{{From: it.From, Until: it.Until, Count: 1, At: it.ReceivedAt.Add(time.Hour)}}
	})
	add(theTopic, 10, func(s *subscriptions.Subscription) { s.EndedAt = it.ReceivedAt.Add(time.Second) })
	add(theTopic, 5, func(s *subscriptions.Subscription) { s.EndedAt = it.ReceivedAt.Add(-time.Second) })
	add(theTopic, 7, func(s *subscriptions.Subscription) { s.Start, s.Cursor.Anchor = it.Anchor(), entries[4].Anchor() })
	add("https://example.org/other", 50, at(other[4]))
	m.addRecord(subscriptions.Record{Request: &subscriptions.Request{Mode: "subscribe", Topic: theTopic, Callback: "https://s.example/cb"}})

	url := start(t, Options{Topics: m, Subscriptions: m}) + "/api/v1/notifications/"
	got := decode[NotificationStatus](t, url+it.ID.String())
	if got.Topic != theTopic || got.ID != it.ID.String() || got.Delivered != 400 || got.Pending != 30 || got.Skipped != 30 || !got.AsOf.Equal(noon) {
		t.Errorf("%+v", got)
	}
	// Nothing is read anew for some seconds.
	before := m.calls.Load()
	decode[NotificationStatus](t, url+it.ID.String())
	if m.calls.Load() != before {
		t.Error("it was counted again")
	}
	m.failAfter = m.calls.Load() + 20
	resp, body := send(t, http.MethodGet, url+entries[1].ID.String())
	wantProblem(t, resp, body, 503, "on fire")
	m.failAfter = 0
	if got := decode[NotificationStatus](t, url+entries[1].ID.String()); got.Delivered != 450 {
		t.Errorf("after a failure: %+v", got)
	}
}

// counts is a count that the test controls: it lasts a second.
type counts struct {
	begun, ended, cancelled atomic.Int64
	most, now               atomic.Int64
	fail                    error
}

func (c *counts) count(ctx context.Context, id uuid.UUID) (NotificationStatus, error) {
	n := c.begun.Add(1)
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	defer c.now.Add(-1)
	out := NotificationStatus{Topic: id.String(), Delivered: int(n), AsOf: time.Now()}
	select {
	case <-time.After(time.Second):
		c.ended.Add(1)
		return out, c.fail
	case <-ctx.Done():
		c.cancelled.Add(1)
		return NotificationStatus{}, ctx.Err()
	}
}

func withCounter(t *testing.T, do func(t *testing.T, c *counts, get func(ctx context.Context, id uuid.UUID) (NotificationStatus, error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &counts{}
		do(t, c, newCounter(c.count, time.Now).get)
	})
}

// However many ask, it is counted once, and anew after five seconds.
func TestCountIsShared(t *testing.T) {
	withCounter(t, func(t *testing.T, _ *counts, get func(context.Context, uuid.UUID) (NotificationStatus, error)) {
		id := uuid.New()
		ask := func(n int, want int) {
			t.Helper()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					got, err := get(t.Context(), id)
					if err != nil || got.Delivered != want || got.Topic != id.String() {
						t.Errorf("%+v, %v, want count %d", got, err, want)
					}
				})
			}
			wg.Wait()
		}
		begun := time.Now()
		ask(100, 1)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v", took)
		}
		ask(1, 1)
		time.Sleep(countedFor - time.Second - 1)
		ask(1, 1)
		time.Sleep(time.Nanosecond)
		ask(100, 2)
	})
}

// A count that fails is not kept.
func TestCountThatFails(t *testing.T) {
	withCounter(t, func(t *testing.T, c *counts, get func(context.Context, uuid.UUID) (NotificationStatus, error)) {
		c.fail = errors.New("on fire")
		for want := range int64(2) {
			if _, err := get(t.Context(), uuid.Nil); !errors.Is(err, c.fail) || c.begun.Load() != want+1 {
				t.Errorf("%v after %d", err, c.begun.Load())
			}
		}
	})
}

// A count goes on as long as somebody waits for it, and no longer. A caller that comes later begins
// another one.
func TestCountEndsWhenNobodyWaits(t *testing.T) {
	withCounter(t, func(t *testing.T, c *counts, get func(context.Context, uuid.UUID) (NotificationStatus, error)) {
		id := uuid.New()
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{first, second} {
			wg.Go(func() {
				if _, err := get(ctx, id); !errors.Is(err, context.Canceled) {
					t.Errorf("who left got %v", err)
				}
			})
		}
		synctest.Wait()
		leave() // whoever began it
		synctest.Wait()
		if c.cancelled.Load() != 0 || c.begun.Load() != 1 {
			t.Errorf("%d counts, %d cancelled, with one waiting", c.begun.Load(), c.cancelled.Load())
		}
		leaveToo()
		wg.Wait()
		if c.cancelled.Load() != 1 {
			t.Error("it goes on for nobody")
		}
		if got, err := get(t.Context(), id); err != nil || got.Delivered != 2 {
			t.Errorf("anew: %+v, %v", got, err)
		}
	})
}

// Few counts run at once, and the kept results are bounded. A caller that leaves while it waits for
// a turn uses none.
func TestCountsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counts{}
		cr := newCounter(c.count, time.Now)
		var wg sync.WaitGroup
		impatient, leave := context.WithCancel(t.Context())
		for i := range 2 * maxCounted {
			wg.Go(func() { _, _ = cr.get(t.Context(), uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint(i)))) })
		}
		synctest.Wait()
		for i := range 100 {
			wg.Go(func() { _, _ = cr.get(impatient, uuid.NewSHA1(uuid.Max, []byte(fmt.Sprint(i)))) })
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if c.most.Load() != maxRunning || c.begun.Load() > 2*maxCounted+100 || cr.kept.Len() != maxCounted || len(cr.running) != 0 {
			t.Errorf("%d at once, %d begun, %d kept, %d left", c.most.Load(), c.begun.Load(), cr.kept.Len(), len(cr.running))
		}
		if c.ended.Load() < 2*maxCounted {
			t.Errorf("only %d of those who waited got one", c.ended.Load())
		}
	})
}
