package logs

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Slog returns a slog.Logger that writes to log.
func Slog(log *zap.Logger) *slog.Logger { return slog.New(zapHandler{log.Core(), log.Name()}) }

// Zap returns the log that a logger of Slog writes to; for another one, a log that drops all
// lines.
func Zap(log *slog.Logger) *zap.Logger {
	if h, ok := log.Handler().(zapHandler); ok {
		return zap.New(h.core).Named(h.name)
	}
	return zap.NewNop()
}

// zapHandler is a slog.Handler. It ignores groups, which no package of ours uses.
type zapHandler struct {
	core zapcore.Core
	name string
}

// zapLevel returns the level of zap. From one named level to the next, slog counts 4 and zap
// counts 1; both begin with 0 for Info.
func zapLevel(l slog.Level) zapcore.Level {
	return zapcore.Level(min(max(l, slog.LevelDebug), slog.LevelError) >> 2)
}

// zapField returns an attribute as a field of zap. A value that is neither simple nor says
// itself how it is written is left out, so that the log never shows a whole struct.
func zapField(a slog.Attr) zap.Field {
	switch v := a.Value.Resolve().Any().(type) {
	case error:
		return zap.NamedError(a.Key, v)
	case string:
		return zap.String(a.Key, v)
	case int64:
		return zap.Int64(a.Key, v)
	case uint64:
		return zap.Uint64(a.Key, v)
	case float64:
		return zap.Float64(a.Key, v)
	case bool:
		return zap.Bool(a.Key, v)
	case time.Time:
		return zap.Time(a.Key, v)
	case time.Duration:
		return zap.Duration(a.Key, v)
	case []string:
		return zap.Strings(a.Key, v)
	case fmt.Stringer:
		return zap.Stringer(a.Key, v)
	default:
		if v := reflect.ValueOf(v); v.Kind() == reflect.String { // a type of its own
			return zap.String(a.Key, v.String())
		}
	}
	return zap.Skip()
}

// Enabled implements slog.Handler, as the other methods do.
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
