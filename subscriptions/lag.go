package subscriptions

import (
	"time"

	"github.com/rshub/rshub/journal"
)

// Lag is how far a cursor is behind its topic. It is zero for a cursor at the head, or past it
// because the journal lost its tail.
type Lag struct {
	// Notifications are retained and not delivered yet. Lost are those before them that
	// retention deleted. Delivery has yet to record them as a gap.
	Notifications, Lost uint64
	// Span is the time from the `until` of what was delivered last, or of the last one that
	// retention deleted, to that of the topic. If nothing was ever delivered, it is the time for
	// which the first notification has failed.
	Span time.Duration
}

// LagOf returns the lag of a cursor at now. Last and trimmed are of the topic's head.
func LagOf(last, trimmed journal.Anchor, c journal.Cursor, now time.Time) (l Lag) {
	if last.Seq <= c.Seq {
		return l
	}
	got := c.Anchor
	if c.Position < trimmed.Position && c.Seq < trimmed.Seq {
		l.Lost = trimmed.Seq - c.Seq
		got = trimmed
	}
	if l.Notifications = last.Seq - got.Seq; l.Notifications == 0 {
		return l
	}
	switch {
	case got.Seq > 0:
		l.Span = max(last.Until.Sub(got.Until), 0)
	case !c.FirstAttemptAt.IsZero():
		l.Span = max(now.Sub(c.FirstAttemptAt), 0)
	}
	return l
}
