package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

var durableChecks = []Check{
	// Invariant 1, as far as a restart shows it; the kill test of a store shows
	// the rest.
	{"RestartKeepsTheJournal", func(k *kit) {
		entries := append(k.fill(topicName, 70), k.add(topicName, at(80), timed(70, 80, string(make([]byte, 100<<10)))))
		k.ok(k.h.Reset(k.Context(), topicName, k.head(topicName).Version), "Reset")
		head := k.trim(journal.Cut{Before: at(5), KeepBytes: -1})
		_, since, err := k.h.Changes(k.Context(), journal.Partition(journal.TopicID(topicName)), 0)
		k.ok(err, "Changes")
		k.reopen()
		k.same("the head", k.head(topicName), head)
		k.same("the entries", k.read(topicName, head.Trimmed), entries[4:])
		k.trimmed("the trimmed", journal.Anchor{}, entries[3].Anchor())
		for _, e := range entries[len(entries)-journal.Remembered:] {
			if _, err := k.h.Interval(k.Context(), topicName, e.From, e.Until); err != nil {
				k.Errorf("Interval: %v", err)
			}
		}
		if topic, e, err := k.h.Find(k.Context(), entries[70].ID); err != nil || topic != topicName || e.Seq != 71 {
			k.Errorf("Find: %q, seq %d, %v", topic, e.Seq, err)
		}
		next := k.fill(topicName, 1)[0]
		k.same("seq goes on", next.Seq, uint64(72))
		if next.Position <= entries[70].Position {
			k.Errorf("position %d after %d", next.Position, entries[70].Position)
		}
		topics, _, err := k.h.Changes(k.Context(), journal.Partition(journal.TopicID(topicName)), since)
		k.ok(err, "Changes")
		if !slices.Contains(topics, topicName) {
			k.Errorf("a change after a restart is not told to who asks with a value from before")
		}
	}},
	{"RestartKeepsTheSubscriptions", func(k *kit) {
		s := subscription(1)
		rec := k.set(s.ID, subscriptions.Record{Subscription: &s, Request: request(s)})
		c := s.Cursor
		c.Position, c.Attempt = 20, 1
		k.commit(subscriptions.Commit{ID: s.ID, Cursor: c, Attempts: []subscriptions.Attempt{{At: at(1), Number: 1, Status: 500}}})
		rec.Subscription.Cursor = c
		_, since, err := k.h.Changed(k.Context(), subscriptions.Shard(s.ID), 0)
		k.ok(err, "Changed")
		k.reopen()
		k.same("the record", k.get(s.ID), rec)
		k.same("the attempts", len(k.attempts(s.ID)), 1)
		k.set(s.ID, subscriptions.Record{Subscription: &s})
		ids, _, err := k.h.Changed(k.Context(), subscriptions.Shard(s.ID), since)
		k.ok(err, "Changed")
		if !slices.Contains(ids, s.ID) {
			k.Errorf("a change after a restart is not told to who asks with a value from before")
		}
	}},
	{"EndedContextIsAnError", func(k *kit) {
		k.fill(topicName, 1)
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		s := subscription(1)
		_, headErr := k.h.Head(ctx, topicName)
		_, readErr := k.h.Read(ctx, topicName, journal.Anchor{}, 1, 1)
		_, appendErr := k.h.Append(ctx, at(2), topicName, timed(1, 2, "x"), k.head(topicName).Version)
		_, getErr := k.h.Get(ctx, s.ID)
		for what, err := range map[string]error{
			"Head": headErr, "Read": readErr, "Append": appendErr, "Get": getErr,
			"Commit": k.h.Commit(ctx, []subscriptions.Commit{{ID: s.ID}}),
		} {
			if !errors.Is(err, context.Canceled) {
				k.Errorf("%s: %v, want context.Canceled", what, err)
			}
		}
		k.same("entries", k.head(topicName).Entries, int64(1))
	}},
	// One operation that fails does not fail those that are written with it.
	{"FailuresAreTheirOwn", func(k *kit) {
		const n = 24
		done := make(chan error, n)
		stale := journal.Version("no version of ours")
		for i := range n {
			go func() {
				topic := fmt.Sprint(topicName, i)
				if i%2 == 0 {
					_, err := k.h.Append(k.Context(), at(1), topic, timed(0, 1, "x"), stale)
					if errors.Is(err, journal.ErrHeadMoved) {
						err = nil
					} else {
						err = fmt.Errorf("a stale append: %w", errors.Join(err, errors.New("want ErrHeadMoved")))
					}
					done <- err
					return
				}
				_, err := k.h.Append(k.Context(), at(1), topic, timed(0, 1, "x"), "")
				done <- err
			}()
		}
		for range n {
			if err := <-done; err != nil {
				k.Errorf("%v", err)
			}
		}
		for i := range n {
			k.same(fmt.Sprint("entries of topic ", i), k.head(fmt.Sprint(topicName, i)).Entries, int64(i%2))
		}
	}},
}
