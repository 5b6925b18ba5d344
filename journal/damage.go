package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrDamaged is wrapped by errors that say that the store answered, but not with what was
// stored: the hash or the length is wrong, unpacking fails, or a value is missing. A store
// that does not answer, a failing disk, a missing mount or a missing permission is never
// damage.
var ErrDamaged = errors.New("what is stored is damaged")

// ErrMissing is the reason of damage if an entry is not in the store, although the numbers of
// its neighbours say that it was stored and never trimmed.
var ErrMissing = errors.New("it is missing from the store")

// DamagedError says that an entry, or its body, is damaged.
type DamagedError struct {
	// At is the anchor of the entry: continue reading after it. If several entries in a row
	// are missing, it is that of the last one.
	At Anchor
	// ID is that of the notification; uuid.Nil: unknown.
	ID uuid.UUID
	// Why says what is wrong.
	Why error
}

func (e *DamagedError) Error() string {
	what := fmt.Sprintf("entry %d", e.At.Seq)
	if e.ID != uuid.Nil {
		what += fmt.Sprintf(", notification %v,", e.ID)
	}
	return fmt.Sprintf("%s is damaged: %v", what, e.Why)
}

// Unwrap returns ErrDamaged and what is wrong.
func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Why} }

// Damaged returns a *DamagedError about e.
func (e *Entry) Damaged(why error) error { return &DamagedError{At: e.Anchor(), ID: e.ID, Why: why} }

// Predecessor returns the anchor of the entry right before e, as far as e has it: its nonce
// is 0, and Until is approximate.
func (e *Entry) Predecessor() Anchor {
	at := Anchor{Position: e.Position - 1, Seq: e.Seq - 1, Until: e.ReceivedAt}
	if e.Timed() {
		at.Until = e.From
	}
	return at
}

// Misses reports whether entries between an anchor and e are missing: entries of a
// topic are numbered densely.
func (e *Entry) Misses(after Anchor) bool {
	known := after.Seq > 0 || after.Position == 0
	return known && e.Seq > after.Seq+1 && e.Position-1 > after.Position
}

// MissingNewest is for a store that has no entry after an anchor. It returns the
// *DamagedError about the newest entry of the topic. Nil: the anchor is the head's.
func (h *Head) MissingNewest(after Anchor) error {
	if h.Last.Position <= after.Position {
		return nil
	}
	at := h.Last
	at.Nonce = 0
	return &DamagedError{At: at, ID: h.ID, Why: ErrMissing}
}

// Check compares a body that was read with the length and the SHA-256 of e. It
// returns nil or a *DamagedError. An entry that was appended with a zero SHA-256 has
// none to compare.
func (e *Entry) Check(body []byte) error {
	if int64(len(body)) != e.Size {
		return e.Damaged(fmt.Errorf("its body has %d bytes, and was stored with %d", len(body), e.Size))
	}
	if e.SHA256 != ([32]byte{}) && sha256.Sum256(body) != e.SHA256 {
		return e.Damaged(errors.New("its body does not have the SHA-256 that it was stored with"))
	}
	return nil
}

// Unreadable reports whether an error of an Unpack function means damage: no newer version
// wrote the value.
func Unreadable(err error) bool {
	return errors.Is(err, ErrPacked) && !errors.Is(err, ErrNewer)
}

// PackedEntryID returns the id that PackEntry wrote, even if the rest of the value is damaged.
// Check it against what is stored under the id.
func PackedEntryID(b []byte) (id uuid.UUID) {
	if len(b) > len(id) {
		copy(id[:], b[1:])
	}
	return id
}

// ReadOn returns the anchor after which to continue if an error of Read says that the entries
// up to it were trimmed or are damaged. False: it is another error.
func ReadOn(err error) (Anchor, bool) {
	var trimmed *TrimmedError
	var damaged *DamagedError
	switch {
	case errors.As(err, &trimmed):
		return trimmed.To, true
	case errors.As(err, &damaged):
		return damaged.At, true
	}
	return Anchor{}, false
}
