package subscriptions

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// HUB-20, HUB-21: a topic that the check denies is not verified; the callback is
// told why, once, whatever it answers, and what was in force stays (HUB-12).
func TestDeniedTopicIsTold_HUB20_HUB21(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		before := w.record(callback).Subscription
		if before == nil {
			t.Fatal("a topic that may be subscribed to was not")
		}
		w.checking(func(string) error { return &validate.DeniedError{Reason: "not one of ours & never was"} })
		w.answer(cbHost, answering(400))
		w.accept(t, subscribe(callback))
		elapse(time.Hour)
		calls := w.callsTo(cbHost)
		if len(calls) != 2 {
			t.Fatalf("%d calls, want a verification and a denial", len(calls))
		}
		want := "a=1&hub.mode=denied&hub.topic=https%3A%2F%2Fsource.example%2Fchanges%2F&hub.reason=not%20one%20of%20ours%20%26%20never%20was"
		if got := calls[1].req.URL.RawQuery; got != want {
			t.Errorf("denied with\n%s, want\n%s", got, want)
		}
		if d := cmp.Diff(Record{Subscription: before}, w.record(callback)); d != "" {
			t.Error(d)
		}
	})
}

// The topic check of package validate denies by itself: nothing has to translate its errors.
func TestTopicCheckerDenies(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer("source.example", answering(404)) // the topic
		topics, err := validate.NewTopicChecker(validate.TopicOptions{HubURL: "https://hub.example/", Client: w})
		if err != nil {
			t.Fatal(err)
		}
		defer topics.Close()
		w.checking(func(topic string) error { return topics.Check(t.Context(), topic) })
		w.answer(cbHost, answering(200))
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		calls := w.callsTo(cbHost)
		if len(calls) != 1 || calls[0].req.URL.Query().Get("hub.reason") == "" {
			t.Errorf("%d calls of the callback, want one denial with its reason", len(calls))
		}
	})
}

// HUB-21: a denial that could not be told, be it that the callback fails, is
// silent or can't be connected to, is told again a few times; it takes places of
// the budget, which nobody gives back.
func TestDenialIsTriedAgain_HUB21(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (int, string, error){
		"500":     answering(500),
		"503":     answering(503),
		"timeout": hang,
		"refused": func(*http.Request) (int, string, error) {
			return 0, "", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Options{Budget: egress.NewBudget(2)}, func(t *testing.T, w *world) {
				w.checking(func(string) error { return &validate.DeniedError{} })
				w.answer(cbHost, answer)
				w.accept(t, subscribe(callback))
				w.store.records[ID(topic, callback)].Request.Tries = 3 // of its verification, before a restart
				defer w.run(t)()
				elapse(25 * time.Second) // the silent one is waited for for 15
				if n := len(w.callsTo(cbHost)); n != 2 {
					t.Errorf("%d tries in 25 s", n)
				}
				elapse(time.Hour)
				calls := w.callsTo(cbHost)
				if len(calls) != 4 || w.store.size() != 0 {
					t.Errorf("%d tries, %d records", len(calls), w.store.size())
				}
				if dropped := w.eventsNamed(EventDropped); len(dropped) != 1 || !strings.HasSuffix(dropped[0].Reason, ": The topic is not served by this hub.") {
					t.Errorf("dropped without the reason of the denial: %+v", dropped)
				}
				for _, c := range calls {
					if q := c.req.URL.Query(); q.Get("hub.mode") != "denied" || q.Get("hub.reason") == "" || q.Has("hub.challenge") {
						t.Errorf("denied with %v", q)
					}
				}
			})
		})
	}
}

// HUB-20: unsubscribing is never checked with the publisher.
func TestUnsubscribeIsNotValidated_HUB20_HUB27(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		w.checking(func(string) error {
			t.Error("the topic was checked")
			return &validate.DeniedError{}
		})
		w.publish(2)
		w.accept(t, unsubscribe(callback))
		elapse(time.Second)
		s := w.record(callback).Subscription
		if s.EndReason != EndUnsubscribed || len(s.Gaps) != 1 || s.Gaps[0].Count != 2 {
			t.Errorf("it ended as %+v", s)
		}
		if last := w.told()[len(w.told())-1]; last.EndReason != EndUnsubscribed {
			t.Error("delivery was not told")
		}
	})
}

// A topic that can't be asked denies nothing: the request waits, then is
// verified; if it never can be, it is dropped after an hour.
func TestTopicThatCannotBeAskedIsAskedLater(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		var asked atomic.Int32
		down := func(string) error {
			if asked.Add(1) == 4 {
				return &validate.WaitError{After: 20 * time.Minute}
			}
			return errors.New("no such host")
		}
		w.checking(down)
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(20 * time.Minute)
		if asked.Load() != 4 || len(w.callsTo("")) != 0 || w.record(callback).Request == nil {
			t.Errorf("asked %d times, %d calls", asked.Load(), len(w.callsTo("")))
		}
		w.checking(nil)
		elapse(20 * time.Minute)
		if w.record(callback).Subscription == nil {
			t.Error("it was not verified once the topic could be asked")
		}
		w.checking(down)
		other := "https://other.example/"
		w.accept(t, subscribe(other))
		elapse(40 * time.Minute)
		if w.record(other).Request == nil {
			t.Error("it was dropped too soon")
		}
		elapse(time.Hour)
		if rec := w.record(other); rec.Request != nil || len(w.callsTo("other.example")) != 0 || asked.Load() > 12 {
			t.Errorf("after two hours: %+v, asked %d times", rec, asked.Load())
		}
	})
}

// Another topic's dead host holds up neither checks nor verifications.
func TestDeadTopicDelaysNoOther(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.checking(func(url string) error {
			if url != topic {
				time.Sleep(time.Minute)
				return errors.New("timeout")
			}
			return nil
		})
		defer w.run(t)()
		for range 500 {
			r := subscribe("https://" + uuid.NewString() + ".example/")
			r.Topic = "https://dead.example/changes/"
			w.accept(t, r)
		}
		elapse(time.Second)
		accepted := time.Now()
		w.accept(t, subscribe(callback))
		elapse(0)
		if s := w.record(callback).Subscription; s == nil || !s.VerifiedAt.Equal(accepted) {
			t.Errorf("it waited: %+v", s)
		}
	})
}

// The operator's end: at once, with a gap, a notice to the callback (HUB-21),
// and without what was pending.
func TestEndTellsTheCallback_HUB21(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		if err := w.End(t.Context(), id, EndRemoved, "no"); !errors.Is(err, ErrNotFound) {
			t.Errorf("End of nothing: %v", err)
		}
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		w.publish(6)
		w.answer(cbHost, answering(500))
		w.accept(t, subscribe(callback)) // a renewal that is pending
		elapse(time.Second)
		w.answer(cbHost, answering(http.StatusNotFound)) // of the denial, which may be told at once
		if err := w.End(t.Context(), id, EndRemoved, "Please move."); err != nil {
			t.Fatal(err)
		}
		rec := w.record(callback)
		if s := rec.Subscription; s.EndReason != EndRemoved || len(s.Gaps) != 1 || s.Gaps[0].Count != 6 || s.Gaps[0].Reason != journal.GapRemoved {
			t.Errorf("it ended as %+v", s)
		}
		if last := w.told()[len(w.told())-1]; last.EndReason != EndRemoved {
			t.Error("delivery was not told")
		}
		elapse(10 * time.Minute)
		calls := w.callsTo(cbHost)
		if q := calls[len(calls)-1].req.URL.Query(); q.Get("hub.mode") != "denied" || q.Get("hub.reason") != "Please move." {
			t.Errorf("told %v", q)
		}
		if n := len(calls); n != 3 {
			t.Errorf("%d calls", n)
		}
		if err := w.End(t.Context(), id, EndRemoved, "again"); err != nil {
			t.Error(err)
		}
		elapse(10 * time.Minute)
		if rec := w.record(callback); rec.Request != nil || len(w.callsTo(cbHost)) != 3 {
			t.Errorf("it was ended twice: %+v", rec)
		}
	})
}

// slowHeads answers a second late.
type slowHeads struct{ Heads }

func (h slowHeads) Head(ctx context.Context, topic string) (journal.Head, error) {
	head, err := h.Heads.Head(ctx, topic)
	time.Sleep(time.Second)
	return head, err
}

// Invariant 10: what is accepted after the head was read, from which the gap of
// an end is counted, is accepted after the end, and so owed to nobody.
func TestItEndsBeforeTheHeadIsRead_Invariant10(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *world){
		"unsubscribed": func(t *testing.T, w *world) {
			t.Helper()
			w.accept(t, unsubscribe(callback))
		},
		"removed": func(t *testing.T, w *world) {
			t.Helper()
			if err := w.End(t.Context(), ID(topic, callback), EndRemoved, ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		virtual(t, Options{}, func(t *testing.T, w *world) {
			defer w.run(t)()
			w.accept(t, subscribe(callback))
			elapse(time.Minute)
			w.o.Heads = slowHeads{w.o.Heads}
			began := time.Now()
			end(t, w)
			elapse(time.Minute)
			s := w.record(callback).Subscription
			read := began
			if name == "unsubscribed" {
				read = began.Add(time.Second) // that of Accept, for the start
			}
			if s.EndedAt.IsZero() || s.EndedAt.After(read) {
				t.Errorf("%s: it ended %v after the head was read", name, s.EndedAt.Sub(read))
			}
		})
	}
}
