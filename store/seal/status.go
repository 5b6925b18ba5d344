package seal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Status says how a store keeps secrets since it was opened.
type Status struct {
	// Key is the one that sealed all of them; nil: they are stored as they are.
	Key *ID
	// Resealed counts what the store stored anew when it was opened, because the
	// secrets in it were stored as they are, or sealed with another key.
	Resealed int
	// Retired are the keys that nothing is sealed with any more since then. Other hubs
	// on the same store still seal with one of them until they are started with the
	// new key.
	Retired []ID
}

// SealedBy returns the keys that sealed some of the stored secrets, each once, and
// whether k would store all of these in the same way today.
func (k *Keys) SealedBy(stored ...[]byte) (ids []ID, fresh bool) {
	fresh = true
	for _, s := range stored {
		fresh = fresh && k.Fresh(s)
		if id, ok := SealedBy(s); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, fresh
}

// Missing counts the subscriptions with a secret that none of the keys opens, by the
// key that sealed it.
type Missing map[ID]int

// Err returns an error that wraps a *KeyError for each missing key; nil: none is
// missing. AtLeast says that more subscriptions may have such a secret.
func (m Missing) Err(atLeast bool) error {
	var errs []error
	for _, id := range slices.SortedFunc(maps.Keys(m), func(a, b ID) int { return bytes.Compare(a[:], b[:]) }) {
		count := fmt.Sprintf("%d subscriptions have", m[id])
		switch {
		case m[id] == 1:
			count = "1 subscription has"
		case atLeast:
			count = "at least " + count
		}
		errs = append(errs, fmt.Errorf("%s a secret that cannot be read: %w; nothing was changed", count, &KeyError{ID: id}))
	}
	return errors.Join(errs...)
}
