package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

var durableChecks = []Check{
	// Invariant 1, as far as a restart can show it. The kill test of each store shows the rest.
	{"RestartKeepsTheJournal", func(k *kit) {
		entries := append(k.fill(topicName, 70), k.add(topicName, at(80), timed(70, 80, string(make([]byte, 100<<10)))))
		k.ok(k.h.Reset(k.Context(), topicName, k.head(topicName).Version), "Reset")
		head := k.trim(journal.Cut{Before: at(5), KeepBytes: -1})
		_, since := k.changes(journal.Partition(journal.TopicID(topicName)), 0)
		k.reopen()
		k.same("the head", k.head(topicName), head)
		k.same("the entries", k.read(topicName, head.Trimmed), entries[4:])
		k.trimmed("the trimmed", journal.Anchor{}, entries[3].Anchor())
		for _, e := range entries[len(entries)-journal.Remembered:] {
			k.ok(errOf(k.h.Interval(k.Context(), topicName, e.From, e.Until)), "Interval")
		}
		found := find(k.Context(), k.h, entries[70].ID).must(k, "Find")
		k.expect(found.topic == topicName && found.entry.Seq == 71, "Find: %q, seq %d", found.topic, found.entry.Seq)
		next := k.fill(topicName, 1)[0]
		k.same("seq goes on", next.Seq, uint64(72))
		k.expect(next.Position > entries[70].Position, "position %d after %d", next.Position, entries[70].Position)
		topics, _ := k.changes(journal.Partition(journal.TopicID(topicName)), since)
		k.expect(slices.Contains(topics, topicName), "a change after a restart is not reported for a value from before")
	}},
	{"RestartKeepsTheSubscriptions", func(k *kit) {
		s := subscription(1)
		rec := k.set(s.ID, subscriptions.Record{Subscription: &s, Request: request(s)})
		c := s.Cursor
		c.Position, c.Attempt = 20, 1
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: c, Attempts: []subscriptions.Attempt{{At: at(1), Number: 1, Status: 500}}})
		rec.Subscription.Cursor = c
		_, since := k.changed(subscriptions.Shard(s.ID), 0)
		k.reopen()
		k.same("the record", k.get(s.ID), rec)
		k.same("the attempts", len(k.attempts(s.ID)), 1)
		k.set(s.ID, subscriptions.Record{Subscription: &s})
		ids, _ := k.changed(subscriptions.Shard(s.ID), since)
		k.expect(slices.Contains(ids, s.ID), "a change after a restart is not reported for a value from before")
	}},
	{"EndedContextIsAnError", func(k *kit) {
		k.fill(topicName, 1)
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		s := subscription(1)
		for what, err := range map[string]error{
			"Head":   errOf(k.h.Head(ctx, topicName)),
			"Read":   errOf(k.h.Read(ctx, topicName, journal.Anchor{}, 1, 1)),
			"Append": errOf(k.h.Append(ctx, at(2), topicName, timed(1, 2, "x"), k.head(topicName).Version)),
			"Get":    errOf(k.h.Get(ctx, s.ID)),
			"Ping":   k.h.Ping(ctx, at(1), []string{topicName}),
			"Commit": k.h.Commit(ctx, []subscriptions.Commit{{ID: s.ID}}),
		} {
			k.fails(err, context.Canceled, "%s", what)
		}
		k.same("entries", k.head(topicName).Entries, int64(1))
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
	}},
	// A failed operation does not fail those that are written with it.
	{"AFailureConcernsNoOther", func(k *kit) {
		const n = 24
		var group sync.WaitGroup
		for i := range n {
			version, want := journal.Version(""), error(nil)
			if i%2 == 0 {
				version, want = "no version of ours", journal.ErrHeadMoved
			}
			group.Go(func() {
				k.fails(errOf(k.h.Append(k.Context(), at(1), fmt.Sprint(topicName, i), timed(0, 1, "x"), version)), want, "Append onto version %q", version)
			})
		}
		group.Wait()
		for i := range n {
			k.same(fmt.Sprint("entries of topic ", i), k.head(fmt.Sprint(topicName, i)).Entries, int64(i%2))
		}
	}},
}
