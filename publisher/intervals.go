package publisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
)

// intervalsFrom goes through the intervals that begin at an instant or later, in the order
// of their keys.
func intervalsFrom(tx *boltfile.Tx, from time.Time) iter.Seq[interval] {
	return func(yield func(interval) bool) {
		bucket := tx.Bucket(bucketIntervals)
		for k, v := range bucket.From(instantKey(from)) {
			if !yield(readInterval(bucket, k, v)) {
				return
			}
		}
	}
}

func readInterval(bucket boltfile.Bucket, k, v []byte) interval {
	i, err := unpackInterval(k, v)
	if err != nil {
		bucket.Refuse(k, err)
	}
	return i
}

// beginningAt returns the intervals that begin at from, the shortest first. A zero from
// stands for the beginning of the oldest.
func beginningAt(tx *boltfile.Tx, from time.Time) (found []interval) {
	for i := range intervalsFrom(tx, from) {
		if len(found) == 0 && from.IsZero() {
			from = i.From
		}
		if !bytes.Equal(instantKey(i.From), instantKey(from)) {
			break
		}
		found = append(found, i)
	}
	return found
}

// following returns the intervals that begin at the watermark of a hub, as beginningAt does. Deleted
// says that there are none although more was cut since. Both come from one reading, so that a cut in
// between does not look like a loss.
func following(tx *boltfile.Tx, watermark time.Time) (found []interval, deleted bool) {
	found = beginningAt(tx, watermark)
	if len(found) > 0 || watermark.IsZero() {
		return found, false
	}
	var s state
	tx.Bucket(bucketMeta).GetJSON(keyState, &s)
	return nil, watermark.Before(s.Until)
}

// namedInterval returns the interval whose copy has this name.
func namedInterval(tx *boltfile.Tx, from time.Time, name string) (interval, bool) {
	found := beginningAt(tx, from)
	n := slices.IndexFunc(found, func(i interval) bool { return i.name() == name })
	if n < 0 {
		return interval{}, false
	}
	return found[n], true
}

// lastInterval returns the newest interval.
func lastInterval(tx *boltfile.Tx) (interval, bool) {
	bucket := tx.Bucket(bucketIntervals)
	k, v := bucket.Cursor().Last()
	if k == nil {
		return interval{}, false
	}
	return readInterval(bucket, k, v), true
}

// errGone says that an interval was deleted after it was found.
var errGone = errors.New("the interval was deleted")

// body returns the bytes of an interval.
func (x *outbox) body(i interval) (body []byte, err error) {
	if i.InFile {
		body, err = os.ReadFile(x.files.path(i))
	} else {
		body, err = boltfile.Read(x.db, func(tx *boltfile.Tx) []byte { return bytes.Clone(tx.Bucket(bucketBodies).Get(i.key())) })
	}
	switch {
	case err != nil:
		return nil, x.whyNot(i, fmt.Errorf("reading a notification: %w", err))
	case sha256.Sum256(body) != i.SHA256:
		return nil, x.whyNot(i, fmt.Errorf("the notification from %s has other bytes than it was cut with: %w", stamp(i.From), errDamaged))
	}
	return body, nil
}

// whyNot returns errGone in place of err if an interval whose bytes were not found was deleted: trim deletes it before
// its file, and together with bytes in the database.
func (x *outbox) whyNot(i interval, err error) error {
	there, failed := boltfile.Read(x.db, func(tx *boltfile.Tx) bool { return tx.Bucket(bucketIntervals).Get(i.key()) != nil })
	if failed == nil && !there {
		return errGone
	}
	return err
}

// keep stores intervals and their bytes durably, and runs with, which may be nil, in the
// same transaction. It sets each interval's Size, SHA256 and InFile.
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
	return x.do(ctx, func(tx *boltfile.Tx, s *outboxState) (err error) {
		if with != nil {
			err = with(tx, s)
		}
		for n, i := range is {
			if err != nil || tx.Bucket(bucketIntervals).Get(i.key()) != nil {
				continue
			}
			if !i.InFile {
				err = tx.Bucket(bucketBodies).Put(i.key(), bodies[n])
			}
			err = errors.Join(err, tx.Bucket(bucketIntervals).Put(i.key(), i.pack()))
			s.kept++
			s.keptBytes += i.Size
			s.newest = i.Size
		}
		return err
	})
}

// leastOf returns the instant up to which every hub has everything. That is true only of the transaction that asks, since a
// hub may go back.
func leastOf(tx *boltfile.Tx, s *outboxState, hubs []*sender) time.Time {
	least := s.Until
	for _, hub := range hubs {
		var m hubCursor
		if tx.Bucket(bucketHubs).GetJSON([]byte(hub.hub.URL), &m); m.Until.Before(least) {
			least = m.Until
		}
	}
	return least
}

// recordDelivered stores which intervals every hub has now: those that end by least.
func recordDelivered(tx *boltfile.Tx, s *outboxState, least, now time.Time) error {
	delivered := least
	var done []interval
	for i := range intervalsFrom(tx, s.Delivered) {
		if !i.From.Before(least) {
			break
		}
		if i.Until.After(least) && i.From.Before(delivered) {
			delivered = i.From
		}
		if !i.Until.After(least) && i.Done.IsZero() {
			i.Done = now
			done = append(done, i)
		}
	}
	s.Delivered = clock.Later(s.Delivered, delivered)
	for _, i := range done { // not while reading
		if err := tx.Bucket(bucketIntervals).Put(i.key(), i.pack()); err != nil {
			return err
		}
	}
	return nil
}

// maxTrim is how many intervals one transaction deletes.
const maxTrim = 1000

// trimSome deletes the oldest intervals that every hub has: those acknowledged before an instant,
// and then more until at most this many bytes are stored. It returns how many, and the last of
// them that was deleted early.
func (p *Publisher) trimSome(ctx context.Context, before time.Time, most int64) (n int, early interval, err error) {
	p.cutting.Lock() // a part that is cut again from an interval has the same file
	defer p.cutting.Unlock()
	var gone []interval
	err = p.box.do(ctx, func(tx *boltfile.Tx, s *outboxState) error {
		gone = gone[:0]
		stored, least := s.stored(), leastOf(tx, s, p.senders)
		last, _ := lastInterval(tx) // the topic URI serves it
		for i := range intervalsFrom(tx, time.Time{}) {
			if len(gone) == maxTrim || i.Done.IsZero() || i.Until.After(least) || i.Until.Equal(last.Until) || !i.Done.Before(before) && stored <= most {
				break
			}
			stored -= i.Size
			gone = append(gone, i)
		}
		for _, i := range gone {
			if err := errors.Join(tx.Bucket(bucketIntervals).Delete(i.key()), tx.Bucket(bucketBodies).Delete(i.key())); err != nil {
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
			p.box.files.remove(i)
		}
		if !i.Done.Before(before) {
			early = i
		}
	}
	return len(gone), early, nil
}
