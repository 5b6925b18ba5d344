package delivery

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
)

func TestRingIsAFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int]
		var model []int
		for n := range rapid.IntRange(0, 3000).Draw(t, "operations") {
			if rapid.IntRange(0, 9).Draw(t, "push") < 6 {
				r.push(n)
				model = append(model, n)
				continue
			}
			got, ok := r.pop()
			if ok != (len(model) > 0) || ok && got != model[0] {
				t.Fatalf("popped %d %v of %v", got, ok, model)
			}
			if ok {
				model = model[1:]
			}
		}
		if r.len() != len(model) {
			t.Fatalf("%d items, want %d", r.len(), len(model))
		}
	})
}

func TestTimersComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timers[*lane]
		lanes := make([]*lane, 50)
		for i := range lanes {
			lanes[i] = &lane{timer: -1}
		}
		for range rapid.IntRange(0, 300).Draw(t, "operations") {
			l := rapid.SampledFrom(lanes).Draw(t, "lane")
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				h.drop(l)
				continue
			}
			h.set(l, rapid.Int64Range(0, 1000).Draw(t, "due"))
		}
		var want, got []int64
		for _, l := range lanes {
			if l.timer >= 0 {
				want = append(want, h.due(l))
			}
		}
		slices.Sort(want)
		if len(want) > 0 {
			if _, ok := h.pop(want[0] - 1); ok {
				t.Fatal("popped before its time")
			}
		}
		for len(h.items) > 0 {
			due := h.items[0].due
			got = append(got, due)
			if l, ok := h.pop(due); !ok || l.timer != -1 {
				t.Fatal("popped and still in")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("popped %v, want %v", got, want)
		}
	})
}

// Lanes that are added and removed during a walk hide no other from it.
func TestWalkMissesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m members
		var all []*lane
		for range rapid.IntRange(0, 30).Draw(t, "lanes") {
			all = append(all, new(lane))
			m.add(all[len(all)-1], &all[len(all)-1].inTopic)
		}
		seen, left := make(map[*lane]bool), slices.Clone(all)
		m.walk = len(m.lanes)
		for {
			if len(left) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(left)-1).Draw(t, "which")
				m.remove(left[i].inTopic, inTopic)
				left = slices.Delete(left, i, i+1)
			}
			l := m.next()
			if l == nil {
				break
			}
			seen[l] = true
		}
		for _, l := range left {
			if !seen[l] {
				t.Fatal("a lane that was there all the time was missed")
			}
		}
	})
}

func TestPackedCursorIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			if rapid.Bool().Draw(t, name+" set") {
				return time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, name), rapid.Int64Range(1, 999_999_999).Draw(t, name+" ns")).UTC()
			}
			return time.Time{}
		}
		c := journal.Cursor{
			Generation: rapid.Uint64().Draw(t, "generation"),
			Anchor: journal.Anchor{
				Position: journal.Position(rapid.Uint64().Draw(t, "position")), Nonce: journal.Nonce(rapid.Uint64().Draw(t, "nonce")),
				Seq: rapid.Uint64().Draw(t, "seq"), Until: at("until"),
			},
			Nudge: rapid.Uint32().Draw(t, "nudge"), Attempt: rapid.Uint32().Draw(t, "attempt"),
			Step: rapid.Uint32Range(0, 65535).Draw(t, "step"), NextAttemptAt: at("next"), FirstAttemptAt: at("first"),
			LastStatus: rapid.IntRange(-4, 999).Draw(t, "status"),
		}
		if got := packCursor(c).unpack(); got.Compare(c) != 0 {
			t.Fatalf("%+v came back as %+v", c, got)
		}
	})
	if got := packCursor(journal.Cursor{}).unpack(); got != (journal.Cursor{}) {
		t.Errorf("the zero cursor came back as %+v", got)
	}
}
