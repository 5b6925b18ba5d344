package app

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Invariant 10: the log has what an ended subscription did not get. If the start of that is unknown,
// the line has no field for it.
func TestGapOfAnEndIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	e := subscriptions.Event{Name: subscriptions.EventEnded, Reason: subscriptions.EndExpired}
	logEvents(zap.New(core))(e)
	if logs.Len() != 0 {
		t.Errorf("without a gap: %v", logs.All())
	}
	e.Gap = journal.Gap{Count: 3, Until: time.Unix(9, 0), Reason: journal.GapExpired}
	logEvents(zap.New(core))(e)
	lines := logs.All()
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	got := lines[0].ContextMap()
	if got["event"] != "delivery_gap" || got["count"] != uint64(3) || got["reason"] != journal.GapExpired {
		t.Errorf("%v", got)
	}
	if _, ok := got["from"]; ok {
		t.Errorf("it has a start time, which is unknown: %v", got)
	}
}

// Lines about requests of strangers are limited, so that they do not fill the log. Lines about what
// happens to subscriptions never are.
func TestLinesAboutStrangersRequestsAreBounded(t *testing.T) {
	for event, bounded := range map[string]bool{
		subscriptions.EventFailed: true, subscriptions.EventDropped: true, subscriptions.EventDenied: true,
		subscriptions.EventVerified: false, subscriptions.EventEnded: false, subscriptions.EventTrouble: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zapcore.InfoLevel)
			report := logEvents(zap.New(core))
			many := 10 * quiet.Burst
			want := many
			if bounded {
				want = quiet.Burst
			}
			for range many {
				report(subscriptions.Event{Name: event})
			}
			if got := logs.Len(); got != want {
				t.Errorf("%s: %d lines of %d, want %d", event, got, many, want)
			}
			time.Sleep(quiet.Every)
			logs.TakeAll()
			report(subscriptions.Event{Name: event})
			lines := logs.TakeAll()
			if len(lines) != 1 {
				t.Fatalf("%s: %d lines after a while", event, len(lines))
			}
			if left, ok := lines[0].ContextMap()["left_out"]; ok != bounded || bounded && left != int64(many-quiet.Burst) {
				t.Errorf("%s: %v were left out", event, left)
			}
		})
	}
}
