package telemetry

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, lines := observer.New(zapcore.InfoLevel)
	return zap.New(core), lines
}

// told returns how many spans were lost, as each line says.
func told(lines *observer.ObservedLogs) []int64 {
	var lost []int64
	for _, l := range lines.All() {
		n, _ := l.ContextMap()["spans"].(int64)
		lost = append(lost, n)
	}
	return lost
}

// failing is a collector that takes nothing while err is set.
type failing struct{ err error }

func (f *failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }
func (f *failing) Shutdown(context.Context) error                             { return nil }

// However often sending fails, a line a minute says so, with all that was lost.
func TestLossIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := observed()
		to := &failing{err: errors.New("connection refused")}
		x := &exporter{to: to, life: t.Context(), log: log}
		send := func() {
			x.ended.Add(2)
			if err := x.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 2)); err != nil {
				t.Error(err) // the library would tell the whole process
			}
		}
		for range 150 {
			send()
			time.Sleep(time.Second)
		}
		to.err = nil
		for range 100 {
			send()
			time.Sleep(time.Second)
		}
		x.conclude()
		for _, l := range lines.All() {
			if l.Level != zapcore.WarnLevel || l.ContextMap()["event"] != "traces_lost" || l.ContextMap()["error"] != "connection refused" {
				t.Errorf("%v %v", l.Level, l.ContextMap())
			}
		}
		if lost := told(lines); !slices.Equal(lost, []int64{2, 120, 120, 58}) {
			t.Errorf("lost %v", lost)
		}
	})
}

// What comes faster than it is taken is counted too.
func TestDroppedSpansAreCounted(t *testing.T) {
	log, lines := observed()
	x := &exporter{to: &failing{}, life: t.Context(), log: log}
	x.ended.Add(queueSize + batchSize + 100 + 10)
	_ = x.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 10))
	_ = x.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, queueSize))
	x.conclude() // a batch was never seen
	if lost := told(lines); !slices.Equal(lost, []int64{100, batchSize}) {
		t.Errorf("lost %v", lost)
	}
}

// A collector that is not there is no reason not to start, and leaves nothing
// running.
func TestDeadCollector(t *testing.T) {
	defer goleak.VerifyNone(t)
	log, lines := observed()
	tr, err := NewTraces(t.Context(), TraceOptions{Endpoint: "http://127.0.0.1:1/v1/traces", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	tr.Attempt(delivered())
	if err := tr.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if lost := told(lines); !slices.Equal(lost, []int64{1}) {
		t.Errorf("lost %v", lost)
	}
	tr.Attempt(delivered()) // too late, and harmless
}

func BenchmarkAttempt(b *testing.B) {
	for name, every := range map[string]bool{"left out": false, "traced": true} {
		b.Run(name, func(b *testing.B) {
			tr := newTraces(&failing{}, TraceOptions{Log: zap.NewNop()})
			if every {
				tr.delivered.SetLimit(1e9)
			} else {
				tr.delivered.SetBurst(0)
			}
			e := delivered()
			e.Start = time.Now()
			for b.Loop() {
				e.Start = e.Start.Add(time.Microsecond)
				tr.Attempt(e)
			}
			if err := tr.Stop(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}
