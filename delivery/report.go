package delivery

import (
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/journal"
)

// reporter reports events to the functions in Options, to the log, and to the counters.
type reporter struct {
	event func(Event)
	gap   func(journal.Gap)
	log   *zap.Logger
	clock journal.Clock

	decided [End + 1]atomic.Uint64 // attempts, by their Action
}

// attempt reports an attempt, with one line of the log. Next is when the lane may continue;
// zero: at once, or that is not known.
//
// The level is debug for deliveries that succeed at first, because a fan-out has a million of
// them, and info for all others.
func (r *reporter) attempt(d *delivery, result string, next time.Time) {
	l, e := d.lane, &d.body.entry
	r.event(Event{
		SubscriptionID: l.id, NotificationID: e.ID, Topic: l.topic.url, CallbackHost: l.host.name,
		Attempt: d.number(), Outcome: result, Status: d.out.Status, Err: d.out.err,
		Start: d.out.started, Duration: d.out.duration, ReceivedAt: e.ReceivedAt, Bytes: e.Size,
	})
	level := zapcore.InfoLevel
	if result == Deliver.String() && d.number() == 1 {
		level = zapcore.DebugLevel
	}
	line := r.log.Check(level, "delivery attempt")
	if line == nil {
		return
	}
	status := zap.Skip() // the error says it
	if d.out.Status > 0 {
		status = zap.Int("status", d.out.Status)
	}
	line.Write(zap.String("event", "delivery_attempt"),
		zap.String("topic", l.topic.url), zap.Stringer("subscription_id", l.id), zap.String("callback_host", l.host.name),
		zap.String("notification_id", d.body.id), zap.Uint32("attempt", d.number()),
		zap.Duration("duration", d.out.duration), zap.String("outcome", result),
		status, known("next_attempt_at", next), zap.Error(d.out.err))
}

// skipped reports that a subscription will not get something. For damage, one line of the log
// is for all subscriptions of the topic (damage_passed_over).
func (r *reporter) skipped(j job, g journal.Gap) {
	r.gap(g)
	if g.Reason != journal.GapDamaged {
		LogGap(r.log, j.lane.topic.url, j.lane.id, j.lane.host.name, g)
	}
}

// rolledBack reports that lanes of a topic went back, because the store lost its tail.
func (r *reporter) rolledBack(t *topic, f *fork, gap journal.Gap, lanes int) {
	r.gap(gap)
	r.log.Warn("the store lost its tail: delivery goes back to what it still has, and what follows may come twice",
		zap.String("event", "rolled_back"), zap.String("topic", t.url), zap.Int("subscriptions", lanes),
		zap.Uint64("from_seq", f.last.seq), zap.Uint64("to_seq", f.to.seq), zap.Uint64("count", gap.Count),
		known("from", gap.From), known("until", gap.Until))
}

// LogGap logs that a subscription with a callback at a host will not get something
// (invariant 10).
func LogGap(log *zap.Logger, topic string, id uuid.UUID, host string, g journal.Gap) {
	log.Warn("notifications are not delivered to a subscription", zap.String("event", "delivery_gap"),
		zap.String("topic", topic), zap.Stringer("subscription_id", id), zap.String("callback_host", host),
		zap.String("reason", g.Reason), zap.Uint64("count", g.Count), known("from", g.From), known("until", g.Until))
}

// known is the field of a time; none if the time is zero.
func known(key string, t time.Time) zap.Field {
	if t.IsZero() {
		return zap.Skip()
	}
	return zap.Time(key, t)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
