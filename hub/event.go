package hub

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Event is one answered request, or one fetch of a topic. It has no secret, and nothing of
// a callback. Fields that do not apply are zero.
type Event struct {
	Name    string // one of the Event constants
	Outcome string // OutcomeAccepted, OutcomeDuplicate, or how it was refused (docs/problems.md)
	Status  int    // of the answer; of a fetch, what a publish would have got
	Topic   string

	NotificationID uuid.UUID // of the notification that is in the journal
	Publisher      string    // the name that went with the credential
	Bytes          int64     // of the body
	TraceParent    string    // of the request, as it came (W3C Trace Context)
	Requester      string    // its address; a fetch has none
	RequestID      string    // X-Request-Id of the answer; a fetch has none
	Err            error     // why it was refused
	// Gap is what the accepted notification leaves out after the one before it,
	// by --continuity=flag or after a reset.
	Gap journal.Gap

	Start    time.Time
	Duration time.Duration
	// Append is the time for storing the notification, within Duration.
	Append Span
}

// Span is a stretch of time.
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
	EventRead        = "read" // of the history of a topic
	EventPost        = "post" // of another media type, or from a web page
)

// Event.Outcome of a request that was not refused.
const (
	OutcomeAccepted  = "accepted"
	OutcomeDuplicate = "duplicate" // the same publish came before; it is not delivered again
)

// OutcomeCrossSite is the Event.Outcome of a POST that a web page had a browser send.
const OutcomeCrossSite = "cross-site"

// FetchOutcomes are all values of Event.Outcome for a fetch.
func FetchOutcomes() []string {
	return outcomes(
		notWellFormed, documentType, badCharset, topicNotAllowed, topicDenied,
		gap, overlap, conflict, tooLarge, tooManyEntries, unsupportedMediaType, badDocument, emptyContent, otherKind,
		storeDown, storeFull, busy, topicUnreachable,
	)
}

// PublishOutcomes are all values of Event.Outcome for a publish.
func PublishOutcomes() []string {
	return outcomes(
		badLink, notWellFormed, documentType, badCharset, incompleteBody, wrongCredential,
		noCredential, notCovered, topicNotAllowed, topicDenied, contentMismatch, slowBody,
		gap, overlap, conflict, tooLarge, tooManyEntries, unsupportedMediaType, badDocument, otherKind,
		rateLimited, storeDown, storeFull, drainingHub, busy, topicUnreachable,
	)
}

// ReadOutcomes are all values of Event.Outcome for a question about history.
func ReadOutcomes() []string {
	return append(problems(
		badQuery, unknownTopic, noChanges, historyOff, notAcceptable, notYet, trimmed, tooManyReads,
		wrongCredential, noCredential, rateLimited, storeDown, drainingHub,
	), OutcomeAccepted)
}

func outcomes(refusals ...kind) []string {
	return append(problems(refusals...), OutcomeAccepted, OutcomeDuplicate)
}

func problems(refusals ...kind) (out []string) {
	for _, k := range refusals {
		out = append(out, k.slug)
	}
	return out
}
