package delivery

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errShutdown is the cause with which exchanges are cut off at the end.
var errShutdown = errors.New("the hub shuts down")

// Dispatcher delivers the notifications of the journal to their subscriptions. Its methods may
// be called from several goroutines. It creates and runs the types that the package comment
// lists.
type Dispatcher struct {
	o        Options
	sched    *schedulers
	shards   *shards
	heads    *heads
	bodies   *bodies
	troubles *troubles
	sender   *sender
	commits  results
	report   *reporter
	lags     *lagReporter

	exchanges context.Context // what is in flight outlives Run's own
	cutOff    context.CancelCauseFunc
	ran       atomic.Bool // Run was called
}

// New returns a Dispatcher. It delivers nothing until Run, and only to the
// subscriptions of shards that were started (Start).
func New(o Options) (*Dispatcher, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	d := &Dispatcher{o: o}
	d.exchanges, d.cutOff = context.WithCancelCause(context.Background())
	clocks, limits := newClocks(o.Clock), newLimits(o.MaxInflight)
	d.report = &reporter{event: o.Event, gap: o.Gap, log: o.Log, clock: o.Clock}
	d.commits = newResults(&o)
	d.troubles = &troubles{
		clocks: clocks, policy: o.Policy, rnd: o.Rand, log: o.Log, damaged: o.Damaged, pending: make(map[*topic]struct{}),
	}
	d.sched = newSchedulers(&o, clocks, limits, d.troubles)
	d.troubles.walk = d.sched.walk
	d.bodies = newBodies(o.Journal, o.HubURL, o.UserAgent, o.MaxInflightBytes, limits, d.unpark, d.troubles.wasRead)
	d.heads = newHeads(o.Journal, d.sched, d.bodies, o.Log)
	for _, q := range d.sched.all {
		q.s.ahead, q.s.bulk = d.commits.ahead, d.bodies.room.bulk
	}
	d.shards = &shards{
		journal: o.Journal, store: o.Subscriptions, poll: o.Poll, found: o.Found, ownsShard: o.Owns,
		sched: d.sched, heads: d.heads, commits: d.commits, log: o.Log, now: o.Clock.Now, exchanges: d.exchanges,
	}
	for _, gc := range d.commits {
		gc.stored = d.shards.stored
	}
	for i := range d.shards.all {
		d.shards.all[i].one = semaphore.NewWeighted(1)
	}
	d.sender = &sender{
		sched: d.sched, journal: o.Journal, bodies: d.bodies, troubles: d.troubles, shards: d.shards,
		client:   client{posterOf(o.Client), o.Signature, o.Timeout, o.Clock},
		rewinder: &rewinder{o.Journal, d.sched, d.bodies, d.commits, d.report, d.shards.owns},
		commits:  d.commits, report: d.report, answers: newAnswers(answersBytes),
	}
	d.lags = &lagReporter{sched: d.sched, heads: d.heads, clocks: clocks, now: o.Clock.Now}
	d.lags.latest.Store(&LagReport{})
	return d, nil
}

// Run delivers to the subscriptions of the shards that were started, until ctx
// ends. Then it makes no new attempts, lets those in flight go on for up to
// Options.Drain, cuts off the rest, which counts as no failure, stores the cursors,
// and returns nil. It may be called once: after that it returns an error at once.
//
// Results that the store has not accepted flushTimeout after Options.Drain are lost, and these
// notifications are delivered again. Run logs their number, and then waits for calls of the
// store that are still in progress.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return errors.New("delivery: Run was called before; make a Dispatcher for each Run")
	}
	d.bodies.ctx = d.exchanges

	var senders, stored, others sync.WaitGroup
	commits, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	stored.Go(func() { d.commits.run(commits) })
	// Subscribe to hints before reading the first head, so no append is missed.
	d.o.Journal.Hints(ctx, d.heads.hint)
	for range d.o.MaxInflight {
		senders.Go(func() { d.sender.run(d.exchanges) })
	}
	for range followers {
		others.Go(func() { d.heads.run(ctx) })
	}
	others.Go(func() { d.sched.loop(ctx) })
	others.Go(func() { d.shards.sweepOn(ctx, d.o.Sweep) })
	others.Go(func() { d.lags.run(ctx) })

	<-ctx.Done()
	d.sched.bell.stop()
	d.heads.stop()
	defer time.AfterFunc(d.o.Drain, func() {
		d.cutOff(errShutdown)
		d.commits.giveWay()
	}).Stop()
	defer time.AfterFunc(d.o.Drain+flushTimeout, func() {
		if n := d.commits.uncommitted(); n > 0 {
			d.o.Log.Warn("the hub ended before the store accepted the results of these deliveries; they are delivered again",
				zap.String("event", "results_not_stored"), zap.Int("results", n))
		}
		giveUp()
	}).Stop()
	senders.Wait()
	d.commits.close()
	stored.Wait()
	d.cutOff(errShutdown) // bodies being read
	others.Wait()
	d.bodies.close()
	return nil
}

// unpark continues lanes that waited for a body, or for its sender.
func (d *Dispatcher) unpark(lanes []*lane, read bool) { d.commits.add(d.sched.unpark(lanes, read)...) }

// Start reads the subscriptions of a shard and begins to deliver to them. It may be called
// before Run, and again for a shard that was started, which changes nothing. What Apply is
// called with meanwhile wins over what is read.
//
// An error says that they could not be read, or that the shard was aborted meanwhile. Then
// nothing of it is delivered.
func (d *Dispatcher) Start(ctx context.Context, n int) error { return d.shards.start(ctx, n) }

// Finish ends the work on a shard, so that another hub can continue. It begins no attempt.
// Attempts in flight go on until ctx ends, and are then broken off, which counts as no
// failure; results are stored. Then the lanes are forgotten. It returns when all that is
// done, or a moment after ctx ended at the latest. A shard that was not started stays as it is.
func (d *Dispatcher) Finish(ctx context.Context, n int) { d.shards.finish(ctx, n) }

// Abort ends the work on a shard at once, because the hub does not own it any more. Its
// exchanges are cancelled, which counts as no failure, and its lanes forgotten. Results that
// wait may still be stored: the store merges them. A shard that was not started stays as it
// is.
func (d *Dispatcher) Abort(n int) { d.shards.abort(n) }

// Apply accepts a subscription that was activated, renewed or ended, with effect at once
// (HUB-49). A delivery in flight goes on, but its result does not count if the cursor has a new
// generation. Apply ignores a subscription of a shard that was not started: the owner of the
// shard finds the change in the store.
func (d *Dispatcher) Apply(s subscriptions.Subscription) { d.shards.apply(s) }

// Subscribers counts the subscriptions that get a topic now: their lease has not run out. Its
// time grows with their number. Between chunks of them it releases the lock, so that deliveries go
// on; a subscription that comes or goes meanwhile may be left out.
func (d *Dispatcher) Subscribers(topic string) (n int) {
	if t := d.sched.topics.get(topic); t != nil {
		now := d.lags.clocks.read().earliest
		d.sched.each(t, func(_ *scheduler, l *lane) {
			if l.inForce(now) {
				n++
			}
		})
	}
	return n
}

// Reached returns how far the subscriptions of this hub got in each topic of some partitions. From
// that, a store that lost the head of a topic learns what it had. Its time grows with their number.
// Between chunks of them it releases the lock, so that deliveries go on; a subscription that comes
// or goes meanwhile may be left out.
func (d *Dispatcher) Reached(partitions []int) (all []journal.Reached) {
	var wanted [journal.Partitions]bool
	for _, n := range partitions {
		wanted[n] = true
	}
	for _, t := range d.sched.topics.all() {
		if !wanted[partitionOf(t.url)] {
			continue
		}
		least, greatest := anchor{position: math.MaxUint64}, anchor{}
		d.sched.each(t, func(_ *scheduler, l *lane) {
			at := l.cursor.anchor()
			if at.position < least.position {
				least = at
			}
			if at.position >= greatest.position {
				greatest = at
			}
		})
		if least.position <= greatest.position { // it has lanes still
			all = append(all, journal.Reached{Topic: t.url, Least: least.unpack(), Greatest: greatest.unpack()})
		}
	}
	return all
}

// LagReport returns the latest LagReport, which is usually some seconds old. It reads nothing.
func (d *Dispatcher) LagReport() LagReport {
	return *d.lags.latest.Load()
}

// Troubles returns why subscriptions of a topic wait, and what they pass over. Nil:
// nothing is wrong as far as known.
func (d *Dispatcher) Troubles(topic string) []Trouble {
	if t := d.sched.topics.get(topic); t != nil {
		return d.troubles.report(t)
	}
	return nil
}

// Stats returns a snapshot.
func (d *Dispatcher) Stats() (st Stats) {
	d.sched.do(func(s *scheduler) {
		st.Hosts += len(s.hosts.byName)
		st.Ready += s.turns.ready
		st.Waiting += len(s.timers.items)
		st.InFlight += s.turns.inFlight
		st.Suspects += s.hosts.suspects
		for _, set := range s.sets {
			if set != nil {
				st.Lanes += len(set.lanes)
			}
		}
	})
	st.Topics = len(d.sched.topics.all())
	st.Away, st.Damaged = d.troubles.counts()
	st.BytesInFlight, st.BytesCached, st.Reads = d.bodies.stats()
	st.Uncommitted = d.commits.uncommitted()
	decided := &d.report.decided
	st.Delivered, st.PassedOver, st.Gone = decided[Deliver].Load(), decided[PassOver].Load(), decided[End].Load()
	st.Failed = decided[Retry].Load() + st.PassedOver + st.Gone
	return st
}
