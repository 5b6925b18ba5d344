package hub

import (
	"time"

	"github.com/google/uuid"
)

// Event is one request that was answered, or one topic that was fetched. It
// holds no secret, and of a callback nothing. Fields that do not apply are zero.
type Event struct {
	Name    string // one of the Event constants
	Outcome string // "accepted", "duplicate", or how it was refused (docs/problems.md)
	Status  int    // of the answer; of a fetch what a publish would have been answered
	Topic   string

	NotificationID uuid.UUID // of the notification that is in the journal
	Publisher      string    // the name that went with the credential
	Bytes          int64     // of the body
	TraceParent    string    // of the request, as it came (W3C Trace Context)
	Err            error     // why it was refused

	Start    time.Time
	Duration time.Duration
	// Append is the part of it that was spent on storing the notification.
	Append Span
}

// Span is a part of a time.
type Span struct {
	Start    time.Time
	Duration time.Duration
}

// The events.
const (
	EventPublish     = "publish"
	EventSubscribe   = "subscribe"
	EventUnsubscribe = "unsubscribe"
	EventPing        = "ping"
	EventFetch       = "fetch"
	EventPost        = "post" // of a media type that is neither
)
