package subscriptions

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// ErrSuperseded says that the request in question is not the record's pending
// one any more: it was replaced by a newer one, or done with.
var ErrSuperseded = errors.New("the request was replaced or done with meanwhile")

// Activate puts the verified subscribe request requestID into force and returns
// the record after that. Its lease runs from sentAt, when the verification
// request was sent (HUB-22); now is the time of the decision.
//
// It is compare-and-set on the request's id (invariant 8): if the pending
// request is another one, none, no subscribe or denied, ErrSuperseded comes
// back. Otherwise one of four things happens:
//
//   - there was no subscription, or an ended one: it begins at the request's
//     Start with a generation minted anew;
//   - it is in force, or the request was accepted within resumeWithin after its
//     lease ran out: it goes on at its cursor and generation, nudged, its retry
//     ladder begins anew and what waits is due at once;
//   - the same with another secret, or none where there was one: a generation is
//     minted at the committed cursor, since the subscriber may have ignored what
//     was signed with the old secret (invariant 4);
//   - it expired longer ago: what it missed is recorded as a gap (invariant 10),
//     and it begins anew at the request's Start.
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
			s.Gaps = addLag(s.Gaps, s.Cursor.Anchor, r.Start, journal.GapExpired, now)
		}
		s.CreatedAt, s.Start = now, r.Start
		s.EndedAt, s.EndReason = time.Time{}, ""
		s.Cursor = mint(s.Cursor.Generation, r.Start, now)
	case s.Secret != r.Secret:
		s.Cursor = mint(s.Cursor.Generation, s.Cursor.Anchor, now)
	default:
		// The nudge makes the renewal win the merge over a failure from before it
		// that delivery has not stored yet. A 410 from before it is no matter of
		// the merge: it names the lease that it ends.
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

// Retry makes what waits in a record due now: the notification that failed, on
// the first step of the ladder again and counted on from the attempts that it
// had, and the request that is to be verified, with all its tries before it
// again: the operator's are not to use them up. ErrEnded: the subscription gets
// nothing, and there is no request that would begin it. A denial that waits to
// be told is left alone.
//
// The cursor is nudged and not minted: it goes back behind nothing that was
// delivered, and a failure from before it does not win over it.
func Retry(rec Record, now time.Time) (Record, error) {
	live := rec.Subscription != nil && rec.Subscription.Live(now)
	asked := rec.Request != nil && rec.Request.Denied == "" && (live || rec.Request.Mode == websub.ModeSubscribe)
	if !live && !asked {
		return rec, ErrEnded
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

// Replay takes the record's subscription back to an entry of its topic, after
// which everything is delivered again, in a generation minted anew (invariant
// 4). It never goes forward: where the cursor is further back, what was not
// delivered yet is still to be. ErrEnded: the subscription gets nothing.
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

// Ahead is how many retained notifications of a topic are after an anchor.
func Ahead(head journal.Head, a journal.Anchor) uint64 {
	from := max(a.Seq, head.Trimmed.Seq)
	return max(head.Last.Seq, from) - from
}

// Deactivate carries the verified unsubscribe request requestID out (HUB-27):
// what was not delivered up to head, the topic's newest entry, is recorded as a
// gap. Like Activate it compares the request's id and returns ErrSuperseded
// where that is not the pending one.
func Deactivate(rec Record, requestID uuid.UUID, head journal.Anchor, now time.Time) (Record, error) {
	r := rec.Request
	if r == nil || r.ID != requestID || r.Mode != websub.ModeUnsubscribe || r.Denied != "" {
		return rec, ErrSuperseded
	}
	rec.Request = nil
	return End(rec, EndUnsubscribed, head, now), nil
}

// End ends the record's subscription for a reason, one of the End constants,
// and records what was not delivered up to head as a gap (invariant 10). One
// that has ended, or none, stays as it is. A pending request is not touched.
func End(rec Record, reason string, head journal.Anchor, now time.Time) Record {
	if rec.Subscription == nil || !rec.Subscription.EndedAt.IsZero() {
		return rec
	}
	s := *rec.Subscription
	s.Gaps = addLag(s.Gaps, s.Cursor.Anchor, head, gapReasons[reason], now)
	s.EndedAt, s.EndReason = now, reason
	rec.Subscription = &s
	return rec
}

// Expire ends the record's subscription where its lease ran out at least
// resumeWithin ago and no pending request can take it up again any more;
// otherwise the record stays as it is (invariant 10).
func Expire(rec Record, head journal.Anchor, now time.Time, resumeWithin time.Duration) Record {
	if !expired(rec, now, resumeWithin) {
		return rec
	}
	return End(rec, EndExpired, head, now)
}

// expired reports whether Expire has something to do.
func expired(rec Record, now time.Time, resumeWithin time.Duration) bool {
	s, r := rec.Subscription, rec.Request
	if s == nil || !s.EndedAt.IsZero() || now.Before(s.ExpiresAt.Add(resumeWithin)) {
		return false
	}
	return r == nil || r.Mode != websub.ModeSubscribe || r.Denied != "" || !resumable(s, r, resumeWithin)
}

// Purge takes a subscription that ended at least EndedFor ago out of its record.
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

// resumable reports whether r came in time to take s up where it stopped. The
// time of the request counts, not that of its verification, which the
// subscriber cannot hasten.
func resumable(s *Subscription, r *Request, within time.Duration) bool {
	return !r.AcceptedAt.After(s.ExpiresAt.Add(within))
}

// mint returns a cursor that stands at a in a new generation.
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

// addLag records what lies after cursor up to head, if anything.
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
