package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// goodChronicle is a run in which all promises were kept: a topic of ten
// intervals a second apart, a callee that stays, one that leaves and comes back,
// and one that expires.
func goodChronicle() *chronicle {
	c := &chronicle{grace: 100 * time.Millisecond, faults: 1, perFault: 2}
	story := &topicStory{url: "topic"}
	for n := range 10 {
		at := time.Duration(n+1) * time.Second
		id := fmt.Sprint("id", n)
		story.intervals = append(story.intervals, &posted{sent: at, accepted: at + time.Millisecond, ids: []string{id}})
		story.journal = append(story.journal, survivor{n, id})
	}
	c.topics = []*topicStory{story}
	c.callees = []*callee{
		{path: "/stays", sessions: []session{{accepted: 500 * time.Millisecond}}},
		{path: "/leaves", sessions: []session{
			{accepted: 500 * time.Millisecond, leaving: 4500 * time.Millisecond, over: 4600 * time.Millisecond},
			{asked: 8400 * time.Millisecond, accepted: 8500 * time.Millisecond},
		}},
		{path: "/expires", sessions: []session{{accepted: 500 * time.Millisecond, over: 3500 * time.Millisecond, expires: true}}},
	}
	for n, i := range story.intervals {
		c.arrive(0, n, i.accepted+time.Millisecond)
		if n < 4 || n >= 8 {
			c.arrive(1, n, i.accepted+time.Millisecond)
		}
		if n < 3 {
			c.arrive(2, n, i.accepted+time.Millisecond)
		}
	}
	return c
}

func (c *chronicle) arrive(callee, n int, at time.Duration) {
	c.arrived = append(c.arrived, arrival{callee, n, fmt.Sprint("id", n), at})
}

// drop takes a delivery away.
func (c *chronicle) drop(callee, n int) {
	c.arrived = slices.DeleteFunc(c.arrived, func(a arrival) bool { return a.callee == callee && a.n == n })
}

// The judge lets a good run pass, and notices each way of breaking a promise.
func TestJudgeOfTheNemesis(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *chronicle)
		says   string // empty: it passes
	}{
		"all is well":     {func(*chronicle) {}, ""},
		"lost":            {func(c *chronicle) { c.drop(0, 5) }, "/stays: interval 5 of topic has not arrived"},
		"lost at the end": {func(c *chronicle) { c.drop(0, 9) }, "/stays: interval 9 of topic has not arrived"},
		"lost, and recorded": {func(c *chronicle) {
			c.drop(0, 5)
			c.callees[0].gaps = []lostSpan{{5, 5, "damaged"}}
			c.explained = map[string][]span{"damaged": {{0, 7 * time.Second}}}
		}, ""},
		"lost, and recorded, by hubs that trim": {func(c *chronicle) {
			c.trims = true
			c.topics[0].journal = c.topics[0].journal[6:]
			c.drop(0, 5)
			c.callees[0].gaps = []lostSpan{{5, 5, "retention"}}
		}, ""},
		"a stream without an event": {func(c *chronicle) {
			c.callees[0].reads, c.callees[0].sessions[0].accepted = true, never
		}, "/stays: the stream of topic had no event"},
		"a stream that began after a loss": {func(c *chronicle) {
			c.callees[0].reads, c.callees[0].sessions[0].accepted = true, 5*time.Second
			c.drop(0, 2)
		}, ""},
		"one whose place was deleted": {func(c *chronicle) {
			c.topics[0].damaged = map[int]bool{5: true}
			c.callees[0].gaps = []lostSpan{{0, 5, "rolled_back"}}
		}, ""},
		"one whose place was another than what was deleted": {func(c *chronicle) {
			c.topics[0].damaged = map[int]bool{5: true}
			c.callees[0].gaps = []lostSpan{{0, 4, "rolled_back"}}
		}, "/stays: no fault explains the gap from interval 0 to 4 (rolled_back)"},
		"one that did not get what was deleted": {func(c *chronicle) {
			c.topics[0].damaged = map[int]bool{5: true}
			c.callees[0].gaps = []lostSpan{{0, 5, "rolled_back"}}
			c.drop(0, 5)
		}, "/stays: interval 5 of topic has not arrived"},
		"a gap that nothing explains": {func(c *chronicle) {
			c.callees[0].gaps = []lostSpan{{5, 5, "retention"}}
		}, "/stays: no fault explains the gap from interval 5 to 5 (retention)"},
		"a gap after the fault was healed": {func(c *chronicle) {
			c.callees[0].gaps = []lostSpan{{5, 5, "gave_up"}}
			c.explained = map[string][]span{"gave_up": {{0, 5 * time.Second}}}
		}, "no fault explains"},
		"a gap of a tail that was sent again long after": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal[5].id = "again"
			c.topics[0].intervals[5].again = map[string]sending{"again": {20 * time.Second, 21 * time.Second}}
			c.arrived = append(c.arrived, arrival{0, 5, "again", 22 * time.Second}, arrival{1, 5, "again", 22 * time.Second})
			c.callees[0].gaps = []lostSpan{{5, 5, "rolled_back"}}
			c.explained = map[string][]span{"rolled_back": {{0, 7 * time.Second}}}
		}, ""},
		"a gap that is empty": {func(c *chronicle) {
			c.explained = map[string][]span{"retention": {{0, 7 * time.Second}}}
			c.callees[0].gaps = []lostSpan{{5, 4, "retention"}}
		}, "/stays: a gap is empty: from interval 5 to 4 (retention)"},
		"a gap of one who left": {func(c *chronicle) {
			c.callees[1].gaps = []lostSpan{{4, 7, "unsubscribed"}}
		}, ""},
		"a gap of an end that nobody asked for": {func(c *chronicle) {
			c.callees[0].gaps = []lostSpan{{4, 7, "unsubscribed"}}
		}, "no fault explains"},
		"lost, and another recorded": {func(c *chronicle) {
			c.drop(0, 5)
			c.callees[0].gaps = []lostSpan{{6, 6, "retention"}}
		}, "interval 5"},
		"lost in a tail that the Source sent again": {func(c *chronicle) {
			c.drop(0, 5)
			c.callees[0].gaps = []lostSpan{{5, 5, "rolled_back"}}
		}, "interval 5"},
		"lost while it was about to leave": {func(c *chronicle) { c.drop(1, 3) }, "/leaves: interval 3"},
		"lost while it was away":           {func(c *chronicle) { c.drop(2, 2) }, ""},
		"lost after it came back":          {func(c *chronicle) { c.drop(1, 8) }, "/leaves: interval 8"},
		"never accepted": {func(c *chronicle) {
			c.topics[0].intervals[9].accepted = 0
			c.drop(0, 9)
			c.drop(1, 9)
		}, ""},
		"out of order": {func(c *chronicle) {
			c.drop(0, 5)
			c.arrive(0, 5, 20*time.Second)
		}, "interval 5 arrived first after 9"},
		"out of order, after it was in a gap": {func(c *chronicle) {
			c.explained = map[string][]span{"retention": {{0, 7 * time.Second}}}
			c.callees[0].gaps = []lostSpan{{5, 5, "retention"}}
			c.drop(0, 5)
			c.arrive(0, 5, 20*time.Second)
		}, ""},
		"sent again after others had arrived": {func(c *chronicle) {
			c.lossy = true
			for _, n := range []int{2, 3} {
				c.topics[0].journal[n].id = fmt.Sprint("again", n)
				c.topics[0].intervals[n].again = map[string]sending{fmt.Sprint("again", n): {20 * time.Second, 21 * time.Second}}
				c.drop(0, n)
				c.arrived = append(c.arrived, arrival{0, n, fmt.Sprint("again", n), 22 * time.Second})
				c.arrived = append(c.arrived, arrival{1, n, fmt.Sprint("again", n), 22 * time.Second})
			}
		}, ""},
		"sent again, and what was lost arrives between": {func(c *chronicle) {
			c.lossy = true
			for _, n := range []int{2, 3} {
				c.topics[0].journal[n].id = fmt.Sprint("again", n)
				c.topics[0].intervals[n].again = map[string]sending{fmt.Sprint("again", n): {20 * time.Second, 21 * time.Second}}
			}
			c.drop(0, 2)
			c.drop(0, 3)
			c.arrived = append(c.arrived, arrival{0, 3, "id3", 22 * time.Second}, arrival{0, 2, "again2", 23 * time.Second}, arrival{0, 3, "again3", 24 * time.Second})
			c.arrived = append(c.arrived, arrival{1, 2, "again2", 23 * time.Second}, arrival{1, 3, "again3", 24 * time.Second})
		}, ""},
		"sent again, and out of order": {func(c *chronicle) {
			c.lossy = true
			for at, n := range []int{3, 2} {
				c.topics[0].journal[n].id = fmt.Sprint("again", n)
				c.topics[0].intervals[n].again = map[string]sending{fmt.Sprint("again", n): {20 * time.Second, 21 * time.Second}}
				c.drop(0, n)
				c.arrived = append(c.arrived, arrival{0, n, fmt.Sprint("again", n), time.Duration(22+at) * time.Second})
			}
		}, "/stays: interval 2 arrived first after 3"},
		"duplicates": {func(c *chronicle) { c.arrive(0, 5, 20*time.Second); c.arrive(0, 6, 20*time.Second) }, ""},
		"too many duplicates": {func(c *chronicle) {
			for n := range 3 {
				c.arrive(0, n, 20*time.Second)
			}
		}, "3 duplicates after 1 faults, at most 2"},
		"duplicates of a lost tail": {func(c *chronicle) {
			c.lossy = true
			for n := range 10 {
				c.arrive(0, n, 20*time.Second)
			}
		}, ""},
		"again and again, after a lost tail": {func(c *chronicle) {
			c.lossy = true
			for n := range 5 {
				c.arrive(0, 9, time.Duration(20+n)*time.Second)
			}
		}, "/stays: id9 arrived 6 times after 1 faults"},
		"in flight when it left": {func(c *chronicle) { c.arrive(1, 4, 4650*time.Millisecond) }, ""},
		"after it left":          {func(c *chronicle) { c.arrive(1, 4, 5100*time.Millisecond) }, "/leaves: interval 4 arrived at 5.1s"},
		"after it left, from a hub that was frozen": {func(c *chronicle) {
			c.freezes = 1
			c.arrive(1, 4, 5100*time.Millisecond)
		}, ""},
		"often after it left, from a hub that was frozen": {func(c *chronicle) {
			c.freezes = 1
			c.arrive(1, 4, 5100*time.Millisecond)
			c.arrive(1, 5, 6100*time.Millisecond)
		}, "interval 5 arrived"},
		"after it expired": {func(c *chronicle) { c.arrive(2, 5, 6100*time.Millisecond) }, "/expires: interval 5"},
		"after it expired, while a clock was set back": {func(c *chronicle) {
			c.setClocks = []span{{6 * time.Second, 7 * time.Second}}
			c.arrive(2, 5, 6100*time.Millisecond)
		}, ""},
		"after it left, while a clock was set back": {func(c *chronicle) {
			c.setClocks = []span{{5 * time.Second, 7 * time.Second}}
			c.arrive(1, 4, 5100*time.Millisecond)
		}, "/leaves: interval 4"},
		"an id that is gone": {func(c *chronicle) { c.topics[0].journal[5].id = "another" }, "id5 was accepted"},
		"a survivor that never came": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal[5].id = "another"
		}, "another (interval 5) is in the journal, and has not arrived"},
		"a survivor that came under its new id": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal[5].id = "another"
			c.arrived = append(c.arrived, arrival{0, 5, "another", 20 * time.Second})
		}, ""},
		"lost by the store before it left, and sent again after": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal[3].id = "another"
			c.topics[0].intervals[3].again = map[string]sending{"another": {5 * time.Second, 6 * time.Second}}
			c.drop(1, 3)
			c.arrived = append(c.arrived, arrival{0, 3, "another", 6 * time.Second})
		}, ""},
		"an interval that was not sent again": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal = c.topics[0].journal[:9]
		}, "interval 9 was accepted, and the journal does not have it"},
		"a topic that was emptied": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal, c.topics[0].emptied = c.topics[0].journal[6:], 6
		}, ""},
		"a topic that was emptied, and goes on too late": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal, c.topics[0].emptied = c.topics[0].journal[7:], 6
		}, "interval 6 was accepted, and the journal does not have it"},
		"lost in a topic that was emptied": {func(c *chronicle) {
			c.lossy = true
			c.topics[0].journal, c.topics[0].emptied = c.topics[0].journal[6:], 6
			c.drop(0, 5)
		}, "/stays: interval 5 of topic has not arrived"},
		"a hole in the journal": {func(c *chronicle) {
			c.topics[0].journal = append(c.topics[0].journal[:4:4], c.topics[0].journal[5:]...)
		}, "the journal has interval 5 after 3"},
	} {
		c := goodChronicle()
		tc.change(c)
		got := strings.Join(c.judge(), "\n")
		if tc.says == "" && got != "" || tc.says != "" && !strings.Contains(got, tc.says) {
			t.Errorf("%s: it says %q, want %q", name, got, tc.says)
		}
	}
}
