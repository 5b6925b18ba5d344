package quantity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

type sizeUnit struct {
	name  string
	bytes int64
}

var sizeUnits = []sizeUnit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// Size reads a number of bytes such as 64KiB. Units are B (or none), KiB,
// MiB, GiB and TiB.
func Size(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGTi")
	n, err := Digits(digits)
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return u.name == s[len(digits):] })
	switch {
	case errors.Is(err, strconv.ErrRange) || i >= 0 && n > math.MaxInt64/sizeUnits[i].bytes:
		return 0, fmt.Errorf("%q is more bytes than can be counted", s)
	case err != nil || i < 0:
		return 0, fmt.Errorf("%q is not a size; write a whole number and B, KiB, MiB, GiB or TiB, such as 50MiB", s)
	}
	return n * sizeUnits[i].bytes, nil
}

// Duration reads what time.ParseDuration reads, and days (10d, 1d12h). It
// refuses signs.
func Duration(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	var days int64
	rest := s
	switch {
	case strings.Contains(s, "-"):
		return 0, fmt.Errorf("%q is negative; write a duration like 300s, 72h or 10d", s)
	case strings.Contains(s, "+"):
		return 0, fmt.Errorf("%q has a sign; write a duration like 300s, 72h or 10d", s)
	}
	if before, after, ok := strings.Cut(s, "d"); ok {
		n, err := Digits(before)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration; write days as a whole number, such as 10d", s)
		}
		days, rest = n, after
	}
	var d time.Duration
	if rest != "" || s == "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			if _, err := Digits(s); err == nil {
				return 0, fmt.Errorf("%q has no unit; write %ss if seconds are meant (units are ms, s, m, h and d)", s, s)
			}
			return 0, fmt.Errorf("%q is not a duration; write it like 300s, 15m, 72h or 10d", s)
		}
	}
	if days > int64((math.MaxInt64-d)/day) {
		return 0, fmt.Errorf("%q is longer than the 292 years that can be counted", s)
	}
	return time.Duration(days)*day + d, nil
}

// Share reads a part of a whole, as a percentage such as 50% or as a number from 0 to
// 1 such as 0.5.
func Share(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(text, 64)
	if percent {
		f /= 100
	}
	if err != nil || strings.Trim(text, "0123456789.") != "" || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%q is not a share; write a percentage such as 50%%, or a number from 0 to 1 such as 0.5", s)
	}
	return f, nil
}

// Count writes a number and what it counts: 1 file, 2 files.
func Count[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Digits reads decimal digits only, where strconv also takes a sign.
func Digits(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, 64)
}

// SizeText writes a number of bytes as Size reads it, in the largest unit that leaves a
// whole number.
func SizeText(n int64) string {
	for _, u := range slices.Backward(sizeUnits[:4]) {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// ShareText writes a part of a whole as Share reads it, as a percentage.
func ShareText(f float64) string {
	return strconv.FormatFloat(math.Round(f*1e12)/1e10, 'f', -1, 64) + "%"
}

// BytesText writes a number of bytes for a person, to a tenth of its unit: 12 B, 1.5 MiB.
func BytesText(n int64) string {
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

// DurationText writes a time as Duration reads it: in days if they are whole, and
// without units of nothing at its end.
func DurationText(d time.Duration) string {
	if d > 0 && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	text := d.String()
	if d > 0 && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d > 0 && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// NumberText writes a whole number for a person: 1,234,567.
func NumberText[N int | int64 | uint64](n N) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// RateText writes a number for a person, with one decimal below 10.
func RateText(f float64) string {
	if f > 0 && f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// SpanText writes a time for a person, in its two largest units, such as 1d2h. A negative
// one is 0s.
func SpanText(d time.Duration) string {
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
