package hub

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Each request is reported in one event, with its outcome.
func TestEvents(t *testing.T) {
	form := with("Content-Type", "application/x-www-form-urlencoded")
	subscribe := "hub.mode=subscribe&hub.topic=https://example.org/t&hub.callback=https://callback.example/secret"
	for _, tc := range []struct {
		why     string
		prepare func(*world)
		r       *http.Request
		want    Event
	}{
		{
			"a publish", nil, publish(doc(0, 1, "a"), withToken("alice's token"), with("Traceparent", parent)),
			Event{Name: EventPublish, Outcome: "accepted", Status: 200, Topic: topic, Publisher: "alice", TraceParent: parent},
		},
		{
			"one that came before", func(w *world) { w.accept(publish(doc(0, 1, "a"))) }, publish(doc(0, 1, "a")),
			Event{Name: EventPublish, Outcome: "duplicate", Status: 200, Topic: topic},
		},
		{
			"one that leaves a gap", published, publish(doc(20, 30, "a")),
			Event{Name: EventPublish, Outcome: "gap", Status: 409, Topic: topic},
		},
		{
			"a trace context that is none", nil, publish(doc(0, 1, "a"), with("Traceparent", strings.Repeat("0", 300))),
			Event{Name: EventPublish, Outcome: "accepted", Status: 200, Topic: topic},
		},
		{
			"a subscription request", nil, publish(subscribe, form),
			Event{Name: EventSubscribe, Outcome: "accepted", Status: 202, Topic: "https://example.org/t"},
		},
		{
			"an unsubscribe", nil, publish(strings.Replace(subscribe, "=sub", "=unsub", 1), form),
			Event{Name: EventUnsubscribe, Outcome: "accepted", Status: 202, Topic: "https://example.org/t"},
		},
		{
			"a form that is none", nil, publish("hub.mode=%zz", form),
			Event{Name: EventSubscribe, Outcome: "bad-form", Status: 400},
		},
		{
			"another media type", nil, publish("{}", with("Content-Type", "application/json")),
			Event{Name: EventPost, Outcome: "media-type", Status: 415},
		},
		{
			"a form of another page", nil, publish(subscribe, form, with("Origin", "https://evil.example")),
			Event{Name: EventPost, Outcome: "cross-site", Status: 403},
		},
		{
			"a publish of another page", nil, publish(doc(0, 1, "a"), withToken("alice's token"), with("Sec-Fetch-Site", "cross-site")),
			Event{Name: EventPost, Outcome: "cross-site", Status: 403},
		},
	} {
		t.Run(tc.why, func(t *testing.T) {
			var got []Event
			w := newWorld(t)
			if tc.prepare != nil {
				tc.prepare(w)
			}
			w.o.Event = func(e Event) { got = append(got, e) }
			w.do(tc.r)
			if len(got) != 1 {
				t.Fatalf("told %d times", len(got))
			}
			e, want := got[0], tc.want
			if e.Name != want.Name || e.Outcome != want.Outcome || e.Status != want.Status || e.Topic != want.Topic ||
				e.Publisher != want.Publisher || e.TraceParent != want.TraceParent {
				t.Errorf("%+v", e)
			}
			taken, isPublish := e.Status == http.StatusOK, e.Name == EventPublish
			if (e.NotificationID != uuid.Nil) != taken || (e.Bytes > 0) != isPublish || (e.Err == nil) != (e.Status < 300) ||
				e.Append.Start.IsZero() == (e.Outcome == "accepted" && isPublish) || e.Start.IsZero() || e.Duration < e.Append.Duration {
				t.Errorf("%+v", e)
			}
			if e.Err != nil && strings.Contains(e.Err.Error(), "/secret") {
				t.Errorf("it holds the callback: %+v", e)
			}
		})
	}
}

// If the hub accepts a publish that leaves something out, the event reports that, too (invariant
// 10).
func TestEventOfAGap(t *testing.T) {
	var got []Event
	core, logs := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(o *Options) {
		o.AcceptGaps, o.Log = true, zap.New(core)
		o.Event = func(e Event) { got = append(got, e) }
	})
	w.accept(publish(doc(0, 1, "a")))
	w.accept(publish(doc(5, 6, "b")))
	w.accept(publish(doc(5, 6, "b")))
	if len(got) != 3 || got[0].Gap.Reason != "" || got[2].Gap.Reason != "" {
		t.Fatalf("%+v", got)
	}
	if g := got[1].Gap; g.Reason != journal.GapSource || g.Until.Sub(g.From) != 4*time.Minute || g.At.IsZero() {
		t.Errorf("%+v", g)
	}
	if line := logs.All()[1].ContextMap(); line["gap_reason"] != journal.GapSource || line["gap_from"] != got[1].Gap.From {
		t.Errorf("%v", line)
	}
}

// PublishOutcomes lists every way in which a publish is refused, so that each is counted from the
// start. The problems that it lacks are for forms only, or are no outcome: a handler that broke off
// has none.
func TestPublishOutcomes(t *testing.T) {
	forms := []string{
		"bad-form", "too-many-pings", "empty-content", "callback-not-allowed", "insecure-secret", "not-found", "method-not-allowed",
		"too-many-subscriptions", "internal-error",
	}
	reads := ReadOutcomes()
	source, err := os.ReadFile("problems.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`kind\{http\.Status\w+, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		if slices.Contains(PublishOutcomes(), m[1]) == (slices.Contains(forms, m[1]) || slices.Contains(reads, m[1]) && !slices.Contains(PublishOutcomes(), m[1])) {
			t.Errorf("%s: is it one of PublishOutcomes or ReadOutcomes, or does only a form get it?", m[1])
		}
	}
}
