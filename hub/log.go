package hub

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// refused answers a request with the refusal for err, and notes that in its event.
func (h *Handler) refused(w http.ResponseWriter, r *http.Request, e *Event, err error) {
	refusal := h.refuse(w, r, err)
	e.Outcome, e.Status, e.Err = refusal.kind.slug, refusal.kind.status, refusal
}

// reportRequest reports the event of a request that came at start and was answered.
func (h *Handler) reportRequest(w http.ResponseWriter, r *http.Request, start time.Time, e Event, more ...zap.Field) {
	e.TraceParent, e.RequestID, e.Requester = traceParent(r), w.Header().Get(headerRequestID), h.proxies.Requester(r).String()
	e.Start, e.Duration = start, time.Since(start)
	h.report(e, append(more, zap.String("requester", e.Requester))...)
}

// report logs the one line of a request that was answered, and passes the event on. If
// the fault is this hub's own, the line is a warning. More are fields that the event does
// not have; unknown fields are left out.
func (h *Handler) report(e Event, more ...zap.Field) {
	if h.o.Event != nil {
		defer h.o.Event(e)
	}
	leftOut := 0
	if e.Err != nil {
		ok := false
		if leftOut, ok = h.quiet.Line(h.o.Now(), e.Name+" "+e.Outcome); !ok {
			return
		}
	}
	level := zapcore.InfoLevel
	r := (*refusal)(nil)
	if errors.As(e.Err, &r) && r.kind.ours() {
		level = zapcore.WarnLevel
	}
	if line := h.log.Check(level, e.Name); line != nil {
		id := zap.Skip()
		if e.NotificationID != uuid.Nil {
			id = zap.Stringer("notification_id", e.NotificationID)
		}
		fields := append([]zap.Field{
			zap.String("event", e.Name), zap.String("outcome", e.Outcome), zap.Int("status", e.Status),
			orSkip("topic", e.Topic), id, zap.Duration("duration", e.Duration), orSkip("request_id", e.RequestID),
		}, more...)
		if g := e.Gap; g.Reason != "" { // invariant 10
			fields = append(fields, zap.String("gap_reason", g.Reason), zap.Time("gap_from", g.From), zap.Time("gap_until", g.Until))
		}
		if r != nil {
			fields = append(fields, orSkip("rule", r.rule))
		}
		if leftOut > 0 {
			fields = append(fields, zap.Int("left_out", leftOut))
		}
		line.Write(append(fields, zap.NamedError("reason", e.Err))...)
	}
}

// orSkip is a field, or none where there is no value.
func orSkip(key, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(key, value)
}

// traceParent is the trace context of a request (W3C Trace Context, 3.2.2), unless it is
// too long. The caller checks it.
func traceParent(r *http.Request) string {
	const longest = 256 // a later version may add to the 55 bytes of the first
	if v := r.Header.Values("Traceparent"); len(v) == 1 && len(v[0]) <= longest {
		return v[0]
	}
	return ""
}
