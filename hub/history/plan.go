package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// The errors of a question. None of them is about the store.
var (
	// ErrNoChanges: the topic carries no change notifications.
	ErrNoChanges = errors.New("the topic carries no change notifications")
	// ErrGone: what was asked for was trimmed.
	ErrGone = errors.New("the hub no longer has it")
)

// UnknownError says that the hub has nothing of a topic, or that the reader may not see it. With an ID it
// says that the hub has no notification with that id in the topic.
type UnknownError struct {
	Topic string
	ID    uuid.UUID
}

func (e *UnknownError) Error() string {
	if e.ID != uuid.Nil {
		return fmt.Sprintf("the hub has no notification %s of the topic %.200q", e.ID, e.Topic)
	}
	return fmt.Sprintf("the hub has nothing of the topic %.200q", e.Topic)
}

// TrimmedError says that the changes from an instant on are no longer there.
type TrimmedError struct{ Earliest time.Time }

func (e *TrimmedError) Error() string {
	return "the journal begins at " + e.Earliest.UTC().Format(time.RFC3339Nano)
}

// FutureError says that an instant is later than the end of the newest notification.
type FutureError struct{ Until time.Time }

func (e *FutureError) Error() string {
	return "the newest notification ends at " + e.Until.UTC().Format(time.RFC3339Nano)
}

// scanPage is how many entries, without their bodies, are read at a time.
const scanPage = 1000

// part is a run of notifications that one document holds.
type part struct {
	after, last journal.Anchor // the anchors before its first entry, and of its last one
	from, until time.Time
	changes     int64
	bytes       int64 // of the notifications as they were published
}

// plan describes an answer. It has parts in order; no part: nothing is new.
type plan struct {
	head  journal.Head
	parts []part
	// before are the gaps before the answer; after is the gap at which it ends.
	before []*Gap
	after  *Gap
	// more: another part follows, which the index of the answer names.
	more bool
	// end is the anchor of the last notification. Without any it is where the answer begins: nothing is new after it.
	end journal.Anchor
}

// open reports whether the answer goes to the head: the topic goes on.
func (p *plan) open() bool { return p.after == nil && !p.more }

// first removes all parts except the first.
func (p *plan) first() {
	if len(p.parts) > 1 {
		p.parts, p.end, p.after, p.more = p.parts[:1], p.parts[0].last, nil, true
	}
}

// gaps names all gaps.
func (p *plan) gaps() (all []string) {
	for _, g := range append(p.before[:len(p.before):len(p.before)], p.after) {
		if g != nil {
			all = append(all, g.String())
		}
	}
	return all
}

// from is the beginning of the first interval.
func (p *plan) from() time.Time {
	if len(p.parts) == 0 {
		return p.end.Until
	}
	return p.parts[0].from
}

// bytes is the size of all notifications.
func (p *plan) bytes() (n int64) {
	for i := range p.parts {
		n += p.parts[i].bytes
	}
	return n
}

// planner makes the plan of an answer.
type planner struct {
	limits  limits
	damaged *damaged
	cursor  cursor
	plan    plan
}

// limits are those of a document.
type limits struct{ changes, bytes int64 }

// since plans the answer with all notifications that end after an instant.
func (p *planner) since(ctx context.Context, since time.Time) error {
	head := &p.plan.head
	p.cursor.at, p.plan.end = head.Trimmed, head.Last
	switch {
	case since.After(head.Until):
		if head.Epoch == 0 {
			return &FutureError{head.Until}
		}
	case since.Equal(head.Until):
		return nil
	case head.Last.Position == head.Trimmed.Position:
		return &TrimmedError{head.Until}
	}
	p.cursor.at = head.Before(since)
	first, begins, err := p.find(ctx, since)
	switch {
	case err != nil:
		return err
	case first == nil && since.Before(head.Until): // it was there when the head was read
		return &TrimmedError{head.Until}
	case first == nil:
		return &FutureError{head.Until}
	case first.entry.From.After(since) && begins:
		return &TrimmedError{first.entry.From}
	case first.entry.From.After(since):
		if p.plan.before = first.gaps; len(first.gaps) == 0 {
			p.plan.before = []*Gap{{From: since, Until: first.entry.From, Reason: journal.GapSource}}
		}
	}
	p.cursor.at, p.cursor.skipped = first.entry.Predecessor(), nil
	return p.follow(ctx, journal.Anchor{})
}

// found is an entry, and the gaps right before it.
type found struct {
	gaps  []*Gap
	entry journal.Entry
}

// find returns the first entry that ends after since, with the gaps before it. A reset begins another run of
// time; find returns the entry of the newest run that has the instant. Nil: there is no such entry.
// Begins says that the journal has nothing before it.
func (p *planner) find(ctx context.Context, since time.Time) (first *found, begins bool, err error) {
	var last journal.Entry
	whole := false // whether the oldest entry was read
	var gaps []*Gap
	searching := true
	for {
		items, err := p.cursor.read(ctx, nil, scanPage)
		if err != nil || len(items) == 0 {
			return first, begins, err
		}
		for _, it := range items {
			e := it.entry
			if it.gap != nil {
				gaps = append(gaps, it.gap)
				continue
			}
			whole = whole || e.Seq == p.plan.head.Trimmed.Seq+1
			switch {
			case !e.Timed():
				continue
			case last.Timed() && e.From.Before(last.Until) && !since.Before(e.From):
				searching = true // a newer run has it, unless that ends before
			}
			if searching && e.Until.After(since) {
				first, searching = &found{gaps, e}, false
				begins = whole && !last.Timed()
				if p.plan.head.Epoch == 0 {
					return first, begins, nil // there is one run
				}
			}
			last, gaps = e, nil
		}
	}
}

// follow plans from the cursor on, to an anchor (zero: to the head), or to the next gap.
func (p *planner) follow(ctx context.Context, to journal.Anchor) error {
	for {
		items, err := p.cursor.read(ctx, nil, scanPage)
		if err != nil || len(items) == 0 {
			if len(p.plan.parts) == 0 && to.Position == 0 {
				p.plan.end = p.cursor.at // behind the gaps, so that the reader goes on from there
			}
			return err
		}
		for i := range items {
			it := &items[i]
			if it.gap == nil && p.damaged.has(it.entry.Anchor()) {
				p.cursor.skipped = &Gap{From: it.entry.From, Until: it.entry.Until, Reason: journal.GapDamaged}
				it = &item{gap: p.cursor.skipped}
				p.cursor.skipped = nil
			}
			switch {
			case it.gap != nil && len(p.plan.parts) > 0:
				p.plan.after = it.gap
				return nil
			case it.gap != nil:
				p.plan.before = append(p.plan.before, it.gap)
			case it.entry.Kind == journal.KindChange && it.entry.Timed():
				p.add(&it.entry)
			}
			if to.Position != 0 && it.gap == nil && it.entry.Position >= to.Position {
				return nil
			}
		}
	}
}

// add adds a notification to the last part, or begins another part with it.
func (p *planner) add(e *journal.Entry) {
	changes := int64(e.Counts.Created) + int64(e.Counts.Updated) + int64(e.Counts.Deleted)
	n := len(p.plan.parts)
	if n == 0 || p.plan.parts[n-1].changes+changes > p.limits.changes || p.plan.parts[n-1].bytes+e.Size > p.limits.bytes {
		after := e.Predecessor()
		if n > 0 {
			after = p.plan.parts[n-1].last
		}
		p.plan.parts = append(p.plan.parts, part{after: after, from: e.From})
		n++
	}
	last := &p.plan.parts[n-1]
	last.last, last.until = e.Anchor(), e.Until
	last.changes += changes
	last.bytes += e.Size
	p.plan.end = last.last
}

// after plans the answer behind an anchor that this hub, or another one, gave out.
func (p *planner) after(ctx context.Context, after, to journal.Anchor) error {
	p.cursor.at, p.plan.end = after, after
	if to.Position == 0 {
		return p.follow(ctx, to)
	}
	// A closed part: what it was when its address was given out, or nothing.
	_, err := p.cursor.journal.Read(ctx, p.cursor.topic, after, 1, 0)
	_, gone := journal.ReadOn(err)
	switch {
	case gone, errors.Is(err, journal.ErrRolledBack):
		return ErrGone
	case err != nil:
		return fmt.Errorf("reading the journal: %w", err)
	}
	if err := p.follow(ctx, to); err != nil {
		return err
	}
	if len(p.plan.before) > 0 || p.plan.after != nil || p.plan.end.Position != to.Position || p.plan.end.Nonce != to.Nonce {
		return ErrGone
	}
	return nil
}
