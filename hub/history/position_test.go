package history

import (
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

func TestPosition(t *testing.T) {
	a := journal.Anchor{Position: 1764111111111111111, Nonce: 0xfedcba9876543210, Seq: 7, Until: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)}
	old := a
	old.Until = time.Date(12, 1, 1, 0, 0, 0, 999_999_999, time.UTC)
	for _, p := range []Position{
		PositionOf("https://example.org/changes/", a), PositionOf("https://example.org/changes/", old),
		PositionOf("x", journal.Anchor{}), append(PositionOf("a", a), PositionOf("b", journal.Anchor{Position: 1})...),
	} {
		got, err := ParsePosition(p.String())
		if err != nil || len(got) != len(p) {
			t.Fatalf("%v: %v, %v", p, got, err)
		}
		for i := range p {
			if got[i] != p[i] {
				t.Errorf("%v became %v", p[i], got[i])
			}
		}
	}
	p := append(PositionOf("a", a), PositionOf("b", journal.Anchor{Position: 1})...)
	if got, ok := p.After("b"); !ok || got.Position != 1 {
		t.Errorf("the place in b is %v, %t", got, ok)
	}
	if _, ok := p.After("c"); ok {
		t.Error("c has a place")
	}
}

// Whatever a reader sends, the answer is a position or an error, and a position is written
// as it was read.
func FuzzPosition(f *testing.F) {
	f.Add("")
	f.Add("AQ")
	f.Add(PositionOf("a", journal.Anchor{Position: 3, Nonce: 4, Seq: 5, Until: time.Unix(1, 2)}).String())
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePosition(s)
		if err != nil {
			return
		}
		again, err := ParsePosition(p.String())
		if err != nil || len(again) != len(p) || len(p) > MaxTopics {
			t.Fatalf("%q is %v, which is written %q: %v", s, p, p.String(), err)
		}
		for i := range p {
			if p[i] != again[i] {
				t.Errorf("%v became %v", p[i], again[i])
			}
		}
	})
}
