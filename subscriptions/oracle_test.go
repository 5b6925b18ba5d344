package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// callLog writes down what a store is asked for, in order.
type callLog struct {
	Registry
	Space
	mu    sync.Mutex
	calls []string
}

func (c *callLog) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *callLog) Get(ctx context.Context, id uuid.UUID) (Record, error) {
	c.note("get")
	return c.Registry.Get(ctx, id)
}

func (c *callLog) Update(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	rec, err := c.Registry.Update(ctx, id, func(rec Record) (Record, error) {
		c.note("read")
		changed, err := change(rec)
		if err == nil && changed.Request != rec.Request {
			c.note("write")
		}
		return changed, err
	})
	c.note("update")
	return rec, err
}

func (c *callLog) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]Record, error) {
	c.note("list")
	return c.Registry.List(ctx, shard, after, limit)
}

// taken are the calls since the last time.
func (c *callLog) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// HUB-18: nobody can tell from how long a request takes whether there is a
// subscription, a request for one, one that ended, or none: before it is answered
// the store does the same, in the same order, and no callback is called.
func TestAcceptDoesTheSameWhateverThereIs_HUB18(t *testing.T) {
	for _, limits := range []Options{{}, {MaxPending: 100, MaxPendingPerHost: 50, MaxPerHost: 50}, {MaxTotal: 1}} {
		w := newWorld(limits)
		c := &callLog{Registry: w.store, Space: w.store}
		w.o.Store = c
		at := func(name string) string { return "https://" + cbHost + "/" + name }
		now := time.Now()
		for name, change := range map[string]func(*Subscription){
			"active":  func(*Subscription) {},
			"expired": func(s *Subscription) { s.ExpiresAt = now.Add(-time.Hour) },
			"ended":   func(s *Subscription) { s.EndedAt, s.EndReason = now, EndGone },
		} {
			s := Subscription{ID: ID(topic, at(name)), Topic: topic, Callback: at(name), Secret: "s", CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(time.Hour)}
			change(&s)
			if _, err := w.store.Update(t.Context(), s.ID, func(Record) (Record, error) { return Record{Subscription: &s}, nil }); err != nil {
				t.Fatal(err)
			}
		}
		w.accept(t, subscribe(at("pending")))
		c.taken()
		for _, ask := range []func(string) websub.SubscribeRequest{subscribe, unsubscribe} {
			w.accept(t, ask(at("unknown")))
			want := c.taken()
			if !slices.Contains(want, "write") {
				t.Errorf("what is not known takes %q", want)
			}
			for _, name := range []string{"active", "expired", "ended", "pending"} {
				w.accept(t, ask(at(name)))
				if got := c.taken(); !slices.Equal(got, want) {
					t.Errorf("%s: %q, and what is not known takes %q", name, got, want)
				}
			}
		}
		// A full store refuses them alike, and before it is asked for any.
		w.store.full = fmt.Errorf("%w: no room", journal.ErrFull)
		for _, ask := range []func(string) websub.SubscribeRequest{subscribe, unsubscribe} {
			for _, name := range []string{"active", "expired", "ended", "pending", "unknown", "new"} {
				if err := w.Accept(t.Context(), ask(at(name)), ""); !errors.Is(err, journal.ErrFull) || len(c.taken()) > 0 {
					t.Errorf("%s, while the store is full: %v", name, err)
				}
			}
		}
		if len(w.callsTo("")) != 0 {
			t.Errorf("%d callbacks were called", len(w.callsTo("")))
		}
	}
}
