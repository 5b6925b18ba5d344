package app

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/subscriptions"
)

// logText is the level and the text of the log line of an event.
type logText struct {
	level zapcore.Level
	text  string
}

// eventTexts are the lines of the events of subscriptions.
var eventTexts = map[string]logText{
	// The log line of the request says the same.
	subscriptions.EventAccepted: {zapcore.DebugLevel, "a subscription request was accepted"},
	subscriptions.EventVerified: {zapcore.InfoLevel, "a subscription is in force"},
	subscriptions.EventEnded:    {zapcore.InfoLevel, "a subscription ended"},
	subscriptions.EventFailed:   {zapcore.InfoLevel, "a verification failed"},
	subscriptions.EventDropped:  {zapcore.InfoLevel, "a subscription request came to nothing"},
	subscriptions.EventDenied:   {zapcore.InfoLevel, "a callback was notified that its subscription is denied"},
	subscriptions.EventRetried:  {zapcore.InfoLevel, "a subscription is tried now, on request"},
	subscriptions.EventReplayed: {zapcore.InfoLevel, "a subscription goes back, on request"},
	subscriptions.EventPaused:   {zapcore.InfoLevel, "a subscription gets nothing until it is resumed, on request"},
	subscriptions.EventResumed:  {zapcore.InfoLevel, "a subscription gets notifications again, on request"},
	subscriptions.EventChecked:  {zapcore.InfoLevel, "a callback was asked again whether it wants its topic, on request"},
	subscriptions.EventTrouble:  {zapcore.ErrorLevel, "the store failed a subscription request; it is tried again"},
}

// bounded are the events that strangers can cause at will. Package quiet limits their lines.
var bounded = []string{subscriptions.EventFailed, subscriptions.EventDropped, subscriptions.EventDenied}

// logEvents logs each event of subscriptions in one line, and each gap in another. It
// limits the lines of the bounded events, so that strangers cannot fill the log.
func logEvents(log *zap.Logger) func(subscriptions.Event) {
	limit := quiet.OfStrangers()
	return func(e subscriptions.Event) {
		if e.Gap.Count > 0 {
			delivery.LogGap(log, e.Topic, e.SubscriptionID, e.CallbackHost, e.Gap)
		}
		text := eventTexts[e.Name]
		line := log.Check(text.level, text.text)
		if line == nil {
			return
		}
		leftOut := 0
		if slices.Contains(bounded, e.Name) {
			var ok bool
			if leftOut, ok = limit.Line(time.Now(), e.Name); !ok {
				return
			}
		}
		replayed := e.Name == subscriptions.EventReplayed
		line.Write(
			zap.String("event", e.Name),
			given(e.SubscriptionID != uuid.Nil, zap.Stringer("subscription_id", e.SubscriptionID)),
			given(e.Topic != "", zap.String("topic", e.Topic)),
			given(e.CallbackHost != "", zap.String("callback_host", e.CallbackHost)),
			given(e.Mode != "", zap.String("mode", string(e.Mode))),
			given(e.Requester != "", zap.String("requester", e.Requester)),
			given(e.Who != "", zap.String("who", e.Who)),
			given(e.Reason != "", zap.String("reason", e.Reason)),
			given(e.Try > 0, zap.Int("attempt", e.Try)),
			given(e.Status != 0, zap.Int("status", e.Status)),
			given(e.Duration > 0, zap.Duration("duration", e.Duration)),
			given(replayed, zap.Time("since", e.Since)), given(replayed, zap.Uint64("count", e.Count)),
			given(leftOut > 0, zap.Int("left_out", leftOut)),
			zap.Error(e.Err),
		)
	}
}

// given returns the field, or no field if there is no value.
func given(ok bool, f zap.Field) zap.Field {
	if !ok {
		return zap.Skip()
	}
	return f
}
