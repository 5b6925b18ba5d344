package embedstore

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func feedID(n int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// A feed returns what changed after a value, once, and nothing else.
func TestFeedAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f feed
		f.start(3)
		last := map[uuid.UUID]uint64{}
		var values []uint64
		for range rapid.IntRange(0, 500).Draw(t, "changes") {
			id := feedID(rapid.IntRange(0, 20).Draw(t, "id"))
			f.bump(id)
			last[id] = f.now
			values = append(values, f.now)
		}
		for _, since := range append(values, 3<<epochShift) {
			var want []uuid.UUID
			for id, n := range last {
				if n > since {
					want = append(want, id)
				}
			}
			slices.SortFunc(want, func(a, b uuid.UUID) int { return int(last[a]) - int(last[b]) })
			got, now, all := f.since(since)
			if !slices.Equal(got, want) || now != f.now || all {
				t.Fatalf("since %d: %v, want %v; now %d, all %t", since, got, want, now, all)
			}
		}
		// Values of an earlier run, or of a store that was put in another's
		// place, get all.
		for _, since := range []uint64{0, 3<<epochShift - 1, f.now + 1} {
			if got, _, all := f.since(since); !all || len(got) != len(last) {
				t.Fatalf("since %d: %d ids, all %t", since, len(got), all)
			}
		}
	})
}

// Invariant 12.
func TestFeedIsBounded(t *testing.T) {
	var f feed
	f.start(1)
	zero := f.now
	for i := range 3 * feedMax {
		f.bump(feedID(i))
		if len(f.last) > feedMax+1 || len(f.log) > 2*feedMax+65 {
			t.Fatalf("%d ids and %d changes kept after %d changes", len(f.last), len(f.log), i+1)
		}
	}
	if _, _, all := f.since(zero); !all {
		t.Error("who is too far behind is not told all")
	}
	recent := f.now
	f.bump(feedID(1))
	if ids, _, all := f.since(recent); all || !slices.Equal(ids, []uuid.UUID{feedID(1)}) {
		t.Errorf("who is not is told %v, all %t", ids, all)
	}
	for range 10 * feedMax { // one id alone
		f.bump(feedID(1))
	}
	if len(f.log) > 2*feedMax+65 {
		t.Errorf("%d changes", len(f.log))
	}
}
