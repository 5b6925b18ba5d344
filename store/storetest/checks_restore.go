package storetest

import (
	"errors"
	"slices"

	"github.com/rshub/rshub/journal"
)

// restoredName is the topic that is made of another.
const restoredName = topicName + "restored"

// export returns the state of a topic, under the name restoredName.
func (k *kit) export(topic string) (journal.Head, []journal.Interval) {
	k.Helper()
	h := k.head(topic)
	remembered, err := k.h.Intervals(k.Context(), topic)
	k.ok(err, "Intervals")
	h.Topic = restoredName
	return h, remembered
}

// restored is what becomes of a head by restoring it.
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
			want = append(want, journal.Interval{From: e.From, Until: e.Until, SHA256: e.SHA256, ID: e.ID, Position: e.Position})
		}
		k.same("what is remembered, oldest first", remembered, want)

		partition := journal.Partition(journal.TopicID(other))
		_, since, err := k.h.Changes(k.Context(), partition, 0)
		k.ok(err, "Changes")
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		if topics, _, err := k.h.Changes(k.Context(), partition, since); err != nil || !slices.Contains(topics, other) {
			k.Errorf("who watches is not told of a restored topic (%v)", err)
		}
		k.reopen()
		got := k.head(other)
		if got.Version == "" {
			k.Errorf("a restored head has no version")
		}
		k.same("the restored head", got, restored(h, got.Version))
		_, again := k.export(other)
		k.same("what is remembered of it", again, want)

		k.same("entries after its head", len(k.read(other, h.Last)), 0)
		trimmed := (*journal.TrimmedError)(nil)
		if _, err := k.h.Read(k.Context(), other, entries[5].Anchor(), 10, 1<<20); !errors.As(err, &trimmed) || trimmed.To != h.Last {
			k.Errorf("reading what did not travel: %v", err)
		}
		wrong := h.Last
		wrong.Nonce++
		if _, err := k.h.Read(k.Context(), other, wrong, 10, 1<<20); !errors.Is(err, journal.ErrRolledBack) {
			k.Errorf("reading after another entry than the last: %v", err)
		}

		n := len(entries)
		next := k.add(other, at(-1000), timed(n, n+1, "next")) // the clock of this store is behind
		if next.Seq != h.Last.Seq+1 || next.Position <= h.Last.Position {
			k.Errorf("the next entry has seq %d and position %d after %d and %d", next.Seq, next.Position, h.Last.Seq, h.Last.Position)
		}
		if _, err := k.h.Interval(k.Context(), other, want[0].From, want[0].Until); !errors.Is(err, journal.ErrNotFound) {
			k.Errorf("the oldest of the remembered intervals is kept: %v", err)
		}
		if _, err := k.h.Interval(k.Context(), other, want[1].From, want[1].Until); err != nil {
			k.Errorf("the second of the remembered intervals: %v", err)
		}
		k.same("entries after the next", len(k.read(other, h.Last)), 1)
	}},
	{"RestoreTakesNothingBack", func(k *kit) {
		k.fill(topicName, 2)
		const other = restoredName
		older, olderIntervals := k.export(topicName)
		k.fill(topicName, 2)
		h, remembered := k.export(topicName)

		k.ok(k.h.Restore(k.Context(), older, olderIntervals), "Restore of an older state")
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of a newer state of a topic that got nothing since")
		got := k.head(other)
		k.same("the head", got, restored(h, got.Version))
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore of the same")
		k.same("the head after the same again, version included", k.head(other), got)
		_, intervals := k.export(other)
		k.same("what is remembered", intervals, remembered)
		if err := k.h.Restore(k.Context(), older, olderIntervals); !errors.Is(err, journal.ErrHeadMoved) {
			k.Errorf("Restore of an older state: %v", err)
		}
		k.same("the head after an older one was refused", k.head(other), got)

		k.add(other, at(9), timed(4, 5, "x"))
		got = k.head(other)
		later := h
		later.Last.Position, later.Last.Seq = got.Last.Position+1, got.Last.Seq+1
		for name, given := range map[string]journal.Head{"the same": h, "a later": later} {
			if err := k.h.Restore(k.Context(), given, remembered); !errors.Is(err, journal.ErrHeadMoved) {
				k.Errorf("Restore of %s state over a topic with entries: %v", name, err)
			}
		}
		k.same("the head that has an entry", k.head(other), got)
		k.same("its entries", len(k.read(other, h.Last)), 1)
	}},
}
