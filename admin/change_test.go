package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

func decodeBody[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return v
}

// line checks the one line that was written since it was asked last.
func (l *tabled) line(t *testing.T, level zapcore.Level, want map[string]any) {
	t.Helper()
	lines := l.logs.TakeAll()
	if len(lines) != 1 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	got := lines[0].ContextMap()
	want["event"], want["requester"], want["request_id"] = "operator_action", "192.0.2.7", "r1"
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %v, want %v (%v)", key, got[key], value, got)
		}
	}
	if _, ok := got["duration"]; !ok || lines[0].Level != level {
		t.Errorf("%s: %v", lines[0].Level, got)
	}
}

func TestRetryReplayEnd(t *testing.T) {
	l := newTabled(Options{})
	path := "/api/v1/subscriptions/" + l.subscription
	resp, body := l.ask(t, http.MethodPost, path+"/retry")
	if s := decodeBody[Subscription](t, body); resp.status != 200 || s.ID != l.subscription || s.State != "active" {
		t.Errorf("retry: %d %+v", resp.status, s)
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "retry", "subscription_id": l.subscription, "outcome": "done", "status": int64(200)})

	resp, body = l.ask(t, http.MethodPost, path+"/replay")
	if r := decodeBody[Replay](t, body); resp.status != 200 || r.Notifications != 42 || r.Subscription.ID != l.subscription || !l.since.Equal(noon) {
		t.Errorf("replay: %d %+v since %v", resp.status, r, l.since)
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "replay", "subscription_id": l.subscription, "outcome": "done", "status": int64(200)})

	l.onEnd = func() {
		for i := range l.m.records {
			for _, rec := range l.m.records[i] {
				rec.Subscription.EndedAt, rec.Subscription.EndReason = noon, subscriptions.EndRemoved
			}
		}
	}
	resp, body = l.ask(t, http.MethodDelete, path)
	if s := decodeBody[Subscription](t, body); resp.status != 200 || s.State != "ended" || s.EndReason != "removed" || l.end != "removed: "+endNotice {
		t.Errorf("end: %d %+v %s", resp.status, s, l.end)
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "end", "subscription_id": l.subscription, "outcome": "done", "status": int64(200)})
}

// A pending request may be gone by the time the call answers.
func TestEndOfARequest(t *testing.T) {
	l := newTabled(Options{})
	q := &subscriptions.Request{Mode: "subscribe", Topic: theTopic, Callback: "https://s.example/other", AcceptedAt: noon}
	l.m.addRecord(subscriptions.Record{Request: q})
	l.onEnd = func() { l.m.records[subscriptions.Shard(q.SubscriptionID())] = nil }
	resp, body := l.ask(t, http.MethodDelete, "/api/v1/subscriptions/"+q.SubscriptionID().String())
	if s := decodeBody[Subscription](t, body); resp.status != 200 || s.State != "ended" || s.Request.Denied != endNotice {
		t.Errorf("%d %s", resp.status, body)
	}
}

// The hub may forget a subscription that ended long ago during the call that ends it.
func TestEndOfWhatIsForgotten(t *testing.T) {
	l := newTabled(Options{})
	s := &subscriptions.Subscription{
		ID: subscriptions.ID(theTopic, "https://s.example/old"), Topic: theTopic, Callback: "https://s.example/old",
		EndedAt: noon.Add(-subscriptions.EndedFor), EndReason: subscriptions.EndGone,
	}
	l.m.addRecord(subscriptions.Record{Subscription: s})
	l.onEnd = func() { l.m.records[subscriptions.Shard(s.ID)] = nil }
	resp, body := l.ask(t, http.MethodDelete, "/api/v1/subscriptions/"+s.ID.String())
	if s := decodeBody[Subscription](t, body); resp.status != 200 || s.State != "ended" || s.EndReason != "gone" {
		t.Errorf("%d %s", resp.status, body)
	}
}

func TestChangesFail(t *testing.T) {
	for _, tc := range []struct {
		err     error
		status  int
		word    string
		level   zapcore.Level
		outcome string
	}{
		{fmt.Errorf("x: %w", subscriptions.ErrEnded), 409, "subscribe again", zapcore.InfoLevel, "refused"},
		{fmt.Errorf("x: %w", subscriptions.ErrNotFound), 404, "No subscription has the id", zapcore.InfoLevel, "refused"},
		{fmt.Errorf("x: %w", subscriptions.ErrPaused), 409, "Resume it first", zapcore.InfoLevel, "refused"},
		{fmt.Errorf("x: %w", &validate.WaitError{After: 1500 * time.Millisecond}), 429, "--verify-budget", zapcore.InfoLevel, "refused"},
		{errors.New("on fire"), 503, "on fire", zapcore.WarnLevel, "failed"},
	} {
		l := newTabled(Options{})
		l.err = tc.err
		for action, call := range map[string][2]string{"retry": {"POST", "/retry"}, "replay": {"POST", "/replay"}, "end": {"DELETE", ""}} {
			resp, body := l.ask(t, call[0], "/api/v1/subscriptions/"+l.subscription+call[1])
			wantProblem(t, resp, body, tc.status, tc.word)
			l.line(t, tc.level, map[string]any{"action": action, "outcome": tc.outcome, "status": int64(tc.status), "subscription_id": l.subscription})
			if got := resp.header.Get("Retry-After"); got != map[int]string{503: "5", 429: "2"}[tc.status] {
				t.Errorf("%d: Retry-After %q", tc.status, got)
			}
		}
	}
}

// Why a subscription gets nothing, and who has to do something about it.
func TestNotInForce(t *testing.T) {
	l := newTabled(Options{})
	l.err = subscriptions.ErrEnded
	request := func(mode websub.Mode, callback string) subscriptions.Record {
		return subscriptions.Record{Request: &subscriptions.Request{Mode: mode, Topic: theTopic, Callback: callback, AcceptedAt: noon}}
	}
	ended := subscriptions.Record{Subscription: &subscriptions.Subscription{Topic: theTopic, Callback: "https://s.example/ended", EndedAt: noon, EndReason: subscriptions.EndExpired}}
	for _, tc := range []struct {
		rec    subscriptions.Record
		status int
		words  string
	}{
		{request(websub.ModeSubscribe, "https://s.example/new"), http.StatusConflict, "has not confirmed it. Retry"},
		{request(websub.ModeUnsubscribe, "https://s.example/none"), http.StatusNotFound, "No subscription has the id"},
		{ended, http.StatusConflict, "has to subscribe again"},
	} {
		l.m.addRecord(tc.rec)
		topic, callback := tc.rec.Pair()
		resp, body := l.ask(t, http.MethodPost, "/api/v1/subscriptions/"+subscriptions.ID(topic, callback).String()+"/verify")
		wantProblem(t, resp, body, tc.status, tc.words)
	}
}

// Before the hub has started, nothing carries out a change.
func TestChangesWhileStarting(t *testing.T) {
	for name, control := range map[string]func() Control{"none": nil, "not yet": func() Control { return nil }} {
		l := newTabled(Options{})
		l.api.Control = control
		for _, rt := range l.api.routes {
			if rt.method == http.MethodGet || strings.HasSuffix(rt.path, "/reset") || strings.HasSuffix(rt.path, "/reload") {
				continue
			}
			resp, body := l.ask(t, rt.method, l.path(rt, ""))
			wantProblem(t, resp, body, http.StatusServiceUnavailable, "starting")
			if resp.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", name)
			}
		}
	}
}

// The answer names the files that were read again. A file with mistakes is refused, with the
// reason.
func TestReload(t *testing.T) {
	l := newTabled(Options{})
	l.reloaded = []Reloaded{{What: "publishers", File: "/p", Detail: "2 in force"}, {What: "certificate", File: "/c", Detail: "good"}}
	resp, body := l.ask(t, http.MethodPost, "/api/v1/reload")
	if got := decodeBody[ReloadAnswer](t, body); resp.status != 200 || len(got.Items) != 2 || got.Items[0] != l.reloaded[0] {
		t.Errorf("%d %s", resp.status, body)
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "reload", "outcome": "done", "status": int64(200)})
	l.reloaded[0].Error = "line 3 is no good"
	resp, body = l.ask(t, http.MethodPost, "/api/v1/reload")
	wantProblem(t, resp, body, 422, "publishers: line 3 is no good. Read again: certificate.")
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "reload", "outcome": "refused", "status": int64(422)})
}

func TestReset(t *testing.T) {
	l := newTabled(Options{})
	path := "/api/v1/topics/" + l.topic
	moved := 0
	l.m.onReset = func(string) { // somebody publishes between looking and resetting
		if moved++; moved <= 3 {
			heads := l.m.heads[journal.Partition(journal.TopicID(theTopic))]
			heads[0].Version += "+"
		}
	}
	head := &l.m.heads[journal.Partition(journal.TopicID(theTopic))][0]
	for i := range 3 { // the second changes nothing, and the third forgets what a ping found since
		if i == 2 {
			head.Kind = journal.KindContent
		}
		resp, body := l.ask(t, http.MethodPost, path+"/reset")
		if topic := decodeBody[Topic](t, body); resp.status != 200 || !topic.Reset || topic.Kind != "" || head.Kind != "" || topic.URL != theTopic || topic.LastUntil.IsZero() {
			t.Errorf("%d %s", resp.status, body)
		}
		l.line(t, zapcore.InfoLevel, map[string]any{"action": "reset", "topic": theTopic, "outcome": "done"})
	}
	if _, body := l.ask(t, http.MethodGet, path); !decodeBody[Topic](t, body).Reset || moved != 5 {
		t.Errorf("after %d tries: %s", moved, body)
	}
}

func TestResetGivesUp(t *testing.T) {
	l := newTabled(Options{})
	l.m.onReset = func(string) { l.m.heads[journal.Partition(journal.TopicID(theTopic))][0].Version += "+" }
	resp, body := l.ask(t, http.MethodPost, "/api/v1/topics/"+l.topic+"/reset")
	wantProblem(t, resp, body, http.StatusConflict, "so fast")
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "reset", "topic": theTopic, "outcome": "refused"})
}

// A topic that was only pinged may start anywhere as it is.
func TestResetOfAPingedTopic(t *testing.T) {
	l := newTabled(Options{})
	l.m.addPing(journal.PingRecord{Topic: "https://example.org/pinged", Pings: 1, PingedAt: noon})
	resp, body := l.ask(t, http.MethodPost, "/api/v1/topics/"+journal.TopicID("https://example.org/pinged").String()+"/reset")
	if topic := decodeBody[Topic](t, body); resp.status != 200 || topic.Reset || topic.Fetch == nil {
		t.Errorf("%d %s", resp.status, body)
	}
}

var bodies = map[string]struct {
	body, media string
	status      int
	word        string
}{
	"right":            {`{"since": "2026-11-21T12:00:00Z"}`, "application/json", 200, ""},
	"charset":          {`{"since":"2026-11-21T13:00:00.000+01:00"}`, "Application/JSON; charset=UTF-8", 200, ""},
	"no seconds":       {" {\n\"since\"\t: \"2026-11-21T12:00Z\"}\n ", "application/json", 200, ""},
	"no body":          {"", "application/json", 400, "object"},
	"no media type":    {`{"since": "2026-11-21T12:00:00Z"}`, "", 415, "application/json"},
	"a form":           {`since=2026-11-21T12:00:00Z`, "application/x-www-form-urlencoded", 415, "application/json"},
	"plain":            {`{"since": "2026-11-21T12:00:00Z"}`, "text/plain", 415, "application/json"},
	"other charset":    {`{"since": "2026-11-21T12:00:00Z"}`, "application/json; charset=latin1", 415, "application/json"},
	"no object":        {`["2026-11-21T12:00:00Z"]`, "application/json", 400, "object"},
	"null":             {`null`, "application/json", 400, "object"},
	"empty object":     {`{}`, "application/json", 400, `"since" is missing`},
	"unknown member":   {`{"since": "2026-11-21T12:00:00Z", "until": 1}`, "application/json", 400, `"until"`},
	"other spelling":   {`{"Since": "2026-11-21T12:00:00Z"}`, "application/json", 400, `"Since"`},
	"twice":            {`{"since": "2026-11-21T12:00:00Z", "since": "2026-11-21T12:00:00Z"}`, "application/json", 400, "twice"},
	"number":           {`{"since": 7}`, "application/json", 400, "since"},
	"null member":      {`{"since": null}`, "application/json", 400, "zone"},
	"no time":          {`{"since": "0001-01-01T00:00:00Z"}`, "application/json", 400, "stands for no time"},
	"no zone":          {`{"since": "2026-11-21T12:00:00"}`, "application/json", 400, "zone"},
	"date":             {`{"since": "2026-11-21"}`, "application/json", 400, "zone"},
	"no such day":      {`{"since": "2026-02-30T12:00:00Z"}`, "application/json", 400, "zone"},
	"small letters":    {`{"since": "2026-11-21t12:00:00z"}`, "application/json", 400, "zone"},
	"unended":          {`{"since": "2026-11-21T12:00:00Z"`, "application/json", 400, "end"},
	"trailing comma":   {`{"since": "2026-11-21T12:00:00Z",}`, "application/json", 400, "since"},
	"something after":  {`{"since": "2026-11-21T12:00:00Z"} {}`, "application/json", 400, "follows"},
	"garbage after":    {`{"since": "2026-11-21T12:00:00Z"}}`, "application/json", 400, "follows"},
	"too long":         {`{"since": "2026-11-21T12:00:00Z"` + strings.Repeat(" ", maxRequest) + `}`, "application/json", 413, "4096"},
	"just long enough": {`{"since": "2026-11-21T12:00:00Z"` + strings.Repeat(" ", maxRequest-33) + `}`, "application/json", 200, ""},
}

func (l *tabled) post(t *testing.T, path, media, body string, with ...string) (answer, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost", "192.0.2.7:1234"
	r.Header.Set("Content-Type", media)
	for i := 0; i+1 < len(with); i += 2 {
		r.Header.Set(with[i], with[i+1])
	}
	w := httptest.NewRecorder()
	l.api.handler().ServeHTTP(w, r)
	return answer{path, w.Code, w.Header()}, w.Body.String()
}

func TestBodyOfReplay(t *testing.T) {
	l := newTabled(Options{})
	for name, tc := range bodies {
		t.Run(name, func(t *testing.T) {
			l.since = time.Time{}
			resp, body := l.post(t, "/api/v1/subscriptions/"+l.subscription+"/replay", tc.media, tc.body)
			if tc.status != 200 {
				wantProblem(t, resp, body, tc.status, tc.word)
				if !l.since.IsZero() {
					t.Error("it was carried out")
				}
			} else if resp.status != 200 || !l.since.Equal(noon) {
				t.Errorf("%d, since %v: %s", resp.status, l.since, body)
			}
		})
	}
	resp, body := l.post(t, "/api/v1/subscriptions/"+l.subscription+"/replay", "application/json", bodies["right"].body, "Content-Encoding", "gzip")
	wantProblem(t, resp, body, 415, "Content-Encoding")
}

// A call that needs no body accepts none, or an empty object, because many clients send one with
// every POST.
func TestCallsWithoutABody(t *testing.T) {
	l := newTabled(Options{})
	l.api.Backup = func(context.Context) (*Backup, error) {
		l.calls.Add(1)
		return &Backup{Content: io.NopCloser(strings.NewReader(""))}, nil
	}
	l.api.Upgrades = &Upgrades{
		Status: func(context.Context) (Upgrade, error) { return Upgrade{}, nil },
		Finish: func(context.Context) error { l.calls.Add(1); return nil },
	}
	l.api = newAPI(l.api.Options)
	for _, path := range []string{
		"/subscriptions/" + l.subscription + "/retry", "/subscriptions/" + l.subscription + "/verify", "/subscriptions/" + l.subscription + "/link",
		"/topics/" + l.topic + "/reset", "/reload", "/backup", "/upgrade",
	} {
		for body, word := range map[string]string{
			"": "", "{}": "", " {\n}\n": "", "\n": "",
			`{"since": "2026-11-21T12:00:00Z"}`: `"since" is not known here`, "[]": "begin with an object", "null": "begin with an object",
			"{": "does not end", "{} {}": "something follows", "x": "begin with an object", "a=b": "begin with an object",
			strings.Repeat(" ", maxRequest+1): "longer than",
		} {
			for _, media := range []string{"application/json", "application/x-www-form-urlencoded", ""} { // curl -d says the second
				before := l.calls.Load() + int64(len(l.m.heads[journal.Partition(journal.TopicID(theTopic))][0].Version))
				resp, answer := l.post(t, "/api/v1"+path, media, body)
				switch {
				case word == "":
					if resp.status != 200 {
						t.Errorf("%s with %q as %q: %d %s", path, body, media, resp.status, answer)
					}
				case len(body) > maxRequest:
					wantProblem(t, resp, answer, 413, word)
				default:
					wantProblem(t, resp, answer, 400, word)
				}
				if after := l.calls.Load() + int64(len(l.m.heads[journal.Partition(journal.TopicID(theTopic))][0].Version)); word != "" && after != before {
					t.Errorf("%s with %q was carried out", path, body)
				}
			}
		}
	}
}
