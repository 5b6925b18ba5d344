package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// plain takes out of a string from elsewhere what a terminal would act on, a new
// line and what turns the direction of writing included.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}

// size writes bytes for a person.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1023.95 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// span writes a time for a person, in the two largest units.
func span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	units := []struct {
		name string
		d    time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.d {
			continue
		}
		s := fmt.Sprintf("%d%s", d/u.d, u.name)
		if i+1 < len(units) && d%u.d >= units[i+1].d {
			s += fmt.Sprintf("%d%s", d%u.d/units[i+1].d, units[i+1].name)
		}
		return s
	}
	return "0s"
}

// instant writes a time as ResourceSync does, in UTC; a dash where there is none.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
