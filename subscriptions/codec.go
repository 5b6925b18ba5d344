package subscriptions

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// packedVersion is the version byte of what this package packs; see the
// comment in package journal's codec.
const packedVersion = 3

// Sealer is how a store keeps secrets: package store/seal implements it.
// What about names goes with a secret wherever it is stored.
type Sealer interface {
	// Seal appends to dst the form in which a secret is stored; nothing for an
	// empty one.
	Seal(dst []byte, secret, about string) []byte
	// Open returns the secret that Seal stored.
	Open(stored []byte, about string) (string, error)
}

// packSecret packs the stored form of a secret: its first byte, then the rest.
// A secret that is stored as it is begins with 0, and so does none at all.
func packSecret(p *journal.Packer, sealer Sealer, secret, about string) {
	stored := sealer.Seal(nil, secret, about)
	if len(stored) == 0 {
		stored = []byte{0}
	}
	p.Byte(stored[0])
	p.Text(string(stored[1:]))
}

// unpackSecret returns the stored form of a secret, to be opened once all else
// is read.
func unpackSecret(u *journal.Unpacker) []byte {
	form, rest := u.Byte(), u.Text()
	if form == 0 && rest == "" {
		return nil
	}
	return append([]byte{form}, rest...)
}

func openSecret(sealer Sealer, stored []byte, about, what string) (string, error) {
	secret, err := sealer.Open(stored, about)
	if err != nil {
		return "", fmt.Errorf("%w: the secret of %s: %w", journal.ErrPacked, what, err)
	}
	return secret, nil
}

// StoredSecrets returns the stored forms of the secrets in a packed subscription and a
// packed request. It skips what is empty or cannot be read: whoever reads the record
// finds that out.
func StoredSecrets(sub, request []byte) [][]byte {
	var o observer
	_, _ = UnpackSubscription(sub, &o)
	_, _ = UnpackRequest(request, &o)
	return o.stored
}

// observer is a Sealer that opens nothing, and keeps the stored forms that it is given.
type observer struct{ stored [][]byte }

func (*observer) Seal(dst []byte, _, _ string) []byte { return dst }

func (o *observer) Open(stored []byte, _ string) (string, error) {
	if len(stored) > 0 {
		o.stored = append(o.stored, stored)
	}
	return "", nil
}

// ofSubscription and ofRequest begin what a secret is bound to; what is stored
// depends on them. They differ, as anybody may request with a secret of their
// own, which must not become that of a subscription unverified.
const (
	ofSubscription = "subscription"
	ofRequest      = "request"
)

func aboutSecret(of, topic, callback string) string {
	return of + "\n" + topic + "\n" + callback
}

// PackSubscription packs all of s but its Cursor, which stores keep in a value
// of its own, since it is what changes often. The secret is sealed.
func PackSubscription(s Subscription, sealer Sealer) []byte {
	p := journal.NewPacker(packedVersion)
	p.ID(s.ID)
	p.Text(s.Topic)
	p.Text(s.Callback)
	packSecret(p, sealer, s.Secret, aboutSecret(ofSubscription, s.Topic, s.Callback))
	p.Time(s.CreatedAt)
	p.Time(s.VerifiedAt)
	p.Time(s.ExpiresAt)
	p.Anchor(s.Start)
	p.Gaps(s.Gaps)
	p.Time(s.EndedAt)
	p.Text(s.EndReason)
	p.Fixed(s.Requester)
	return p.Packed()
}

// UnpackSubscription reads what PackSubscription wrote. Its errors wrap
// journal.ErrPacked, and that of the Sealer where it can't open the secret.
func UnpackSubscription(b []byte, sealer Sealer) (s Subscription, err error) {
	u := journal.NewUnpacker("a subscription", packedVersion, b)
	s.ID, s.Topic, s.Callback = u.ID(), u.Text(), u.Text()
	stored := unpackSecret(u)
	s.CreatedAt, s.VerifiedAt, s.ExpiresAt = u.Time(), u.Time(), u.Time()
	s.Start, s.Gaps = u.Anchor(), u.Gaps()
	s.EndedAt, s.EndReason, s.Requester = u.Time(), u.Text(), u.Fixed()
	if err = u.Done(); err == nil {
		s.Secret, err = openSecret(sealer, stored, aboutSecret(ofSubscription, s.Topic, s.Callback), "a subscription")
	}
	if err != nil {
		return Subscription{}, err
	}
	return s, nil
}

// PackRequest packs all of r. The secret is sealed.
func PackRequest(r Request, sealer Sealer) []byte {
	p := journal.NewPacker(packedVersion)
	p.ID(r.ID)
	p.Text(string(r.Mode))
	p.Text(r.Topic)
	p.Text(r.Callback)
	packSecret(p, sealer, r.Secret, aboutSecret(ofRequest, r.Topic, r.Callback))
	p.Int(int64(r.Lease))
	p.Time(r.AcceptedAt)
	p.Anchor(r.Start)
	p.Text(r.Denied)
	p.Int(int64(r.Tries))
	p.Time(r.NextAt)
	p.Fixed(r.Requester)
	return p.Packed()
}

// UnpackRequest reads what PackRequest wrote. Its errors wrap
// journal.ErrPacked, and that of the Sealer where it can't open the secret.
func UnpackRequest(b []byte, sealer Sealer) (r Request, err error) {
	u := journal.NewUnpacker("a pending request", packedVersion, b)
	r.ID, r.Mode, r.Topic, r.Callback = u.ID(), websub.Mode(u.Text()), u.Text(), u.Text()
	stored := unpackSecret(u)
	r.Lease, r.AcceptedAt = time.Duration(u.Int()), u.Time()
	r.Start, r.Denied = u.Anchor(), u.Text()
	r.Tries, r.NextAt, r.Requester = int(u.Int()), u.Time(), u.Fixed()
	if err = u.Done(); err == nil {
		r.Secret, err = openSecret(sealer, stored, aboutSecret(ofRequest, r.Topic, r.Callback), "a pending request")
	}
	if err != nil {
		return Request{}, err
	}
	return r, nil
}

// PackAttempts packs the kept attempts of one subscription.
func PackAttempts(attempts []Attempt) []byte {
	p := journal.NewPacker(packedVersion)
	p.Uint(uint64(len(attempts)))
	for _, a := range attempts {
		p.Time(a.At)
		p.ID(a.NotificationID)
		p.Uint(uint64(a.Number))
		p.Int(int64(a.Status))
		p.Text(a.Error)
		p.Int(int64(a.Duration))
	}
	return p.Packed()
}

// UnpackAttempts reads what PackAttempts wrote. Its errors wrap
// journal.ErrPacked.
func UnpackAttempts(b []byte) ([]Attempt, error) {
	u := journal.NewUnpacker("a list of attempts", packedVersion, b)
	var out []Attempt
	for range u.Count() {
		out = append(out, Attempt{
			At: u.Time(), NotificationID: u.ID(), Number: u.Uint32(),
			Status: int(u.Int()), Error: u.Text(), Duration: time.Duration(u.Int()),
		})
	}
	if err := u.Done(); err != nil {
		return nil, err
	}
	return out, nil
}

// AddAttempts returns the kept attempts, oldest first, after newer ones came:
// the latest MaxAttempts of both.
func AddAttempts(kept []Attempt, newer ...Attempt) []Attempt {
	out := append(append(make([]Attempt, 0, len(kept)+len(newer)), kept...), newer...)
	return out[max(0, len(out)-MaxAttempts):]
}
