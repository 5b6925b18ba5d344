package subscriptions

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// Event is something that happened to a request or a subscription, for the log.
// It holds no secret, no challenge, and of the callback only the host. Fields
// that do not apply are zero.
type Event struct {
	Name           string // one of the Event constants
	SubscriptionID uuid.UUID
	Topic          string
	CallbackHost   string // host:port
	Mode           websub.Mode
	Requester      string // as given to Accept
	Who            string // the person who asked for it (AskedBy)
	Try            int    // from 1
	Status         int    // of the callback's answer; 0: there was none
	Reason         string // why it was denied, dropped or ended
	Err            error
	Duration       time.Duration // of the exchange with the callback
	// Since is the time after which a replay delivers again, and Count the number of
	// notifications.
	Since time.Time
	Count uint64
	// Gap is what a subscription will never get because it ended, or because it began
	// anew long after its lease ran out (invariant 10). Zero: it missed nothing.
	Gap journal.Gap
}

// The events.
const (
	EventAccepted = "subscription_request_accepted"
	EventVerified = "subscription_verified"            // a subscribe is in force
	EventEnded    = "subscription_ended"               // Reason: an End constant
	EventFailed   = "subscription_verification_failed" // one try of it or of a denial, or one topic check
	EventDropped  = "subscription_request_dropped"     // the request ended without an effect
	EventDenied   = "subscription_denied"              // the callback got the denial
	EventRetried  = "subscription_retried"             // somebody asked for the next attempt at once
	EventReplayed = "subscription_replayed"            // somebody moved the cursor back: Since, Count
	EventPaused   = "subscription_paused"              // the operator paused it
	EventResumed  = "subscription_resumed"             // the operator resumed it
	EventChecked  = "subscription_checked"             // the operator had its callback asked again: Status or Err
	EventTrouble  = "subscription_store_trouble"       // Err: the store failed; the Service tries again
)

func event(name string, sub *Subscription, reason string) Event {
	return Event{Name: name, SubscriptionID: sub.ID, Topic: sub.Topic, CallbackHost: egress.HostPortOf(sub.Callback), Reason: reason}
}

// requestEvent is an event of a pending request.
func requestEvent(name string, r *Request, reason string) Event {
	return Event{
		Name: name, SubscriptionID: r.SubscriptionID(), Topic: r.Topic, CallbackHost: egress.HostPortOf(r.Callback),
		Mode: r.Mode, Try: r.Tries + 1, Reason: reason,
	}
}

// newGap returns the gap that after has and before does not have, if there is one.
func newGap(before, after *Subscription) journal.Gap {
	if before == nil || after == nil || len(after.Gaps) == 0 {
		return journal.Gap{}
	}
	g := after.Gaps[len(after.Gaps)-1]
	if n := len(before.Gaps); n > 0 {
		switch last := before.Gaps[n-1]; {
		case last == g:
			return journal.Gap{}
		case n == len(after.Gaps) && last.From.Equal(g.From): // they were joined
			g.From, g.Count = last.Until, g.Count-last.Count
		}
	}
	return g
}
