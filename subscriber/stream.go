package subscriber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// Cursor is a position in the stream. The zero Cursor is the beginning. Cursors of one
// Subscriber are ordered, and may be stored as text.
type Cursor struct {
	Batch  uint64 `json:"batch"`
	Change int    `json:"change"` // changes of Batch that are done with
}

func (c Cursor) before(d Cursor) bool {
	return c.Batch < d.Batch || c.Batch == d.Batch && c.Change < d.Change
}

// Change is an item of the stream: one change of a resource, a piece of content if the
// topic carries something else, or the message that a new baseline is needed.
type Change struct {
	resourcesync.Entry
	// Cursor is what to Commit once the change is done with.
	Cursor Cursor
	// NotificationID is the Webhook-Id; empty for what was read from a Change List.
	// From and Until are the notification's interval, zero if it has none.
	NotificationID string
	From, Until    time.Time
	// Last says that it is the last of its notification.
	Last bool
	// Repaired says that it was not pushed but read from a Change List.
	Repaired bool
	// Content and MediaType are the body of a delivery that is no change
	// notification. Then Entry is zero.
	Content   []byte
	MediaType string
	// NeedsBaseline says that the changes from From to Until are lost. The application
	// has to copy everything again, as of Until or later. Entry is zero.
	NeedsBaseline bool
}

// Changes yields what was received and not committed yet, and then what comes, in order,
// until ctx ends or the caller leaves the range. It waits for more. Each change comes at
// least once: again after a restart if it was not committed. Only one range is possible at
// a time; a second one ends at once. If a range ends by itself, Err says why. A change's
// Content belongs to the caller.
func (s *Subscriber) Changes(ctx context.Context) iter.Seq[Change] {
	return s.reading.changes(ctx, true)
}

// Waiting is Changes, but it does not wait for more.
func (s *Subscriber) Waiting(ctx context.Context) iter.Seq[Change] {
	return s.reading.changes(ctx, false)
}

// stream hands the inbox on to the application.
type stream struct {
	inbox   *inbox
	reading sync.Mutex // locked during a range

	mu     sync.Mutex
	failed error // why the last range ended
}

func (s *stream) changes(ctx context.Context, wait bool) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if !s.reading.TryLock() {
			s.ended(errors.New("subscriber: a range over Changes is running already"))
			return
		}
		defer s.reading.Unlock()
		s.ended(nil)
		at, err := boltfile.Read(s.inbox.db, readCursor)
		if err == nil {
			err = s.from(ctx, at, wait, yield)
		}
		s.ended(err)
	}
}

// Ahead yields what waits after a cursor, as Waiting does. It is for a look at what comes, also during a range over Changes,
// and no such range itself: Err is not about it. It ends at what cannot be read, which the range reports when it gets there.
func (s *Subscriber) Ahead(ctx context.Context, after Cursor) iter.Seq[Change] {
	return func(yield func(Change) bool) { _ = s.reading.from(ctx, after, false, yield) }
}

// from yields what comes from a cursor on.
func (s *stream) from(ctx context.Context, at Cursor, wait bool, yield func(Change) bool) error {
	for ctx.Err() == nil {
		more := s.inbox.more.Wait() // Close broadcasts, too; then next fails
		n, b, payload, err := s.inbox.next(at)
		switch {
		case err != nil:
			return err
		case n == 0 && !wait:
			return nil
		case n == 0:
			select {
			case <-ctx.Done():
			case <-more:
			}
			continue
		case at.Batch != n:
			at = Cursor{Batch: n}
		}
		if left, err := s.handOut(ctx, at, b, payload, yield); left || err != nil {
			return err
		}
		at = Cursor{Batch: n + 1}
	}
	return nil
}

// Err is why the last range over Changes ended by itself; nil if its caller ended it.
func (s *Subscriber) Err() error {
	s.reading.mu.Lock()
	defer s.reading.mu.Unlock()
	return s.reading.failed
}

func (s *stream) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// next returns the first batch at or after a cursor; number 0: there is none.
func (in *inbox) next(at Cursor) (n uint64, b batch, payload []byte, err error) {
	err = in.db.View(func(tx *boltfile.Tx) error {
		bucket := tx.Bucket(inboxBucket)
		if key, raw := bucket.Cursor().Seek(number(at.Batch)); key != nil {
			n = fromNumber(key)
			b, payload = readBatch(bucket, key, raw)
		}
		return nil
	})
	return n, b, payload, err
}

// handOut yields a batch from a cursor on. Left: the caller ended the range.
func (s *stream) handOut(ctx context.Context, at Cursor, b batch, payload []byte, yield func(Change) bool) (left bool, err error) {
	c := Change{NotificationID: b.ID, From: b.From, Until: b.Until, Repaired: b.Repaired, MediaType: b.MediaType}
	if b.Baseline || b.Content {
		c.Cursor, c.NeedsBaseline, c.Last = Cursor{Batch: at.Batch + 1}, b.Baseline, true
		if b.Content {
			c.Content = payload
		}
		return !yield(c), nil
	}
	next := entriesOf(&b, payload)
	skip := named(b.Skip)
	ready := false // c is to be yielded when it is known whether it is the last
	for i := 0; ctx.Err() == nil; i++ {
		e, err := next()
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("subscriber: a stored notification cannot be read any more: %w", err)
		}
		if err == nil && (b.isOld(&e, skip) || i < at.Change) {
			continue
		}
		if c.Last = err != nil; c.Last {
			c.Cursor = Cursor{Batch: at.Batch + 1}
		}
		if ready && !yield(c) {
			return true, nil
		}
		if err != nil {
			return false, nil
		}
		c.Entry, c.Cursor, ready = e, Cursor{at.Batch, i + 1}, true
	}
	return true, nil
}

// Committed is the cursor that was committed last.
func (s *Subscriber) Committed() (Cursor, error) { return boltfile.Read(s.inbox.db, readCursor) }

func readCursor(tx *boltfile.Tx) (c Cursor) {
	tx.Bucket(metaBucket).GetJSON(cursorKey, &c)
	return c
}

// Commit says that the application is done with everything up to a cursor. It is durable
// when it returns, and what was committed does not come again. A cursor before the
// committed one changes nothing. One that no change had is an error. Each Commit costs an
// fsync, which concurrent calls share: with many small changes, commit only every so many.
func (s *Subscriber) Commit(c Cursor) error {
	in := s.inbox
	defer in.freed.Broadcast()
	return in.update(func(tx *boltfile.Tx) error {
		inbox := tx.Bucket(inboxBucket)
		switch {
		case c.Batch > inbox.Sequence()+1:
			return fmt.Errorf("subscriber: the cursor %d.%d is not one of %s", c.Batch, c.Change, in.dir)
		case !readCursor(tx).before(c):
			return nil
		}
		at := inbox.Cursor()
		for key, raw := at.First(); key != nil && fromNumber(key) < c.Batch; key, raw = at.First() {
			in.counts.Backlog -= int64(len(raw))
			in.counts.Batches--
			if err := inbox.Delete(key); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).PutJSON(cursorKey, c)
	})
}
