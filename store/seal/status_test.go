package seal

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Every missing key is named, with how many subscriptions need it.
func TestMissingKeysAreNamed(t *testing.T) {
	if err := (Missing{}).Err(true); err != nil {
		t.Errorf("none is missing: %v", err)
	}
	one, many := ID{1}, ID{2}
	missing := Missing{many: 3, one: 1}
	for atLeast, want := range map[bool]string{false: "3 subscriptions have", true: "at least 3 subscriptions have"} {
		err := missing.Err(atLeast)
		var key *KeyError
		if !errors.As(err, &key) || key.ID != one || !strings.HasPrefix(err.Error(), "1 subscription has a secret") || !strings.Contains(err.Error(), "\n"+want) ||
			!strings.Contains(err.Error(), many.String()) {
			t.Errorf("%v", err)
		}
	}
}

// Keys name the keys that sealed some secrets, each once, and say whether Seal would store all of
// them in the same way.
func TestKeysThatSealedSomeSecrets(t *testing.T) {
	none, err := New()
	if err != nil || none != nil || none.IDs() != nil {
		t.Errorf("no key: %v, %v", none, err)
	}
	first, second := keysOf(t, 1), keysOf(t, 2)
	plain, a, b, c := none.Seal(nil, "secret", "a"), first.Seal(nil, "secret", "a"), first.Seal(nil, "secret", "b"), second.Seal(nil, "secret", "c")
	one, two := first.IDs()[0], second.IDs()[0]
	for _, tc := range []struct {
		keys   *Keys
		stored [][]byte
		ids    []ID
		fresh  bool
	}{
		{first, nil, nil, true},
		{none, [][]byte{plain, nil}, nil, true},
		{first, [][]byte{a, b, nil}, []ID{one}, true},
		{first, [][]byte{a, c, b}, []ID{one, two}, false},
		{first, [][]byte{a, plain}, []ID{one}, false},
		{none, [][]byte{c}, []ID{two}, false},
	} {
		if ids, fresh := tc.keys.SealedBy(tc.stored...); !slices.Equal(ids, tc.ids) || fresh != tc.fresh {
			t.Errorf("%v sealed %q: %v, fresh: %t; want %v, %t", tc.keys.IDs(), tc.stored, ids, fresh, tc.ids, tc.fresh)
		}
	}
}
