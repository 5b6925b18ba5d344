package delivery

import (
	"time"

	"github.com/google/uuid"
)

// Event is one attempt to deliver a notification to one subscription.
type Event struct {
	SubscriptionID, NotificationID uuid.UUID
	Topic                          string
	CallbackHost                   string // host:port
	Attempt                        uint32 // from 1
	// Outcome is one of the Outcome constants, or the text of an Action.
	Outcome string
	// Status of the answer, or one of journal's Status constants.
	Status   int
	Err      error
	Start    time.Time
	Duration time.Duration
	// ReceivedAt is when the hub accepted the notification.
	ReceivedAt time.Time
	Bytes      int64
}

// What may become of an attempt besides an Action: the hub shut down, or the
// subscription changed meanwhile. Neither counts.
const (
	OutcomeCutOff     = "cut_off"
	OutcomeSuperseded = "superseded"
)
