package publisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// beginningAt returns the intervals that begin at from, the shortest first. A
// zero from stands for the beginning of the oldest.
func beginningAt(tx *boltfile.Tx, from time.Time) ([]interval, error) {
	var found []interval
	c := tx.Bucket(bucketIntervals).Cursor()
	prefix := instantKey(from)
	k, v := c.Seek(prefix)
	if from.IsZero() && k != nil {
		prefix = bytes.Clone(k[:8])
	}
	for ; bytes.HasPrefix(k, prefix) && k != nil; k, v = c.Next() {
		i, err := unpackInterval(k, v)
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	return found, nil
}

// namedInterval returns the interval whose copy has this name.
func namedInterval(tx *boltfile.Tx, from time.Time, name string) (interval, bool, error) {
	found, err := beginningAt(tx, from)
	for _, i := range found {
		if i.name() == name {
			return i, true, nil
		}
	}
	return interval{}, false, err
}

// lastInterval returns the newest interval.
func lastInterval(tx *boltfile.Tx) (interval, bool, error) {
	k, v := tx.Bucket(bucketIntervals).Cursor().Last()
	if k == nil {
		return interval{}, false, nil
	}
	i, err := unpackInterval(k, v)
	return i, err == nil, err
}

// body returns the bytes of an interval.
func (x *outbox) body(i interval) ([]byte, error) {
	var body []byte
	if i.InFile {
		f, err := x.files.open(i)
		if err != nil {
			return nil, fmt.Errorf("reading a notification: %w", err)
		}
		defer func() { _ = f.Close() }()
		if body, err = io.ReadAll(f); err != nil {
			return nil, fmt.Errorf("reading a notification: %w", err)
		}
	} else if err := x.view(func(tx *boltfile.Tx) error {
		body = bytes.Clone(tx.Bucket(bucketBodies).Get(i.key()))
		return nil
	}); err != nil {
		return nil, err
	}
	if sha256.Sum256(body) != i.SHA256 {
		return nil, fmt.Errorf("the notification from %s has other bytes than it was cut with: %w", i.From.Format(time.RFC3339Nano), errDamaged)
	}
	return body, nil
}

// keep stores intervals and their bytes durably, and runs with, which may be nil,
// in the same transaction. Each interval's Size, SHA256 and InFile are set.
func (x *outbox) keep(ctx context.Context, is []interval, bodies [][]byte, with func(tx *boltfile.Tx, s *outboxState) error) error {
	for n := range is {
		i := &is[n]
		i.Size, i.SHA256, i.InFile = int64(len(bodies[n])), sha256.Sum256(bodies[n]), len(bodies[n]) > inlineMax
		if !i.InFile {
			continue
		}
		if err := x.files.write(*i, bodies[n]); err != nil {
			return err
		}
	}
	return x.do(ctx, func(tx *boltfile.Tx, s *outboxState) error {
		if with != nil {
			if err := with(tx, s); err != nil {
				return err
			}
		}
		for n, i := range is {
			if tx.Bucket(bucketIntervals).Get(i.key()) != nil {
				continue
			}
			if !i.InFile {
				if err := tx.Bucket(bucketBodies).Put(i.key(), bodies[n]); err != nil {
					return err
				}
			}
			if err := tx.Bucket(bucketIntervals).Put(i.key(), i.pack()); err != nil {
				return err
			}
			s.kept++
			s.keptBytes += i.Size
		}
		return nil
	})
}

// recordDelivered stores which intervals every hub has now: those that end by least.
func recordDelivered(tx *boltfile.Tx, s *outboxState, least, now time.Time) error {
	c := tx.Bucket(bucketIntervals).Cursor()
	delivered := time.Time{}
	var done []interval
	for k, v := c.Seek(instantKey(s.Delivered)); k != nil && instantOf(k).Before(least); k, v = c.Next() {
		i, err := unpackInterval(k, v)
		switch {
		case err != nil:
			return err
		case i.Until.After(least):
			if delivered.IsZero() {
				delivered = i.From
			}
		case i.Done.IsZero():
			i.Done = now
			done = append(done, i)
		}
	}
	if delivered.IsZero() {
		delivered = least
	}
	if len(done) == 0 && !delivered.After(s.Delivered) {
		return nil
	}
	s.Delivered = latest(s.Delivered, delivered)
	for _, i := range done { // not under the cursor
		if err := tx.Bucket(bucketIntervals).Put(i.key(), i.pack()); err != nil {
			return err
		}
	}
	return nil
}

// maxTrim is how many intervals one transaction takes away.
const maxTrim = 1000

// trim takes the oldest intervals away that end by least, which every hub has:
// those that were acknowledged before, and as many more as it takes to be within
// most bytes. It returns how many, and of these the last that went before its
// time.
func (x *outbox) trim(ctx context.Context, least, before time.Time, most int64) (n int, early interval, err error) {
	var gone []interval
	err = x.do(ctx, func(tx *boltfile.Tx, s *outboxState) error {
		gone = gone[:0]
		stored := s.stored()
		last, _, err := lastInterval(tx) // the topic URI serves it
		if err != nil {
			return err
		}
		c := tx.Bucket(bucketIntervals).Cursor()
		for k, v := c.First(); k != nil && len(gone) < maxTrim; k, v = c.Next() {
			i, err := unpackInterval(k, v)
			if err != nil {
				return err
			}
			if i.Done.IsZero() || i.Until.After(least) || i.Until.Equal(last.Until) || !i.Done.Before(before) && stored <= most {
				break
			}
			stored -= i.Size
			gone = append(gone, i)
		}
		for _, i := range gone {
			if err := tx.Bucket(bucketIntervals).Delete(i.key()); err != nil {
				return err
			}
			if err := tx.Bucket(bucketBodies).Delete(i.key()); err != nil {
				return err
			}
			s.kept--
			s.keptBytes -= i.Size
		}
		return nil
	})
	if err != nil {
		return 0, early, err
	}
	for _, i := range gone {
		if i.InFile {
			x.files.remove(i)
		}
		if !i.Done.Before(before) {
			early = i
		}
	}
	return len(gone), early, nil
}
