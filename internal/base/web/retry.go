package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is ParseRetryAfter without the second result: zero, too, if the server asks
// for nothing.
func RetryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	after, _ := ParseRetryAfter(h, now, limit)
	return after
}

// ParseRetryAfter returns how long a server asks the client to wait (RFC 9110, 10.2.3):
// seconds, or a date, which is compared with now. It is at most the limit of the caller,
// since a stranger writes the header. Asks is false if there is no header, or if it is
// neither.
func ParseRetryAfter(h http.Header, now time.Time, limit time.Duration) (after time.Duration, asks bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" { // as in nearly every answer
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) { // or it would not fit
			return limit, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), limit), true
}
