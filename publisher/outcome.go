package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// step is the next step after the POST of an interval.
type step int

const (
	advance step = iota // the hub has it: the next
	again               // the same bytes, after a while
	rewind              // the hub lost its tail: from expected on
	rejoin              // it has again what it lost: from expected on
	divide              // it is too large: divide it
	halt                // nothing until Resume
)

// problem types of the hub (docs/problems.md) that matter for the next step.
const (
	typeConflict   = "conflict"
	typeMismatch   = "content-mismatch"
	typeAnonymous  = "no-credential"
	typeNotCovered = "topic-not-covered"
)

// outcome is what follows from a POST: a step, and what to report about it.
type outcome struct {
	step     step
	expected time.Time
	// wait is how long the hub asks to wait; zero: it did not say.
	wait time.Duration
	// permanent says that somebody has to do something.
	permanent bool
	// advice is what, in whole sentences.
	advice string
}

// refusals are what to do about answers that are not 2xx. The first row counts whose status
// and problem are 0, empty or those of the answer. 500 stands for all from 500 on.
var refusals = []struct {
	status    int
	problem   string
	permanent bool
	advice    string
}{
	{http.StatusRequestEntityTooLarge, "", true, "It has one change and cannot be made smaller: the hub has to allow larger ones (rshub serve --max-body)."},
	{http.StatusUnauthorized, "", true, "The hub does not know the token or secret."},
	{http.StatusForbidden, typeMismatch, false, "The topic's URL has to lead to this publisher's Handler, with no cache in between that serves anything older."},
	{http.StatusForbidden, typeAnonymous, true, adviceCredential},
	{http.StatusForbidden, typeNotCovered, true, adviceCredential},
	{http.StatusForbidden, "", true, "The hub has to be able to reach the topic's URL and to find itself named in its Link header, or the publisher needs a token that covers the topic."},
	{http.StatusTooManyRequests, "", false, adviceBusy},
	{http.StatusInternalServerError, "", false, adviceBusy},
	{0, "", true, "The hub does not accept it as it is: check the hub's URL, and the clocks of both."},
}

const (
	adviceCredential = "Give the publisher a token or secret that covers the topic (Hub.Token or Hub.Secret); the hub's operator makes a token with rshub token create."
	adviceBusy       = "The hub is busy or down; the same bytes are sent until it accepts them."
)

// decide returns the next step after the POST of i at an instant, whose result is err, to a hub that once
// had everything before reached. Begins reports whether an interval begins at an instant.
func decide(err error, i interval, now, reached time.Time, begins func(time.Time) bool) outcome {
	var refused *RefusedError
	if err == nil {
		return outcome{step: advance}
	}
	switch {
	case errors.Is(err, errToken):
		return outcome{step: again, permanent: true, advice: "Correct the token."}
	case !errors.As(err, &refused):
		return outcome{step: again, advice: "Is the hub running, and is its URL right? The same bytes are sent until it answers."}
	}
	v := outcome{step: again, wait: refused.RetryAfter, expected: refused.ExpectedFrom}
	switch {
	case refused.Status == http.StatusConflict:
		return discontinuity(refused, i, reached, begins)
	case refused.Status == http.StatusRequestEntityTooLarge && i.Entries > 1:
		v.step, v.advice = divide, "It is sent in parts."
		return v
	case refused.Status == http.StatusUnprocessableEntity && i.Until.After(now.Add(MaxAhead)):
		v.permanent = true
		v.advice = fmt.Sprintf("This was recorded by a clock that was ahead, and hubs accept it from %s on. "+
			"If that is too long, begin with a new state, and reset the topic at the hub.", stamp(i.Until.Add(-MaxAhead)))
		return v
	}
	for _, r := range refusals {
		if (r.status == 0 || r.status == min(refused.Status, http.StatusInternalServerError)) && (r.problem == "" || r.problem == refused.Type) {
			v.permanent, v.advice = r.permanent, r.advice
			break
		}
	}
	return v
}

// discontinuity returns the next step after a 409 (contract of the hub URI: expected_from).
func discontinuity(refused *RefusedError, i interval, reached time.Time, begins func(time.Time) bool) outcome {
	expected := refused.ExpectedFrom
	v := outcome{step: halt, expected: expected, permanent: true}
	switch {
	case refused.Type == typeConflict:
		v.advice = fmt.Sprintf("The hub has the interval from %s with other bytes: this outbox was restored from a backup, or somebody else publishes to the topic. "+
			"Find out which changes the hub has, then call Resume with the instant to go on from; the hub expects %s.", stamp(i.From), orUnknown(expected))
	case expected.IsZero():
		return outcome{step: again, permanent: true, wait: refused.RetryAfter, advice: "The hub does not say where it expects the next interval to begin; the same bytes are sent again."}
	case expected.Equal(i.From):
		return outcome{step: again, permanent: true, wait: refused.RetryAfter, advice: "The hub refuses what it says it expects; the same bytes are sent again."}
	case expected.After(i.From) && (expected.Equal(reached) || expected.Before(reached) && begins(expected)):
		// Behind the hub's URL there was another store for a moment, as in a failover.
		v.step, v.permanent = rejoin, false
		v.advice = fmt.Sprintf("The hub has what it was sent up to %s after all.", stamp(expected))
	case expected.After(i.From):
		v.advice = fmt.Sprintf("The hub has more than it was sent from here, up to %s: this outbox was restored from a backup, or somebody else publishes to the topic. "+
			"Resume with %s if nothing is missing between, and what was recorded since is published from there.", stamp(expected), stamp(expected))
	case begins(expected):
		v.step, v.permanent = rewind, false
		v.advice = fmt.Sprintf("The hub has lost what came after %s; it is sent again.", stamp(expected))
	default:
		v.advice = fmt.Sprintf("The hub's last notification ends at %s, and no stored interval begins there: it lost more than the outbox has, or this outbox is a new one. "+
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
