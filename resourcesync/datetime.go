package resourcesync

import (
	"fmt"
	"time"
)

// ParseDatetime reads a W3C datetime (DOC-59) in any of its six forms: YYYY,
// YYYY-MM, YYYY-MM-DD, and YYYY-MM-DD with Thh:mm, Thh:mm:ss or Thh:mm:ss.s and
// a zone, which is Z, +hh:mm or -hh:mm and mandatory with a time. What the
// shorter forms leave out is the beginning of the period, in UTC.
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
		return time.Time{}, fmt.Errorf("%s is not a W3C datetime: %s", quote([]byte(s)), fault)
	}
	return t, nil
}

// FormatDatetime writes t as a W3C datetime in UTC with Z, the form that every
// reader understands, with seconds and as many digits of their fraction as it
// takes to be exact, none for a whole second. t must be in the years 0000 to
// 9999 of UTC.
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

// parseDatetime is ParseDatetime without allocations. The fault is empty where
// there is none.
func parseDatetime(b []byte) (t time.Time, fault string) {
	year, month, day := 0, 1, 1
	rest, ok := number(b, 4, &year)
	if ok && len(rest) > 0 {
		rest, ok = separated(rest, '-', &month)
	}
	if ok && len(rest) > 0 {
		rest, ok = separated(rest, '-', &day)
	}
	if !ok {
		return t, faultForm
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return t, faultRange
	}
	var seconds, nanos int
	if len(rest) > 0 {
		// Only a full date may be followed by a time.
		if len(b)-len(rest) != len("2006-01-02") || rest[0] != 'T' {
			return t, faultForm
		}
		if seconds, nanos, fault = parseTime(rest[1:]); fault != "" {
			return t, fault
		}
	}
	unix := int64(daysSinceEpoch(year, month, day))*secondsPerDay + int64(seconds)
	if unix < minSeconds || unix > maxSeconds {
		return t, faultRange
	}
	return time.Unix(unix, int64(nanos)).UTC(), ""
}

// parseTime reads hh:mm, hh:mm:ss or hh:mm:ss.s and the zone. It returns the
// seconds since the beginning of the day in UTC, which may lie in another day.
func parseTime(b []byte) (seconds, nanos int, fault string) {
	var hour, minute, second int
	rest, ok := number(b, 2, &hour)
	if ok {
		rest, ok = separated(rest, ':', &minute)
	}
	if ok && len(rest) > 0 && rest[0] == ':' {
		rest, ok = separated(rest, ':', &second)
		if ok && len(rest) > 0 && rest[0] == '.' {
			if rest, nanos, fault = fraction(rest[1:]); fault != "" {
				return 0, 0, fault
			}
		}
	}
	if !ok {
		return 0, 0, faultForm
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0, faultRange
	}
	offset, fault := zone(rest)
	return hour*3600 + minute*60 + second - offset, nanos, fault
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
	if len(b) == 1 && b[0] == 'Z' {
		return 0, ""
	}
	if len(b) == 0 || b[0] != '+' && b[0] != '-' {
		return 0, faultZone
	}
	var hour, minute int
	rest, ok := number(b[1:], 2, &hour)
	if ok {
		rest, ok = separated(rest, ':', &minute)
	}
	switch {
	case !ok || len(rest) > 0:
		return 0, faultZone
	case hour > 23 || minute > 59:
		return 0, faultRange
	case b[0] == '-':
		return -(hour*3600 + minute*60), ""
	}
	return hour*3600 + minute*60, ""
}

// separated reads a separator and two digits.
func separated(b []byte, sep byte, v *int) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != sep {
		return b, false
	}
	return number(b[1:], 2, v)
}

// number reads n digits.
func number(b []byte, n int, v *int) (rest []byte, ok bool) {
	if len(b) < n {
		return b, false
	}
	x := 0
	for _, c := range b[:n] {
		if c < '0' || c > '9' {
			return b, false
		}
		x = x*10 + int(c-'0')
	}
	*v = x
	return b[n:], true
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysSinceEpoch counts the days from 1970-01-01 in the Gregorian calendar, for
// years from 0. Years are taken to begin in March, so that a leap day comes last.
func daysSinceEpoch(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	year += 400 // no negative division; 400 years are 146,097 days
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468 - 146097
}
