package delivery

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// job is a lane that a sender holds, and what held when it was picked.
type job struct {
	lane   *lane
	tenure *tenure // of its shard; nil: there was none
	class  class
	probe  bool // of a suspect host
	counts bool // in Dispatcher.unprovenBusy
	heavy  bool // in Dispatcher.heavyBusy
	cursor cursor
	epoch  uint64 // of the lane's topic
	lease  int64  // the lane's when the exchange began
}

// send takes lanes and delivers until there are no more to take.
func (d *Dispatcher) send(ctx context.Context) {
	for {
		j, ok := d.take()
		if !ok {
			return
		}
		d.deliver(ctx, j)
		d.bodies.resume()
	}
}

// deliver takes one lane one step: it finds the next notification, makes an
// attempt, decides what follows, has it stored, and puts the lane back.
func (d *Dispatcher) deliver(ctx context.Context, j job) {
	if d.commits.blocks(j.lane.id) {
		d.pause([]*lane{j.lane}, func() { d.release(j) })
		return
	}
	b, err := d.find(ctx, &j)
	if err != nil {
		d.notNow(j, b, err)
		return
	}
	defer d.bodies.put(b, j.lane.host, j.standing())
	if !d.spare(&j, b) {
		return
	}
	if !d.ownsLane(j.lane) { // Cut is about to come
		d.pause([]*lane{j.lane}, func() { d.release(j) })
		return
	}
	secret, ok := d.stillDue(&j, b)
	if !ok {
		d.giveBack(j)
		return
	}
	out := d.client.attempt(j.tenure.ctx, exchange{ //nolint:contextcheck // ends with the shard, and with ctx
		callback: j.lane.callback, secret: secret, attempt: j.cursor.attempt + 1, body: b,
	})
	if out.cutOff {
		d.tell(j, b, out, OutcomeCutOff, time.Time{})
		d.giveBack(j)
		return
	}
	d.conclude(ctx, j, b, out)
}

// find returns the entry after the job's cursor. Where entries were trimmed, lost or
// damaged before they were delivered, it moves the cursor and goes on.
func (d *Dispatcher) find(ctx context.Context, j *job) (*body, error) {
	for {
		if !d.awaitFork(j) {
			return nil, errSuperseded
		}
		wait, over := d.paused(j)
		if wait {
			return nil, errPaused
		}
		if over != nil {
			if !d.skip(j, *over, journal.GapDamaged) {
				return nil, errSuperseded
			}
			continue
		}
		b, err := d.bodies.get(ctx, j.lane.topic, j.cursor.anchor, j.lane.host, j.standing())
		var trimmed *journal.TrimmedError
		var moved bool
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.As(err, &trimmed) && trimmed.To.Position > j.cursor.position:
			to, reason := trimmed.To, trimmed.Reason
			if at := d.damageBefore(j, to); at != nil {
				to, reason = *at, journal.GapDamaged
			}
			if reason == journal.GapRemoved && d.endedElsewhere(ctx, j) {
				return nil, errSuperseded
			}
			moved = d.skip(j, to, reason)
		case errors.Is(err, journal.ErrRolledBack):
			if err := d.reanchor(ctx, j); err != nil {
				d.wasRead(keyOf(j.lane.topic, j.cursor.anchor), err)
				return nil, err
			}
			moved = d.stands(j)
		case errors.Is(err, journal.ErrDamaged):
			if _, over := d.paused(j); over == nil {
				return nil, errPaused
			}
			continue
		default:
			return b, err
		}
		if !moved {
			return nil, errSuperseded
		}
	}
}

// endedElsewhere tells whether the subscription of a topic that was removed ended with
// it. Another hub ended it then, and told of its gap; the lane goes.
func (d *Dispatcher) endedElsewhere(ctx context.Context, j *job) bool {
	rec, err := d.o.Subscriptions.Get(ctx, j.lane.id)
	if err != nil || j.tenure == nil || rec.Subscription == nil || rec.Subscription.EndedAt.IsZero() {
		return false
	}
	return d.applyRead(j.tenure, rec.Subscription)
}

// ownsLane tells whether the lane's shard is this hub's at this moment.
func (d *Dispatcher) ownsLane(l *lane) bool { return d.o.Owns(subscriptions.Shard(l.id)) }

// errSuperseded says that the lane got another cursor, or is gone.
var errSuperseded = errors.New("the subscription changed meanwhile")

// notNow puts a lane back for which find found nothing.
func (d *Dispatcher) notNow(j job, b *body, err error) {
	switch {
	case errors.Is(err, errSuperseded):
		d.giveBack(j)
	case errors.Is(err, errHead):
		d.atHead(j)
	case errors.Is(err, errNoRoom):
		d.park(j, b)
	default:
		d.hold([]*lane{j.lane}, func() { d.release(j) })
	}
}

// giveBack puts a lane back as if it had not been picked.
func (d *Dispatcher) giveBack(j job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !j.tenure.delivers() {
		d.remove(j.lane) // as its shard goes
	}
	d.place(j.lane, d.read())
	d.release(j)
}

// atHead puts a lane back that is at the head of its topic, if that did not move
// since the lane was picked.
func (d *Dispatcher) atHead(j job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := j.lane.topic; t.epoch == j.epoch && d.holds(j) && t.behind(j.lane) {
		// What was known is older than this lane's cursor.
		d.setHead(t, j.cursor.anchor)
	}
	d.place(j.lane, d.read())
	d.release(j)
}

// park lets a lane wait for a large body, without a sender.
func (d *Dispatcher) park(j job, b *body) {
	d.mu.Lock()
	d.setAside(j.lane)
	d.release(j)
	d.mu.Unlock()
	if !d.bodies.wait(b, j.lane, j.standing()) {
		d.unpark([]*lane{j.lane}, true)
	}
}

// setAside parks a lane that a sender holds. False: it is gone.
func (d *Dispatcher) setAside(l *lane) bool {
	if l.leaving {
		d.remove(l)
	}
	if l.state == gone {
		return false
	}
	l.state = parked
	return true
}

// unpark makes parked lanes ready, in chunks; those whose body could not be read
// when their topic can be read again. Without lanes, it looks for others that a sender
// came free for.
func (d *Dispatcher) unpark(lanes []*lane, read bool) {
	if len(lanes) == 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.work.Signal()
		d.resumeHeavy()
		return
	}
	for first := true; len(lanes) > 0; {
		n := min(chunk, len(lanes))
		if read {
			d.proceedAll(lanes[:n], first)
			first = false
		} else {
			d.hold(lanes[:n], func() {})
		}
		lanes = lanes[n:]
	}
}

// proceedAll makes parked lanes ready. The first of them goes before the turns of
// all others, as it had its own: where turns take longer than a body is kept, none
// would find it.
func (d *Dispatcher) proceedAll(lanes []*lane, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.read()
	for _, l := range lanes {
		if l.state == parked {
			l.state = idle
			d.goOn(l, now, first)
			first = first && l.state != ready
		}
	}
}

// pause lets lanes wait a moment, each by itself. Their cursors stay.
func (d *Dispatcher) pause(lanes []*lane, then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range lanes {
		switch {
		case l.leaving:
			d.remove(l)
		case l.state == inFlight || l.state == parked:
			wait := float64(storePause) * (1 + d.o.Rand())
			d.waitUntil(l, d.mono()+int64(wait))
		}
	}
	then()
}

// holds tells whether the cursor that the job was picked with still stands. It
// does not when the subscription ended, was renewed with another secret or was
// replayed: what was delivered from the old one does not move the new one.
func (d *Dispatcher) holds(j job) bool {
	l := j.lane
	return l.state != gone && l.cursor.generation == j.cursor.generation && l.cursor.same(j.cursor.anchor)
}

// stillDue tells, right before an attempt, whether the subscription is still to
// get it (HUB-49), and from this hub, and with which secret. It notes the lease
// that is in force, and remembers that the
// journal holds the entry, and held the one before it, after which that was read.
func (d *Dispatcher) stillDue(j *job, b *body) (secret string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.cursor.position > 0 {
		j.lane.topic.saw(j.cursor.anchor)
	}
	j.lane.topic.saw(b.anchor)
	j.lease = j.lane.lease
	return j.lane.secret, j.tenure.delivers() && d.holds(*j) && j.lane.expires > d.read().earliest
}

// conclude draws the conclusions of an attempt: for the lane and its host, for
// the store and for the log.
func (d *Dispatcher) conclude(ctx context.Context, j job, b *body, out outcome) {
	now := d.o.Clock.Now()
	var head journal.Head
	if out.Status == http.StatusGone {
		var err error
		if head, err = d.o.Journal.Head(ctx, j.lane.topic.url); err != nil {
			// What is left out could not be told, so it ends another time.
			d.tell(j, b, out, Retry.String(), now.Add(storePause))
			d.pause([]*lane{j.lane}, func() { d.judge(j, out); d.release(j) })
			return
		}
	}
	c, dec, ok := d.decide(j, b, out, now)
	if !ok {
		d.tell(j, b, out, OutcomeSuperseded, time.Time{})
		d.finish(j, out)
		return
	}
	gap := journal.Gap{At: now}
	switch dec.Action {
	case PassOver:
		gap.From, gap.Until, gap.Count, gap.Reason = b.entry.From, b.entry.End(), 1, journal.GapGaveUp
		if !b.entry.Timed() {
			gap.From = j.cursor.unpack().Until
		}
	case End:
		c.End, c.EndedAt, c.Lease = subscriptions.EndGone, now, instant(j.lease)
		from := j.cursor.unpack()
		gap.From, gap.Until, gap.Reason = from.Until, head.Last.Until, journal.GapGone
		if head.Last.Seq > from.Seq {
			gap.Count = head.Last.Seq - from.Seq
		}
	}
	if gap.Count > 0 {
		c.Gaps = []journal.Gap{gap}
		d.tellGap(j, gap)
	}
	d.tally(dec.Action)
	d.tell(j, b, out, dec.Action.String(), dec.At)
	d.commits.add(c)
	d.finish(j, out)
}

// decide moves the lane's cursor as Decide says, and returns what is to be
// stored. False: the lane has another cursor, or the answer would end a lease
// that is over; the attempt does not count.
func (d *Dispatcher) decide(j job, b *body, out outcome, now time.Time) (subscriptions.Commit, Decision, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holds(j) {
		return subscriptions.Commit{}, Decision{}, false
	}
	l := j.lane
	was, c := l.cursor, l.cursor
	begun := instant(was.first)
	if begun.IsZero() || was.attempt == 0 { // else it is since when the entry was known to be damaged
		begun = now.Add(-out.duration)
	}
	dec := Decide(out.Result, State{Attempt: was.attempt, Step: uint32(was.step), FirstAttemptAt: begun}, d.o.Policy, now, d.o.Rand())
	if dec.Action == End && l.lease != j.lease {
		return subscriptions.Commit{}, Decision{}, false // renewed since the exchange began
	}
	switch dec.Action {
	case Deliver, PassOver:
		c = was.moveTo(b.anchor)
	default:
		c.attempt++
		c.first = nanos(begun)
	}
	c.next, c.step, c.status = nanos(dec.At), uint16(dec.Step), int16(out.Status) //nolint:gosec // at most 8, and of three digits
	l.cursor, l.held = c, dec.Held
	if dec.Action == End {
		// Its slot and its place in flight are given back by finish. The next
		// sweep looks whether the store took the end: it does not where a renewal, or
		// a result of the hub that had the shard before, came first.
		d.remove(l)
		j.tenure.touched[l.id] = struct{}{}
	}
	commit := subscriptions.Commit{ID: l.id, Cursor: c.unpack()}
	failedBefore := was.status != 0 && !(Result{Status: int(was.status)}).delivered()
	if dec.Action != Deliver || failedBefore {
		commit.Attempts = []subscriptions.Attempt{{
			At: out.started, NotificationID: b.entry.ID, Number: was.attempt + 1,
			Status: out.Status, Error: message(out.err), Duration: out.duration,
		}}
	}
	return commit, dec, true
}

// finish puts the lane back after an attempt.
func (d *Dispatcher) finish(j job, out outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judge(j, out)
	d.place(j.lane, d.read())
	d.release(j)
}
