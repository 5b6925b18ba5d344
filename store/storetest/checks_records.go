package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// request is a pending request about a subscription.
func request(s subscriptions.Subscription) *subscriptions.Request {
	return &subscriptions.Request{
		ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: s.Topic, Callback: s.Callback, Secret: "another secret",
		Lease: 300 * time.Second, AcceptedAt: at(4), Start: journal.Anchor{Position: 3, Nonce: 4, Seq: 5, Until: at(1)},
		Denied: "a reason", Tries: 3, NextAt: at(8), Requester: 1<<63 + 6,
	}
}

func byID(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

var recordChecks = []Check{
	{"NumbersOfNoPartitionAreRefused", func(k *kit) {
		ctx := k.Context()
		for _, n := range []int{-1, journal.Partitions} {
			_, _, changes := k.h.Changes(ctx, n, 0)
			_, _, changed := k.h.Changed(ctx, n, 0)
			for name, err := range map[string]error{
				"Topics": errOf(k.h.Topics(ctx, n, uuid.Nil, 10)), "PingRecords": errOf(k.h.PingRecords(ctx, n, uuid.Nil, 10)),
				"List": errOf(k.h.List(ctx, n, uuid.Nil, 10)), "Changes": changes, "Changed": changed,
			} {
				k.expect(err != nil, "%s of partition %d gave no error", name, n)
			}
		}
	}},
	{"GetOfAnUnknownID", func(k *kit) {
		k.same("the record", k.get(uuid.New()), subscriptions.Record{})
		k.same("its attempts", len(k.attempts(uuid.New())), 0)
	}},
	{"UpdateKeepsWhatItIsGiven", func(k *kit) {
		s := subscription(1)
		s.Gaps = []journal.Gap{{From: at(1), Until: at(2), Count: 3, Reason: journal.GapGaveUp, At: at(4)}}
		s.EndedAt, s.EndReason = at(50), subscriptions.EndGone
		s.Cursor.Nudge, s.Cursor.Attempt, s.Cursor.Step, s.Cursor.LastStatus = 1, 2, 3, journal.StatusTimeout
		s.Cursor.NextAttemptAt, s.Cursor.FirstAttemptAt = at(60), at(40)
		r := request(s)
		for _, want := range []subscriptions.Record{
			{Request: r}, {Subscription: &s, Request: r}, {Subscription: &s}, {Request: r},
		} {
			k.same("what Update returns", k.set(s.ID, want), want)
			k.same("what Get returns", k.get(s.ID), want)
		}
	}},
	{"UpdatePassesOnWhatIsStored", func(k *kit) {
		s := subscription(1)
		want := subscriptions.Record{}
		for _, next := range []subscriptions.Record{{Request: request(s)}, {Subscription: &s}, {}} {
			k.ok(errOf(k.h.Update(k.Context(), s.ID, func(got subscriptions.Record) (subscriptions.Record, error) {
				k.same("what change is given", got, want)
				return next, nil
			})), "Update")
			want = next
		}
	}},
	{"RecordsBelongToTheCaller", func(k *kit) {
		s := subscription(1)
		s.Gaps = []journal.Gap{{Count: 1, Reason: journal.GapGaveUp}}
		given := s
		given.Gaps = slices.Clone(s.Gaps)
		out := k.set(s.ID, subscriptions.Record{Subscription: &given})
		got := k.get(s.ID)
		for _, rec := range []*subscriptions.Subscription{&given, out.Subscription, got.Subscription} {
			rec.Callback, rec.Gaps[0].Count = "changed", 9
		}
		k.same("the record", k.get(s.ID), subscriptions.Record{Subscription: &s})
	}},
	{"UpdateReturnsTheErrorOfChange", func(k *kit) {
		s := subscription(1)
		want := k.set(s.ID, subscriptions.Record{Subscription: &s})
		no := errors.New("no")
		_, err := k.h.Update(k.Context(), s.ID, func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{}, no
		})
		if err != no { //nolint:errorlint // as it is
			k.Errorf("Update returned %v", err)
		}
		k.same("the record", k.get(s.ID), want)
	}},
	// Invariant 3: no cursor goes back.
	{"UpdateMergesTheCursor", func(k *kit) {
		s := k.subscribed(1)
		ahead := s.Cursor
		ahead.Position, ahead.Seq = 50, 11
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: ahead})
		renewed := s // read before the commit
		renewed.ExpiresAt = at(5000)
		out := k.set(s.ID, subscriptions.Record{Subscription: &renewed})
		k.same("the cursor that Update returns", out.Subscription.Cursor, ahead)
		k.same("the stored cursor", k.get(s.ID).Subscription.Cursor, ahead)
		k.same("the stored lease", k.get(s.ID).Subscription.ExpiresAt, at(5000))
		renewed.Cursor.Generation++ // a minted generation lets it go back
		k.same("the cursor after a new generation", k.set(s.ID, subscriptions.Record{Subscription: &renewed}).Subscription.Cursor, renewed.Cursor)
	}},
	{"UpdateWithTwoNilsDeletes", func(k *kit) {
		s := subscription(1)
		k.set(s.ID, subscriptions.Record{Subscription: &s, Request: request(s)})
		next := s.Cursor
		next.Attempt++
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: next, Attempts: []subscriptions.Attempt{{Number: 1}}})
		k.set(s.ID, subscriptions.Record{})
		k.same("the record", k.get(s.ID), subscriptions.Record{})
		k.same("its attempts", len(k.attempts(s.ID)), 0)
		records := call(k.h.List(k.Context(), subscriptions.Shard(s.ID), uuid.Nil, 10)).must(k, "List")
		k.same("the list", len(records), 0)
		k.set(s.ID, subscriptions.Record{Subscription: &s})
		k.same("the cursor of the next one", k.get(s.ID).Subscription.Cursor, s.Cursor)
	}},
	{"UpdatesAreOneStepEach", func(k *kit) {
		s := subscription(1)
		k.set(s.ID, subscriptions.Record{Request: request(s)})
		const workers, rounds = 6, 10
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range rounds {
					_, err := k.h.Update(k.Context(), s.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
						rec.Request.Tries++
						return rec, nil
					})
					k.expect(err == nil, "Update: %v", err)
				}
			})
		}
		group.Wait()
		k.same("tries", k.get(s.ID).Request.Tries, 3+workers*rounds)
	}},
	{"ListsInPages", func(k *kit) {
		const shard = 9
		subs := subscriptionsOf(shard, 8)
		var ids []uuid.UUID
		for i, s := range subs {
			rec := subscriptions.Record{Subscription: &s}
			if i%2 == 0 {
				rec.Request = request(s)
			}
			if i%4 == 0 {
				rec.Subscription = nil
			}
			ids = append(ids, s.ID)
			k.set(s.ID, rec)
		}
		other := subscriptionsOf(shard+1, 1)[0]
		k.set(other.ID, subscriptions.Record{Subscription: &other, Request: request(other)})
		slices.SortFunc(ids, byID)
		k.same("the records", k.pages(func(after uuid.UUID) (out []uuid.UUID) {
			for _, rec := range call(k.h.List(k.Context(), shard, after, pageOf)).must(k, "List") {
				if rec.Subscription != nil {
					out = append(out, rec.Subscription.ID)
				} else {
					out = append(out, rec.Request.SubscriptionID())
				}
				k.same("the record", rec, k.get(out[len(out)-1]))
			}
			return out
		}), ids)
	}},
	{"ChangedReportsEveryRecordThatChanged", func(k *kit) {
		const shard = 9
		subs := subscriptionsOf(shard, 3)
		ask := func(since uint64, want ...uuid.UUID) uint64 {
			k.Helper()
			got, next := k.changed(shard, since)
			for _, id := range want {
				k.expect(slices.Contains(got, id), "asked since %d, %v is not reported", since, id)
			}
			return next
		}
		zero := ask(0)
		for _, s := range subs {
			k.set(s.ID, subscriptions.Record{Subscription: &s})
		}
		one := ask(zero, subs[0].ID, subs[1].ID, subs[2].ID)
		got, _ := k.changed(shard, one)
		k.same("ids when nothing changed", len(got), 0)
		got, now := k.changed(shard, subscriptions.FromNow)
		k.same("ids from now on", len(got), 0)
		k.same("the value from now on", now, one)
		c := subs[0].Cursor
		c.Position++
		k.commit(subscriptions.Commit{ID: subs[0].ID, Cursor: c, End: subscriptions.EndGone, EndedAt: at(9), Lease: subs[0].VerifiedAt})
		k.set(subs[1].ID, subscriptions.Record{}) // a deletion is a change
		ask(one, subs[0].ID, subs[1].ID)
		ask(0, subs[0].ID, subs[2].ID)
		for range 300 {
			k.set(subs[2].ID, subscriptions.Record{Subscription: &subs[2]})
		}
		got, _ = k.changed(shard, zero)
		k.expect(len(got) <= len(subs), "%d changes of %d records are reported", len(got), len(subs))
	}},
}

// pageOf is the greatest number of items on a page.
const pageOf = 3

// pages asks for pages until one is empty.
func (k *kit) pages(page func(after uuid.UUID) []uuid.UUID) (all []uuid.UUID) {
	k.Helper()
	for ids := page(uuid.Nil); len(ids) > 0; ids = page(ids[len(ids)-1]) {
		all = append(all, ids...)
		if len(ids) > pageOf || len(all) > 100 {
			k.Fatalf("a page of %d has %d, or the pages do not end", pageOf, len(ids))
		}
	}
	return all
}
