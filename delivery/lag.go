package delivery

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/subscriptions"
)

const (
	// lagEvery is the shortest wait after a walk over all lanes. The next walk also waits lagRest
	// times as long as the last one lasted. So walks need at most a fiftieth of a processor, even
	// with a million subscriptions.
	lagEvery = 5 * time.Second
	lagRest  = 50
	// lagLongest is the longest wait. A machine that sleeps during a walk makes that walk long,
	// which says nothing about the next one.
	lagLongest = time.Minute
	// lookAgain is for how many topics with lanes that are behind a walk has the heads read
	// again. Nothing else shows what was trimmed.
	lookAgain = 64
)

// The bounds of the counts in a LagReport: numbers of notifications, and the times that they
// span.
var (
	LagNotifications = [...]uint64{0, 1, 10, 100, 1000, 10_000}
	LagTimes         = [...]time.Duration{0, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}
)

// LagReport is the result of a walk over all subscriptions. A subscription that changed during
// the walk is in it as it was before or after.
type LagReport struct {
	At time.Time // when the walk ended; zero: there was none yet

	// Subscriptions that have not ended: those whose next notification has not failed, those
	// whose next one has, paused ones, and those whose lease ran out. The last two get nothing,
	// and are not counted below.
	Active, Failing, Paused, Expired int

	// Lags counts the subscriptions that are at most LagNotifications behind, and
	// LagSpans those that are at most LagTimes behind, measured from the `until` of
	// what they got last to that of the topic. The sums are over all.
	Lags     [len(LagNotifications)]uint64
	LagSum   uint64
	LagSpans [len(LagTimes)]uint64
	SpanSum  time.Duration
	// Oldest is the longest of these times, and Longest the time for which the
	// subscription that fails the longest has failed with one notification.
	Oldest, Longest time.Duration
	// Undelivered is about how long ago the hub accepted the oldest notification that a
	// subscription has not got; see lane.waits.
	Undelivered time.Duration

	// Failed are the subscriptions that have failed the longest, and Slowest those that are
	// the furthest behind in time; the worst first. An empty Topic ends each list.
	Failed, Slowest [Worst]Laggard
	// Hosts are those at which the most subscriptions fail. An empty Name ends the list.
	Hosts [Worst]FailingHost
}

// Worst is how many subscriptions each list of a LagReport names.
const Worst = 10

// Laggard is a subscription that is behind its topic.
type Laggard struct {
	ID              uuid.UUID
	Topic, Callback string
	// Behind and Span are how far: notifications, and the time that they span.
	Behind uint64
	Span   time.Duration
	// Since is when its next notification failed first, and Attempt how often it has;
	// zero: it has not. NextAt is when it is tried again.
	Since, NextAt time.Time
	Attempt       uint32
	// Status is the result of the last attempt, as in journal.Cursor.
	Status int
	// Suspect says that its host times out or cannot be connected to, so that only probes
	// go there.
	Suspect bool
}

// FailingHost is a host at which subscriptions fail.
type FailingHost struct {
	Name    string // host:port
	Failing int    // how many
	// Since, Status and Suspect are those of the one that has failed the longest.
	Since   time.Time
	Status  int
	Suspect bool
}

// lagReporter makes a LagReport again and again.
type lagReporter struct {
	sched  *schedulers
	heads  *heads
	clocks clocks
	now    func() time.Time
	latest atomic.Pointer[LagReport]
}

// run walks over all lanes until ctx ends.
func (r *lagReporter) run(ctx context.Context) {
	for ctx.Err() == nil {
		start := time.Now()
		r.measure(ctx)
		clock.Sleep(ctx, lagWait(time.Since(start)))
	}
}

// lagWait returns the wait after a walk that lasted so long.
func lagWait(walk time.Duration) time.Duration {
	return min(max(lagEvery, lagRest*min(walk, lagLongest)), lagLongest)
}

// measure walks over all lanes, in chunks.
func (r *lagReporter) measure(ctx context.Context) {
	c := &lagWalk{failing: map[*host]*FailingHost{}}
	look := lookAgain
	for _, t := range r.sched.topics.all() { // in no order
		now := r.clocks.read().earliest
		before := c.LagSum
		r.sched.each(t, func(_ *scheduler, l *lane) { c.count(l, now) })
		if c.LagSum > before && look > 0 {
			look--
			r.heads.add(t)
		}
		if ctx.Err() != nil {
			return // the last report stays until the end
		}
	}
	c.At = r.now()
	c.rank()
	r.latest.Store(&c.LagReport)
}

// lagWalk makes one LagReport.
type lagWalk struct {
	LagReport
	failing map[*host]*FailingHost // of the hosts that there are
}

// rank lists the hosts at which the most subscriptions fail.
func (r *lagWalk) rank() {
	most := slices.SortedFunc(maps.Values(r.failing), func(a, b *FailingHost) int {
		return cmp.Or(cmp.Compare(b.Failing, a.Failing), a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	for i, h := range most[:min(len(most), Worst)] {
		r.Hosts[i] = *h
	}
}

// fails counts a lane at its host.
func (r *lagWalk) fails(l *lane) {
	h := r.failing[l.host]
	if h == nil {
		h = &FailingHost{Name: l.host.name, Suspect: l.host.suspect}
		r.failing[l.host] = h
	}
	if since := instant(l.cursor.first); h.Failing == 0 || since.Before(h.Since) {
		h.Since, h.Status = since, int(l.cursor.status)
	}
	h.Failing++
}

// count adds one lane.
func (r *lagWalk) count(l *lane, now int64) {
	switch {
	case l.expires <= now:
		r.Expired++
		return
	case l.paused:
		r.Paused++
		return
	case l.retrying():
		r.Failing++
		r.fails(l)
		if l.cursor.first > 0 {
			r.Longest = max(r.Longest, time.Duration(now-l.cursor.first))
			keepWorst(&r.Failed, l, now, func(x *Laggard) bool { return l.cursor.first < nanos(x.Since) })
		}
	default:
		r.Active++
	}
	behind, span := l.lag(now)
	r.LagSum += behind
	r.SpanSum += span
	r.Oldest = max(r.Oldest, span)
	r.Undelivered = max(r.Undelivered, l.waits(now))
	if behind > 0 {
		keepWorst(&r.Slowest, l, now, func(x *Laggard) bool { return span > x.Span || span == x.Span && behind > x.Behind })
	}
	for i, bound := range LagNotifications {
		if behind <= bound {
			r.Lags[i]++
		}
	}
	for i, bound := range LagTimes {
		if span <= bound {
			r.LagSpans[i]++
		}
	}
}

// keepWorst puts a lane into a list of the worst, if it is worse than one of them.
func keepWorst(list *[Worst]Laggard, l *lane, now int64, worse func(than *Laggard) bool) {
	at := len(list)
	for at > 0 && (list[at-1].Topic == "" || worse(&list[at-1])) {
		at--
	}
	if at < len(list) {
		copy(list[at+1:], list[at:])
		list[at] = l.laggard(now)
	}
}

func (l *lane) laggard(now int64) Laggard {
	x := Laggard{
		ID: l.id, Topic: l.topic.url, Callback: l.callback(), NextAt: instant(l.cursor.next),
		Attempt: l.cursor.attempt, Status: int(l.cursor.status), Suspect: l.host.suspect,
	}
	x.Behind, x.Span = l.lag(now)
	if l.retrying() {
		x.Since = instant(l.cursor.first)
	}
	return x
}

// lag is how far the lane is behind its topic, as far as that is known.
func (l *lane) lag(now int64) (notifications uint64, span time.Duration) {
	t := l.topic
	if !t.behind(l) {
		return 0, 0
	}
	lag := subscriptions.LagOf(t.head.unpack(), t.trimmed.unpack(), l.cursor.unpack(), instant(now))
	return lag.Notifications, lag.Span
}

// waits is about how long ago the hub accepted the notification that is the lane's next: of the
// newest exactly, of one that failed since its first attempt, and of others at most. Without
// reading the journal, no more is known of them than that they came after the one before.
func (l *lane) waits(now int64) time.Duration {
	var since int64
	lost := l.cursor.position < l.topic.trimmed.position // its next was, and another is now
	switch behind, _ := l.lag(now); {
	case behind == 0:
		return 0
	case behind == 1 || l.cursor.seq == 0 && l.cursor.first == 0 && !lost:
		since = int64(l.topic.head.position) //nolint:gosec // the store's clock, until the year 2262
	case lost:
		since = int64(l.topic.trimmed.position) //nolint:gosec // the same
	case l.cursor.first > 0:
		since = l.cursor.first
	default:
		since = int64(l.cursor.position) //nolint:gosec // the same
	}
	return time.Duration(max(now-since, 0))
}
