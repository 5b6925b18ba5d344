package publisher

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
)

// Change is one change of a resource, or of a document for Framework.
type Change struct {
	// Seq, if not zero, is the caller's number of the change. The numbers rise. If Seq is
	// not above Recorded, the change is skipped. So the caller may repeat changes after a
	// crash.
	Seq uint64
	// At is when the change was detected; zero: now. Times strictly rise: if At is not
	// later than the change before and the last interval, it becomes the next instant
	// after them.
	At time.Time
	// Entry says what changed: Loc and Change at least, and Capability for
	// Framework. Datetime is set to At. Of a deletion, Hash, Length, Type and
	// Encoding are left out (DOC-17).
	Entry resourcesync.Entry
}

// tick is the step between times that the publisher chooses. Many readers know no finer
// one.
const tick = time.Microsecond

// Record records changes, in this order. When it returns nil, they are on disk and will be
// published. After an error, none of them is; after an error of the disk, they may be. The
// error about an entry that breaks a rule wraps a *resourcesync.Error. Concurrent calls
// share one write.
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
	p.changed.Broadcast()
	return nil
}

// last is the time that the next change has to be later than.
func (s *outboxState) last() time.Time {
	if s.Begun {
		return clock.Later(s.Last, s.Until.Add(-1))
	}
	return s.Last
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
	if !isStorable(at) {
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

// enqueue puts changes into the queue. It composes a change again if others came in between
// and its time is no longer later than theirs.
func (p *Publisher) enqueue(tx *boltfile.Tx, s *outboxState, changes []Change, composed []queued) error {
	if err := p.full(s); err != nil && len(changes) > 0 {
		return err
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
		if s.Last = q.at; c.Seq > 0 {
			s.Recorded, s.RecordedAt = c.Seq, c.At.UTC()
		}
		if !s.Begun && q.at.Before(s.Until) {
			s.Until = q.at
		}
	}
	return nil
}

// Full returns an error that wraps ErrFull if Record would refuse changes; nil: it would not.
func (p *Publisher) Full() error {
	now := p.box.outboxState()
	return p.full(&now)
}

func (p *Publisher) full(s *outboxState) error {
	if most := p.o.MaxStored; s.stored()-s.newest >= most {
		return fmt.Errorf("%w: it has %d of %d bytes (MaxStored); look at the status of the hubs", ErrFull, s.stored(), most)
	}
	return nil
}

// Recorded is the highest Seq that was recorded; 0: none was.
func (p *Publisher) Recorded() uint64 { return p.box.outboxState().Recorded }

// RecordedAt is Change.At of the change with that Seq. A caller whose log has another time at this
// number lost the log, and put an older one in its place. Zero: the time is not known.
func (p *Publisher) RecordedAt() time.Time { return p.box.outboxState().RecordedAt }
