package publisher

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// Change is one change of a resource, or of a document for Framework.
type Change struct {
	// Seq, where not zero, counts the changes of whoever records them, upwards.
	// One that is not above Recorded was recorded before and is passed over, so
	// that a feeder may repeat itself after a crash.
	Seq uint64
	// At is when the change was detected; zero: now. Where it is not later than
	// that of the change before, or lies in an interval that has been cut, it
	// becomes the earliest instant that does not: times strictly rise.
	At time.Time
	// Entry says what changed: Loc and Change at least, and Capability for
	// Framework. Datetime is set to At. Of a deletion, Hash, Length, Type and
	// Encoding are left out (DOC-17).
	Entry resourcesync.Entry
}

// tick is the step by which times are told apart that are the publisher's own:
// many readers know no finer one.
const tick = time.Microsecond

// Record takes changes, in this order. When it returns nil they are on disk and
// will be published; after an error none of them is, but where the disk failed they
// may be. An entry that breaks a rule is an error that wraps a
// *resourcesync.Error. Calls at the same time share one write.
func (p *Publisher) Record(ctx context.Context, changes ...Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := p.box.outboxState()
	composed := make([]queued, len(changes))
	last := now.last()
	for i, c := range changes {
		if c.Seq > 0 && c.Seq <= now.Recorded {
			continue
		}
		var err error
		if composed[i], err = p.compose(c, &last); err != nil {
			return fmt.Errorf("change %d of %d: %w", i+1, len(changes), err)
		}
	}
	err := p.box.do(ctx, func(tx *boltfile.Tx, s *outboxState) error {
		return p.enqueue(tx, s, changes, composed)
	})
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	p.wakeCutter()
	return nil
}

// last is the time that the next change has to be later than.
func (s *outboxState) last() time.Time {
	if s.Begun {
		return latest(s.Last, s.Until.Add(-1))
	}
	return s.Last
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// compose writes the text of a change with a time after last, which it moves on.
func (p *Publisher) compose(c Change, last *time.Time) (queued, error) {
	at := c.At.UTC()
	switch {
	case c.At.IsZero():
		at = time.Now().UTC().Truncate(tick)
		if !at.After(*last) {
			at = last.Truncate(tick).Add(tick)
		}
	case !at.After(*last):
		at = last.Add(1)
	}
	if at.Before(firstInstant) || !at.Before(lastInstant) {
		return queued{}, fmt.Errorf("%s changed at %s: times have to be from 1970 to 2262", c.Entry.Loc, at.Format(time.RFC3339))
	}
	q, err := composeEntry(p.o.Kind, c.Entry, at)
	if err != nil {
		return q, err
	}
	if size := p.frameSize + int64(len(q.text)); size > p.o.MaxBytes {
		return q, &resourcesync.Error{Kind: resourcesync.OverLimit, Rule: "DOC-60", Msg: fmt.Sprintf(
			"%s alone makes a notification of %d bytes, and it may have %d", c.Entry.Loc, size, p.o.MaxBytes)}
	}
	*last = at
	return q, nil
}

// enqueue puts changes into the queue. Whose time is no longer good, because
// others came in between, is composed anew.
func (p *Publisher) enqueue(tx *boltfile.Tx, s *outboxState, changes []Change, composed []queued) error {
	if most := p.o.MaxStored; s.stored() >= most && len(changes) > 0 {
		return fmt.Errorf("%w: it holds %d of %d bytes (MaxStored); see the status of the hubs", ErrFull, s.stored(), most)
	}
	queue := tx.Bucket(bucketQueue)
	for i, c := range changes {
		if c.Seq > 0 && c.Seq <= s.Recorded {
			continue
		}
		q, last := composed[i], s.last()
		if !q.at.After(last) {
			var err error
			if q, err = p.compose(c, &last); err != nil {
				return err
			}
		}
		n, err := queue.NextSequence()
		if err != nil {
			return err
		}
		packed := q.pack()
		if err := queue.Put(binary.BigEndian.AppendUint64(nil, n), packed); err != nil {
			return err
		}
		if s.queued == 0 {
			s.since = time.Now()
		}
		s.queued++
		s.queuedBytes += int64(len(packed))
		s.Last, s.Recorded = q.at, max(s.Recorded, c.Seq)
		if !s.Begun && q.at.Before(s.Until) {
			s.Until = q.at
		}
	}
	return nil
}

// Recorded is the highest Seq that was recorded; 0: none was.
func (p *Publisher) Recorded() uint64 { return p.box.outboxState().Recorded }
