package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Apply takes over a subscription that was activated, renewed or ended; it
// takes effect at once (HUB-49). What is in flight goes on, but its result does
// not count where the cursor was minted anew.
func (d *Dispatcher) Apply(s subscriptions.Subscription) {
	host, now := egress.HostPortOf(s.Callback), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.touched != nil {
		d.touched[s.ID] = struct{}{}
	}
	d.apply(&s, host, now)
}

func (d *Dispatcher) apply(s *subscriptions.Subscription, host string, now time.Time) {
	l := d.lanes[s.ID]
	// Expiry is computed when it matters and ends no lane: the lease may be
	// renewed in time, or the clock come back.
	switch ended := !s.EndedAt.IsZero(); {
	case ended && l == nil:
	case ended:
		d.remove(l)
	case l == nil:
		d.add(s, host, now.UnixNano())
	default:
		l.set(s)
		d.advance(l, packCursor(journal.Merge(l.cursor.unpack(), s.Cursor)), now.UnixNano())
	}
}

// advance gives a lane a cursor that is as great as the one it has or greater.
func (d *Dispatcher) advance(l *lane, c cursor, now int64) {
	if c == l.cursor {
		if l.state == idle {
			d.proceed(l, now) // the lease may be longer now
		}
		return
	}
	l.cursor, l.held = c, overloaded(int(c.status))
	if c.next <= now && l.host.suspect && l.host.probe > now {
		// A replay, a renewal or a "retry now" is worth a probe.
		l.host.probe = now
		d.probes.set(l.host)
		d.wakeLoop()
	}
	if l.state == waiting || l.state == idle {
		d.timers.drop(l)
		d.place(l, now)
	}
}

// sweep is where the next sweep goes on.
type sweep struct {
	// Counter values of Changes and Changed, by partition and shard.
	topics, subscriptions [journal.Partitions]uint64
	// again are subscriptions that changed while they were being read, or could
	// not be read.
	again map[uuid.UUID]struct{}
}

// pageSize is how many records are read from the store at once.
const pageSize = 1000

// load makes lanes of all subscriptions that have not ended, and returns where
// sweeps go on.
func (d *Dispatcher) load(ctx context.Context) (*sweep, error) {
	start := time.Now()
	d.watchTouched(true)
	defer d.watchTouched(false)
	s := &sweep{again: make(map[uuid.UUID]struct{})}
	for i := range journal.Partitions {
		// The counters are read before what they count.
		_, next, err := d.o.Journal.Changes(ctx, i, 0)
		if err != nil {
			return nil, fmt.Errorf("reading the topics of partition %d: %w", i, err)
		}
		s.topics[i] = next
		if _, next, err = d.o.Subscriptions.Changed(ctx, i, 0); err != nil {
			return nil, fmt.Errorf("reading the subscriptions of shard %d: %w", i, err)
		}
		s.subscriptions[i] = next
		if err := d.loadShard(ctx, i); err != nil {
			return nil, fmt.Errorf("reading the subscriptions of shard %d: %w", i, err)
		}
	}
	st := d.Stats()
	d.log.Info("delivery starts", zap.String("event", "delivery_started"), zap.Int("subscriptions", st.Lanes),
		zap.Int("topics", st.Topics), zap.Int("hosts", st.Hosts), zap.Duration("duration", time.Since(start)))
	return s, nil
}

func (d *Dispatcher) loadShard(ctx context.Context, shard int) error {
	var after uuid.UUID
	for {
		page, err := d.o.Subscriptions.List(ctx, shard, after, pageSize)
		if err != nil {
			return err
		}
		for _, rec := range page {
			if rec.Subscription != nil {
				d.applyRead(rec.Subscription)
			}
		}
		if len(page) < pageSize {
			return nil
		}
		last := page[len(page)-1]
		if last.Subscription != nil {
			after = last.Subscription.ID
		} else {
			after = last.Request.SubscriptionID()
		}
	}
}

// applyRead applies what was read from the store, unless Apply had something
// newer meanwhile; then it returns false.
func (d *Dispatcher) applyRead(s *subscriptions.Subscription) bool {
	host, now := egress.HostPortOf(s.Callback), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, touched := d.touched[s.ID]; touched {
		return false
	}
	d.apply(s, host, now)
	return true
}

// watchTouched begins or ends a time in which Apply notes what it is called for.
func (d *Dispatcher) watchTouched(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.touched = nil; on {
		d.touched = make(map[uuid.UUID]struct{})
	}
}

// sweepOn asks the store every few seconds what changed. Hints may be lost;
// this is the guarantee behind them.
func (d *Dispatcher) sweepOn(ctx context.Context, s *sweep) {
	tick := time.NewTicker(d.o.Sweep)
	defer tick.Stop()
	lastWalk := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.sweep(ctx, s); err != nil && ctx.Err() == nil {
			d.log.Warn("the store could not be asked what changed; it is asked again", zap.String("event", "sweep_failed"), zap.Error(err))
		}
		d.retryHeads()
		if time.Since(lastWalk) >= walkEvery {
			lastWalk = time.Now()
			d.walkAll()
		}
	}
}

// sweep goes through all partitions. What cannot be read is asked for again the
// next time, and hides nothing else; the first error comes back.
func (d *Dispatcher) sweep(ctx context.Context, s *sweep) error {
	var failed error
	note := func(what string, of any, err error) {
		if failed == nil {
			failed = fmt.Errorf("%s %v: %w", what, of, err)
		}
	}
	for i := range journal.Partitions {
		if topics, next, err := d.o.Journal.Changes(ctx, i, s.topics[i]); err != nil {
			note("partition", i, err)
		} else {
			s.topics[i] = next
			for _, url := range topics {
				d.touch(url)
			}
		}
		if ids, next, err := d.o.Subscriptions.Changed(ctx, i, s.subscriptions[i]); err != nil {
			note("shard", i, err)
		} else {
			s.subscriptions[i] = next
			for _, id := range ids {
				s.again[id] = struct{}{}
			}
		}
	}
	d.watchTouched(true)
	defer d.watchTouched(false)
	for id := range s.again {
		rec, err := d.o.Subscriptions.Get(ctx, id)
		if err != nil {
			note("subscription", id, err)
			continue
		}
		if rec.Subscription == nil {
			rec.Subscription = &subscriptions.Subscription{ID: id, EndedAt: time.Now()}
		}
		if d.applyRead(rec.Subscription) {
			delete(s.again, id)
		}
	}
	return failed
}

// walkAll looks at every lane. A clock that jumped ahead and came back left
// some idle that have their lease after all.
func (d *Dispatcher) walkAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.topics {
		d.walk(t, false)
	}
}

// listen follows the hints of the journal.
func (d *Dispatcher) listen(ctx context.Context) {
	for topic := range d.o.Journal.Hints(ctx) {
		d.touch(topic)
	}
}

// touch has the head of a topic read, if it has lanes.
func (d *Dispatcher) touch(url string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[url]; t != nil {
		d.touchTopic(t)
	}
}

func (d *Dispatcher) touchTopic(t *topic) {
	if t.dirty {
		return
	}
	t.dirty = true
	if !t.reading { // else whoever reads it reads it again
		d.dirty.push(t)
		d.follow.Signal()
	}
}

// retryHeads has the heads read that could not be.
func (d *Dispatcher) retryHeads() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for url := range d.unread {
		if t := d.topics[url]; t != nil {
			d.touchTopic(t)
		}
	}
	clear(d.unread)
}

// readHeads reads the heads of topics that may have moved.
func (d *Dispatcher) readHeads(ctx context.Context) {
	for {
		t := d.takeDirty()
		if t == nil {
			return
		}
		head, err := d.o.Journal.Head(ctx, t.url)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("the head of a topic could not be read; it is read again", zap.String("event", "head_failed"), zap.String("topic", t.url), zap.Error(err))
		}
		d.headRead(t, packAnchor(head.Last), err)
	}
}

// takeDirty waits for a topic whose head is to be read. A topic is read by one
// reader at a time, so that an older answer never replaces a newer one. Nil:
// there will be none.
func (d *Dispatcher) takeDirty() *topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.stopping {
		if t, ok := d.dirty.pop(); ok {
			t.dirty, t.reading = false, true
			return t
		}
		d.follow.Wait()
	}
	return nil
}

func (d *Dispatcher) headRead(t *topic, head anchor, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.reading = false; t.dirty {
		d.dirty.push(t)
		d.follow.Signal()
	}
	switch {
	case err != nil:
		if d.topics[t.url] == t {
			d.unread[t.url] = struct{}{}
		}
	case !t.known || !t.head.same(head):
		d.setHead(t, head)
	}
}

// setHead takes over what the store said is the newest entry of t. At first that
// is nothing new.
func (d *Dispatcher) setHead(t *topic, head anchor) {
	published := t.known
	t.head, t.known = head, true
	t.epoch++
	d.walk(t, published)
}
