package storetest

import (
	"slices"

	"github.com/rshub/rshub/journal"
)

func (k *kit) remove() journal.Head {
	k.Helper()
	k.ok(k.h.Remove(k.Context(), topicName, k.head(topicName).Version), "Remove")
	return k.head(topicName)
}

// removedAt checks that Read after an anchor reports the entries up to another as removed.
func (k *kit) removedAt(what string, after, to journal.Anchor) {
	k.Helper()
	k.trimmedAs(what, topicName, after, journal.TrimmedError{To: to, Reason: journal.GapRemoved})
}

var removeChecks = []Check{
	{"RemoveLeavesATombstone", func(k *kit) {
		const other = topicName + "other/"
		entries := k.fill(topicName, journal.Remembered+3)
		entries = append(entries, k.add(topicName, at(90), timed(67, 68, string(make([]byte, 700<<10)))), k.add(topicName, at(91), plain("")))
		k.record(topicName, lost(3, 5))
		kept := k.fill(other, 2)
		k.ping(92, topicName, other)
		before, keptHead := k.head(topicName), k.head(other)
		last := entries[len(entries)-1].Anchor()

		head := k.remove()
		want := journal.Head{Topic: topicName, Version: head.Version, Epoch: before.Epoch + 1, Last: last, Trimmed: last, Removed: last}
		k.same("the head", head, want)
		k.expect(head.Version != "" && head.Version != before.Version, "the version of the tombstone is %q after %q", head.Version, before.Version)
		for range 2 {
			for _, e := range entries {
				k.fails(find(k.Context(), k.h, e.ID).err, journal.ErrNotFound, "Find of entry %d", e.Seq)
				k.fails(errOf(k.h.Body(k.Context(), topicName, e)), journal.ErrNotFound, "Body of entry %d", e.Seq)
			}
			remembered := call(k.h.Intervals(k.Context(), topicName)).must(k, "Intervals")
			k.same("remembered intervals", len(remembered), 0)
			k.fails(errOf(k.h.Interval(k.Context(), topicName, at(66), at(67))), journal.ErrNotFound, "Interval")
			k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
			k.removedAt("from the start", journal.Anchor{}, last)
			k.removedAt("from an entry that was removed", entries[5].Anchor(), last)
			k.same("entries after the last", len(k.read(topicName, last)), 0)

			k.same("the head of another topic", k.head(other), keptHead)
			k.same("its entries", k.read(other, journal.Anchor{}), kept)
			k.same("its pings", k.pingRecord(other).Pings, uint64(1))
			k.reopen()
			k.same("the head after a restart", k.head(topicName), want)
		}
	}},
	{"RemovedTopicStartsAnywhere", func(k *kit) {
		entries := k.fill(topicName, 3)
		head := k.remove()
		wrong := head.Last
		wrong.Nonce++
		k.fails(errOf(k.h.Read(k.Context(), topicName, wrong, 10, 1<<20)), journal.ErrRolledBack, "reading after another entry than the last")
		next := k.add(topicName, at(-1000), plain("x")) // the clock is behind
		k.expect(next.Seq == 4 && next.Position > head.Last.Position, "seq %d and position %d after 3 and %d", next.Seq, next.Position, head.Last.Position)
		got := k.head(topicName)
		k.same("the head after the next entry", got, journal.Head{
			Topic: topicName, Version: got.Version, Kind: journal.KindContent, Epoch: head.Epoch,
			Last: next.Anchor(), ID: next.ID, SHA256: next.SHA256, ReceivedAt: next.ReceivedAt,
			Trimmed: head.Last, Removed: head.Last, Entries: 1, Bytes: 1,
		})
		k.same("what a cursor at the tombstone reads", k.read(topicName, head.Last), []journal.Entry{next})
		k.removedAt("from before the removal", entries[0].Anchor(), head.Last)
		last := k.add(topicName, at(1), plain("y"))
		k.trim(journal.Cut{Before: at(100), KeepBytes: -1})
		k.removedAt("from before the removal, after a trim", entries[0].Anchor(), head.Last)
		k.trimmed("from the tombstone, after a trim", head.Last, last.Anchor())
	}},
	{"RemoveComparesTheHead", func(k *kit) {
		k.fill(topicName, 1)
		stale := k.head(topicName)
		entries := append(k.read(topicName, journal.Anchor{}), k.fill(topicName, 1)...)
		before := k.head(topicName)
		for _, v := range []journal.Version{stale.Version, "", "no version of ours"} {
			k.fails(k.h.Remove(k.Context(), topicName, v), journal.ErrHeadMoved, "Remove of version %q", v)
		}
		k.same("the head after it was refused", k.head(topicName), before)
		k.same("the entries", k.read(topicName, journal.Anchor{}), entries)
		k.remove()
		for _, v := range []journal.Version{before.Version, ""} {
			k.fails(errOf(k.h.Append(k.Context(), at(9), topicName, timed(2, 3, "x"), v)), journal.ErrHeadMoved, "Append onto version %q of a topic that was removed", v)
		}
	}},
	{"RemoveMakesNoHead", func(k *kit) {
		const other = topicName + "other/"
		k.ping(1, topicName, other)
		k.same("the head", k.remove(), journal.Head{Topic: topicName})
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
		k.same("pings of another topic", k.pingRecord(other).Pings, uint64(1))
		k.fails(k.h.Remove(k.Context(), topicName, "no version of ours"), journal.ErrHeadMoved, "Remove of a version of a topic that has no head")
	}},
	// A crash in the middle leaves a topic that was trimmed. It is removed like any other.
	{"RemoveGoesOnWhereItBrokeOff", func(k *kit) {
		entries := k.fill(topicName, 6)
		k.trim(journal.Cut{Before: at(4), KeepBytes: -1})
		k.reopen()
		last := entries[5].Anchor()
		first := k.remove()
		k.removedAt("from the start", journal.Anchor{}, last)
		again := k.remove()
		k.same("the epoch after a second removal", again.Epoch, first.Epoch+1)
		k.same("where positions go on", again.Last, last)
	}},
	// Damage does not prevent the removal of a topic.
	{"RemoveDeletesWhatIsDamaged", ifDamaged(func(k *kit) {
		for _, d := range everyDamage {
			for i := range 3 {
				topic, entries := k.damage(d, i)
				k.ok(k.h.Remove(k.Context(), topic, k.head(topic).Version), "Remove of a topic with "+d.String())
				head, last := k.head(topic), entries[2].Anchor()
				k.expect(head.IsTombstone() && head.Last == last, "%v: the head is %+v", d, head)
				k.same(d.String()+": entries after the last", len(k.read(topic, last)), 0)
				for _, e := range entries {
					k.fails(find(k.Context(), k.h, e.ID).err, journal.ErrNotFound, "%v at %d: Find of entry %d", d, i, e.Seq)
				}
			}
		}
	})},
	{"ChangesReportARemoval", func(k *kit) {
		k.fill(topicName, 1)
		partition := journal.Partition(journal.TopicID(topicName))
		_, since := k.changes(partition, 0)
		k.remove()
		topics, since := k.changes(partition, since)
		k.expect(slices.Contains(topics, topicName), "Changes reports %v", topics)
		topics, _ = k.changes(partition, since)
		k.same("what is reported again", len(topics), 0)
	}},
	// A file that was exported before the removal restores the topic, but not its epoch.
	{"RemovedTopicIsRestored", func(k *kit) {
		k.fill(topicName, 3)
		h, remembered := exported(k, topicName)
		h.Topic = topicName
		removed := k.remove()
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		got := k.head(topicName)
		want := restored(h, got.Version)
		want.Epoch = removed.Epoch
		k.same("the head", got, want)
		_, again := exported(k, topicName)
		k.same("what is remembered", again, remembered)
	}},
}
