package biglist

import (
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// Bytes grow with the entries, and no limit is below the protocol's.
func TestLimitsGrowTogether_DOC60(t *testing.T) {
	for most, want := range map[int]int64{0: 50 << 20, 100: 50 << 20, 50_000: 50 << 20, 654_832: 654_832 << 10} {
		l, d := Limits(most), DumpLimits(most)
		if l.Bytes != want || Sent(most) < max(l.Bytes, 64<<20) || d.Manifest != l || d.Files < 2*l.Entries+1 || d.Files < resourcesync.DefaultDumpLimits.Files {
			t.Errorf("%d: %+v, %d sent, %+v", most, l, Sent(most), d)
		}
	}
}
