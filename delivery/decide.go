package delivery

import (
	"math"
	"net/http"
	"time"

	"github.com/rshub/rshub/journal"
)

// Policy says when a failed delivery is tried again (`--retry-first`,
// `--retry-max`, `--give-up`). Zero fields are 5 s, 6 h and 72 h.
type Policy struct {
	First, Max, GiveUp time.Duration
}

func (p Policy) withDefaults() Policy {
	orDefault(&p.First, 5*time.Second)
	orDefault(&p.Max, 6*time.Hour)
	orDefault(&p.GiveUp, 72*time.Hour)
	return p
}

// The ladder of waits for a First of 5 s. Other Firsts scale it, Max caps it.
var ladder = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour,
}

const (
	jitter = 0.2 // a wait is longer or shorter than its step by up to this share
	// refusals is how many attempts a notification gets whose last was answered
	// with a status that says that it will never do.
	refusals = 5
	// publishStep is the step of the ladder that a wait is shortened to when
	// something new is published (HUB-48): 10 minutes.
	publishStep = 3
)

// step is the wait of a step of the ladder, without jitter.
func (p Policy) step(n uint32) time.Duration {
	base := ladder[min(int(n), len(ladder)-1)]
	scaled := float64(base) * (float64(p.First) / float64(ladder[0]))
	return time.Duration(math.Min(scaled, float64(p.Max)))
}

// wait is the step with jitter: rnd in [0, 1) spreads it, never over Max.
func (p Policy) wait(n uint32, rnd float64) time.Duration {
	base := float64(p.step(n))
	low, high := base*(1-jitter), math.Min(base*(1+jitter), float64(p.Max))
	return time.Duration(low + (high-low)*rnd)
}

// Result is what became of one attempt.
type Result struct {
	// Status of the answer, or one of journal's Status constants.
	Status int
	// RetryAfter is what the answer's Retry-After asks for; zero: nothing.
	RetryAfter time.Duration
}

func (r Result) delivered() bool { return r.Status >= 200 && r.Status <= 299 }

// unreachable tells whether the callback's host may be down, or a tar pit.
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
	// Deliver: it was taken; go on with the next notification.
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
	return [...]string{"delivered", "retry", "passed_over", "ended"}[a]
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

// refused tells whether a status says that this notification will never do.
func refused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// overloaded tells whether a status may come with a Retry-After.
func overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
