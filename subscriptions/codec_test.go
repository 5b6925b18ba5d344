package subscriptions

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/websub"
)

func packedAt(s int64) time.Time { return time.Unix(s, 5).UTC() }

var (
	packedSubscription = Subscription{
		ID: uuid.MustParse("019ca945-34f8-744c-8df4-82e3fdb975b4"), Topic: "https://source.example/", Callback: "https://subscriber.example/cb?a=b",
		Secret: "a secret", CreatedAt: packedAt(1), VerifiedAt: packedAt(2), ExpiresAt: packedAt(3),
		Start:   journal.Anchor{Position: 4, Nonce: 5, Seq: 6, Until: packedAt(7)},
		Gaps:    []journal.Gap{{From: packedAt(8), Until: packedAt(9), Count: 10, Reason: journal.GapGaveUp, At: packedAt(11)}},
		EndedAt: packedAt(12), EndReason: EndGone, Requester: 1<<63 + 13,
	}
	packedRequest = Request{
		ID: packedSubscription.ID, Mode: websub.ModeSubscribe, Topic: "https://source.example/", Callback: "https://subscriber.example/", Secret: "a secret",
		Lease: time.Hour, AcceptedAt: packedAt(1), Start: packedSubscription.Start, Denied: "why", Tries: 2, NextAt: packedAt(3), Requester: 4,
	}
	packedAttempts = []Attempt{
		{At: packedAt(1), NotificationID: packedSubscription.ID, Number: 2, Status: journal.StatusConnect, Error: "refused", Duration: time.Second},
		{},
	}
)

// roundTrip checks a value, the zero value, and each cut of the packed value.
func roundTrip[V any](t *testing.T, pack func(V) []byte, unpack func([]byte) (V, error), v V) {
	t.Helper()
	var zero V
	for _, want := range []V{v, zero} {
		got, err := unpack(pack(want))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-packed +unpacked):\n%s", d)
		}
	}
	b := pack(v)
	for n := range b {
		if _, err := unpack(b[:n]); !errors.Is(err, journal.ErrPacked) {
			t.Errorf("%T, the first %d of %d bytes: %v", v, n, len(b), err)
		}
	}
	b[0]++
	if _, err := unpack(b); !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("%T of a newer version: %v", v, err)
	}
}

func TestPackedValues(t *testing.T) {
	for _, keys := range []*seal.Keys{nil, sealKeys(t, 1), sealKeys(t, 2, 1)} {
		subscription, request := codecs(keys)
		roundTrip(t, subscription.pack, subscription.unpack, packedSubscription)
		roundTrip(t, request.pack, request.unpack, packedRequest)
	}
	roundTrip(t, PackAttempts, UnpackAttempts, packedAttempts)
}

// codec is how values of one type are packed.
type codec[V any] struct {
	pack   func(V) []byte
	unpack func([]byte) (V, error)
}

// codecs are those with secrets, which are sealed with keys.
func codecs(keys *seal.Keys) (codec[Subscription], codec[Request]) {
	subscription := codec[Subscription]{
		func(s Subscription) []byte { return PackSubscription(s, keys) },
		func(b []byte) (Subscription, error) { return UnpackSubscription(b, keys) },
	}
	request := codec[Request]{
		func(r Request) []byte { return PackRequest(r, keys) },
		func(b []byte) (Request, error) { return UnpackRequest(b, keys) },
	}
	return subscription, request
}

// sealKeys are keys that are told apart by one byte each.
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

// Whatever is packed is unpacked, holds no secret where there is a key, and
// can't be unpacked without that key.
func TestPackedSecretsAreSealed(t *testing.T) {
	keys := sealKeys(t, 1)
	subscription, request := codecs(keys)
	plainSubscription, plainRequest := codecs(nil)
	rapid.Check(t, func(t *rapid.T) {
		s, r := packedSubscription, packedRequest
		s.Topic, s.Callback = rapid.String().Draw(t, "topic"), rapid.String().Draw(t, "callback")
		s.Secret = rapid.StringN(8, 199, -1).Draw(t, "secret")
		r.Topic, r.Callback, r.Secret = s.Topic, s.Callback, s.Secret
		packed, packedRequest := subscription.pack(s), request.pack(r)
		if bytes.Contains(packed, []byte(s.Secret)) || bytes.Contains(packedRequest, []byte(s.Secret)) {
			t.Fatalf("%q is packed as %q and %q", s.Secret, packed, packedRequest)
		}
		got, err := subscription.unpack(packed)
		gotRequest, errRequest := request.unpack(packedRequest)
		if err != nil || errRequest != nil || got.Secret != s.Secret || gotRequest.Secret != s.Secret {
			t.Fatalf("%q, %v and %q, %v", got.Secret, err, gotRequest.Secret, errRequest)
		}
		_, err = plainSubscription.unpack(packed)
		_, errRequest = plainRequest.unpack(packedRequest)
		for _, err := range []error{err, errRequest} {
			var missing *seal.KeyError
			if !errors.Is(err, journal.ErrPacked) || !errors.As(err, &missing) || missing.ID != keys.IDs()[0] {
				t.Errorf("without the key: %v", err)
			}
		}
	})
}

// A sealed secret opens nowhere but where it was stored: not at another topic or
// callback, and a request's, which anybody may have made, not in a subscription.
func TestSealedSecretIsBound(t *testing.T) {
	keys := sealKeys(t, 1)
	for name, about := range map[string]string{
		"another topic":    aboutSecret(ofSubscription, "https://other.example/", packedSubscription.Callback),
		"another callback": aboutSecret(ofSubscription, packedSubscription.Topic, "https://other.example/"),
		"a request":        aboutSecret(ofRequest, packedSubscription.Topic, packedSubscription.Callback),
	} {
		b := PackSubscription(packedSubscription, sealedElsewhere{keys, about})
		if s, err := UnpackSubscription(b, keys); !errors.Is(err, seal.ErrDamaged) || !errors.Is(err, journal.ErrPacked) {
			t.Errorf("the secret of %s opens to %q, %v", name, s.Secret, err)
		}
	}
	about := aboutSecret(ofSubscription, packedRequest.Topic, packedRequest.Callback)
	if r, err := UnpackRequest(PackRequest(packedRequest, sealedElsewhere{keys, about}), keys); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("the secret of a subscription opens to %q, %v", r.Secret, err)
	}
}

// sealedElsewhere seals as if a secret belonged to something else.
type sealedElsewhere struct {
	*seal.Keys
	about string
}

func (s sealedElsewhere) Seal(dst []byte, secret, _ string) []byte {
	return s.Keys.Seal(dst, secret, s.about)
}

// Invariant 12.
func TestAddAttemptsKeepsTheLatest(t *testing.T) {
	var kept []Attempt
	for i := range uint32(MaxAttempts + 7) {
		kept = AddAttempts(kept, Attempt{Number: i})
	}
	if len(kept) != MaxAttempts || kept[0].Number != 7 || kept[MaxAttempts-1].Number != MaxAttempts+6 {
		t.Errorf("%d attempts from %d are kept", len(kept), kept[0].Number)
	}
}

// fuzzUnpack checks that any bytes are refused or stand for a value that packs
// and unpacks to itself.
func fuzzUnpack[V any](f *testing.F, pack func(V) []byte, unpack func([]byte) (V, error), v V) {
	var zero V
	f.Add(pack(v))
	f.Add(pack(zero))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := unpack(b)
		if err != nil {
			if !errors.Is(err, journal.ErrPacked) {
				t.Fatal(err)
			}
			return
		}
		again, err := unpack(pack(v))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, again); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzUnpackSubscription(f *testing.F) {
	plain, _ := codecs(nil)
	f.Add(plain.pack(packedSubscription))
	subscription, _ := codecs(sealKeys(f, 1))
	fuzzUnpack(f, subscription.pack, subscription.unpack, packedSubscription)
}

func FuzzUnpackRequest(f *testing.F) {
	_, plain := codecs(nil)
	f.Add(plain.pack(packedRequest))
	_, request := codecs(sealKeys(f, 1))
	fuzzUnpack(f, request.pack, request.unpack, packedRequest)
}

func FuzzUnpackAttempts(f *testing.F) { fuzzUnpack(f, PackAttempts, UnpackAttempts, packedAttempts) }

// StoredSecrets finds the stored forms without any key, so that a start can see which keys
// are still needed. It skips what cannot be read.
func TestStoredSecretsAreFoundWithoutTheKey(t *testing.T) {
	keys := sealKeys(t, 1)
	subscription, request := codecs(keys)
	s, r := packedSubscription, packedRequest
	s.Secret, r.Secret = "of the subscription", "of the request"
	if found := StoredSecrets(subscription.pack(s), request.pack(r)); len(found) != 2 {
		t.Errorf("%d stored secrets, want 2", len(found))
	}
	s.Secret = ""
	if found := StoredSecrets(subscription.pack(s), []byte("damaged")); len(found) != 0 {
		t.Errorf("%q are no stored secrets", found)
	}
}
