package delivery

import (
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/journal"
)

// reporter passes on what happens: to the functions in Options, to the log, and to the counters.
type reporter struct {
	event func(Event)       // nil: nobody is told
	gap   func(journal.Gap) // the same
	log   *zap.Logger
	clock journal.Clock

	delivered, failed, passedOver, ended atomic.Uint64
}

// attempt passes an attempt on and writes its one line. Next is when the lane may go
// on; zero: that is not known, or at once.
func (r *reporter) attempt(j job, b *body, out outcome, result string, next time.Time) {
	if r.event != nil {
		r.event(Event{
			SubscriptionID: j.lane.id, NotificationID: b.entry.ID,
			Topic: j.lane.topic.url, CallbackHost: j.lane.host.name,
			Attempt: j.cursor.attempt + 1, Outcome: result, Status: out.Status, Err: out.err,
			Start: out.started, Duration: out.duration,
			ReceivedAt: b.entry.ReceivedAt, Bytes: b.entry.Size,
		})
	}
	r.logAttempt(j, b, out, result, next)
}

// logAttempt writes the line of an attempt. Deliveries that succeed at first are
// logged at debug level, as a fan-out has a million of them; what else happens
// at info.
func (r *reporter) logAttempt(j job, b *body, out outcome, result string, next time.Time) {
	level := zapcore.InfoLevel
	if result == Deliver.String() && j.cursor.attempt == 0 {
		level = zapcore.DebugLevel
	}
	line := r.log.Check(level, "delivery attempt")
	if line == nil {
		return
	}
	fields := []zap.Field{
		zap.String("event", "delivery_attempt"),
		zap.String("topic", j.lane.topic.url),
		zap.Stringer("subscription_id", j.lane.id),
		zap.String("callback_host", j.lane.host.name),
		zap.String("notification_id", b.id),
		zap.Uint32("attempt", j.cursor.attempt+1),
		zap.Duration("duration", out.duration),
		zap.String("outcome", result),
	}
	if out.Status > 0 { // else the error says it
		fields = append(fields, zap.Int("status", out.Status))
	}
	if !next.IsZero() {
		fields = append(fields, zap.Time("next_attempt_at", next))
	}
	if out.err != nil {
		fields = append(fields, zap.Error(out.err))
	}
	line.Write(fields...)
}

// skipped passes on and logs that a subscription will not get something. Of damage
// there is one line for all subscriptions of the topic (damage_passed_over).
func (r *reporter) skipped(j job, g journal.Gap) {
	if r.gap != nil {
		r.gap(g)
	}
	if g.Reason != journal.GapDamaged {
		LogGap(r.log, j.lane.topic.url, j.lane.id, j.lane.host.name, g)
	}
}

// rolledBack passes on and logs that lanes of a topic went back, since the store lost its tail.
func (r *reporter) rolledBack(t *topic, f *fork, gap journal.Gap, lanes int) {
	if r.gap != nil {
		r.gap(gap)
	}
	r.log.Warn("the store lost its tail: delivery goes back to what it still has, and what follows may come twice",
		zap.String("event", "rolled_back"), zap.String("topic", t.url), zap.Int("subscriptions", lanes),
		zap.Uint64("from_seq", f.last.seq), zap.Uint64("to_seq", f.to.seq), zap.Uint64("count", gap.Count),
		known("from", gap.From), known("until", gap.Until))
}

// LogGap writes that a subscription will not get something (invariant 10). Host
// is its callback's.
func LogGap(log *zap.Logger, topic string, id uuid.UUID, host string, g journal.Gap) {
	log.Warn("notifications are not delivered to a subscription", zap.String("event", "delivery_gap"),
		zap.String("topic", topic), zap.Stringer("subscription_id", id), zap.String("callback_host", host),
		zap.String("reason", g.Reason), zap.Uint64("count", g.Count), known("from", g.From), known("until", g.Until))
}

// known is a time, or nothing where it is not known.
func known(key string, t time.Time) zap.Field {
	if t.IsZero() {
		return zap.Skip()
	}
	return zap.Time(key, t)
}

// count counts what became of an attempt.
func (r *reporter) count(a Action) {
	switch a {
	case Deliver:
		r.delivered.Add(1)
		return
	case PassOver:
		r.passedOver.Add(1)
	case End:
		r.ended.Add(1)
	}
	r.failed.Add(1)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
