package delivery

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// The rule of the package comment, over random histories: topics with random subscribers at hosts
// that answer, are slow, fail, hang, cannot be reached, and recover. The scheduler runs by itself,
// with a virtual clock and a seed. The test plays the senders, which sleep until the scheduler
// signals.
func TestSchedulerKeepsTheRule(t *testing.T) {
	seen := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newRuleWorld(t)
		steps := rapid.IntRange(20, 150).Draw(t, "steps")
		for range steps {
			w.act()
			w.pump()
		}
		w.recover()
		for what, n := range w.seen {
			seen[what] += n
		}
	})
	for _, what := range []string{"probe", "unproven", "heavy", "retry", "reserved", "limited", "removed", "revived"} {
		if seen[what] == 0 {
			t.Errorf("never seen: %s", what)
		}
	}
	t.Log(seen)
}

// ruleWorld is a scheduler with callbacks and senders. It counts by itself what the limits count.
type ruleWorld struct {
	t       *rapid.T
	s       scheduler
	rnd     *rand.Rand
	now     int64
	perHost int
	senders int

	topics, hosts int
	behaviour     map[string]string // of hosts
	entries       map[string]uint64 // of topics
	subs          []subscriptions.Subscription
	callbacks     int

	awake, asleep int // senders that look for something to start, and that wait for a signal
	flight        []*ruleFlight
	reading       []*ruleRead // bodies
	reserved      map[*lane]health
	ready         map[*lane]*ruleWait
	starts        map[ruleQueue]int
	passed        map[*topicLanes]int // starts of others since a lane of it could have started all the time
	seen          map[string]int
}

// ruleFlight is an exchange.
type ruleFlight struct {
	job
	due  int64
	out  outcome
	bulk int
}

// ruleRead is a lane that is parked until a body is read.
type ruleRead struct {
	lane *lane
	due  int64
}

// ruleQueue is a queue in which topics take turns.
type ruleQueue struct {
	host *host
	kind kind
}

// ruleWait is a lane that is ready.
type ruleWait struct {
	ruleQueue
	k, topics int // see docs/delivery.md
	starts    int // of the queue before, of lanes that did not go first
	disturbed bool
}

// ruleTimeout is the limit of an exchange.
const ruleTimeout = 15 * time.Second

func newRuleWorld(t *rapid.T) *ruleWorld {
	w := &ruleWorld{
		t: t, rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
		senders: rapid.IntRange(1, 40).Draw(t, "senders"), perHost: rapid.IntRange(1, 9).Draw(t, "per host"),
		topics: rapid.IntRange(1, 8).Draw(t, "topics"), hosts: rapid.IntRange(1, 8).Draw(t, "hosts"),
		behaviour: make(map[string]string), entries: make(map[string]uint64),
		reserved: make(map[*lane]health), ready: make(map[*lane]*ruleWait), starts: make(map[ruleQueue]int), passed: make(map[*topicLanes]int), seen: make(map[string]int),
	}
	const begin = int64(1_800_000_000e9)
	c := clocks{
		mono: func() int64 { return w.now },
		read: func() reading { return reading{w.now, begin + w.now, begin + w.now} },
	}
	o := &Options{PerHost: w.perHost, Policy: Policy{First: time.Second, Max: time.Minute, GiveUp: time.Hour}, Rand: w.rnd.Float64}
	w.s = newScheduler(o, c, newLimits(w.senders), &troubles{}, newTopics(), 0)
	w.s.bulk = func(size int64) int { return int(size) }
	w.s.signal = func() {
		if w.asleep > 0 {
			w.asleep, w.awake = w.asleep-1, w.awake+1
		}
	}
	for i := range w.s.sets {
		w.s.sets[i] = &laneSet{ctx: t.Context()}
	}
	w.asleep = w.senders
	return w
}

// entry is the anchor of the n-th of a topic.
func (w *ruleWorld) entry(n uint64) anchor {
	return anchor{position: journal.Position(n), nonce: journal.Nonce(n), seq: n}
}

// act does one random thing.
func (w *ruleWorld) act() {
	host := func() string { return fmt.Sprint("h", w.rnd.IntN(w.hosts)) }
	topic := fmt.Sprint("t", w.rnd.IntN(w.topics))
	switch n := w.rnd.IntN(20); {
	case n < 3:
		for range 1 + w.rnd.IntN(12) {
			w.subscribe(topic, host())
		}
	case n < 6:
		w.publish(topic)
	case n < 8:
		w.behaviour[host()] = []string{"answers", "answers", "slow", "fails", "hangs", "down", "busy"}[w.rnd.IntN(7)]
	case n < 9 && len(w.subs) > 0: // one is ended by its subscriber
		i := w.rnd.IntN(len(w.subs))
		w.subs[i].EndedAt = time.Unix(0, w.s.read().wall)
		w.s.apply(&w.subs[i], "")
		w.subs = append(w.subs[:i], w.subs[i+1:]...)
		w.seen["removed"]++
	default:
		w.pass()
	}
	w.look()
}

func (w *ruleWorld) subscribe(topic, host string) {
	w.callbacks++
	callback := fmt.Sprintf("http://%s/%d", host, w.callbacks)
	sub := subscriptions.Subscription{
		ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback,
		ExpiresAt: time.Unix(0, w.s.read().wall).Add(10_000 * time.Hour),
		Cursor:    journal.Cursor{Anchor: w.entry(w.entries[topic] - min(w.entries[topic], uint64(w.rnd.IntN(3)))).unpack()},
	}
	if w.rnd.IntN(3) == 0 {
		sub.Cursor.LastStatus = 200
	}
	w.subs = append(w.subs, sub)
	if fresh, ok := w.s.apply(&sub, host); !ok {
		w.t.Fatal("a new subscription was not accepted")
	} else if fresh != nil {
		w.s.setHead(w.s.topics[topic], w.entry(w.entries[topic]))
	}
}

func (w *ruleWorld) publish(topic string) {
	w.entries[topic]++
	if t := w.s.topics[topic]; t != nil {
		w.s.setHead(t, w.entry(w.entries[topic]))
	}
}

// pass lets time pass until the next thing happens, or a bit.
func (w *ruleWorld) pass() {
	next := w.now + int64(30*time.Second)
	if w.rnd.IntN(4) == 0 {
		next = w.now + w.rnd.Int64N(int64(time.Second))
	}
	for _, f := range w.flight {
		next = min(next, f.due)
	}
	for _, r := range w.reading {
		next = min(next, r.due)
	}
	if wait := w.s.step(); wait > 0 {
		next = min(next, w.now+int64(wait))
	} else {
		next = w.now
	}
	w.now = max(w.now, next)
	for w.s.step() == 0 {
		continue
	}
	w.look()
	for i := 0; i < len(w.flight); i++ {
		if f := w.flight[i]; f.due <= w.now {
			w.flight = append(w.flight[:i], w.flight[i+1:]...)
			w.finish(f)
			i--
		}
	}
	for i := 0; i < len(w.reading); i++ {
		if r := w.reading[i]; r.due <= w.now {
			w.reading = append(w.reading[:i], w.reading[i+1:]...)
			i--
			w.s.unpark([]*lane{r.lane}, true)
			if r.lane.state != ready {
				w.release(r.lane)
			}
			w.look()
		}
	}
}

// release gives back the sender that is reserved for a lane.
func (w *ruleWorld) release(l *lane) {
	if h, ok := w.reserved[l]; ok {
		delete(w.reserved, l)
		w.s.limits.reserved[h].Add(-1)
		w.s.signal()
		w.s.resumeLarge()
		w.look()
	}
}

// finish ends an exchange as the scheduler does it for a sender.
func (w *ruleWorld) finish(f *ruleFlight) {
	wasSuspect := f.lane.host.revive
	w.s.decide(&delivery{job: f.job, body: &body{anchor: w.entry(f.cursor.seq + 1)}, out: f.out}, instant(w.s.read().wall))
	w.s.finish(f.job, f.out)
	if wasSuspect && !f.lane.host.revive {
		w.seen["revived"]++
	}
	w.awake++
	w.look()
	for _, r := range w.ready { // a suspicion that begins or ends disturbs the order
		if r.host == f.lane.host && (r.host.suspect || wasSuspect) {
			r.disturbed = true
		}
	}
}

// exchange is the result of an exchange with a host.
func (w *ruleWorld) exchange(f *ruleFlight) {
	took, status := time.Duration(1+w.rnd.Int64N(int64(time.Second))), 200
	switch w.behaviour[f.lane.host.name] {
	case "slow":
		took = ruleTimeout / 2
	case "fails":
		status = 500
	case "busy":
		status = 503
		f.out.RetryAfter = 10 * time.Second
	case "hangs":
		took, status = ruleTimeout, journal.StatusTimeout
	case "down":
		took, status = time.Millisecond, journal.StatusConnect
	}
	f.due, f.out.Status, f.out.duration, f.out.limit = w.now+int64(took), status, took, ruleTimeout
}

// look finds out which lanes became ready since the last look.
func (w *ruleWorld) look() {
	fresh := make(map[*lane]*ruleWait)
	queues := make(map[ruleQueue]map[*topicLanes]int)
	for _, set := range w.s.sets {
		for _, l := range set.lanes {
			if l.state != ready {
				continue
			}
			q := ruleQueue{l.host, l.kind()}
			if queues[q] == nil {
				queues[q] = make(map[*topicLanes]int)
			}
			queues[q][l.topic]++
			if w.ready[l] == nil {
				_, goesFirst := w.reserved[l]
				r := &ruleWait{ruleQueue: q, starts: w.starts[q], disturbed: l.host.suspect || goesFirst}
				w.ready[l], fresh[l] = r, r
			}
		}
	}
	for l, r := range w.ready {
		if l.state != ready {
			delete(w.ready, l) // it is gone
			w.release(l)
			continue
		}
		// Lanes that are gone have their turn too.
		r.topics = max(r.topics, len(queues[r.ruleQueue]), r.host.queued[r.kind].len())
	}
	for l, r := range fresh {
		r.k = queues[r.ruleQueue][l.topic]
	}
}

// counted is how many of the exchanges in flight are as said.
func (w *ruleWorld) counted(is func(*ruleFlight) bool) (n int) {
	for _, f := range w.flight {
		if is(f) {
			n++
		}
	}
	return n
}

// free is the senders that exchanges with hosts of this health have left, as the limits say it.
func (w *ruleWorld) free(s health, bulk int) int {
	toUnproven, heavy := w.counted(func(f *ruleFlight) bool { return f.unproven }), w.counted(func(f *ruleFlight) bool { return f.large })
	for _, h := range w.reserved {
		if h == unproven {
			toUnproven++
		} else {
			heavy++
		}
	}
	all := max(1, w.senders-max(1, bulk*w.senders/20)) // of both
	keep := min(max(1, w.senders/20), all-1)           // for unproven hosts
	if s == quick {
		return all - heavy - max(toUnproven, keep)
	}
	return min(max(all-heavy, keep), max(1, w.senders-max(1, w.senders/5))) - toUnproven
}

// mayStart is the rule of the package comment, in other words than the code's.
func (w *ruleWorld) mayStart(l *lane, k kind) (ok bool, why string) {
	h := l.host
	busy := w.counted(func(f *ruleFlight) bool { return f.lane.host == h })
	_, reserved := w.reserved[l]
	switch {
	case busy >= w.perHost:
		return false, "the host is full"
	case h.suspect && (busy > 0 || h.probe > w.now):
		return false, "no probe is due"
	case h.suspect && w.counted(func(f *ruleFlight) bool { return f.lane.host.suspect }) >= max(1, w.senders/5):
		return false, "too many probes"
	case k == retry && w.counted(func(f *ruleFlight) bool { return f.lane.host == h && f.kind == retry }) >= (w.perHost+1)/2:
		return false, "too many retries"
	case h.health == unproven && !reserved && w.free(unproven, 2) <= 0:
		return false, "too many unproven hosts"
	}
	return true, ""
}

// pump has the senders that are awake start what they can.
func (w *ruleWorld) pump() {
	for w.awake > 0 {
		w.awake--
		could := w.could()
		j, ok := w.s.pick()
		if !ok {
			w.asleep++
			continue
		}
		if w.s.turns.more() {
			w.s.signal()
		}
		w.turn(j.lane.topic, could)
		w.started(j)
	}
	if w.asleep == 0 {
		return
	}
	for l, r := range w.ready {
		if ok, why := w.mayStart(l, r.kind); ok {
			w.t.Fatalf("%d of %d senders sleep, and a lane of %s at %s may start", w.asleep, w.senders, l.topic.url, l.host.name)
		} else {
			w.seen["limited"]++
			w.seen[why]++
		}
	}
}

// could is which topics have a lane that may start. It is asked only where few deliveries can
// go on, as only there senders are short.
func (w *ruleWorld) could() map[*topicLanes]bool {
	could := make(map[*topicLanes]bool)
	if w.senders > 6 {
		return could
	}
	for l, r := range w.ready {
		if !could[l.topic] {
			could[l.topic], _ = w.mayStart(l, r.kind)
		}
	}
	return could
}

// turn checks that topics take turns to have a sender. In a round each topic of each pool has a turn, of
// at most perHost deliveries. A topic may need a turn for each lane that waits at the same place,
// and the turn of another may have begun.
func (w *ruleWorld) turn(started *topicLanes, could map[*topicLanes]bool) {
	round := pools * w.topics * w.perHost
	for t := range w.passed {
		if !could[t] || t == started {
			delete(w.passed, t)
		}
	}
	for t, is := range could {
		if is && t != started {
			if w.passed[t]++; w.passed[t] > round*w.topics+w.perHost {
				w.t.Fatalf("%d lanes of other topics started while a lane of %s might have, by turns of %d", w.passed[t], t.url, round)
			}
		}
	}
}

// started checks the start of a lane against the rule.
func (w *ruleWorld) started(j job) {
	l := j.lane
	r := w.ready[l]
	if r == nil {
		w.t.Fatalf("a lane started that was not ready")
	}
	if ok, why := w.mayStart(l, j.kind); !ok {
		w.t.Fatalf("a lane at %s started, and %s", l.host.name, why)
	}
	if before := w.starts[r.ruleQueue] - r.starts; !r.disturbed && before > r.k*r.topics-1 {
		w.t.Fatalf("%d others of kind %d started at %s before lane %d of one of %d topics", before, r.kind, l.host.name, r.k, r.topics)
	}
	_, wasReserved := w.reserved[l]
	if !wasReserved {
		w.starts[r.ruleQueue]++
	}
	delete(w.ready, l)
	for what, is := range map[string]bool{"probe": j.probe, "unproven": j.unproven, "retry": j.kind == retry, "reserved": wasReserved} {
		if is {
			w.seen[what]++
		}
	}
	f := &ruleFlight{job: j}
	switch w.rnd.IntN(8) {
	case 0: // the body is heavy, and in memory
		f.bulk = 1 + w.rnd.IntN(2)
		free := w.free(quick, f.bulk)
		ok := w.s.claim(&f.job, int64(f.bulk))
		if want := j.unproven || free > 0; ok != want {
			w.t.Fatalf("a body of bulk %d is sent %v, and there are %d senders for it", f.bulk, ok, free)
		}
		if !ok {
			w.awake++
			w.unreserve(l)
			w.look()
			return
		}
		w.seen["heavy"]++
	case 1: // the body is to be read
		if !wasReserved && w.free(j.health(), 2) > 1 {
			w.s.park(f.job)
			w.awake++
			w.reserved[l] = j.health()
			w.s.limits.reserved[j.health()].Add(1)
			w.reading = append(w.reading, &ruleRead{l, w.now + w.rnd.Int64N(int64(time.Second))})
			w.look()
			return
		}
	}
	w.exchange(f)
	w.flight = append(w.flight, f)
	w.unreserve(l)
}

// unreserve says that a lane came for its body: its sender is counted as its own now.
func (w *ruleWorld) unreserve(l *lane) {
	if h, ok := w.reserved[l]; ok {
		delete(w.reserved, l)
		w.s.limits.reserved[h].Add(-1)
		w.s.signal()
	}
}

// recover has all hosts answer, and everything delivered.
func (w *ruleWorld) recover() {
	clear(w.behaviour)
	end := w.now + int64(100*time.Hour)
	for w.now < end && (len(w.flight)+len(w.reading)+len(w.ready) > 0 || len(w.s.timers.items)+w.s.walks.len() > 0) {
		w.pass()
		w.pump()
	}
	for _, set := range w.s.sets {
		for _, l := range set.lanes {
			if l.topic.behind(l) {
				w.t.Fatalf("a lane of %s at %s is behind, in state %d, at the end", l.topic.url, l.host.name, l.state)
			}
		}
	}
	n := w.s.limits
	if w.s.turns.inFlight+w.s.turns.ready+len(w.s.turns.backlogs) > 0 || n.suspect.Load()+n.unproven.Load()+n.large.Load()+n.reserved[quick].Load()+n.reserved[unproven].Load() != 0 {
		w.t.Fatalf("at the end %d are counted in flight, %d ready, %d suspect, %d unproven, %d heavy", w.s.turns.inFlight, w.s.turns.ready, n.suspect.Load(), n.unproven.Load(), n.large.Load())
	}
}
