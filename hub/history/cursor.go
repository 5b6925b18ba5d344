package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/journal"
)

// Gap is an interval whose notifications a reader does not receive.
type Gap struct {
	// From and Until are zero where they are not known. If Until is earlier than From, the
	// topic was reset, and its time began anew at Until.
	From, Until time.Time
	Reason      string // as in journal.Gap
}

// item is what a cursor finds next: a gap, or an entry where that is nil.
type item struct {
	gap   *Gap
	entry journal.Entry
}

// cursor reads the journal of a topic. Everything that is no entry becomes a gap: a cursor
// never fails because of what is missing.
type cursor struct {
	journal journal.Reader
	topic   string
	at      journal.Anchor // of the last entry that was read
	// skipped is a gap whose end is known from the next entry.
	skipped *Gap
}

// read appends what comes next to items, up to max entries, without their bodies. Nothing and no error: the cursor
// is at the head.
func (c *cursor) read(ctx context.Context, items []item, max int) ([]item, error) {
	for {
		entries, err := c.journal.Read(ctx, c.topic, c.at, max, 0)
		switch {
		case errors.Is(err, journal.ErrRolledBack):
			gap, err := c.goBack(ctx)
			if err != nil {
				return nil, err
			}
			if gap != nil {
				items = append(items, item{gap: gap})
			}
		case err != nil:
			if err := c.skip(err); err != nil {
				return nil, err
			}
		default:
			items = slices.Grow(items, len(entries))
			for i := range entries {
				if gap := c.before(&entries[i]); gap != nil {
					items = append(items, item{gap: gap})
				}
				items = append(items, item{entry: entries[i]})
				c.at = entries[i].Anchor()
			}
			if len(entries) == 0 && c.skipped != nil { // nothing is behind it yet
				items = append(items, item{gap: c.skipped})
				c.skipped = nil
			}
			return items, nil
		}
	}
}

// skip moves on behind entries that were trimmed or are damaged. Any other error is returned. If no
// entry is missing in between, as where a journal that was lost goes on (journal.Head.Regain), there is no gap.
func (c *cursor) skip(err error) error {
	next, ok := journal.ReadOn(err)
	if !ok {
		return fmt.Errorf("reading the journal: %w", err)
	}
	reason, again := journal.GapDamaged, false
	var trimmed *journal.TrimmedError
	if errors.As(err, &trimmed) {
		reason, again = trimmed.Reason, trimmed.Again
	}
	if c.skipped == nil && !again && (next.Seq > c.at.Seq || !next.Until.Equal(c.at.Until)) {
		c.skipped = &Gap{From: c.at.Until, Reason: reason}
	}
	if c.skipped != nil && !again {
		c.skipped.Until = next.Until
	}
	c.at = next
	return nil
}

// before returns the gap between the last entry and e, which follows it. Nil: there is none.
func (c *cursor) before(e *journal.Entry) *Gap {
	gap := c.skipped
	c.skipped = nil
	switch {
	case gap != nil && e.Timed():
		gap.Until = e.From
	case gap != nil || !e.Timed() || c.at.Until.IsZero() || c.at.Until.Equal(e.From):
	case c.at.Until.Before(e.From):
		gap = &Gap{c.at.Until, e.From, journal.GapSource}
	case e.Seq <= c.at.Seq: // the journal began anew further back since the reader came to where it had begun
		gap = &Gap{e.From, c.at.Until, journal.GapRolledBack}
	default:
		gap = &Gap{c.at.Until, e.From, journal.GapReset}
	}
	return gap
}

// goBack moves the cursor to where the journal goes on, after the journal lost the entry of the cursor (invariant
// 5). Entries that follow may come again, and none is skipped. There is no gap if the cursor was not behind
// any entry yet, but where the time of the topic begins.
func (c *cursor) goBack(ctx context.Context) (*Gap, error) {
	head, err := c.journal.Head(ctx, c.topic)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	to, ok := head.BackFrom(c.at.Position)
	if !ok || to.Position >= c.at.Position {
		to = head.Trimmed
	}
	var gap *Gap
	if to.Until.IsZero() || !to.Until.Equal(c.at.Until) {
		gap = &Gap{to.Until, c.at.Until, journal.GapRolledBack}
	}
	c.at = to
	return gap, nil
}
