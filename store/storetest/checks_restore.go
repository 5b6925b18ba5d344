package storetest

import (
	"crypto/sha256"
	"slices"

	"github.com/rshub/rshub/journal"
)

// restoredName is the topic that a check restores from another.
const restoredName = topicName + "restored"

// exported returns the state of a topic, under the name restoredName and without entries.
func exported(k *kit, topic string) (journal.Head, []journal.Interval) {
	k.Helper()
	h := k.head(topic)
	remembered := call(k.h.Intervals(k.Context(), topic)).must(k, "Intervals")
	h.Topic, h.Entries, h.Bytes = restoredName, 0, 0
	return h, remembered
}

// restored is the head that Restore makes of another.
func restored(h journal.Head, version journal.Version) journal.Head {
	h.Version, h.Trimmed, h.Entries, h.Bytes = version, h.Last, 0, 0
	return h
}

var restoreChecks = []Check{
	{"RestoredTopicGoesOn", func(k *kit) {
		const over = 3
		entries := k.fill(topicName, journal.Remembered+over)
		k.record(topicName, lost(3, 5))
		k.trim(journal.Cut{KeepBytes: 30})
		const other = restoredName
		h, remembered := exported(k, topicName)
		want := make([]journal.Interval, 0, journal.Remembered)
		for _, e := range entries[over:] {
			want = append(want, e.Interval())
		}
		k.same("what is remembered, oldest first", remembered, want)

		partition := journal.Partition(journal.TopicID(other))
		_, since := k.changes(partition, 0)
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		topics, _ := k.changes(partition, since)
		k.expect(slices.Contains(topics, other), "Changes does not report a restored topic")
		k.reopen()
		got := k.head(other)
		k.expect(got.Version != "", "a restored head has no version")
		k.same("the restored head", got, restored(h, got.Version))
		_, again := exported(k, other)
		k.same("what is remembered of it", again, want)

		k.same("entries after its head", len(k.read(other, h.Last)), 0)
		k.trimmedAs("reading what was not exported", other, entries[5].Anchor(), journal.TrimmedError{To: h.Last, Reason: journal.GapRetention})
		wrong := h.Last
		wrong.Nonce++
		k.fails(errOf(k.h.Read(k.Context(), other, wrong, 10, 1<<20)), journal.ErrRolledBack, "reading after another entry than the last")

		n := len(entries)
		next := k.add(other, at(-1000), timed(n, n+1, "next")) // the clock of this store is behind
		k.expect(next.Seq == h.Last.Seq+1 && next.Position > h.Last.Position, "the next entry has seq %d and position %d after %d and %d", next.Seq, next.Position, h.Last.Seq, h.Last.Position)
		k.fails(errOf(k.h.Interval(k.Context(), other, want[0].From, want[0].Until)), journal.ErrNotFound, "the oldest of the remembered intervals is kept")
		k.ok(errOf(k.h.Interval(k.Context(), other, want[1].From, want[1].Until)), "the second of the remembered intervals")
		k.same("entries after the next", len(k.read(other, h.Last)), 1)
	}},
	{"RestoreUndoesNothing", func(k *kit) {
		k.fill(topicName, 2)
		const other = restoredName
		older, olderIntervals := exported(k, topicName)
		k.fill(topicName, 2)
		h, remembered := exported(k, topicName)

		k.ok(k.h.Restore(k.Context(), older, olderIntervals), "Restore of an older state")
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of a newer state of a topic without new entries")
		got := k.head(other)
		k.same("the head", got, restored(h, got.Version))
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of the same")
		k.same("the head after the same again, version included", k.head(other), got)
		_, intervals := exported(k, other)
		k.same("what is remembered", intervals, remembered)
		k.fails(k.h.Restore(k.Context(), older, olderIntervals), journal.ErrHeadMoved, "Restore of an older state")
		k.same("the head after an older one was refused", k.head(other), got)

		k.add(other, at(9), timed(4, 5, "x"))
		got = k.head(other)
		later := h
		later.Last.Position, later.Last.Seq = got.Last.Position+1, got.Last.Seq+1
		for name, given := range map[string]journal.Head{"the same": h, "a later": later} {
			k.fails(k.h.Restore(k.Context(), given, remembered), journal.ErrHeadMoved, "Restore of %s state over a topic with entries", name)
		}
		k.same("the head that has an entry", k.head(other), got)
		k.same("its entries", len(k.read(other, h.Last)), 1)
	}},
	{"RefilledTopicIsWhole", func(k *kit) {
		const trimmed = 2
		k.fill(topicName, 4)
		large := timed(4, 5, "") // it is larger than what stores keep with an entry
		large.Body = make([]byte, 2<<20)
		for i := range large.Body {
			large.Body[i] = byte(i * i >> 7)
		}
		large.SHA256 = sha256.Sum256(large.Body)
		k.add(topicName, at(5), large)
		k.fill(topicName, 1)
		k.trim(journal.Cut{Before: at(trimmed + 1), KeepBytes: -1})
		h, remembered := exported(k, topicName)
		kept := k.head(topicName)
		h.Entries, h.Bytes = kept.Entries, kept.Bytes
		entries := k.read(topicName, h.Trimmed)
		k.same("entries that were not trimmed", len(entries), 4)
		partition := journal.Partition(journal.TopicID(restoredName))
		for i := range entries {
			entries[i].ID[15] = byte(partition)
		}
		h.ID = entries[len(entries)-1].ID

		_, since := k.changes(partition, 0)
		refill := func(entries []journal.Entry) int {
			return call(k.h.Refill(k.Context(), restoredName, entries)).must(k, "Refill")
		}
		k.same("entries that the first Refill adds", refill(entries[:1]), 1)
		k.same("entries that a Refill adds to a part of them", refill(entries[:2]), 1)
		k.same("entries that the last Refill adds", refill(entries[2:]), 2)
		k.same("the head before Restore", k.head(restoredName), journal.Head{Topic: restoredName})
		k.reopen()
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		topics, _ := k.changes(partition, since)
		k.expect(slices.Contains(topics, restoredName), "Changes does not report a restored topic")
		k.reopen()
		got, want := k.head(restoredName), h
		want.Version = got.Version
		k.same("the head", got, want)
		k.same("the entries", k.read(restoredName, h.Trimmed), entries)
		k.trimmedAs("reading from the beginning", restoredName, journal.Anchor{}, journal.TrimmedError{To: h.Trimmed, Reason: journal.GapRetention})
		for _, e := range entries {
			found := find(k.Context(), k.h.Store, e.ID).must(k, "Find")
			k.same("the topic that Find returns", found.topic, restoredName)
			k.same("the body", call(k.h.Body(k.Context(), restoredName, found.entry)).must(k, "Body"), e.Body)
		}
		k.same("entries that another Refill adds", refill(entries), 0)

		next := k.add(restoredName, at(9), timed(6, 7, "next"))
		k.same("the seq of the next entry", next.Seq, h.Last.Seq+1)
		k.same("entries that a Refill adds to a topic that has gone on", refill(entries), 0)
		foreign := entries[0]
		foreign.ID[0]++
		foreign.Position++
		k.fails(errOf(k.h.Refill(k.Context(), restoredName, []journal.Entry{foreign})), journal.ErrHeadMoved, "Refill of a topic that has entries of its own")
		cut := call(k.h.Trim(k.Context(), restoredName, journal.Cut{Before: at(6), KeepBytes: -1})).must(k, "Trim")
		k.same("bytes after a trim", cut.Bytes, entries[3].Size+next.Size)
		k.same("entries after a trim", len(k.read(restoredName, cut.Trimmed)), 2)
		k.fails(find(k.Context(), k.h.Store, entries[2].ID).err, journal.ErrNotFound, "Find of a trimmed entry")
	}},
	{"RemovedTopicIsRefilled", func(k *kit) {
		k.fill(topicName, 3)
		h := k.head(topicName)
		remembered := call(k.h.Intervals(k.Context(), topicName)).must(k, "Intervals")
		entries := k.read(topicName, journal.Anchor{})
		k.ok(k.h.Remove(k.Context(), topicName, h.Version), "Remove")
		k.same("entries that Refill adds", call(k.h.Refill(k.Context(), topicName, entries)).must(k, "Refill"), 3)
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		k.same("the entries", k.read(topicName, journal.Anchor{}), entries)
	}},
}
