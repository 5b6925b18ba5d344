package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errLost is the cause with which exchanges are cut off whose shard is another
// hub's now.
var errLost = errors.New("the shard is not this hub's any more")

// cutGrace is how long Yield waits for exchanges that it cut off to end, and for
// what came of others before to be stored.
const cutGrace = 400 * time.Millisecond

// shard is a part of the subscriptions, as far as this hub works on it. The
// Dispatcher's lock guards it.
type shard struct {
	// one is held by the Take or Yield that is under way, of which there is one at
	// a time. Cut waits for nobody.
	one    chan struct{}
	tenure *tenure // nil: the shard is not this hub's
	lanes  map[uuid.UUID]*lane
	// forgetting is closed when the lanes of the last tenure are gone; nil: they
	// are.
	forgetting chan struct{}
}

// tenure is the time from a Take to the Yield or Cut after it. What was begun in
// one is void in the next.
type tenure struct {
	ctx    context.Context // of its exchanges
	cut    context.CancelCauseFunc
	loaded bool
	// yielding: no attempt is begun any more.
	yielding bool
	active   int           // lanes that senders hold
	drained  chan struct{} // closed when active is 0; nil: nobody waits for that

	// The rest is the sweep's, once it is loaded: the counter value to ask Changed
	// with, and the subscriptions that changed while they were being read, or
	// could not be read.
	changed uint64
	again   map[uuid.UUID]struct{}
	// touched are the subscriptions that Apply was called for, or that answered
	// 410, since the last sweep began, or the tenure: what is being read of them may
	// be older.
	touched map[uuid.UUID]struct{}
}

// Take takes up the subscriptions of a shard and begins to deliver to them. It
// may be called before Run, and again for a shard that is taken, which changes
// nothing. What Apply is called for meanwhile wins over what is read.
//
// An error says that they could not be read, or that the shard was cut
// meanwhile: nothing of it is delivered to then.
func (d *Dispatcher) Take(ctx context.Context, n int) error {
	s := &d.shards[n]
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	if err := d.moves.begin(ctx, d.o.Journal); err != nil {
		return fmt.Errorf("taking up shard %d: %w", n, err)
	}
	t, err := d.open(ctx, s)
	if t == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })() //nolint:contextcheck // a Cut ends it too
	// What is still to be stored of a tenure that was cut is not to be done again.
	d.commits.flush(ctx)
	start := time.Now()
	if err := d.load(ctx, n, t, nil); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		d.drop(s, t) // it ends ctx too
		return fmt.Errorf("taking up shard %d: %w", n, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.tenure != t {
		return fmt.Errorf("taking up shard %d: %w", n, errLost)
	}
	t.loaded = true
	d.log.Debug("the subscriptions of a shard were read", zap.String("event", "shard_loaded"),
		zap.Int("shard", n), zap.Int("subscriptions", len(s.lanes)), zap.Duration("duration", time.Since(start)))
	return nil
}

// Yield ends the work on a shard so that another hub can go on with it: no
// attempt is begun any more, those in flight go on until ctx ends, and are cut
// off then, which counts as no failure; what came of them is stored. Then the
// lanes are forgotten. It returns when all that is done, or a moment after ctx
// ended at the latest. A shard that is not taken stays as it is.
func (d *Dispatcher) Yield(ctx context.Context, n int) {
	s := &d.shards[n]
	if s.begin(ctx) != nil {
		d.Cut(n)
		return
	}
	defer s.end()
	d.mu.Lock()
	t := s.tenure
	if t == nil {
		d.mu.Unlock()
		return
	}
	t.yielding = true
	d.each(s.lanes, func(l *lane) {
		if l.state == inFlight {
			l.leaving = true
		} else {
			d.remove(l)
		}
	})
	d.mu.Unlock()
	if !d.drain(ctx, t) {
		t.cut(errLost)
		moment, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutGrace)
		defer cancel()
		d.drain(moment, t)
		ctx = moment
	}
	d.commits.flush(ctx)
	d.drop(s, t)
}

// Cut ends the work on a shard at once, as the hub does not own it any more: its
// exchanges are cancelled, which counts as no failure, and its lanes forgotten.
// Results that wait to be stored may still be: the store merges them. A shard that
// is not taken stays as it is.
func (d *Dispatcher) Cut(n int) {
	s := &d.shards[n]
	d.mu.Lock()
	t := s.tenure
	d.mu.Unlock()
	if t != nil {
		d.drop(s, t)
	}
}

// begin waits until no Take or Yield of the shard is under way.
func (s *shard) begin(ctx context.Context) error {
	select {
	case s.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *shard) end() { <-s.one }

// open begins a tenure, once the lanes of the last one are gone. Nil: it is taken
// already.
func (d *Dispatcher) open(ctx context.Context, s *shard) (*tenure, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s.forgetting != nil {
		gone := s.forgetting
		d.mu.Unlock()
		select {
		case <-gone:
			d.mu.Lock()
		case <-ctx.Done():
			d.mu.Lock()
			return nil, context.Cause(ctx)
		}
	}
	if s.tenure != nil {
		return nil, nil
	}
	t := &tenure{again: make(map[uuid.UUID]struct{}), touched: make(map[uuid.UUID]struct{})}
	t.ctx, t.cut = context.WithCancelCause(d.exchanges)
	s.tenure, s.lanes = t, make(map[uuid.UUID]*lane)
	return t, nil
}

// drop ends a tenure, if it is the shard's still: it cuts off what is in flight
// and forgets the lanes.
func (d *Dispatcher) drop(s *shard, t *tenure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.tenure != t {
		return
	}
	t.cut(errLost)
	lanes, gone := s.lanes, make(chan struct{})
	s.tenure, s.lanes, s.forgetting = nil, nil, gone
	d.each(lanes, d.remove)
	s.forgetting = nil
	close(gone)
}

// each calls f for the lanes of a shard. Between chunks it gives the lock to those
// who deliver.
func (d *Dispatcher) each(of map[uuid.UUID]*lane, f func(*lane)) {
	lanes := make([]*lane, 0, len(of))
	for _, l := range of {
		lanes = append(lanes, l)
	}
	for i, l := range lanes {
		if i%chunk == chunk-1 {
			d.mu.Unlock()
			d.mu.Lock()
		}
		if l.state != gone {
			f(l)
		}
	}
}

// drain waits until no sender holds a lane of a tenure. False: ctx ended first.
func (d *Dispatcher) drain(ctx context.Context, t *tenure) bool {
	d.mu.Lock()
	if t.active == 0 {
		d.mu.Unlock()
		return true
	}
	drained := make(chan struct{})
	t.drained = drained
	d.mu.Unlock()
	select {
	case <-drained:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave says that a sender holds a lane of the tenure no more.
func (t *tenure) leave() {
	if t.active--; t.active == 0 && t.drained != nil {
		close(t.drained)
		t.drained = nil
	}
}

// delivers tells whether attempts may be begun in this tenure, which may be nil.
func (t *tenure) delivers() bool { return t != nil && !t.yielding && t.ctx.Err() == nil }

// shardOf is the shard of a subscription.
func (d *Dispatcher) shardOf(id uuid.UUID) *shard { return &d.shards[subscriptions.Shard(id)] }

// lane returns that of a subscription; nil: there is none.
func (d *Dispatcher) lane(id uuid.UUID) *lane { return d.shardOf(id).lanes[id] }

// pageSize is how many records are read from the store at once.
const pageSize = 1000

// load makes lanes of all subscriptions of a shard that have not ended, and takes
// those that it reads out of unlisted, which may be nil.
func (d *Dispatcher) load(ctx context.Context, n int, t *tenure, unlisted map[uuid.UUID]struct{}) error {
	// The counter is read before what it counts.
	_, next, err := d.o.Subscriptions.Changed(ctx, n, 0)
	if err != nil {
		return err
	}
	t.changed = next
	var after uuid.UUID
	for {
		page, err := d.o.Subscriptions.List(ctx, n, after, pageSize)
		if err != nil {
			return err
		}
		for _, rec := range page {
			if rec.Subscription != nil {
				d.applyRead(t, rec.Subscription)
				delete(unlisted, rec.Subscription.ID)
			}
			d.found(rec)
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

func (d *Dispatcher) found(rec subscriptions.Record) {
	if rec.Request != nil {
		d.o.Found(rec)
	}
}

// applyRead applies what was read from the store, unless something newer is known
// meanwhile, or the tenure is over; then it returns false.
func (d *Dispatcher) applyRead(t *tenure, s *subscriptions.Subscription) bool {
	host, now := egress.HostPortOf(s.Callback), d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, touched := t.touched[s.ID]; touched || d.shardOf(s.ID).tenure != t || t.yielding {
		return false
	}
	return d.apply(s, host, now)
}

// takeTouched has what Apply was called for read again, and begins anew to note it.
func (d *Dispatcher) takeTouched(t *tenure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(t.touched) > 0 {
		maps.Copy(t.again, t.touched)
		t.touched = make(map[uuid.UUID]struct{})
	}
}

// moves are the values to ask Changes with, by partition. They are the sweep's,
// once they are begun.
type moves struct {
	one   chan struct{} // held by whoever begins them
	begun chan struct{} // closed when they are
	since [journal.Partitions]uint64
}

// begin reads the counters, if that was not done: before the first head is read
// that they count. What the sweep asks for later may be far back, and then it is
// told more topics than moved.
func (m *moves) begin(ctx context.Context, w journal.Watcher) error {
	select {
	case <-m.begun:
		return nil
	case m.one <- struct{}{}:
		defer func() { <-m.one }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-m.begun:
		return nil
	default:
	}
	for i := range m.since {
		_, next, err := w.Changes(ctx, i, 0)
		if err != nil {
			return fmt.Errorf("reading the topics of partition %d: %w", i, err)
		}
		m.since[i] = next
	}
	close(m.begun)
	return nil
}
