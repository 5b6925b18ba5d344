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
	log         *zap.Logger
	suspectMax  int // probes of suspect hosts at once
	unprovenMax int // exchanges at once with hosts of that standing, probes too
	bodies      *bodies
	settler     *settler
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

	rotation [2]ring[*topic]     // topics with listed groups, by standing
	turn     standing            // whose turn it is where both could go
	returned ring[*group]        // listed groups that go before them
	timers   timers[*lane]       // waiting lanes
	probes   timers[*host]       // suspects
	lineup   ring[*host]         // suspects that wait for other suspects
	walks    ring[*topic]        // topics whose lanes are being walked over
	revivals ring[*host]         // the same of hosts
	dirty    ring[*topic]        // topics whose heads are to be read
	follow   sync.Cond           // on mu: dirty got something, or stopping
	unread   map[string]struct{} // topics whose head could not be read

	suspectBusy  int // slots of suspect hosts in use
	unprovenBusy int // exchanges with hosts that were unproven when they began
	count        struct{ ready, inFlight, suspects int }

	partitions [journal.Partitions]int // topics with lanes

	delivered, failed, passedOver, ended atomic.Uint64

	census atomic.Pointer[Census] // the latest; nil: there was none yet
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
		o: o, log: o.Log,
		suspectMax:  max(1, o.MaxInflight/5),
		unprovenMax: max(1, o.MaxInflight-max(1, o.MaxInflight/5)),
		wake:        make(chan struct{}, 1),
		moves:       moves{one: make(chan struct{}, 1), begun: make(chan struct{})},
		topics:      make(map[string]*topic),
		hosts:       make(map[string]*host),
		groups:      make(map[groupKey]*group),
		unread:      make(map[string]struct{}),
	}
	for i := range d.shards {
		d.shards[i].one = make(chan struct{}, 1)
	}
	d.work.L, d.follow.L = &d.mu, &d.mu
	d.exchanges, d.cutOff = context.WithCancelCause(context.Background())
	d.bodies = newBodies(o.Journal, o.HubURL, o.MaxInflightBytes, o.MaxInflight, d.unpark)
	d.settler = newSettler(o.Subscriptions, o.CommitWindow, o.CommitEvery, o.Log)
	return d, nil
}

// Run delivers to the subscriptions of the shards that are taken, until ctx
// ends. Then it makes no new attempts, lets those in flight go on for up to
// Options.Drain, cuts off the rest, which counts as no failure, stores the cursors,
// and returns. It may be called once.
//
// An error says that the last cursors could not be stored: what they were of is
// delivered again.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.cutOff(errShutdown)
	d.bodies.ctx = d.exchanges

	var senders, others sync.WaitGroup
	settled := make(chan error, 1)
	commits, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	go func() { settled <- d.settler.run(commits) }()
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
	others.Go(func() { d.takeCensuses(ctx) })

	<-ctx.Done()
	d.stop()
	timer := time.AfterFunc(d.o.Drain, func() {
		d.cutOff(errShutdown)
		d.settler.giveWay()
	})
	defer timer.Stop()
	senders.Wait()
	others.Wait()
	d.cutOff(errShutdown) // bodies being read
	d.bodies.close()
	d.settler.close()
	defer time.AfterFunc(flushTimeout, giveUp).Stop()
	return <-settled
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
	now := time.Now().UnixNano()
	for range chunk {
		l, ok := d.timers.pop(now)
		if !ok {
			break
		}
		l.state = idle
		d.proceed(l, now)
	}
	for range chunk {
		h, ok := d.probes.pop(now)
		if !ok {
			break
		}
		d.promote(h)
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
	return d.untilNext(now)
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
func (d *Dispatcher) place(l *lane, now int64) {
	switch {
	case l.state == gone:
		return
	case l.leaving:
		d.remove(l)
		return
	}
	l.state = idle
	if l.cursor.next > now {
		d.waitUntil(l, min(l.cursor.next, d.latest(now)))
		return
	}
	d.proceed(l, now)
}

// proceed makes an idle lane ready if it has something to deliver and a lease,
// whatever time its cursor names.
func (d *Dispatcher) proceed(l *lane, now int64) { d.goOn(l, now, false) }

// goOn is proceed for a lane that may have returned from waiting for a body.
func (d *Dispatcher) goOn(l *lane, now int64, returned bool) {
	if l.expires > now && l.topic.behind(l) {
		l.held = false
		d.enqueue(l, returned)
	}
}

// latest is the time until which a lane may have to wait at now. One that is
// further off is what a clock that jumped left behind.
func (d *Dispatcher) latest(now int64) int64 { return now + int64(d.o.Policy.Max) }

// waitUntil makes a lane wait, or wait until another time.
func (d *Dispatcher) waitUntil(l *lane, at int64) {
	l.state, l.due = waiting, at
	d.timers.set(l)
	if l.timer == 0 {
		d.wakeLoop()
	}
}

// add makes a lane of a subscription that has not ended.
func (d *Dispatcher) add(s *subscriptions.Subscription, hostPort string, now int64) {
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
	if l.cursor.status > 0 {
		h.standing = quick
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
	}
	d.forget(h)
}

// Stats returns a snapshot.
func (d *Dispatcher) Stats() Stats {
	d.mu.Lock()
	s := Stats{
		Topics: len(d.topics), Hosts: len(d.hosts),
		Ready: d.count.ready, Waiting: len(d.timers.items), InFlight: d.count.inFlight,
		Suspects: d.count.suspects,
	}
	for i := range d.shards {
		s.Lanes += len(d.shards[i].lanes)
	}
	d.mu.Unlock()
	s.BytesInFlight, s.BytesCached, s.Reads = d.bodies.stats()
	s.Uncommitted = d.settler.uncommitted()
	s.Delivered, s.Failed = d.delivered.Load(), d.failed.Load()
	s.PassedOver, s.Gone = d.passedOver.Load(), d.ended.Load()
	return s
}
