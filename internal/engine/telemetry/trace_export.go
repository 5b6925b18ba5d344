package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.uber.org/zap"
)

// How spans travel to the collector.
const (
	queueSize   = 4096            // spans that wait; more are dropped
	batchSize   = 512             // spans sent together
	batchDelay  = 5 * time.Second // that a span waits for others
	sendTimeout = 10 * time.Second
	flushTime   = 3 * time.Second // for the last spans when the hub ends
	complain    = time.Minute     // at most one log line in this time
)

// TraceOptions say where traces go, and which hub makes them.
type TraceOptions struct {
	// Endpoint is the URL that spans are POSTed to, in OTLP over HTTP
	// (`--otlp-endpoint`). Empty: nothing is traced.
	Endpoint string
	// RootCAs are the authorities of an https endpoint's certificate; nil: the system's.
	RootCAs         *x509.CertPool
	Version, NodeID string
	Log             *zap.Logger // nil: no log
}

// NewTraces returns Traces that send spans to the endpoint, or nil if there is no endpoint.
// It does not wait for the collector, which may be down: spans wait for it in a bounded queue,
// and are dropped when that is full. Stop ends it.
//
// The OpenTelemetry library reads OTEL_EXPORTER_OTLP_HEADERS, for a collector
// that wants a token, and OTEL_RESOURCE_ATTRIBUTES from the environment.
func NewTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	if o.Endpoint == "" {
		return nil, nil // a nil *Traces is one that does nothing
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	// This transport uses no proxy from the environment, and leaves no connection when it ends.
	// It is not that of internal/base/egress, which refuses private addresses: the operator
	// chose the collector.
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: sendTimeout, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 2,
		ForceAttemptHTTP2: true,
	}
	sender, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport, Timeout: sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: sendTimeout / 2, MaxElapsedTime: sendTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces (--otlp-endpoint): %w", err)
	}
	t := newTraces(sender, o)
	t.exporter.disconnect = transport.CloseIdleConnections
	return t, nil
}

// newTraces returns Traces that send spans to an exporter.
func newTraces(to sdktrace.SpanExporter, o TraceOptions) *Traces {
	life, end := context.WithCancel(context.Background())
	t := &Traces{exporter: &exporter{to: to, life: life, log: o.Log.Named("traces")}, cutOff: end}
	t.limit()
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // the limits in Traces decide before
		sdktrace.WithResource(resource.NewWithAttributes(semconv.SchemaURL,
			semconv.ServiceName("rshub"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.NodeID))),
		sdktrace.WithBatcher(t.exporter,
			sdktrace.WithMaxQueueSize(queueSize), sdktrace.WithMaxExportBatchSize(batchSize),
			sdktrace.WithBatchTimeout(batchDelay), sdktrace.WithExportTimeout(sendTimeout)),
	)
	t.tracer = t.provider.Tracer("github.com/rshub/rshub")
	return t
}

// Stop sends the spans that wait, for at most 3 s, and ends. A collector that is down is
// no error. Later spans are dropped.
func (t *Traces) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	defer context.AfterFunc(limit, t.cutOff)()
	defer t.cutOff()
	// Shutdown has no limit: it ends soon after sending is cut off, and then nothing runs any
	// more.
	err := t.provider.Shutdown(context.WithoutCancel(ctx))
	t.exporter.conclude()
	return err
}

// exporter passes batches on to another exporter, and counts the spans that got lost. It
// never fails: the library would report an error to the whole process, so exporter logs it.
type exporter struct {
	to         sdktrace.SpanExporter
	disconnect func()          // closes connections; nil: there are no connections
	life       context.Context // its end cuts off what is being sent
	log        *zap.Logger

	ended atomic.Int64 // spans that were made

	mu      sync.Mutex
	handled int64 // spans that were sent or lost
	lost    int64 // of these, since the last line
	err     error // the last
	next    time.Time
}

var _ sdktrace.SpanExporter = (*exporter)(nil)

// ExportSpans sends a batch.
func (x *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)() //nolint:contextcheck // whichever ends first
	err := x.life.Err()
	if err == nil {
		err = x.to.ExportSpans(ctx, spans)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handled += int64(len(spans))
	if err != nil {
		x.lost += int64(len(spans))
		x.err = err
	}
	// Spans that were not sent, and for which the queue has no room, were dropped.
	x.count(x.ended.Load() - x.handled - queueSize - batchSize)
	x.report(time.Now())
	return nil
}

// Shutdown ends the other exporter.
func (x *exporter) Shutdown(ctx context.Context) error {
	if x.disconnect != nil {
		defer x.disconnect()
	}
	return x.to.Shutdown(ctx)
}

// conclude reports the spans that got lost since the last line.
func (x *exporter) conclude() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count(x.ended.Load() - x.handled)
	x.next = time.Time{}
	x.report(time.Now())
}

func (x *exporter) count(dropped int64) {
	if dropped > 0 {
		x.handled += dropped
		x.lost += dropped
	}
}

func (x *exporter) report(now time.Time) {
	if x.lost == 0 || now.Before(x.next) {
		return
	}
	x.log.Warn("the collector did not accept all traces; is it up, and fast enough?", zap.String("event", "traces_lost"),
		zap.Int64("spans", x.lost), zap.Error(x.err))
	x.lost, x.err, x.next = 0, nil, now.Add(complain)
}
