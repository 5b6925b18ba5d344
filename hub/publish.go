package hub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// publication is one notification on its way in. Each stage fills in its part.
type publication struct {
	// admit
	topic      string
	location   string // Content-Location
	signature  string // X-Hub-Signature, where it is going to be checked
	byContent  bool   // the topic's content has to speak for it
	publisher  string // the name that goes with the credential; empty: anonymous
	requester  string
	network    string // of the requester, as it is counted
	who, host  string // the keys of the limits that count it
	relayed    []string
	mediaType  string
	bodyLength int64

	// fetch, in the place of admit and read
	fetched bool            // the topic's own answer, which speaks for itself
	plain   bool            // of a media type that is no notification's (HUB-61)
	since   journal.Version // of the head before it

	body *body // read

	// validate
	entry    journal.Entry
	head     journal.Head
	decision validate.Decision

	// append
	stored   Span // the time that it took
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

// outcome is that of a publication which is in the journal.
func (p *publication) outcome() string {
	if p.accepted.Duplicate {
		return OutcomeDuplicate
	}
	return OutcomeAccepted
}

// take leads a publish through its stages. Nil: it is durable in the journal, by
// this request or by an earlier one with the same bytes (invariant 1).
func (h *Handler) take(w http.ResponseWriter, r *http.Request, p *publication) error {
	if err := h.admit(r, p); err != nil {
		return err
	}
	if err := h.read(w, r, p); err != nil {
		return err
	}
	defer p.body.release()
	// A body may take its time, in which a token can have been revoked.
	if _, err := h.credential(r.Header, p); err != nil {
		return err
	}
	return h.enter(r.Context(), p)
}

// enter leads what was posted, or fetched, through the stages that both have.
func (h *Handler) enter(ctx context.Context, p *publication) error {
	if err := h.validate(ctx, p); err != nil {
		return err
	}
	if err := h.authorise(ctx, p); err != nil {
		return err
	}
	return h.append(ctx, p)
}

// servePublish answers a POST of a notification (HUB-50 to HUB-56) and writes
// its log line.
func (h *Handler) servePublish(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	p := &publication{}
	err := h.take(w, r, p)
	status, outcome := http.StatusOK, p.outcome()
	if err != nil {
		e := h.refuse(w, r, err)
		status, outcome, err = e.kind.status, e.kind.slug, e
	} else {
		answerJSON(w, "application/json", status, p.accepted)
	}
	h.tell(Event{
		Name: EventPublish, Outcome: outcome, Status: status, Topic: p.topic, Err: err,
		NotificationID: p.id, Gap: p.gap, Publisher: p.publisher, Bytes: p.bodyLength, TraceParent: traceParent(r), RequestID: requestID(w),
		Start: start, Duration: time.Since(start), Append: p.stored,
	}, orSkip("publisher", p.publisher), zap.String("requester", p.requester), zap.Int64("bytes", p.bodyLength))
}

// admit is the first stage: all that can be told before the body is read.
func (h *Handler) admit(r *http.Request, p *publication) error {
	addr := h.requester(r)
	p.requester, p.network, p.bodyLength = addr.String(), network(addr), max(r.ContentLength, 0)
	if h.draining.Load() {
		return refuse(drainingHub, "This hub is shutting down and takes no more notifications. Try again in a moment.")
	}
	if err := h.links(r.Header, p); err != nil {
		return err
	}
	if err := h.served(p.topic); err != nil {
		return err
	}
	publisher, credential := h.credential(r.Header, p)
	p.publisher, p.who = publisher, addressKey(addr)
	if credential == nil && publisher != "" {
		p.who = "publisher " + publisher
	}
	p.host = topicHostKey(egress.HostPortOf(p.topic), credential == nil && publisher != "")
	now := h.o.Now()
	if err := h.byPublisher.take(now, p.who, "from you"); err != nil {
		return err
	}
	if credential != nil {
		return credential
	}
	if err := h.byTopicHost.take(now, p.host, "to the topic's host"); err != nil {
		return err
	}
	if err := h.room(now, p, max(r.ContentLength, 1)); err != nil {
		return err
	}
	p.location = r.Header.Get("Content-Location")
	p.mediaType = r.Header.Get("Content-Type")
	return nil
}

// room refuses a body of n bytes that is over the limits in bytes, of which it
// counts none yet: what counts is what comes.
func (h *Handler) room(now time.Time, p *publication, n int64) error {
	if err := h.bytesByPublisher.room(now, p.who, "from you", n); err != nil {
		return err
	}
	return h.bytesByTopicHost.room(now, p.host, "to the topic's host", n)
}

// hashedBodies is how many bodies of MaxBody bytes one requester can have hashed in a
// minute with secrets of publishers whose signature they do not have.
const hashedBodies = 8

// read is the second stage: the body, hashed on the way, and the signature over
// it.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, p *publication) error {
	var err error
	in := h.incoming(w, r)
	p.body, err = takeIn(h.memory, in, r.ContentLength, h.o.MaxBody)
	now := h.o.Now()
	h.bytesByPublisher.spend(now, p.who, in.total)
	h.bytesByTopicHost.spend(now, p.host, in.total)
	if err != nil {
		return err
	}
	p.bodyLength = int64(len(p.body.bytes))
	if p.signature == "" {
		return nil
	}
	var claims []claim
	signer, err := h.o.Publishers.BySignature(p.signature, p.body.bytes, p.topic, func() error {
		const what = "from your address had to be hashed for signatures that fit none of our secrets"
		if err := h.hashedByRequester.room(now, p.network, what, int64(len(p.body.bytes))); err != nil {
			return err
		}
		claims = append(claims, h.hashedByRequester.claim(now, p.network, what, len(p.body.bytes)))
		return nil
	})
	if err == nil { // what was hashed for a publisher of this hub is not counted
		for _, c := range claims {
			c.giveBack(now)
		}
	}
	p.publisher = signer.Name // also where the topic is none of its own, for the log
	if err != nil {
		p.body.release()
	}
	return err
}

// validate is the third stage: the document, and whether it may come next.
func (h *Handler) validate(ctx context.Context, p *publication) error {
	p.entry = journal.Entry{
		Kind: journal.KindContent, MediaType: p.mediaType, Links: p.relayed,
		SHA256: p.body.sum, Size: int64(len(p.body.bytes)), Body: p.body.bytes,
	}
	if p.plain {
		return h.decide(ctx, p)
	}
	doc, err := validate.Document(p.body.bytes, h.o.Clock.Latest())
	if err != nil {
		return err
	}
	p.entry.Kind = doc.Kind
	p.entry.Counts = journal.Counts{
		Created: count(doc.Counts.Created), Updated: count(doc.Counts.Updated), Deleted: count(doc.Counts.Deleted),
	}
	if doc.Timed() {
		p.entry.From, p.entry.Until = doc.From, doc.Until
	}
	return h.decide(ctx, p)
}

// decide asks validate.Continuity about the topic's present head. A refusal counts
// if the head is still the same after it: another publish may come between the
// questions to the store, or a failover, after which the answers are of two stores.
func (h *Handler) decide(ctx context.Context, p *publication) error {
	head, err := h.o.Journal.Head(ctx, p.topic)
	for range maxAppends {
		if err != nil {
			return fmt.Errorf("reading the head of the topic: %w", err)
		}
		p.head = head
		refused := h.compare(ctx, p)
		if refused == nil {
			return nil
		}
		if head, err = h.o.Journal.Head(ctx, p.topic); err == nil && head.Version == p.head.Version {
			return refused
		}
	}
	return busyTopic()
}

// compare decides about p by its head.
func (h *Handler) compare(ctx context.Context, p *publication) error {
	var known *journal.Interval
	if p.entry.Timed() {
		i, err := h.o.Journal.Interval(ctx, p.topic, p.entry.From, p.entry.Until)
		switch {
		case err == nil:
			known = &i
		case !errors.Is(err, journal.ErrNotFound):
			return fmt.Errorf("looking for the interval: %w", err)
		}
	}
	if p.fetched && p.plain && p.head.Version != p.since {
		return errOvertaken
	}
	p.decision = validate.Continuity(p.head, known, p.entry, h.o.AcceptGaps)
	return discontinuity(p.decision, &p.entry)
}

// errOvertaken says that the journal of a topic went on while its content was
// fetched: what was fetched may be older than what is there, as where another hub
// took the partition over meanwhile.
var errOvertaken = errors.New("the topic's journal went on while the topic was fetched")

// discontinuity is the refusal that a decision amounts to; nil where it is none.
func discontinuity(d validate.Decision, e *journal.Entry) error {
	interval := "The interval from " + instant(e.From) + " until " + instant(e.Until)
	expected := "the next notification has to start at " + instant(d.ExpectedFrom)
	if d.ExpectedFrom.IsZero() {
		expected = "the next notification may start anywhere"
	}
	var r *refusal
	switch d.Verdict {
	case validate.Append, validate.Duplicate:
		return nil
	case validate.Conflict:
		r = refuse(conflict, "%s was published before with other content (notification %s); %s.", interval, d.ID, expected)
	case validate.Gap:
		r = refuse(gap, "%s leaves a gap; %s. Publish what is missing first, in order.", interval, expected)
	case validate.Overlap:
		r = refuse(overlap, "%s overlaps what was published before; %s.", interval, expected)
	default:
		r = refuse(otherKind, "The topic carries %s, and this is %s; publish it to a topic of its own (HUB-57).", carried(d.Kind), carried(e.Kind))
		r.rule = "HUB-57"
		return r
	}
	if !d.ExpectedFrom.IsZero() && !e.Until.After(d.ExpectedFrom) {
		r.detail += " Its until has to be later than that, too; it may have fractions of a second."
	}
	r.expectedFrom, r.gap = d.ExpectedFrom, d.Gap
	return r
}

// carried says for a person what a topic of a kind carries.
func carried(k journal.Kind) string {
	if k == journal.KindContent {
		return "plain content"
	}
	return string(k) + " notifications"
}

// authorise is the fourth stage: what the topic itself says. A duplicate went
// through it when it came first, and nothing will be stored for it; what was
// fetched comes from the topic.
func (h *Handler) authorise(ctx context.Context, p *publication) error {
	if p.fetched || p.decision.Verdict == validate.Duplicate {
		return nil
	}
	ctx = asking(ctx, egress.RequesterID(p.network), p.topic, p.head, p.publisher)
	if err := h.o.Topics.Check(ctx, p.topic); err != nil {
		return err
	}
	if !p.byContent {
		return nil
	}
	return h.o.Topics.Content(ctx, p.topic, p.location, p.body.bytes)
}

// maxAppends is how often a head may move away under a publish before it is told
// to come again.
const maxAppends = 16

func busyTopic() error {
	return refuse(busy, "Too many notifications for this topic come in at once. Try again in a second.").retryAfter(time.Second)
}

// append is the last stage: compare and set on the head that was decided about,
// and decide anew when it has moved (invariant 2).
func (h *Handler) append(ctx context.Context, p *publication) error {
	for range maxAppends {
		if p.decision.Verdict == validate.Duplicate {
			p.accept(p.decision.ID, p.decision.Position, true)
			return nil
		}
		now := h.o.Clock.Latest() // retention counts from here
		e := p.entry
		if missing := p.decision.Gap; missing != nil {
			recorded := *missing
			recorded.At, recorded.Position, recorded.Seq = now, p.head.Last.Position, p.head.Last.Seq
			e.Gap = &recorded
		}
		start := time.Now()
		stored, err := h.o.Journal.Append(ctx, now, p.topic, e, p.head.Version)
		p.stored = Span{Start: start, Duration: time.Since(start)}
		if err == nil {
			if stored.Gap != nil {
				p.gap = *stored.Gap
			}
			p.accept(stored.ID, stored.Position, false)
			return nil
		}
		if !errors.Is(err, journal.ErrHeadMoved) {
			return fmt.Errorf("appending to the journal: %w", err)
		}
		if err := h.decide(ctx, p); err != nil {
			return err
		}
	}
	return busyTopic()
}

func (p *publication) accept(id uuid.UUID, at journal.Position, duplicate bool) {
	p.id = id
	p.accepted = accepted{
		ID: id.String(), Topic: p.topic, From: instant(p.entry.From), Until: instant(p.entry.Until),
		Position: fmt.Sprintf("%016x", uint64(at)), Duplicate: duplicate,
	}
}

func count(n int) uint32 {
	return uint32(min(max(n, 0), math.MaxUint32))
}
