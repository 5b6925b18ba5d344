package seal

import (
	"errors"
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
