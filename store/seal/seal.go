package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// The first byte of a stored secret says how it is stored.
const (
	formPlain  = 0 // the secret
	formSealed = 1 // the key's id, then a nonce, the ciphertext and its tag
)

const (
	keySize  = 32
	idSize   = 4
	overhead = 12 + 16 // the nonce and the tag of GCM
)

// ID names a key in logs and errors without revealing it.
type ID [idSize]byte

// String returns the id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// KeyError says that a secret was sealed with a missing key. Nothing else opens that secret.
type KeyError struct{ ID ID }

func (e *KeyError) Error() string {
	return fmt.Sprintf("it was sealed with the key %v, which is not in --seal-key-file; put that key back into the file, as a line of its own", e.ID)
}

// ErrDamaged is wrapped by what Open returns where a stored secret is not what
// was sealed, or belongs to another record.
var ErrDamaged = errors.New("a stored secret is damaged")

// restore is what to do about it.
const restore = "put a backup of the store in its place"

// Keys seals and opens secrets. It may be shared between goroutines. A nil *Keys, and the
// zero Keys, store them as they are, and open only those.
type Keys struct{ keys []key }

type key struct {
	id   ID
	aead cipher.AEAD
}

// New returns Keys of 32 bytes each. The first one seals, and all of them open,
// so that a key is changed by putting another one before it. No key at all gives
// nil.
func New(secrets ...[keySize]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	k := &Keys{}
	for i := range secrets {
		block, err := aes.NewCipher(secrets[i][:])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, key{idOf(&secrets[i]), aead})
	}
	return k, nil
}

// idOf is a hash of a key that is used for nothing else.
func idOf(secret *[keySize]byte) (id ID) {
	sum := sha256.Sum256(append([]byte("rshub seal key id\x00"), secret[:]...))
	copy(id[:], sum[:])
	return id
}

// IDs returns the ids of the keys. The first is that of the key that seals.
func (k *Keys) IDs() []ID {
	if k.none() {
		return nil
	}
	ids := make([]ID, 0, len(k.keys))
	for i := range k.keys {
		ids = append(ids, k.keys[i].id)
	}
	return ids
}

// Seal appends to dst the form in which a secret is stored. About names what it
// belongs to; Open needs the same. An empty secret appends nothing: that there is
// no secret is not kept secret.
func (k *Keys) Seal(dst []byte, secret, about string) []byte {
	switch {
	case secret == "":
		return dst
	case k.none():
		return append(append(dst, formPlain), secret...)
	}
	seals := &k.keys[0]
	dst = append(append(slices.Grow(dst, 1+idSize+overhead+len(secret)), formSealed), seals.id[:]...)
	return seals.aead.Seal(dst, nil, []byte(secret), additional(seals.id, about)) //nolint:gosec // this AEAD draws its nonces itself, and wants none
}

// Open returns the secret that Seal stored. *KeyError: the key is not there. An
// error that wraps ErrDamaged: it is not what was stored.
func (k *Keys) Open(stored []byte, about string) (string, error) {
	switch {
	case len(stored) == 0:
		return "", nil
	case stored[0] == formPlain && len(stored) > 1:
		return string(stored[1:]), nil
	}
	id, ok := SealedBy(stored)
	if !ok {
		return "", fmt.Errorf("%w: it has no form that is known; %s", ErrDamaged, restore)
	}
	opens := k.find(id)
	if opens == nil {
		return "", &KeyError{ID: id}
	}
	secret, err := opens.aead.Open(nil, nil, stored[1+idSize:], additional(id, about))
	if err != nil {
		return "", fmt.Errorf("%w: the key %v does not open it in this record; %s", ErrDamaged, id, restore)
	}
	return string(secret), nil
}

// Fresh reports whether a stored secret is stored as Seal would store it today:
// with the key that seals, or, without one, as it is.
func (k *Keys) Fresh(stored []byte) bool {
	if len(stored) == 0 {
		return true
	}
	id, sealed := SealedBy(stored)
	if k.none() {
		return !sealed
	}
	return sealed && id == k.keys[0].id
}

// none reports whether there is no key.
func (k *Keys) none() bool { return k == nil || len(k.keys) == 0 }

func (k *Keys) find(id ID) *key {
	if k == nil {
		return nil
	}
	for i := range k.keys {
		if k.keys[i].id == id {
			return &k.keys[i]
		}
	}
	return nil
}

// SealedBy returns the id of the key that sealed a stored secret; false where
// none did.
func SealedBy(stored []byte) (id ID, ok bool) {
	if len(stored) <= 1+idSize+overhead || stored[0] != formSealed {
		return id, false
	}
	copy(id[:], stored[1:])
	return id, true
}

// additional is what a sealed secret is bound to.
func additional(id ID, about string) []byte {
	return append(append([]byte{formSealed}, id[:]...), about...)
}
