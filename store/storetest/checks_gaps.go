package storetest

import (
	"github.com/rshub/rshub/journal"
)

// lost is the gap that is left where the journal goes on after its entry n and
// entry last was the newest that was seen; the n-th of fill ends at at(n).
func lost(n, last int) journal.Gap {
	return journal.Gap{
		From: at(n), Until: at(last), Count: uint64(last - n), Reason: journal.GapRolledBack, At: at(100 + last), //nolint:gosec // a few
		Position: journal.Position(start.UnixNano()) + journal.Position(last), Seq: uint64(last), //nolint:gosec // the same
	}
}

func (k *kit) record(topic string, g journal.Gap) {
	k.Helper()
	k.ok(k.h.RecordGap(k.Context(), topic, g), "RecordGap")
}

// Invariants 5 and 10: what the store lost is kept with the head of the topic.
var gapChecks = []Check{
	{"RecordGapJoinsWithTheHead", func(k *kit) {
		k.fill(topicName, 3)
		before := k.head(topicName)
		k.record(topicName, lost(3, 5))
		k.record(topicName, lost(3, 5)) // the same from another hub, or again
		got := k.head(topicName)
		version := got.Version
		before.Gaps, got.Version = []journal.Gap{lost(3, 5)}, before.Version
		k.same("the head, but for its version", got, before)
		k.record(topicName, lost(3, 7)) // by a hub that had seen more
		k.record(topicName, lost(3, 6))
		k.same("the gaps of who saw more", k.head(topicName).Gaps, []journal.Gap{lost(3, 7)})
		// What publishes goes on, with the version as it is now.
		if version != before.Version {
			version = k.head(topicName).Version
		}
		e := timed(8, 9, "x")
		e.Gap = &journal.Gap{From: at(3), Until: at(8), Reason: journal.GapSource, At: at(9), Position: before.Last.Position, Seq: 3}
		_, err := k.h.Append(k.Context(), at(9), topicName, e, version)
		k.ok(err, "Append after RecordGap")
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
		var n uint64
		gaps := k.head(other).Gaps
		for _, g := range gaps {
			n += g.Count
		}
		if len(gaps) != journal.MaxGaps || n != journal.MaxGaps+20 {
			k.Errorf("%d gaps that count %d are kept", len(gaps), n)
		}
	}},
	// None of two that write at once takes the other's away.
	{"GapsAndAppendsAtOnce", func(k *kit) {
		k.fill(topicName, 1)
		const n = 20
		recorded := make(chan struct{})
		go func() {
			defer close(recorded)
			for i := range n {
				if err := k.h.RecordGap(k.Context(), topicName, lost(10*i, 10*i+1)); err != nil {
					k.Errorf("RecordGap: %v", err)
				}
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
			if err != nil {
				k.Errorf("Head: %v", err)
			}
			if _, err := k.h.Append(k.Context(), at(2), topicName, plain("x"), h.Version); err == nil {
				appended++
			}
		}
		if h := k.head(topicName); len(h.Gaps) != n || h.Entries != appended {
			k.Errorf("%d gaps of %d and %d entries of %d", len(h.Gaps), n, h.Entries, appended)
		}
	}},
}
