package app

import (
	"testing"
	"time"
)

// What was passed over counts for an hour.
func TestHourly(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var h hourly
	for second := 0; second <= 2*3600; second += 5 {
		count := uint64(0)
		if second >= 20 { // seven, and three an hour later
			count = 7
		}
		if second >= 3700 {
			count = 10
		}
		got, want := h.grown(begin.Add(time.Duration(second)*time.Second), count), count
		if second >= 3720 {
			want = 3
		}
		if got != want && (second < 3600 || second > 3720) {
			t.Fatalf("after %d s: %d, want %d", second, got, want)
		}
		if len(h) > 62 {
			t.Fatalf("%d samples are kept", len(h))
		}
	}
}
