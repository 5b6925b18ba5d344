package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errShutdown is the cause with which exchanges are cut off at the end.
var errShutdown = errors.New("the hub shuts down")

// Dispatcher delivers what the journal holds to the subscriptions that want it.
// Its methods may be called from several goroutines.
type Dispatcher struct {
	o           Options
	base        time.Time // what monotonic times count from
	log         *zap.Logger
	suspectMax  int // probes of suspect hosts at once
	unprovenMax int // exchanges at once with hosts of that standing, probes too
	bodies      *bodies
	client      client
	commits     *groupCommit
	wake        chan struct{} // something for loop to do at once
	moves       moves
	exchanges   context.Context // what is in flight outlives Run's own
	cutOff      context.CancelCauseFunc

	mu       sync.Mutex
	work     sync.Cond // on mu: rotation got something, or stopping
	stopping bool
	shards   [journal.Partitions]shard
	topics   map[string]*topic
	hosts    map[string]*host
	groups   map[groupKey]*group

	rotation [bands]ring[*topic] // topics with listed groups
	started  [bands]int          // deliveries, in the turn of the first topic there
	turn     band                // whose turn it is where several could go
	returned [bands]groups       // listed groups that go before them
	timers   timers[*lane]       // waiting lanes
	probes   timers[*host]       // suspects
	walks    ring[*topic]        // topics whose lanes are being walked over
	revivals ring[*host]         // the same of hosts
	dirty    ring[*topic]        // topics whose heads are to be read
	follow   sync.Cond           // on mu: dirty got something, or stopping
	unread   map[string]struct{} // topics whose head could not be read
	troubled map[*topic]struct{} // topics some of whose lanes wait for the store, or for damage

	suspectBusy  int            // exchanges with suspect hosts
	unprovenBusy int            // exchanges with hosts that were unproven when they began
	heavyBusy    int            // exchanges of heavy bodies with other hosts
	heavyLanes   [2]ring[*lane] // parked ones, which found no sender to spare, by how heavy
	count        struct{ ready, inFlight, suspects int }

	partitions [journal.Partitions]int // topics with lanes

	delivered, failed, passedOver, ended atomic.Uint64

	lags atomic.Pointer[LagReport] // the latest; nil: there was none yet
}

// New returns a Dispatcher. It delivers nothing until Run, and only to the
// subscriptions of shards that were taken (Take).
func New(o Options) (*Dispatcher, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	d := &Dispatcher{
		o: o, base: time.Now(), log: o.Log,
		suspectMax:  max(1, o.MaxInflight/5),
		unprovenMax: max(1, o.MaxInflight-max(1, o.MaxInflight/5)),
		wake:        make(chan struct{}, 1),
		moves:       moves{one: make(chan struct{}, 1), begun: make(chan struct{})},
		topics:      make(map[string]*topic),
		hosts:       make(map[string]*host),
		groups:      make(map[groupKey]*group),
		unread:      make(map[string]struct{}),
		troubled:    make(map[*topic]struct{}),
	}
	for i := range d.shards {
		d.shards[i].one = make(chan struct{}, 1)
	}
	d.work.L, d.follow.L = &d.mu, &d.mu
	d.exchanges, d.cutOff = context.WithCancelCause(context.Background())
	d.bodies = newBodies(o.Journal, o.HubURL, o.MaxInflightBytes, o.MaxInflight, d.unpark, d.wasRead)
	d.bodies.senders.unprovenMax = int64(d.unprovenMax)
	d.client = client{o.Client, o.UserAgent, o.Signature, o.Timeout, o.Clock}
	d.commits = newGroupCommit(o.Subscriptions, o.CommitWindow, o.CommitEvery, o.Log)
	return d, nil
}

// Run delivers to the subscriptions of the shards that are taken, until ctx
// ends. Then it makes no new attempts, lets those in flight go on for up to
// Options.Drain, cuts off the rest, which counts as no failure, stores the cursors,
// and returns nil. It may be called once.
//
// What the store has not taken flushTimeout after Options.Drain is delivered again.
// The log says how many deliveries that are, before Run waits for the questions to
// the store that are still under way.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.cutOff(errShutdown)
	d.bodies.ctx = d.exchanges

	var senders, others sync.WaitGroup
	settled := make(chan struct{})
	commits, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	go func() {
		defer close(settled)
		_ = d.commits.run(commits) // it gives up when commits ends, and logs each error
	}()
	// It is heard what moves before the first head is read.
	hints := d.o.Journal.Hints(ctx)
	for range d.o.MaxInflight {
		senders.Go(func() { d.send(d.exchanges) })
	}
	for range followers {
		others.Go(func() { d.readHeads(ctx) })
	}
	others.Go(func() { d.loop(ctx) })
	others.Go(func() { d.listen(hints) })
	others.Go(func() { d.sweepOn(ctx) })
	others.Go(func() { d.watchLags(ctx) })

	<-ctx.Done()
	d.stop()
	timer := time.AfterFunc(d.o.Drain, func() {
		d.cutOff(errShutdown)
		d.commits.giveWay()
	})
	defer timer.Stop()
	unstored := 0
	over := time.AfterFunc(d.o.Drain+flushTimeout, func() {
		unstored = d.commits.uncommitted()
		giveUp()
	})
	defer over.Stop()
	sent := make(chan struct{})
	go func() { defer close(sent); senders.Wait() }()
	select {
	case <-sent:
	case <-commits.Done(): // a sender waits for the store
	}
	d.commits.close()
	select {
	case <-settled:
	case <-commits.Done(): // the store may not even answer
	}
	if commits.Err() != nil {
		d.tellUnstored(unstored)
	}
	d.cutOff(errShutdown) // bodies being read
	<-sent
	<-settled
	others.Wait()
	d.bodies.close()
	return nil
}

// tellUnstored logs how many results the store did not take before the end.
func (d *Dispatcher) tellUnstored(results int) {
	if results > 0 {
		d.log.Warn("the hub ended before the store took the results of these deliveries; they are delivered again",
			zap.String("event", "results_not_stored"), zap.Int("results", results))
	}
}

// stop makes every sender end after what it has in flight.
func (d *Dispatcher) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
	d.work.Broadcast()
	d.follow.Broadcast()
}

// take waits for a lane whose turn it is. False: there will be none.
func (d *Dispatcher) take() (job, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.stopping {
		if j, ok := d.pick(); ok {
			if d.more() {
				d.work.Signal()
			}
			return j, true
		}
		d.work.Wait()
	}
	return job{}, false
}

// loop does what is due at a time, and what is done in chunks.
func (d *Dispatcher) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait := d.step()
		if wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// step does one chunk of each kind and returns the time until there is more to
// do; zero: now.
func (d *Dispatcher) step() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.read()
	for range chunk {
		l, ok := d.timers.pop(now.mono)
		if !ok {
			break
		}
		l.state = idle
		d.proceed(l, now)
	}
	for range chunk {
		h, ok := d.probes.pop(now.mono)
		if !ok {
			break
		}
		if d.promote(h) {
			d.work.Signal()
		}
	}
	if t, ok := d.walks.pop(); ok {
		d.walkOn(t, now)
	}
	if h, ok := d.revivals.pop(); ok {
		d.reviveOn(h, now)
	}
	if d.walks.len()+d.revivals.len() > 0 {
		return 0
	}
	return d.untilNext(now.mono)
}

// untilNext is how long there is nothing due.
func (d *Dispatcher) untilNext(now int64) time.Duration {
	wait := time.Hour
	if len(d.timers.items) > 0 {
		wait = min(wait, time.Duration(d.timers.items[0].due-now))
	}
	if len(d.probes.items) > 0 {
		wait = min(wait, time.Duration(d.probes.items[0].probe-now))
	}
	return max(wait, 0)
}

// wakeLoop tells loop to look again.
func (d *Dispatcher) wakeLoop() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// place puts a lane that nobody holds where its cursor says.
func (d *Dispatcher) place(l *lane, now reading) {
	switch {
	case l.state == gone:
		return
	case l.leaving:
		d.remove(l)
		return
	}
	l.state = idle
	if wait := l.wait(d.o.Policy, now); wait > 0 {
		d.waitUntil(l, now.mono+wait)
		return
	}
	d.proceed(l, now)
}

// proceed makes an idle lane ready if it has something to deliver and a lease,
// whatever time its cursor names.
func (d *Dispatcher) proceed(l *lane, now reading) { d.goOn(l, now, false) }

// goOn is proceed for a lane that may have returned from waiting for a body.
func (d *Dispatcher) goOn(l *lane, now reading, returned bool) {
	if l.expires > now.earliest && l.topic.behind(l) {
		if until := l.heldUntil(now.mono); until > 0 {
			d.waitUntil(l, until)
			return
		}
		l.held = false
		d.enqueue(l, returned)
	}
}

// waitUntil makes a lane wait, or wait until another time.
func (d *Dispatcher) waitUntil(l *lane, at int64) {
	l.state, l.due = waiting, at
	d.timers.set(l)
	if l.timer == 0 {
		d.wakeLoop()
	}
}

// add makes a lane of a subscription that has not ended.
func (d *Dispatcher) add(s *subscriptions.Subscription, hostPort string, now reading) {
	t := d.topics[s.Topic]
	if t == nil {
		t = &topic{url: s.Topic}
		d.topics[s.Topic] = t
		d.partitions[t.partition()]++
		d.touchTopic(t)
	}
	h := d.hosts[hostPort]
	if h == nil {
		h = &host{name: hostPort, timer: -1}
		d.hosts[hostPort] = h
	}
	l := &lane{id: s.ID, topic: t, host: h, callback: s.Callback, cursor: packCursor(s.Cursor), timer: -1}
	l.set(s)
	if l.cursor.status > 0 && h.standing != quick {
		h.standing = quick
		d.listAnew(h)
	}
	l.held = overloaded(int(l.cursor.status)) // for all we know it came with a Retry-After
	d.shardOf(l.id).lanes[l.id] = l
	t.members.add(l, &l.inTopic)
	h.members.add(l, &l.inHost)
	d.place(l, now)
}

// remove drops a lane. Nothing is written of it.
func (d *Dispatcher) remove(l *lane) {
	switch l.state {
	case gone:
		return
	case ready:
		d.count.ready--
	}
	l.state = gone
	d.timers.drop(l)
	if s := d.shardOf(l.id); s.lanes[l.id] == l {
		delete(s.lanes, l.id)
	}
	t, h := l.topic, l.host
	t.members.remove(l.inTopic, inTopic)
	h.members.remove(l.inHost, inHost)
	if len(t.lanes) == 0 && d.topics[t.url] == t {
		delete(d.topics, t.url)
		d.partitions[t.partition()]--
		delete(d.unread, t.url)
		delete(d.troubled, t)
	}
	d.forget(h)
	d.resumeHeavy()
}

// Stats returns a snapshot.
func (d *Dispatcher) Stats() Stats {
	d.mu.Lock()
	s := Stats{
		Topics: len(d.topics), Hosts: len(d.hosts),
		Ready: d.count.ready, Waiting: len(d.timers.items), InFlight: d.count.inFlight,
		Suspects: d.count.suspects,
	}
	for t := range d.troubled {
		if t.unanswered() > 0 {
			s.Away++
		} else {
			s.Damaged++
		}
	}
	for i := range d.shards {
		s.Lanes += len(d.shards[i].lanes)
	}
	d.mu.Unlock()
	s.BytesInFlight, s.BytesCached, s.Reads = d.bodies.stats()
	s.Uncommitted = d.commits.uncommitted()
	s.Delivered, s.Failed = d.delivered.Load(), d.failed.Load()
	s.PassedOver, s.Gone = d.passedOver.Load(), d.ended.Load()
	return s
}
