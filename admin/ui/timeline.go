package ui

import (
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
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
	Says          string // about the slowest subscription
}

// bar is an interval in the drawing.
type bar struct {
	X, Width    float64
	Class, Says string
}

// leastBar is how wide a bar is at least, so that it can be seen.
const leastBar = 2

// newTimeline draws notifications and gaps, and where the slowest subscription is: after the
// latest notification that it got. Head is the number of the topic's last one. Without any
// times there is nothing to draw.
func newTimeline(list []admin.Notification, gaps []admin.Gap, slowest *admin.Laggard, head uint64) timeline {
	t := timeline{Width: timelineWidth, Height: timelineHeight}
	for _, n := range list {
		if !n.From.IsZero() {
			t.reach(n.From, n.Until)
		}
	}
	if t.Begin.IsZero() {
		return t
	}
	for _, g := range gaps {
		if g.Until.After(t.Begin) {
			t.reach(g.From, g.Until)
		}
	}
	for _, g := range gaps {
		class := "gap"
		if g.Reason == journal.GapRolledBack {
			class = "rewind"
		}
		if g.Until.After(t.Begin) && !g.From.IsZero() {
			t.draw(g.From, g.Until, class, "gap: "+reason(g.Reason))
		}
	}
	for _, n := range list { // over what the store lost, if they are it, published again
		if !n.From.IsZero() {
			t.draw(n.From, n.Until, "accepted", "accepted "+plain(n.ReceivedAt))
		}
	}
	if slowest != nil && 0 < slowest.Lag.Notifications && slowest.Lag.Notifications <= head {
		t.Says = callback(slowest.Callback) + " is the furthest behind: by " + count(slowest.Lag.Notifications, "notification", "notifications") + ", " + seconds(slowest.Lag.Seconds) + "."
		at, got := t.Begin, head-slowest.Lag.Notifications
		for _, n := range list {
			if n.Seq <= got && !n.Until.IsZero() {
				at = n.Until
			}
		}
		if len(list) > 0 && list[0].Seq <= got+1 && got < list[len(list)-1].Seq { // otherwise it is on another page
			t.draw(at, at, "slowest", t.Says)
		}
	}
	return t
}

// reach makes the drawing long enough for an interval.
func (t *timeline) reach(from, until time.Time) {
	if t.Begin.IsZero() || !from.IsZero() && from.Before(t.Begin) {
		t.Begin = from
	}
	if until.After(t.End) {
		t.End = until
	}
}

func (t *timeline) draw(from, until time.Time, class, says string) {
	whole := max(t.End.Sub(t.Begin), time.Second)
	x := float64(from.Sub(t.Begin)) / float64(whole) * timelineWidth
	width := max(float64(until.Sub(from))/float64(whole)*timelineWidth, leastBar)
	if !until.Equal(from) {
		says += ", from " + plain(from) + " until " + plain(until)
	}
	t.Bars = append(t.Bars, bar{X: min(x, timelineWidth-leastBar), Width: width, Class: class, Says: says})
}
