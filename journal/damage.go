package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrDamaged is wrapped by an error which says that the store answered, and that
// its answer cannot be what was stored: it fails its hash, its length or its
// unpacking, or it is missing from a place that is there. No other error says so. A
// store that does not answer, a failing disk, a missing mount or a missing
// permission is never damage.
var ErrDamaged = errors.New("what is stored is damaged")

// ErrMissing says why an entry is damaged that is not in the store, though the numbers
// of its neighbours say that it was stored and never trimmed.
var ErrMissing = errors.New("it is missing from the store")

// DamagedError says that an entry, or its body, is damaged.
type DamagedError struct {
	// At is the anchor of the entry: reading goes on after it. Where several
	// entries in a row are missing, it stands for the last of them.
	At Anchor
	// ID is that of the notification; uuid.Nil: it is not known.
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

// Predecessor returns the anchor of the entry right before e, as far as e tells it: its
// nonce is 0, and Until is about right.
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

// MissingNewest returns the *DamagedError about the newest entry of a topic, where a
// store has no entry after an anchor. Nil: the anchor is the head's.
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

// Unreadable tells whether an error of an Unpack function means damage: the value
// is of this program's version or of an older one.
func Unreadable(err error) bool {
	return errors.Is(err, ErrPacked) && !errors.Is(err, ErrNewer)
}

// PackedEntryID returns the id that PackEntry wrote, also where the rest of the value
// is damaged. It has to be checked against what is stored under the id.
func PackedEntryID(b []byte) (id uuid.UUID) {
	if len(b) > len(id) {
		copy(id[:], b[1:])
	}
	return id
}

// ReadOn returns the anchor after which reading goes on where an error of Read says
// that the entries before that were trimmed or are damaged. False: it says neither.
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
