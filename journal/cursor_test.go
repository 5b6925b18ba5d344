package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func genCursor(t *rapid.T, label string) Cursor {
	small := rapid.Uint64Range(0, 2)
	at := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(int64(small.Draw(t, "s")), 0).UTC()
	})
	return Cursor{
		Generation: small.Draw(t, label+" generation"),
		Anchor: Anchor{
			Position: Position(small.Draw(t, label+" position")),
			Nonce:    Nonce(small.Draw(t, label+" nonce")),
			Seq:      small.Draw(t, label+" seq"),
			Until:    at.Draw(t, label+" until"),
		},
		Nudge:          uint32(small.Draw(t, label+" nudge")),
		Attempt:        uint32(small.Draw(t, label+" attempt")),
		Step:           uint32(small.Draw(t, label+" step")),
		NextAttemptAt:  at.Draw(t, label+" next"),
		FirstAttemptAt: at.Draw(t, label+" first"),
		LastStatus:     int(small.Draw(t, label+" status")),
	}
}

// Invariant 3: commits may come in any order, twice or late, and the result is
// the same.
func TestMergeIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genCursor(t, "a"), genCursor(t, "b"), genCursor(t, "c")
		if d := cmp.Diff(Merge(a, b), Merge(b, a)); d != "" {
			t.Fatalf("not commutative:\n%s", d)
		}
		if d := cmp.Diff(Merge(Merge(a, b), c), Merge(a, Merge(b, c))); d != "" {
			t.Fatalf("not associative:\n%s", d)
		}
		if d := cmp.Diff(Merge(a, a), a); d != "" {
			t.Fatalf("not idempotent:\n%s", d)
		}
		if m := Merge(a, b); cmp.Equal(m, a) == false && cmp.Equal(m, b) == false {
			t.Fatalf("the merge of two cursors is neither")
		}
	})
}

// Invariant 3: what decides, and in which order.
func TestCompareIsLexicographic(t *testing.T) {
	base := Cursor{Generation: 5, Anchor: Anchor{Position: 5, Nonce: 5}, Nudge: 5, Attempt: 5}
	// Each step is greater than base although everything that ranks below it
	// is smaller.
	steps := map[string]Cursor{
		"generation": {Generation: 6},
		"position":   {Generation: 5, Anchor: Anchor{Position: 6}},
		"nudge":      {Generation: 5, Anchor: Anchor{Position: 5}, Nudge: 6},
		"attempt":    {Generation: 5, Anchor: Anchor{Position: 5}, Nudge: 5, Attempt: 6},
		"nonce":      {Generation: 5, Anchor: Anchor{Position: 5, Nonce: 6}, Nudge: 5, Attempt: 5},
	}
	for name, c := range steps {
		if c.Compare(base) <= 0 || base.Compare(c) >= 0 {
			t.Errorf("%s does not outrank what follows it", name)
		}
	}
	// Two positions 100 ns apart near 2^60 are equal as floating-point numbers.
	a, b := Cursor{Anchor: Anchor{Position: 1_790_000_000_000_000_000}}, Cursor{Anchor: Anchor{Position: 1_790_000_000_000_000_100}}
	if a.Compare(b) >= 0 {
		t.Error("two positions 100 ns apart compare equal")
	}
}

// Invariant 4.
func TestMintGeneration(t *testing.T) {
	now := time.UnixMicro(1_000)
	for _, tc := range []struct{ stored, want uint64 }{{0, 1_000}, {999, 1_000}, {1_000, 1_001}, {5_000, 5_001}} {
		if got := MintGeneration(tc.stored, now); got != tc.want {
			t.Errorf("MintGeneration(%d) = %d, want %d", tc.stored, got, tc.want)
		}
	}
}
