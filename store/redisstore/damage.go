package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rshub/rshub/journal"
)

// splitID reads what streamID wrote.
func splitID(id string) (journal.Position, journal.Nonce, error) {
	before, after, _ := strings.Cut(id, "-")
	position, err1 := strconv.ParseUint(before, 10, 64)
	nonce, err2 := strconv.ParseUint(after, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("%w: the id of an entry: %w", journal.ErrPacked, err)
	}
	return journal.Position(position), journal.Nonce(nonce), nil
}

// damagedAfter returns an error if the first entry of a page cannot be read, or if entries
// between it and an anchor are missing. Entries are numbered without holes.
func damagedAfter(after journal.Anchor, page []storedEntry) error {
	e := &page[0]
	if e.why != nil {
		return e.damaged(after.Seq, following(page, 0))
	}
	if !e.Misses(after) {
		return nil
	}
	return &journal.DamagedError{At: e.Predecessor(), Why: journal.ErrMissing}
}

// following returns the entry of a page after the one at an index; nil: there is none.
func following(page []storedEntry, at int) *storedEntry {
	if at+1 < len(page) {
		return &page[at+1]
	}
	return nil
}

// anyMissing reports whether an entry between an anchor and the end of a page is missing,
// as far as the entries can be read.
func anyMissing(after journal.Anchor, page []storedEntry) bool {
	for i := range page {
		if page[i].why == nil && page[i].Misses(after) {
			return true
		}
		after = page[i].Anchor()
	}
	return false
}

// retainedBytes returns the total size of the bodies of a topic after an anchor, as far as
// its entries are there.
func (r *reader) retainedBytes(ctx context.Context, k topicKeys, topic string, after journal.Anchor) (n int64, err error) {
	for more := true; more && err == nil; {
		var page []storedEntry
		page, _, err = r.page(ctx, k, topic, after, readMax, -1)
		for i := range page {
			n += page[i].size
			after = page[i].Anchor()
		}
		more = len(page) == readMax
	}
	if errors.Is(err, journal.ErrDamaged) {
		err = nil // the newest entry is missing, and no other is left
	}
	return n, err
}

// damaged returns the error about an entry that cannot be read. Seq is the number of the
// entry before it. Next is the entry after it, or nil if that is not known.
func (e *storedEntry) damaged(seq uint64, next *storedEntry) error {
	if !journal.Unreadable(e.why) {
		return e.why // a newer version wrote it
	}
	d := &journal.DamagedError{At: e.anchorAfter(seq, next), Why: e.why}
	if e.ID.Version() == 7 {
		d.ID = e.ID
	}
	return d
}

// anchorAfter returns the anchor of an entry that cannot be read, as for damaged. Number
// and end are guesses if next is not known or cannot be read either.
func (e *storedEntry) anchorAfter(seq uint64, next *storedEntry) journal.Anchor {
	at := journal.Anchor{Position: e.Position, Nonce: e.Nonce, Seq: seq + 1, Until: e.Position.Time()}
	if next != nil && next.why == nil {
		near := next.Predecessor()
		at.Seq, at.Until = near.Seq, near.Until
	}
	return at
}

// nearby completes the error about the entry after an anchor, which cannot be read, with
// what the next entry and the head say about it.
func (r *reader) nearby(ctx context.Context, k topicKeys, topic string, after journal.Anchor, why error) error {
	var d *journal.DamagedError
	if !errors.As(why, &d) {
		return why
	}
	h, err := r.heads.read(ctx, k, topic)
	if err == nil && h.Last.Position == d.At.Position {
		d.At = h.Last
		return d
	}
	page, _, err := r.page(ctx, k, topic, after, 2, -1)
	if err == nil && len(page) == 2 && page[0].why != nil {
		return page[0].damaged(after.Seq, &page[1])
	}
	return why
}
