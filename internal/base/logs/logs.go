package logs

import (
	"fmt"
	"io"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// levels are the names of the levels of a log, lowest first.
var levels = []string{"debug", "info", "warn", "error"}

// New writes lines from a level on to w: for people with console, else as JSON. Times are
// written as RFC 3339 requires, and durations in seconds. The error is for the user.
func New(w io.Writer, level string, console bool) (*zap.Logger, error) {
	if !slices.Contains(levels, level) {
		return nil, fmt.Errorf("%q is not a level of the log; use debug, info, warn or error", level)
	}
	lowest, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.SecondsDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if console {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), lowest)), nil
}
