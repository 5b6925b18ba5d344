package storetest

import (
	"slices"

	"github.com/rshub/rshub/journal"
)

// restoredName is the topic that a check restores from another.
const restoredName = topicName + "restored"

// export returns the state of a topic, under the name restoredName.
func (k *kit) export(topic string) (journal.Head, []journal.Interval) {
	k.Helper()
	h := k.head(topic)
	remembered := call(k.h.Intervals(k.Context(), topic)).must(k, "Intervals")
	h.Topic = restoredName
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
		h, remembered := k.export(topicName)
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
		_, again := k.export(other)
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
		older, olderIntervals := k.export(topicName)
		k.fill(topicName, 2)
		h, remembered := k.export(topicName)

		k.ok(k.h.Restore(k.Context(), older, olderIntervals), "Restore of an older state")
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of a newer state of a topic without new entries")
		got := k.head(other)
		k.same("the head", got, restored(h, got.Version))
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of the same")
		k.same("the head after the same again, version included", k.head(other), got)
		_, intervals := k.export(other)
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
}
