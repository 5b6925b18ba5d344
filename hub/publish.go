package hub

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// stage is one step of a publish. An error refuses the publish, and ends it.
type stage func(h *Handler, ctx context.Context, p *publication) error

// posted are the stages of a notification that is POSTed, each in the file of its name.
// After the last one it is durable in the journal (invariant 1), and package delivery
// takes over.
var posted = []stage{
	(*Handler).admit,     // what can be decided before the body is read
	(*Handler).read,      // the body, and the signature over it
	(*Handler).validate,  // the document, and whether it continues the topic
	(*Handler).authorise, // what the topic itself says
	(*Handler).append,    // stored, if the head of the topic has not moved
}

// fetched are the stages of what the hub fetched from the topic itself (HUB-60).
var fetched = posted[2:]

// publication is one notification on its way in. Each stage fills in its part.
type publication struct {
	// The request; of a fetched topic there is none.
	w http.ResponseWriter
	r *http.Request

	// admit
	topic     string
	location  string // Content-Location
	signature string // X-Hub-Signature, if it has to be checked
	byContent bool   // the topic has to serve the same content
	publisher string // the name that goes with the credential; empty: anonymous
	network   string // of the requester, as it is counted
	// The keys of the rate limits that count it.
	publisherKey, hostKey string
	relayed               []string
	mediaType             string
	bodyLength            int64

	// fetch, instead of admit and read
	fetched bool            // the topic's own answer, which speaks for itself
	plain   bool            // of a media type that is no notification's (HUB-61)
	since   journal.Version // of the head before it

	body *body // read

	// validate
	entry    journal.Entry
	head     journal.Head
	decision validate.Decision

	// append
	stored   Span // how long it took
	id       uuid.UUID
	gap      journal.Gap
	accepted accepted
}

// accepted is the answer to a publish, as JSON.
type accepted struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	From      string `json:"from,omitempty"`
	Until     string `json:"until,omitempty"`
	Position  string `json:"position"`
	Duplicate bool   `json:"duplicate"`
}

// outcome is the Event.Outcome of a publication that is in the journal.
func (p *publication) outcome() string {
	if p.accepted.Duplicate {
		return OutcomeDuplicate
	}
	return OutcomeAccepted
}

// release releases the memory of the body.
func (p *publication) release() {
	if p.body != nil {
		p.body.release()
	}
}

// enter runs the stages of a publication. Nil: it is in the journal, through this request or
// an earlier one with the same bytes.
func (h *Handler) enter(ctx context.Context, p *publication, stages []stage) error {
	defer p.release()
	for _, next := range stages {
		if err := next(h, ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// servePublish answers a POST of a notification (HUB-50 to HUB-56) and writes
// its log line.
func (h *Handler) servePublish(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	p := &publication{w: w, r: r}
	err := h.enter(r.Context(), p, posted)
	e := Event{
		Name: EventPublish, Outcome: p.outcome(), Status: http.StatusOK, Topic: p.topic,
		NotificationID: p.id, Gap: p.gap, Publisher: p.publisher, Bytes: p.bodyLength, Append: p.stored,
	}
	if err != nil {
		h.refused(w, r, &e, err)
	} else {
		answerJSON(w, "application/json", e.Status, p.accepted)
	}
	h.reportRequest(w, r, start, e, orSkip("publisher", p.publisher), zap.Int64("bytes", p.bodyLength))
}
