package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
)

// controlled plays the Service: it does what the test sets, and counts.
type controlled struct {
	m     *memory
	calls atomic.Int64
	err   error
	since time.Time
	end   string // reason and notice
	onEnd func()
	// reloaded is what Reload says.
	reloaded []Reloaded
}

func (c *controlled) Retry(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	c.calls.Add(1)
	return c.get(ctx, id)
}

func (c *controlled) Pause(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	return c.Retry(ctx, id)
}

func (c *controlled) Resume(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	return c.Retry(ctx, id)
}

func (c *controlled) Verify(ctx context.Context, id uuid.UUID) (subscriptions.Verification, error) {
	_, err := c.Retry(ctx, id)
	return subscriptions.Verification{Status: http.StatusForbidden, Answer: []byte("no\x1b[2J")}, err
}

func (c *controlled) get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	rec, err := c.m.Get(ctx, id)
	if rec == (subscriptions.Record{}) {
		err = subscriptions.ErrNotFound
	}
	return rec, cmp.Or(c.err, err)
}

func (c *controlled) Replay(since time.Time) func(context.Context, uuid.UUID) (uint64, subscriptions.Record, error) {
	c.since = since
	return func(ctx context.Context, id uuid.UUID) (uint64, subscriptions.Record, error) {
		c.calls.Add(1)
		rec, err := c.get(ctx, id)
		return 42, rec, err
	}
}

func (c *controlled) End(_ context.Context, _ uuid.UUID, reason, notice string) error {
	c.calls.Add(1)
	c.end = reason + ": " + notice
	if c.onEnd != nil {
		c.onEnd()
	}
	return c.err
}

// countedShelf counts the changes of links.
type countedShelf struct {
	*storetest.Memory
	changes *atomic.Int64
}

func (s *countedShelf) Keep(ctx context.Context, name string, fresh []byte, life time.Duration) ([]byte, error) {
	if strings.HasPrefix(name, beginsSeries) {
		s.changes.Add(1)
	}
	return s.Memory.Keep(ctx, name, fresh, life)
}

func (s *countedShelf) Drop(ctx context.Context, name string) error {
	s.changes.Add(1)
	return s.Memory.Drop(ctx, name)
}

// tabled is a listener with one of each, and what it writes to the log.
type tabled struct {
	*controlled
	api  *api
	body string // of POST /api/v1/subscriptions
	logs *observer.ObservedLogs
	// The ids of its one topic, subscription and notification.
	topic, subscription, notification string
}

const theTopic, theCallback = "https://example.org/t", "https://s.example/cb"

func newTabled(o Options) *tabled {
	m := &memory{}
	entries := m.addEntries(theTopic, 3, 0)
	m.bodies = map[uuid.UUID][]byte{entries[1].ID: []byte("a document")}
	m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
		ID: subscriptions.ID(theTopic, theCallback), Topic: theTopic, Callback: theCallback, ExpiresAt: noon.Add(time.Hour),
	}})
	c := &controlled{m: m}
	core, logs := observer.New(zapcore.InfoLevel)
	o.Topics, o.Subscriptions, o.Pings, o.Log = m, m, m, zap.New(core)
	o.Control = func() Control { return c }
	o.Now = func() time.Time { return noon.Add(time.Hour / 2) }
	o.Info = func(context.Context) Info { return Info{Version: "v1"} }
	o.Metrics = http.NotFoundHandler()
	o.Links = &Links{Shelf: &countedShelf{storetest.NewMemory(), &c.calls}, Now: o.Now}
	o.Reload = func() []Reloaded {
		c.calls.Add(1)
		return c.reloaded
	}
	return &tabled{
		controlled: c, api: newAPI(o), logs: logs, topic: journal.TopicID(theTopic).String(),
		subscription: subscriptions.ID(theTopic, theCallback).String(), notification: entries[1].ID.String(),
	}
}

// path is that of a route with an id put in; empty: the right one.
func (l *tabled) path(rt route, id string) string {
	if id == "" {
		id = l.subscription
		switch {
		case strings.HasPrefix(rt.path, "/api/v1/topics/"):
			id = l.topic
		case strings.HasPrefix(rt.path, "/api/v1/notifications/"):
			id = l.notification
		}
	}
	return strings.ReplaceAll(rt.path, "{id}", id)
}

// ask sends a request with what its route needs; with holds headers as "Name:
// value", Host too.
func (l *tabled) ask(t *testing.T, method, path string, with ...string) (answer, string) {
	t.Helper()
	body := ""
	if method == http.MethodDelete && strings.HasPrefix(path, "/api/v1/topics/") && !strings.Contains(path, "?") {
		path += "?force=true"
	}
	if at, _, _ := strings.Cut(path, "?"); method == http.MethodPost && at == "/api/v1/subscriptions" {
		body = cmp.Or(l.body, `{"action": "retry"}`)
		with = append([]string{"Content-Type: application/json"}, with...)
	}
	if strings.HasSuffix(path, "/replay") {
		body = `{"since": "2026-11-21T12:00:00Z"}`
		with = append([]string{"Content-Type: application/json"}, with...)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8081", "192.0.2.7:1234"
	for _, h := range with {
		name, value, _ := strings.Cut(h, ": ")
		switch r.Header.Add(name, value); name {
		case "Host":
			r.Host = value
		case "Remote":
			r.RemoteAddr = value
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "r1") // as the listener does
	l.api.handler().ServeHTTP(w, r)
	return answer{path, w.Code, w.Header()}, w.Body.String()
}

func isOpen(rt route) bool {
	return slices.Contains([]string{"/livez", "/readyz", "/metrics"}, rt.path)
}

// each calls do for each route of the table, so that a test forgets none. Routes that stream their
// own content are left out.
func (l *tabled) each(t *testing.T, do func(t *testing.T, rt route)) {
	t.Helper()
	if len(l.api.routes) < 17 {
		t.Fatalf("%d routes", len(l.api.routes))
	}
	for _, rt := range l.api.routes {
		t.Run(rt.method+" "+rt.path, func(t *testing.T) { do(t, rt) })
	}
}

// Every call is answered, with JSON if it is of the API; without its token, by
// another host name or for a page of another origin it is not, and changes
// nothing.
func TestEveryRouteIsGuarded(t *testing.T) {
	noToken, token := newTabled(Options{}), newTabled(Options{Token: held("s3cret")})
	const auth = "Authorization: Bearer s3cret"
	token.each(t, func(t *testing.T, rt route) {
		path, write := token.path(rt, ""), rt.method != http.MethodGet
		for name, l := range map[string]*tabled{"token": token, "no token": noToken} {
			before := l.calls.Load()
			resp, body := l.ask(t, rt.method, l.path(rt, ""), auth)
			if resp.status != http.StatusOK && rt.path != "/metrics" {
				t.Errorf("%s: %d %s", name, resp.status, body)
			}
			if strings.HasPrefix(rt.path, "/api/") && !strings.HasSuffix(rt.path, "/document") && resp.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: Content-Type %q", name, resp.header.Get("Content-Type"))
			}
			if done := l.calls.Load() - before; write != (done == 1) && !strings.HasSuffix(rt.path, "/reset") {
				t.Errorf("%s: %d changes", name, done)
			}
		}
		changes := noToken.calls.Load() + token.calls.Load()
		logged := noToken.lines() + token.lines()
		for _, with := range []string{"X: y", "Authorization: Bearer s3cre", "Authorization: Basic s3cret", "Authorization: Bearer", "Cookie: token=s3cret"} {
			resp, body := token.ask(t, rt.method, path, with)
			if isOpen(rt) {
				if resp.status == http.StatusUnauthorized {
					t.Errorf("%s: it needs a token", with)
				}
				continue
			}
			wantProblem(t, resp, body, http.StatusUnauthorized, "Bearer")
		}
		for _, host := range []string{"evil.example", "localhost.evil.example:8081", "192.0.2.1", ""} {
			resp, body := noToken.ask(t, rt.method, path, "Host: "+host, auth)
			wantProblem(t, resp, body, http.StatusMisdirectedRequest, "localhost")
		}
		for _, header := range []string{"Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			for name, l := range map[string]*tabled{"token": token, "no token": noToken} {
				if !write {
					continue
				}
				resp, body := l.ask(t, rt.method, path, header, auth)
				wantProblem(t, resp, body, http.StatusForbidden, "origin")
				if t.Failed() {
					t.Fatalf("%s, %s", name, header)
				}
			}
		}
		if n := noToken.calls.Load() + token.calls.Load(); n != changes {
			t.Errorf("%d changes were made all the same", n-changes)
		}
		if n := noToken.lines() + token.lines(); n != logged {
			t.Errorf("%d lines were written of what was not let in", n-logged)
		}
	})
}

// lines are those of the log that are not about refusals.
func (l *tabled) lines() int {
	return l.logs.Len() - l.logs.FilterField(zap.String("event", "operator_refused")).Len()
}

// Methods that a path does not have are named with those that it has; HEAD is GET
// without a body.
func TestEveryRouteHasItsMethods(t *testing.T) {
	l := newTabled(Options{})
	l.each(t, func(t *testing.T, rt route) {
		path := l.path(rt, "")
		var has []string
		for _, other := range l.api.routes {
			if other.path == rt.path {
				has = append(has, other.method)
			}
		}
		if slices.Contains(has, http.MethodGet) {
			has = append(has, http.MethodHead)
		}
		slices.Sort(has)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "get"} {
			resp, body := l.ask(t, method, path)
			if slices.Contains(has, method) {
				if resp.status == http.StatusMethodNotAllowed {
					t.Errorf("%s: %d", method, resp.status)
				}
				continue
			}
			wantProblem(t, resp, body, http.StatusMethodNotAllowed, method)
			if got := resp.header.Get("Allow"); got != strings.Join(has, ", ") {
				t.Errorf("%s: Allow %q, want %v", method, got, has)
			}
		}
	})
	// On the wire, too.
	s := httptest.NewServer(l.api.handler())
	defer s.Close()
	for _, rt := range l.api.routes {
		if rt.method != http.MethodGet || rt.path == "/metrics" {
			continue
		}
		resp, body := send(t, http.MethodHead, s.URL+l.path(rt, ""))
		if resp.status != http.StatusOK || body != "" {
			t.Errorf("HEAD %s: %d %q", rt.path, resp.status, body)
		}
	}
}

// A malformed id gets another answer than an unknown one. Unknown parameters and unexpected bodies
// are refused.
func TestEveryRouteIsStrict(t *testing.T) {
	l := newTabled(Options{})
	l.each(t, func(t *testing.T, rt route) {
		if !strings.HasPrefix(rt.path, "/api/") {
			return
		}
		path := l.path(rt, "")
		if rt.params == nil {
			t.Error("any parameter passes")
		}
		resp, body := l.ask(t, rt.method, path+"?no_such=1")
		wantProblem(t, resp, body, http.StatusBadRequest, "no_such")
		resp, body = l.ask(t, rt.method, path+"?a=%zz")
		wantProblem(t, resp, body, http.StatusBadRequest, "read")
		for _, name := range rt.params {
			resp, body = l.ask(t, rt.method, path+"?"+name+"=1&"+name+"=1")
			wantProblem(t, resp, body, http.StatusBadRequest, "once")
		}
		if rt.about == "" || !strings.Contains(rt.text(), strings.Join(rt.params, "=&")) {
			t.Errorf("about: %q", rt.text())
		}
		if !strings.Contains(rt.path, "{id}") {
			return
		}
		before := l.calls.Load()
		for _, id := range []string{"nonsense", "0", "urn:uuid:" + l.topic, "{" + l.topic + "}", strings.ReplaceAll(l.topic, "-", ""), l.topic + "0"} {
			resp, body = l.ask(t, rt.method, l.path(rt, id))
			wantProblem(t, resp, body, http.StatusNotFound, "is not the id of a")
		}
		if l.calls.Load() != before {
			t.Error("a malformed id went through")
		}
		for _, id := range []string{uuid.Nil.String(), uuid.Max.String(), uuid.NewString()} {
			resp, body = l.ask(t, rt.method, l.path(rt, id))
			wantProblem(t, resp, body, http.StatusNotFound, "has the id "+id)
		}
	})
}
