package subscriptions

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// packedVersion is the version byte of what this package packs; see the
// comment in package journal's codec.
const packedVersion = 1

// sealNone is the seal-key id of a secret that is stored as it is. Any other
// id names the key that it is sealed with.
const sealNone = 0

func packSecret(p *journal.Packer, secret string) {
	p.Byte(sealNone)
	p.Text(secret)
}

func unpackSecret(u *journal.Unpacker) string {
	key, secret := u.Byte(), u.Text()
	if key != sealNone {
		u.Fail(fmt.Sprintf("its secret is sealed with key %d, and this program has no keys; start the version that sealed it", key))
		return ""
	}
	return secret
}

// PackSubscription packs all of s but its Cursor, which stores keep in a value
// of its own, since it is what changes often.
func PackSubscription(s Subscription) []byte {
	p := journal.NewPacker(packedVersion)
	p.ID(s.ID)
	p.Text(s.Topic)
	p.Text(s.Callback)
	packSecret(p, s.Secret)
	p.Time(s.CreatedAt)
	p.Time(s.VerifiedAt)
	p.Time(s.ExpiresAt)
	p.Anchor(s.Start)
	p.Gaps(s.Gaps)
	p.Time(s.EndedAt)
	p.Text(s.EndReason)
	return p.Packed()
}

// UnpackSubscription reads what PackSubscription wrote. Its errors wrap
// journal.ErrPacked.
func UnpackSubscription(b []byte) (Subscription, error) {
	u := journal.NewUnpacker("a subscription", packedVersion, b)
	s := Subscription{
		ID:    u.ID(),
		Topic: u.Text(), Callback: u.Text(), Secret: unpackSecret(u),
		CreatedAt: u.Time(), VerifiedAt: u.Time(), ExpiresAt: u.Time(),
		Start:   u.Anchor(),
		Gaps:    u.Gaps(),
		EndedAt: u.Time(), EndReason: u.Text(),
	}
	if err := u.Done(); err != nil {
		return Subscription{}, err
	}
	return s, nil
}

// PackRequest packs all of r.
func PackRequest(r Request) []byte {
	p := journal.NewPacker(packedVersion)
	p.ID(r.ID)
	p.Text(string(r.Mode))
	p.Text(r.Topic)
	p.Text(r.Callback)
	packSecret(p, r.Secret)
	p.Int(int64(r.Lease))
	p.Time(r.AcceptedAt)
	p.Anchor(r.Start)
	p.Text(r.Denied)
	p.Int(int64(r.Tries))
	p.Time(r.NextAt)
	return p.Packed()
}

// UnpackRequest reads what PackRequest wrote. Its errors wrap
// journal.ErrPacked.
func UnpackRequest(b []byte) (Request, error) {
	u := journal.NewUnpacker("a pending request", packedVersion, b)
	r := Request{
		ID:    u.ID(),
		Mode:  websub.Mode(u.Text()),
		Topic: u.Text(), Callback: u.Text(), Secret: unpackSecret(u),
		Lease: time.Duration(u.Int()), AcceptedAt: u.Time(),
		Start: u.Anchor(), Denied: u.Text(),
		Tries: int(u.Int()), NextAt: u.Time(),
	}
	if err := u.Done(); err != nil {
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
