package transfer

import (
	"cmp"
	"errors"
	"slices"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errUnchanged leaves a record unchanged.
var errUnchanged = errors.New("nothing changed")

// merge returns the stored record, merged with what a file says about it. The newer of two
// subscriptions wins, and the greater cursor. It returns errUnchanged if nothing changes, as when
// the same record is merged again.
func merge(stored, given subscriptions.Record) (subscriptions.Record, error) {
	out := stored
	if given.Subscription != nil {
		out.Subscription = mergeSubscriptions(stored.Subscription, given.Subscription)
	}
	if r := given.Request; r != nil && wanted(stored, r) {
		out.Request = r
	}
	if out == stored {
		return stored, errUnchanged
	}
	return out, nil
}

// mergeSubscriptions returns the newer of two subscriptions with the greater of the
// cursors, or the stored one itself if that is the same.
func mergeSubscriptions(stored, given *subscriptions.Subscription) *subscriptions.Subscription {
	if stored == nil {
		return given
	}
	newer, older := *stored, given
	news := newerThan(given, stored)
	if news {
		newer, older = *given, stored
	}
	for _, g := range older.Gaps {
		if !slices.ContainsFunc(newer.Gaps, func(has journal.Gap) bool { return tells(has, g) }) {
			newer.Gaps = journal.AddGap(newer.Gaps, g)
			news = true
		}
	}
	newer.Cursor = journal.Merge(stored.Cursor, given.Cursor)
	if !news && newer.Cursor == stored.Cursor {
		return stored
	}
	return &newer
}

// tells reports whether one gap is another, or the other was joined with it. Gaps need not be in the order of their
// times: a clock may have been set back.
func tells(has, g journal.Gap) bool {
	return !has.From.After(g.From) && !has.Until.Before(g.Until) && !has.At.Before(g.At)
}

// newerThan orders two states of one subscription: by its verification, then by
// its end, then by its cursor.
func newerThan(a, b *subscriptions.Subscription) bool {
	return cmp.Or(a.VerifiedAt.Compare(b.VerifiedAt), a.EndedAt.Compare(b.EndedAt), a.Cursor.Compare(b.Cursor)) > 0
}

// wanted reports whether a request of a file still has to be carried out: the stored record has
// no newer one, and does not have its result yet.
func wanted(stored subscriptions.Record, r *subscriptions.Request) bool {
	if s := stored.Subscription; s != nil && (!s.VerifiedAt.Before(r.AcceptedAt) || !s.EndedAt.IsZero() && !s.EndedAt.Before(r.AcceptedAt)) {
		return false
	}
	return stored.Request == nil || r.AcceptedAt.After(stored.Request.AcceptedAt)
}
