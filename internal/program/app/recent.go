package app

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/excerpt"
)

// recentFor is for how long events are remembered, and maxRecent how many.
const (
	recentFor = time.Hour
	maxRecent = 50
)

// recent remembers the latest events of the log. It may be shared between goroutines.
type recent struct {
	node string
	mu   sync.Mutex
	all  []admin.Event // the oldest first
}

func (r *recent) add(e admin.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(slices.Delete(r.all, 0, max(len(r.all)+1-maxRecent, 0)), e)
}

// list returns the events of the last hour, the oldest first.
func (r *recent) list() []admin.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(e admin.Event) bool { return time.Since(e.At) > recentFor })
	return slices.Clone(r.all)
}

// recording is a core that hands the lines about admin.EventNames to recent, whatever the
// level of the log is.
type recording struct {
	zapcore.Core
	to *recent
}

func (c recording) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel || c.Core.Enabled(l) }

func (c recording) With(fields []zapcore.Field) zapcore.Core {
	return recording{c.Core.With(fields), c.to}
}

func (c recording) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c recording) Write(e zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if f.Key == "event" && slices.Contains(admin.EventNames, f.String) {
			c.to.add(admin.Event{At: e.Time.UTC(), Node: c.to.node, Name: f.String, Level: e.Level.String(), Text: textOf(e.Message, fields)})
		}
	}
	if c.Core.Enabled(e.Level) {
		return c.Core.Write(e, fields)
	}
	return nil
}

// detailFields are the fields of a line that the text of an event repeats. Of shards their number
// is enough.
var detailFields = []string{
	"action", "who", "topic", "subscription_id", "selected", "outcome", "reason", "requester", "owned", "nodes", "file", "added", "removed", "changed", "step", "error",
}

// textOf is the message of a line with its detailFields, except empty lists.
func textOf(message string, fields []zapcore.Field) string {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		if slices.Contains(detailFields, f.Key) {
			f.AddTo(enc)
		}
	}
	for _, key := range detailFields {
		if text := fmt.Sprint(enc.Fields[key]); enc.Fields[key] != nil && text != "[]" {
			message += "; " + key + " " + excerpt.Cut(text, 200)
		}
	}
	return message
}
