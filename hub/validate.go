package hub

import (
	"context"
	"errors"
	"fmt"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// validate is the third stage: the document, and whether it continues the topic.
func (h *Handler) validate(ctx context.Context, p *publication) error {
	p.entry = journal.Entry{
		Kind: journal.KindContent, MediaType: p.mediaType, Links: p.relayed,
		SHA256: p.body.sum, Size: int64(len(p.body.bytes)), Body: p.body.bytes,
	}
	if p.plain {
		return h.continues(ctx, p)
	}
	doc, err := validate.Document(p.body.bytes, h.o.Clock.Latest())
	if err != nil {
		return err
	}
	p.entry.Kind = doc.Kind
	p.entry.Counts = journal.Counts(doc.Counts)
	if doc.Timed() {
		p.entry.From, p.entry.Until = doc.From, doc.Until
	}
	return h.continues(ctx, p)
}

// continues checks that the notification continues the topic as its head is now, or was when this hub
// stored it. A refusal counts only if the head is still the same afterwards: between the reads another
// publish may have arrived, or a failover, so that the answers came from two stores. The same is true of a
// duplicate that was found by a remembered head.
func (h *Handler) continues(ctx context.Context, p *publication) error {
	var err error
	head, recalled := h.heads.recall(p.topic)
	if !recalled {
		head, err = h.o.Journal.Head(ctx, p.topic)
	}
	for range maxAppends {
		if err != nil {
			return fmt.Errorf("reading the head of the topic: %w", err)
		}
		p.head = head
		refused, failed := h.continuesHead(ctx, p)
		if failed != nil {
			return failed
		}
		if refused == nil && !(recalled && p.decision.Result == validate.Duplicate) {
			return nil
		}
		recalled = false
		if head, err = h.o.Journal.Head(ctx, p.topic); err == nil && head.Version == p.head.Version {
			return refused
		}
	}
	return busyTopic()
}

// continuesHead checks that the notification continues the head that p has. Failed is an error of the store.
func (h *Handler) continuesHead(ctx context.Context, p *publication) (refused, failed error) {
	var known *journal.Interval
	if p.entry.Timed() && !validate.Follows(p.head, p.entry) {
		i, err := h.o.Journal.Interval(ctx, p.topic, p.entry.From, p.entry.Until)
		switch {
		case err == nil:
			known = &i
		case !errors.Is(err, journal.ErrNotFound):
			return nil, fmt.Errorf("looking for the interval: %w", err)
		}
	}
	if p.fetched && p.plain && p.head.Version != p.since {
		return errOvertaken, nil
	}
	p.decision = validate.Continuity(p.head, known, p.entry, h.o.AcceptGaps)
	return discontinuity(p.decision, &p.entry), nil
}

// errOvertaken says that the journal of a topic moved while its content was fetched. Then
// the content may be older than the newest entry, for example because another hub took
// over the partition.
var errOvertaken = errors.New("the topic's journal moved while the topic was fetched")

// discontinuity is the refusal for a decision, or nil.
func discontinuity(d validate.Decision, e *journal.Entry) error {
	interval := "The interval from " + instant(e.From) + " until " + instant(e.Until)
	expected := "the next notification has to start at " + instant(d.ExpectedFrom)
	if d.ExpectedFrom.IsZero() {
		expected = "the next notification may start anywhere"
	}
	var r *refusal
	switch d.Result {
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
		r.detail += " Its until has to be later than that too; it may have fractions of a second."
	}
	r.expectedFrom, r.gap = d.ExpectedFrom, d.Gap
	return r
}

// carried describes the kind of a topic.
func carried(k journal.Kind) string {
	if k == journal.KindContent {
		return "plain content"
	}
	return string(k) + " notifications"
}
