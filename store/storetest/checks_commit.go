package storetest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// moved returns c after n more entries.
func moved(c journal.Cursor, n int) journal.Cursor {
	c.Position += journal.Position(n) //nolint:gosec // a few
	c.Seq += uint64(n)                //nolint:gosec // a few
	c.Nonce = journal.Nonce(100 * c.Seq)
	c.Until = at(int(c.Seq)) //nolint:gosec // a few
	c.Nudge, c.Attempt = 0, 0
	c.NextAttemptAt, c.FirstAttemptAt = time.Time{}, time.Time{}
	return c
}

// failed returns c after n failed attempts.
func failed(c journal.Cursor, n uint32) journal.Cursor {
	c.Attempt, c.Step, c.LastStatus = n, n, 500
	c.NextAttemptAt, c.FirstAttemptAt = at(100*int(n)), at(50)
	return c
}

// subscribed stores the i-th subscription.
func (k *kit) subscribed(i int) subscriptions.Subscription {
	k.Helper()
	s := subscription(i)
	k.set(s.ID, subscriptions.Record{Subscription: &s})
	return s
}

var commitChecks = []Check{
	// Invariant 3: late, twice and out of order.
	{"CommitsMerge", func(k *kit) {
		s := k.subscribed(1)
		base := s.Cursor
		nudged := failed(base, 1)
		nudged.Nudge = 1
		rising := []journal.Cursor{failed(base, 1), failed(base, 2), nudged, moved(base, 1), failed(moved(base, 1), 1), moved(base, 2), moved(base, 9)}
		replay := base
		replay.Generation++
		replay.Position = 1
		rising = append(rising, replay, moved(replay, 1))
		for i, c := range rising {
			k.commit(subscriptions.Commit{ID: s.ID, Cursor: c})
			k.same("the cursor", k.get(s.ID).Subscription.Cursor, c)
			k.commit(subscriptions.Commit{ID: s.ID, Cursor: c})
			for _, late := range rising[:i] {
				k.commit(subscriptions.Commit{ID: s.ID, Cursor: late})
			}
			k.same("the cursor after late commits", k.get(s.ID).Subscription.Cursor, c)
		}
		want := s
		want.Cursor = rising[len(rising)-1]
		k.same("the rest of the record", k.get(s.ID), subscriptions.Record{Subscription: &want})
	}},
	{"CommitNeverCreates", func(k *kit) {
		pending := subscription(2)
		rec := k.set(pending.ID, subscriptions.Record{Request: request(pending)})
		s := k.subscribed(3)
		unknown := subscription(1)
		for _, id := range []uuid.UUID{unknown.ID, pending.ID} {
			k.commit(
				subscriptions.Commit{ID: id, Cursor: moved(s.Cursor, 1), Attempts: []subscriptions.Attempt{{Number: 1}}, Gaps: []journal.Gap{{Count: 1}}, End: subscriptions.EndGone, EndedAt: at(1), Lease: at(2)},
				subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, 1)},
			)
			k.same("attempts of an unknown subscription", len(k.attempts(id)), 0)
		}
		k.same("an unknown subscription", k.get(unknown.ID), subscriptions.Record{})
		k.same("a pending subscription", k.get(pending.ID), rec)
		k.same("the cursor of another subscription", k.get(s.ID).Subscription.Cursor, moved(s.Cursor, 1))
	}},
	{"CommitsInOneGroup", func(k *kit) {
		var commits []subscriptions.Commit
		var subs []subscriptions.Subscription
		for i := range 20 {
			s := k.subscribed(i)
			subs = append(subs, s)
			commits = append(commits,
				subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, i+1), Gaps: []journal.Gap{{From: at(0), Until: at(1), Count: 1, Reason: journal.GapGaveUp}}},
				subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, i+2), Gaps: []journal.Gap{{From: at(2), Until: at(3), Count: 1, Reason: journal.GapGaveUp}}})
		}
		k.commit(commits...)
		for i, s := range subs {
			got := k.get(s.ID).Subscription
			k.same("the cursor", got.Cursor, moved(s.Cursor, i+2))
			k.same("gaps", len(got.Gaps), 2)
		}
		k.commit()
	}},
	// A commit that comes twice counts once.
	{"CommitTakesEffectWithItsCursorOnly", func(k *kit) {
		s := k.subscribed(1)
		gap := journal.Gap{From: at(1), Until: at(2), Count: 5, Reason: journal.GapRetention, At: at(3)}
		try := subscriptions.Attempt{At: at(1), NotificationID: uuid.New(), Number: 1, Status: 503, Error: "busy", Duration: 7}
		c := subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, 2), Gaps: []journal.Gap{gap}, Attempts: []subscriptions.Attempt{try}}
		late := c
		late.Cursor, late.End, late.EndedAt, late.Lease = moved(s.Cursor, 1), subscriptions.EndGone, at(9), s.VerifiedAt
		equal := c
		equal.End, equal.EndedAt, equal.Lease = subscriptions.EndGone, at(9), s.VerifiedAt
		k.commit(c)
		k.commit(c, late, equal)
		k.commit(c)
		got := k.get(s.ID).Subscription
		k.same("the gaps", got.Gaps, []journal.Gap{gap})
		k.same("the attempts", k.attempts(s.ID), []subscriptions.Attempt{try})
		k.same("the end", got.EndReason, "")
		k.expect(got.EndedAt.IsZero(), "a commit that lost the merge ended the subscription")
	}},
	{"CommitEnds", func(k *kit) {
		s := k.subscribed(1)
		gap := journal.Gap{From: at(1), Until: at(9), Count: 8, Reason: journal.GapGone, At: at(9)}
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, 1), Gaps: []journal.Gap{gap}, End: subscriptions.EndGone, EndedAt: at(9), Lease: s.VerifiedAt})
		want := s
		want.Cursor, want.EndReason, want.EndedAt = moved(s.Cursor, 1), subscriptions.EndGone, at(9)
		want.Gaps = []journal.Gap{gap}
		k.same("the record", k.get(s.ID), subscriptions.Record{Subscription: &want})
		// The subscription has ended already, and the gap of that end covers later entries.
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, 2), Gaps: []journal.Gap{gap}, End: subscriptions.EndRemoved, EndedAt: at(10), Lease: s.VerifiedAt})
		want.Cursor = moved(s.Cursor, 2)
		k.same("the record after another end", k.get(s.ID), subscriptions.Record{Subscription: &want})
	}},
	// HUB-12, HUB-47: an end concerns the lease that was in force when its exchange began.
	// It does not change a later lease, wherever the cursors are.
	{"CommitEndsItsOwnLeaseOnly", func(k *kit) {
		s := k.subscribed(1)
		renewed := s
		renewed.VerifiedAt, renewed.Cursor.Nudge = s.VerifiedAt.Add(1), s.Cursor.Nudge+1
		k.set(s.ID, subscriptions.Record{Subscription: &renewed})
		end := subscriptions.Commit{
			ID: s.ID, Cursor: failed(moved(s.Cursor, 1), 1), End: subscriptions.EndGone, EndedAt: at(9), Lease: s.VerifiedAt,
			Gaps: []journal.Gap{{From: at(1), Until: at(9), Count: 8, Reason: journal.GapGone, At: at(9)}}, Attempts: []subscriptions.Attempt{{Number: 1, Status: 410}},
		}
		k.commit(end)
		k.same("after an end of the lease before", k.get(s.ID), subscriptions.Record{Subscription: &renewed})
		k.same("the attempts", len(k.attempts(s.ID)), 0)
		delivered := subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, 1)}
		k.commit(delivered, end)
		renewed.Cursor = delivered.Cursor
		k.same("after a delivery, and an end of the lease before", k.get(s.ID), subscriptions.Record{Subscription: &renewed})
		// A newer generation does not mean another lease.
		end.Lease = renewed.VerifiedAt
		end.Cursor.Generation++
		k.commit(end)
		want := renewed
		want.Cursor, want.EndReason, want.EndedAt, want.Gaps = end.Cursor, end.End, end.EndedAt, end.Gaps
		k.same("after an end of the lease in force", k.get(s.ID), subscriptions.Record{Subscription: &want})
	}},
	// Invariants 12 and 10: lists are bounded, but the gaps still count every loss.
	{"CommittedListsAreBounded", func(k *kit) {
		s := k.subscribed(1)
		const n = journal.MaxGaps + 30
		var tries []subscriptions.Attempt
		for i := range n {
			try := subscriptions.Attempt{At: at(i), Number: uint32(i + 1), Status: 500}
			tries = append(tries, try)
			k.commit(subscriptions.Commit{
				ID: s.ID, Cursor: moved(s.Cursor, i+1), Attempts: []subscriptions.Attempt{try},
				Gaps: []journal.Gap{{From: at(10 * i), Until: at(10*i + 1), Count: 1, Reason: journal.GapGaveUp, At: at(i)}},
			})
		}
		k.same("the attempts", k.attempts(s.ID), tries[n-subscriptions.MaxAttempts:])
		k.bounded(k.get(s.ID).Subscription.Gaps, n)
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, n+1), Attempts: slices.Concat(tries, tries)})
		k.same("the attempts after very many at once", k.attempts(s.ID), tries[n-subscriptions.MaxAttempts:])
	}},
	{"AdjacentGapsCoalesce", func(k *kit) {
		s := k.subscribed(1)
		for i := range 3 {
			k.commit(subscriptions.Commit{ID: s.ID, Cursor: moved(s.Cursor, i+1), Gaps: []journal.Gap{{From: at(i), Until: at(i + 1), Count: 2, Reason: journal.GapGaveUp, At: at(i)}}})
		}
		k.same("the gaps", k.get(s.ID).Subscription.Gaps, []journal.Gap{{From: at(0), Until: at(3), Count: 6, Reason: journal.GapGaveUp, At: at(2)}})
	}},
}
