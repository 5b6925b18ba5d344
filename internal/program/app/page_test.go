package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// maxPage is how large a page may be, in bytes.
const maxPage = 300 << 10

// pages walks over the pages of a hub.
type pages struct {
	t    *testing.T
	base string
}

// get returns a page, after it has checked that this is a page and harmless.
func (p *pages) get(path string) string {
	p.t.Helper()
	return p.send(http.MethodGet, path, nil, http.StatusOK)
}

// post sends a form, and returns the page that it leads to.
func (p *pages) post(path string, form url.Values, status int) string {
	p.t.Helper()
	return p.send(http.MethodPost, path, form, status)
}

func (p *pages) send(method, path string, form url.Values, status int) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || len(body) > maxPage ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
		p.t.Fatalf("%s %s: %d, %d bytes, %v %v\n%.2000s", method, path, resp.StatusCode, len(body), resp.Header, err, body)
	}
	if on := p.on(resp.Request.URL, string(body)); on != "" { // on a busy machine a page looks for a while only
		return p.get(on)
	}
	return string(body)
}

// on is where a page at u looks or counts on by itself; empty: it has found all.
func (p *pages) on(u *url.URL, page string) (path string) {
	p.t.Helper()
	elements(p.t, page, func(n *html.Node) {
		if n.Data != "a" || attribute(n, "class") != "on" && attribute(n, "href") != "?count=yes" {
			return
		}
		to, err := u.Parse(attribute(n, "href"))
		if err != nil {
			p.t.Fatal(err)
		}
		path = to.RequestURI()
	})
	return path
}

// elements calls visit for each element of a page.
func elements(t *testing.T, page string, visit func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			visit(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// walk visits every page that a link leads to. It checks that each runs nothing except the one script,
// and that its forms lead to this listener. It returns the pages by path.
func (p *pages) walk(begin string) map[string]string {
	p.t.Helper()
	found := map[string]string{}
	for left := []string{begin}; len(left) > 0; {
		path := left[0]
		left = left[1:]
		if _, known := found[path]; known {
			continue
		}
		found[path] = p.get(path)
		ids := map[string]bool{}
		elements(p.t, found[path], func(n *html.Node) {
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.Contains(strings.ToLower(a.Val), "javascript:") {
					p.t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
				}
			}
			if id := attribute(n, "id"); id != "" && ids[id] {
				p.t.Errorf("%s: the id %s is there twice", path, id)
			} else {
				ids[id] = true
			}
			switch n.Data {
			case "script":
				if attribute(n, "src") != "/ui/static/live.js" || n.FirstChild != nil {
					p.t.Errorf("%s: another script: %+v", path, n.Attr)
				}
			case "style", "iframe", "object", "embed", "base", "meta":
				if n.Data != "meta" || attribute(n, "http-equiv") != "" {
					p.t.Errorf("%s: <%s>", path, n.Data)
				}
			case "form":
				if to := attribute(n, "action"); to != "" && !strings.HasPrefix(to, "/ui/") {
					p.t.Errorf("%s: a form leads to %s", path, to)
				}
			case "a":
				at, err := url.Parse(path)
				if err != nil {
					p.t.Fatal(err)
				}
				to, err := at.Parse(attribute(n, "href"))
				switch {
				case err != nil:
					p.t.Errorf("%s: %v", path, err)
				case to.IsAbs() && (to.Scheme != "http" && to.Scheme != "https" || attribute(n, "rel") != "noreferrer noopener"):
					p.t.Errorf("%s: a link leads to %s", path, to)
				case slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "download" }): // no page
				case !to.IsAbs() && !strings.HasPrefix(to.Path, "/ui/find"):
					to.Fragment = ""
					left = append(left, to.String())
				}
			}
		})
	}
	return found
}

// intervalEnd is the end of the interval that the page of a notification shows.
func intervalEnd(t *testing.T, page string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, "<dt>Interval</dt><dd>")
	interval, _, _ := strings.Cut(rest, "<")
	_, until, ok := strings.Cut(interval, " to ")
	if !ok {
		t.Fatalf("the page of a notification shows no interval:\n%s", page)
	}
	return until
}

// The operator's page shows how the hub is, in words, with links to all that there is, and
// its forms do what the API does. No name that strangers chose runs in it.
func TestPages(t *testing.T) {
	const topic = "http://127.0.0.1:2/it's'onload=alert(1)/%3Cscript%3Ealert(1)%3C/script%3E?x=${7*7}{{7*7}}&amp;y"
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<script>no</script> \u202e\x1b[2J")
			return
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	}))
	defer failing.Close()
	good := newCounting(t)
	a := newApp(t, "--topic-check=off", "--node-id=<b>&amp;node", "--retry-first=1h", "--retry-max=2h")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(t.Context()) }) //nolint:usetesting // it has not ended then
	p := &pages{t: t, base: "http://" + a.AdminAddr()}
	eventually(t, func() string {
		if err := a.starting(); err != nil {
			return err.Error()
		}
		return ""
	})
	if got := p.get("/ui/"); !strings.Contains(got, "The hub is ready, and there are no subscriptions yet.") || !strings.Contains(got, "No loss is in sight.") {
		t.Errorf("an empty hub: %s", got)
	}
	p.walk("/ui/")

	bad := failing.URL + "/" + strings.Repeat("<'&>"[1:3], 900) // as long as a callback may be
	for _, callback := range []string{bad, good.URL + "/javascript:alert(1)?secret=s3cr3t"} {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
		postUntil(t, http.StatusAccepted, "http://"+a.Addr()+"/", "application/x-www-form-urlencoded", form.Encode(), "")
	}
	eventually(t, func() string {
		if d := a.dispatcher.Load(); d.Subscribers(topic) != 2 {
			return "the subscriptions are not in force"
		}
		return ""
	})
	postUntil(t, http.StatusOK, "http://"+a.Addr()+"/", "application/xml", notification(0, 1), `<`+topic+`>; rel="self", <`+a.HubURL()+`>; rel="hub"`)
	eventually(t, func() string {
		if now := a.fleet.now(t.Context()); len(now.Failing) != 1 || good.delivered.Load() != 1 {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})
	postUntil(t, http.StatusBadRequest, "http://"+a.Addr()+"/", "application/xml", "<script>alert(1)", `<`+topic+`>; rel="self", <`+a.HubURL()+`>; rel="hub"`)
	eventually(t, func() string { // it is noted after the answer
		if list, err := a.refusals.list(t.Context()); err != nil || len(list) != 1 {
			return fmt.Sprint(list, err)
		}
		return ""
	})
	found := p.walk("/ui/")
	badID, topicID := subscriptions.ID(topic, bad).String(), journal.TopicID(topic).String()
	var notificationID string
	for path, page := range found {
		if id, ok := strings.CutPrefix(path, "/ui/notifications/"); ok {
			notificationID = id
		}
		if !strings.HasPrefix(path, "/ui/subscriptions/") && strings.Contains(page, "s3cr3t") {
			t.Errorf("%s shows the query of a callback", path)
		}
	}
	for path, want := range map[string][]string{
		"/ui/":                                {"1 subscription fails, of 2; the hub tries again.", "First loss", "loses a notification then (<code>--give-up</code>), unless it accepts it before.", "answers 503 Service Unavailable", "&lt;b&gt;&amp;amp;node"},
		"/ui/subscriptions":                   {"Hosts that fail", "Failing the longest", "active", "failing"},
		"/ui/subscriptions/" + badID:          {"It answers 503 Service Unavailable", "next try in", "Try now", "End the subscription", "<pre class=\"answer\" tabindex=\"0\">&lt;script&gt;no&lt;/script&gt; \ufffd\ufffd[2J</pre>"},
		"/ui/topics":                          {"/ui/topics/" + topicID},
		"/ui/topics/" + topicID:               {"notification 1", "<rect class=\"accepted\"", "Reset the topic", "Refused in the last day", "is the furthest behind: by 1 notification"},
		"/ui/notifications/" + notificationID: {"delivered to</dt><dd>1", "not delivered yet</dt><dd>1", "Who waits for it", "Who got it", "  &lt;rs:md capability"},
		"/ui/refusals":                        {"not-well-formed, 400", "Line 1, column"},
		"/ui/publishers":                      {"without a credential", ">1</a>"},
		"/ui/settings":                        {"<code>listen</code>", "<b>--listen</b>"},
		"/ui/hub":                             {a.HubURL(), "embedded"},
	} {
		for _, w := range want {
			if !strings.Contains(found[path], w) {
				t.Errorf("%s does not say %q:\n%.4000s", path, w, found[path])
			}
		}
	}

	// Whatever somebody pastes leads to what it names.
	for q, want := range map[string]string{
		badID: "<h1>Subscription 127.0.0.1", topicID: "<h1>Topic", notificationID: "<h1>Notification",
		`{"event":"delivery_attempt","notification_id":"` + notificationID + `"}`: "<h1>Notification", topic: "<h1>Topic",
		strings.TrimPrefix(good.URL, "http://"): "javascript:alert", good.URL + "/other": "javascript:alert",
		topic + " " + intervalEnd(t, found["/ui/notifications/"+notificationID]): "<h1>Notification",
	} {
		if got := p.get("/ui/find?" + url.Values{"q": {q}}.Encode()); !strings.Contains(got, want) {
			t.Errorf("%s is not found: %s", q, got)
		}
	}
	// On a busy machine, the search for a callback may lead to a list that looks on.
	for q, want := range map[string]string{bad: "<h1>Subscription 127.0.0.1", "http://127.0.0.1:2/other": "no subscription has a callback at its host"} {
		eventually(t, func() string {
			_, got := get(t, p.base+"/ui/find?"+url.Values{"q": {q}}.Encode())
			if strings.Contains(got, want) {
				return ""
			}
			return fmt.Sprintf("%s is not found: %.500s", q, got)
		})
	}
	p.send(http.MethodGet, "/ui/find?q=what%20is%20this", nil, http.StatusNotFound)
	if got := p.send(http.MethodGet, "/ui/find?"+url.Values{"q": {topic + " 2001-01-01"}}.Encode(), nil, http.StatusNotFound); !strings.Contains(got, "2001-01-01T00:00:00Z in it is kept") {
		t.Errorf("at an instant without a notification: %s", got)
	}
	p.send(http.MethodGet, "/ui/subscriptions/nothing", nil, http.StatusNotFound)
	p.send(http.MethodGet, "/ui/nothing", nil, http.StatusNotFound)
	for _, path := range []string{"/ui/static/", "/ui/static/nothing.css", "/ui/static/..%2ftemplates%2fnow.html"} {
		if code, body := get(t, p.base+path); code != http.StatusNotFound && code != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
	}
	for path, media := range map[string]string{"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+"/ui/static/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), media) || resp.Body.Close() != nil {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}

	// An action that a typed word has to confirm is not done without the word.
	says := func(page, want string) {
		t.Helper()
		if !strings.Contains(page, want) {
			t.Errorf("it does not say %q:\n%s", want, page)
		}
	}
	for _, form := range []string{"subscriptions/" + badID + "/end", "topics/" + topicID + "/reset", "topics/" + topicID + "/remove", "topics/" + topicID + "/force"} {
		says(p.post("/ui/"+form, url.Values{"confirm": {"yes"}}, http.StatusBadRequest), "Nothing was done.")
	}
	says(p.post("/ui/subscriptions/"+badID+"/replay", url.Values{"since": {"yesterday"}}, http.StatusBadRequest), "Say since when")
	says(p.post("/ui/topics/"+topicID+"/end", nil, http.StatusNotFound), "There is no such form.")
	document, err := http.Get(p.base + "/ui/notifications/" + notificationID + "/document") //nolint:noctx // it ends with the hub
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(document.Body); err != nil || document.Body.Close() != nil || string(text) != notification(0, 1) || !strings.HasPrefix(document.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the document: %v %s", document.Header, text)
	}
	says(p.post("/ui/subscriptions/"+badID+"/verify", nil, http.StatusOK), "Confirmed: it wants the topic.")
	says(p.post("/ui/subscriptions/"+badID+"/pause", nil, http.StatusOK), "It gets nothing since the operator paused it")
	says(p.post("/ui/subscriptions/"+badID+"/retry", nil, http.StatusConflict), "is paused")
	says(p.get("/ui/subscriptions?state=paused"), badID)
	says(p.post("/ui/subscriptions/"+badID+"/resume", nil, http.StatusOK), "everything new")
	// Many at once need their number.
	says(p.get("/ui/subscriptions/all?do=pause&topic="+url.QueryEscape(topic)), "<strong>2 subscriptions</strong>")
	says(p.send(http.MethodGet, "/ui/subscriptions/all?do=explode", nil, http.StatusBadRequest), "Choose what to do")
	says(p.send(http.MethodGet, "/ui/subscriptions/all?do=replay", nil, http.StatusBadRequest), "Say since when")
	says(p.post("/ui/subscriptions/all?topic="+url.QueryEscape(topic), url.Values{"do": {"pause"}, "confirm": {"3"}}, http.StatusBadRequest), "There are 2 subscriptions now")
	says(p.post("/ui/subscriptions/all?topic="+url.QueryEscape(topic), url.Values{"do": {"pause"}, "confirm": {"2"}}, http.StatusOK), "2 subscriptions: paused.")
	says(p.post("/ui/subscriptions/all?state=paused", url.Values{"do": {"resume"}, "confirm": {"2"}}, http.StatusOK), "2 subscriptions: resumed.")
	says(p.post("/ui/subscriptions/"+badID+"/retry", nil, http.StatusOK), "The next attempt is due now.")
	says(p.post("/ui/subscriptions/"+badID+"/replay", url.Values{"since": {"2026-01-01T00:00"}}, http.StatusOK), "delivered again")
	says(p.post("/ui/hub/reload", nil, http.StatusOK), "The files were read again.")
	says(p.post("/ui/topics/"+topicID+"/reset", url.Values{"confirm": {"reset"}}, http.StatusOK), "The next notification may start anywhere.")
	says(p.post("/ui/topics/"+topicID+"/remove", url.Values{"confirm": {"remove"}}, http.StatusConflict), "active subscriptions")
	says(p.post("/ui/subscriptions/"+badID+"/end", url.Values{"confirm": {" End "}}, http.StatusOK), "The subscription has ended")
	says(p.post("/ui/topics/"+topicID+"/force", url.Values{"confirm": {"remove and end"}}, http.StatusOK), "The topic is removed, and its subscriptions have ended.")
	if events := a.fleet.now(t.Context()).Events; !slices.ContainsFunc(events, func(e admin.Event) bool {
		return e.Name == "operator_action" && strings.Contains(e.Text, "action remove") && strings.Contains(e.Text, topic)
	}) {
		t.Errorf("the change is not among the events: %+v", events)
	}
}
