package subscriptions

import (
	"fmt"

	"github.com/rshub/rshub/journal"
)

// packedVersion is the version byte of what this package packs; see the
// comment in package journal's codec.
const packedVersion = 4

// Sealer encrypts the secrets of a store; package store/seal implements it. The argument
// about names the record that a secret belongs to, and has to be the same for both methods.
type Sealer interface {
	// Seal appends the stored form of a secret to dst. That of an empty secret is empty.
	Seal(dst []byte, secret, about string) []byte
	// Open returns the secret that Seal stored.
	Open(stored []byte, about string) (string, error)
}

// storedSecret is the stored form of a secret as it is packed: its first byte, then the
// rest. Both the form of a secret that is stored as it is, and that of an empty one, begin
// with 0.
type storedSecret struct {
	form byte
	rest string
}

// sealed returns the stored form of a secret.
func sealed(sealer Sealer, secret, about string) (s storedSecret) {
	if stored := sealer.Seal(nil, secret, about); len(stored) > 0 {
		s.form, s.rest = stored[0], string(stored[1:])
	}
	return s
}

// open returns the secret. What names the record in errors.
func (s storedSecret) open(sealer Sealer, about, what string) (string, error) {
	var stored []byte
	if s.form != 0 || s.rest != "" {
		stored = append([]byte{s.form}, s.rest...)
	}
	secret, err := sealer.Open(stored, about)
	if err != nil {
		return "", fmt.Errorf("%w: the secret of %s: %w", journal.ErrPacked, what, err)
	}
	return secret, nil
}

// StoredSecrets returns the stored forms of the secrets in a packed subscription and a
// packed request. It skips a value that is empty or cannot be read: reading the record
// reports that.
func StoredSecrets(sub, request []byte) [][]byte {
	var o observer
	_, _ = UnpackSubscription(sub, &o)
	_, _ = UnpackRequest(request, &o)
	return o.stored
}

// observer is a Sealer that opens nothing. It collects the stored forms.
type observer struct{ stored [][]byte }

func (*observer) Seal(dst []byte, _, _ string) []byte { return dst }

func (o *observer) Open(stored []byte, _ string) (string, error) {
	if len(stored) > 0 {
		o.stored = append(o.stored, stored)
	}
	return "", nil
}

// ofSubscription and ofRequest begin the text that a secret is bound to. Stored secrets
// depend on them. They differ because anybody may send a request with a secret: it must not
// become that of a subscription without verification.
const (
	ofSubscription = "subscription"
	ofRequest      = "request"
)

func aboutSecret(of, topic, callback string) string {
	return of + "\n" + topic + "\n" + callback
}

// fields lists what is packed of s. Stores keep the Cursor in a value of its own, because
// it changes often.
func (s *Subscription) fields(secret *storedSecret) []any {
	return []any{
		&s.ID, &s.Topic, &s.Callback, &secret.form, &secret.rest, &s.CreatedAt, &s.VerifiedAt, &s.ExpiresAt,
		&s.Start, &s.Gaps, &s.EndedAt, &s.EndReason, (*journal.Fixed)(&s.Requester), &s.PausedAt,
	}
}

// PackSubscription packs all of s except its Cursor. The secret is sealed.
func PackSubscription(s Subscription, sealer Sealer) []byte {
	secret := sealed(sealer, s.Secret, aboutSecret(ofSubscription, s.Topic, s.Callback))
	return journal.Pack(packedVersion, s.fields(&secret)...)
}

// UnpackSubscription reads what PackSubscription wrote. Its errors wrap
// journal.ErrPacked, and that of the Sealer if it cannot open the secret.
func UnpackSubscription(b []byte, sealer Sealer) (s Subscription, err error) {
	const what = "a subscription"
	var secret storedSecret
	if err = journal.Unpack(&s, what, packedVersion, b, s.fields(&secret)...); err != nil {
		return s, err
	}
	if s.Secret, err = secret.open(sealer, aboutSecret(ofSubscription, s.Topic, s.Callback), what); err != nil {
		return Subscription{}, err
	}
	return s, nil
}

func (r *Request) fields(secret *storedSecret) []any {
	return []any{
		&r.ID, (*string)(&r.Mode), &r.Topic, &r.Callback, &secret.form, &secret.rest, (*int64)(&r.Lease),
		&r.AcceptedAt, &r.Start, &r.Denied, &r.Tries, &r.NextAt, (*journal.Fixed)(&r.Requester),
	}
}

// PackRequest packs all of r. The secret is sealed.
func PackRequest(r Request, sealer Sealer) []byte {
	secret := sealed(sealer, r.Secret, aboutSecret(ofRequest, r.Topic, r.Callback))
	return journal.Pack(packedVersion, r.fields(&secret)...)
}

// UnpackRequest reads what PackRequest wrote. Its errors wrap journal.ErrPacked, and that
// of the Sealer if it cannot open the secret.
func UnpackRequest(b []byte, sealer Sealer) (r Request, err error) {
	const what = "a pending request"
	var secret storedSecret
	if err = journal.Unpack(&r, what, packedVersion, b, r.fields(&secret)...); err != nil {
		return r, err
	}
	if r.Secret, err = secret.open(sealer, aboutSecret(ofRequest, r.Topic, r.Callback), what); err != nil {
		return Request{}, err
	}
	return r, nil
}

func (a *Attempt) fields() []any {
	return []any{&a.At, &a.NotificationID, &a.Number, &a.Status, &a.Error, (*int64)(&a.Duration)}
}

// PackAttempts packs the kept attempts of one subscription.
func PackAttempts(attempts []Attempt) []byte {
	p := journal.NewPacker(packedVersion)
	p.Uint(uint64(len(attempts)))
	for i := range attempts {
		p.Fields(attempts[i].fields()...)
	}
	return p.Packed()
}

// UnpackAttempts reads what PackAttempts wrote. Its errors wrap journal.ErrPacked.
func UnpackAttempts(b []byte) ([]Attempt, error) {
	u := journal.NewUnpacker("a list of attempts", packedVersion, b)
	out := make([]Attempt, u.Count())
	for i := range out {
		u.Fields(out[i].fields()...)
	}
	if err := u.Done(); err != nil || len(out) == 0 {
		return nil, err
	}
	return out, nil
}

// AddAttempts returns the latest MaxAttempts of the kept and the newer attempts, oldest
// first.
func AddAttempts(kept []Attempt, newer ...Attempt) []Attempt {
	out := append(append(make([]Attempt, 0, len(kept)+len(newer)), kept...), newer...)
	return out[max(0, len(out)-MaxAttempts):]
}
