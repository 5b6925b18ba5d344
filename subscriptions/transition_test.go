package subscriptions

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

const resume = 24 * time.Hour

var (
	t0    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reqID = uuid.MustParse("11111111-1111-4111-8111-111111111111")
)

// aRequest is a subscribe request accepted at t0, when the head was entry 20.
func aRequest() *Request {
	return &Request{
		ID: reqID, Mode: websub.ModeSubscribe, Topic: topic, Callback: callback, Secret: "old",
		Lease: time.Hour, AcceptedAt: t0, Start: entry(20),
	}
}

// aSubscription is one that is in force at t0 and failed to get entry 13 twice.
func aSubscription() *Subscription {
	return &Subscription{
		ID: ID(topic, callback), Topic: topic, Callback: callback, Secret: "old",
		CreatedAt: t0.Add(-48 * time.Hour), VerifiedAt: t0.Add(-time.Hour), ExpiresAt: t0.Add(time.Hour),
		Start: entry(10),
		Cursor: journal.Cursor{
			Generation: 7, Anchor: entry(12), Nudge: 1, Attempt: 2, Step: 2, LastStatus: 500,
			FirstAttemptAt: t0.Add(-10 * time.Minute), NextAttemptAt: t0.Add(10 * time.Minute),
		},
	}
}

// HUB-22, invariants 4, 6 and 10: what becomes of a subscription when a request
// was verified.
func TestActivate(t *testing.T) {
	now := t0.Add(2 * time.Second)
	minted := uint64(now.UnixMicro())
	fresh := func(generation uint64, at journal.Anchor) journal.Cursor {
		return journal.Cursor{Generation: generation, Anchor: at}
	}
	lag := journal.Gap{From: entry(12).Until, Until: entry(20).Until, Count: 8, Reason: journal.GapExpired, At: now}
	earlier := journal.Gap{Count: 1, Reason: journal.GapGaveUp}
	tests := []struct {
		name string
		old  func(*Subscription) // nil: there was none
		req  func(*Request)
		// what it is like then
		cursor func(old journal.Cursor) journal.Cursor
		start  journal.Anchor
		anew   bool
		gaps   []journal.Gap
	}{
		{
			name:   "the first", // invariant 6: at the request's start, wherever the head is now
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(20)) },
			start:  entry(20), anew: true,
		},
		{
			name: "renewal with the same secret goes on, and what waits is due", // invariant 4
			old:  func(*Subscription) {},
			cursor: func(c journal.Cursor) journal.Cursor {
				c.Nudge, c.Step, c.NextAttemptAt = 2, 0, now
				return c
			},
			start: entry(10),
		},
		{
			name: "renewal where nothing waits goes on where it was",
			old:  func(s *Subscription) { s.Cursor = fresh(7, entry(12)) },
			cursor: func(c journal.Cursor) journal.Cursor {
				c.Nudge++
				return c
			},
			start: entry(10),
		},
		{
			name:   "renewal with another secret mints at the committed cursor", // invariant 4
			old:    func(*Subscription) {},
			req:    func(r *Request) { r.Secret = "new" },
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(12)) },
			start:  entry(10),
		},
		{
			name:   "renewal without the secret mints as well", // invariant 4
			old:    func(*Subscription) {},
			req:    func(r *Request) { r.Secret = "" },
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(12)) },
			start:  entry(10),
		},
		{
			name: "minted above a generation from the future", // invariant 4
			old:  func(s *Subscription) { s.Cursor.Generation = minted + 1000 },
			req:  func(r *Request) { r.Secret = "new" },
			cursor: func(journal.Cursor) journal.Cursor {
				return fresh(minted+1001, entry(12))
			},
			start: entry(10),
		},
		{
			name: "expired and requested in time goes on without a gap", // invariant 10
			old:  func(s *Subscription) { s.ExpiresAt = t0.Add(-resume) },
			cursor: func(c journal.Cursor) journal.Cursor {
				c.Nudge, c.Step, c.NextAttemptAt = 2, 0, now
				return c
			},
			start: entry(10),
		},
		{
			name:   "expired, requested in time, with another secret", // invariants 4, 10
			old:    func(s *Subscription) { s.ExpiresAt = t0.Add(-resume) },
			req:    func(r *Request) { r.Secret = "new" },
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(12)) },
			start:  entry(10),
		},
		{
			name:   "expired too long ago begins anew and leaves one gap", // invariant 10
			old:    func(s *Subscription) { s.ExpiresAt = t0.Add(-resume - 1) },
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(20)) },
			start:  entry(20), anew: true, gaps: []journal.Gap{lag},
		},
		{
			name:   "expired too long ago without lag leaves no gap",
			old:    func(s *Subscription) { s.ExpiresAt, s.Cursor.Anchor = t0.Add(-resume-1), entry(20) },
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(20)) },
			start:  entry(20), anew: true,
		},
		{
			name: "after an end it begins anew, and its gaps can still be read",
			old: func(s *Subscription) {
				s.EndedAt, s.EndReason, s.Gaps = t0.Add(-time.Minute), EndGone, []journal.Gap{earlier}
			},
			cursor: func(journal.Cursor) journal.Cursor { return fresh(minted, entry(20)) },
			start:  entry(20), anew: true, gaps: []journal.Gap{earlier},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			rec := Record{Request: aRequest()}
			var before journal.Cursor
			want := Subscription{ID: ID(topic, callback), Topic: topic, Callback: callback, CreatedAt: now}
			if tc.old != nil {
				rec.Subscription = aSubscription()
				tc.old(rec.Subscription)
				before = rec.Subscription.Cursor
				if !tc.anew {
					want.CreatedAt = rec.Subscription.CreatedAt
				}
			}
			if tc.req != nil {
				tc.req(rec.Request)
			}
			want.Secret, want.VerifiedAt = rec.Request.Secret, now
			want.ExpiresAt = t0.Add(time.Second).Add(time.Hour) // HUB-22: from when it was asked
			want.Start, want.Gaps, want.Cursor = tc.start, tc.gaps, tc.cursor(before)
			got, err := Activate(rec, reqID, t0.Add(time.Second), now, resume)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(Record{Subscription: &want}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Invariant 8: only the pending request itself is activated, and carried out
// only as what it is. HUB-12
func TestActivationComparesTheRequest(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"a newer request":   func(r *Record) { r.Request.ID = uuid.New() },
		"no request":        func(r *Record) { r.Request = nil },
		"an unsubscribe":    func(r *Record) { r.Request.Mode = websub.ModeUnsubscribe },
		"denied since then": func(r *Record) { r.Request.Denied = "no" },
	} {
		rec := Record{Subscription: aSubscription(), Request: aRequest()}
		spoil(&rec)
		before := clone(rec)
		got, err := Activate(rec, reqID, t0, t0, resume)
		if !errors.Is(err, ErrSuperseded) {
			t.Errorf("%s: Activate returned %v, want ErrSuperseded", name, err)
		}
		if d := cmp.Diff(before, got); d != "" {
			t.Errorf("%s: the record changed:\n%s", name, d)
		}
	}
	rec := Record{Subscription: aSubscription(), Request: aRequest()}
	if _, err := Deactivate(rec, reqID, headAt(entry(20)), t0); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a subscribe request unsubscribed: %v", err)
	}
	rec.Request.Mode = websub.ModeUnsubscribe
	if _, err := Deactivate(rec, uuid.New(), headAt(entry(20)), t0); !errors.Is(err, ErrSuperseded) {
		t.Errorf("an older unsubscribe took effect: %v", err)
	}
}

// A 410 from before a verified renewal that is stored after it does not end what
// was renewed, wherever the cursors are and whatever the clock did (HUB-47, HUB-12).
func TestRenewalOutlivesAnEarlierEnd(t *testing.T) {
	before := aSubscription()
	before.Cursor = journal.Cursor{Generation: 7, Anchor: entry(12)}
	for name, now := range map[string]time.Time{"later": t0, "at the same time": before.VerifiedAt, "a clock that went back": before.VerifiedAt.Add(-time.Hour)} {
		got, err := Activate(Record{Subscription: before, Request: aRequest()}, reqID, now, now, resume)
		if err != nil {
			t.Fatal(err)
		}
		s := *got.Subscription
		gone := Commit{ID: s.ID, Cursor: journal.Cursor{Generation: 7, Anchor: entry(13), Attempt: 1, LastStatus: 410}, End: EndGone, EndedAt: now, Lease: before.VerifiedAt}
		if won, ended := s.Apply(&gone); won || ended || cmp.Diff(got.Subscription, &s) != "" {
			t.Errorf("%s: the end of the lease before left %+v", name, s)
		}
		gone.Lease = s.VerifiedAt
		if won, ended := s.Apply(&gone); !won || !ended || s.EndReason != EndGone {
			t.Errorf("%s: the end of the lease in force left %+v", name, s)
		}
	}
}

// HUB-27, invariant 10: an unsubscribe ends it, and what was not delivered is a gap.
func TestDeactivate(t *testing.T) {
	r := aRequest()
	r.Mode = websub.ModeUnsubscribe
	got, err := Deactivate(Record{Subscription: aSubscription(), Request: r}, reqID, headAt(entry(15)), t0)
	if err != nil {
		t.Fatal(err)
	}
	want := aSubscription()
	want.EndedAt, want.EndReason = t0, EndUnsubscribed
	want.Gaps = []journal.Gap{{From: entry(12).Until, Until: entry(15).Until, Count: 3, Reason: journal.GapUnsubscribe, At: t0}}
	if d := cmp.Diff(Record{Subscription: want}, got); d != "" {
		t.Error(d)
	}
	if got.Subscription.Live(t0) {
		t.Error("it still gets deliveries")
	}
	// Without a subscription only the request goes.
	got, err = Deactivate(Record{Request: r}, reqID, headAt(entry(15)), t0)
	if d := cmp.Diff(Record{}, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// A topic whose journal was lost began again. Who leaves before delivery has noticed that has missed what is there now.
func TestLeavingATopicThatBeganAgain(t *testing.T) {
	began := entry(60)
	began.Seq, began.Until = 1, entry(1).Until
	head := journal.Head{Last: began, Gaps: []journal.Gap{{Reason: journal.GapRolledBack, Position: entry(56).Position}}}
	for what, end := range map[string]func(Record) (Record, error){
		"unsubscribe": func(rec Record) (Record, error) {
			rec.Request = &Request{ID: reqID, Mode: websub.ModeUnsubscribe, Topic: topic, Callback: callback}
			return Deactivate(rec, reqID, head, t0)
		},
		"end":    func(rec Record) (Record, error) { return End(rec, EndRemoved, head, t0), nil },
		"expire": func(rec Record) (Record, error) { return Expire(rec, head, t0.Add(1000*time.Hour), resume), nil },
		"come back too late": func(rec Record) (Record, error) {
			at := t0.Add(1000 * time.Hour)
			rec.Request = &Request{ID: reqID, Mode: websub.ModeSubscribe, Topic: topic, Callback: callback, Start: began, AcceptedAt: at, Lease: time.Hour}
			return Activate(rec, reqID, at, at, resume)
		},
	} {
		s := aSubscription()
		s.Cursor.Anchor = entry(45)
		rec, err := end(Record{Subscription: s})
		if err != nil {
			t.Fatal(err)
		}
		if gaps := rec.Subscription.Gaps; len(gaps) != 1 || gaps[0].Count != 1 || !gaps[0].From.IsZero() || !gaps[0].Until.Equal(began.Until) {
			t.Errorf("%s: the gaps are %+v", what, gaps)
		}
	}
}

// HUB-29, invariant 10: expiry is computed, and written only when the
// subscription can't be taken up again any more.
func TestExpire(t *testing.T) {
	expiredAt := aSubscription().ExpiresAt
	inTime, late := aRequest(), aRequest()
	inTime.AcceptedAt, late.AcceptedAt = expiredAt.Add(resume), expiredAt.Add(resume+1)
	unsub, denied := aRequest(), aRequest()
	unsub.Mode, denied.Denied = websub.ModeUnsubscribe, "no"
	for _, tc := range []struct {
		name  string
		req   *Request
		after time.Duration // since it expired
		ends  bool
	}{
		{"in force", nil, -1, false},
		{"just expired", nil, 0, false},
		{"can be resumed", nil, resume - 1, false},
		{"can't be resumed", nil, resume, true},
		{"a request that came in time waits", inTime, 10 * resume, false},
		{"a request that came too late waits", late, 10 * resume, true},
		{"an unsubscribe waits", unsub, resume, true},
		{"a denial waits", denied, resume, true},
	} {
		now := expiredAt.Add(tc.after)
		rec := Record{Subscription: aSubscription(), Request: tc.req}
		if live := rec.Subscription.Live(now); live != (tc.after < 0) {
			t.Errorf("%s: live %v", tc.name, live)
		}
		got := Expire(rec, headAt(entry(20)), now, resume)
		want := Record{Subscription: aSubscription(), Request: tc.req}
		if tc.ends {
			want.Subscription.EndedAt, want.Subscription.EndReason = now, EndExpired
			want.Subscription.Gaps = []journal.Gap{{From: entry(12).Until, Until: entry(20).Until, Count: 8, Reason: journal.GapExpired, At: now}}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
		if d := cmp.Diff(got, Expire(got, headAt(entry(25)), now.Add(time.Hour), resume)); tc.ends && d != "" {
			t.Errorf("%s: it ended twice: %s", tc.name, d)
		}
	}
}

func TestPurge(t *testing.T) {
	ended := aSubscription()
	ended.EndedAt, ended.EndReason = t0, EndGone
	for _, tc := range []struct {
		sub  *Subscription
		at   time.Time
		gone bool
	}{
		{nil, t0, true},
		{aSubscription(), t0.Add(1000 * EndedFor), false},
		{ended, t0.Add(EndedFor - 1), false},
		{ended, t0.Add(EndedFor), true},
	} {
		got := Purge(Record{Subscription: tc.sub, Request: aRequest()}, tc.at)
		if gone := got.Subscription == nil; gone != tc.gone {
			t.Errorf("%+v at %v: gone %v", tc.sub, tc.at, gone)
		}
		if got.Request == nil {
			t.Error("the request went with it")
		}
	}
}

// Invariants 10 and 12: each reason of an end leaves a gap of its own, and
// however often it ends anew, no more than MaxGaps are kept and the count is.
func TestGapsOfEndsAreBounded(t *testing.T) {
	reasons := map[string]string{
		EndUnsubscribed: journal.GapUnsubscribe, EndGone: journal.GapGone, EndExpired: journal.GapExpired,
		EndRemoved: journal.GapRemoved,
	}
	for end, gap := range reasons {
		rec := End(Record{Subscription: aSubscription()}, end, headAt(entry(20)), t0)
		if g := rec.Subscription.Gaps; len(g) != 1 || g[0].Reason != gap || rec.Subscription.EndReason != end {
			t.Errorf("%s left %+v", end, g)
		}
	}
	rec := Record{Subscription: aSubscription()}
	for i := range uint64(3 * journal.MaxGaps) {
		rec.Subscription.EndedAt = time.Time{}
		rec.Subscription.Cursor.Anchor = entry(100 + 10*i)
		rec = End(rec, EndRemoved, headAt(entry(102+10*i)), t0)
	}
	var count uint64
	for _, g := range rec.Subscription.Gaps {
		count += g.Count
	}
	if n := len(rec.Subscription.Gaps); n != journal.MaxGaps || count != 2*3*journal.MaxGaps {
		t.Errorf("%d gaps of %d notifications", n, count)
	}
}

// genRecord draws a record: every combination of what can be stored.
func genRecord(t *rapid.T) Record {
	hour := func(label string) time.Time {
		return t0.Add(time.Duration(rapid.IntRange(-60, 60).Draw(t, label)) * time.Hour)
	}
	seq := func(label string) journal.Anchor { return entry(rapid.Uint64Range(0, 30).Draw(t, label)) }
	secret := rapid.SampledFrom([]string{"", "old", "new"})
	var rec Record
	if rapid.Bool().Draw(t, "subscription") {
		s := aSubscription()
		s.ExpiresAt, s.Secret = hour("expires"), secret.Draw(t, "secret")
		s.Cursor = journal.Cursor{
			Generation: rapid.Uint64Range(0, 1<<62).Draw(t, "generation"), Anchor: seq("cursor"),
			Nudge: rapid.Uint32Range(0, 2).Draw(t, "nudge"), Attempt: rapid.Uint32Range(0, 2).Draw(t, "attempt"),
			Step: rapid.Uint32Range(0, 2).Draw(t, "step"),
		}
		if rapid.Bool().Draw(t, "ended") {
			s.EndedAt, s.EndReason = hour("ended at"), EndGone
		}
		rec.Subscription = s
	}
	if rapid.Bool().Draw(t, "request") {
		r := aRequest()
		r.AcceptedAt, r.Secret, r.Start = hour("accepted"), secret.Draw(t, "request's secret"), seq("start")
		r.Mode = rapid.SampledFrom([]websub.Mode{websub.ModeSubscribe, websub.ModeUnsubscribe}).Draw(t, "mode")
		rec.Request = r
	}
	return rec
}

// theHead is a topic's latest entry, after all that genRecord draws.
const theHead = 40

// undelivered is what a record still owes, or says that it did not deliver, of
// the entries up to theHead.
func undelivered(s *Subscription) (n uint64) {
	for _, g := range s.Gaps {
		n += g.Count
	}
	if s.EndedAt.IsZero() && theHead > s.Cursor.Seq {
		n += theHead - s.Cursor.Seq
	}
	return n
}

// Invariants 3, 4, 8 and 10 over all records: what changes wins the merge with
// what is stored, a cursor goes back in a new generation only, nothing is
// dropped in silence, and no transition alters its argument.
func TestTransitionsHoldTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := genRecord(t)
		before := clone(rec)
		now := t0.Add(time.Duration(rapid.IntRange(-60, 600).Draw(t, "now")) * time.Hour)
		var got Record
		var err error
		switch which := rapid.SampledFrom([]string{"activate", "deactivate", "end", "expire"}).Draw(t, "transition"); which {
		case "activate":
			got, err = Activate(rec, reqID, now, now, resume)
		case "deactivate":
			got, err = Deactivate(rec, reqID, headAt(entry(theHead)), now)
		case "end":
			got = End(rec, EndRemoved, headAt(entry(theHead)), now)
		case "expire":
			got = Expire(rec, headAt(entry(theHead)), now, resume)
		}
		if d := cmp.Diff(before, rec); d != "" {
			t.Fatalf("the argument was changed:\n%s", d)
		}
		if err != nil {
			if d := cmp.Diff(before, got); d != "" {
				t.Fatalf("an error changed the record:\n%s", d)
			}
			return
		}
		if rec.Subscription == nil || got.Subscription == nil {
			return
		}
		old, s := rec.Subscription, got.Subscription
		if m := journal.Merge(old.Cursor, s.Cursor); !cmp.Equal(m, s.Cursor) {
			t.Fatalf("the change loses the merge:\n%s", cmp.Diff(m, s.Cursor))
		}
		if s.Cursor.Generation == old.Cursor.Generation && s.Cursor.Anchor != old.Cursor.Anchor {
			t.Fatal("the position changed within a generation")
		}
		if s.EndedAt.IsZero() && old.EndedAt.IsZero() && s.Secret != old.Secret && s.Cursor.Generation <= old.Cursor.Generation {
			t.Fatal("another secret in the same generation")
		}
		if old.EndedAt.IsZero() && undelivered(s) < undelivered(old) {
			t.Fatalf("%d notifications are neither to be delivered nor in a gap", undelivered(old)-undelivered(s))
		}
	})
}
