package subscriptions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

func TestRetry(t *testing.T) {
	now := t0.Add(time.Minute)
	waits := journal.Cursor{
		Generation: 7, Anchor: entry(12), Nudge: 1, Attempt: 2, Step: 8, LastStatus: 500,
		FirstAttemptAt: t0.Add(-10 * time.Minute), NextAttemptAt: t0.Add(10 * time.Minute),
	}
	due := waits
	due.Nudge, due.Step, due.NextAttemptAt = 2, 0, now
	passedOver := journal.Cursor{Generation: 7, Anchor: entry(12), Step: 3, NextAttemptAt: t0.Add(time.Hour), LastStatus: 500}
	passedOverDue := passedOver
	passedOverDue.Nudge, passedOverDue.Step, passedOverDue.NextAttemptAt = 1, 0, now
	idle := journal.Cursor{Generation: 7, Anchor: entry(12), LastStatus: 204}
	idleDue := idle
	idleDue.Nudge = 1

	sub := func(c journal.Cursor, more ...func(*Subscription)) *Subscription {
		s := aSubscription()
		s.Cursor = c
		for _, f := range more {
			f(s)
		}
		return s
	}
	request := func(mode websub.Mode, denied string, next time.Time) *Request {
		r := aRequest()
		r.Mode, r.Denied, r.NextAt = mode, denied, next
		if r.Tries = 0; !next.IsZero() { // it has not been made due
			r.Tries = 2
		}
		return r
	}
	later := t0.Add(time.Hour)
	expired := func(s *Subscription) { s.ExpiresAt = now }
	ended := func(s *Subscription) { s.EndedAt, s.EndReason = t0, EndGone }
	for _, tc := range []struct {
		name      string
		rec, want Record
		err       error
	}{
		{"what waits is due, its attempts are kept", Record{Subscription: sub(waits)}, Record{Subscription: sub(due)}, nil},
		{"after a pass-over", Record{Subscription: sub(passedOver)}, Record{Subscription: sub(passedOverDue)}, nil},
		{"nothing waits", Record{Subscription: sub(idle)}, Record{Subscription: sub(idleDue)}, nil},
		{
			"a renewal that waits, too",
			Record{sub(waits), request("subscribe", "", later)},
			Record{sub(due), request("subscribe", "", time.Time{})},
			nil,
		},
		{
			"an unsubscribe that waits, too",
			Record{sub(waits), request("unsubscribe", "", later)},
			Record{sub(due), request("unsubscribe", "", time.Time{})},
			nil,
		},
		{"the first request", Record{Request: request("subscribe", "", later)}, Record{Request: request("subscribe", "", time.Time{})}, nil},
		{
			"taken up again after its lease",
			Record{sub(waits, expired), request("subscribe", "", later)},
			Record{sub(waits, expired), request("subscribe", "", time.Time{})},
			nil,
		},
		{
			"asked for anew after its end",
			Record{sub(waits, ended), request("subscribe", "", later)},
			Record{sub(waits, ended), request("subscribe", "", time.Time{})},
			nil,
		},
		{"expired", Record{Subscription: sub(waits, expired)}, Record{Subscription: sub(waits, expired)}, ErrEnded},
		{"ended", Record{Subscription: sub(waits, ended)}, Record{Subscription: sub(waits, ended)}, ErrEnded},
		{
			"ended, and to be told so",
			Record{sub(waits, ended), request("denied", "no", later)},
			Record{sub(waits, ended), request("denied", "no", later)},
			ErrEnded,
		},
		{"denied", Record{Request: request("subscribe", "no", later)}, Record{Request: request("subscribe", "no", later)}, ErrEnded},
		{"nothing to unsubscribe", Record{Request: request("unsubscribe", "", later)}, Record{Request: request("unsubscribe", "", later)}, ErrEnded},
	} {
		before := clone(tc.rec)
		got, err := Retry(tc.rec, now)
		if d := cmp.Diff(tc.want, got); d != "" || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v\n%s", tc.name, err, d)
		}
		if d := cmp.Diff(before, tc.rec); d != "" {
			t.Errorf("%s changes what it was given:\n%s", tc.name, d)
		}
	}
}

// Invariant 4: a replay mints; and it never goes forward.
func TestReplay(t *testing.T) {
	now := t0.Add(time.Minute)
	minted := uint64(now.UnixMicro())
	for to, want := range map[uint64]uint64{0: 0, 3: 3, 11: 11, 12: 12, 13: 12, 20: 12} {
		at := journal.Anchor{}
		if to > 0 {
			at = entry(to)
		}
		s := aSubscription() // at 12
		rec, err := Replay(Record{Subscription: s, Request: aRequest()}, at, now)
		if err != nil || rec.Request == nil || s.Cursor.Attempt != 2 {
			t.Fatalf("to %d: %v, %+v", to, err, rec)
		}
		wanted := *s
		wanted.Cursor = journal.Cursor{Generation: minted}
		if want > 0 {
			wanted.Cursor.Anchor = entry(want)
		}
		if d := cmp.Diff(&wanted, rec.Subscription); d != "" {
			t.Errorf("to %d:\n%s", to, d)
		}
	}
	expired, ended := aSubscription(), aSubscription()
	expired.ExpiresAt = now
	ended.EndedAt = t0
	for name, rec := range map[string]Record{
		"expired": {Subscription: expired}, "ended": {Subscription: ended}, "requested": {Request: aRequest()}, "nothing": {},
	} {
		if got, err := Replay(rec, entry(3), now); !errors.Is(err, ErrEnded) || cmp.Diff(rec, got) != "" {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// Invariants 3 and 4: whatever delivery had in memory before the operator acted,
// and however late it commits that, does not undo a replay or, at the position
// where it was made, a retry. What it delivered before a retry stays delivered.
func TestLateCommitsUndoNothing_Invariant3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most uint64) uint64 { return rapid.Uint64Range(0, most).Draw(t, name) }
		s := aSubscription()
		s.Cursor = journal.Cursor{
			Generation: draw("generation", 2*uint64(t0.UnixMicro())), Anchor: entry(draw("position", 10) + 1),
			Nudge: uint32(draw("nudge", 3)), Attempt: uint32(draw("attempt", 5)), Step: uint32(draw("step", 8)), LastStatus: 500,
		}
		// What is in the dispatcher's memory is of the same generation and merged
		// with what is stored: as great or greater.
		inMemory := s.Cursor
		if n := draw("delivered since", 3); n > 0 {
			inMemory = journal.Cursor{Generation: s.Cursor.Generation, Anchor: entry(s.Cursor.Seq + n)}
		}
		inMemory.Attempt += uint32(draw("failed since", 3))

		replayed, err := Replay(Record{Subscription: s}, entry(draw("to", 15)+1), t0)
		if err != nil {
			t.Fatal(err)
		}
		if c := replayed.Subscription.Cursor; journal.Merge(inMemory, c) != c || c.Position > s.Cursor.Position {
			t.Fatalf("the replay %+v is undone by %+v", c, inMemory)
		}
		retried, err := Retry(Record{Subscription: s}, t0)
		if err != nil {
			t.Fatal(err)
		}
		c := retried.Subscription.Cursor
		switch won := journal.Merge(inMemory, c); {
		case c.Generation != s.Cursor.Generation || c.Anchor != s.Cursor.Anchor || c.Attempt != s.Cursor.Attempt:
			t.Fatalf("the retry moves the cursor: %+v", c)
		case inMemory.Position == c.Position && won != c:
			t.Fatalf("the retry %+v is undone by %+v", c, inMemory)
		case inMemory.Position > c.Position && won != inMemory:
			t.Fatalf("the retry %+v undoes the delivery %+v", c, inMemory)
		}
	})
}

func TestOutcome(t *testing.T) {
	at := func(n uint64) *journal.Entry {
		return &journal.Entry{
			Position: entry(n).Position, Seq: n, ReceivedAt: t0.Add(time.Duration(n) * time.Minute),
			From: entry(n - 1).Until, Until: entry(n).Until,
		}
	}
	gap := func(from, until uint64, recorded uint64) journal.Gap {
		return journal.Gap{From: entry(from).Until, Until: entry(until).Until, At: t0.Add(time.Duration(recorded)*time.Minute + time.Second)}
	}
	empty := at(14) // of length zero, after the one before it was delivered
	empty.From, empty.Until = entry(13).Until, entry(13).Until
	plain := &journal.Entry{Position: entry(12).Position, ReceivedAt: entry(12).Until}
	ended := func(minute int) func(*Subscription) {
		return func(s *Subscription) { s.EndedAt = t0.Add(time.Duration(minute)*time.Minute + time.Second) }
	}
	gaps := func(gaps ...journal.Gap) func(*Subscription) { return func(s *Subscription) { s.Gaps = gaps } }
	for _, tc := range []struct {
		name string
		e    *journal.Entry
		more func(*Subscription)
		want Outcome
	}{
		{"before it began", at(9), nil, NotMeant},
		{"where it began", at(10), nil, NotMeant},
		{"the first", at(11), nil, Delivered},
		{"the latest", at(15), nil, Delivered},
		{"the next", at(16), nil, Pending},
		{"the next, expired", at(16), func(s *Subscription) { s.ExpiresAt = t0.Add(-time.Hour) }, Pending},
		{"right before a gap", at(12), gaps(gap(12, 14, 14)), Delivered},
		{"the first of a gap", at(13), gaps(gap(12, 14, 14)), Skipped},
		{"the last of a gap", at(14), gaps(gap(12, 14, 14)), Skipped},
		{"right after a gap", at(15), gaps(gap(12, 14, 14)), Delivered},
		{"in the second", at(15), gaps(gap(11, 12, 12), gap(14, 15, 15)), Skipped},
		{"received after the gap was recorded", at(13), gaps(gap(12, 14, 12)), Delivered},
		{"a gap from a time that is not known", at(11), gaps(journal.Gap{Until: entry(11).Until, At: t0.Add(time.Hour)}), Skipped},
		{"without length, alone in a gap", empty, gaps(gap(13, 13, 14)), Skipped},
		{"right before such a gap", at(13), gaps(gap(13, 13, 14)), Delivered},
		{"without an interval", plain, gaps(journal.Gap{From: entry(11).Until, Until: entry(12).Until, At: t0.Add(time.Hour)}), Skipped},
		{"without an interval, right before a gap", plain, gaps(journal.Gap{From: entry(12).Until, Until: entry(13).Until, At: t0.Add(time.Hour)}), Delivered},
		{"gone back by a replay into a gap", at(16), gaps(gap(15, 16, 16)), Pending},
		{"ended before it came to it", at(16), ended(16), Skipped},
		{"ended before it was there", at(16), ended(15), NotMeant},
		{"ended after it was delivered", at(15), ended(15), Delivered},
	} {
		s := aSubscription()
		s.Start, s.Cursor.Anchor = entry(10), entry(15)
		if tc.more != nil {
			tc.more(s)
		}
		if got := s.Outcome(tc.e); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Invariant 10: the gaps of the topic are the subscription's as well, from its
// beginning to its end.
func TestAllGaps_Invariant10(t *testing.T) {
	recorded := func(reason string, after journal.Position, at time.Time) journal.Gap {
		return journal.Gap{Reason: reason, At: at, Position: after}
	}
	s := aSubscription()
	s.Start.Position = 100
	s.Gaps = []journal.Gap{recorded("own 1", 0, t0.Add(2*time.Minute)), recorded("own 2", 0, t0.Add(4*time.Minute))}
	head := journal.Head{Gaps: []journal.Gap{
		recorded("unknown", 0, t0.Add(-2*time.Hour)), recorded("before", 90, t0.Add(-time.Hour)), recorded("before, by a clock ahead", 99, t0.Add(30*time.Second)),
		// After the entry that it began at, by a hub whose clock is behind the store's.
		recorded("topic 1", 100, t0.Add(-time.Minute)),
		recorded("topic 2", 110, t0.Add(4*time.Minute)), recorded("topic 3", 120, t0.Add(5*time.Minute)),
	}}
	check := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, g := range s.AllGaps(head, t0) {
			got = append(got, g.Reason)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	check("in force", "unknown", "topic 1", "own 1", "own 2", "topic 2", "topic 3")
	s.EndedAt = t0.Add(4 * time.Minute)
	check("ended", "unknown", "topic 1", "own 1", "own 2", "topic 2")
	s.Start = journal.Anchor{}
	check("begun before the topic", "unknown", "before", "topic 1", "before, by a clock ahead", "own 1", "own 2", "topic 2")
	if len(s.Gaps) != 2 || s.Gaps[0].Reason != "own 1" {
		t.Errorf("the subscription's own gaps changed: %v", s.Gaps)
	}
}

// What retention took from a subscription that has not got it yet is a gap, before delivery
// records it.
func TestGapOfWhatRetentionTook(t *testing.T) {
	s := aSubscription()
	s.Start, s.Gaps, s.Cursor.Anchor = entry(1), nil, entry(3)
	head := journal.Head{Last: entry(9), Trimmed: entry(7)}
	want := journal.Gap{From: entry(3).Until, Until: entry(7).Until, Count: 4, Reason: journal.GapRetention, At: t0}
	if d := cmp.Diff([]journal.Gap{want}, s.AllGaps(head, t0)); d != "" {
		t.Error(d)
	}
	head.Removed, want.Reason = entry(7), journal.GapRemoved
	if d := cmp.Diff([]journal.Gap{want}, s.AllGaps(head, t0)); d != "" {
		t.Error(d)
	}
	s.Cursor.Anchor = entry(7)
	if got := s.AllGaps(head, t0); len(got) > 0 {
		t.Errorf("one that has got it has the gaps %+v", got)
	}
	head.Removed, head.Kind = journal.Anchor{}, journal.KindChange
	s.Cursor.Anchor = entry(3)
	s.Cursor.Until = entry(7).Until // by entries that the journal lost, and the Source sent again
	if got := s.AllGaps(head, t0); len(got) > 0 {
		t.Errorf("one that got it before has the gaps %+v", got)
	}
	s.Cursor.Anchor = entry(3)
	s.EndedAt = t0
	if got := s.AllGaps(head, t0); len(got) > 0 {
		t.Errorf("one that ended has the gaps %+v", got)
	}
}

// entries is a topic's journal from first to last, as Entries.
type entries struct {
	first, last uint64
	reads       int
	begin       uint64 // the first entry that was read
	onRead      func() error
}

func (j *entries) Read(_ context.Context, _ string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	j.reads++
	if maxBytes != 0 {
		return nil, errors.New("bodies are read for nothing")
	}
	if j.onRead != nil {
		if err := j.onRead(); err != nil {
			return nil, err
		}
	}
	if after.Position < entry(j.first-1).Position {
		return nil, &journal.TrimmedError{To: entry(j.first - 1)}
	}
	var out []journal.Entry
	n := after.Seq + 1
	for after.Seq == 0 && entry(n).Position <= after.Position {
		n++
	}
	if j.begin == 0 {
		j.begin = n
	}
	for ; n <= j.last && len(out) < min(limit, 7); n++ {
		e := entry(n)
		out = append(out, journal.Entry{Position: e.Position, Nonce: e.Nonce, Seq: n, From: entry(n - 1).Until, Until: e.Until})
	}
	return out, nil
}

// The service finds where a replay begins: before the first notification that
// ends after since, and of those that are retained.
func TestServiceReplays(t *testing.T) {
	for _, tc := range []struct {
		name         string
		since        time.Time
		at, n        uint64
		cursor       uint64
		trimmed      uint64
		trimmedLater uint64
		approximate  bool // at is the place before the next entry, whatever is there
	}{
		{name: "from the middle", since: entry(30).Until, cursor: 50, at: 30, n: 20},
		{name: "between two", since: entry(30).Until.Add(time.Millisecond), cursor: 50, at: 30, n: 20},
		{name: "all", cursor: 50, at: 0, n: 50},
		{name: "all that is retained", cursor: 50, trimmed: 10, at: 10, n: 40},
		{name: "trimmed meanwhile", cursor: 50, trimmed: 10, trimmedLater: 20, at: 20, n: 30},
		{name: "before one that was appended long after", since: entry(30).Until.Add(20 * time.Minute), cursor: 50, at: 30, n: 20, approximate: true},
		{name: "nothing", since: entry(50).Until, cursor: 50, at: 50, n: 0},
		{name: "the future", since: entry(500).Until, cursor: 50, at: 50, n: 0},
		{name: "never forward", since: entry(30).Until, cursor: 12, at: 12, n: 38},
		{name: "not over what was trimmed before it was delivered", since: entry(30).Until, cursor: 5, trimmed: 10, at: 5, n: 40},
	} {
		virtual(t, Options{}, func(t *testing.T, w *world) {
			j := &entries{first: tc.trimmed + 1, last: 50}
			if tc.trimmedLater > 0 {
				j.first = tc.trimmedLater + 1
			}
			w.o.Entries = j
			w.publish(50)
			w.trimmed = tc.trimmed
			rec := w.inForce(t, tc.cursor)
			before := rec.Subscription.Cursor
			n, rec, err := w.Replay(tc.since)(t.Context(), ID(topic, callback))
			if err != nil || n != tc.n {
				t.Errorf("%s: %d to come, want %d: %v", tc.name, n, tc.n, err)
			}
			want := journal.Cursor{Generation: rec.Subscription.Cursor.Generation}
			if tc.at > 0 {
				want.Anchor = entry(tc.at)
			}
			if tc.approximate {
				want.Anchor.Position, want.Anchor.Nonce = entry(tc.at+1).Position-1, 0
			}
			if begin := tc.since.Add(-time.Hour); j.begin > 0 && j.begin > tc.trimmed+1 && entry(j.begin).Until.Before(begin) {
				t.Errorf("%s: entry %d was read, which was appended long before", tc.name, j.begin)
			}
			if d := cmp.Diff(want, rec.Subscription.Cursor); d != "" || want.Generation <= before.Generation {
				t.Errorf("%s: generation %d after %d\n%s", tc.name, want.Generation, before.Generation, d)
			}
			if d := cmp.Diff(w.record(callback), rec); d != "" {
				t.Errorf("%s: what is stored is not what came back:\n%s", tc.name, d)
			}
			if told := w.told(); told[len(told)-1].Cursor != want {
				t.Errorf("%s: delivery was told %+v", tc.name, told[len(told)-1].Cursor)
			}
			events := w.eventsNamed(EventReplayed)
			if len(events) != 1 || events[0].Count != tc.n || !events[0].Since.Equal(tc.since) || events[0].SubscriptionID != ID(topic, callback) || events[0].CallbackHost != cbHost+":443" {
				t.Errorf("%s: %+v", tc.name, events)
			}
		})
	}
}

// inForce stores a subscription whose cursor is at an entry.
func (w *world) inForce(t *testing.T, at uint64) Record {
	t.Helper()
	now := time.Now()
	rec, err := w.store.Update(t.Context(), ID(topic, callback), func(Record) (Record, error) {
		return Record{Subscription: &Subscription{
			ID: ID(topic, callback), Topic: topic, Callback: callback, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			Cursor: journal.Cursor{Generation: journal.MintGeneration(0, now), Anchor: entry(at)},
		}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// Of many subscriptions to one topic, the journal is read for one.
func TestReplayOfManyReadsOnce(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		j := &entries{first: 1, last: 50}
		w.o.Entries = j
		w.publish(50)
		w.inForce(t, 50)
		replay := w.Replay(entry(30).Until)
		for range 20 {
			if n, _, err := replay(t.Context(), ID(topic, callback)); err != nil || n != 20 {
				t.Fatalf("%d to come: %v", n, err)
			}
		}
		if j.reads != 1 {
			t.Errorf("the journal was read %d times", j.reads)
		}
	})
}

func TestServiceReplayFails(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		j := &entries{first: 1, last: 50}
		w.o.Entries = j
		id := ID(topic, callback)
		if _, _, err := w.Replay(t0)(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
		w.inForce(t, 50)
		elapse(2 * time.Hour)
		if _, _, err := w.Replay(t0)(t.Context(), id); !errors.Is(err, ErrEnded) || j.reads > 0 {
			t.Errorf("of an expired one: %v, after %d reads", err, j.reads)
		}
		if len(w.told()) > 0 || len(w.eventsNamed("")) > 0 {
			t.Error("delivery or the log was told of it")
		}
	})
	virtual(t, Options{}, func(t *testing.T, w *world) {
		j := &entries{first: 1, last: 50, onRead: func() error { return errors.New("on fire") }}
		w.o.Entries = j
		w.publish(50)
		before := w.inForce(t, 50)
		_, _, err := w.Replay(entry(3).Until)(t.Context(), ID(topic, callback))
		if err == nil || !strings.Contains(err.Error(), "on fire") || cmp.Diff(before, w.record(callback)) != "" {
			t.Errorf("a journal that can't be read: %v, %+v", err, w.record(callback))
		}
		w.store.breakWith(errors.New("no disk"))
		if _, _, err := w.Replay(t0)(t.Context(), ID(topic, callback)); err == nil || !strings.Contains(err.Error(), "no disk") {
			t.Errorf("a store that can't be read: %v", err)
		}
		if _, err := w.Retry(t.Context(), ID(topic, callback)); err == nil || !strings.Contains(err.Error(), "no disk") {
			t.Errorf("a store that can't be written: %v", err)
		}
	})
}

// A verification that waits for its next try is made at once, as often as the
// operator asks for that: it does not use up its tries.
func TestServiceRetriesAVerification(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		if _, err := w.Retry(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
		defer w.run(t)()
		w.answer(cbHost, answering(500))
		w.accept(t, subscribe(callback))
		elapse(10 * time.Second) // after the second try there are some 30 s to wait
		if n := len(w.callsTo(cbHost)); n != 2 {
			t.Fatalf("%d tries", n)
		}
		const often = 6 // more than there are tries
		for i := range often {
			if i == often-1 {
				w.answer(cbHost, nil)
			}
			rec, err := w.Retry(t.Context(), id)
			if err != nil || rec.Request == nil || rec.Request.Tries != 0 || !rec.Request.NextAt.IsZero() {
				t.Fatalf("%v, %+v", err, rec.Request)
			}
			elapse(0)
		}
		if n := len(w.callsTo(cbHost)); n != 2+often || w.record(callback).Subscription == nil {
			t.Errorf("%d tries, %+v", n, w.record(callback))
		}
		if len(w.eventsNamed(EventRetried)) != often {
			t.Errorf("%+v", w.eventsNamed(""))
		}
	})
}

// So is a topic check that could not tell.
func TestServiceRetriesATopicCheck(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		checks := 0
		w.checking(func(string) error {
			if checks++; checks < 4 {
				return errors.New("down")
			}
			return nil
		})
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Minute) // the third check was the last for two minutes
		if checks != 3 {
			t.Fatalf("%d checks", checks)
		}
		if _, err := w.Retry(t.Context(), ID(topic, callback)); err != nil {
			t.Fatal(err)
		}
		elapse(0)
		if checks != 4 || w.record(callback).Subscription == nil {
			t.Errorf("%d checks, %+v", checks, w.record(callback))
		}
	})
}

// A delivery that waits is due, and delivery hears of it.
func TestServiceRetries(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		before := w.inForce(t, 5).Subscription.Cursor
		failed := before
		failed.Attempt, failed.Step, failed.NextAttemptAt = 3, 3, time.Now().Add(time.Hour)
		w.store.commit(id, failed)
		rec, err := w.Retry(t.Context(), id)
		want := failed
		want.Nudge, want.Step, want.NextAttemptAt = 1, 0, time.Now()
		if err != nil || rec.Subscription.Cursor != want {
			t.Errorf("%v, %+v", err, rec.Subscription)
		}
		if told := w.told(); len(told) != 1 || told[0].Cursor != want {
			t.Errorf("delivery was told %+v", told)
		}
		elapse(2 * time.Hour)
		if _, err := w.Retry(t.Context(), id); !errors.Is(err, ErrEnded) {
			t.Errorf("of an expired one: %v", err)
		}
	})
}

// A request that waits says why its last try failed, or the check of its topic, and when the next
// one is due. What failed before a check that succeeded says nothing any more.
func TestTried(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		id := ID(topic, callback)
		want := func(when, failure string, from, to time.Duration) {
			t.Helper()
			why, next := w.Tried(id)
			if in := time.Until(next); why != failure || failure == "" && !next.IsZero() || failure != "" && (in < from || in > to) {
				t.Errorf("%s: %q in %v", when, why, in)
			}
		}
		w.checking(func(string) error { return errors.New("no such host") })
		w.answer(cbHost, answering(503))
		defer w.run(t)()
		want("nothing was requested", "", 0, 0)
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		want("the topic cannot be checked", "the topic could not be checked: no such host", 5*time.Second, 12*time.Second)
		w.checking(func(string) error { return nil })
		elapse(15 * time.Second)
		want("the callback fails", "the callback answered 503", 0, 36*time.Second)
		w.answer(cbHost, nil)
		elapse(time.Minute)
		want("in force", "", 0, 0)
	})
}
