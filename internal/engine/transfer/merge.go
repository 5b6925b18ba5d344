package transfer

import (
	"errors"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errUnchanged keeps a record as it is.
var errUnchanged = errors.New("nothing changed")

// merge puts what a file says of a record into the one that is stored. Of two
// subscriptions the newer holds, and the greater cursor; merging the same again
// changes nothing, and then errUnchanged comes back.
func merge(stored, given subscriptions.Record) (subscriptions.Record, error) {
	out := stored
	changed := false
	if s := given.Subscription; s != nil {
		var news bool
		out.Subscription, news = mergeSubscriptions(stored.Subscription, s)
		changed = changed || news
	}
	if r := given.Request; r != nil && wanted(stored, r) {
		out.Request, changed = r, true
	}
	if !changed {
		return stored, errUnchanged
	}
	return out, nil
}

// mergeSubscriptions returns the newer of two subscriptions with the greater of
// the cursors, and whether that is another than the stored one.
func mergeSubscriptions(stored, given *subscriptions.Subscription) (*subscriptions.Subscription, bool) {
	if stored == nil {
		return given, true
	}
	newer, older := *stored, given
	news := newerThan(given, stored)
	if news {
		newer, older = *given, stored
	}
	for _, g := range older.Gaps { // those that the newer one can't have
		if n := len(newer.Gaps); n == 0 || g.At.After(newer.Gaps[n-1].At) {
			newer.Gaps = journal.AddGap(newer.Gaps, g)
			news = true
		}
	}
	newer.Cursor = journal.Merge(stored.Cursor, given.Cursor)
	return &newer, news || newer.Cursor != stored.Cursor
}

// newerThan orders two states of one subscription: by its verification, then by
// its end, then by its cursor.
func newerThan(a, b *subscriptions.Subscription) bool {
	if c := a.VerifiedAt.Compare(b.VerifiedAt); c != 0 {
		return c > 0
	}
	if c := a.EndedAt.Compare(b.EndedAt); c != 0 {
		return c > 0
	}
	return a.Cursor.Compare(b.Cursor) > 0
}

// wanted reports whether a request of a file is still to be carried out: the
// stored record has no newer one, and has not done it.
func wanted(stored subscriptions.Record, r *subscriptions.Request) bool {
	if s := stored.Subscription; s != nil && (!s.VerifiedAt.Before(r.AcceptedAt) || !s.EndedAt.IsZero() && !s.EndedAt.Before(r.AcceptedAt)) {
		return false
	}
	return stored.Request == nil || r.AcceptedAt.After(stored.Request.AcceptedAt)
}
