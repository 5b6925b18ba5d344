package publisher

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/websub"
)

// SRC-07: what a POST looks like; SRC-08: what is made of the answer.
func TestPost_SRC07_SRC08(t *testing.T) {
	body := []byte("<urlset/>")
	for name, hub := range map[string]Hub{"token": {Token: "t0ken"}, "secret": {Secret: "s3cret"}, "neither": {}} {
		var got *http.Request
		var sent []byte
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			sent, _ = io.ReadAll(r.Body)
			_, _ = io.WriteString(w, `{"id": "an-id", "duplicate": true}`)
		}))
		hub.URL = srv.URL + "/hub"
		n := Notification{Topic: bedTopic, Body: body, Location: bedTopic + "x.xml", CapabilityList: "https://source.example/capabilitylist.xml"}
		receipt, err := Post(t.Context(), srv.Client(), hub, n)
		if err != nil || receipt != (Receipt{Status: 200, ID: "an-id", Duplicate: true}) {
			t.Errorf("%s: %+v %v", name, receipt, err)
		}
		h := got.Header
		if got.Method != http.MethodPost || got.URL.Path != "/hub" || string(sent) != string(body) || h.Get("Content-Type") != "application/xml" || h.Get("Content-Location") != n.Location {
			t.Errorf("%s: %s %s %v", name, got.Method, got.URL, h)
		}
		want := `<` + bedTopic + `>; rel="self", <` + hub.URL + `>; rel="hub", <` + n.CapabilityList + `>; rel="resourcesync"`
		if h.Get("Link") != want {
			t.Errorf("%s: Link %s", name, h.Get("Link"))
		}
		if (h.Get("Authorization") == "Bearer t0ken") != (name == "token") || (websub.VerifySignature(h.Get(websub.HeaderSignature), "s3cret", body) == nil) != (name == "secret") {
			t.Errorf("%s: %v", name, h)
		}
		srv.Close()
	}
}

// A credential that changes is used from the next POST on.
func TestPostAsksForTheCredential(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		_, _ = io.WriteString(w, `{"id": "an-id"}`)
	}))
	defer srv.Close()
	token, secret := "", ""
	hub := Hub{URL: srv.URL + "/", Token: "of the start", Credential: func() (string, string) { return token, secret }}
	for _, now := range [][2]string{{"first", ""}, {"second", ""}, {"", "s3cret"}} {
		token, secret = now[0], now[1]
		if _, err := Post(t.Context(), srv.Client(), hub, Notification{Topic: bedTopic, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		signed := websub.VerifySignature(got.Get(websub.HeaderSignature), "s3cret", []byte("x")) == nil
		if want := "Bearer " + token; token != "" && got.Get("Authorization") != want || signed != (secret != "") {
			t.Errorf("with %q: %v", now, got)
		}
	}
}

// What cannot be sent is no fault of the hub.
func TestPostRefusesALocationThatIsNone(t *testing.T) {
	_, err := Post(t.Context(), nil, Hub{URL: "http://127.0.0.1:1/"}, Notification{Topic: bedTopic, Location: bedTopic + "a\nb"})
	if err == nil || !strings.Contains(err.Error(), "the location") {
		t.Error(err)
	}
}

func TestPostIsRefused_SRC08(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, c := range []struct {
		status int
		after  string
		body   string
		want   RefusedError
	}{
		{
			409, "", `{"type": "https://x.example/problems.md#gap", "detail": "It leaves\n a gap.", "expected_from": "2026-01-02T03:04:05.000000006Z"}`,
			RefusedError{Type: "gap", Detail: "It leaves a gap.", ExpectedFrom: at},
		},
		{409, "", `{"expected_from": "yesterday", "detail": 7}`, RefusedError{Detail: `{"expected_from": "yesterday", "detail": 7}`}},
		{415, "", `{"error": "send a form"}`, RefusedError{Detail: `{"error": "send a form"}`}},
		{503, "17", "Try again.\n", RefusedError{Detail: "Try again.", RetryAfter: 17 * time.Second}},
		{500, "soon", "<html><h1>oops</h1></html>", RefusedError{Detail: "oops"}},
		{302, "", "", RefusedError{}},
		{429, "100000", strings.Repeat("é", 1000), RefusedError{Detail: strings.Repeat("é", 499) + "…", RetryAfter: time.Hour}},
		{400, "", "a\x00b\xffc", RefusedError{Detail: "a\ufffdb\ufffdc"}},
	} {
		followed := false
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			followed = followed || r.URL.Path == "/elsewhere"
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		_, err := Post(t.Context(), srv.Client(), Hub{URL: srv.URL + "/", Token: "hidden"}, Notification{Topic: bedTopic})
		c.want.Hub, c.want.Status = srv.URL+"/", c.status
		var refused *RefusedError
		if !errors.As(err, &refused) || *refused != c.want || followed {
			t.Errorf("%d %q: %+v, followed %v", c.status, c.body, refused, followed)
		}
		if strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), srv.URL) {
			t.Errorf("the error is %v", err)
		}
		srv.Close()
	}
	for name, h := range map[string]Hub{"no URL": {}, "both": {URL: hubA, Token: "a", Secret: "b"}} {
		if _, err := Post(t.Context(), nil, h, Notification{Topic: bedTopic}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := Post(t.Context(), nil, Hub{URL: hubA}, Notification{Topic: "x"}); err == nil {
		t.Error("a topic that is none is taken")
	}
}

// A token that cannot be in a header is refused as what it is, and not shown.
func TestTokenThatCannotBeSent(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }))
	defer srv.Close()
	for name, h := range map[string]Hub{
		"Token":      {URL: srv.URL, Token: "hidden\n"},
		"Credential": {URL: srv.URL, Credential: func() (token, secret string) { return "hidden\n", "" }},
	} {
		_, err := Post(t.Context(), srv.Client(), h, Notification{Topic: bedTopic})
		if err == nil || !strings.Contains(err.Error(), "token for the hub "+srv.URL+" has a control character") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(Options{Dir: t.TempDir(), Topic: bedTopic, Hubs: []Hub{{URL: srv.URL, Token: "hidden\n"}}}); !errors.Is(err, errToken) {
		t.Errorf("Open: %v", err)
	}
}

// What follows each answer.
func TestDecide_SRC08_SRC09(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	i := interval{From: from, Until: from.Add(10 * time.Second), Entries: 2}
	single := i
	single.Entries = 1
	known := func(at time.Time) bool {
		return at.Equal(from.Add(-5*time.Second)) || at.Equal(from) || at.Equal(i.Until) || at.Equal(i.Until.Add(10*time.Second))
	}
	at := func(s int) time.Time { return from.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name      string
		err       error
		i         interval
		want      step
		permanent bool
	}{
		{"accepted", nil, i, advance, false},
		{"no answer", errors.New("connection refused"), i, again, false},
		{"a wrong token", Hub{Token: "a\nb"}.checkToken(), i, again, true},
		{"lost its tail", &RefusedError{Status: 409, Type: "gap", ExpectedFrom: at(-5)}, i, rewind, false},
		{"lost more than is kept", &RefusedError{Status: 409, Type: "gap", ExpectedFrom: at(-6)}, i, halt, true},
		{"is ahead", &RefusedError{Status: 409, Type: "overlap", ExpectedFrom: at(3)}, i, halt, true},
		{"has again what it had lost", &RefusedError{Status: 409, Type: "overlap", ExpectedFrom: at(10)}, i, rejoin, false},
		{"is ahead by an interval that it was not sent", &RefusedError{Status: 409, Type: "overlap", ExpectedFrom: at(20)}, i, halt, true},
		{"has other bytes", &RefusedError{Status: 409, Type: "conflict", ExpectedFrom: at(-5)}, i, halt, true},
		{"contradicts itself", &RefusedError{Status: 409, Type: "gap", ExpectedFrom: at(0)}, i, again, true},
		{"does not say", &RefusedError{Status: 409}, i, again, true},
		{"too large", &RefusedError{Status: 413}, i, divide, false},
		{"too large alone", &RefusedError{Status: 413}, single, again, true},
		{"wrong token", &RefusedError{Status: 401}, i, again, true},
		{"not allowed", &RefusedError{Status: 403, Type: "topic-denied"}, i, again, true},
		{"mismatch", &RefusedError{Status: 403, Type: "content-mismatch"}, i, again, false},
		{"busy", &RefusedError{Status: 429}, i, again, false},
		{"broken", &RefusedError{Status: 500}, i, again, false},
		{"away", &RefusedError{Status: 503}, i, again, false},
		{"elsewhere", &RefusedError{Status: 307}, i, again, true},
		{"invalid", &RefusedError{Status: 422}, i, again, true},
	} {
		v := decide(c.err, c.i, at(60), at(10), known)
		if v.step != c.want || v.permanent != c.permanent || (v.advice == "") != (c.want == advance) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	for _, c := range []struct {
		expected time.Time
		want     string
	}{
		{at(0), "The hub refuses what it says it expects; the same bytes are sent again."},
		{time.Time{}, "The hub does not say where it expects the next interval to begin; the same bytes are sent again."},
	} {
		if v := decide(&RefusedError{Status: 409, ExpectedFrom: c.expected}, i, at(60), at(10), known); v.advice != c.want {
			t.Errorf("expected %v: %s", c.expected, v.advice)
		}
	}
	ahead := at(0).Add(-time.Hour)
	if v := decide(&RefusedError{Status: 422}, i, ahead, at(10), known); v.step != again || !v.permanent || !strings.Contains(v.advice, "a clock that was ahead, and hubs accept it from 2025-12-31T23:55:20Z on.") {
		t.Errorf("recorded by a clock that was ahead: %+v", v)
	}
	for _, missing := range []string{"no-credential", "topic-not-covered"} {
		v := decide(&RefusedError{Status: 403, Type: missing}, i, at(60), at(10), known)
		if !v.permanent || !strings.HasPrefix(v.advice, "Give the publisher a token or secret") || !strings.Contains(v.advice, "Hub.Token or Hub.Secret") {
			t.Errorf("%s: %+v", missing, v)
		}
	}
}

// A token, which is sent, is not to go over a network unencrypted; a secret is not sent.
func TestInClear(t *testing.T) {
	for _, c := range []struct {
		h    Hub
		want bool
	}{
		{Hub{URL: "http://hub.example/", Token: "t"}, true},
		{Hub{URL: "HTTP://10.0.0.1:8080/", Token: "t"}, true},
		{Hub{URL: "https://hub.example/", Token: "t"}, false},
		{Hub{URL: "http://localhost:8080/", Token: "t"}, false},
		{Hub{URL: "http://127.0.0.2/", Token: "t"}, false},
		{Hub{URL: "http://[::1]:8080/", Token: "t"}, false},
		{Hub{URL: "http://hub.example/", Secret: "s"}, false},
		{Hub{URL: "http://hub.example/"}, false},
	} {
		if got := c.h.InClear(); got != c.want {
			t.Errorf("%+v: %v", c.h, got)
		}
	}
}
