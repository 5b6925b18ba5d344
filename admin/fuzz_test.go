package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// fuzzed is a listener with one topic and one subscription.
func fuzzed(token string) http.Handler {
	m := &memory{}
	m.addTopic(journal.Head{Topic: "https://example.org/", Last: journal.Anchor{Seq: 1}})
	m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
		Topic: "https://example.org/", Callback: "https://s.example/cb", Secret: "s3cret", ExpiresAt: noon.Add(time.Hour),
	}})
	return New(Options{
		Topics: m, Subscriptions: m, Pings: m, Token: held(token), Now: func() time.Time { return noon },
		Control: func() Control { return &controlled{m: m} },
		Info:    func(context.Context) Info { return Info{Version: "v1"} },
	})
}

// Every request is answered, and never with an error of the server. Errors are problem documents,
// and all else is JSON or text. No answer has a secret. Without the token, or for another host
// name, an answer has nothing at all.
func FuzzRequests(f *testing.F) {
	add := func(method, path, query, host, credential string) { f.Add(method, path, query, host, credential) }
	add("GET", "/", "", "localhost:8081", "Bearer t0ken")
	add("HEAD", "/readyz", "verbose", "127.0.0.1", "")
	add("GET", "/api/v1/subscriptions", "topic=https://example.org/&state=active&host=s.example&limit=1", "[::1]:1", "bearer  t0ken")
	add("GET", "/api/v1/subscriptions/00000000-0000-0000-0000-000000000000", "", "::1", "Basic x")
	add("GET", "/api/v1/topics", "limit=1001&after=x", "evil.example", "Bearer t0kenx")
	add("GET", "/api/v1/topics/{urn:uuid:x}", "%zz;a=b", "localhost", "Bearer")
	add("POST", "//api/../livez", "", "LOCALHOST", "")
	one := "/api/v1/subscriptions/" + subscriptions.ID("https://example.org/", "https://s.example/cb").String()
	add("POST", one+"/retry", "", "localhost", "Bearer t0ken")
	add("POST", one+"/replay", "since=2026-11-21T12:00:00Z", "localhost", "Bearer t0ken")
	add("DELETE", one, "", "localhost", "Bearer t0ken")
	add("GET", one+"/gaps", "after=1.1", "localhost", "Bearer t0ken")
	add("GET", one+"/attempts", "after=1795264496000000000.2&limit=3", "localhost", "Bearer t0ken")
	add("POST", "/api/v1/topics/"+journal.TopicID("https://example.org/").String()+"/reset", "", "localhost", "Bearer t0ken")
	add("GET", "/api/v1/topics/"+journal.TopicID("https://example.org/").String()+"/notifications", "since=2026-11-21T12:00%2B01:00", "localhost", "Bearer t0ken")
	add("GET", "/api/v1/notifications/"+uuid.Max.String(), "", "localhost", "Bearer t0ken")
	add("", "", "&&=", "", "\x00")

	f.Fuzz(func(t *testing.T, method, path, query, host, credential string) {
		for _, token := range []string{"", "t0ken"} {
			r := (&http.Request{
				Method: method, Host: host, URL: &url.URL{Path: path, RawQuery: query},
				Header: http.Header{"Authorization": {credential}}, Body: http.NoBody,
			}).WithContext(t.Context())
			rec := httptest.NewRecorder()
			fuzzed(token).ServeHTTP(rec, r)
			checkAnswer(t, rec)
			scheme, rest, _ := strings.Cut(credential, " ")
			known := strings.EqualFold(scheme, "bearer") && strings.TrimSpace(rest) == "t0ken"
			switch {
			case rec.Code == http.StatusForbidden: // a write
			case token != "" && !known && !slices.Contains([]string{"/livez", "/readyz", "/metrics"}, path):
				if rec.Code != http.StatusUnauthorized {
					t.Errorf("%d for %q without the token", rec.Code, path)
				}
			case token == "" && !strings.Contains(strings.ToLower(host), "localhost") && !strings.Contains(host, "127.0.0.1") && !strings.Contains(host, "::1"):
				if rec.Code != http.StatusMisdirectedRequest {
					t.Errorf("%d for the host name %q", rec.Code, host)
				}
			}
		}
	})
}

func checkAnswer(t *testing.T, rec *httptest.ResponseRecorder) {
	t.Helper()
	body := rec.Body.String()
	if rec.Code < 200 || rec.Code >= 500 || strings.Contains(body, "s3cret") || rec.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v\n%s", rec.Code, rec.Header(), body)
	}
	switch media := rec.Header().Get("Content-Type"); {
	case rec.Code >= 400:
		var p Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != rec.Code || p.Detail == "" || media != "application/problem+json" {
			t.Errorf("%d %s is no problem: %v\n%s", rec.Code, media, err, body)
		}
	case media == "application/json":
		if !json.Valid([]byte(body)) {
			t.Errorf("no JSON: %s", body)
		}
	}
}

// A page has from 1 to MaxLimit items, a filter is one that there is, and what is
// neither is refused with a reason.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"", "limit=1000&after=00000000-0000-0000-0000-000000000001", "limit=0", "limit=+1", "limit=1001", "state=active&host=S.example:443",
		"state=ACTIVE", "topic=https://example.org/", "topic=6ba7b811-9dad-11d1-80b4-00c04fd430c8", "lmit=1", "state=failing;host=x", "state=failing%zz", "host=a&host=b", "after=%7B6ba7b811-9dad-11d1-80b4-00c04fd430c8%7D",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		refused := func(err error) {
			var p *problem
			if !errors.As(err, &p) || p.status != http.StatusBadRequest || p.detail == "" {
				t.Errorf("%q: %v", query, err)
			}
		}
		q, unreadable := url.ParseQuery(query)
		if err := checkQuery(query, append([]string{"topic", "state", "host", "since"}, paging...)); err != nil {
			refused(err)
		} else if unreadable != nil {
			t.Errorf("%q is let pass: %v", query, unreadable)
		}
		p, err := parsePage(q)
		if err != nil {
			refused(err)
		} else if p.limit < 1 || p.limit > MaxLimit || !q.Has("limit") && p.limit != DefaultLimit {
			t.Errorf("%q: %d items", query, p.limit)
		}
		if id, err := p.afterID(); err != nil {
			refused(err)
		} else if p.after != "" && !strings.EqualFold(id.String(), p.after) {
			t.Errorf("after=%q is %s", p.after, id)
		}
		flt, err := parseFilter(q)
		if err != nil {
			refused(err)
			return
		}
		if flt.state != "" && !slices.Contains(states, flt.state) || q.Get("host") != "" && flt.host == "" {
			t.Errorf("%q: %+v", query, flt)
		}
		flt.match(subscriptions.Record{Request: &subscriptions.Request{Topic: q.Get("topic"), Callback: q.Get("host")}}, noon)
	})
}

// The hub understands a body to the letter, or refuses it with a reason.
func FuzzReplayBody(f *testing.F) {
	for _, tc := range bodies {
		f.Add([]byte(tc.body))
	}
	f.Add([]byte(`{"since": "2026-11-21T12:00:00.123456789-23:59"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var req ReplayRequest
		err := members{"since": &req.Since}.parse(body, "since")
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q is refused without a reason", body)
			}
			return
		}
		// If encoding/json reads this form, it gets the same value.
		var loose struct{ Since time.Time }
		if json.Unmarshal(body, &loose) == nil && !loose.Since.Equal(req.Since) {
			t.Errorf("%q: %v, want %v", body, req.Since, loose.Since)
		}
		var names map[string]string
		if err := json.Unmarshal(body, &names); err != nil || len(names) != 1 || names["since"] == "" {
			t.Errorf("%q is let pass: %v", body, err)
		}
	})
}

// A datetime that is read is one that is written the same again.
func FuzzDatetime(f *testing.F) {
	for _, s := range []string{"2026-11-21T12:00:00Z", "2026-11-21T12:00Z", "2026-11-21T12:00+01:00", "2026-11-21T12:00:00.5-00:30", "2026-11-21", "2026-11-21T12:00:00,5Z", "2026-11-21T1:00:00Z", "\xff", "2026-11-21T12:00:00+24:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parseDatetime(s)
		if err != nil {
			return
		}
		if again, err := parseDatetime(at.Format(time.RFC3339Nano)); err != nil || !again.Equal(at) || len(s) < len("2026-11-21T12:00Z") {
			t.Errorf("%q: %v, again %v, %v", s, at, again, err)
		}
	})
}
