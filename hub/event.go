package hub

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Event is one request that was answered, or one topic that was fetched. It
// holds no secret, and of a callback nothing. Fields that do not apply are zero.
type Event struct {
	Name    string // one of the Event constants
	Outcome string // OutcomeAccepted, OutcomeDuplicate, or how it was refused (docs/problems.md)
	Status  int    // of the answer; of a fetch what a publish would have been answered
	Topic   string

	NotificationID uuid.UUID // of the notification that is in the journal
	Publisher      string    // the name that went with the credential
	Bytes          int64     // of the body
	TraceParent    string    // of the request, as it came (W3C Trace Context)
	RequestID      string    // X-Request-Id of the answer; a fetch has none
	Err            error     // why it was refused
	// Gap is what the accepted notification leaves out after the one before it,
	// by --continuity=flag or after a reset.
	Gap journal.Gap

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
	EventPost        = "post" // of a media type that is neither, or of a web page
)

// What Event.Outcome is of a request that was not refused.
const (
	OutcomeAccepted  = "accepted"
	OutcomeDuplicate = "duplicate" // of a publish that came before; nothing is sent twice
)

// OutcomeCrossSite is what Event.Outcome is of a POST that a web page had a browser send.
const OutcomeCrossSite = "cross-site"

// FetchOutcomes are all that Event.Outcome can be of a fetch.
func FetchOutcomes() []string {
	out := []string{OutcomeAccepted, OutcomeDuplicate}
	for _, k := range []kind{
		notWellFormed, documentType, badCharset, topicNotAllowed, topicDenied,
		gap, overlap, conflict, tooLarge, tooManyEntries, unsupportedMediaType, badDocument, emptyContent, otherKind,
		storeDown, storeFull, busy, topicUnreachable,
	} {
		out = append(out, k.slug)
	}
	return out
}

// PublishOutcomes are all that Event.Outcome can be of a publish.
func PublishOutcomes() []string {
	out := []string{OutcomeAccepted, OutcomeDuplicate}
	for _, k := range []kind{
		badLink, notWellFormed, documentType, badCharset, incompleteBody, wrongCredential,
		noCredential, notCovered, topicNotAllowed, topicDenied, contentMismatch, slowBody,
		gap, overlap, conflict, tooLarge, tooManyEntries, unsupportedMediaType, badDocument, otherKind,
		rateLimited, storeDown, storeFull, drainingHub, busy, topicUnreachable,
	} {
		out = append(out, k.slug)
	}
	return out
}
