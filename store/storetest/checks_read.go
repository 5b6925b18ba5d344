package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// rolledBack checks that Read recognises an anchor as lost.
func (k *kit) rolledBack(what string, a journal.Anchor) {
	k.Helper()
	k.fails(errOf(k.h.Read(k.Context(), topicName, a, 10, 100)), journal.ErrRolledBack, "%s: Read", what)
}

// trimmed checks that Read reports the entries after an anchor as trimmed, up to another anchor.
func (k *kit) trimmed(what string, a, to journal.Anchor) {
	k.Helper()
	k.trimmedAs(what, topicName, a, journal.TrimmedError{To: to, Reason: journal.GapRetention})
}

// trimmedAs checks that Read after an anchor fails with a *journal.TrimmedError like want.
func (k *kit) trimmedAs(what, topic string, a journal.Anchor, want journal.TrimmedError) {
	k.Helper()
	var got *journal.TrimmedError
	err := errOf(k.h.Read(k.Context(), topic, a, 10, 100))
	k.expect(errors.As(err, &got) && *got == want, "%s: Read gave the error %v, want %+v", what, err, want)
}

var readChecks = []Check{
	{"ReadGoesOnAfterAnyAnchor", func(k *kit) {
		k.same("entries of an unknown topic", len(k.read(topicName, journal.Anchor{})), 0)
		entries := k.fill(topicName, 5)
		k.fill(topicName+"other", 2)
		k.same("entries", k.read(topicName, journal.Anchor{}), entries)
		for i, e := range entries {
			k.same("entries after one", k.read(topicName, e.Anchor()), entries[i+1:])
			got := call(k.h.Read(k.Context(), topicName, e.Anchor(), 2, 1000)).must(k, "Read")
			k.same("two entries after one", got, entries[i+1:min(i+3, len(entries))])
		}
		got := call(k.h.Read(k.Context(), topicName, journal.Anchor{}, 0, 1000)).must(k, "Read")
		k.same("no entries", len(got), 0)
	}},
	{"ReadGivesBodiesAsLongAsTheyFit", func(k *kit) {
		sizes := []int{10, 20, 70 << 10, 5, 0}
		for i, n := range sizes {
			k.add(topicName, at(i), timed(i, i+1, string(make([]byte, n))))
		}
		for _, tc := range []struct {
			limit int64
			want  int // entries with a body
		}{{-1, 0}, {0, 0}, {9, 0}, {10, 1}, {29, 1}, {30, 2}, {30 + 70<<10 - 1, 2}, {30 + 70<<10, 3}, {35 + 70<<10, 5}, {1 << 30, 5}} {
			got := call(k.h.Read(k.Context(), topicName, journal.Anchor{}, 100, tc.limit)).must(k, "Read")
			k.same("entries", len(got), len(sizes))
			for i, e := range got {
				k.expect((e.Body != nil) == (i < tc.want) && (e.Body == nil || len(e.Body) == sizes[i]), "limit %d: entry %d of %d bytes came with %d (nil: %t)", tc.limit, i, sizes[i], len(e.Body), e.Body == nil)
				k.same("the length of the body alone", len(call(k.h.Body(k.Context(), topicName, e)).must(k, "Body")), sizes[i])
			}
		}
	}},
	// Invariant 5.
	{"ReadChecksItsAnchor", func(k *kit) {
		lost := journal.Anchor{Position: 5, Nonce: 6, Seq: 1, Until: at(0)}
		k.rolledBack("an anchor in a topic that has no entry", lost)
		entries := k.fill(topicName, 4)
		k.rolledBack("a position before the first entry, where nothing was trimmed", lost)
		for i, e := range entries {
			a := e.Anchor()
			a.Nonce++
			k.rolledBack(fmt.Sprintf("another nonce at entry %d", i), a)
			a = e.Anchor()
			a.Position++
			k.rolledBack(fmt.Sprintf("a position after entry %d that none has", i), a)
		}
		// A trimmed entry is not lost, and the anchors of the others are still checked.
		k.trim(journal.Cut{KeepBytes: entries[3].Size})
		k.trimmed("a position before what was trimmed", lost, entries[2].Anchor())
		a := entries[3].Anchor()
		a.Nonce++
		k.rolledBack("another nonce after a trim", a)
		a = entries[2].Anchor()
		a.Position++
		k.rolledBack("a position right after what was trimmed", a)
	}},
	// A nonce of zero is compared with none, so reading can begin at an instant.
	{"ReadingBeginsAtAnInstant", func(k *kit) {
		entries := k.fill(topicName, 5)
		k.trim(journal.Cut{Before: at(2), KeepBytes: -1})
		for i, e := range entries[2:] {
			got := k.read(topicName, journal.Anchor{Position: e.Position - 1})
			k.same("entries after the instant before an entry", got, entries[i+2:])
		}
		k.same("entries after the instant of the newest", len(k.read(topicName, journal.Anchor{Position: entries[4].Position})), 0)
	}},
	// Invariant 5: a restored folder, a failover.
	{"RolledBackJournalIsNoticed", func(k *kit) {
		kept := k.fill(topicName, 3)
		before := k.head(topicName)
		rollback := call(k.h.Snapshot()).must(k, "Snapshot")
		lost := k.fill(topicName, 2)
		k.h.Store = call(rollback()).must(k, "rolling back")
		k.same("the head after it", k.head(topicName), before)
		for _, e := range lost {
			k.rolledBack("an entry that was lost", e.Anchor())
		}
		k.fails(errOf(k.h.Interval(k.Context(), topicName, lost[0].From, lost[0].Until)), journal.ErrNotFound, "the interval of a lost entry")
		again := k.fill(topicName, 3) // the Source sends them again, and one more
		for _, e := range lost {
			k.rolledBack("an entry that was lost and sent again", e.Anchor())
		}
		k.same("entries after the newest that was kept", k.read(topicName, kept[2].Anchor()), again)
	}},
	{"FindAndBodyAfterATrim", func(k *kit) {
		small, large := k.add(topicName, at(1), timed(0, 1, "x")), k.add(topicName, at(2), timed(1, 2, string(make([]byte, 100<<10))))
		k.trim(journal.Cut{KeepBytes: 0})
		for _, e := range []journal.Entry{small, large} {
			k.fails(find(k.Context(), k.h, e.ID).err, journal.ErrNotFound, "Find")
			k.fails(errOf(k.h.Body(k.Context(), topicName, e)), journal.ErrNotFound, "Body")
		}
	}},
}

var trimChecks = []Check{
	{"TrimByAge", func(k *kit) {
		entries := k.fill(topicName, 6) // received at 1 to 6
		h := k.trim(journal.Cut{Before: at(3), KeepBytes: -1})
		k.same("the head that Trim returns", h, k.head(topicName))
		k.same("what was trimmed", h.Trimmed, entries[1].Anchor())
		k.same("what is left", k.read(topicName, h.Trimmed), entries[2:])
		k.same("entries", h.Entries, int64(4))
		k.same("bytes", h.Bytes, 4*entries[0].Size)
		k.same("again", k.trim(journal.Cut{Before: at(3), KeepBytes: -1}), h)
	}},
	{"TrimByBytes", func(k *kit) {
		entries := k.fill(topicName, 6)
		size := entries[0].Size
		h := k.trim(journal.Cut{KeepBytes: 6 * size})
		k.same("what was trimmed under the limit", h.Trimmed, journal.Anchor{})
		h = k.trim(journal.Cut{KeepBytes: 3*size + 1})
		k.same("what is left", k.read(topicName, h.Trimmed), entries[3:])
		k.same("again", k.trim(journal.Cut{KeepBytes: 3*size + 1}), h)
	}},
	{"TrimByBoth", func(k *kit) {
		entries := k.fill(topicName, 6)
		h := k.trim(journal.Cut{Before: at(2), KeepBytes: 3 * entries[0].Size})
		k.same("the limit of bytes trims more", h.Trimmed, entries[2].Anchor())
		h = k.trim(journal.Cut{Before: at(6), KeepBytes: 3 * entries[0].Size})
		k.same("the limit of age trims more", h.Trimmed, entries[4].Anchor())
	}},
	{"TrimNothing", func(k *kit) {
		entries := k.fill(topicName, 3)
		before := k.head(topicName)
		k.same("the head", k.trim(journal.Cut{Before: time.Time{}, KeepBytes: -1}), before)
		k.same("entries", k.read(topicName, journal.Anchor{}), entries)
	}},
	// Trim deletes only the oldest entries, so a clock that went back does not open a hole.
	{"TrimDeletesTheOldestOnly", func(k *kit) {
		k.add(topicName, at(100), timed(0, 1, "x"))
		k.add(topicName, at(1), timed(1, 2, "y"))
		h := k.trim(journal.Cut{Before: at(50), KeepBytes: -1})
		k.same("entries", h.Entries, int64(2))
	}},
	{"TrimWithCursorsOnEachSide", func(k *kit) {
		entries := k.fill(topicName, 6)
		to := entries[3].Anchor()
		k.trim(journal.Cut{KeepBytes: 2 * entries[0].Size})
		k.trimmed("from the start", journal.Anchor{}, to)
		for _, e := range entries[:3] {
			k.trimmed("from a trimmed entry", e.Anchor(), to)
		}
		k.same("from the last that was trimmed", k.read(topicName, to), entries[4:])
		k.same("from the first that is left", k.read(topicName, entries[4].Anchor()), entries[5:])
		k.same("from the head", len(k.read(topicName, entries[5].Anchor())), 0)
	}},
	{"TrimOfAllKeepsTheHead", func(k *kit) {
		entries := append(k.fill(topicName, 3), k.add(topicName, at(9), timed(3, 4, string(make([]byte, 100<<10)))))
		want := k.head(topicName)
		want.Trimmed, want.Entries, want.Bytes = want.Last, 0, 0
		k.same("the head", k.trim(journal.Cut{KeepBytes: 0}), want)
		k.same("the head later", k.head(topicName), want)
		k.trimmed("from the start", journal.Anchor{}, want.Last)
		k.same("from the head", len(k.read(topicName, entries[3].Anchor())), 0)
		next := k.fill(topicName, 2)
		k.same("what came after", k.read(topicName, entries[3].Anchor()), next)
		k.trimmed("from a trimmed entry", entries[2].Anchor(), want.Last)
	}},
	{"TrimTouchesOneTopic", func(k *kit) {
		k.fill(topicName, 3)
		other := k.fill(topicName+"other", 3)
		k.trim(journal.Cut{KeepBytes: 0})
		k.same("the other topic", k.read(topicName+"other", journal.Anchor{}), other)
	}},
	{"TopicsInPages", func(k *kit) {
		const partition = 7
		topics := topicsOf(partition, 7)
		for _, topic := range append(topicsOf(partition+1, 2), topics...) {
			k.fill(topic, 1)
		}
		k.same("the topics", k.pages(func(after uuid.UUID) (out []uuid.UUID) {
			for _, h := range call(k.h.Topics(k.Context(), partition, after, pageOf)).must(k, "Topics") {
				out = append(out, journal.TopicID(h.Topic))
				k.same("the head", h, k.head(h.Topic))
			}
			return out
		}), topicIDs(topics))
	}},
}

var watchChecks = []Check{
	{"ChangesReportEveryTopicThatMoved", func(k *kit) {
		const partition = 200
		topics := topicsOf(partition, 4)
		ask := func(since uint64, want ...string) uint64 {
			k.Helper()
			got, next := k.changes(partition, since)
			slices.Sort(got)
			slices.Sort(want)
			k.same(fmt.Sprintf("the topics changed since %d", since), slices.Compact(got), want)
			return next
		}
		zero := ask(0)
		k.fill(topics[0], 3)
		k.fill(topics[1], 1)
		k.fill(topicsOf(partition+1, 1)[0], 1)
		one := ask(zero, topics[0], topics[1])
		ask(one)
		k.fill(topics[2], 1)
		k.fill(topics[0], 1)
		two := ask(one, topics[0], topics[2])
		ask(zero, topics[0], topics[1], topics[2])
		ask(0, topics[0], topics[1], topics[2])
		for range 300 { // each topic is reported once, however often it changed
			k.add(topics[3], at(0), plain("x"))
		}
		ask(two, topics[3])
		got, _ := k.changes(partition, two)
		k.expect(len(got) <= len(topics), "%d changes of %d topics are reported", len(got), len(topics))
	}},
	{"HintsComeAtOnceAndEnd", func(k *kit) {
		ctx, cancel := context.WithCancel(k.Context())
		defer cancel()
		first, second := journal.HintedTopics(ctx, k.h.Hints), journal.HintedTopics(ctx, k.h.Hints)
		var mu sync.Mutex
		var hints []journal.Hint
		k.h.Hints(ctx, func(h journal.Hint) {
			mu.Lock()
			defer mu.Unlock()
			if h.Entry != nil {
				e := *h.Entry
				e.Body = bytes.Clone(e.Body)
				h.Entry = &e
			}
			hints = append(hints, h)
		})
		k.fill(topicName, 1)
		for _, ch := range []<-chan string{first, second} {
			select {
			case topic := <-ch:
				k.same("the hint", topic, topicName)
			case <-time.After(k.patience):
				k.Fatalf("no hint")
			}
		}
		for range 600 { // nothing reads the hints
			k.add(topicName, at(0), plain("x"))
		}
		k.add(topicName, at(0), timed(1, 2, string(make([]byte, 100<<10))))
		cancel()
		mu.Lock()
		came := len(hints)
		all := k.read(topicName, journal.Anchor{})
		for _, h := range hints {
			if h.Entry == nil {
				continue
			}
			before, n := journal.Anchor{}, int(h.Entry.Seq)-1
			if n > 0 {
				before = all[n-1].Anchor()
			}
			k.same("the entry of a hint", *h.Entry, all[n])
			k.same("the entry before it", h.After, before)
		}
		mu.Unlock()
		k.fill(topicName+"other", 1)
		mu.Lock()
		defer mu.Unlock()
		for _, h := range hints[came:] {
			k.expect(h.Topic == topicName, "a hint came after the end of its context")
		}
	}},
}
