package admin

import (
	"context"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// few is how many notifications a step backwards reads at least, if there are so many.
const few = 64

// backwards yields the retained notifications of a topic before a position, the newest first. It
// skips those that cannot be read. It has at most batch of them in memory, without bodies.
func (a *notificationCalls) backwards(ctx context.Context, head journal.Head, before journal.Position) iter.Seq2[Notification, error] {
	return func(yield func(Notification, error) bool) {
		w := window{topics: a.Topics, head: head, span: 1 << 30} // about a second
		for {
			entries, err := w.last(ctx, before)
			if err != nil {
				yield(Notification{}, err)
				return
			}
			for i := range slices.Backward(entries) {
				before = entries[i].Position
				if !yield(notification(&entries[i]), nil) {
					return
				}
			}
			if len(entries) == 0 {
				return
			}
		}
	}
}

// beforeNotification returns the position before which a page begins that has the newest first.
func (a *notificationCalls) beforeNotification(ctx context.Context, p pageRequest, head journal.Head) (journal.Position, error) {
	id, err := p.afterID()
	if err != nil || id == uuid.Nil {
		return head.Last.Position + 1, err
	}
	after, err := a.afterNotification(ctx, p, head) // after a trim this is the beginning, and nothing is before it
	return after.Position, err
}

// window finds the entries before a position in a journal, which is read forwards only. Positions
// are times, in nanoseconds. So it reads the entries of a span of time, a longer one if these are
// few, and a shorter one if they do not fit into a page.
type window struct {
	topics Topics
	head   journal.Head
	span   journal.Position // the one that was right the last time
}

// last returns up to batch entries directly before a position, oldest first. Fewer than few: there
// are no others. Each look halves or multiplies the span, so there are at most about a hundred.
func (w *window) last(ctx context.Context, before journal.Position) ([]journal.Entry, error) {
	var short, long journal.Position // spans with too few entries and with too many; 0: not known
	for {
		from, all := journal.Anchor{Position: before - min(w.span, before)}, false
		if from.Position <= w.head.Trimmed.Position {
			from, all = w.head.Trimmed, true
		}
		entries, whole, err := w.read(ctx, from, before)
		switch {
		case err != nil:
			return nil, err
		case whole && (all || len(entries) >= few):
			return entries, nil
		case whole:
			short = w.span
		default:
			long = min(w.span, before)
		}
		if w.span = short + (long-short)/2; long == 0 {
			w.span = short * 8
		}
	}
}

// read returns the entries after an anchor and before a position, batch of them at most. Whole: it
// did not leave out any.
func (w *window) read(ctx context.Context, from journal.Anchor, before journal.Position) (found []journal.Entry, whole bool, err error) {
	for {
		entries, err := w.topics.Read(ctx, w.head.Topic, from, batch-len(found)+1, 0)
		if next, ok := journal.ReadOn(err); ok {
			from = next // trimmed meanwhile, or damaged
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, e := range entries {
			if e.Position >= before {
				return found, true, nil
			}
			if len(found) == batch {
				return nil, false, nil
			}
			found, from = append(found, e), e.Anchor()
		}
		if len(entries) == 0 {
			return found, true, nil
		}
	}
}
