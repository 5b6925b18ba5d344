package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func fresh() *Metrics { return NewMetrics("v1.2.3", Sources{}) }

func scrape(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// changed are the lines of ours that differ between two scrapes, as they are in
// the second.
func changed(before, after string) []string {
	was := strings.Split(before, "\n")
	seen := make(map[string]bool, len(was))
	for _, line := range was {
		seen[line] = true
	}
	var out []string
	for _, line := range strings.Split(after, "\n") {
		if strings.HasPrefix(line, "rshub_") && !seen[line] {
			out = append(out, line)
		}
	}
	return out
}

func TestNamesAndHelpsAreAsTheyShouldBe(t *testing.T) {
	m := fresh()
	for _, from := range m.set.Gatherers() {
		problems, err := testutil.GatherAndLint(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// Every label has values of a closed set, none of which says where something is.
func TestLabelsAreBounded(t *testing.T) {
	value := regexp.MustCompile(`^([a-z0-9][a-z0-9_-]*|v1\.2\.3|` + regexp.QuoteMeta(runtime.Version()) + `)$`)
	families, err := fresh().set.Gatherers()[0].Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "rshub_") {
			t.Errorf("%s is not called rshub_", f.GetName())
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !value.MatchString(l.GetValue()) {
					t.Errorf("%s has %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}

// What a scrape gets is what the library would write of the same values.
func TestPageIsAsTheLibraryWritesIt(t *testing.T) {
	m := NewMetrics("v1.2.3", Sources{
		Now: func() Now {
			return Now{
				Ready:         true,
				Subscriptions: subscriptions.Counts{Pending: 7, Ended: 1 << 40, Stored: 5, Most: 6},
				Delivery:      delivery.Stats{Topics: 3, Away: 1, Damaged: 2, BytesInFlight: 1 << 33},
				Lags:          delivery.LagReport{At: time.UnixMilli(1234567), Active: 5, Lags: [6]uint64{1, 2, 3, 4, 5, 5}, LagSum: 12345},
			}
		},
	})
	m.Request(hub.Event{Name: hub.EventPublish, Outcome: "gap", Status: 409, Duration: 123456789})
	m.Attempt(delivery.Event{Outcome: "delivered", Status: 200, Duration: time.Hour / 7, Start: time.Unix(1, 1), Bytes: 1 << 50})
	got := scrape(m)
	var want bytes.Buffer
	families, err := m.set.Gatherers()[0].Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&want, f); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(got, want.String()) {
		t.Errorf("the page differs:\n%s", strings.Join(changed(want.String(), got), "\n"))
	}
	for _, name := range []string{"process_cpu_seconds_total", "process_open_fds", "go_goroutines", "go_memory_classes_total_bytes"} {
		if !strings.Contains(got, "\n"+name+" ") {
			t.Errorf("no %s", name)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if families, err := parser.TextToMetricFamilies(strings.NewReader(got)); err != nil || len(families) < 40 {
		t.Errorf("%d families, %v", len(families), err)
	}
}

// Each thing that happens moves the figures that are named, and no others.
func TestWhatIsCounted(t *testing.T) {
	event := func(name, outcome string, status int) func(*Metrics) {
		return func(m *Metrics) {
			m.Request(hub.Event{Name: name, Outcome: outcome, Status: status, Bytes: 10, Duration: time.Minute})
		}
	}
	attempt := func(outcome string, status int) func(*Metrics) {
		return func(m *Metrics) {
			start := time.Unix(1000, 0)
			m.Attempt(delivery.Event{
				Outcome: outcome, Status: status, Start: start, Duration: 20 * time.Second, ReceivedAt: start.Add(-time.Hour), Bytes: 5,
			})
		}
	}
	subscription := func(e subscriptions.Event) func(*Metrics) { return func(m *Metrics) { m.Subscription(e) } }
	publishTime := []string{
		`rshub_publish_duration_seconds_bucket{le="60"} 1`, `rshub_publish_duration_seconds_bucket{le="+Inf"} 1`,
		`rshub_publish_duration_seconds_sum 60`, `rshub_publish_duration_seconds_count 1`,
	}
	exchange := []string{
		`rshub_delivery_duration_seconds_bucket{le="60"} 1`, `rshub_delivery_duration_seconds_bucket{le="+Inf"} 1`,
		`rshub_delivery_duration_seconds_sum 20`, `rshub_delivery_duration_seconds_count 1`,
	}
	gap := journal.Gap{Reason: journal.GapExpired, Count: 4}
	for _, tc := range []struct {
		what string
		do   func(*Metrics)
		want []string
		also [][]string
	}{
		{"a publish", event(hub.EventPublish, "accepted", 200), []string{`rshub_publishes_total{outcome="accepted"} 1`, `rshub_published_bytes_total 10`}, [][]string{publishTime}},
		{"a duplicate", event(hub.EventPublish, "duplicate", 200), []string{`rshub_publishes_total{outcome="duplicate"} 1`}, [][]string{publishTime}},
		{"a refused publish", event(hub.EventPublish, "store-full", 503), []string{`rshub_publishes_total{outcome="store-full"} 1`}, [][]string{publishTime}},
		{"a form of another page", event(hub.EventPost, "cross-site", 403), []string{"rshub_cross_site_refused_total 1"}, nil},
		{"another media type", event(hub.EventPost, "media-type", 415), []string{`rshub_publishes_total{outcome="media-type"} 1`}, nil},
		{"a publish that leaves a gap", func(m *Metrics) {
			m.Request(hub.Event{Name: hub.EventFetch, Outcome: "accepted", Bytes: 10, Gap: journal.Gap{Reason: journal.GapSource}})
		}, []string{`rshub_fetches_total{outcome="accepted"} 1`, `rshub_published_bytes_total 10`, `rshub_gaps_total{reason="source"} 1`}, nil},
		{"a subscribe", event(hub.EventSubscribe, "accepted", 202), []string{`rshub_subscription_requests_total{mode="subscribe",outcome="accepted"} 1`}, nil},
		{"a subscribe too many", event(hub.EventSubscribe, "rate-limited", 429), []string{`rshub_subscription_requests_total{mode="subscribe",outcome="limited"} 1`}, nil},
		{"a wrong unsubscribe", event(hub.EventUnsubscribe, "bad-form", 400), []string{`rshub_subscription_requests_total{mode="unsubscribe",outcome="refused"} 1`}, nil},
		{"a ping without a store", event(hub.EventPing, "store-unavailable", 503), []string{`rshub_pings_total{outcome="unavailable"} 1`}, nil},
		{"a fetch of nothing", event(hub.EventFetch, "topic-unreachable", 503), []string{`rshub_fetches_total{outcome="topic-unreachable"} 1`}, nil},

		{"a delivery", attempt("delivered", 204), []string{
			`rshub_deliveries_total{code="2xx",outcome="delivered"} 1`, `rshub_delivered_bytes_total 5`,
			`rshub_delivery_latency_seconds_bucket{le="7200"} 1`, `rshub_delivery_latency_seconds_bucket{le="21600"} 1`,
			`rshub_delivery_latency_seconds_bucket{le="86400"} 1`, `rshub_delivery_latency_seconds_bucket{le="259200"} 1`,
			`rshub_delivery_latency_seconds_bucket{le="+Inf"} 1`, `rshub_delivery_latency_seconds_sum 3620`, `rshub_delivery_latency_seconds_count 1`,
		}, [][]string{exchange}},
		{"a redirect", attempt("retry", 307), []string{`rshub_deliveries_total{code="3xx",outcome="retry"} 1`}, [][]string{exchange}},
		{"a refusal", attempt("passed_over", 422), []string{`rshub_deliveries_total{code="4xx",outcome="passed_over"} 1`}, [][]string{exchange}},
		{"a 500", attempt("retry", 500), []string{`rshub_deliveries_total{code="5xx",outcome="retry"} 1`}, [][]string{exchange}},
		{"a timeout", attempt("retry", journal.StatusTimeout), []string{`rshub_deliveries_total{code="timeout",outcome="retry"} 1`}, [][]string{exchange}},
		{"no connection", attempt("passed_over", journal.StatusConnect), []string{`rshub_deliveries_total{code="connect",outcome="passed_over"} 1`}, [][]string{exchange}},
		{"an address that is refused", attempt("retry", journal.StatusRefused), []string{`rshub_deliveries_total{code="refused",outcome="retry"} 1`}, [][]string{exchange}},
		{"a broken exchange", attempt("retry", journal.StatusError), []string{`rshub_deliveries_total{code="error",outcome="retry"} 1`}, [][]string{exchange}},
		{"a status that is none", attempt("retry", 101), []string{`rshub_deliveries_total{code="error",outcome="retry"} 1`}, [][]string{exchange}},
		{"a 410", attempt("ended", 410), []string{`rshub_deliveries_total{code="4xx",outcome="ended"} 1`, `rshub_subscriptions_ended_total{reason="gone"} 1`}, [][]string{exchange}},
		{"one that does not count", attempt("superseded", 200), []string{`rshub_deliveries_total{code="2xx",outcome="superseded"} 1`}, [][]string{exchange}},
		{"one cut off", attempt("cut_off", 0), []string{`rshub_deliveries_total{code="none",outcome="cut_off"} 1`}, nil},
		{"a gap", func(m *Metrics) { m.Gap(journal.Gap{Reason: journal.GapRetention, Count: 3}) }, []string{
			`rshub_gaps_total{reason="retention"} 1`, `rshub_gap_notifications_total{reason="retention"} 3`,
		}, nil},

		{"a verification", subscription(subscriptions.Event{Name: subscriptions.EventVerified}), []string{`rshub_verifications_total{outcome="verified"} 1`}, nil},
		{"one that failed", subscription(subscriptions.Event{Name: subscriptions.EventFailed}), []string{`rshub_verifications_total{outcome="failed"} 1`}, nil},
		{"one that came to nothing", subscription(subscriptions.Event{Name: subscriptions.EventDropped}), []string{`rshub_verifications_total{outcome="dropped"} 1`}, nil},
		{"a denial", subscription(subscriptions.Event{Name: subscriptions.EventDenied}), []string{`rshub_verifications_total{outcome="denied"} 1`}, nil},
		{"an unsubscribe in force", subscription(subscriptions.Event{Name: subscriptions.EventEnded, Reason: subscriptions.EndUnsubscribed}), []string{
			`rshub_verifications_total{outcome="unsubscribed"} 1`, `rshub_subscriptions_ended_total{reason="unsubscribed"} 1`,
		}, nil},
		{"a lease that ran out", subscription(subscriptions.Event{Name: subscriptions.EventEnded, Reason: subscriptions.EndExpired, Gap: gap}), []string{
			`rshub_subscriptions_ended_total{reason="expired"} 1`, `rshub_gaps_total{reason="expired"} 1`, `rshub_gap_notifications_total{reason="expired"} 4`,
		}, nil},
		{"a removal", subscription(subscriptions.Event{Name: subscriptions.EventEnded, Reason: subscriptions.EndRemoved}), []string{`rshub_subscriptions_ended_total{reason="removed"} 1`}, nil},
		{"an address that is never called", func(m *Metrics) { m.Refused(egress.RefusedMetadata) }, []string{`rshub_egress_refused_total{reason="metadata"} 1`}, nil},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := fresh()
			before := scrape(m)
			tc.do(m)
			want := make(map[string]bool)
			for _, lines := range append(tc.also, tc.want) {
				for _, line := range lines {
					want[line] = true
				}
			}
			got := changed(before, scrape(m))
			for _, line := range got {
				if !want[line] {
					t.Errorf("not expected: %s", line)
				}
				delete(want, line)
			}
			for line := range want {
				t.Errorf("missing: %s", line)
			}
		})
	}
}

// Nothing is counted under a label that was not there from the start: every outcome,
// reason and refusal that the parts know has its counter.
func TestEveryLabelIsThereFromTheStart(t *testing.T) {
	before := strings.Count(scrape(fresh()), "\n")
	m := fresh()
	moves := func(what any, do func()) {
		t.Helper()
		was := scrape(m)
		if do(); len(changed(was, scrape(m))) == 0 {
			t.Errorf("%v is counted nowhere", what)
		}
	}
	for _, o := range hub.PublishOutcomes() {
		moves(o, func() { m.Request(hub.Event{Name: hub.EventPublish, Outcome: o}) })
	}
	for _, o := range hub.FetchOutcomes() {
		moves(o, func() { m.Request(hub.Event{Name: hub.EventFetch, Outcome: o}) })
	}
	for _, r := range egress.Refusals() {
		moves(r, func() { m.Refused(r) })
	}
	for a := delivery.Deliver; a <= delivery.End; a++ {
		for _, status := range []int{200, 302, 410, 599, -1, -2, -3, -4} {
			if possible(a.String(), codeOf(status)) {
				moves(fmt.Sprint(a, status), func() { m.Attempt(delivery.Event{Outcome: a.String(), Status: status}) })
			}
		}
	}
	if after := strings.Count(scrape(m), "\n"); after != before {
		t.Errorf("%d lines, and %d before", after, before)
	}
}

// Counting an attempt allocates nothing: a hub makes many a second.
func TestCountingAllocatesNothing(t *testing.T) {
	m := fresh()
	for _, e := range []delivery.Event{
		{Outcome: "delivered", Status: 200, Duration: time.Second, Start: time.Unix(1, 0), Bytes: 1},
		{Outcome: "retry", Status: journal.StatusTimeout, Duration: time.Second},
	} {
		if n := testing.AllocsPerRun(100, func() { m.Attempt(e) }); n != 0 {
			t.Errorf("%s: %v allocations", e.Outcome, n)
		}
	}
}

// BenchmarkCounting is what counting adds to a delivery, from several goroutines
// at once as in a hub.
func BenchmarkCounting(b *testing.B) {
	m := fresh()
	e := delivery.Event{Outcome: "delivered", Status: 200, Duration: time.Millisecond, Start: time.Unix(1, 0), ReceivedAt: time.Unix(0, 0), Bytes: 1000}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Attempt(e)
		}
	})
}
