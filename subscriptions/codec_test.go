package subscriptions

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

func packedAt(s int64) time.Time { return time.Unix(s, 5).UTC() }

var (
	packedSubscription = Subscription{
		ID: uuid.MustParse("019ca945-34f8-744c-8df4-82e3fdb975b4"), Topic: "https://source.example/", Callback: "https://subscriber.example/cb?a=b",
		Secret: "a secret", CreatedAt: packedAt(1), VerifiedAt: packedAt(2), ExpiresAt: packedAt(3),
		Start:   journal.Anchor{Position: 4, Nonce: 5, Seq: 6, Until: packedAt(7)},
		Gaps:    []journal.Gap{{From: packedAt(8), Until: packedAt(9), Count: 10, Reason: journal.GapGaveUp, At: packedAt(11)}},
		EndedAt: packedAt(12), EndReason: EndGone,
	}
	packedRequest = Request{
		ID: packedSubscription.ID, Mode: websub.ModeSubscribe, Topic: "https://source.example/", Callback: "https://subscriber.example/", Secret: "a secret",
		Lease: time.Hour, AcceptedAt: packedAt(1), Start: packedSubscription.Start, Denied: "why", Tries: 2, NextAt: packedAt(3),
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
	roundTrip(t, PackSubscription, UnpackSubscription, packedSubscription)
	roundTrip(t, PackRequest, UnpackRequest, packedRequest)
	roundTrip(t, PackAttempts, UnpackAttempts, packedAttempts)
}

// A secret that is sealed is not taken for one that is not.
func TestSealedSecretIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		packed []byte
		unpack func([]byte) error
	}{
		"subscription": {PackSubscription(packedSubscription), func(b []byte) error { _, err := UnpackSubscription(b); return err }},
		"request":      {PackRequest(packedRequest), func(b []byte) error { _, err := UnpackRequest(b); return err }},
	} {
		// The byte of the key stands before the secret and its length.
		at := bytes.Index(tc.packed, []byte("a secret")) - 2
		tc.packed[at] = 3
		if err := tc.unpack(tc.packed); !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), "key 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
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
	fuzzUnpack(f, PackSubscription, UnpackSubscription, packedSubscription)
}

func FuzzUnpackRequest(f *testing.F) { fuzzUnpack(f, PackRequest, UnpackRequest, packedRequest) }

func FuzzUnpackAttempts(f *testing.F) { fuzzUnpack(f, PackAttempts, UnpackAttempts, packedAttempts) }
