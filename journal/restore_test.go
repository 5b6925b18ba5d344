package journal

import (
	"errors"
	"testing"
)

func TestRestored(t *testing.T) {
	anchor := func(p Position, n Nonce) Anchor { return Anchor{Position: p, Nonce: n, Seq: uint64(p)} }
	given := Head{Topic: "t", Version: "theirs", Kind: KindChange, Last: anchor(5, 50), Trimmed: anchor(2, 20), Bytes: 9}
	want := Head{Topic: "t", Kind: KindChange, Last: anchor(5, 50), Trimmed: anchor(5, 50)}
	for name, tc := range map[string]struct {
		stored Head
		news   bool
		err    error
	}{
		"no head":                         {Head{Topic: "t"}, true, nil},
		"the same":                        {Head{Topic: "t", Version: "v", Last: anchor(5, 50), Trimmed: anchor(5, 50)}, false, nil},
		"the same, which has it still":    {Head{Topic: "t", Version: "v", Last: anchor(5, 50), Entries: 1}, false, nil},
		"an older one that was restored":  {Head{Topic: "t", Version: "v", Last: anchor(4, 40), Trimmed: anchor(4, 40)}, true, nil},
		"a newer one":                     {Head{Topic: "t", Version: "v", Last: anchor(6, 60), Trimmed: anchor(6, 60)}, false, ErrHeadMoved},
		"an older one with entries":       {Head{Topic: "t", Version: "v", Last: anchor(4, 40), Entries: 1}, false, ErrHeadMoved},
		"another entry at the same place": {Head{Topic: "t", Version: "v", Last: anchor(5, 51), Trimmed: anchor(5, 51)}, false, ErrHeadMoved},
	} {
		got, news, err := Restored(tc.stored, given)
		if news != tc.news || !errors.Is(err, tc.err) {
			t.Errorf("%s: %t, %v; want %t, %v", name, news, err, tc.news, tc.err)
		}
		expect := tc.stored
		if tc.news {
			expect = want
		}
		if got.Last != expect.Last || got.Trimmed != expect.Trimmed || got.Version != expect.Version || got.Entries != expect.Entries || got.Kind != expect.Kind {
			t.Errorf("%s: %+v, want %+v", name, got, expect)
		}
	}

	given.Entries = 3
	if got, news, err := Restored(Head{Topic: "t"}, given); err != nil || !news || got.Trimmed != given.Trimmed || got.Entries != 3 || got.Bytes != 9 {
		t.Errorf("a head that was refilled: %+v, %t, %v", got, news, err)
	}
}

func TestRefillable(t *testing.T) {
	anchor := Anchor{Position: 5, Nonce: 50, Seq: 5}
	for name, tc := range map[string]struct {
		stored Head
		from   Position
		err    error
	}{
		"no head":                        {Head{}, 1, nil},
		"a head with entries":            {Head{Version: "v", Last: anchor, Entries: 1}, 6, ErrHeadMoved},
		"an older head without entries":  {Head{Version: "v", Last: anchor}, 6, nil},
		"the same head without entries":  {Head{Version: "v", Last: anchor}, 5, ErrHeadMoved},
		"a head of a removed topic":      {Head{Version: "v", Last: anchor, Removed: anchor}, 1, nil},
		"a removed topic with new entry": {Head{Version: "v", Last: anchor, Removed: Anchor{Position: 4}, Entries: 1}, 6, ErrHeadMoved},
	} {
		if err := Refillable(tc.stored, tc.from); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
	}
}
