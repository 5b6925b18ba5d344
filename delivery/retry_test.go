package delivery

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A failing callback is tried again up the ladder, in order, with nothing else
// sent meanwhile, whatever it answers (HUB-47, HUB-48).
func TestRetryLadder_HUB48(t *testing.T) {
	for name, fail := range map[string]callback{
		"500": answers(500), "404": answers(404), "307": answers(307, "Location", "http://elsewhere.example/"),
		"400": answers(400), "down": down, "503": answers(503),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicA, cb(0))
				fails := 4
				b.set(cb(0), func(r *http.Request, body []byte) (*http.Response, error) {
					if fails--; fails >= 0 {
						return fail(r, body)
					}
					return nil, nil
				})
				b.run()
				defer b.end()
				one := b.publish(t, topicA, []byte("one"))
				pass(time.Second)
				two := b.publish(t, topicA, []byte("two"))
				pass(20 * time.Minute)
				b.wantOrder(cb(0), one, two)
				b.wantWaits(cb(0), 5*time.Second, 30*time.Second, 2*time.Minute, 10*time.Minute, 0)
				for i, r := range b.attempts(cb(0))[:5] {
					if r.attempt != i+1 || r.id != one.ID.String() {
						t.Errorf("attempt %d said it is number %d of %s", i+1, r.attempt, r.id)
					}
				}
				s, attempts := b.stored(sub)
				if len(attempts) != 5 || attempts[3].Number != 4 || attempts[4].Status != 200 || attempts[4].Number != 5 {
					t.Errorf("attempts kept: %+v", attempts)
				}
				if s.Cursor.Step != 0 || s.Cursor.Attempt != 0 || len(s.Gaps) != 0 {
					t.Errorf("stored %+v", s)
				}
			})
		})
	}
}

// After --give-up a notification is passed over with a gap record; the
// subscription stays and the next notification is tried (HUB-48, invariants 9
// and 10). The step stays, so that a dead host is not hammered afresh.
func TestGiveUp_HUB48(t *testing.T) {
	const top = 54 * time.Second // the middle of what jitter makes of the top step
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Policy = Policy{First: time.Second, Max: time.Minute, GiveUp: 5 * time.Minute} })
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(500))
		b.run()
		defer b.end()
		start := time.Now()
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("two"))
		three := b.publish(t, topicA, []byte("three"))
		pass(5*time.Minute + time.Second)
		b.wantGaps(sub, journal.Gap{From: one.From, Until: one.Until, Count: 1, Reason: journal.GapGaveUp})
		tried := b.attempts(cb(0))
		if last := tried[len(tried)-1]; last.id != one.ID.String() || last.at.Sub(start) != 5*time.Minute {
			t.Errorf("the last attempt of the first came after %v", last.at.Sub(start))
		}
		n := len(tried)
		pass(6 * time.Minute)
		// Two neighbours are one gap.
		b.wantGaps(sub, journal.Gap{From: one.From, Until: two.Until, Count: 2, Reason: journal.GapGaveUp})
		tried = b.attempts(cb(0))[n:]
		if tried[0].at.Sub(start) != 5*time.Minute+top || tried[0].id != two.ID.String() || tried[0].attempt != 1 {
			t.Errorf("the second was tried first after %v: %+v", tried[0].at.Sub(start), tried[0])
		}
		if len(tried) != 7 {
			t.Errorf("%d attempts at the second", len(tried))
		}
		for i := 1; i < 6; i++ { // the last one comes when the time is over
			if w := tried[i].at.Sub(tried[i-1].at); w != top {
				t.Errorf("wait %v at a host that is dead for long", w)
			}
		}
		b.set(cb(0), nil)
		pass(time.Minute)
		b.wantOrder(cb(0), three)
	})
}

// 400, 413, 415 and 422 are given up at the fifth attempt, and the next
// notification is tried at once.
func TestRefusedFiveTimes(t *testing.T) {
	for _, code := range []int{400, 413, 415, 422} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			sub := b.subscribe(topicA, cb(0))
			b.set(cb(0), func(_ *http.Request, body []byte) (*http.Response, error) {
				if string(body) == "bad" {
					return status(code), nil
				}
				return nil, nil
			})
			b.run()
			defer b.end()
			bad := b.publish(t, topicA, []byte("bad"))
			good := b.publish(t, topicA, []byte("good"))
			pass(time.Hour)
			b.wantOrder(cb(0), good)
			b.wantWaits(cb(0), 5*time.Second, 30*time.Second, 2*time.Minute, 10*time.Minute, 0)
			b.wantGaps(sub, journal.Gap{From: bad.From, Until: bad.Until, Count: 1, Reason: journal.GapGaveUp})
		})
	}
}

// 410 ends the subscription, with a gap for all that was not delivered.
func TestGone_HUB47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), func(_ *http.Request, body []byte) (*http.Response, error) {
			if string(body) == "0" {
				return nil, nil
			}
			return status(http.StatusGone), nil
		})
		var all []journal.Entry
		for n := range 4 {
			all = append(all, b.publish(t, topicA, fmt.Append(nil, n)))
		}
		b.run()
		defer b.end()
		pass(time.Second)
		b.publish(t, topicA, []byte("later"))
		pass(time.Hour)
		b.wantOrder(cb(0), all[0])
		if n := len(b.attempts(cb(0))); n != 2 {
			t.Errorf("%d attempts", n)
		}
		b.wantGaps(sub, journal.Gap{From: all[0].Until, Until: all[3].Until, Count: 3, Reason: journal.GapGone})
		if s, _ := b.stored(sub); s.EndReason != subscriptions.EndGone || s.EndedAt.IsZero() {
			t.Errorf("stored %+v", s)
		}
		if st := b.d.Stats(); st.Lanes != 0 || st.Hosts != 0 || st.Topics != 0 || st.Gone != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A 410 while the head of the topic cannot be read ends the subscription later.
func TestGoneWhileStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		down := false
		b.failRead = func() error {
			if down {
				return errStore
			}
			return nil
		}
		b.set(cb(0), func(*http.Request, []byte) (*http.Response, error) {
			b.memory.mu.Lock()
			defer b.memory.mu.Unlock()
			down = true
			return status(http.StatusGone), nil
		})
		b.run()
		defer b.end()
		e := b.publish(t, topicA, []byte("x"))
		pass(10 * time.Second)
		b.wantGaps(sub)
		b.set(cb(0), answers(410))
		b.memory.mu.Lock()
		down = false
		b.memory.mu.Unlock()
		pass(10 * time.Second)
		b.wantGaps(sub, journal.Gap{From: time.Time{}, Until: e.Until, Count: 1, Reason: journal.GapGone})
	})
}

// Retry-After is kept to, and a publish does not shorten it; other waits are
// shortened to ten minutes by one (HUB-48).
func TestPublishShortensWaits_HUB48(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.subscribe(topicA, cb(1))
		b.set(cb(0), answers(500))
		b.set(cb(1), answers(503, "Retry-After", "7200"))
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("one"))
		ladder := 5*time.Second + 30*time.Second + 2*time.Minute + 10*time.Minute + 30*time.Minute
		pass(ladder + time.Minute) // one waits for an hour now, the other for two
		b.publish(t, topicA, []byte("two"))
		pass(30 * time.Minute)
		b.publish(t, topicA, []byte("three")) // one waits for two hours now
		pass(9 * time.Minute)
		b.publish(t, topicA, []byte("four")) // and is tried within the minute
		pass(3 * time.Hour)
		b.wantWaits(cb(0), 5*time.Second, 30*time.Second, 2*time.Minute, 10*time.Minute, 30*time.Minute,
			11*time.Minute, 30*time.Minute)
		b.wantWaits(cb(1), 2*time.Hour, 2*time.Hour)
	})
}

// A retry now is due at once, at a suspect host too, and begins the ladder anew.
func TestRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), down)
		b.run()
		defer b.end()
		e := b.publish(t, topicA, []byte("one"))
		pass(2 * time.Hour)
		n := len(b.attempts(cb(0)))
		if b.d.Stats().Suspects != 1 {
			t.Fatal("the host is not suspect")
		}
		nudge := func() {
			s, _ := b.stored(sub)
			s.Cursor.Nudge++
			s.Cursor.Step = 0
			s.Cursor.NextAttemptAt = time.Now()
			b.d.Apply(s)
			pass(time.Second) // and committed
		}
		nudge()
		if m := len(b.attempts(cb(0))); m != n+1 {
			t.Fatalf("%d attempts after a retry now, want one more than %d", m, n)
		}
		b.set(cb(0), nil)
		nudge()
		b.wantOrder(cb(0), e)
	})
}

// A restarted hub continues each wait.
func TestRestartKeepsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(500))
		b.run()
		b.publish(t, topicA, []byte("one"))
		pass(3 * time.Minute)
		b.end()
		second := newBed(t, func(o *Options) { o.Journal, o.Subscriptions, o.Client = b.memory, b.memory, over(b.wire) })
		second.memory = b.memory
		second.run()
		defer second.end()
		pass(time.Hour)
		b.wantWaits(cb(0), 5*time.Second, 30*time.Second, 2*time.Minute, 10*time.Minute, 30*time.Minute)
		if last := b.attempts(cb(0))[5]; last.attempt != 6 {
			t.Errorf("attempt %d after the restart", last.attempt)
		}
	})
}
