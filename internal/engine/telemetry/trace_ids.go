package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// first is the identity of the first span of a notification's trace: the trace
// id is the notification's, the span's id the first 8 bytes of its SHA-256.
// Every version of the hub has to compute the same, since hubs of several versions
// add to one trace.
func first(id uuid.UUID) trace.SpanContext {
	sum := sha256.Sum256(id[:])
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(id), SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// within is the context of a span below the first one of a notification.
func within(id uuid.UUID) context.Context {
	return trace.ContextWithSpanContext(context.Background(), first(id))
}

// ids gives a root span the ids that its context asks for, and random ones to
// all others.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

type idsKey struct{}

// withIDs asks for the ids of a root span.
func withIDs(ctx context.Context, sc trace.SpanContext) context.Context {
	return context.WithValue(ctx, idsKey{}, sc)
}

// NewIDs makes the ids of a root span.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if sc, ok := ctx.Value(idsKey{}).(trace.SpanContext); ok {
		return sc.TraceID(), sc.SpanID()
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:8], random())
	binary.BigEndian.PutUint64(id[8:], random())
	return id, newSpanID()
}

// NewSpanID makes the id of any other span.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], random())
	return id
}

// random is never zero, because zero is no id.
func random() uint64 {
	return rand.Uint64() | 1 //nolint:gosec // it names a span and protects nothing
}
