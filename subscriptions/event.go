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
	Try            int    // from 1
	Status         int    // of the callback's answer; 0: there was none
	Reason         string // why it was denied, dropped or ended
	Err            error
	Duration       time.Duration // of the exchange with the callback
	// Since and Count say from when on a replay delivers again, and how many
	// notifications.
	Since time.Time
	Count uint64
	// Gap is what a subscription that ended, or that began anew after its lease ran
	// out long ago, had not got and will not get (invariant 10); zero where there
	// was nothing.
	Gap journal.Gap
}

// The events.
const (
	EventAccepted = "subscription_request_accepted"
	EventVerified = "subscription_verified"            // a subscribe is in force
	EventEnded    = "subscription_ended"               // Reason: an End constant
	EventFailed   = "subscription_verification_failed" // one try of it or of a denial, or one topic check
	EventDropped  = "subscription_request_dropped"     // it is done with, and nothing changed
	EventDenied   = "subscription_denied"              // the callback was told
	EventRetried  = "subscription_retried"             // the operator had what waits tried now
	EventReplayed = "subscription_replayed"            // the operator had it go back: Since, Count
	EventTrouble  = "subscription_store_trouble"       // Err: the store's; it is tried again
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

// newGap is the gap that after has and before has not, if there is one.
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
