package app

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Packages that log through slog write to the hub's log, with its levels and names. A whole
// struct is never logged.
func TestSlog(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	log := slogOf(zap.New(core).Named("http")).WithGroup("ignored").With("listener", "public")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log.Debug("not logged")
	log.Warn("a line", "event", "tried", "n", 7, "at", at,
		"error", errors.New("it failed"), "names", []string{"a", "b"}, "whole", struct{ Secret string }{"hidden"})
	all := logs.TakeAll()
	if len(all) != 1 || all[0].Level != zapcore.WarnLevel || all[0].LoggerName != "http" || all[0].Message != "a line" {
		t.Fatalf("the log has %v", all)
	}
	want := map[string]any{
		"listener": "public", "event": "tried", "n": int64(7), "at": at,
		"error": "it failed", "names": []any{"a", "b"},
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
