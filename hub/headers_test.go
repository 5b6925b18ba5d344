package hub

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/browser"
)

// Every answer has the headers that keep a browser from interpreting it as anything else: pages,
// receipts and refusals.
func TestSecurityHeadersAreOnEveryAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		request *http.Request
		status  int
	}{
		"page":           {get(http.MethodGet, "text/html"), 200},
		"text":           {get(http.MethodGet, ""), 200},
		"HEAD":           {get(http.MethodHead, "text/html"), 200},
		"publish":        {publish(doc(0, 1, "a")), 200},
		"publish, 400":   {publish("<"), 400},
		"publish, 401":   {publish(doc(0, 1, "a"), withToken("x")), 401},
		"publish, JSON":  {publish("<", with("Accept", "application/json")), 400},
		"subscribe":      {subscribeForm(), 202},
		"ping":           {form("hub.mode", "publish", "hub.url", topic), 202},
		"form, 400":      {form("hub.mode", "x"), 400},
		"media type":     {publish("{}", with("Content-Type", "application/json")), 415},
		"method":         {newRequest(http.MethodPut, hubURL, http.NoBody), 405},
		"path":           {newRequest(http.MethodGet, "https://hub.example/other", http.NoBody), 404},
		"OPTIONS *":      {&http.Request{Method: http.MethodOptions, URL: &url.URL{Path: "*"}, Header: http.Header{}, Body: http.NoBody}, 404},
		"path with dots": {newRequest(http.MethodGet, "https://hub.example/websub/../x", http.NoBody), 404},
	} {
		rec := newWorld(t).do(tc.request)
		if rec.Code != tc.status {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		wantHardened(t, name, rec)
	}
	rec := httptest.NewRecorder()
	newWorld(t).Broken(rec, publish("", with("Accept", "application/json")))
	if rec.Code != 500 || !strings.Contains(rec.Body.String(), `#internal-error"`) {
		t.Errorf("broken: %d %s", rec.Code, rec.Body)
	}
	wantHardened(t, "broken", rec)
}

func wantHardened(t *testing.T, name string, rec *httptest.ResponseRecorder) {
	t.Helper()
	h := rec.Header()
	for key, want := range map[string]string{
		"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "Vary": "Accept",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := h.Values(key); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %s is %q", name, key, got)
		}
	}
	policy := h.Values("Content-Security-Policy")
	if len(policy) != 1 || !strings.HasPrefix(policy[0], browser.PolicyNothing) || policy[0] != browser.PolicyNothing && !strings.HasPrefix(h.Get("Content-Type"), "text/") {
		t.Errorf("%s: Content-Security-Policy is %q", name, policy)
	}
	if rec.Code >= 400 && h.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: the refusal may be kept: %q", name, h.Get("Cache-Control"))
	}
}

// A request has the name of its answer in its log line and its event, and one
// that has none has none there either.
func TestRequestIDIsInTheLog(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	var events []Event
	w := newWorld(t, func(o *Options) {
		o.Log, o.Event = zap.New(core), func(e Event) { events = append(events, e) }
	})
	for _, r := range []*http.Request{
		publish(doc(0, 1, "a")), publish("<"), publish("", with("Content-Type", "a/b")),
		subscribeForm(), form("hub.mode", "publish", "hub.url", topic),
	} {
		r.Header.Set("X-Request-Id", "what the client says does not count here")
		rec := httptest.NewRecorder()
		rec.Header().Set("X-Request-Id", "r1")
		w.ServeHTTP(rec, r)
	}
	w.do(publish("<"))
	lines := logs.All()
	if len(lines) != 6 || len(events) != 6 {
		t.Fatalf("%d lines, %d events", len(lines), len(events))
	}
	for i, line := range lines {
		want := "r1"
		if i == 5 {
			want = ""
		}
		if got, _ := line.ContextMap()["request_id"].(string); got != want || events[i].RequestID != want {
			t.Errorf("%v, event %q", line.ContextMap(), events[i].RequestID)
		}
	}
}
