package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rshub/rshub/journal"
)

func (k *kit) remove() journal.Head {
	k.Helper()
	k.ok(k.h.Remove(k.Context(), topicName, k.head(topicName).Version), "Remove")
	return k.head(topicName)
}

// removedAt checks that reading after an anchor leads over what was removed.
func (k *kit) removedAt(what string, after, to journal.Anchor) {
	k.Helper()
	_, err := k.h.Read(k.Context(), topicName, after, 10, 1<<20)
	var trimmed *journal.TrimmedError
	if !errors.As(err, &trimmed) || *trimmed != (journal.TrimmedError{To: to, Reason: journal.GapRemoved}) {
		k.Errorf("%s: Read gave the error %v, want one of entries that were removed", what, err)
	}
}

var removeChecks = []Check{
	{"RemoveLeavesATombstone", func(k *kit) {
		const other = topicName + "other/"
		entries := k.fill(topicName, journal.Remembered+3)
		entries = append(entries, k.add(topicName, at(90), timed(67, 68, string(make([]byte, 700<<10)))), k.add(topicName, at(91), plain("")))
		k.record(topicName, lost(3, 5))
		kept := k.fill(other, 2)
		k.ok(k.h.Ping(k.Context(), at(92), []string{topicName, other}), "Ping")
		before, keptHead := k.head(topicName), k.head(other)
		last := entries[len(entries)-1].Anchor()

		head := k.remove()
		want := journal.Head{Topic: topicName, Version: head.Version, Epoch: before.Epoch + 1, Last: last, Trimmed: last, Removed: last}
		k.same("the head", head, want)
		if head.Version == "" || head.Version == before.Version {
			k.Errorf("the version of the tombstone is %q after %q", head.Version, before.Version)
		}
		for range 2 {
			for _, e := range entries {
				if _, _, err := k.h.Find(k.Context(), e.ID); !errors.Is(err, journal.ErrNotFound) {
					k.Errorf("Find of entry %d: %v", e.Seq, err)
				}
				if _, err := k.h.Body(k.Context(), topicName, e); !errors.Is(err, journal.ErrNotFound) {
					k.Errorf("Body of entry %d: %v", e.Seq, err)
				}
			}
			remembered, err := k.h.Intervals(k.Context(), topicName)
			k.ok(err, "Intervals")
			k.same("remembered intervals", len(remembered), 0)
			if _, err := k.h.Interval(k.Context(), topicName, at(66), at(67)); !errors.Is(err, journal.ErrNotFound) {
				k.Errorf("Interval: %v", err)
			}
			ping, err := k.h.PingRecord(k.Context(), topicName)
			k.ok(err, "PingRecord")
			k.same("the ping record", ping, journal.PingRecord{Topic: topicName})
			k.removedAt("from the start", journal.Anchor{}, last)
			k.removedAt("from an entry that was removed", entries[5].Anchor(), last)
			k.same("entries after the last", len(k.read(topicName, last)), 0)

			k.same("the head of another topic", k.head(other), keptHead)
			k.same("its entries", k.read(other, journal.Anchor{}), kept)
			if ping, err := k.h.PingRecord(k.Context(), other); err != nil || ping.Pings != 1 {
				k.Errorf("its ping record is %+v (%v)", ping, err)
			}
			k.reopen()
			k.same("the head after a restart", k.head(topicName), want)
		}
	}},
	{"RemovedTopicStartsAnywhere", func(k *kit) {
		entries := k.fill(topicName, 3)
		head := k.remove()
		wrong := head.Last
		wrong.Nonce++
		if _, err := k.h.Read(k.Context(), topicName, wrong, 10, 1<<20); !errors.Is(err, journal.ErrRolledBack) {
			k.Errorf("reading after another entry than the last: %v", err)
		}
		next := k.add(topicName, at(-1000), plain("x")) // the clock is behind
		if next.Seq != 4 || next.Position <= head.Last.Position {
			k.Errorf("seq %d and position %d after 3 and %d", next.Seq, next.Position, head.Last.Position)
		}
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
			if err := k.h.Remove(k.Context(), topicName, v); !errors.Is(err, journal.ErrHeadMoved) {
				k.Errorf("Remove of version %q: %v", v, err)
			}
		}
		k.same("the head after it was refused", k.head(topicName), before)
		k.same("the entries", k.read(topicName, journal.Anchor{}), entries)
		k.remove()
		for _, v := range []journal.Version{before.Version, ""} {
			if _, err := k.h.Append(k.Context(), at(9), topicName, timed(2, 3, "x"), v); !errors.Is(err, journal.ErrHeadMoved) {
				k.Errorf("Append onto version %q of a topic that was removed: %v", v, err)
			}
		}
	}},
	{"RemoveMakesNoHead", func(k *kit) {
		const other = topicName + "other/"
		k.ok(k.h.Ping(k.Context(), at(1), []string{topicName, other}), "Ping")
		k.same("the head", k.remove(), journal.Head{Topic: topicName})
		ping, err := k.h.PingRecord(k.Context(), topicName)
		k.ok(err, "PingRecord")
		k.same("the ping record", ping, journal.PingRecord{Topic: topicName})
		if ping, err := k.h.PingRecord(k.Context(), other); err != nil || ping.Pings != 1 {
			k.Errorf("the ping record of another topic is %+v (%v)", ping, err)
		}
		if err := k.h.Remove(k.Context(), topicName, "no version of ours"); !errors.Is(err, journal.ErrHeadMoved) {
			k.Errorf("Remove of a version, of a topic that has none: %v", err)
		}
	}},
	// What a crash in the middle leaves is a topic that was trimmed: it is removed
	// as any other.
	{"RemoveGoesOnWhereItBrokeOff", func(k *kit) {
		entries := k.fill(topicName, 6)
		k.trim(journal.Cut{Before: at(4), KeepBytes: -1})
		k.reopen()
		last := entries[5].Anchor()
		first := k.remove()
		k.removedAt("from the start", journal.Anchor{}, last)
		again := k.remove()
		k.same("the epoch of who is removed twice", again.Epoch, first.Epoch+1)
		k.same("where positions go on", again.Last, last)
	}},
	// Nothing that is damaged keeps a topic from being removed.
	{"RemoveTakesWhatIsDamaged", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		for _, d := range everyDamage {
			for i := range 3 {
				topic, entries := k.damage(d, i)
				k.ok(k.h.Remove(k.Context(), topic, k.head(topic).Version), "Remove of a topic with "+d.String())
				head, last := k.head(topic), entries[2].Anchor()
				if !head.Forgotten() || head.Last != last {
					k.Errorf("%v: the head is %+v", d, head)
				}
				k.same(d.String()+": entries after the last", len(k.read(topic, last)), 0)
				for _, e := range entries {
					if _, _, err := k.h.Find(k.Context(), e.ID); !errors.Is(err, journal.ErrNotFound) {
						k.Errorf("%v at %d: Find of entry %d: %v", d, i, e.Seq, err)
					}
				}
			}
		}
	}},
	{"WhoWatchesHearsOfARemoval", func(k *kit) {
		k.fill(topicName, 1)
		partition := journal.Partition(journal.TopicID(topicName))
		_, since, err := k.h.Changes(k.Context(), partition, 0)
		k.ok(err, "Changes")
		k.remove()
		topics, since, err := k.h.Changes(k.Context(), partition, since)
		k.ok(err, "Changes")
		if !slices.Contains(topics, topicName) {
			k.Errorf("Changes tells %v", topics)
		}
		topics, _, err = k.h.Changes(k.Context(), partition, since)
		k.same(fmt.Sprintf("what is told again (%v)", err), len(topics), 0)
	}},
	// A file that was exported before brings a topic back, and its epoch stays.
	{"RemovedTopicIsRestored", func(k *kit) {
		k.fill(topicName, 3)
		h, remembered := k.export(topicName)
		h.Topic = topicName
		removed := k.remove()
		k.ok(k.h.Restore(k.Context(), h, remembered), "Restore")
		got := k.head(topicName)
		want := restored(h, got.Version)
		want.Epoch = removed.Epoch
		k.same("the head", got, want)
		_, again := k.export(topicName)
		k.same("what is remembered", again, remembered)
	}},
}
