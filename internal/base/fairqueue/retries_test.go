package fairqueue

import (
	"testing"
	"time"
)

func TestRetries(t *testing.T) {
	policy := Retries{10 * time.Second, time.Minute}
	for _, tc := range []struct {
		failed int
		rnd    float64
		want   time.Duration
	}{
		{0, 0, 8 * time.Second},
		{0, 0.5, 10 * time.Second},
		{0, 1, 12 * time.Second},
		{1, 0.5, time.Minute},
		{2, 0.5, time.Minute}, // the last one is repeated
		{1 << 40, 1, 72 * time.Second},
		{-1, 0.5, 10 * time.Second},
	} {
		if got := policy.Pause(tc.failed, tc.rnd); got != tc.want {
			t.Errorf("Pause(%d, %v) = %v, want %v", tc.failed, tc.rnd, got, tc.want)
		}
	}
	different := false
	for range 100 {
		got := Jitter(time.Minute)
		if got < 48*time.Second || got > 72*time.Second {
			t.Fatalf("a minute became %v", got)
		}
		different = different || got != time.Minute
	}
	if !different {
		t.Error("Jitter spreads nothing")
	}
}
