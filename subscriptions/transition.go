package subscriptions

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// ErrSuperseded says that the request is no longer the record's pending one: a newer one
// replaced it, or it was finished.
var ErrSuperseded = errors.New("the request was replaced or done with meanwhile")

// Activate puts the verified subscribe request requestID into force and returns the record
// after that. Its lease begins at sentAt, when the verification request was sent (HUB-22);
// now is the time of the decision.
//
// It is compare-and-set on the request's id (invariant 8): if the pending request is missing,
// another one, no subscribe, or denied, it returns ErrSuperseded. Otherwise one of four
// things happens:
//
//   - there was no subscription, or it had ended: it begins at the request's Start, in a new
//     generation;
//   - it is in force, or the request was accepted within resumeWithin after its lease ran
//     out: it goes on at its cursor and generation, nudged. Its retry ladder begins again,
//     and a waiting delivery is due at once;
//   - the same, but the secret has changed: it goes on at the committed cursor in a new
//     generation, because the subscriber may have ignored deliveries that were signed with
//     the old secret (invariant 4);
//   - it expired longer ago: it begins again at the request's Start, with a gap for what it
//     missed (invariant 10).
func Activate(rec Record, requestID uuid.UUID, sentAt, now time.Time, resumeWithin time.Duration) (Record, error) {
	r := rec.Request
	if r == nil || r.ID != requestID || r.Mode != websub.ModeSubscribe || r.Denied != "" {
		return rec, ErrSuperseded
	}
	s := Subscription{ID: r.SubscriptionID(), Topic: r.Topic, Callback: r.Callback}
	if rec.Subscription != nil {
		s = *rec.Subscription
	}
	switch ended := !s.EndedAt.IsZero(); {
	case rec.Subscription == nil, ended, !resumable(&s, r, resumeWithin):
		if rec.Subscription != nil && !ended {
			s.Gaps = addMissed(s.Gaps, s.Cursor.Anchor, journal.Head{Last: r.Start}, journal.GapExpired, now)
		}
		s.CreatedAt, s.Start = now, r.Start
		s.EndedAt, s.EndReason, s.PausedAt = time.Time{}, "", time.Time{}
		s.Cursor = mint(s.Cursor.Generation, r.Start, now)
	case s.Secret != r.Secret:
		s.Cursor = mint(s.Cursor.Generation, s.Cursor.Anchor, now)
	default:
		// The nudge makes the renewal win the merge over an earlier failure that delivery
		// has not stored yet. An earlier 410 needs no nudge: it names the lease that it
		// ends.
		s.Cursor = Nudge(s.Cursor, now)
	}
	s.Secret = r.Secret
	if r.Requester != 0 {
		s.Requester = r.Requester
	}
	if !now.After(s.VerifiedAt) { // the clock went back
		now = s.VerifiedAt.Add(1)
	}
	s.VerifiedAt = now
	s.ExpiresAt = sentAt.Add(r.Lease)
	return Record{Subscription: &s}, nil
}

// Retry makes the next attempts of a record due now. A failed notification starts at the
// first step of the ladder again, and its attempts count on. A request that waits for
// verification gets all its tries again, so that the operator does not use them up. A denial
// that waits to be sent stays as it is. ErrEnded: the subscription is not in force, and no
// request would begin it. ErrPaused: it is paused, and no request waits.
//
// The cursor is nudged and keeps its generation: no delivered entry is delivered again, and
// an earlier failure does not win over it.
func Retry(rec Record, now time.Time) (Record, error) {
	live := rec.Subscription != nil && rec.Subscription.Live(now)
	asked := rec.Request != nil && rec.Request.Denied == "" && (live || rec.Request.Mode == websub.ModeSubscribe)
	switch {
	case asked:
	case !live:
		return rec, ErrEnded
	case !rec.Subscription.PausedAt.IsZero():
		return rec, ErrPaused
	}
	if live {
		s := *rec.Subscription
		s.Cursor = Nudge(s.Cursor, now)
		rec.Subscription = &s
	}
	if asked {
		r := *rec.Request
		r.Tries, r.NextAt = 0, time.Time{}
		rec.Request = &r
	}
	return rec, nil
}

// Pause stops the deliveries to the record's subscription until Resume. Meanwhile its lease
// may run out, and retention may delete notifications that it has not got. ErrEnded: the
// subscription is not in force. ErrUnchanged: it is paused already.
func Pause(rec Record, now time.Time) (Record, error) {
	if rec.Subscription == nil || !rec.Subscription.Live(now) {
		return rec, ErrEnded
	}
	s := *rec.Subscription
	if !s.PausedAt.IsZero() {
		return rec, ErrUnchanged
	}
	s.PausedAt = now
	rec.Subscription = &s
	return rec, nil
}

// Resume lets the record's subscription continue where Pause stopped it, at once. A failed
// notification starts at the first step of the ladder again, and the pause does not count as
// time for which it failed. ErrEnded: the subscription is not in force. ErrUnchanged: it is
// not paused.
func Resume(rec Record, now time.Time) (Record, error) {
	if rec.Subscription == nil || !rec.Subscription.Live(now) {
		return rec, ErrEnded
	}
	s := *rec.Subscription
	if s.PausedAt.IsZero() {
		return rec, ErrUnchanged
	}
	s.Cursor = Nudge(s.Cursor, now)
	if first := &s.Cursor.FirstAttemptAt; !first.IsZero() {
		*first = first.Add(max(now.Sub(s.PausedAt), 0))
	}
	s.PausedAt = time.Time{}
	rec.Subscription = &s
	return rec, nil
}

// Replay moves the cursor of the record's subscription back to an entry of its topic, in a
// new generation (invariant 4). Everything after that is delivered again. It never moves the
// cursor forward, so entries that were not delivered yet still will be. ErrEnded: the
// subscription is not in force.
func Replay(rec Record, to journal.Anchor, now time.Time) (Record, error) {
	if rec.Subscription == nil || !rec.Subscription.Live(now) {
		return rec, ErrEnded
	}
	s := *rec.Subscription
	if to.Position > s.Cursor.Position {
		to = s.Cursor.Anchor
	}
	s.Cursor = mint(s.Cursor.Generation, to, now)
	rec.Subscription = &s
	return rec, nil
}

// Deactivate carries out the verified unsubscribe request requestID (HUB-27). It records
// undelivered entries of the topic with that head as a gap. Like Activate, it
// returns ErrSuperseded if the request is not the pending one.
func Deactivate(rec Record, requestID uuid.UUID, head journal.Head, now time.Time) (Record, error) {
	r := rec.Request
	if r == nil || r.ID != requestID || r.Mode != websub.ModeUnsubscribe || r.Denied != "" {
		return rec, ErrSuperseded
	}
	rec.Request = nil
	return End(rec, EndUnsubscribed, head, now), nil
}

// End ends the record's subscription for a reason, one of the End constants, and records
// undelivered entries of the topic with that head as a gap (invariant 10). If there is none, or it has ended,
// the record stays as it is. A pending request is not changed.
func End(rec Record, reason string, head journal.Head, now time.Time) Record {
	if rec.Subscription == nil || !rec.Subscription.EndedAt.IsZero() {
		return rec
	}
	s := *rec.Subscription
	s.Gaps = addMissed(s.Gaps, s.Cursor.Anchor, head, gapReasons[reason], now)
	s.EndedAt, s.EndReason = now, reason
	rec.Subscription = &s
	return rec
}

// Expire ends the record's subscription if its lease ran out at least resumeWithin ago and
// no pending request can resume it. Otherwise the record stays as it is (invariant 10).
func Expire(rec Record, head journal.Head, now time.Time, resumeWithin time.Duration) Record {
	if !expired(rec, now, resumeWithin) {
		return rec
	}
	return End(rec, EndExpired, head, now)
}

// expired reports whether Expire ends the subscription.
func expired(rec Record, now time.Time, resumeWithin time.Duration) bool {
	s, r := rec.Subscription, rec.Request
	if s == nil || !s.EndedAt.IsZero() || now.Before(s.ExpiresAt.Add(resumeWithin)) {
		return false
	}
	return r == nil || r.Mode != websub.ModeSubscribe || r.Denied != "" || !resumable(s, r, resumeWithin)
}

// Purge removes a subscription that ended at least EndedFor ago from its record.
func Purge(rec Record, now time.Time) Record {
	if purgeable(rec, now) {
		rec.Subscription = nil
	}
	return rec
}

func purgeable(rec Record, now time.Time) bool {
	s := rec.Subscription
	return s != nil && !s.EndedAt.IsZero() && !now.Before(s.EndedAt.Add(EndedFor))
}

// resumable reports whether r came in time to resume s where it stopped. The time of the
// request counts, because the subscriber cannot control that of its verification.
func resumable(s *Subscription, r *Request, within time.Duration) bool {
	return !r.AcceptedAt.After(s.ExpiresAt.Add(within))
}

// mint returns a cursor at a in a new generation.
func mint(stored uint64, a journal.Anchor, now time.Time) journal.Cursor {
	return journal.Cursor{Generation: journal.MintGeneration(stored, now), Anchor: a}
}

// Nudge makes the entry after c due now, if it waits, at the bottom of the
// ladder. The cursor that it returns wins the merge over c and over failures that
// are counted on c.
func Nudge(c journal.Cursor, now time.Time) journal.Cursor {
	c.Nudge++
	if c.Attempt > 0 || c.Step > 0 {
		c.Step, c.NextAttemptAt = 0, now
	}
	return c
}

// addMissed adds a gap for what the topic has after cursor, if there is anything. Delivery may not have
// noticed yet that the journal lost the cursor's entry.
func addMissed(gaps []journal.Gap, cursor journal.Anchor, head journal.Head, reason string, now time.Time) []journal.Gap {
	return addLag(gaps, head.ReadFrom(cursor), head.Last, reason, now)
}

// addLag adds a gap for the entries after cursor up to head, if there are any.
func addLag(gaps []journal.Gap, cursor, head journal.Anchor, reason string, now time.Time) []journal.Gap {
	if head.Seq <= cursor.Seq {
		return gaps
	}
	return journal.AddGap(gaps, journal.Gap{
		From: cursor.Until, Until: head.Until,
		Count: head.Seq - cursor.Seq, Reason: reason, At: now,
	})
}

// gapReasons are the reasons of the gaps that ends leave.
var gapReasons = map[string]string{
	EndUnsubscribed: journal.GapUnsubscribe,
	EndGone:         journal.GapGone,
	EndExpired:      journal.GapExpired,
	EndRemoved:      journal.GapRemoved,
}
