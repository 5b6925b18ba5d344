package journal

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lost is the gap of a journal that goes on after its entry n, and whose entry
// last was the newest that was seen; entry n ends at at(n).
func lost(n, last int64) Gap {
	return Gap{
		From: at(n), Until: at(last), Count: uint64(last - n), Reason: GapRolledBack, At: at(100 + last),
		Position: Position(1000 + last), Seq: uint64(last),
	}
}

// Invariants 5 and 10: what was lost is recorded once, whoever notices it.
func TestLose_Invariant10(t *testing.T) {
	source := Gap{From: at(1), Until: at(40), Reason: GapSource, At: at(1)}
	again := lost(10, 15)
	again.Position, again.At = 2015, at(300) // the Source sent it again, and it was lost again
	for _, tc := range []struct {
		name string
		had  []Gap
		g    Gap
		want []Gap
		same bool
	}{
		{name: "the first", g: lost(10, 15), want: []Gap{lost(10, 15)}},
		{name: "it is there", had: []Gap{lost(10, 15)}, g: lost(10, 15), want: []Gap{lost(10, 15)}, same: true},
		{name: "a part of it is", had: []Gap{source, lost(10, 15)}, g: lost(10, 14), want: []Gap{source, lost(10, 15)}, same: true},
		{name: "who saw more", had: []Gap{lost(10, 14)}, g: lost(10, 15), want: []Gap{lost(10, 15)}},
		{name: "who saw more at either end", had: []Gap{lost(10, 15)}, g: lost(8, 14), want: []Gap{lost(8, 15)}},
		{name: "of another reason", had: []Gap{source}, g: lost(10, 15), want: []Gap{source, lost(10, 15)}},
		{name: "another one", had: []Gap{lost(10, 15)}, g: lost(20, 25), want: []Gap{lost(10, 15), lost(20, 25)}},
		{name: "between two", had: []Gap{lost(10, 15), source, lost(20, 25)}, g: lost(12, 21), want: []Gap{source, lost(10, 25)}},
		{name: "the same again later", had: []Gap{lost(10, 15)}, g: again, want: []Gap{again}},
	} {
		h := Head{Topic: "t", Gaps: slices.Clone(tc.had)}
		got, news := h.Lose(tc.g)
		if d := cmp.Diff(tc.want, got.Gaps); d != "" || news == tc.same {
			t.Errorf("%s: news %t\n%s", tc.name, news, d)
		}
		if d := cmp.Diff(tc.had, h.Gaps); d != "" {
			t.Errorf("%s: the head that was given changed:\n%s", tc.name, d)
		}
	}
}

// However many hubs notice what, in whatever order and how often: the head says
// the same, and keeps MaxGaps at most.
func TestLoseIsIdempotentAndInNoOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var noticed []Gap
		for range 1 + r.IntN(5) {
			from := r.Int64N(10)
			noticed = append(noticed, lost(from, from+1+r.Int64N(10)))
		}
		var want []Gap
		for round := range 3 {
			var h Head
			for _, g := range noticed {
				h, _ = h.Lose(g)
			}
			for _, g := range noticed {
				if _, news := h.Lose(g); news {
					t.Fatalf("%v is news to %v", g, h.Gaps)
				}
			}
			if slices.SortFunc(h.Gaps, func(a, b Gap) int { return a.From.Compare(b.From) }); round == 0 {
				want = h.Gaps
			} else if d := cmp.Diff(want, h.Gaps); d != "" {
				t.Fatalf("%v in another order:\n%s", noticed, d)
			}
			r.Shuffle(len(noticed), func(i, j int) { noticed[i], noticed[j] = noticed[j], noticed[i] })
		}
	}
	var h Head
	for n := range int64(3 * MaxGaps) {
		h, _ = h.Lose(lost(10*n, 10*n+5))
	}
	if len(h.Gaps) != MaxGaps || h.Gaps[0].Count == 5 {
		t.Errorf("%d gaps, the first %v", len(h.Gaps), h.Gaps[0])
	}
}

// A reader whose newest entry was lost reads on after the newest entry that the journal
// is known to have kept. Where two losses may have taken its entry, that is the older one.
func TestBackFrom_Invariant5(t *testing.T) {
	kept := func(n int64) Anchor { return Anchor{Position: Position(1000 + n), Nonce: Nonce(n), Seq: uint64(n)} }
	after := func(g Gap, n int64) Gap {
		g.After = kept(n)
		return g
	}
	source := after(Gap{Reason: GapSource, Position: 9999}, 1)
	for _, tc := range []struct {
		name    string
		noticed []Gap
		trimmed int64
		at      int64 // the entry that was read last
		want    int64 // 0: after what was trimmed
	}{
		{name: "nothing is known", at: 12},
		{name: "the newest that was kept", noticed: []Gap{after(lost(10, 15), 10)}, at: 12, want: 10},
		{name: "the newest that was lost", noticed: []Gap{after(lost(10, 15), 10)}, at: 15, want: 10},
		{name: "newer than what was lost", noticed: []Gap{after(lost(10, 15), 10)}, at: 16},
		{name: "the entry that was kept", noticed: []Gap{after(lost(10, 15), 10)}, at: 10},
		{name: "of two losses the one that took it", noticed: []Gap{after(lost(10, 15), 10), after(lost(20, 25), 20)}, at: 22, want: 20},
		{name: "a hub that knew less", noticed: []Gap{after(lost(10, 15), 10), after(lost(8, 15), 8)}, at: 12, want: 8},
		{name: "a hub that knew more", noticed: []Gap{after(lost(8, 15), 8), after(lost(10, 15), 10)}, at: 12, want: 8},
		{name: "a hub that kept less", noticed: []Gap{after(lost(10, 15), 10), after(lost(10, 15), 8)}, at: 12, want: 8},
		{name: "a version that did not say it", noticed: []Gap{lost(10, 15), after(lost(10, 15), 10)}, at: 12},
		{name: "it was trimmed since", noticed: []Gap{after(lost(10, 15), 10)}, trimmed: 11, at: 12},
		{name: "a gap of another reason", noticed: []Gap{source}, at: 12},
	} {
		h := Head{Topic: "t", Trimmed: Anchor{Position: Position(1000 + tc.trimmed)}}
		for _, g := range tc.noticed {
			if g.Reason == GapSource {
				h.Gaps = AddGap(h.Gaps, g)
			} else {
				h, _ = h.Lose(g)
			}
		}
		to, ok := h.BackFrom(Position(1000 + tc.at))
		if want := kept(tc.want); ok != (tc.want != 0) || ok && to != want {
			t.Errorf("%s: %+v, %t; want %+v", tc.name, to, ok, want)
		}
	}
}

// Who leaves before delivery has noticed that its newest entry was lost has missed what came after the newest entry that
// was kept.
func TestReadFrom_Invariant10(t *testing.T) {
	entry := func(position int64, seq uint64) Anchor {
		return Anchor{Position: Position(1000 + position), Nonce: Nonce(position), Seq: seq}
	}
	rolledBack := func(after Anchor, newest int64) Gap {
		return Gap{Reason: GapRolledBack, After: after, Position: Position(1000 + newest)}
	}
	for _, tc := range []struct {
		name     string
		gaps     []Gap
		trimmed  Anchor
		last, at Anchor
		want     Anchor
	}{
		{name: "nothing was lost", last: entry(20, 20), at: entry(12, 12), want: entry(12, 12)},
		{name: "it has everything", last: entry(20, 20), at: entry(20, 20), want: entry(20, 20)},
		{name: "it had nothing", last: entry(20, 20)},
		{name: "the tail was lost", last: entry(10, 10), at: entry(12, 12), want: entry(12, 12)},
		{name: "the tail was lost, and it is known", gaps: []Gap{rolledBack(entry(10, 10), 15)}, last: entry(10, 10), at: entry(12, 12), want: entry(10, 10)},
		{name: "others stand there", gaps: []Gap{rolledBack(entry(10, 10), 15)}, last: entry(30, 13), at: entry(12, 12), want: entry(10, 10)},
		{name: "others stand there, and nobody knows", last: entry(30, 11), at: entry(12, 12)},
		{name: "it is read since", gaps: []Gap{rolledBack(entry(10, 10), 15)}, last: entry(30, 13), at: entry(20, 12), want: entry(20, 12)},
		{name: "all of it was lost", gaps: []Gap{rolledBack(Anchor{}, 56)}, last: entry(60, 1), at: entry(45, 45)},
		{name: "all of it was lost, and more came since", gaps: []Gap{rolledBack(Anchor{}, 56)}, last: entry(160, 90), at: entry(45, 45)},
		{name: "it was trimmed since", gaps: []Gap{rolledBack(entry(10, 10), 15)}, trimmed: entry(25, 11), last: entry(30, 13), at: entry(12, 12), want: entry(25, 11)},
		{name: "another one has its place", last: Anchor{Position: 1020, Nonce: 5, Seq: 20}, at: entry(20, 20), want: entry(20, 20)},
		{name: "its place was given again", gaps: []Gap{rolledBack(entry(10, 10), 25)}, last: entry(20, 20), at: entry(20, 20), want: entry(20, 20)},
		{name: "another loss", gaps: []Gap{{Reason: GapSource, Position: 9999}}, last: entry(20, 20), at: entry(12, 12), want: entry(12, 12)},
	} {
		h := Head{Gaps: tc.gaps, Last: tc.last, Trimmed: tc.trimmed}
		if got := h.ReadFrom(tc.at); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
