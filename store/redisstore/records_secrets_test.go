package redisstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// Of two hubs with different keys, the one without the right key says so when it
// starts, and what only one can read is no hindrance to what both can.
func TestStoresWithDifferentSealKeys(t *testing.T) {
	url, prefix := redistest.Standalone(t, redistest.Shared()).URL(), freshPrefix()
	one, other := sealKeys(t, 1), sealKeys(t, 2)
	a := openStore(t, Options{URL: url, Prefix: prefix, Keys: one, Timeout: patience})
	sub := fill(t, a, 1)[0]
	for name, keys := range map[string]*seal.Keys{"another key": other, "no key": nil} {
		_, err := Open(t.Context(), Options{URL: url, Prefix: prefix, Keys: keys})
		if missing := (*seal.KeyError)(nil); !errors.As(err, &missing) || missing.ID != one.IDs()[0] {
			t.Errorf("%s: %v, want a *seal.KeyError", name, err)
		}
	}
	// The key is changed while a hub with the old one alone still runs.
	b := openStore(t, Options{URL: url, Prefix: prefix, Keys: sealKeys(t, 2, 1), Timeout: patience})
	if got := b.Found.Secrets; got.Resealed != 1 || *got.Key != other.IDs()[0] || !slices.Equal(got.Retired, one.IDs()) {
		t.Errorf("after the change of the key: %+v", got)
	}
	if _, err := a.Get(t.Context(), sub.ID); !errors.Is(err, journal.ErrPacked) {
		t.Errorf("the hub without the new key reads the secret: %v", err)
	}
	late := subscriptionNo(7)
	set(t, a, late.ID, subscriptions.Record{Subscription: &late})
	if got := get(t, b, late.ID).Subscription.Secret; got != late.Secret {
		t.Errorf("the secret is %q", got)
	}
	_, err := Open(t.Context(), Options{URL: url, Prefix: prefix, Keys: other})
	if missing := (*seal.KeyError)(nil); !errors.As(err, &missing) {
		t.Errorf("the old key is missing, which sealed something since, and Open says %v", err)
	}
}

func sealKeys(t testing.TB, of ...byte) *seal.Keys {
	t.Helper()
	var secrets [][32]byte
	for _, b := range of {
		secrets = append(secrets, [32]byte{b})
	}
	keys, err := seal.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
