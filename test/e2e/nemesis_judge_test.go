package e2e

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rshub/rshub/journal"
)

// chronicle is what happened in a run of the nemesis, as seen from outside: the answers that Sources
// got, what callbacks got, and what the hubs report in the end. Times count from the start of the run.
type chronicle struct {
	topics  []*topicStory
	callees []*callee
	arrived []arrival

	// grace is how long deliveries in flight may still arrive after an unsubscribe or an expiry: the
	// time that another hub needs to notice it. After that, each freeze of a hub may let one
	// delivery through that was in flight then.
	grace   time.Duration
	freezes int
	// lossy says that the store lost acknowledged writes. Then only the accepted notifications that
	// survived count, under any id.
	lossy bool
	// trims says that the hubs delete the oldest notifications of the topics early.
	trims bool
	// faults is how often hubs or the store were hit, and perFault how many
	// duplicates each may bring; losses is how often a tail was lost.
	faults, perFault, losses int
	// explained are the faults that may have caused gaps, by the reason of the gap.
	explained map[string][]span
	// setClocks are the times when the clock of a hub was wrong. A lease that is over by the right time may not
	// be over by the wrong one (docs/time.md).
	setClocks []span
}

// span is the time of a fault, from its beginning until it was healed.
type span struct{ begun, healed time.Duration }

// topicStory is one topic: the intervals that its Source built, by number.
type topicStory struct {
	url       string
	intervals []*posted
	rewinds   int // how often the Source was told to send intervals again
	// damaged are the intervals that were deleted from the journal. They may be missing there. If
	// they have not arrived, they have to be in a gap.
	damaged map[int]bool
	// emptied counts the intervals that existed when the store lost the whole topic. They need not
	// be in the journal, but they must have arrived.
	emptied int
	journal []survivor // what the hubs list in the end, oldest first
}

// posted is one notification of a Source, which may have been sent often.
type posted struct {
	sent     time.Duration // when it was posted first
	accepted time.Duration // when it was answered 200 first; 0: never
	ids      []string      // those it was answered with
	// again is when it was posted and accepted under each id, if the store had lost it and the
	// Source sent it again.
	again map[string]sending
}

type sending struct{ sent, accepted time.Duration }

// surviving returns the story with the times at which the intervals that survived were posted. One
// that the store lost counts from when it was sent again.
func (t *topicStory) surviving() *topicStory {
	out := *t
	out.intervals = slices.Clone(t.intervals)
	for _, s := range t.journal {
		if s.n >= len(out.intervals) {
			continue
		}
		if when, ok := out.intervals[s.n].again[s.id]; ok {
			i := *out.intervals[s.n]
			i.sent, i.accepted = when.sent, when.accepted
			out.intervals[s.n] = &i
		}
	}
	return &out
}

// survivor is a notification that is in the journal.
type survivor struct {
	n  int
	id string
}

// callee is a callback that subscribes to a topic, with its sessions.
type callee struct {
	n        int // of all callees
	path     string
	topic    int
	stays    bool // it subscribes once and for good
	sessions []session
	gaps     []lostSpan // what the hubs say that it did not get
	// reads says that it is no callback, but reads the stream of its topic from the earliest that the hubs keep. Its
	// session begins with the first event: what was lost before is no gap for it. Told are the gaps that it was told.
	reads bool
	begun time.Duration // 0: it had no event
	told  []lostSpan
}

// session is one time that a callee was subscribed.
type session struct {
	asked    time.Duration // when the subscribe request was sent
	accepted time.Duration // when its answer 202 was there
	leaving  time.Duration // when the unsubscribe request was sent; 0: never
	// over is when the unsubscribe was confirmed, or when the lease had certainly ended; 0: never.
	over    time.Duration
	expires bool // it ended by its lease
}

// never is the begin of a session that has not begun.
const never = time.Duration(math.MaxInt64)

// lostSpan is a gap, as the numbers of the intervals in it.
type lostSpan struct {
	first, last int
	reason      string
}

// arrival is one delivery.
type arrival struct {
	callee int
	n      int
	id     string
	at     time.Duration
}

// wants reports whether a session has to get an interval, because it was accepted while the callee was
// subscribed. Intervals around the ends of a session may arrive or not.
func (s session) wants(i *posted) bool {
	return !s.expires && i.accepted > 0 && i.sent >= s.accepted && (s.leaving == 0 || i.accepted <= s.leaving)
}

// judge returns what broke a promise.
func (c *chronicle) judge() (complaints []string) {
	complain := func(format string, args ...any) {
		if len(complaints) < 50 {
			complaints = append(complaints, fmt.Sprintf(format, args...))
		}
	}
	byCallee := make([][]arrival, len(c.callees))
	slices.SortStableFunc(c.arrived, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for _, a := range c.arrived {
		byCallee[a.callee] = append(byCallee[a.callee], a)
	}
	for _, t := range c.topics {
		c.judgeTopic(t, complain)
	}
	for _, callee := range c.callees {
		c.judgeGaps(callee, complain) // by when intervals were posted first
	}
	told := c.topics
	defer func() { c.topics = told }()
	c.topics = nil
	for _, t := range told {
		c.topics = append(c.topics, t.surviving())
	}
	if c.trims && c.trimmed() == 0 {
		complain("the hubs keep little of each topic, and nothing was trimmed")
	}
	duplicates := 0
	for i, callee := range c.callees {
		c.judgeCallee(callee, byCallee[i], complain)
		c.judgeOrder(callee, byCallee[i], complain)
		c.judgeEnds(callee, byCallee[i], complain)
		duplicates += c.duplicates(byCallee[i])
		c.judgeRepeats(callee, byCallee[i], complain)
	}
	if bound := c.faults * c.perFault; duplicates > bound {
		complain("%d duplicates after %d faults, at most %d are promised", duplicates, c.faults, bound)
	}
	return complaints
}

// trimmed counts the intervals before those that the topics have in the end.
func (c *chronicle) trimmed() (n int) {
	for _, t := range c.topics {
		if len(t.journal) > 0 {
			n += t.journal[0].n
		}
	}
	return n
}

// judgeTopic checks that all that was accepted is in the journal, in order, and under its id unless
// the store lost writes. The Source was asked to send again what was lost.
func (c *chronicle) judgeTopic(t *topicStory, complain func(string, ...any)) {
	ids, numbers := map[string]bool{}, map[int]bool{}
	last := -1
	for _, s := range t.journal {
		ids[s.id] = true
		for last >= 0 && last+1 < s.n && t.damaged[last+1] {
			last++
		}
		if numbers[s.n] || s.n != last+1 && last >= 0 {
			complain("%s: the journal has interval %d after %d", t.url, s.n, last)
		}
		numbers[s.n], last = true, s.n
	}
	kept := 0
	if c.trims && len(t.journal) > 0 {
		kept = t.journal[0].n
	}
	for n, i := range t.intervals {
		if i.accepted == 0 || n < kept {
			continue
		}
		if !numbers[n] && !t.damaged[n] && n >= t.emptied {
			complain("%s: interval %d was accepted, and the journal does not have it", t.url, n)
		}
		if c.lossy {
			continue
		}
		for _, id := range i.ids {
			if !ids[id] && !t.damaged[n] {
				complain("%s: %s was accepted (interval %d), and the journal does not have it", t.url, id, n)
			}
		}
	}
}

// judgeCallee checks that every interval that was accepted while the callee was subscribed has
// arrived, or is in a gap. The gap of a lost tail does not count, because the Source sent those
// intervals again. Of the intervals that survived, each id arrived.
func (c *chronicle) judgeCallee(who *callee, got []arrival, complain func(string, ...any)) {
	numbers, ids := map[int]bool{}, map[string]bool{}
	for _, a := range got {
		numbers[a.n], ids[a.id] = true, true
	}
	story := c.topics[who.topic]
	if who.reads && who.sessions[0].accepted == never {
		complain("%s: the stream of %s had no event", who.path, story.url)
	}
	for n, i := range story.intervals {
		if who.wants(i) && !who.lost(n) && !numbers[n] {
			complain("%s: interval %d of %s has not arrived and is in no gap", who.path, n, story.url)
		}
	}
	if len(who.sessions) != 1 || who.sessions[0].over > 0 || who.sessions[0].expires {
		return
	}
	for _, s := range story.journal {
		if !ids[s.id] && !who.lost(s.n) && s.n < len(story.intervals) && who.sessions[0].wants(story.intervals[s.n]) {
			complain("%s: %s (interval %d) is in the journal, and has not arrived nor is it in a gap", who.path, s.id, s.n)
		}
	}
}

func (who *callee) wants(i *posted) bool {
	return slices.ContainsFunc(who.sessions, func(s session) bool { return s.wants(i) })
}

func (who *callee) lost(n int) bool {
	return slices.ContainsFunc(who.gaps, func(g lostSpan) bool { return g.reason != "rolled_back" && n >= g.first && n <= g.last })
}

// judgeOrder checks that the first deliveries of intervals are in order. (judgeCallee checks that none
// is passed over without a gap.) An interval that is not wanted, or is in a gap, may be late, because
// a lost tail may move a cursor back before it. Intervals that were sent again after a loss are in
// order, too. A hub may still deliver from its memory what the store had lost.
func (c *chronicle) judgeOrder(who *callee, got []arrival, complain func(string, ...any)) {
	survived := map[string]bool{}
	for _, s := range c.topics[who.topic].journal {
		survived[s.id] = true
	}
	seen := map[int]bool{}
	var firsts []arrival
	for _, a := range got {
		i := c.topics[who.topic].intervals[a.n]
		if seen[a.n] || who.lost(a.n) || !who.wants(i) {
			continue
		}
		seen[a.n] = true
		newest := -1
		for _, before := range slices.Backward(firsts) {
			if before.at < i.sent {
				break
			}
			if survived[before.id] == survived[a.id] {
				newest = max(newest, before.n)
			}
		}
		if a.n < newest {
			complain("%s: interval %d arrived first after %d", who.path, a.n, newest)
		}
		firsts = append(firsts, a)
	}
}

// judgeEnds checks that nothing arrives outside of sessions, except deliveries that were in flight, and
// those after a lease while the clock of a hub was wrong.
func (c *chronicle) judgeEnds(who *callee, got []arrival, complain func(string, ...any)) {
	late := 0
	for _, a := range got {
		off := len(who.sessions) > 0 && who.sessions[0].over > 0
		for _, s := range who.sessions {
			if a.at >= s.asked && (s.over == 0 || a.at <= s.over+c.grace || s.expires && c.clockWasSet(a.at)) {
				off = false
			}
		}
		if !off {
			continue
		}
		if late++; late > c.freezes {
			complain("%s: interval %d arrived at %v, when it was not subscribed any more", who.path, a.n, a.at.Round(time.Millisecond))
		}
	}
}

func (c *chronicle) clockWasSet(at time.Duration) bool {
	return slices.ContainsFunc(c.setClocks, func(s span) bool { return at >= s.begun && at <= s.healed+c.grace })
}

// judgeGaps checks that no gap is empty, and that each has an explanation: the hubs trim, the callee itself
// left, or a fault that was healed after the first interval of the gap was posted.
func (c *chronicle) judgeGaps(who *callee, complain func(string, ...any)) {
	story := c.topics[who.topic]
	for _, g := range who.gaps {
		if g.last < g.first {
			complain("%s: a gap is empty: from interval %d to %d (%s)", who.path, g.first, g.last, g.reason)
		}
		switch g.reason {
		case journal.GapRetention:
			if c.trims {
				continue
			}
		case journal.GapRolledBack:
			if story.damaged[g.last] {
				continue // its place was at the entry that was deleted: judgeCallee looks whether it got it
			}
		case journal.GapGone, journal.GapUnsubscribe, journal.GapExpired:
			if slices.ContainsFunc(who.sessions, func(s session) bool { return s.leaving > 0 || s.expires }) {
				continue
			}
		}
		if !slices.ContainsFunc(c.explained[g.reason], func(s span) bool {
			return g.first < len(story.intervals) && story.intervals[g.first].sent <= s.healed
		}) {
			complain("%s: no fault explains the gap from interval %d to %d (%s)", who.path, g.first, g.last, g.reason)
		}
	}
}

// repeated is how often a fault may have an interval arrive again: another hub takes over, cursors are lost, and a
// callback is too slow to say that it got it.
const repeated = 4

// judgeRepeats checks that no interval arrives again and again, whatever was lost.
func (c *chronicle) judgeRepeats(who *callee, got []arrival, complain func(string, ...any)) {
	if id, n := repeats(got); n > 1+c.faults*repeated {
		complain("%s: %s arrived %d times after %d faults", who.path, id, n, c.faults)
	}
}

// repeats returns what arrived most often, and how often.
func repeats(got []arrival) (id string, most int) {
	times := map[string]int{}
	for _, a := range got {
		if times[a.id]++; times[a.id] > most {
			id, most = a.id, times[a.id]
		}
	}
	return id, most
}

// duplicates counts the intervals that arrived more than once under one id. If the store lost
// acknowledged writes, none counts: cursors are among these writes, and all that was delivered since a
// lost cursor arrives again.
func (c *chronicle) duplicates(got []arrival) (n int) {
	if c.lossy {
		return 0
	}
	seen := map[string]bool{}
	for _, a := range got {
		if seen[a.id] {
			n++
		}
		seen[a.id] = true
	}
	return n
}
