package delivery

import (
	"context"
	"net/http"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// sender makes deliveries. MaxInflight goroutines run it.
type sender struct {
	sched    *sharedScheduler // whose turn it is
	journal  Journal
	bodies   *bodies
	troubles *troubles
	rewinder *rewinder
	shards   *shards
	client   client
	commits  *groupCommit
	report   *reporter
	stages   []stage
}

// delivery is one on its way through the stages.
type delivery struct {
	job
	body   *body
	secret string
	out    outcome
}

// stage does one thing about a delivery. False: the delivery ends here, and the stage has
// put its lane back.
type stage func(*sender, context.Context, *delivery) bool

// stages are what is done about each delivery, in this order.
func stages() []stage {
	return []stage{
		(*sender).unblocked, // commit.go: the results before are stored, or may be
		(*sender).find,      // find.go, bodies.go: the next notification is in memory
		(*sender).spare,     // limits.go: a large body has a sender
		(*sender).admit,     // scheduler.go: subscription, lease and shard are as they were
		(*sender).attempt,   // attempt.go: one HTTP exchange
		(*sender).conclude,  // decide.go, commit.go: what follows, stored and reported
	}
}

// run makes the deliveries whose turn it is until there are no more.
func (s *sender) run(ctx context.Context) {
	var d delivery
	for {
		j, ok := s.sched.next()
		if !ok {
			return
		}
		d = delivery{job: j}
		s.deliver(ctx, &d)
		s.bodies.resume()
	}
}

func (s *sender) deliver(ctx context.Context, d *delivery) {
	for _, stage := range s.stages {
		if !stage(s, ctx, d) {
			break
		}
	}
	if d.body != nil {
		s.bodies.put(d.body, d.lane.host, d.health())
	}
}

// unblocked has a lane wait while results of it are refused by the store.
func (s *sender) unblocked(_ context.Context, d *delivery) bool {
	if s.commits.blocks(d.lane.id) {
		s.pause(&d.job, false)
		return false
	}
	return true
}

// spare finds out whether a sender can be spared for the body. If not, the lane is parked.
func (s *sender) spare(_ context.Context, d *delivery) (ok bool) {
	b := d.body
	if !b.isLarge && b.entry.Size <= lightBody {
		return true
	}
	s.sched.do(func(sc *scheduler) { ok = sc.spare(&d.job, b.entry.Size) })
	return ok
}

// admit finds out, right before the attempt, whether the subscription is still to get it
// (HUB-49), and from this hub. It remembers that the journal has the entry, and had the one
// before it.
func (s *sender) admit(_ context.Context, d *delivery) (ok bool) {
	if !s.shards.owns(d.lane) { // Abort is about to come
		s.pause(&d.job, false)
		return false
	}
	d.lane.topic.history.saw(d.cursor.anchor, d.body.anchor)
	s.sched.do(func(sc *scheduler) {
		if d.secret, ok = sc.admit(&d.job); !ok {
			sc.giveBack(d.job)
		}
	})
	return ok
}

// attempt makes the exchange.
func (s *sender) attempt(_ context.Context, d *delivery) bool {
	d.out = s.client.attempt(d.set.ctx, exchange{ //nolint:contextcheck // ends with the shard, and with the context of all exchanges
		callback: d.lane.callback, secret: d.secret, attempt: d.cursor.attempt + 1, body: d.body,
	})
	if d.out.cutOff {
		s.report.attempt(d.job, d.body, d.out, OutcomeCutOff, time.Time{})
		s.giveBack(&d.job)
		return false
	}
	return true
}

// conclude draws the conclusions of an attempt: for the lane and its host, for
// the store and for the log.
func (s *sender) conclude(ctx context.Context, d *delivery) bool {
	now := s.report.clock.Now()
	var head journal.Head
	if d.out.Status == http.StatusGone {
		var err error
		if head, err = s.journal.Head(ctx, d.lane.topic.url); err != nil {
			// What is left out could not be told, so it ends another time.
			s.report.attempt(d.job, d.body, d.out, Retry.String(), now.Add(storePause))
			s.sched.do(func(sc *scheduler) { sc.observe(d.job, d.out) })
			s.pause(&d.job, false)
			return false
		}
	}
	c, dec, ok := s.decide(d, now)
	if !ok {
		s.report.attempt(d.job, d.body, d.out, OutcomeSuperseded, time.Time{})
		s.sched.do(func(sc *scheduler) { sc.finish(d.job, d.out) })
		return false
	}
	gap := gapOf(d, dec.Action, head)
	if dec.Action == End {
		c.End, c.EndedAt, c.Lease = subscriptions.EndGone, now, instant(d.lease)
	}
	if gap.Count > 0 {
		gap.At = now
		c.Gaps = []journal.Gap{gap}
		s.report.skipped(d.job, gap)
	}
	s.report.count(dec.Action)
	s.report.attempt(d.job, d.body, d.out, dec.Action.String(), dec.At)
	s.commits.add(c)
	s.sched.do(func(sc *scheduler) { sc.finish(d.job, d.out) })
	return true
}

// decide has the scheduler decide. The end of a subscription is noted with its shard.
func (s *sender) decide(d *delivery, now time.Time) (c subscriptions.Commit, dec Decision, ok bool) {
	decide := func() {
		s.sched.do(func(sc *scheduler) { c, dec, ok = sc.decide(d.job, d.body, d.out, now) })
	}
	if d.out.Status == http.StatusGone {
		s.shards.ending(d.lane.id, decide)
	} else {
		decide()
	}
	return c, dec, ok
}

// gapOf is what the subscription will not get by an action; a Count of 0: nothing.
func gapOf(d *delivery, a Action, head journal.Head) (gap journal.Gap) {
	e, from := &d.body.entry, d.cursor.unpack()
	switch a {
	case PassOver:
		gap.From, gap.Until, gap.Count, gap.Reason = e.From, e.End(), 1, journal.GapGaveUp
		if !e.Timed() {
			gap.From = from.Until
		}
	case End:
		gap.From, gap.Until, gap.Reason = from.Until, head.Last.Until, journal.GapGone
		if head.Last.Seq > from.Seq {
			gap.Count = head.Last.Seq - from.Seq
		}
	}
	return gap
}

// giveBack puts a lane back as if it had not been picked.
func (s *sender) giveBack(j *job) {
	s.sched.do(func(sc *scheduler) { sc.giveBack(*j) })
}

// pause has a lane wait a moment. With unread, its entry could not be read.
func (s *sender) pause(j *job, unread bool) {
	var seen []subscriptions.Commit
	s.sched.do(func(sc *scheduler) {
		seen = sc.pause([]*lane{j.lane}, unread)
		sc.release(*j)
	})
	s.commits.add(seen...)
}
