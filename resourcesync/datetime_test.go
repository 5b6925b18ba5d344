package resourcesync

import (
	"strings"
	"testing"
	"time"
)

// DOC-59: the six forms, and what time.RFC3339 would get wrong.
func TestParseDatetime_DOC59(t *testing.T) {
	utc := func(y, mo, d, h, mi, s, ns int) time.Time {
		return time.Date(y, time.Month(mo), d, h, mi, s, ns, time.UTC)
	}
	for in, want := range map[string]time.Time{
		"2026":                                utc(2026, 1, 1, 0, 0, 0, 0),
		"2026-11":                             utc(2026, 11, 1, 0, 0, 0, 0),
		"2026-11-21":                          utc(2026, 11, 21, 0, 0, 0, 0),
		"2026-11-21T09:05Z":                   utc(2026, 11, 21, 9, 5, 0, 0),
		"2026-11-21T09:05+01:00":              utc(2026, 11, 21, 8, 5, 0, 0),
		"2026-11-21T09:05:07Z":                utc(2026, 11, 21, 9, 5, 7, 0),
		"2026-11-21T09:05:07-11:30":           utc(2026, 11, 21, 20, 35, 7, 0),
		"2026-11-21T09:05:07.5Z":              utc(2026, 11, 21, 9, 5, 7, 500_000_000),
		"2026-11-21T09:05:07.000000001Z":      utc(2026, 11, 21, 9, 5, 7, 1),
		"2026-11-21T09:05:07.123456789-00:00": utc(2026, 11, 21, 9, 5, 7, 123_456_789),
		"2026-11-21T09:05:07.1234567890000Z":  utc(2026, 11, 21, 9, 5, 7, 123_456_789),
		"2024-02-29":                          utc(2024, 2, 29, 0, 0, 0, 0),
		"2000-02-29":                          utc(2000, 2, 29, 0, 0, 0, 0),
		"2026-12-31T23:59:59.999999999+23:59": utc(2026, 12, 31, 0, 0, 59, 999_999_999),
		"2026-01-01T00:00-00:01":              utc(2026, 1, 1, 0, 1, 0, 0),
		"1969-12-31T23:59:59.5Z":              utc(1969, 12, 31, 23, 59, 59, 500_000_000),
		"0000-01-01T00:00:00Z":                utc(0, 1, 1, 0, 0, 0, 0),
		"0001":                                {},
		"9999-12-31T23:59:59.999999999Z":      utc(9999, 12, 31, 23, 59, 59, 999_999_999),
	} {
		if got, err := ParseDatetime(in); err != nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("ParseDatetime(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for in, why := range map[string]string{
		"":                                "YYYY",
		"26":                              "YYYY",
		"02026":                           "YYYY",
		"2026-":                           "YYYY",
		"2026-1":                          "YYYY",
		"202611":                          "YYYY",
		"20261121":                        "YYYY",
		"2026-11-":                        "YYYY",
		"2026-11-2":                       "YYYY",
		"2026-11-211":                     "YYYY",
		"2026/11/21":                      "YYYY",
		"2026T09:05Z":                     "YYYY",
		"2026-11T09:05Z":                  "YYYY",
		"2026Z":                           "YYYY",
		"2026-11-21Z":                     "YYYY",
		"2026-11-21 09:05:07Z":            "YYYY",
		"2026-11-21t09:05:07Z":            "YYYY",
		"2026-11-21T":                     "YYYY",
		"2026-11-21T09Z":                  "YYYY",
		"2026-11-21T9:05:07Z":             "YYYY", // time.RFC3339 accepts it
		"2026-11-21T09:5:07Z":             "YYYY",
		"2026-11-21T09:05:7Z":             "YYYY",
		"2026-11-21T09:05:Z":              "YYYY",
		"2026-11-21T09:05:07.Z":           "YYYY",
		"2026-11-21T09:05:07,5Z":          "zone", // time.RFC3339 accepts it
		"2026-11-21T09:05.5Z":             "zone",
		"2026-11-21T09:05":                "zone",
		"2026-11-21T09:05:07":             "zone",
		"2026-11-21T09:05:07.5":           "zone",
		"2026-11-21T09:05:07z":            "zone",
		"2026-11-21T09:05:07ZZ":           "zone",
		"2026-11-21T09:05:07+01":          "zone",
		"2026-11-21T09:05:07+0100":        "zone",
		"2026-11-21T09:05:07+1:00":        "zone",
		"2026-11-21T09:05:07+01:000":      "zone",
		"2026-11-21T09:05:07\u221201:00":  "zone",
		"2026-11-21T09:05:07+24:00":       "range",
		"2026-11-21T09:05:07+01:60":       "range",
		"2026-00":                         "range",
		"2026-13":                         "range",
		"2026-11-00":                      "range",
		"2026-11-31":                      "range",
		"2026-02-29":                      "range",
		"1900-02-29":                      "range",
		"2026-11-21T24:00:00Z":            "range",
		"2026-11-21T09:60Z":               "range",
		"2026-11-21T23:59:60Z":            "range",
		"0000-01-01T00:00+00:01":          "range",
		"9999-12-31T23:59-00:01":          "range",
		"2026-11-21T09:05:07.1234567891Z": "nine digits",
		"2026-11-21T09:05:07.0000000001Z": "nine digits",
		" 2026":                           "YYYY",
		"2026 ":                           "YYYY",
		"2026-11-21T09:05:07Z\n":          "zone",
		"-2026-11-21":                     "YYYY",
		"２０２６":                            "YYYY",
		"2026-11-21T09:05:07Z<script>":    "zone",
		strings.Repeat("9", 10_000):       "YYYY",
	} {
		got, err := ParseDatetime(in)
		if err == nil || !strings.Contains(err.Error(), why) || len(err.Error()) > 200 {
			t.Errorf("ParseDatetime(%q) = %v, %v; want an error with %q", in, got, err, why)
		}
	}
}

// DOC-59: always UTC with Z, exact, and no longer than needed.
func TestFormatDatetime_DOC59(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	for want, in := range map[string]time.Time{
		"2026-11-21T08:05:07Z":           time.Date(2026, 11, 21, 9, 5, 7, 0, cet),
		"2026-11-21T09:05:07.5Z":         time.Date(2026, 11, 21, 9, 5, 7, 500_000_000, time.UTC),
		"2026-11-21T09:05:07.000000001Z": time.Date(2026, 11, 21, 9, 5, 7, 1, time.UTC),
		"2026-11-21T09:05:07.12Z":        time.Date(2026, 11, 21, 9, 5, 7, 120_000_000, time.UTC),
		"0001-01-01T00:00:00Z":           {},
	} {
		if got := FormatDatetime(in); got != want {
			t.Errorf("FormatDatetime(%v) = %q, want %q", in, got, want)
		}
	}
}

// Each day from 0000 to 9999 is the one that package time says, and no month has a day
// more.
func TestDaysAgainstPackageTime(t *testing.T) {
	var b []byte
	for day := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 10_000; {
		b = day.AppendFormat(b[:0], time.DateOnly)
		if got, fault := parseDatetime(b); !got.Equal(day) {
			t.Fatalf("%s: %v, %s", b, got, fault)
		}
		month := day.Month()
		if day = day.AddDate(0, 0, 1); day.Month() != month {
			b[len(b)-1]++
			if b[len(b)-1] > '9' {
				b[len(b)-2], b[len(b)-1] = b[len(b)-2]+1, '0'
			}
			if _, fault := parseDatetime(b); fault != faultRange {
				t.Fatalf("%s is read", b)
			}
		}
	}
}

// What is read is written the same, and package time reads it the same.
func FuzzDatetime(f *testing.F) {
	for _, s := range []string{
		"2026", "2026-11", "2026-11-21", "2026-11-21T09:05Z", "2026-11-21T09:05:07+01:00",
		"2026-11-21T09:05:07.123456789Z", "2026-11-21T09:05:07,5Z", "0000", "9999-12-31T23:59-00:01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseDatetime(s)
		if err != nil {
			if !got.IsZero() {
				t.Errorf("%v came with %v", got, err)
			}
			return
		}
		written := FormatDatetime(got)
		again, err := ParseDatetime(written)
		if err != nil || !again.Equal(got) || FormatDatetime(again) != written {
			t.Errorf("%q gives %v, written %q, read %v, %v", s, got, written, again, err)
		}
		layout := map[int]string{4: "2006", 7: "2006-01", 10: "2006-01-02"}[len(s)]
		if layout == "" {
			layout = "2006-01-02T15:04:05Z07:00"
			if len(s) > 16 && s[16] != ':' {
				layout = "2006-01-02T15:04Z07:00"
			}
		}
		if want, err := time.Parse(layout, s); err != nil || !want.Equal(got) {
			t.Errorf("%q gives %v; package time says %v, %v", s, got, want, err)
		}
	})
}
