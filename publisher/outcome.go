package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// step is what follows the POST of an interval.
type step int

const (
	advance step = iota // the hub has it: the next
	again               // the same bytes, after a while
	rewind              // the hub lost its tail: from expected on
	rejoin              // it has what it had lost: from expected on
	divide              // it is too large: in parts
	halt                // only Resume goes on
)

// problem types of the hub (docs/problems.md) that decide what follows.
const (
	typeConflict   = "conflict"
	typeMismatch   = "content-mismatch"
	typeAnonymous  = "no-credential"
	typeNotCovered = "topic-not-covered"
)

// outcome is a step, and what there is to say about it.
type outcome struct {
	step     step
	expected time.Time
	// wait is how long the hub wants to be left alone; zero: it did not say.
	wait time.Duration
	// loud says that it does not mend itself: somebody has to do something.
	loud bool
	// advice is what, a whole sentence.
	advice string
}

// decide says what follows the POST of i, whose outcome is err, to a hub that has had
// all before reached. Begins reports whether an interval begins at an instant.
func decide(err error, i interval, reached time.Time, begins func(time.Time) bool) outcome {
	var refused *RefusedError
	if err == nil {
		return outcome{step: advance}
	}
	if !errors.As(err, &refused) {
		return outcome{step: again, advice: "Is the hub running, and is its URL right? The same bytes are sent until it answers."}
	}
	v := outcome{step: again, wait: refused.RetryAfter, expected: refused.ExpectedFrom}
	switch s := refused.Status; {
	case s == http.StatusConflict:
		return discontinuity(refused, i, reached, begins)
	case s == http.StatusRequestEntityTooLarge && i.Entries > 1:
		v.step, v.advice = divide, "It is sent in parts."
	case s == http.StatusRequestEntityTooLarge:
		v.loud, v.advice = true, "It has one change and can't be made smaller: the hub has to allow larger ones (rshub serve --max-body)."
	case s == http.StatusUnauthorized:
		v.loud, v.advice = true, "The token or secret is not one that the hub knows."
	case s == http.StatusForbidden && refused.Type == typeMismatch:
		v.advice = "The topic's URL has to lead to this publisher's Handler, with no cache in between that serves anything older."
	case s == http.StatusForbidden && (refused.Type == typeAnonymous || refused.Type == typeNotCovered):
		v.loud, v.advice = true, "Give the publisher a token or secret that covers the topic (Hub.Token or Hub.Secret); the hub's operator makes a token with rshub token create."
	case s == http.StatusForbidden:
		v.loud, v.advice = true, "The hub has to be able to reach the topic's URL and to find itself named in its Link header, or the publisher needs a token that covers the topic."
	case s == http.StatusTooManyRequests, s >= 500:
		v.advice = "The hub is busy or down; the same bytes are sent until it takes them."
	default:
		v.loud, v.advice = true, "The hub does not take it as it is: check the hub's URL, and that the clock of neither is wrong."
	}
	return v
}

// discontinuity is what follows a 409 (contract of the hub URI: expected_from).
func discontinuity(refused *RefusedError, i interval, reached time.Time, begins func(time.Time) bool) outcome {
	expected := refused.ExpectedFrom
	v := outcome{step: halt, expected: expected, loud: true}
	switch {
	case refused.Type == typeConflict:
		v.advice = fmt.Sprintf("The hub has the interval from %s with other bytes: this outbox was restored from a backup, or somebody else publishes to the topic. "+
			"Find out which changes the hub has, then call Resume with the instant to go on from; the hub expects %s.", stamp(i.From), orUnknown(expected))
	case expected.IsZero() || expected.Equal(i.From):
		return outcome{step: again, loud: true, wait: refused.RetryAfter, advice: "The hub refuses what it says it expects; the same bytes are sent again."}
	case expected.After(i.From) && (expected.Equal(reached) || expected.Before(reached) && begins(expected)):
		// Behind the hub's URL there was another store for a moment, as in a failover.
		v.step, v.loud = rejoin, false
		v.advice = fmt.Sprintf("The hub has what it was sent up to %s after all.", stamp(expected))
	case expected.After(i.From):
		v.advice = fmt.Sprintf("The hub has more than it was sent from here, up to %s: this outbox was restored from a backup, or somebody else publishes to the topic. "+
			"Resume with %s if nothing is missing between, and what was recorded since is published from there.", stamp(expected), stamp(expected))
	case begins(expected):
		v.step, v.loud = rewind, false
		v.advice = fmt.Sprintf("The hub has lost what came after %s; it is sent again.", stamp(expected))
	default:
		v.advice = fmt.Sprintf("The hub's last notification ends at %s, and no interval that is kept begins there: it lost more than is kept, or this outbox is a new one. "+
			"Reset the topic at the hub, then Resume; subscribers see the gap and repair it from the Change Lists.", stamp(expected))
	}
	return v
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func orUnknown(t time.Time) string {
	if t.IsZero() {
		return "an instant that it does not say"
	}
	return stamp(t)
}
