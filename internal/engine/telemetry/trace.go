package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
)

// longestText bounds texts of strangers, in bytes.
const longestText = 1024

// The limits of tracing. Each publish or fetch that was stored has a span. Refused requests,
// failed deliveries and successful first deliveries have separate limits: spansBurst spans at
// once, and then spansRate a second. So a fan-out to a million callbacks does not overload the
// collector or the hub.
const (
	spansRate  = 100
	spansBurst = 1000
)

// Traces makes spans of what happens to notifications:
//
//	publish (or fetch)     the request, as a Source sees it
//	├── append             its way into the journal
//	├── deliver            an attempt at one subscription
//	└── deliver            ...
//
// The trace id is the notification's id, and the id of the first span follows
// from it. So a hub that delivers the notification after a restart, or another
// hub, adds to the same trace, though nothing is stored or sent for that. The
// Webhook-Id is enough to find a trace. A refused request has no notification, so
// it has a separate trace.
//
// All methods may be called from many goroutines, on a nil Traces too, which
// does nothing. Publish and Attempt never wait.
type Traces struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	exporter *exporter
	cutOff   context.CancelFunc // of what is being sent

	refused, failed, delivered *rate.Limiter
}

func (t *Traces) limit() {
	t.refused = rate.NewLimiter(spansRate, spansBurst)
	t.failed = rate.NewLimiter(spansRate, spansBurst)
	t.delivered = rate.NewLimiter(spansRate, spansBurst)
}

// The hub's own attributes. They have the names that the log uses.
const (
	keyTopic        = attribute.Key("rshub.topic")
	keyNotification = attribute.Key("rshub.notification_id")
	keySubscription = attribute.Key("rshub.subscription_id")
	keyPublisher    = attribute.Key("rshub.publisher")
	keyOutcome      = attribute.Key("rshub.outcome")
	keyAttempt      = attribute.Key("rshub.attempt")
	keyGap          = attribute.Key("rshub.gap_reason")
)

// Publish makes the spans of a publish or of a topic that was fetched. Other
// requests have none.
func (t *Traces) Publish(e hub.Event) {
	if t == nil || e.Name != hub.EventPublish && e.Name != hub.EventFetch {
		return
	}
	end := e.Start.Add(e.Duration)
	if e.Err != nil && !t.refused.AllowN(end, 1) {
		return
	}
	kind := trace.SpanKindServer
	attrs := []attribute.KeyValue{keyOutcome.String(e.Outcome), keyTopic.String(short(e.Topic))}
	if e.Name == hub.EventFetch {
		kind = trace.SpanKindInternal
	} else {
		attrs = append(attrs, semconv.HTTPRequestMethodPost, semconv.HTTPResponseStatusCode(e.Status), semconv.HTTPRequestBodySize(int(e.Bytes)))
	}
	if e.NotificationID != uuid.Nil {
		attrs = append(attrs, keyNotification.String(e.NotificationID.String()))
	}
	if e.Publisher != "" {
		attrs = append(attrs, keyPublisher.String(short(e.Publisher)))
	}
	if e.Gap.Reason != "" {
		attrs = append(attrs, keyGap.String(e.Gap.Reason))
	}
	if e.Err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String(e.Outcome))
	}
	ctx, span := t.tracer.Start(beginning(e), e.Name, trace.WithTimestamp(e.Start), trace.WithSpanKind(kind),
		trace.WithLinks(links(e.TraceParent)...), trace.WithAttributes(attrs...))
	if !e.Append.Start.IsZero() {
		_, stored := t.tracer.Start(ctx, "append", trace.WithTimestamp(e.Append.Start))
		t.end(stored, e.Append.Start.Add(e.Append.Duration))
	}
	fail(span, e.Err)
	t.end(span, end)
}

// beginning is the context of the first span of a notification's trace. A
// duplicate belongs to the trace of what was published first; a refusal to none.
func beginning(e hub.Event) context.Context {
	switch {
	case e.NotificationID == uuid.Nil || e.Err != nil:
		return context.Background()
	case e.Outcome == hub.OutcomeDuplicate:
		return within(e.NotificationID)
	default:
		return withIDs(context.Background(), first(e.NotificationID))
	}
}

// Attempt makes the span of a delivery.
func (t *Traces) Attempt(e delivery.Event) {
	if t == nil {
		return
	}
	end := e.Start.Add(e.Duration)
	limit := t.failed
	if e.Outcome == delivery.Deliver.String() && e.Attempt <= 1 {
		limit = t.delivered
	}
	if !limit.AllowN(end, 1) {
		return
	}
	attrs := make([]attribute.KeyValue, 0, 12)
	attrs = append(attrs,
		keyOutcome.String(e.Outcome), keyTopic.String(short(e.Topic)), keyAttempt.Int64(int64(e.Attempt)),
		keyNotification.String(e.NotificationID.String()), keySubscription.String(e.SubscriptionID.String()),
		semconv.HTTPRequestMethodPost, semconv.HTTPRequestBodySize(int(e.Bytes)),
	)
	attrs = append(attrs, server(e.CallbackHost)...)
	if e.Attempt > 1 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(int(e.Attempt-1)))
	}
	if e.Status > 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(e.Status))
	}
	err := failure(e)
	if err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String(errorType(e.Status)))
	}
	_, span := t.tracer.Start(within(e.NotificationID), "deliver", trace.WithTimestamp(e.Start),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	fail(span, err)
	t.end(span, end)
}

// failure is why an attempt failed; nil: it did not fail, or the hub cut it off.
func failure(e delivery.Event) error {
	switch {
	case e.Outcome == delivery.OutcomeCutOff || e.Status >= 200 && e.Status <= 299:
		return nil
	case e.Err != nil:
		return e.Err
	default:
		return errors.New("the callback answered " + strconv.Itoa(e.Status))
	}
}

// errorType is the kind of failure of a delivery's status, from a bounded set.
func errorType(status int) string {
	if status == journal.StatusError {
		return semconv.ErrorTypeOther.Value.AsString()
	}
	return cmp.Or(unanswered[status], strconv.Itoa(status))
}

// server is the host and the port of a callback.
func server(hostport string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(hostport)}
	}
	attrs := []attribute.KeyValue{semconv.ServerAddress(host)}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		attrs = append(attrs, semconv.ServerPort(int(n)))
	}
	return attrs
}

// links leads to the span that the sender of a request named, if it named one.
func links(traceParent string) []trace.Link {
	if traceParent == "" {
		return nil
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceParent})
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: sc}}
}

func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, short(err.Error()))
	}
}

// short returns a text that may come from a stranger, so that it can be sent. The collector
// would refuse the whole batch for text that is not UTF-8, and long texts would fill the
// memory while they wait.
func short(s string) string {
	if len(s) > longestText {
		s = strings.Clone(s[:longestText])
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// end ends a span. It counts the span first, so that lost ones can be reported.
func (t *Traces) end(span trace.Span, at time.Time) {
	t.exporter.ended.Add(1)
	span.End(trace.WithTimestamp(at))
}
