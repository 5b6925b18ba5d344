package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

func hash(s string) [32]byte { return sha256.Sum256([]byte(s)) }

var appendChecks = []Check{
	{"AppendKeepsWhatItIsGiven", func(k *kit) {
		e := timed(0, 10, "<urlset/>")
		e.Links = []string{`<https://source.example/.well-known/resourcesync>; rel="resourcesync"`}
		e.Counts = journal.Counts{Created: 1, Updated: 2, Deleted: 3}
		e.Gap = &journal.Gap{From: at(-5), Until: at(0), Count: 0, Reason: journal.GapSource, At: at(11)}
		e.From = e.From.In(time.FixedZone("", 3600))
		out := k.add(topicName, at(11), e)

		want := e
		want.ID, want.Position, want.Nonce = out.ID, out.Position, out.Nonce
		want.Seq, want.ReceivedAt = 1, at(11)
		k.same("what Append returns", out, want)
		k.expect(out.Nonce != 0 && out.Position != 0, "nonce %d, position %d", out.Nonce, out.Position)
		if p := journal.Partition(journal.TopicID(topicName)); out.ID.Version() != 7 || journal.IDPartition(out.ID) != p {
			k.Errorf("id %v is not a UUIDv7 that carries partition %d", out.ID, p)
		}
		k.same("what Read returns", k.read(topicName, journal.Anchor{}), []journal.Entry{want})
		want.Body = nil
		found := find(k.Context(), k.h, out.ID).must(k, "Find")
		k.same("the topic that Find returns", found.topic, topicName)
		k.same("what Find returns", found.entry, want)
	}},
	{"AppendKeepsNoSliceOfTheCaller", func(k *kit) {
		for i, size := range []int{10, 100 << 10} {
			topic := fmt.Sprint(topicName, i)
			e := timed(0, 1, string(make([]byte, size)))
			e.Links = []string{"<a>; rel=\"b\""}
			e.Gap = &journal.Gap{Reason: journal.GapReset, At: at(1)}
			k.add(topic, at(1), e)
			e.Body[0], e.Links[0], e.Gap.Reason = 'x', "x", "x"
			got := k.read(topic, journal.Anchor{})
			k.expect(len(got) == 1 && got[0].Body[0] == 0 && got[0].Links[0] != "x" && got[0].Gap.Reason != "x", "a change to the caller's entry of %d bytes after Append shows in the store", size)
		}
	}},
	// Invariant 2.
	{"AppendComparesTheHead", func(k *kit) {
		k.add(topicName, at(1), timed(0, 1, "a"))
		stale := k.head(topicName).Version
		k.add(topicName, at(2), timed(1, 2, "b"))
		before := k.head(topicName)
		for _, v := range []journal.Version{stale, "", "no version of ours"} {
			for _, body := range []string{"c", string(make([]byte, 100<<10))} {
				k.fails(errOf(k.h.Append(k.Context(), at(3), topicName, timed(2, 3, body), v)), journal.ErrHeadMoved, "Append onto version %q", v)
			}
		}
		k.fails(errOf(k.h.Append(k.Context(), at(3), topicName+"new", timed(2, 3, "c"), stale)), journal.ErrHeadMoved, "Append onto a version of a topic that has no head")
		k.same("the head after refused appends", k.head(topicName), before)
		k.same("entries after refused appends", len(k.read(topicName, journal.Anchor{})), 2)
		k.same("the head of the topic that got none", k.head(topicName+"new"), journal.Head{Topic: topicName + "new"})
	}},
	// Invariant 2: exactly one append wins, and there is no gap and no overlap.
	{"RacingAppends", func(k *kit) {
		const racers, rounds = 8, 12
		var mu sync.Mutex
		wins := map[journal.Version]int{}
		var group sync.WaitGroup
		for r := range racers {
			group.Go(func() {
				for range rounds {
					h, err := k.h.Head(k.Context(), topicName)
					if err != nil {
						k.Errorf("Head: %v", err)
						return
					}
					i := int(h.Last.Seq)
					_, err = k.h.Append(k.Context(), at(i), topicName, timed(i, i+1, fmt.Sprint("racer ", r)), h.Version)
					switch {
					case err == nil:
						mu.Lock()
						wins[h.Version]++
						mu.Unlock()
					case !errors.Is(err, journal.ErrHeadMoved):
						k.Errorf("a racing Append: %v", err)
					}
				}
			})
		}
		group.Wait()
		for v, n := range wins {
			k.expect(n == 1, "%d appends won the head %q", n, v)
		}
		got := k.read(topicName, journal.Anchor{})
		k.same("entries", len(got), len(wins))
		for i, e := range got {
			k.expect(e.Seq == uint64(i)+1 && e.From.Equal(at(i)) && e.Until.Equal(at(i+1)), "entry %d has seq %d and the interval %v to %v", i, e.Seq, e.From, e.Until)
		}
	}},
	// Invariant 5: positions rise whatever the clock does. They are the time of the clock
	// where possible.
	{"PositionsRise", func(k *kit) {
		seen := map[journal.Nonce]bool{}
		ids := map[uuid.UUID]bool{}
		var last journal.Position
		for i, s := range []int{100, 100, 50, -1_000_000, 101, 200} {
			e := k.add(topicName, at(s), timed(i, i+1, "x"))
			k.expect(e.Position > last, "position %d after %d", e.Position, last)
			k.expect(e.Position >= journal.Position(at(s).UnixNano()), "position %d is before the clock", e.Position)
			k.expect(!seen[e.Nonce] && !ids[e.ID], "nonce %d or id %v came twice", e.Nonce, e.ID)
			seen[e.Nonce], ids[e.ID] = true, true
			last = e.Position
		}
		// The head still knows the position when no entry is left and the clock went back.
		k.trim(journal.Cut{KeepBytes: 0})
		if e := k.add(topicName, at(0), timed(9, 10, "x")); e.Position <= last {
			k.Errorf("position %d after a trim that took %d", e.Position, last)
		}
	}},
	{"SeqIsDense", func(k *kit) {
		for i, e := range append(k.fill(topicName, 5), k.fill(topicName+"other", 3)...) {
			if want := uint64(i%5) + 1; e.Seq != want {
				k.Errorf("seq %d, want %d", e.Seq, want)
			}
		}
		k.trim(journal.Cut{KeepBytes: 0})
		if e := k.fill(topicName, 1)[0]; e.Seq != 6 {
			k.Errorf("seq %d after a trim, want 6", e.Seq)
		}
	}},
	{"BodiesOfAnySize", func(k *kit) {
		after := journal.Anchor{}
		for i, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10} {
			body := make([]byte, size)
			for j := range body {
				body[j] = byte(j * (i + 1) >> 3)
			}
			e := k.add(topicName, at(i), timed(i, i+1, string(body)))
			k.same("Size", e.Size, int64(size))
			got := k.read(topicName, after)
			k.expect(len(got) == 1 && got[0].Body != nil && string(got[0].Body) == string(body), "a body of %d bytes came back different from Read", size)
			b := call(k.h.Body(k.Context(), topicName, e)).must(k, "Body")
			k.expect(b != nil && string(b) == string(body), "a body of %d bytes came back as %d from Body", size, len(b))
			after = e.Anchor()
		}
	}},
}

var headChecks = []Check{
	{"HeadOfATopicWithoutEntries", func(k *kit) {
		k.same("the head", k.head(topicName), journal.Head{Topic: topicName})
		k.fails(errOf(k.h.Interval(k.Context(), topicName, at(0), at(1))), journal.ErrNotFound, "Interval")
		k.fails(find(k.Context(), k.h, uuid.New()).err, journal.ErrNotFound, "Find")
		k.same("Trim", k.trim(journal.Cut{}), journal.Head{Topic: topicName})
	}},
	{"HeadDescribesTheNewestEntry", func(k *kit) {
		want := journal.Head{Topic: topicName, Kind: journal.KindChange}
		bytes := int64(0)
		for i := range 3 {
			e := timed(i, i+1, fmt.Sprint("body ", i))
			if i == 2 { // one without an interval
				e = plain("plain")
			}
			e = k.add(topicName, at(i+10), e)
			bytes += e.Size
			want.Last, want.ID, want.SHA256, want.ReceivedAt = e.Anchor(), e.ID, e.SHA256, at(i+10)
			want.Entries, want.Bytes = int64(i+1), bytes
			if e.Timed() {
				want.From, want.Until = e.From, e.Until
			}
			got := k.head(topicName)
			want.Version = got.Version
			k.same("the head", got, want)
		}
		k.expect(want.Last.Until.Equal(at(12)), "an entry without an interval ends at %v, want the time when it was received", want.Last.Until)
	}},
	{"VersionChangesWithAppendAndResetAlone", func(k *kit) {
		seen := map[journal.Version]bool{"": true}
		for i := range 6 {
			if i == 3 {
				k.ok(k.h.Reset(k.Context(), topicName, k.head(topicName).Version), "Reset")
			} else {
				k.fill(topicName, 1)
			}
			v := k.head(topicName).Version
			k.expect(!seen[v], "version %q came twice", v)
			seen[v] = true
			k.trim(journal.Cut{KeepBytes: 9})
			k.same("the version after a trim", k.head(topicName).Version, v)
		}
	}},
	{"ResetForgetsUntilTheNextTimedEntry", func(k *kit) {
		k.ok(k.h.Reset(k.Context(), topicName, ""), "Reset of a topic without entries")
		k.same("its head", k.head(topicName), journal.Head{Topic: topicName})
		stale := k.head(topicName).Version
		k.fill(topicName, 1)
		k.fails(k.h.Reset(k.Context(), topicName, stale), journal.ErrHeadMoved, "Reset of a head that moved")
		before := k.head(topicName)
		k.ok(k.h.Reset(k.Context(), topicName, before.Version), "Reset")
		got := k.head(topicName)
		k.fails(errOf(k.h.Append(k.Context(), at(9), topicName, timed(1, 2, "x"), before.Version)), journal.ErrHeadMoved, "Append onto the version before the reset")
		before.Reset, before.Kind, before.Version, before.Epoch = true, "", got.Version, before.Epoch+1
		k.same("the head after Reset", got, before)
		k.add(topicName, at(3), plain("x"))
		k.expect(k.head(topicName).Reset, "an entry without an interval ended the reset")
		k.add(topicName, at(90), timed(80, 90, "x"))
		k.expect(!k.head(topicName).Reset, "a timed entry did not end the reset")
	}},
	{"FirstNotificationDecidesTheKind", func(k *kit) {
		framework := plain("z")
		framework.Kind = journal.KindFramework
		for i, step := range []struct {
			e    journal.Entry
			want journal.Kind
		}{
			{plain("x"), journal.KindContent},
			{timed(0, 1, "y"), journal.KindChange},
			{plain("x"), journal.KindChange},
			{framework, journal.KindChange},
		} {
			k.add(topicName, at(i+1), step.e)
			k.same("the kind", k.head(topicName).Kind, step.want)
		}
		k.ok(k.h.Reset(k.Context(), topicName, k.head(topicName).Version), "Reset")
		k.add(topicName, at(9), framework)
		k.same("the kind after a reset", k.head(topicName).Kind, journal.KindFramework)
	}},
	// Invariants 10 and 12.
	{"HeadKeepsTheGapsOfTheTopic", func(k *kit) {
		for i := range journal.MaxGaps + 20 {
			e := timed(10*i+5, 10*i+10, "x")
			e.Gap = &journal.Gap{From: at(10 * i), Until: at(10*i + 5), Count: 1, Reason: journal.GapSource, At: at(i)}
			k.add(topicName, at(10*i), e)
		}
		k.trim(journal.Cut{KeepBytes: 0})
		gaps := k.head(topicName).Gaps
		k.bounded(gaps, journal.MaxGaps+20)
		k.same("the beginning of the oldest gap", gaps[0].From, at(0))
	}},
	{"IntervalsAreRemembered", func(k *kit) {
		const over = 6
		entries := k.fill(topicName, journal.Remembered+over)
		k.add(topicName, at(99), plain("no interval, so nothing is remembered"))
		k.trim(journal.Cut{KeepBytes: 0}) // they outlive the bodies
		for i, e := range entries {
			got := call(k.h.Interval(k.Context(), topicName, e.From.In(time.FixedZone("", 7200)), e.Until))
			if i < over {
				k.fails(got.err, journal.ErrNotFound, "interval %d of %d, where only %d are remembered", i, len(entries), journal.Remembered)
				continue
			}
			k.same("the interval", got.must(k, "Interval"), e.Interval())
		}
		last := entries[len(entries)-1]
		k.fails(errOf(k.h.Interval(k.Context(), topicName, last.From, last.Until.Add(1))), journal.ErrNotFound, "an interval a nanosecond longer")
		k.fails(errOf(k.h.Interval(k.Context(), topicName+"other", last.From, last.Until)), journal.ErrNotFound, "the interval of another topic")
	}},
	{"NewestOfEqualIntervalsIsFound", func(k *kit) {
		k.add(topicName, at(1), timed(1, 1, "first"))
		second := k.add(topicName, at(2), timed(1, 1, "second"))
		k.add(topicName, at(3), timed(1, 3, "third"))
		got := call(k.h.Interval(k.Context(), topicName, at(1), at(1))).must(k, "Interval")
		k.same("the id", got.ID, second.ID)
	}},
}
