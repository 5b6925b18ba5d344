package websub

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // WebSub 7.1.1 names it, and many subscribers know no other
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
)

// SignatureMethod is a way of signing deliveries, by the name it has in X-Hub-Signature
// (WebSub 7.1.1). The zero value is not a method.
type SignatureMethod string

// The methods. Subscribers should be given at least SHA256 (WebSub 8.3).
const (
	SHA1   SignatureMethod = "sha1"
	SHA256 SignatureMethod = "sha256"
	SHA384 SignatureMethod = "sha384"
	SHA512 SignatureMethod = "sha512"
)

// Why a signature was not accepted. A message with any of them has to be
// ignored (WebSub 7.1).
var (
	ErrSignatureMissing   = errors.New("the message has no " + HeaderSignature + ", though it has to be signed with the secret")
	ErrSignatureMalformed = errors.New(HeaderSignature + " can't be read: it has to be a method, = and the HMAC in hexadecimal, like sha256=0a1b")
	ErrSignatureMethod    = errors.New(HeaderSignature + " names a method that is not accepted")
	ErrSignatureMismatch  = errors.New(HeaderSignature + " is not that of this body with this secret: the body was changed, or the secret is another one")
	ErrSignatureSecret    = errors.New("there is no secret to check " + HeaderSignature + " with")
)

// ParseSignatureMethod returns the method of that name, which is in lower case.
func ParseSignatureMethod(s string) (SignatureMethod, error) {
	if m := SignatureMethod(s); hashes[m] != nil {
		return m, nil
	}
	return "", fmt.Errorf("there is no signature method %s: use sha1, sha256, sha384 or sha512", quote(s, 20))
}

// hashes are the hash functions of the methods.
var hashes = map[SignatureMethod]func() hash.Hash{SHA1: sha1.New, SHA256: sha256.New, SHA384: sha512.New384, SHA512: sha512.New}

// Sign returns the value of X-Hub-Signature for a body: the method, = and the
// HMAC in lower-case hexadecimal (HUB-45). It panics if m is not one of the
// methods.
func (m SignatureMethod) Sign(secret string, body []byte) string {
	var room [len(SHA512) + 1 + 2*sha512.Size]byte
	var sum [sha512.Size]byte
	value := append(append(room[:0], m...), '=')
	return string(hex.AppendEncode(value, m.sum(sum[:0], secret, body)))
}

// sum appends the HMAC of a body.
func (m SignatureMethod) sum(to []byte, secret string, body []byte) []byte {
	pool := signers[m]
	if pool == nil {
		panic("websub: there is no signature method " + quote(string(m), 20))
	}
	s := pool.Get().(*signer) //nolint:errcheck // it contains nothing else
	defer pool.Put(s)
	return append(to, s.sum(secret, body)...)
}

// signers are kept, since crypto/hmac needs seven allocations for each signature, and a fan-out has
// a signature for each delivery.
var signers = func() map[SignatureMethod]*sync.Pool {
	all := make(map[SignatureMethod]*sync.Pool)
	for m, h := range hashes {
		all[m] = &sync.Pool{New: func() any { return &signer{hash: h()} }}
	}
	return all
}()

// signer computes HMACs (RFC 2104) as crypto/hmac does. It keeps nothing of a secret.
type signer struct {
	hash hash.Hash
	key  [sha512.BlockSize]byte
	in   [sha512.Size]byte
	out  [sha512.Size]byte
}

// sum returns the HMAC of a body. It is valid until the next call.
func (s *signer) sum(secret string, body []byte) []byte {
	key := s.key[:s.hash.BlockSize()]
	defer func() { clear(key); s.hash.Reset() }()
	if s.hash.Reset(); len(secret) > len(key) {
		s.hash.Write([]byte(secret))
		s.hash.Sum(key[:0])
		s.hash.Reset()
	} else {
		copy(key, secret)
	}
	for i := range key {
		key[i] ^= 0x36
	}
	s.hash.Write(key)
	s.hash.Write(body)
	in := s.hash.Sum(s.in[:0])
	for i := range key {
		key[i] ^= 0x36 ^ 0x5c
	}
	s.hash.Reset()
	s.hash.Write(key)
	s.hash.Write(in)
	return s.hash.Sum(s.out[:0])
}

// VerifySignature checks that header, the value of X-Hub-Signature, signs body with
// secret (WebSub 7.1). It must use one of the accepted methods, or if none is given, any
// that WebSub names. The comparison needs the same time wherever the two differ. The
// hexadecimal digits may be of either case. The error wraps one of the ErrSignature
// variables. An empty secret signs nothing.
func VerifySignature(header, secret string, body []byte, accepted ...SignatureMethod) error {
	if secret == "" {
		return ErrSignatureSecret
	}
	if header == "" {
		return ErrSignatureMissing
	}
	name, digits, ok := strings.Cut(header, "=")
	if !ok {
		return ErrSignatureMalformed
	}
	m, err := ParseSignatureMethod(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignatureMethod, err)
	}
	if len(accepted) > 0 && !slices.Contains(accepted, m) {
		return fmt.Errorf("%w: %s", ErrSignatureMethod, m)
	}
	if len(digits) != hex.EncodedLen(hashes[m]().Size()) {
		return fmt.Errorf("%w: that of %s has another length", ErrSignatureMalformed, m)
	}
	sum, err := hex.DecodeString(digits)
	if err != nil {
		return ErrSignatureMalformed
	}
	if !hmac.Equal(sum, m.sum(nil, secret, body)) {
		return ErrSignatureMismatch
	}
	return nil
}
