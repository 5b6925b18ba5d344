package app

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Invariant 10: what an ended subscription did not get is in the log, without a
// start that is not known.
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
		t.Errorf("it begins at a time that nobody knows: %v", got)
	}
}
