package journal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entryAt is the anchor of the n-th entry of a topic, which ends at at(n); of the
// zeroth, that before the first.
func entryAt(n int64) Anchor {
	if n == 0 {
		return Anchor{}
	}
	return Anchor{Position: Position(1000 + 10*n), Nonce: Nonce(n), Seq: uint64(n), Until: at(n)}
}

// headAt is the head of a topic with n entries of which the first k are trimmed.
func headAt(n, k int64) Head {
	return Head{
		Topic: "t", Version: "v", Kind: KindChange, From: at(n - 1), Until: at(n), Last: entryAt(n), Trimmed: entryAt(k), Entries: n - k,
	}
}

// sightAt is what who saw all of a topic from its first-th entry on remembers.
func sightAt(first, n, k int64) (s Sight) {
	for i := first; i <= n; i++ {
		s = headAt(i, min(i, k)).Sight(s)
	}
	return s
}

// Where a head that was lost goes on, and which gap it gets.
func TestRegain_Invariant10(t *testing.T) {
	gap := func(from, until int64) Gap {
		g := lost(from, until)
		g.Position, g.At = entryAt(until).Position, at(500)
		return g
	}
	reached := func(least, greatest int64) *Reached {
		return &Reached{Topic: "t", Least: entryAt(least), Greatest: entryAt(greatest)}
	}
	const old = 100 // so many entries that not all of them are sent again
	for _, tc := range []struct {
		name   string
		had    Head
		s      Sight
		r      *Reached
		until  int64 // of the next head
		last   int64 // its newest entry
		gaps   []Gap
		after  int64 // what the gap says the journal kept; 0: the newest entry
		noNews bool
	}{
		{name: "went back", had: headAt(3, 1), s: sightAt(1, 5, 0), until: 3, last: 3, gaps: []Gap{gap(3, 5)}},
		{name: "went back, and subscriptions lag", had: headAt(3, 3), s: sightAt(1, 5, 3), r: reached(1, 2), until: 3, last: 3, gaps: []Gap{gap(3, 5)}},
		{name: "went on from further back", had: headAt(7, 1), s: sightAt(1, 5, 0), until: 7, last: 7, gaps: []Gap{gap(4, 5)}, after: 1},
		{name: "was in the tail", had: Head{Topic: "t"}, s: sightAt(1, 2, 0), until: 0, last: 0, gaps: []Gap{gap(0, 2)}},
		{name: "was in the tail, as seen by who came later", had: Head{Topic: "t"}, s: sightAt(2, 2, 0), until: 1, last: 1, gaps: []Gap{gap(1, 2)}},
		{name: "vanished, nobody lags", had: Head{Topic: "t"}, s: sightAt(old, old, 0), until: old - 1, last: old - 1, gaps: []Gap{gap(old-1, old)}},
		{name: "vanished, somebody lags", had: Head{Topic: "t"}, s: sightAt(old, old, 0), r: reached(90, old), until: 90, last: 90, gaps: []Gap{gap(90, old)}},
		{name: "vanished, somebody lags behind what is kept", had: Head{Topic: "t"}, s: sightAt(old, old, 95), r: reached(90, old), until: 95, last: 95, gaps: []Gap{gap(95, old)}},
		{name: "vanished, all was trimmed", had: Head{Topic: "t"}, s: sightAt(old, old, old), until: old, last: old},
		{name: "vanished, only subscriptions know", had: Head{Topic: "t"}, s: Sight{Topic: "t", Last: entryAt(old)}, r: reached(90, old), until: 90, last: 90, gaps: []Gap{gap(90, old)}},
		{name: "vanished, only subscriptions know, and one has nothing yet", had: Head{Topic: "t"}, s: Sight{Topic: "t", Last: entryAt(5)}, r: reached(0, 5), until: 5, last: 5},
		{name: "forgotten since", had: Head{Topic: "t", Version: "v", Epoch: 1}, s: sightAt(1, 5, 0), noNews: true},
		{name: "nothing known", had: Head{Topic: "t"}, s: Sight{Topic: "t"}, noNews: true},
	} {
		next, _, news := tc.had.Regain(tc.s, tc.r, at(500))
		if news == tc.noNews {
			t.Errorf("%s: news %t", tc.name, news)
		}
		if tc.noNews {
			continue
		}
		if !next.Until.Equal(at(tc.until)) || next.Last.Seq != uint64(tc.last) || next.Kind != tc.s.Kind && tc.had.Kind == "" {
			t.Errorf("%s: until %v after entry %d, want %v and %d", tc.name, next.Until, next.Last.Seq, at(tc.until), tc.last)
		}
		for i := range tc.gaps {
			if tc.gaps[i].After = next.Last; tc.after != 0 {
				tc.gaps[i].After = entryAt(tc.after)
			}
		}
		if d := cmp.Diff(tc.gaps, next.Gaps); d != "" {
			t.Errorf("%s:\n%s", tc.name, d)
		}
	}
}

// A topic that was reset, or removed, and begun anew, does not take anything after the
// first that it took then was lost.
func TestRegainAfterAReset(t *testing.T) {
	reset := headAt(3, 0)
	reset.Reset, reset.Epoch = true, 1
	tombstone := headAt(3, 3).Tombstone()
	tombstone.Version = "v"
	for name, open := range map[string]Head{"reset": reset, "removed": tombstone} {
		after := headAt(4, int64(open.Trimmed.Seq))
		after.Epoch, after.Removed, after.From, after.Until = 1, open.Removed, at(7), at(8)
		s := after.Sight(open.Sight(Sight{}))
		next, _, news := open.Regain(s, nil, at(500))
		if !news || next.Reset || !next.Until.Equal(at(7)) || next.Last != open.Last || len(next.Gaps) != 1 {
			t.Errorf("%s: %+v", name, next)
		}
		next, _, _ = Head{Topic: "t"}.Regain(s, nil, at(500))
		if !next.Until.Equal(at(7)) || next.Last != open.Last || next.Epoch != 1 {
			t.Errorf("%s, vanished: %+v", name, next)
		}
	}
}

// A topic that an operator reset, and whose head is gone, takes what starts anywhere
// when it comes back, and knows still what that leaves out.
func TestRegainOfAReset(t *testing.T) {
	h := headAt(3, 0)
	h.Reset, h.Epoch = true, 1
	next, _, news := Head{Topic: "t"}.Regain(h.Sight(sightAt(1, 3, 0)), nil, at(500))
	if !news || !next.Reset || next.Epoch != 1 || !next.Until.Equal(at(2)) || len(next.Gaps) != 1 {
		t.Errorf("%+v", next)
	}
	// Somebody who had not heard of it was faster.
	next, _, _ = Head{Topic: "t"}.Regain(sightAt(1, 3, 0), nil, at(500))
	next.Version = "v"
	if next, _, news = next.Regain(h.Sight(sightAt(1, 3, 0)), nil, at(500)); !news || !next.Reset || next.Epoch != 1 {
		t.Errorf("after another: %+v", next)
	}
}

// A topic that an operator removed stays removed when its head is gone, and nothing of
// it counts as lost, though somebody who had not heard of it was faster.
func TestRegainOfARemovedTopic(t *testing.T) {
	tombstone := headAt(3, 3).Tombstone()
	tombstone.Version = "v"
	s := tombstone.Sight(sightAt(1, 3, 0))
	had := Head{Topic: "t"}
	other, _, _ := had.Regain(sightAt(1, 3, 0), nil, at(500))
	other.Version = "v"
	for name, had := range map[string]Head{"first": had, "after another": other} {
		next, gap, news := had.Regain(s, nil, at(500))
		if !news || !next.IsTombstone() || next.Epoch != 1 || next.Last != tombstone.Last || len(next.Gaps) != 0 || gap.Count != 0 {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// HUB-57: a topic that lost its first notification, and those after it, carries
// notifications still, and takes no content any more.
func TestRegainKeepsTheKind(t *testing.T) {
	page := Head{Topic: "t", Version: "v", Kind: KindContent, Last: entryAt(1), Entries: 1}
	reset := headAt(3, 0)
	reset.Kind, reset.Reset, reset.Epoch = "", true, 1
	after := headAt(4, 0)
	after.Epoch, after.Kind = 1, KindFramework
	for name, tc := range map[string]struct {
		had  Head
		s    Sight
		want Kind
	}{
		"content before":       {page, headAt(2, 0).Sight(page.Sight(Sight{})), KindChange},
		"content again since":  {Head{Topic: "t", Version: "v", Kind: KindContent, Last: entryAt(5)}, headAt(2, 0).Sight(page.Sight(Sight{})), KindChange},
		"vanished":             {Head{Topic: "t"}, headAt(2, 0).Sight(page.Sight(Sight{})), KindChange},
		"reset before":         {reset, after.Sight(reset.Sight(Sight{})), KindFramework},
		"the reset was lost":   {headAt(3, 0), reset.Sight(Sight{}), KindChange}, // as its end counts again, too
		"reset, and vanished":  {Head{Topic: "t"}, reset.Sight(Sight{}), ""},
		"reset, and came back": {Head{Topic: "t", Version: "v", Kind: KindChange, Until: at(2), Last: entryAt(2), Trimmed: entryAt(2)}, reset.Sight(Sight{}), ""},
	} {
		next, _, news := tc.had.Regain(tc.s, nil, at(500))
		if next.Kind != tc.want || next.Epoch != tc.s.Epoch || !news {
			t.Errorf("%s: %+v, news %t", name, next, news)
		}
		if again, _, _ := next.Regain(tc.s, nil, at(500)); again.Kind != next.Kind {
			t.Errorf("%s: %q, and again %q", name, next.Kind, again.Kind)
		}
	}
	if s := reset.Sight(Sight{}); s.WithoutHead() {
		t.Error("a reset topic passes for one of which only subscriptions tell")
	}
	if s := headAt(3, 3).Tombstone().Sight(Sight{}); !s.WithoutHead() {
		t.Error("a removed topic passes for one that is there")
	}
}

// Whoever compares first, and how often: the head ends where all need it to, also
// where an operator reset the topic in between.
func TestRegainInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		story := aStory(r, 70+r.IntN(40))
		oldest, same := len(story), true
		var sights []Sight
		var reached []*Reached
		for range 1 + r.IntN(4) {
			last := len(story) - 1 - r.IntN(4)
			first := r.IntN(last + 1)
			var s Sight
			for _, h := range story[first : last+1] {
				s = h.Sight(s)
			}
			sights = append(sights, s)
			oldest = min(oldest, last)
			same = same && s.Epoch == sights[0].Epoch
			var at *Reached
			if seq := int64(s.Last.Seq); r.IntN(2) == 0 {
				least := 1 + r.Int64N(seq)
				at = &Reached{Topic: "t", Least: entryAt(least), Greatest: entryAt(seq)}
			}
			reached = append(reached, at)
		}
		had := Head{Topic: "t"}
		if r.IntN(2) == 0 {
			had = story[r.IntN(oldest)]
		}
		var want string
		for round := range 4 {
			h := had
			for range 2 {
				for i, s := range sights {
					if next, _, news := h.Regain(s, reached[i], at(500)); news {
						h = next
						h.Version = "v"
					}
				}
			}
			got := fmt.Sprint(h.Epoch, h.Reset, h.Kind)
			if same { // else it may be further back where those came first who had not heard of a reset
				got += fmt.Sprint(h.Until, h.Last.Seq, len(h.Gaps))
			}
			if round == 0 {
				want = got
			} else if got != want {
				t.Fatalf("%s, and in another order %s\n%+v\n%+v\n%+v", want, got, had, sights, reached)
			}
			r.Shuffle(len(sights), func(i, j int) {
				sights[i], sights[j] = sights[j], sights[i]
				reached[i], reached[j] = reached[j], reached[i]
			})
		}
	}
}

// aStory returns the heads of a topic with n entries one after the other. Near the
// end some may be resets.
func aStory(r *rand.Rand, n int) (story []Head) {
	var epoch uint64
	for i := int64(1); i <= int64(n); i++ {
		h := headAt(i, 0)
		h.Epoch = epoch
		story = append(story, h)
		for i > int64(n)-4 && r.IntN(4) == 0 {
			epoch++
			h.Reset, h.Kind, h.Epoch = true, "", epoch
			story = append(story, h)
		}
	}
	return story
}
