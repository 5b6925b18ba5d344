package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/html"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// linkedHub is a hub with pages for subscribers.
type linkedHub struct {
	*App
	logs *observer.ObservedLogs
}

func startLinked(t *testing.T, args ...string) *linkedHub {
	t.Helper()
	a := newApp(t, append([]string{"--subscriber-pages", "--topic-check=off", "--retry-first=1h", "--retry-max=2h", "--publish-auth=open", "--log-level=debug"}, args...)...)
	core, logs := observer.New(zap.DebugLevel)
	a.log = zap.New(recording{core, &a.recent})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	eventually(t, func() string {
		if err := a.starting(); err != nil {
			return err.Error()
		}
		return ""
	})
	return &linkedHub{a, logs}
}

// api calls the API of the hub, and returns the status.
func (h *linkedHub) api(t *testing.T, method, path string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.AdminAddr()+"/api/v1/subscriptions/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, body := fetch(t, req)
	if into != nil && json.Unmarshal([]byte(body), into) != nil {
		t.Fatalf("%s %s: %d %s", method, path, code, body)
	}
	return code
}

// visit requests a page of a subscriber, and checks what every such page has to fulfil. Without a form
// it is a GET. Redirects are not followed.
func visit(t *testing.T, link string, form url.Values, want int, says ...string) string {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %d, want %d: %v\n%s", method, resp.StatusCode, want, err, body)
	}
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	} {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s %d: %s: %q", method, want, name, got)
		}
	}
	token := link[strings.LastIndex(link, "/")+1:]
	if strings.Contains(string(body), token) && len(token) > 20 || strings.Contains(fmt.Sprint(resp.Header), token) && len(token) > 20 {
		t.Errorf("the answer repeats the token: %v\n%s", resp.Header, body)
	}
	elements(t, string(body), func(n *html.Node) {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.Contains(strings.ToLower(a.Val), "javascript:") || a.Key == "action" {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "script" || n.Data == "style" || n.Data == "iframe" || n.Data == "base" {
			t.Errorf("<%s>", n.Data)
		}
	})
	for _, s := range says {
		if !strings.Contains(string(body), s) {
			t.Errorf("it does not say %q:\n%s", s, body)
		}
	}
	return resp.Header.Get("Location")
}

// Anyone with a link to a subscription sees its state, attempts and gaps in a browser, without
// JavaScript, at any hub on the store. They may retry and replay now and then, and nothing else. No
// log contains the token.
func TestSubscribersPage(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		h := startLinked(t, "--node-id=one")
		testSubscribersPage(t, h, h)
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Standalone(t)
		hub := func(id string, more ...string) *linkedHub {
			return startLinked(t, append(more, "--redis-url="+server.URL(), "--node-id="+id)...)
		}
		// Both hubs have one name, as behind a proxy.
		one := hub("one", "--public-url=http://hub.example/a%20hub")
		testSubscribersPage(t, one, hub("two", "--public-url=http://hub.example/a%20hub"))
	})
}

func testSubscribersPage(t *testing.T, one, two *linkedHub) {
	const topic = "http://127.0.0.1:2/it's'onload=alert(1)/%3Cscript%3E?x=${7*7}{{7*7}}&amp;y"
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "body-of-the-callback")
			return
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	}))
	defer failing.Close()
	at := func(h *linkedHub, u string) string { // the hub itself, in place of the proxy
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		parsed.Scheme, parsed.Host = "http", h.Addr()
		return parsed.String()
	}
	hub, callback := at(one, one.HubURL()), failing.URL+"/javascript:alert(1)?'onerror=alert(1)"
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
	postUntil(t, http.StatusAccepted, hub, "application/x-www-form-urlencoded", form.Encode(), "")
	id := subscriptions.ID(topic, callback).String()
	state := func() (s admin.Subscription) {
		one.api(t, http.MethodGet, id, &s)
		return s
	}
	eventually(t, func() string {
		if s := state(); s.State != "active" {
			return "it is " + s.State
		}
		return ""
	})
	postUntil(t, http.StatusOK, hub, "application/xml", notification(0, 1), `<`+topic+`>; rel="self", <`+one.HubURL()+`>; rel="hub"`)
	eventually(t, func() string {
		if s := state(); s.Attempt != 1 {
			return fmt.Sprintf("%d attempts", s.Attempt)
		}
		return ""
	})

	var first, second admin.Link
	one.api(t, http.MethodPost, id+"/link", &first)
	two.api(t, http.MethodPost, id+"/link", &second)
	if !strings.HasPrefix(first.URL, strings.TrimSuffix(one.HubURL(), "/")+"/subscription/") {
		t.Fatal(first.URL)
	}
	if code, body := get(t, strings.Replace(at(one, first.URL), "/subscription/", "/subscription//", 1)); code != http.StatusNotFound || strings.Contains(body, "/ui/static") {
		t.Errorf("a path that package http would clean: %d %.200s", code, body)
	}
	links := []string{at(one, first.URL), at(two, first.URL), at(one, second.URL), at(two, second.URL)}
	for _, link := range links {
		visit(t, link, nil, http.StatusOK, "failing", "The callback answers 503 Service Unavailable", html.EscapeString(topic), `<button name="action" value="retry">`, "1 notification", "No gap is recorded")
	}
	style := links[0][:strings.LastIndex(links[0], "/")] + "/static/style.css"
	if code, body := get(t, style); code != http.StatusOK || !strings.Contains(body, "--ink") {
		t.Errorf("the stylesheet: %d", code)
	}

	// A refused action uses up no turn, and the sentence is written for a subscriber.
	one.api(t, http.MethodPost, id+"/pause", nil)
	for range 3 {
		visit(t, links[0], url.Values{"action": {"retry"}}, http.StatusConflict, "Nothing was done", "Ask the operator to resume it")
	}
	if _, body := get(t, links[0]); strings.Contains(body, `value="retry"`) || !strings.Contains(body, `value="replay"`) {
		t.Errorf("the page of a paused subscription:\n%s", body)
	}
	one.api(t, http.MethodPost, id+"/resume", nil)
	if to := visit(t, links[0], url.Values{"action": {"retry"}}, http.StatusSeeOther); to != "?done=retry" {
		t.Errorf("it leads to %q", to)
	}
	visit(t, links[0]+"?done=retry", nil, http.StatusOK, "The next attempt is due now.")
	eventually(t, func() string {
		if s := state(); s.Attempt < 2 {
			return "it was not tried"
		}
		return ""
	})
	visit(t, links[0], url.Values{"action": {"replay"}, "since": {"yesterday"}}, http.StatusBadRequest, "Say since when")
	visit(t, links[0], url.Values{"action": {"end"}}, http.StatusBadRequest, "There is no such form.")
	visit(t, links[0], url.Values{"action": {"replay"}, "since": {"2026-01-01T00:00"}}, http.StatusSeeOther)
	again := 0
	for _, link := range links { // a turn may have begun meanwhile
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, link, strings.NewReader("action=replay&since=2026-01-01"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if code, _ := fetch(t, req); code != http.StatusTooManyRequests {
			again++
		}
	}
	if again > 1 {
		t.Errorf("%d more replays at once", again)
	}

	const gone = "This link does not work."
	for _, bad := range []string{links[0] + "A", links[0][:len(links[0])-2], links[0] + "/", links[0] + "/retry", style[:strings.LastIndex(style, "static")] + id} {
		visit(t, bad, nil, http.StatusNotFound, gone)
	}
	visit(t, links[0][:len(links[0])-2], url.Values{"action": {"retry"}}, http.StatusNotFound, gone)
	if code := two.api(t, http.MethodDelete, id+"/link", nil); code != http.StatusOK {
		t.Fatal(code)
	}
	for _, link := range links {
		visit(t, link, nil, http.StatusNotFound, gone)
	}
	var third admin.Link
	two.api(t, http.MethodPost, id+"/link", &third)
	one.api(t, http.MethodDelete, id, nil)
	eventually(t, func() string {
		if s := state(); s.EndedAt.IsZero() {
			return "it has not ended"
		}
		return ""
	})
	visit(t, at(two, third.URL), nil, http.StatusOK, "It has ended", "Subscribe again")
	for _, action := range []string{"retry", "replay", "replay"} {
		visit(t, at(two, third.URL), url.Values{"action": {action}, "since": {"2026-01-01T00:00"}}, http.StatusConflict, "Nothing was done", "Subscribe again")
	}

	for _, e := range one.fleet.now(t.Context()).Events {
		if strings.Contains(e.Text, "action retry") || strings.Contains(e.Text, "action replay") || e.Name == admin.EventOperatorAction && !strings.Contains(e.Text, "; who local") {
			t.Errorf("among what the operator's page lists: %+v", e)
		}
	}
	all := fmt.Sprint(one.fleet.now(t.Context()))
	_, figures := get(t, "http://"+one.AdminAddr()+"/metrics")
	all += figures
	for _, h := range []*linkedHub{one, two} {
		for _, line := range h.logs.All() {
			all += line.Message + fmt.Sprint(line.ContextMap()) + "\n"
		}
	}
	for _, l := range []admin.Link{first, second, third} {
		if token := l.URL[strings.LastIndex(l.URL, "/")+1:]; strings.Contains(all, token) || strings.Contains(all, token[60:]) {
			t.Error("a token is in a log")
		}
	}
	if !strings.Contains(all, "event:subscriber_action") || !strings.Contains(all, "action:link") || !strings.Contains(all, "action:unlink") {
		t.Errorf("what was done is not in the log:\n%s", all)
	}
}

// Without --subscriber-pages there are no such pages, and no links to them.
func TestNoSubscribersPage(t *testing.T) {
	a := startLinked(t, "--subscriber-pages=false")
	var problem admin.Problem
	if code := a.api(t, http.MethodPost, subscriptions.ID("a", "b").String()+"/link", &problem); code != http.StatusNotFound {
		t.Errorf("%d %+v", code, problem)
	}
	if code, _ := get(t, "http://"+a.Addr()+"/subscription/static/style.css"); code != http.StatusNotFound {
		t.Error(code)
	}
}
