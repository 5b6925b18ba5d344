package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// slice is the part of the queue that goes into one interval.
type slice struct {
	keys  [][]byte
	text  []byte
	bytes int64     // that it has in the queue
	until time.Time // after its last entry
	above bool      // all of them are
}

// limits are how much an interval may hold: what was asked for, and what each hub
// is known to take.
func (p *Publisher) limits() (entries int, bytes int64) {
	bytes = p.o.MaxBytes
	for _, s := range p.senders {
		if refused := s.cursor().Refused; refused > 0 {
			bytes = min(bytes, refused-1)
		}
	}
	return p.o.MaxEntries, bytes
}

// nextSlice reads the beginning of the queue: entries before the end, if there is
// one, as many as an interval holds and one at least.
func (p *Publisher) nextSlice(tx *boltfile.Tx, end time.Time) (s slice, err error) {
	most, room := p.limits()
	room -= p.frameSize
	s.above = true
	c := tx.Bucket(bucketQueue).Cursor()
	for k, v := c.First(); k != nil && len(s.keys) < most; k, v = c.Next() {
		q, err := unpackQueued(v)
		if err != nil {
			return s, err
		}
		if len(s.keys) > 0 && int64(len(s.text)+len(q.text)) > room || !end.IsZero() && !q.at.Before(end) {
			break
		}
		s.keys = append(s.keys, append([]byte(nil), k...))
		s.text = append(s.text, q.text...)
		s.bytes += int64(len(v))
		s.until = q.at.Add(1)
		s.above = s.above && q.above
	}
	return s, nil
}

// cut makes one interval of the beginning of the queue. It ends right after its
// last change, between two distinct instants; where end is given and the queue has
// nothing before it, there, and is empty. It returns false where there was nothing
// to cut. It is for one caller at a time (cutting).
func (p *Publisher) cut(ctx context.Context, end time.Time) (bool, error) {
	var s slice
	from := p.box.outboxState().Until
	if err := p.box.view(func(tx *boltfile.Tx) (err error) {
		s, err = p.nextSlice(tx, end)
		return err
	}); err != nil {
		return false, err
	}
	if len(s.keys) == 0 {
		if end.IsZero() || !end.After(from) {
			return false, nil
		}
		s.until, s.above = end, false
	}
	body, err := p.o.notification(from, s.until, s.above, s.text)
	if err != nil {
		return false, err
	}
	is := []interval{{From: from, Until: s.until, Cut: time.Now(), Entries: len(s.keys)}}
	err = p.box.keep(context.WithoutCancel(ctx), is, [][]byte{body}, func(tx *boltfile.Tx, now *outboxState) error {
		if err := s.stillThere(tx, now, from); err != nil {
			return err
		}
		for _, k := range s.keys {
			if err := tx.Bucket(bucketQueue).Delete(k); err != nil {
				return err
			}
		}
		now.queued -= len(s.keys)
		now.queuedBytes -= s.bytes
		now.Until, now.Begun = s.until, true
		return nil
	})
	if errors.Is(err, errRaced) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cutting an interval: %w", err)
	}
	i := is[0]
	p.o.Log.Info("an interval was cut", slog.String("event", "interval_cut"), slog.String("topic", p.o.Topic),
		slog.Time("from", i.From), slog.Time("until", i.Until), slog.Int("entries", i.Entries), slog.Int64("bytes", i.Size))
	p.wakeSenders()
	return true, nil
}

// errRaced says that a change came in between, which an empty interval would have
// passed over.
var errRaced = errors.New("the outbox has moved on")

// stillThere refuses to cut where from is not where the last interval ended, or
// where an empty interval would pass over a change.
func (s *slice) stillThere(tx *boltfile.Tx, now *outboxState, from time.Time) error {
	if !now.Until.Equal(from) {
		return errRaced
	}
	k, v := tx.Bucket(bucketQueue).Cursor().First()
	if len(s.keys) > 0 || k == nil {
		return nil
	}
	q, err := unpackQueued(v)
	if err == nil && q.at.Before(s.until) {
		err = errRaced
	}
	return err
}
