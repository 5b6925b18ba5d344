package storetest

import (
	"github.com/rshub/rshub/journal"
)

// lost is the gap of a journal that goes on after entry n, where entry last was the newest that was
// seen. The n-th entry of fill ends at at(n).
func lost(n, last int) journal.Gap {
	first := journal.Position(start.UnixNano())
	return journal.Gap{
		From: at(n), Until: at(last), Count: uint64(last - n), Reason: journal.GapRolledBack, At: at(100 + last), //nolint:gosec // a few
		Position: first + journal.Position(last), Seq: uint64(last), //nolint:gosec // the same
		After: journal.Anchor{Position: first + journal.Position(n), Nonce: 7, Seq: uint64(n), Until: at(n)}, //nolint:gosec // the same
	}
}

func (k *kit) record(topic string, g journal.Gap) {
	k.Helper()
	k.ok(k.h.RecordGap(k.Context(), topic, g), "RecordGap")
}

// bounded expects the greatest number of gaps that a store keeps. Together they count so many losses.
func (k *kit) bounded(gaps []journal.Gap, count uint64) {
	k.Helper()
	var n uint64
	for _, g := range gaps {
		n += g.Count
	}
	k.expect(len(gaps) == journal.MaxGaps && n == count, "%d gaps that count %d are kept, want %d that count %d", len(gaps), n, journal.MaxGaps, count)
}

// Invariants 5 and 10: the head of a topic keeps the record of what the store lost.
var gapChecks = []Check{
	{"RecordGapJoinsWithTheHead", func(k *kit) {
		k.fill(topicName, 3)
		before := k.head(topicName)
		k.record(topicName, lost(3, 5))
		k.record(topicName, lost(3, 5)) // the same from another hub, or again
		got := k.head(topicName)
		version := got.Version
		before.Gaps, got.Version = []journal.Gap{lost(3, 5)}, before.Version
		k.same("the head except its version", got, before)
		k.record(topicName, lost(3, 7)) // by a hub that had seen more
		k.record(topicName, lost(3, 6))
		k.same("the gap from the hub that had seen more", k.head(topicName).Gaps, []journal.Gap{lost(3, 7)})
		// Publishing goes on with the present version.
		if version != before.Version {
			version = k.head(topicName).Version
		}
		e := timed(8, 9, "x")
		e.Gap = &journal.Gap{From: at(3), Until: at(8), Reason: journal.GapSource, At: at(9), Position: before.Last.Position, Seq: 3}
		k.ok(errOf(k.h.Append(k.Context(), at(9), topicName, e, version)), "Append after RecordGap")
		k.same("the gaps after an append", k.head(topicName).Gaps, []journal.Gap{lost(3, 7), *e.Gap})
		k.reopen()
		k.same("the gaps after a restart", k.head(topicName).Gaps, []journal.Gap{lost(3, 7), *e.Gap})
	}},
	{"RecordGapMakesNoHead", func(k *kit) {
		k.record(topicName, lost(3, 5))
		k.same("the head of a topic that has none", k.head(topicName), journal.Head{Topic: topicName})
	}},
	{"RecordedGapsAreBounded", func(k *kit) {
		const other = topicName + "other/"
		k.fill(other, 1)
		for i := range journal.MaxGaps + 20 {
			k.record(other, lost(10*i, 10*i+1))
		}
		k.bounded(k.head(other).Gaps, journal.MaxGaps+20)
	}},
	// Of two that write at once, neither undoes what the other wrote.
	{"GapsAndAppendsAtOnce", func(k *kit) {
		k.fill(topicName, 1)
		const n = 20
		recorded := make(chan struct{})
		go func() {
			defer close(recorded)
			for i := range n {
				k.fails(k.h.RecordGap(k.Context(), topicName, lost(10*i, 10*i+1)), nil, "RecordGap")
			}
		}()
		appended := int64(1)
		for going := true; going; {
			select {
			case <-recorded:
				going = false
			default:
			}
			h, err := k.h.Head(k.Context(), topicName)
			k.expect(err == nil, "Head: %v", err)
			if _, err := k.h.Append(k.Context(), at(2), topicName, plain("x"), h.Version); err == nil {
				appended++
			}
		}
		h := k.head(topicName)
		k.expect(len(h.Gaps) == n && h.Entries == appended, "%d gaps of %d and %d entries of %d", len(h.Gaps), n, h.Entries, appended)
	}},
}
