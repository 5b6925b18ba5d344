package delivery

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// decide decides what follows from an attempt. It does not count if the subscription changed
// meanwhile. The end of a subscription is recorded with its shard.
func (s *sender) decide(ctx context.Context, d *delivery) (ok bool) {
	now := s.report.clock.Now()
	sched := s.sched.of(d.lane)
	decide := func() { sched.do(func(sc *scheduler) { ok = sc.decide(d, now) }) }
	if d.out.Status != http.StatusGone {
		decide()
	} else {
		var err error
		if d.head, err = s.journal.Head(ctx, d.lane.topic.url); err != nil {
			// What is left out is not known, so the subscription ends another time.
			s.report.attempt(d, Retry.String(), now.Add(storeBackoff))
			sched.do(func(sc *scheduler) { sc.observe(d.job, d.out) })
			s.delay(&d.job, false)
			return false
		}
		s.shards.ending(d.lane.id, decide)
	}
	if !ok {
		s.report.attempt(d, OutcomeSuperseded, time.Time{})
		sched.do(func(sc *scheduler) { sc.finish(d.job, d.out) })
	}
	return ok
}

// decide moves the lane's cursor as Decide says, and adds to d what is to be stored. False: the
// lane has another cursor, or the answer would end a lease that is over.
func (s *scheduler) decide(d *delivery, now time.Time) bool {
	if !d.stands() {
		return false
	}
	l := d.lane
	was, c := l.cursor, l.cursor
	begun, failures := instant(was.first), was.failures(&d.body.entry)
	if failures == 0 { // begun is of another entry, or since when this one was known to be damaged
		begun = now.Add(-d.out.duration)
	}
	dec := Decide(d.out.Result, State{Attempt: failures, Step: uint32(was.step), FirstAttemptAt: begun}, s.policy, now, s.rnd())
	if dec.Action == End && l.lease != d.lease {
		return false // renewed since the exchange began
	}
	switch dec.Action {
	case Deliver, PassOver:
		c = was.moveTo(d.body.anchor)
	default:
		if was.attempt > failures {
			c.nudge++ // what is stored of the other entry does not win over this
		}
		c.attempt, c.first = failures+1, nanos(begun)
	}
	c.next, c.step, c.status = nanos(dec.At), uint16(dec.Step), int16(d.out.Status) //nolint:gosec // at most 8, and of three digits
	l.cursor, l.retryAfter = c, dec.RetryAfter
	d.dec, d.done = dec, subscriptions.Commit{ID: l.id, Cursor: c.unpack()}
	if dec.Action == End {
		d.done.End, d.done.EndedAt, d.done.Lease = subscriptions.EndGone, now, instant(d.lease)
		s.remove(l) // finish gives back its slot and its sender
	}
	failedBefore := was.status != 0 && !(Result{Status: int(was.status)}).delivered()
	if dec.Action != Deliver || failedBefore {
		d.done.Attempts = []subscriptions.Attempt{{
			At: d.out.started, NotificationID: d.body.entry.ID, Number: failures + 1,
			Status: d.out.Status, Error: message(d.out.err), Duration: d.out.duration,
		}}
	}
	return true
}

// Result is what became of one attempt.
type Result struct {
	// Status of the answer, or one of journal's Status constants.
	Status int
	// RetryAfter is what the answer's Retry-After asks for; zero: nothing.
	RetryAfter time.Duration
}

func (r Result) delivered() bool { return r.Status >= 200 && r.Status <= 299 }

// unreachable reports whether the callback's host may be down or hang.
func unreachable(status int) bool {
	return status == journal.StatusTimeout || status == journal.StatusConnect
}

// State is what Decide has to know of a lane before the attempt.
type State struct {
	Attempt uint32 // failures of this notification so far
	Step    uint32 // on the ladder
	// FirstAttemptAt is when this notification was tried first at this
	// subscription; zero: the attempt was the first, at now.
	FirstAttemptAt time.Time
}

// Action is what follows from an attempt.
type Action int

// The actions.
const (
	// Deliver: the callback accepted it; go on with the next notification.
	Deliver Action = iota
	// Retry: try the same notification again at Decision.At.
	Retry
	// PassOver: record a gap and go on with the next notification, at
	// Decision.At.
	PassOver
	// End: the subscription is gone.
	End
)

func (a Action) String() string {
	names := [...]string{"delivered", "retry", "passed_over", "ended"}
	if a < 0 || int(a) >= len(names) {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return names[a]
}

// Decision is an Action and what it needs.
type Decision struct {
	Action Action
	At     time.Time // not to be tried before; zero: at once
	Step   uint32    // of the lane from now on
	// RetryAfter: At follows from a Retry-After, and nothing shortens it.
	RetryAfter bool
}

// Decide says what follows from the result of an attempt that ended at now
// (HUB-46, HUB-47, HUB-48). It is pure; rnd is a random number in [0, 1) for
// jitter.
//
//	2xx                   delivered, the ladder begins anew
//	410                   the subscription ends
//	400, 413, 415, 422    passed over at the fifth attempt; the next
//	                      notification is tried at once, as it may well do
//	429, 503              as any other, but not before Retry-After, where that
//	                      is longer than the ladder's step; no more of it than
//	                      Max counts
//	anything else, 3xx    up the ladder; passed over when GiveUp has gone by
//	and no answer at all  since the first attempt, the last of them being made
//	                      just then. The step stays, so that a dead host is not
//	                      hammered with the next notification
func Decide(r Result, s State, p Policy, now time.Time, rnd float64) Decision {
	p = p.withDefaults()
	switch {
	case r.delivered():
		return Decision{Action: Deliver}
	case r.Status == http.StatusGone:
		return Decision{Action: End, Step: s.Step}
	case refused(r.Status) && s.Attempt+1 >= refusals:
		return Decision{Action: PassOver, Step: up(s.Step)}
	}
	first := s.FirstAttemptAt
	if first.IsZero() {
		first = now
	}
	wait, left := p.wait(s.Step, rnd), p.GiveUp-now.Sub(first)
	if left <= 0 {
		return Decision{Action: PassOver, At: now.Add(wait), Step: up(s.Step)}
	}
	wait = min(wait, left)
	if after := min(r.RetryAfter, p.Max); overloaded(r.Status) && after >= wait {
		return Decision{Action: Retry, At: now.Add(after), Step: up(s.Step), RetryAfter: true}
	}
	return Decision{Action: Retry, At: now.Add(wait), Step: up(s.Step)}
}

// up is the step after a failure.
func up(step uint32) uint32 { return min(step+1, uint32(len(ladder)-1)) }

// refused reports whether a status means that the callback will never accept this notification.
func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType || status == http.StatusUnprocessableEntity
}

// overloaded reports whether a status may come with a Retry-After.
func overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
