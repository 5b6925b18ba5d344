package resourcesync

import (
	"fmt"
	"time"
)

// ParseDatetime reads a W3C datetime (DOC-59) in any of its six forms: YYYY, YYYY-MM,
// YYYY-MM-DD, and YYYY-MM-DD with Thh:mm, Thh:mm:ss or Thh:mm:ss.s and a zone, which is
// Z, +hh:mm or -hh:mm and mandatory with a time. The shorter forms stand for the
// beginning of their period, in UTC.
//
// The result is in UTC and exact: a fraction of a second has up to nine digits,
// and one with more is refused unless the rest are zeros, since cutting it would
// make two instants one. So are leap seconds, 24:00, and instants outside the
// years 0000 to 9999 of UTC, which have no datetime of their own.
//
// "0001" and its like give the zero Time.
func ParseDatetime(s string) (time.Time, error) {
	t, fault := parseDatetime([]byte(s))
	if fault != "" {
		return time.Time{}, fmt.Errorf("%s is not a W3C datetime: %s", quote(s), fault)
	}
	return t, nil
}

// FormatDatetime writes t as a W3C datetime in UTC with Z, the form that every reader
// understands, with seconds and as many digits of their fraction as are needed to be
// exact, none for a whole second. t must be in the years 0000 to 9999 of UTC.
func FormatDatetime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
}

const (
	faultForm     = "use YYYY-MM-DDThh:mm:ssZ"
	faultZone     = "a time needs a zone: Z, +hh:mm or -hh:mm"
	faultFraction = "more than nine digits of a second are not supported"
	faultRange    = "a part is out of range"
)

const (
	secondsPerDay = 24 * 60 * 60
	minSeconds    = -62167219200 // 0000-01-01T00:00:00Z in Unix time
	maxSeconds    = 253402300799 // 9999-12-31T23:59:59Z
)

// parseDatetime is ParseDatetime without allocations. The fault is empty if there is
// none.
func parseDatetime(b []byte) (t time.Time, fault string) {
	const separators = "--T::"
	n := [...]int{1: 1, 2: 1, 5: 0} // year, month, day, hour, minute, second
	century, ok1 := twoDigits(b, 0)
	year, ok2 := twoDigits(b, 2)
	if !ok1 || !ok2 {
		return t, faultForm
	}
	n[0] = century*100 + year
	parts, end := 1, len("2006")
	for parts < len(n) && end < len(b) && b[end] == separators[parts-1] {
		v, ok := twoDigits(b, end+1)
		if !ok {
			return t, faultForm
		}
		n[parts] = v
		parts, end = parts+1, end+len("-01")
	}
	rest := b[end:]
	if parts == 4 || parts < 4 && len(rest) > 0 { // the hour alone, or something else
		return t, faultForm
	}
	var nanos, offset int
	if parts > 4 {
		if parts == len(n) && len(rest) > 0 && rest[0] == '.' {
			rest, nanos, fault = fraction(rest[1:])
		}
		if fault == "" {
			offset, fault = zone(rest)
		}
	}
	at := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5]-offset, nanos, time.UTC)
	switch {
	case fault != "":
		return t, fault
	case n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 28 && n[2] > daysIn(n[0], n[1]) || n[3] > 23 || n[4] > 59 || n[5] > 59,
		at.Unix() < minSeconds, at.Unix() > maxSeconds:
		return t, faultRange
	}
	return at, ""
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// twoDigits reads the number of two digits at b[at:].
func twoDigits(b []byte, at int) (n int, ok bool) {
	if len(b) < at+2 {
		return 0, false
	}
	tens, units := b[at]-'0', b[at+1]-'0'
	return int(tens)*10 + int(units), tens < 10 && units < 10
}

// fraction reads one or more digits as nanoseconds.
func fraction(b []byte) (rest []byte, nanos int, fault string) {
	n, scale := 0, 100_000_000
	for ; n < len(b) && b[n] >= '0' && b[n] <= '9'; n++ {
		d := int(b[n] - '0')
		if scale == 0 && d != 0 {
			return nil, 0, faultFraction
		}
		nanos += d * scale
		scale /= 10
	}
	if n == 0 {
		return nil, 0, faultForm
	}
	return b[n:], nanos, ""
}

// zone reads Z, +hh:mm or -hh:mm, all there is, as seconds east of UTC.
func zone(b []byte) (seconds int, fault string) {
	if string(b) == "Z" {
		return 0, ""
	}
	hours, ok1 := twoDigits(b, 1)
	minutes, ok2 := twoDigits(b, 4)
	switch {
	case !ok1 || !ok2 || len(b) != len("+hh:mm") || b[0] != '+' && b[0] != '-' || b[3] != ':':
		return 0, faultZone
	case hours > 23 || minutes > 59:
		return 0, faultRange
	case b[0] == '-':
		return -hours*3600 - minutes*60, ""
	}
	return hours*3600 + minutes*60, ""
}
