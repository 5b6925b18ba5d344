package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// content is the text of entries as it stands in a notification.
type content struct {
	text  []byte
	above bool // all of them are about documents below the Source Description; there is one
}

func (c *content) add(q queued) {
	c.above = q.above && (c.above || len(c.text) == 0)
	c.text = append(c.text, q.text...)
}

// portion is the beginning of the queue that goes into one interval.
type portion struct {
	content
	keys  [][]byte
	bytes int64     // that it has in the queue
	until time.Time // after its last entry
}

// limits are how much an interval may hold: what Options say, and what each hub is known
// to accept.
func (p *Publisher) limits() (entries int, bytes int64) {
	bytes = p.o.MaxBytes
	for _, s := range p.senders {
		if refused := s.cursor().Refused; refused > 0 {
			bytes = min(bytes, refused-1)
		}
	}
	return p.o.MaxEntries, bytes
}

// nextPortion reads the beginning of the queue: as many entries before the end, if there
// is one, as an interval can have, and at least one.
func (p *Publisher) nextPortion(tx *boltfile.Tx, end time.Time) (s portion) {
	most, room := p.limits()
	room -= p.frameSize
	queue := tx.Bucket(bucketQueue)
	for k, v := range queue.From(nil) {
		q := readQueued(queue, k, v)
		tooMany := len(s.keys) == most || len(s.keys) > 0 && int64(len(s.text)+len(q.text)) > room
		if tooMany || !end.IsZero() && !q.at.Before(end) {
			break
		}
		s.keys = append(s.keys, bytes.Clone(k))
		s.add(q)
		s.bytes += int64(len(v))
		s.until = q.at.Add(1)
	}
	return s
}

// cut makes one interval of the beginning of the queue. It ends right after its last
// change, between two distinct instants. If end is given and the queue has nothing before
// it, the interval is empty and ends there. It returns false if there was nothing to cut.
// The caller has locked cutting.
func (p *Publisher) cut(ctx context.Context, end time.Time) (bool, error) {
	from := p.box.outboxState().Until
	s, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) portion { return p.nextPortion(tx, end) })
	if err != nil {
		return false, err
	}
	if len(s.keys) == 0 {
		if !end.After(from) {
			return false, nil
		}
		s.until = end
	}
	body, err := p.o.notification(from, s.until, s.content)
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

// errRaced says that a change came in between, which an empty interval would skip.
var errRaced = errors.New("the outbox has moved on")

// stillThere refuses to cut if the last interval no longer ends at from, or an empty
// interval would skip a change.
func (s *portion) stillThere(tx *boltfile.Tx, now *outboxState, from time.Time) error {
	queue := tx.Bucket(bucketQueue)
	k, v := queue.Cursor().First()
	skips := len(s.keys) == 0 && k != nil && readQueued(queue, k, v).at.Before(s.until)
	if skips || !now.Until.Equal(from) {
		return errRaced
	}
	return nil
}
