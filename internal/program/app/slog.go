package app

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// slogOf returns a slog.Logger that writes to the log of the hub.
func slogOf(log *zap.Logger) *slog.Logger { return slog.New(zapHandler{log.Core(), log.Name()}) }

// zapHandler is a slog.Handler. Groups, which no package of the hub uses, are ignored.
type zapHandler struct {
	core zapcore.Core
	name string
}

func zapLevel(l slog.Level) zapcore.Level {
	switch {
	case l >= slog.LevelError:
		return zapcore.ErrorLevel
	case l >= slog.LevelWarn:
		return zapcore.WarnLevel
	case l >= slog.LevelInfo:
		return zapcore.InfoLevel
	default:
		return zapcore.DebugLevel
	}
}

// zapField is a value of a kind that is logged. Others are left out, so that no value is
// printed as a whole.
func zapField(a slog.Attr) zap.Field {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return zap.String(a.Key, v.String())
	case slog.KindInt64:
		return zap.Int64(a.Key, v.Int64())
	case slog.KindBool:
		return zap.Bool(a.Key, v.Bool())
	case slog.KindTime:
		return zap.Time(a.Key, v.Time())
	case slog.KindDuration:
		return zap.Duration(a.Key, v.Duration())
	}
	switch x := v.Any().(type) {
	case error:
		return zap.NamedError(a.Key, x)
	case []string:
		return zap.Strings(a.Key, x)
	}
	return zap.Skip()
}

// Enabled implements slog.Handler, as the others do.
func (h zapHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.core.Enabled(zapLevel(l))
}

func (h zapHandler) Handle(_ context.Context, r slog.Record) error {
	var fields []zap.Field
	r.Attrs(func(a slog.Attr) bool { fields = append(fields, zapField(a)); return true })
	e := zapcore.Entry{LoggerName: h.name, Time: r.Time, Level: zapLevel(r.Level), Message: r.Message}
	if line := h.core.Check(e, nil); line != nil {
		line.Write(fields...)
	}
	return nil
}

func (h zapHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.core = h.core.With([]zap.Field{zapField(a)})
	}
	return h
}

func (h zapHandler) WithGroup(string) slog.Handler { return h }
