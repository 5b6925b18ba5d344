package resourcesync

import "time"

// ParseDatetime is provisional.
func ParseDatetime(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) }

// FormatDatetime is provisional.
func FormatDatetime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
