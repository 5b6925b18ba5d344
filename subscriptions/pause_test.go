package subscriptions

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

func TestPauseAndResume(t *testing.T) {
	now := t0.Add(time.Minute)
	sub := func(more func(*Subscription)) Record {
		s := aSubscription()
		s.Cursor = journal.Cursor{
			Generation: 7, Anchor: entry(12), Attempt: 2, Step: 8, LastStatus: 500,
			FirstAttemptAt: t0.Add(-10 * time.Minute), NextAttemptAt: t0.Add(10 * time.Minute),
		}
		more(s)
		return Record{Subscription: s}
	}
	plain := func(*Subscription) {}
	paused := func(s *Subscription) { s.PausedAt = now }
	earlier := func(s *Subscription) { s.PausedAt = now.Add(-time.Hour) }
	expired := func(s *Subscription) { s.ExpiresAt = now }
	ended := func(s *Subscription) { s.EndedAt, s.EndReason = t0, EndGone }
	for _, tc := range []struct {
		name   string
		change func(Record, time.Time) (Record, error)
		rec    Record
		want   Record
		err    error
	}{
		{"pause", Pause, sub(plain), sub(paused), nil},
		{"pause again", Pause, sub(earlier), sub(earlier), ErrUnchanged},
		{"pause an expired one", Pause, sub(expired), sub(expired), ErrEnded},
		{"pause an ended one", Pause, sub(ended), sub(ended), ErrEnded},
		{"pause a request", Pause, Record{Request: aRequest()}, Record{Request: aRequest()}, ErrEnded},
		{"resume", Resume, sub(earlier), sub(func(s *Subscription) {
			s.Cursor.Nudge, s.Cursor.Step, s.Cursor.NextAttemptAt = 1, 0, now
			s.Cursor.FirstAttemptAt = t0.Add(50 * time.Minute) // the hour of the pause does not count
		}), nil},
		{"resume one that is not paused", Resume, sub(plain), sub(plain), ErrUnchanged},
		{"resume an ended one", Resume, sub(ended), sub(ended), ErrEnded},
		{"retry a paused one", Retry, sub(paused), sub(paused), ErrPaused},
	} {
		before := clone(tc.rec)
		got, err := tc.change(tc.rec, now)
		if d := cmp.Diff(tc.want, got); d != "" || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v\n%s", tc.name, err, d)
		}
		if d := cmp.Diff(before, tc.rec); d != "" {
			t.Errorf("%s changes what it was given:\n%s", tc.name, d)
		}
	}
	if s := sub(paused); s.State(now) != StatePaused {
		t.Errorf("a paused one is %s", s.State(now))
	}
	if s := sub(func(s *Subscription) { paused(s); expired(s) }); s.State(now) != StateEnded {
		t.Errorf("an expired one is %s", s.State(now))
	}
}

// A renewal leaves a paused subscription paused; one that begins anew is not.
func TestPauseOutlivesARenewal(t *testing.T) {
	for name, ended := range map[string]bool{"renewed": false, "anew": true} {
		s := aSubscription()
		if s.PausedAt = t0; ended {
			s.EndedAt, s.EndReason = t0, EndUnsubscribed
		}
		r := aRequest()
		got, err := Activate(Record{s, r}, r.ID, t0, t0.Add(time.Second), time.Hour)
		if err != nil || got.Subscription.PausedAt.IsZero() != ended {
			t.Errorf("%s: paused at %v: %v", name, got.Subscription.PausedAt, err)
		}
	}
}

// The callback is asked again and its answer shown; nothing changes, whatever it is.
func TestVerifyShowsTheAnswer(t *testing.T) {
	long := strings.Repeat("x", AnswerLimit+1)
	for name, tc := range map[string]struct {
		answer func(*http.Request) (int, string, error)
		want   Verification
	}{
		"confirms": {nil, Verification{Confirmed: true, Status: 200}},
		"refuses":  {func(*http.Request) (int, string, error) { return 404, "no such list", nil }, Verification{Status: 404, Answer: []byte("no such list")}},
		"long":     {func(*http.Request) (int, string, error) { return 200, long, nil }, Verification{Status: 200, Answer: []byte(long[:AnswerLimit])}},
	} {
		virtual(t, Options{}, func(t *testing.T, w *world) {
			before := w.inForce(t, 5)
			if tc.answer != nil {
				w.answer(cbHost, tc.answer)
			}
			elapse(time.Minute)
			got, err := w.Verify(t.Context(), ID(topic, callback))
			if got.Confirmed { // the challenge is random
				got.Answer = nil
			}
			got.Took = 0
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%s: %v\n%s", name, err, d)
			}
			if d := cmp.Diff(before, w.record(callback)); d != "" {
				t.Errorf("%s changes the subscription:\n%s", name, d)
			}
			calls := w.callsTo(cbHost)
			if q := calls[0].req.URL.Query(); len(calls) != 1 || q.Get("hub.lease_seconds") != "3540" || q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != topic {
				t.Errorf("%s: asked %v", name, calls)
			}
			if e := w.eventsNamed(EventChecked); len(e) != 1 || e[0].Status != tc.want.Status {
				t.Errorf("%s: events %+v", name, e)
			}
		})
	}
	virtual(t, Options{Budget: egress.NewBudget(4)}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		if _, err := w.Verify(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
		w.inForce(t, 5)
		w.answer(cbHost, answering(500))
		var wait *validate.WaitError
		for range 100 {
			if _, err := w.Verify(t.Context(), id); errors.As(err, &wait) {
				break
			}
		}
		if n := len(w.callsTo(cbHost)); wait == nil || n > 4 {
			t.Errorf("%d calls without a confirmation", n)
		}
		elapse(2 * time.Hour)
		if _, err := w.Verify(t.Context(), id); !errors.Is(err, ErrEnded) {
			t.Errorf("of an expired one: %v", err)
		}
	})
}

// What the operator does is stored, handed to delivery, and reported.
func TestServicePausesAndResumes(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		for name, do := range map[string]func() (Record, error){
			"pause":  func() (Record, error) { return w.Pause(t.Context(), id) },
			"resume": func() (Record, error) { return w.Resume(t.Context(), id) },
		} {
			if _, err := do(); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s nothing: %v", name, err)
			}
		}
		w.inForce(t, 5)
		rec, err := w.Pause(t.Context(), id)
		if err != nil || rec.State(time.Now()) != StatePaused || cmp.Diff(rec, w.record(callback)) != "" {
			t.Errorf("%+v, %v", rec, err)
		}
		if _, err := w.Retry(t.Context(), id); !errors.Is(err, ErrPaused) {
			t.Errorf("retry: %v", err)
		}
		if rec, err = w.Resume(t.Context(), id); err != nil || rec.State(time.Now()) != StateActive {
			t.Errorf("%+v, %v", rec, err)
		}
		if told := w.told(); len(told) != 2 || told[0].PausedAt.IsZero() || !told[1].PausedAt.IsZero() {
			t.Errorf("delivery was told %+v", told)
		}
		if len(w.eventsNamed(EventPaused)) != 1 || len(w.eventsNamed(EventResumed)) != 1 {
			t.Errorf("events %+v", w.eventsNamed(""))
		}
	})
}

// What changes nothing is no event, and returns the record as it is.
func TestServicePausesOnce(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.inForce(t, 0)
		id := ID(topic, callback)
		if _, err := w.Pause(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		rec, err := w.Pause(t.Context(), id)
		if !errors.Is(err, ErrUnchanged) || rec.Subscription == nil || cmp.Diff(rec, w.record(callback)) != "" {
			t.Errorf("paused again: %+v, %v", rec, err)
		}
		if n := len(w.eventsNamed(EventPaused)); n != 1 || len(w.told()) != 1 {
			t.Errorf("%d events, and delivery was told %d times", n, len(w.told()))
		}
		if _, err := w.Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Resume(t.Context(), id); !errors.Is(err, ErrUnchanged) || len(w.eventsNamed(EventResumed)) != 1 {
			t.Errorf("resumed again: %v", err)
		}
	})
}
