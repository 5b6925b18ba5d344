package journal

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRetentionCut(t *testing.T) {
	now := at(100_000)
	for name, tc := range map[string]struct {
		r     Retention
		sizes []int64
		want  Cut
	}{
		"nothing set":            {Retention{}, []int64{5, 6}, Cut{KeepBytes: -1}},
		"age":                    {Retention{Age: time.Hour}, nil, Cut{Before: now.Add(-time.Hour), KeepBytes: -1}},
		"per topic":              {Retention{PerTopic: 7}, []int64{100}, Cut{KeepBytes: 7}},
		"total has room":         {Retention{Total: 11}, []int64{5, 6}, Cut{KeepBytes: -1}},
		"total, one hog":         {Retention{Total: 20}, []int64{5, 100, 5}, Cut{KeepBytes: 10}},
		"total, several hogs":    {Retention{Total: 20}, []int64{50, 2, 50}, Cut{KeepBytes: 9}},
		"per topic makes room":   {Retention{Total: 20, PerTopic: 10}, []int64{50, 2, 2}, Cut{KeepBytes: 10}},
		"total under per topic":  {Retention{Total: 10, PerTopic: 8}, []int64{50, 50}, Cut{KeepBytes: 5}},
		"more topics than bytes": {Retention{Total: 1}, []int64{5, 5, 5}, Cut{KeepBytes: 0}},
	} {
		if got := tc.r.Cut(now, tc.sizes); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// A topic under its fair share loses nothing, and after the cut the total
// holds.
func TestRetentionIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 50).Draw(t, "sizes")
		r := Retention{Total: rapid.Int64Range(1, 20_000).Draw(t, "total")}
		cut := r.Cut(at(0), sizes)
		var before, after int64
		for _, size := range sizes {
			before += size
			if cut.KeepBytes >= 0 && size > cut.KeepBytes {
				if size <= r.Total/int64(len(sizes)) {
					t.Fatalf("a topic of %d bytes, under its share, is cut to %d", size, cut.KeepBytes)
				}
				size = cut.KeepBytes
			}
			after += size
		}
		if after > r.Total {
			t.Fatalf("%d bytes left, over %d", after, r.Total)
		}
		if before <= r.Total && after != before {
			t.Fatalf("cut although there was room")
		}
	})
}
