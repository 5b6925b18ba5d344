package app

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/subscriptions"
)

// eventTexts says how loud each event of a subscription is, and what a person
// reads.
var eventTexts = map[string]struct {
	level zapcore.Level
	text  string
}{
	subscriptions.EventAccepted: {zapcore.InfoLevel, "a subscription request was accepted"},
	subscriptions.EventVerified: {zapcore.InfoLevel, "a subscription is in force"},
	subscriptions.EventEnded:    {zapcore.InfoLevel, "a subscription ended"},
	subscriptions.EventFailed:   {zapcore.InfoLevel, "a verification failed"},
	subscriptions.EventDropped:  {zapcore.InfoLevel, "a subscription request came to nothing"},
	subscriptions.EventDenied:   {zapcore.InfoLevel, "a callback was told that its subscription is denied"},
	subscriptions.EventRetried:  {zapcore.InfoLevel, "a subscription is tried now, as the operator asked"},
	subscriptions.EventReplayed: {zapcore.InfoLevel, "a subscription goes back, as the operator asked, and gets notifications again"},
	subscriptions.EventTrouble:  {zapcore.ErrorLevel, "the store failed a subscription request; it is tried again"},
}

// logEvents writes what happens to subscriptions, one line each.
func logEvents(log *zap.Logger) func(subscriptions.Event) {
	return func(e subscriptions.Event) {
		if e.Gap.Count > 0 {
			logGap(log, e)
		}
		text := eventTexts[e.Name]
		line := log.Check(text.level, text.text)
		if line == nil {
			return
		}
		attempt, status, duration := zap.Skip(), zap.Skip(), zap.Skip()
		since, count := zap.Skip(), zap.Skip()
		if e.Name == subscriptions.EventReplayed {
			since, count = zap.Time("since", e.Since), zap.Uint64("count", e.Count)
		}
		if e.Try > 0 {
			attempt = zap.Int("attempt", e.Try)
		}
		if e.Status != 0 {
			status = zap.Int("status", e.Status)
		}
		if e.Duration > 0 {
			duration = zap.Duration("duration", e.Duration)
		}
		line.Write(
			zap.String("event", e.Name), zap.Stringer("subscription_id", e.SubscriptionID),
			zap.String("topic", e.Topic), zap.String("callback_host", e.CallbackHost),
			orSkip("mode", string(e.Mode)), orSkip("requester", e.Requester), orSkip("reason", e.Reason),
			attempt, status, duration, since, count, zap.Error(e.Err),
		)
	}
}

// logGap writes what an ended subscription will not get, as delivery does for
// those that go on (invariant 10).
func logGap(log *zap.Logger, e subscriptions.Event) {
	from := zap.Skip() // of one that got nothing before it is not known
	if !e.Gap.From.IsZero() {
		from = zap.Time("from", e.Gap.From)
	}
	log.Warn("notifications are not delivered to a subscription", zap.String("event", "delivery_gap"),
		zap.String("topic", e.Topic), zap.Stringer("subscription_id", e.SubscriptionID),
		zap.String("callback_host", e.CallbackHost), zap.String("reason", e.Gap.Reason),
		zap.Uint64("count", e.Gap.Count), from, zap.Time("until", e.Gap.Until))
}

// orSkip is a field, or none where there is no value.
func orSkip(key, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(key, value)
}
