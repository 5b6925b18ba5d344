package cli

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
)

// instant writes a time as ResourceSync does, in UTC; a dash where there is none.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// away writes how far a time is from now: "in 5m", "5m ago" or "now"; a dash
// where there is none.
func away(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	switch d := t.Sub(now).Round(time.Second); {
	case d > 0:
		return "in " + quantity.SpanText(d)
	case d < 0:
		return quantity.SpanText(-d) + " ago"
	default:
		return "now"
	}
}

// due is away for something that is to be done: what is overdue is done now, or as
// soon as its turn comes.
func due(t, now time.Time) string {
	if t.IsZero() || t.After(now) {
		return away(t, now)
	}
	return "now"
}

// moment writes a time of the hub's clock, to the millisecond, and how far that
// is from now; nothing where there is none.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return instant(t.Truncate(time.Millisecond)) + " (" + away(t, now) + ")"
}

// seconds is a time as the API writes it. What no clock can hold is the longest
// that one can.
func seconds(s float64) time.Duration {
	const most = float64(1<<63 - 1)
	if ns := s * float64(time.Second); ns < most {
		return time.Duration(ns)
	}
	return 1<<63 - 1
}

// parseSince reads a W3C datetime, or how long ago: 90s, 30m, 2h, 7d, also
// together as in 1d12h.
func parseSince(s string, now time.Time) (time.Time, error) {
	if t, err := resourcesync.ParseDatetime(s); err == nil {
		return t, nil
	}
	d, err := quantity.Duration(s)
	if err != nil || now.Add(-d).Year() < 1 {
		return time.Time{}, fmt.Errorf("%q is neither a datetime with its zone, such as 2026-01-31T12:00:00Z, nor a time ago, such as 2h or 7d", Line(s))
	}
	return now.Add(-d), nil
}
