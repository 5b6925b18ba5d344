package app

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// received is an OpenTelemetry collector that keeps what it gets.
type received struct {
	mu    sync.Mutex
	bytes []byte
	spans []*otlp.Span
	wrong []string
}

func (c *received) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		r.Header.Get("Authorization") != "Bearer collectors" {
		c.wrong = append(c.wrong, fmt.Sprintf("%s %s: %v", r.URL, r.Header, err))
	}
	c.bytes = append(c.bytes, body...)
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// outcome is the attribute of a span that says how it ended.
func outcome(s *otlp.Span) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == "rshub.outcome" {
			return " " + a.GetValue().GetStringValue()
		}
	}
	return ""
}

// The collector gets one trace of a notification, from the publish to a delivery that another process
// makes after a restart. Of a callback it gets only the host.
func TestTraceOutlivesTheProcess(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collectors")
	got := &received{}
	endpoint := httptest.NewServer(got)
	defer endpoint.Close()
	verified, refused, taken := make(chan struct{}, 1), make(chan struct{}, 1), make(chan string, 1)
	var up atomic.Bool
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			verified <- struct{}{}
			return
		}
		if !up.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			select {
			case refused <- struct{}{}:
			default:
			}
			return
		}
		taken <- r.Header.Get("Webhook-Id")
	}))
	defer callback.Close()

	args := []string{"--topic-check=off", "--otlp-endpoint=" + endpoint.URL, "--retry-first=200ms", "--retry-max=200ms", "--data-dir=" + t.TempDir()}
	a := newApp(t, args...)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const topic = "http://127.0.0.1:2/topic"
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback.URL + "/capability"}, "hub.secret": {"s3cret"}}
	hub := "http://" + a.Addr() + "/"
	if status, _ := post(t, hub, "application/x-www-form-urlencoded", form.Encode(), ""); status != http.StatusAccepted {
		t.Fatalf("subscribing: %d", status)
	}
	<-verified
	link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, a.HubURL())
	if status, _ := post(t, hub, "application/xml", notification(0, 1), link); status != http.StatusOK {
		t.Fatalf("publishing: %d", status)
	}
	if status, _ := post(t, hub, "application/xml", notification(5, 6), link); status != http.StatusConflict {
		t.Fatalf("publishing with a gap: %d", status)
	}
	<-refused
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	up.Store(true)
	a = newApp(t, args...)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	select {
	case webhookID := <-taken:
		id = uuid.MustParse(webhookID)
	case <-time.After(time.Minute):
		t.Fatal("nothing was delivered after the restart")
	}
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	got.check(t, id)
}

// check looks at the traces of a notification that was delivered after failures,
// and of a publish that was refused.
func (c *received) check(t *testing.T, id uuid.UUID) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("requests: %q", c.wrong)
	}
	for _, secret := range []string{"capability", "s3cret"} {
		if bytes.Contains(c.bytes, []byte(secret)) {
			t.Errorf("the collector got %q", secret)
		}
	}
	var in, others []string
	var root string
	for _, s := range c.spans {
		if s.GetName() == "publish" && bytes.Equal(s.GetTraceId(), id[:]) {
			root = hex.EncodeToString(s.GetSpanId())
		}
	}
	for _, s := range c.spans {
		what := s.GetName() + outcome(s)
		if !bytes.Equal(s.GetTraceId(), id[:]) {
			others = append(others, what)
			continue
		}
		in = append(in, what)
		if parent := hex.EncodeToString(s.GetParentSpanId()); parent != root && s.GetName() != "publish" {
			t.Errorf("the span %s is below %q, want %q", what, parent, root)
		}
	}
	slices.Sort(in)
	if all := strings.Join(slices.Compact(in), ", "); all != "append, deliver delivered, deliver retry, publish accepted" {
		t.Errorf("the trace of the notification: %s", all)
	}
	if len(others) != 1 || others[0] != "publish gap" {
		t.Errorf("other traces: %q", others)
	}
}

// Only the operator gets profiles, and only with --pprof: package
// net/http/pprof puts them into http.DefaultServeMux, which no listener serves.
func TestProfilesDoNotLeak(t *testing.T) {
	a := newApp(t)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for _, addr := range []string{a.Addr(), a.AdminAddr()} {
		if status, _ := get(t, "http://"+addr+"/debug/pprof/"); status != http.StatusNotFound {
			t.Errorf("%s answers %d", addr, status)
		}
	}
}
