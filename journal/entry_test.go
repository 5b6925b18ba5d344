package journal

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func at(s int64) time.Time { return time.Unix(s, 0).UTC() }

func TestAddGapJoinsNeighbours(t *testing.T) {
	gaps := AddGap(nil, Gap{From: at(1), Until: at(2), Count: 1, Reason: GapRetention})
	gaps = AddGap(gaps, Gap{From: at(2), Until: at(5), Count: 3, Reason: GapRetention})
	if len(gaps) != 1 || gaps[0].Count != 4 || !gaps[0].From.Equal(at(1)) || !gaps[0].Until.Equal(at(5)) {
		t.Fatalf("adjacent gaps of one reason were not joined: %+v", gaps)
	}
	gaps = AddGap(gaps, Gap{From: at(5), Until: at(6), Count: 1, Reason: GapGaveUp})
	gaps = AddGap(gaps, Gap{From: at(9), Until: at(10), Count: 1, Reason: GapGaveUp})
	if len(gaps) != 3 {
		t.Fatalf("gaps of other reasons or apart were joined: %+v", gaps)
	}
}

// Invariants 10 and 12: bounded, and nothing is dropped in silence.
func TestAddGapIsBoundedAndKeepsTheCount(t *testing.T) {
	var gaps []Gap
	for i := range int64(MaxGaps * 3) {
		gaps = AddGap(gaps, Gap{From: at(10 * i), Until: at(10*i + 1), Count: 1, Reason: GapGaveUp})
	}
	var n uint64
	for _, g := range gaps {
		n += g.Count
	}
	if len(gaps) != MaxGaps || n != MaxGaps*3 || !gaps[0].From.Equal(at(0)) {
		t.Fatalf("%d gaps count %d from %v, want %d, %d, the first", len(gaps), n, gaps[0].From, MaxGaps, MaxGaps*3)
	}
}

func TestNewIDIsAVersion7ThatCarriesThePartition(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_123)
	for _, p := range []int{0, 7, 255} {
		id, err := NewID(now, p)
		if err != nil {
			t.Fatal(err)
		}
		if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Errorf("%v is version %v, variant %v", id, id.Version(), id.Variant())
		}
		if IDPartition(id) != p {
			t.Errorf("partition %d came back as %d", p, IDPartition(id))
		}
		if s, n := id.Time().UnixTime(); time.Unix(s, n).UnixMilli() != now.UnixMilli() {
			t.Errorf("time %v", time.Unix(s, n))
		}
	}
}

// The ids of contract section 4, which scripts compute for themselves.
func TestTopicID(t *testing.T) {
	if got := TopicID("https://example.org/changes/").String(); got != uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://example.org/changes/")).String() {
		t.Error(got)
	}
	if p := Partition(TopicID("https://example.org/changes/")); p < 0 || p >= Partitions {
		t.Error(p)
	}
}
