package journal

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var (
	sampleAnchor = Anchor{Position: 1_790_000_000_000_000_001, Nonce: 1<<64 - 1, Seq: 300, Until: time.Date(2026, 3, 1, 0, 0, 0, 999_999_999, time.UTC)}
	sampleGaps   = []Gap{{From: at(1), Until: at(2), Count: 3, Reason: GapSource, At: at(4), Position: 5, Seq: 6}, {Reason: GapReset}}
	sampleHead   = Head{
		Topic: "https://source.example/changes/", Version: "v1", Kind: KindChange, From: at(-62_000_000_000), Until: at(2), Reset: true, Epoch: 300,
		Last: sampleAnchor, ID: uuid.MustParse("019ca945-34f8-744c-8df4-82e3fdb975b4"), SHA256: [32]byte{1, 31: 2}, ReceivedAt: at(5),
		Trimmed: Anchor{Position: 4}, Removed: Anchor{Position: 3, Seq: 2}, Gaps: sampleGaps, Entries: 7, Bytes: 1 << 40,
	}
	sampleEntry = Entry{
		ID: sampleHead.ID, Position: 5, Seq: 6, Nonce: 7, ReceivedAt: at(8), From: at(9), Until: at(10), Kind: KindContent, MediaType: "text/plain; charset=utf-8",
		Links: []string{`<a>; rel="b"`, ""}, SHA256: [32]byte{3}, Counts: Counts{1, 2, 1<<32 - 1}, Size: 11, Gap: &sampleGaps[0],
	}
	sampleInterval = Interval{From: at(1), Until: at(1), SHA256: [32]byte{9}, ID: sampleHead.ID, Position: 3}
	sampleCursor   = Cursor{
		Generation: 1 << 60, Anchor: sampleAnchor, Nudge: 1, Attempt: 2, Step: 3,
		NextAttemptAt: at(4), FirstAttemptAt: at(5), LastStatus: StatusTimeout,
	}
	samplePingRecord = PingRecord{
		Topic: sampleHead.Topic, Pings: 300, Fetched: 299, PingedAt: at(1), Tries: 2, NextAt: at(2),
		Last: Fetch{At: at(3), Outcome: "gap", Detail: "a sentence", Status: 200, ID: sampleHead.ID},
	}
)

// packedIn packs heads in a format, and headIn is what is stored of the sample in it.
func packedIn(f Format) func(Head) []byte { return func(h Head) []byte { return PackHead(h, f) } }

func headIn(f Format) Head {
	h := sampleHead
	h.Gaps = slices.Clone(h.Gaps)
	if f == Newest {
		h.Gaps[0].After = sampleAnchor
	}
	return h
}

// What a format cannot store is left out: the version before this one reads the rest.
func TestPreviousHead(t *testing.T) {
	b := PackHead(headIn(Newest), Previous)
	if b[0] != packedVersion {
		t.Errorf("the version before this one does not read version %d", b[0])
	}
	got, err := UnpackHead(b)
	if d := cmp.Diff(sampleHead, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

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
		if _, err := unpack(b[:n]); !errors.Is(err, ErrPacked) {
			t.Errorf("%T, the first %d of %d bytes: %v", v, n, len(b), err)
		}
	}
	if _, err := unpack(append(b, 0)); !errors.Is(err, ErrPacked) {
		t.Errorf("%T, a byte too many: %v", v, err)
	}
	b = pack(v)
	b[0] = 200
	if _, err := unpack(b); !errors.Is(err, ErrPacked) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("%T of a newer version: %v", v, err)
	}
}

func TestPackedValues(t *testing.T) {
	for _, f := range []Format{Previous, Newest} {
		roundTrip(t, packedIn(f), UnpackHead, headIn(f))
	}
	roundTrip(t, PackEntry, UnpackEntry, sampleEntry)
	roundTrip(t, PackInterval, UnpackInterval, sampleInterval)
	roundTrip(t, PackCursor, UnpackCursor, sampleCursor)
	roundTrip(t, PackPingRecord, UnpackPingRecord, samplePingRecord)
}

// One list of fields serves both ways, whatever their types. A type without a packed form
// is a mistake of the program.
func TestFieldsOfEveryType(t *testing.T) {
	type value struct {
		Byte  byte
		Fixed Fixed
		Uint  uint64
		Gap   *Gap
	}
	fields := func(v *value) []any { return []any{&v.Byte, &v.Fixed, &v.Uint, &v.Gap} }
	want := value{Byte: 255, Fixed: 1<<64 - 1, Uint: 1 << 40, Gap: &sampleGaps[0]}
	packed := Pack(1, fields(&want)...)
	var got value
	if err := Unpack(&got, "a value", 1, packed, fields(&got)...); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if err := Unpack(&got, "a value", 1, packed[:3], fields(&got)...); !errors.Is(err, ErrPacked) || got != (value{}) {
		t.Errorf("%v, %+v: a value that was cut short", err, got)
	}
	for name, use := range map[string]func(){
		"pack":   func() { Pack(1, got) },
		"unpack": func() { _ = Unpack(&got, "a value", 1, []byte{1}, got) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a field of an unknown type passed", name)
				}
			}()
			use()
		}()
	}
}

// A number that does not fit, and a time that does not exist, are refused.
func TestImpossibleNumbersAreRefused(t *testing.T) {
	var number uint32
	var instant time.Time
	for _, field := range []any{&number, &instant} {
		large := uint64(1 << 40)
		if err := Unpack(&number, "a value", 1, Pack(1, &large), field); !errors.Is(err, ErrPacked) {
			t.Errorf("%T: %v", field, err)
		}
	}
}

// The zone of a time and its monotonic reading are not part of the instant.
func TestPackedTimesAreInstants(t *testing.T) {
	now := time.Now()
	got, err := UnpackCursor(PackCursor(Cursor{NextAttemptAt: now, FirstAttemptAt: now.In(time.FixedZone("", 3600))}))
	if err != nil || !got.NextAttemptAt.Equal(now) || !got.FirstAttemptAt.Equal(now) || got.FirstAttemptAt.Location() != time.UTC {
		t.Errorf("%v came back as %v and %v (%v)", now, got.NextAttemptAt, got.FirstAttemptAt, err)
	}
}

// PackEntry leaves the body to the store.
func TestPackEntryLeavesTheBody(t *testing.T) {
	e := sampleEntry
	e.Body = []byte("a body")
	if strings.Contains(string(PackEntry(e)), "a body") {
		t.Error("the body is packed")
	}
}

// A damaged length does not ask for the memory of the machine.
func TestDamagedListIsRefused(t *testing.T) {
	p := NewPacker(1)
	p.Uint(1 << 40)
	u := NewUnpacker("a list", 1, p.Packed())
	n := u.Count()
	if err := u.Done(); n != 0 || err == nil {
		t.Errorf("%d items, %v", n, err)
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
			if !errors.Is(err, ErrPacked) {
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

func FuzzUnpackHead(f *testing.F)     { fuzzUnpack(f, packedIn(Newest), UnpackHead, headIn(Newest)) }
func FuzzUnpackEntry(f *testing.F)    { fuzzUnpack(f, PackEntry, UnpackEntry, sampleEntry) }
func FuzzUnpackInterval(f *testing.F) { fuzzUnpack(f, PackInterval, UnpackInterval, sampleInterval) }

func FuzzUnpackPingRecord(f *testing.F) {
	fuzzUnpack(f, PackPingRecord, UnpackPingRecord, samplePingRecord)
}
