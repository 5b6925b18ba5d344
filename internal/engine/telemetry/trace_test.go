package telemetry

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
)

const topic = "https://example.org/changes/"

var (
	notification = uuid.MustParse("01a1fde0-b7e1-783d-bab2-93400a88ebae")
	subscription = uuid.MustParse("5f0c1e6a-7d0e-5b1a-9f0e-0123456789ab")
	start        = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
)

// kept keeps spans, whatever becomes of the process that made them.
type kept struct{ spans tracetest.SpanStubs }

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.spans = append(k.spans, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func (k *kept) Shutdown(context.Context) error { return nil }

// made returns the spans that come of what tell tells.
func made(t *testing.T, tell func(*Traces)) tracetest.SpanStubs {
	t.Helper()
	k := &kept{}
	traces := newTraces(k, TraceOptions{Version: "v1", NodeID: "node", Log: zap.NewNop()})
	tell(traces)
	if err := traces.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k.spans
}

// values are a span's attributes, by their names.
func values(attrs []attribute.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attrs {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// wantAttributes compares all attributes of a span; want is names and values in
// turn.
func wantAttributes(t *testing.T, s tracetest.SpanStub, want ...string) {
	t.Helper()
	all := map[string]string{}
	for pair := range slices.Chunk(want, 2) {
		all[pair[0]] = pair[1]
	}
	if d := cmp.Diff(all, values(s.Attributes)); d != "" {
		t.Errorf("attributes of the span %s (-want +got):\n%s", s.Name, d)
	}
}

func published() hub.Event {
	return hub.Event{
		Name: hub.EventPublish, Outcome: "accepted", Status: 200, Topic: topic, NotificationID: notification, Publisher: "library", Bytes: 400,
		Start: start, Duration: 30 * time.Millisecond, Append: hub.Span{Start: start.Add(10 * time.Millisecond), Duration: 15 * time.Millisecond},
	}
}

func delivered() delivery.Event {
	return delivery.Event{
		SubscriptionID: subscription, NotificationID: notification, Topic: topic, CallbackHost: "callback.example:8443", Attempt: 1,
		Outcome: delivery.Deliver.String(), Status: 204, Start: start.Add(time.Second), Duration: 7 * time.Millisecond, Bytes: 400,
	}
}

// A notification's spans are one trace, of whose id and first span every hub
// knows without having been told: here two, of which the second has not seen the
// publish.
func TestOneTraceOverHubs(t *testing.T) {
	spans := made(t, func(tr *Traces) { tr.Publish(published()) })
	spans = append(spans, made(t, func(tr *Traces) { tr.Attempt(delivered()) })...)
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	stored, publish, deliver := spans[0], spans[1], spans[2]
	for _, s := range spans {
		if s.SpanContext.TraceID() != trace.TraceID(notification) {
			t.Errorf("the span %s is in the trace %v", s.Name, s.SpanContext.TraceID())
		}
		if r := values(s.Resource.Attributes()); r["service.name"] != "rshub" || r["service.version"] != "v1" || r["service.instance.id"] != "node" {
			t.Errorf("the resource is %v", r)
		}
	}
	// Of this version and of every other one.
	if id := publish.SpanContext.SpanID().String(); publish.Name != "publish" || publish.Parent.IsValid() || id != "ca0b585b5b6d6f70" {
		t.Errorf("the first span is %s, %s, below %v", publish.Name, id, publish.Parent)
	}
	if stored.Name != "append" || deliver.Name != "deliver" {
		t.Errorf("the others are %s and %s", stored.Name, deliver.Name)
	}
	for _, s := range []tracetest.SpanStub{stored, deliver} {
		if s.Parent.SpanID() != publish.SpanContext.SpanID() || s.Parent.TraceID() != publish.SpanContext.TraceID() {
			t.Errorf("the span %s is below %v", s.Name, s.Parent)
		}
	}
	at := func(s tracetest.SpanStub, from, until time.Duration) {
		t.Helper()
		if !s.StartTime.Equal(start.Add(from)) || !s.EndTime.Equal(start.Add(until)) {
			t.Errorf("the span %s is from %v until %v", s.Name, s.StartTime, s.EndTime)
		}
	}
	at(publish, 0, 30*time.Millisecond)
	at(stored, 10*time.Millisecond, 25*time.Millisecond)
	at(deliver, time.Second, time.Second+7*time.Millisecond)
	if publish.SpanKind != trace.SpanKindServer || deliver.SpanKind != trace.SpanKindClient {
		t.Errorf("kinds %v and %v", publish.SpanKind, deliver.SpanKind)
	}
	wantAttributes(t, publish, "rshub.outcome", "accepted", "rshub.topic", topic, "rshub.notification_id", notification.String(), "rshub.publisher", "library",
		"http.request.method", "POST", "http.response.status_code", "200", "http.request.body.size", "400")
	wantAttributes(t, deliver, "rshub.outcome", "delivered", "rshub.topic", topic, "rshub.notification_id", notification.String(),
		"rshub.subscription_id", subscription.String(), "rshub.attempt", "1", "http.request.method", "POST", "http.response.status_code", "204",
		"http.request.body.size", "400", "server.address", "callback.example", "server.port", "8443")
}

// The same bytes again belong to the trace of the first.
func TestDuplicateIsInTheFirstOnesTrace(t *testing.T) {
	e := published()
	e.Outcome, e.Append = hub.OutcomeDuplicate, hub.Span{}
	raced := e // a race that it lost went as far as the store
	raced.Append = published().Append
	spans := made(t, func(tr *Traces) { tr.Publish(e); tr.Publish(raced) })
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	for _, s := range []tracetest.SpanStub{spans[0], spans[2]} {
		if s.Name != "publish" || s.SpanContext.TraceID() != trace.TraceID(notification) || s.Parent.SpanID() != first(notification).SpanID() ||
			s.SpanContext.SpanID() == first(notification).SpanID() {
			t.Errorf("%s: %v below %v", s.Name, s.SpanContext, s.Parent)
		}
	}
}

// What was refused has no notification, and a trace of its own.
func TestRefusals(t *testing.T) {
	e := hub.Event{Name: hub.EventPublish, Outcome: "gap", Status: 409, Topic: "https://example.org/\xff" + strings.Repeat("x", 5000), Err: errors.New("it leaves a gap \xff")}
	spans := made(t, func(tr *Traces) { tr.Publish(e); tr.Publish(e) })
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	if id := s.SpanContext.TraceID(); !id.IsValid() || id == spans[1].SpanContext.TraceID() || s.Parent.IsValid() {
		t.Errorf("traces %v and %v", id, spans[1].SpanContext.TraceID())
	}
	if s.Status.Code != codes.Error || s.Status.Description != "it leaves a gap \uFFFD" {
		t.Errorf("the status is %+v", s.Status)
	}
	if v := values(s.Attributes); v["error.type"] != "gap" || v["http.response.status_code"] != "409" || len(v["rshub.topic"]) > longestText+3 || strings.Contains(v["rshub.topic"], "\xff") {
		t.Errorf("attributes %v", v)
	}
}

// A fetched topic is the beginning of a trace as a publish is. Requests that
// bring no notification have no span.
func TestWhichRequestsAreTraced(t *testing.T) {
	fetched := published()
	fetched.Name = hub.EventFetch
	spans := made(t, func(tr *Traces) {
		tr.Publish(fetched)
		for _, name := range []string{hub.EventSubscribe, hub.EventUnsubscribe, hub.EventPing, hub.EventPost} {
			tr.Publish(hub.Event{Name: name, Status: 202})
		}
	})
	if len(spans) != 2 || spans[1].Name != "fetch" || spans[1].SpanContext.SpanID() != first(notification).SpanID() || spans[1].SpanKind != trace.SpanKindInternal {
		t.Fatalf("%+v", spans)
	}
	wantAttributes(t, spans[1], "rshub.outcome", "accepted", "rshub.topic", topic, "rshub.notification_id", notification.String(), "rshub.publisher", "library")
}

// What was accepted after a gap says so.
func TestAcceptedGap(t *testing.T) {
	e := published()
	e.Gap = journal.Gap{Reason: journal.GapSource}
	spans := made(t, func(tr *Traces) { tr.Publish(e) })
	if v := values(spans[1].Attributes); v["rshub.gap_reason"] != "source" || spans[1].Status.Code != codes.Unset {
		t.Errorf("%v, %v", v, spans[1].Status)
	}
}

// The figures in docs/operations.md are these.
func TestDocumentedLimits(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	for _, part := range []string{
		"1,000 of each kind are traced at a time, and 100 a second after that", "a queue of 4,096", "the remaining traces are sent (3 s at most)", "once a minute",
	} {
		if !strings.Contains(words, part) {
			t.Errorf("docs/operations.md does not say %q", part)
		}
	}
	if spansBurst != 1000 || spansRate != 100 || queueSize != 4096 || flushTime != 3*time.Second || complain != time.Minute {
		t.Error("and neither are they so any more")
	}
}

// The trace that a request came from is linked, if it names one.
func TestTraceParent(t *testing.T) {
	const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for header, want := range map[string]string{
		sampled:                             "0af7651916cd43dd8448eb211c80319c",
		sampled[:53] + "00":                 "0af7651916cd43dd8448eb211c80319c",
		"":                                  "",
		"00-0-0-01":                         "",
		strings.Repeat("x", 200):            "",
		"00" + strings.ToUpper(sampled[2:]): "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
	} {
		e := published()
		e.TraceParent = header
		spans := made(t, func(tr *Traces) { tr.Publish(e) })
		got := ""
		for _, l := range spans[1].Links {
			got += l.SpanContext.TraceID().String()
		}
		if got != want || spans[1].SpanContext.TraceID() != trace.TraceID(notification) {
			t.Errorf("%q links to %q, want %q", header, got, want)
		}
	}
}

func FuzzLinks(f *testing.F) {
	for _, s := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range links(s) {
			if !l.SpanContext.IsValid() || len(s) < 55 {
				t.Errorf("%q links to %v", s, l.SpanContext)
			}
		}
	})
}

// What a failed delivery says of itself.
func TestFailedDeliveries(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		outcome   string
		status    int
		attempt   uint32
		err       error
		errorType string
		code      codes.Code
	}{
		{delivery.Deliver.String(), 200, 3, nil, "", codes.Unset},
		{delivery.Retry.String(), 503, 1, nil, "503", codes.Error},
		{delivery.PassOver.String(), 422, 5, nil, "422", codes.Error},
		{delivery.End.String(), 410, 1, nil, "410", codes.Error},
		{delivery.Retry.String(), journal.StatusTimeout, 2, broken, "timeout", codes.Error},
		{delivery.Retry.String(), journal.StatusConnect, 2, broken, "connect", codes.Error},
		{delivery.Retry.String(), journal.StatusRefused, 2, broken, "refused", codes.Error},
		{delivery.Retry.String(), journal.StatusError, 2, broken, "_OTHER", codes.Error},
		{delivery.OutcomeCutOff, 0, 1, nil, "", codes.Unset},
		{delivery.OutcomeSuperseded, 200, 1, nil, "", codes.Unset},
	} {
		e := delivered()
		e.Outcome, e.Status, e.Attempt, e.Err = tc.outcome, tc.status, tc.attempt, tc.err
		spans := made(t, func(tr *Traces) { tr.Attempt(e) })
		v := values(spans[0].Attributes)
		if v["error.type"] != tc.errorType || spans[0].Status.Code != tc.code {
			t.Errorf("%s %d: %v, %+v", tc.outcome, tc.status, v, spans[0].Status)
		}
		if _, ok := v["http.response.status_code"]; ok != (tc.status > 0) {
			t.Errorf("%s %d: %v", tc.outcome, tc.status, v)
		}
		if resent := v["http.request.resend_count"]; (resent == "") != (tc.attempt == 1) {
			t.Errorf("attempt %d was resent %q times", tc.attempt, resent)
		}
	}
}

// A fan-out is traced in part; failures, and successes after them, have a share
// of their own, and what was stored is always traced.
func TestSpansAreBounded(t *testing.T) {
	many := func(of func(*Traces)) map[string]int {
		count := map[string]int{}
		k := &kept{}
		// Sent one by one: the queue is not what this is about.
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(k), sdktrace.WithIDGenerator(ids{}))
		tr := &Traces{tracer: provider.Tracer(""), exporter: &exporter{}}
		tr.limit()
		of(tr)
		for _, s := range k.spans {
			count[s.Name+" "+values(s.Attributes)["rshub.outcome"]]++
		}
		return count
	}
	retry, refused := delivered(), hub.Event{Name: hub.EventPublish, Outcome: "gap", Err: errors.New("gap"), Start: start}
	retry.Outcome, retry.Status = delivery.Retry.String(), 500
	got := many(func(tr *Traces) {
		for range 3 * spansBurst {
			tr.Attempt(delivered())
			tr.Attempt(retry)
			tr.Publish(refused)
			tr.Publish(published())
		}
		later := delivered()
		later.Start = later.Start.Add(time.Second)
		for range 2 * spansRate {
			tr.Attempt(later)
		}
	})
	if d := cmp.Diff(map[string]int{
		"deliver delivered": spansBurst + spansRate, "deliver retry": spansBurst, "publish gap": spansBurst,
		"publish accepted": 3 * spansBurst, "append ": 3 * spansBurst,
	}, got); d != "" {
		t.Error(d)
	}
}

func TestIDs(t *testing.T) {
	id, span := ids{}.NewIDs(t.Context())
	other := ids{}.NewSpanID(t.Context(), id)
	if !id.IsValid() || !span.IsValid() || !other.IsValid() || span == other {
		t.Errorf("%v, %v, %v", id, span, other)
	}
	sc := first(notification)
	if id, span = (ids{}).NewIDs(withIDs(t.Context(), sc)); id != sc.TraceID() || span != sc.SpanID() {
		t.Errorf("%v, %v", id, span)
	}
}

// An attempt without an endpoint costs nothing.
func TestOffDoesNothing(t *testing.T) {
	off, err := NewTraces(t.Context(), TraceOptions{})
	if off != nil || err != nil {
		t.Fatalf("%v, %v", off, err)
	}
	p, d := published(), delivered()
	if n := testing.AllocsPerRun(100, func() { off.Publish(p); off.Attempt(d) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	if err := off.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that hangs delays nothing, neither what it is told of nor the end
// of the hub; what it did not take is told, once.
func TestHangingCollectorDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := observed()
		tr := newTraces(hanging{}, TraceOptions{Log: log})
		tr.refused.SetBurst(math.MaxInt)
		tr.failed.SetBurst(math.MaxInt)
		tr.delivered.SetBurst(math.MaxInt)
		begin := time.Now()
		const n = 3 * queueSize
		for range n {
			tr.Attempt(delivered())
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("telling took %v", d)
		}
		time.Sleep(20 * time.Second)
		begin = time.Now()
		if err := tr.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > flushTime {
			t.Errorf("stopping took %v", d)
		}
		// Of the first batch, and at the end.
		if lost := told(lines); len(lost) != 2 || lost[0]+lost[1] != n {
			t.Errorf("of %d spans %v are told to be lost", n, lost)
		}
	})
}

// hanging is a collector that takes a connection and never answers.
type hanging struct{}

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Shutdown(context.Context) error { return nil }
