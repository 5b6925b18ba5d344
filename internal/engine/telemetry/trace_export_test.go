package telemetry

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
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
		logger, lines := observed()
		to := &failing{err: errors.New("connection refused")}
		x := &exporter{to: to, life: t.Context(), log: logger}
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
	logger, lines := observed()
	x := &exporter{to: &failing{}, life: t.Context(), log: logger}
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
	logger, lines := observed()
	tr, err := NewTraces(t.Context(), TraceOptions{Endpoint: "http://127.0.0.1:2/v1/traces", Log: logger})
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

// A collector behind https has to have a certificate of the system's authorities
// or of the given ones.
func TestCollectorOverTLS(t *testing.T) {
	defer goleak.VerifyNone(t)
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/otlp" && r.Header.Get("Content-Type") == "application/x-protobuf" {
			requests.Add(1)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is refused
	server.StartTLS()
	defer server.Close()
	own := x509.NewCertPool()
	own.AddCert(server.Certificate())
	for _, tc := range []struct {
		roots *x509.CertPool
		lost  []int64
	}{{own, nil}, {nil, []int64{1}}} {
		logger, lines := observed()
		tr, err := NewTraces(t.Context(), TraceOptions{Endpoint: server.URL + "/otlp", RootCAs: tc.roots, Log: logger})
		if err != nil {
			t.Fatal(err)
		}
		tr.Attempt(delivered())
		if err := tr.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if lost := told(lines); !slices.Equal(lost, tc.lost) || requests.Load() != 1 {
			t.Errorf("lost %v, want %v, of %d requests: %v", lost, tc.lost, requests.Load(), lines.All())
		}
	}
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
