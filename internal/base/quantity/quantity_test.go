package quantity

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1, "512B": 512, "64KiB": 64 << 10, "50MiB": 50 << 20, "1GiB": 1 << 30, "8TiB": 8 << 40,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := Size(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "KiB", "-1", "+1", "1.5MiB", "1 MiB", "50MB", "50mib", "50Mi", "0x10", "1e3", "1MiBMiB", "1_000",
		"9223372036854775808", "9223372036854775807KiB", "8388608TiB",
	} {
		if got, err := Size(s); err == nil {
			t.Errorf("%q was taken as %d", s, got)
		}
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "300s": 300 * time.Second, "100ms": 100 * time.Millisecond, "72h": 72 * time.Hour,
		"10d": 10 * day, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute, "1h30m": 90 * time.Minute, "0d": 0,
		"864000s": 10 * day, "106751d": 106751 * day,
	} {
		if got, err := Duration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "300", "d", "-1d", "+1d", "1.5d", "1d-1h", "1d+12h", "1d-0h", "+5s", "-0s", "-5s", "10 d", "1w", "12h1d", "1d1d", "106752d", "106751d24h",
		"99999999999999999999d", "9999999999h",
	} {
		if got, err := Duration(s); err == nil {
			t.Errorf("%q was taken as %v", s, got)
		}
	}
	if _, err := Duration("300"); !strings.Contains(err.Error(), "300s") {
		t.Errorf("a number without a unit: %v", err)
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"50MiB", "0", "9223372036854775807", "1KiBB", "i", "８MiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Size(s); err == nil && (n < 0 || s == "" || s[0] < '0' || s[0] > '9') {
			t.Errorf("%q was taken as %d", s, n)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"300s", "10d", "1d12h", "106751d23h47m16.9s", "d", "1dd", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Duration(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q was taken as %v", s, d)
		}
		if again, err := Duration(d.String()); err != nil || again != d {
			t.Errorf("%q is %v, which reads as %v, %v", s, d, again, err)
		}
		if plain, err := time.ParseDuration(s); err == nil && plain != d {
			t.Errorf("%q is %v, and %v without days", s, d, plain)
		}
	})
}

func TestShare(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "1": 1, "0.5": 0.5, ".5": 0.5, "1.0": 1, "50%": 0.5, "0%": 0, "100%": 1, "12.5%": 0.125, "0.1": 0.1,
	} {
		if got, err := Share(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "%", "50", "1.1", "101%", "-1%", "-0.5", "+1", "1e-1", "NaN", "Inf", "0x1", "50 %", "50%%", "half", "1/2"} {
		if got, err := Share(s); err == nil || !strings.Contains(err.Error(), "is not a share; write a percentage such as 50%") {
			t.Errorf("%q was taken as %v, %v", s, got, err)
		}
	}
}

// What is written for a person reads back as what it was.
func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1000", 1 << 10: "1KiB", 1536: "1536", 64 << 20: "64MiB", 16 << 30: "16GiB", 1 << 40: "1TiB", 2048 << 40: "2048TiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		} else if again, err := Size(got); err != nil || again != n {
			t.Errorf("%q reads as %d, %v", got, again, err)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 50 << 20: "50.0 MiB", 1<<63 - 1: "8.0 EiB"} {
		if got := BytesText(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 tries", 1: "1 try", 2: "2 tries"} {
		if got := Count(n, "try", "tries"); got != want {
			t.Errorf("%d is counted as %q, want %q", n, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0%", 0.5: "50%", 0.125: "12.5%", 1: "100%"} {
		if got := ShareText(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		} else if again, err := Share(got); err != nil || again != f {
			t.Errorf("%q reads as %v, %v", got, again, err)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", time.Hour: "1h", 36 * time.Hour: "36h", 240 * time.Hour: "10d"} {
		if got := DurationText(d); strings.TrimSuffix(got, "0m") != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		} else if again, err := Duration(got); err != nil || again != d {
			t.Errorf("%q reads as %v, %v", got, again, err)
		}
	}
}

func FuzzShare(f *testing.F) {
	for _, s := range []string{"50%", "0.5", "1", ".", "1.%", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := Share(s); err == nil && !(p >= 0 && p <= 1) {
			t.Errorf("%q was taken as %v", s, p)
		}
	})
}

// A share is written as it was given.
func TestShareText(t *testing.T) {
	for p := range 101 {
		given := strconv.Itoa(p) + "%"
		f, err := Share(given)
		if got := ShareText(f); err != nil || got != given {
			t.Errorf("%s is written %s, %v", given, got, err)
		}
	}
	if got := ShareText(0.125); got != "12.5%" {
		t.Errorf("an eighth is written %s", got)
	}
}

func TestTextsForPeople(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.04: "0.0", 1.25: "1.2", 9.9: "9.9", 10: "10", 1234.5: "1234"} {
		if got := RateText(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 100055: "100,055", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := NumberText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 499 * time.Millisecond: "0s", time.Minute: "1m", 61 * time.Second: "1m1s", 25 * time.Hour: "1d1h", 24*time.Hour + time.Minute: "1d", 400 * 24 * time.Hour: "400d",
	} {
		if got := SpanText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
