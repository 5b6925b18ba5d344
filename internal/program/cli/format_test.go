package cli

import (
	"math"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestParseSince(t *testing.T) {
	for in, want := range map[string]time.Time{
		"2026-01-31T12:00:00Z":        noon,
		"2026-01-31T13:00:00.5+01:00": noon.Add(500 * time.Millisecond),
		"2026-01-31T12:00Z":           noon,
		"2026-01-31":                  noon.Add(-12 * time.Hour),
		"90s":                         noon.Add(-90 * time.Second),
		"30m":                         noon.Add(-30 * time.Minute),
		"2h":                          noon.Add(-2 * time.Hour),
		"2h30m":                       noon.Add(-150 * time.Minute),
		"7d":                          noon.AddDate(0, 0, -7),
		"1d12h":                       noon.Add(-36 * time.Hour),
		"0s":                          noon,
	} {
		if got, err := parseSince(in, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "2", "-2h", "2 h", "2x", "h", "d", "12h1d", "1d-1h", "9999999h", "yesterday",
		"2026-01-31T12:00:00", "2026-02-30", "1e3s",
	} {
		if got, err := parseSince(in, noon); err == nil {
			t.Errorf("%q is taken as %v", in, got)
		}
	}
}

func FuzzParseSince(f *testing.F) {
	for _, s := range []string{"2h", "1d12h", "7d", "90s", "2026-01-31T12:00:00Z", "2026", "-1h", "d", "10675199d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parseSince(s, noon)
		if err == nil && (at.Year() < 0 || at.Year() > 9999) {
			t.Errorf("%q is %v, which no datetime can write", s, at)
		}
		if err == nil && at.After(noon) && len(s) < 4 {
			t.Errorf("%q is later than now: %v", s, at)
		}
	})
}

func TestTimes(t *testing.T) {
	for at, want := range map[time.Time]string{
		{}:                                 "-",
		noon:                               "now",
		noon.Add(5 * time.Minute):          "in 5m",
		noon.Add(-25 * time.Hour):          "1d1h ago",
		noon.Add(400 * time.Millisecond):   "now",
		noon.Add(-1600 * time.Millisecond): "2s ago",
	} {
		if got := away(at, noon); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	for at, want := range map[time.Time]string{{}: "-", noon: "now", noon.Add(-time.Hour): "now", noon.Add(time.Hour): "in 1h"} {
		if got := due(at, noon); got != want {
			t.Errorf("due at %v: %q, want %q", at, got, want)
		}
	}
	if got, want := moment(noon.Add(1234567*time.Nanosecond), noon), "2026-01-31T12:00:00.001Z (now)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := moment(time.Time{}, noon); got != "" {
		t.Errorf("%q", got)
	}
	for s, want := range map[float64]time.Duration{0: 0, 1.5: 1500 * time.Millisecond, 1e30: math.MaxInt64} {
		if got := seconds(s); got != want {
			t.Errorf("%v: %v, want %v", s, got, want)
		}
	}
}
