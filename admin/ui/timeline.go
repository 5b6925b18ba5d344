package ui

import (
	"time"

	"github.com/rshub/rshub/admin"
)

// The size of the timeline's drawing.
const (
	timelineWidth  = 1000
	timelineHeight = 60
)

// timeline is the intervals of a topic, drawn from left to right.
type timeline struct {
	Width, Height int
	Begin, End    time.Time
	Bars          []bar
}

// bar is an interval in the drawing.
type bar struct {
	X, Width    float64
	Class, Says string
}

// leastBar is how wide a bar is at least, so that it can be seen.
const leastBar = 2

// newTimeline draws notifications and gaps. Without any times there is nothing to draw.
func newTimeline(list []admin.Notification, gaps []admin.Gap) timeline {
	t := timeline{Width: timelineWidth, Height: timelineHeight}
	reach := func(from, until time.Time) {
		if t.Begin.IsZero() || !from.IsZero() && from.Before(t.Begin) {
			t.Begin = from
		}
		if until.After(t.End) {
			t.End = until
		}
	}
	for _, n := range list {
		if !n.From.IsZero() {
			reach(n.From, n.Until)
		}
	}
	if t.Begin.IsZero() {
		return t
	}
	for _, g := range gaps {
		if g.Until.After(t.Begin) {
			reach(g.From, g.Until)
		}
	}
	whole := max(t.End.Sub(t.Begin), time.Second)
	add := func(from, until time.Time, class, says string) {
		x := float64(from.Sub(t.Begin)) / float64(whole) * timelineWidth
		width := max(float64(until.Sub(from))/float64(whole)*timelineWidth, leastBar)
		t.Bars = append(t.Bars, bar{X: min(x, timelineWidth-leastBar), Width: width, Class: class, Says: says + ", from " + plain(from) + " until " + plain(until)})
	}
	for _, n := range list {
		if !n.From.IsZero() {
			add(n.From, n.Until, "accepted", "accepted "+plain(n.ReceivedAt))
		}
	}
	for _, g := range gaps {
		if g.Until.After(t.Begin) && !g.From.IsZero() {
			add(g.From, g.Until, "gap", "gap, "+g.Reason)
		}
	}
	return t
}
