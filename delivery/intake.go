package delivery

import (
	"context"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Apply takes over a subscription that was activated, renewed or ended; it
// takes effect at once (HUB-49). What is in flight goes on, but its result does
// not count where the cursor was minted anew. One of a shard that is not taken is
// ignored: whoever has it finds the change in the store.
func (d *Dispatcher) Apply(s subscriptions.Subscription) {
	host, now := egress.HostPortOf(s.Callback), d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.shardOf(s.ID).tenure
	if t == nil || t.yielding {
		return
	}
	t.touched[s.ID] = struct{}{}
	d.apply(&s, host, now)
}

// apply takes over s. False: s is to be read again once a 410 is stored that
// waits for it, which may end it or not.
func (d *Dispatcher) apply(s *subscriptions.Subscription, host string, now reading) bool {
	l := d.lane(s.ID)
	// Expiry is computed when it matters and ends no lane: the lease may be
	// renewed in time, or the clock come back.
	switch ended := !s.EndedAt.IsZero(); {
	case ended && l == nil:
	case ended:
		d.remove(l)
	case l == nil:
		// A 410 may have removed the lane a moment ago, with results that are not
		// stored yet. What they say counts, as far as s was not renewed since.
		next := d.commits.ahead(*s)
		if !next.EndedAt.IsZero() {
			return false
		}
		d.add(&next, host, now)
	default:
		c := journal.Merge(l.cursor.unpack(), s.Cursor)
		if renewed := nanos(s.VerifiedAt) > l.lease; renewed && c.Generation == s.Cursor.Generation && c.Position > s.Cursor.Position {
			// The store nudged a cursor that delivery has left behind.
			c = subscriptions.Nudge(c, instant(now.wall))
		}
		l.set(s)
		d.advance(l, packCursor(c), now)
	}
	return true
}

// advance gives a lane a cursor that is as great as the one it has or greater.
func (d *Dispatcher) advance(l *lane, c cursor, now reading) {
	if c == l.cursor {
		if l.state == idle {
			d.proceed(l, now) // the lease may be longer now
		}
		return
	}
	l.cursor, l.held = c, overloaded(int(c.status))
	d.lookAgain(l, now) // a "retry now" is worth a look
	if c.next <= now.wall && l.host.suspect && l.host.probe > now.mono {
		// A replay, a renewal or a "retry now" is worth a probe.
		l.host.probe = now.mono
		d.probes.set(l.host)
		d.wakeLoop()
	}
	if l.state == waiting || l.state == idle {
		d.timers.drop(l)
		d.place(l, now)
	}
}

// listen follows the hints of the journal until they end.
func (d *Dispatcher) listen(hints <-chan string) {
	for topic := range hints {
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
		if changed := d.headRead(t, packAnchor(head.Last), err); !changed || ctx.Err() != nil {
			continue
		}
		if err != nil {
			d.log.Warn("the head of a topic cannot be read; it is read again every few seconds", zap.String("event", "head_failed"), zap.String("topic", t.url), zap.Error(err))
		} else {
			d.log.Info("the head of a topic can be read again", zap.String("event", "head_recovered"), zap.String("topic", t.url))
		}
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

// headRead takes over what was read of a head. It reports whether that failed where it
// did not before, or the other way round.
func (d *Dispatcher) headRead(t *topic, head anchor, err error) (changed bool) {
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
	changed = t.headless != (err != nil)
	t.headless = err != nil
	return changed
}

// setHead takes over what the store said is the newest entry of t. At first that
// is nothing new.
func (d *Dispatcher) setHead(t *topic, head anchor) {
	published := t.known
	t.head, t.known = head, true
	t.epoch++
	d.walk(t, published)
}
