package logs

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

type word string

// Packages that log through slog write to the hub's log, with its levels and names. A whole
// struct is never logged.
func TestSlog(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	log := Slog(zap.New(core).Named("http")).WithGroup("ignored").With("listener", "public")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log.Debug("not logged")
	log.Warn("a line", "event", "tried", "n", 7, "at", at,
		"error", errors.New("it failed"), "names", []string{"a", "b"}, "took", 1500*time.Millisecond, "ok", true, "own", word("x"), "from", netip.MustParseAddr("192.0.2.1"), "whole", struct{ Secret string }{"hidden"})
	all := logs.TakeAll()
	if len(all) != 1 || all[0].Level != zapcore.WarnLevel || all[0].LoggerName != "http" || all[0].Message != "a line" {
		t.Fatalf("the log has %v", all)
	}
	want := map[string]any{
		"listener": "public", "event": "tried", "n": int64(7), "at": at,
		"error": "it failed", "names": []any{"a", "b"}, "took": 1500 * time.Millisecond, "ok": true, "own": "x", "from": "192.0.2.1",
	}
	if d := cmp.Diff(want, all[0].ContextMap()); d != "" {
		t.Error(d)
	}
	for level, want := range map[slog.Level]zapcore.Level{
		slog.LevelDebug - 4: zapcore.DebugLevel, slog.LevelDebug: zapcore.DebugLevel, slog.LevelInfo - 1: zapcore.DebugLevel,
		slog.LevelInfo: zapcore.InfoLevel, slog.LevelInfo + 2: zapcore.InfoLevel, slog.LevelWarn: zapcore.WarnLevel,
		slog.LevelError: zapcore.ErrorLevel, slog.LevelError + 9: zapcore.ErrorLevel,
	} {
		if got := zapLevel(level); got != want {
			t.Errorf("%v is logged as %v, want %v", level, got, want)
		}
	}
}

// Both ways to log write the same line.
func TestOneShape(t *testing.T) {
	lines := func(log func(l *zap.Logger)) string {
		var out bytes.Buffer
		l, err := New(&out, "info", false)
		if err != nil {
			t.Fatal(err)
		}
		log(l)
		_, rest, _ := strings.Cut(out.String(), `,"logger"`) // after the level and the time
		return rest
	}
	direct := lines(func(l *zap.Logger) {
		l.Named("x").Debug("not logged")
		l.Named("x").Warn("a line", zap.String("event", "tried"), zap.Duration("wait", 1500*time.Millisecond), zap.Error(errors.New("it failed")))
	})
	through := lines(func(l *zap.Logger) {
		s := Slog(Zap(Slog(l.Named("x")))) // there and back
		s.Debug("not logged")
		s.Warn("a line", "event", "tried", "wait", 1500*time.Millisecond, "error", errors.New("it failed"))
	})
	const want = `:"x","msg":"a line","event":"tried","wait":1.5,"error":"it failed"}` + "\n"
	if direct != want || through != want {
		t.Errorf("got %s and %s, want %s", direct, through, want)
	}
	if _, err := New(nil, "loud", false); err == nil {
		t.Error("there is a level called loud")
	}
}
