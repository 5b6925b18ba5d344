package ui

import (
	"encoding/json"
	"html"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/journal"
)

// XML is shown with an element on each line, and nothing of it is lost. Text that is not XML is
// shown as it is.
func TestDocumentsAreReadable(t *testing.T) {
	for document, want := range map[string]string{
		"": "",
		`<?xml version="1.0"?><a xmlns:x="u"><x:b c="1 &lt; 2"/><d>text <e>more</e></d></a>`: "<?xml version=\"1.0\"?>\n<a xmlns:x=\"u\">\n  <x:b c=\"1 &lt; 2\"/>\n  <d>text\n    <e>more</e>\n  </d>\n</a>",
		"<a>\n  <b></b>\n</a>\n":      "<a>\n  <b></b>\n</a>",
		"<a><!-- x --><b>":            "<a>\n  <!-- x -->\n  <b>",
		"<a><b c=":                    "<a>\n  <b c=",
		"{\"json\": [1]}":             "{\"json\": [1]}",
		"\x00\xff\u202e<a/>":          "\ufffd\ufffd\ufffd<a/>",
		"<a><![CDATA[<script>]]></a>": "<a><![CDATA[<script>]]></a>",
	} {
		if got, cut := readable([]byte(document)); got != want || cut {
			t.Errorf("%q:\n%s\nwant\n%s", document, got, want)
		}
	}
	long := "<a>" + strings.Repeat("<b/>", maxDocument) + "</a>"
	if got, cut := readable([]byte(long)); !cut || len(got) > 3*maxDocument {
		t.Errorf("%d bytes, cut %v", len(got), cut)
	}
}

func FuzzDocument(f *testing.F) {
	for _, s := range []string{"<a><b/></a>", "<a", "</a></a>", "<a>x</a>", "\xff<a>\x00", "\u3000<a>\u00a0</a>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		space := func(r rune) rune {
			if strings.ContainsRune(" \t\r\n", r) {
				return -1
			}
			return r
		}
		got, _ := readable(document)
		if want := admin.Readable(document); strings.Map(space, got) != strings.Map(space, want) {
			t.Errorf("%q became %q", document, got)
		}
	})
}

// The picture of a topic has its intervals, what was lost and why, and where the slowest
// subscription is. All of it is within the drawing.
func TestTimeline(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	list := []admin.Notification{{Seq: 1, From: at(0), Until: at(10)}, {Seq: 2, From: at(20), Until: at(25)}, {Seq: 3, From: at(40), Until: at(100)}}
	gaps := []admin.Gap{{From: at(10), Until: at(20), Reason: journal.GapSource}, {From: at(30), Until: at(40), Reason: journal.GapRolledBack}, {Until: at(5)}}
	slow := &admin.Laggard{Callback: "https://s.example/cb?token=secret", Lag: admin.Lag{Notifications: 2, Seconds: 75 * 60}}
	tl := newTimeline(list, gaps, slow, 4)
	classes := ""
	for _, b := range tl.Bars {
		classes += b.Class + " "
		if b.X < 0 || b.X+b.Width > timelineWidth || b.Width < leastBar {
			t.Errorf("a bar leaves the drawing: %+v", b)
		}
	}
	if classes != "gap rewind accepted accepted accepted slowest " || tl.Bars[5].X != 250 {
		t.Errorf("%s%+v", classes, tl.Bars)
	}
	if tl.Says != "s.example/cb is the furthest behind: by 2 notifications, 1h15m." {
		t.Error(tl.Says)
	}
	slow.Lag.Notifications = 4 // all of them: it never got one
	if tl = newTimeline(list, nil, slow, 4); len(tl.Bars) != 4 || tl.Bars[3].X != 0 {
		t.Errorf("one that got nothing: %+v", tl.Bars)
	}
	if tl = newTimeline(list, nil, slow, 9); len(tl.Bars) != 3 || tl.Says == "" {
		t.Errorf("one that is after the drawing: %+v", tl.Bars)
	}
	if tl = newTimeline([]admin.Notification{{ReceivedAt: at(1)}}, nil, nil, 1); len(tl.Bars) != 0 {
		t.Errorf("of what has no interval: %+v", tl.Bars)
	}
}

// If counting takes long, the page of a notification shows everything else, and counts when the
// operator asks for it.
func TestNotificationIsShownBeforeItIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, nameless, brokenOff := true, false, false
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/document"):
				_, _ = io.WriteString(w, "<a/>")
			case strings.HasSuffix(r.URL.Path, "/subscriptions") && nameless:
				<-r.Context().Done()
				w.WriteHeader(http.StatusServiceUnavailable)
			case strings.HasSuffix(r.URL.Path, "/subscriptions") && brokenOff:
				_, _ = io.WriteString(w, `{"items":[{"id":"i"`)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			case strings.HasSuffix(r.URL.Path, "/subscriptions"):
				_, _ = io.WriteString(w, `{"items":[{"id":"i","callback":"https://waits.example/"}]}`)
			case r.URL.Query().Get("count") == "false":
				_, _ = io.WriteString(w, `{"id":"n","topic":"https://example.org/t"}`)
			case slow:
				<-r.Context().Done()
			default:
				_, _ = io.WriteString(w, `{"id":"n","topic":"https://example.org/t","pending":7,"as_of":"2026-01-01T00:00:00Z"}`)
			}
		})
		page := func(path string) string {
			w := httptest.NewRecorder()
			New(api).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d", path, w.Code)
			}
			return w.Body.String()
		}
		if got := page("/ui/notifications/n"); !strings.Contains(got, "is not counted yet") || !strings.Contains(got, "https://example.org/t") || !strings.Contains(got, "&lt;a/&gt;") {
			t.Error(got)
		}
		slow = false
		for _, path := range []string{"/ui/notifications/n", "/ui/notifications/n?count=yes"} {
			if got := page(path); strings.Contains(got, "is not counted yet") || !strings.Contains(got, "<dd>7</dd>") || !strings.Contains(got, "waits.example") {
				t.Errorf("%s: %s", path, got)
			}
		}
		for _, why := range []*bool{&nameless, &brokenOff} {
			nameless, brokenOff = false, false
			*why = true
			if got := page("/ui/notifications/n"); !strings.Contains(got, "Show which") || !strings.Contains(got, "<dd>7</dd>") || !strings.Contains(got, "&lt;a/&gt;") {
				t.Errorf("there was no time for names: %s", got)
			}
		}
	})
}

// A list that the API breaks off, as where its store fails, is an error that the page tells.
func TestListThatBreaksOff(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"id":"i"`)
		panic(http.ErrAbortHandler)
	})
	for _, path := range []string{"topics", "subscriptions", "refusals", "notifications/n", "settings"} {
		w := httptest.NewRecorder()
		New(api).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "could not be read to its end") {
			t.Errorf("%s: %d %.500s", path, w.Code, w.Body)
		}
	}
}

// A page shows at most this much of any document, once it is escaped.
func TestDocumentsAreBounded(t *testing.T) {
	for name, document := range map[string]string{
		"brackets": strings.Repeat("<", 1<<17), "elements": strings.Repeat("<a>", 1<<15), "quotes": strings.Repeat(`"'&+`, 1<<15), "words": strings.Repeat("ä", 1<<16),
	} {
		text, cut := readable([]byte(document))
		if n := len(template.HTMLEscapeString(text)); !cut || n > maxDocument || n < maxDocument/2 {
			t.Errorf("%s: %d bytes, cut: %t", name, n, cut)
		}
	}
	if text, cut := readable([]byte("<a/>")); text != "<a/>" || cut {
		t.Errorf("%q, %t", text, cut)
	}
}

// Long names from outside do not make a page long, and a long document is not read for it.
func TestPagesAreBounded(t *testing.T) {
	long := "https://example.org/?" + strings.Repeat("&", 2000)
	asked := map[string]int{}
	answers := map[string]any{
		"/api/v1/subscriptions":   admin.Page[admin.Subscription]{Items: slices.Repeat([]admin.Subscription{{Topic: long, Callback: long, LastError: "error"}}, 50)},
		"/api/v1/topics":          admin.Page[admin.Topic]{Items: slices.Repeat([]admin.Topic{{URL: long}}, 50)},
		"/api/v1/refusals":        admin.Page[admin.Refused]{Items: slices.Repeat([]admin.Refused{{Topic: long, Detail: long, CallbackHost: "h"}}, 50), Next: "7"},
		"/api/v1/now":             admin.Now{FailingHosts: slices.Repeat([]admin.FailingHost{{Host: excerpt.Cut(long, admin.MaxShown)}}, 20), Failing: slices.Repeat([]admin.Laggard{{Topic: long, Callback: long}}, 20), Slowest: slices.Repeat([]admin.Laggard{{Topic: long, Callback: long}}, 20)},
		"/api/v1/notifications/n": admin.NotificationStatus{Notification: admin.Notification{ID: "n", Bytes: maxRead + 1}, Topic: long, AsOf: time.Now()},
	}
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		if answer, ok := answers[r.URL.Path]; ok {
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		http.NotFound(w, r)
	}))
	for path, says := range map[string]string{"": "", "subscriptions": "", "topics": "", "refusals": `href="?after=7"`, "notifications/n": "too long to be shown"} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil))
		if n := w.Body.Len(); w.Code != http.StatusOK || n > 300<<10 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("/ui/%s: %d with %d bytes and no %q: %s", path, w.Code, n, says, w.Body.String()[max(0, n-500):])
		}
	}
	if n := asked["/api/v1/notifications/n/document"]; n != 0 {
		t.Error("a document was read that is too long to be shown")
	}
}

// The page of a subscription has all gaps that there may be, the latest as well. The page of a topic
// leads to the refusals that it does not show.
func TestPagesCutNothingInSilence(t *testing.T) {
	gaps := make([]admin.Gap, 2*journal.MaxGaps+1) // its own, those of its topic, and the one to come
	for i := range gaps {
		gaps[i] = admin.Gap{Count: uint64(1_000_000 + i), Reason: journal.GapGaveUp}
	}
	const id, topic = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "https://example.org/t?a=b&c"
	refused := 10
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := admin.DefaultLimit
		if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
			limit = min(n, admin.MaxLimit)
		}
		var answer any = admin.Page[admin.Attempt]{}
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/gaps"):
			answer = admin.Page[admin.Gap]{Items: gaps[:min(limit, len(gaps))]}
		case path == "/api/v1/subscriptions/"+id:
			answer = admin.Subscription{ID: id, State: "active"}
		case path == "/api/v1/topics/"+id:
			answer = admin.Topic{ID: id, URL: topic}
		case path == "/api/v1/refusals":
			some := admin.Page[admin.Refused]{Items: make([]admin.Refused, min(limit, refused))}
			if refused > limit {
				some.Next = "7"
			}
			answer = some
		case path == "/api/v1/now":
			answer = admin.Now{}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	get := func(path string) string {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil))
		return w.Body.String()
	}
	body := get("subscriptions/" + id)
	if n := len(regexp.MustCompile(`>1000\d\d\d<`).FindAllString(body, -1)); n != len(gaps) {
		t.Errorf("%d of %d gaps are shown: %.3000s", n, len(gaps), body)
	}
	more := `href="/ui/refusals?topic=https%3a%2f%2fexample.org%2ft%3fa%3db%26c"`
	if body = get("topics/" + id); strings.Contains(body, more) {
		t.Error("a link to what is shown")
	}
	refused = 11
	if body = get("topics/" + id); !strings.Contains(body, more) {
		t.Errorf("no %s: %s", more, body)
	}
}

// A subscription that has ended has no lease any more, whatever its lease was.
func TestNoLeaseAfterTheEnd(t *testing.T) {
	s := admin.Subscription{ID: "s", State: "ended", ExpiresAt: time.Now().AddDate(1, 0, 0), EndedAt: time.Now(), EndReason: "unsubscribed"}
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/subscriptions/s":
			_ = json.NewEncoder(w).Encode(s)
		case "/api/v1/subscriptions":
			_ = json.NewEncoder(w).Encode(admin.Page[admin.Subscription]{Items: []admin.Subscription{s}})
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	year := s.ExpiresAt.Format("2006-")
	for _, path := range []string{"subscriptions/s", "subscriptions"} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil))
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "ended") || strings.Contains(body, year) {
			t.Errorf("/ui/%s: %d, %s", path, w.Code, body)
		}
	}
}

// While the store does not answer, the pages do not say that another hub is ready, or how many shards
// it has. That a publisher has no credential does not say how it proves itself.
func TestWhatIsUnknownIsNotClaimed(t *testing.T) {
	answers := map[string]any{
		"/api/v1/now":        admin.Now{HubsError: "no answer", Hubs: []admin.HubNow{{Node: admin.Node{ID: "silent", Shards: 7}}}},
		"/api/v1/info":       admin.Info{Version: "v9", NodesError: "no answer", Nodes: []admin.Node{{ID: "silent"}}},
		"/api/v1/publishers": admin.Publishers{Items: []admin.Publisher{{}}},
	}
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(answers[r.URL.Path]) }))
	for path, wanted := range map[string][2]string{
		"":           {`<span class="tag bad">unknown</span>`, ">ready<"},
		"hub":        {`data-label="Shards">-<`, `data-label="Shards">0`},
		"publishers": {"--publish-auth=open", ">the content of the topic<"},
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil))
		if body := w.Body.String(); !strings.Contains(body, wanted[0]) || strings.Contains(body, wanted[1]) {
			t.Errorf("/ui/%s: no %s, or %s: %s", path, wanted[0], wanted[1], body)
		}
	}
}

// The field at the top finds the notification of a topic at a time, with and without seconds. What
// comes after a URL and is no time is not taken for a part of the URL.
func TestFindAtATime(t *testing.T) {
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = admin.Page[admin.Subscription]{Items: []admin.Subscription{{ID: "s", Callback: "https://example.org/other"}}}
		switch at := r.URL.Query().Get("at"); {
		case at == "2026-11-23T14:00:00Z":
			answer = admin.Page[admin.Notification]{Items: []admin.Notification{{ID: "n"}}}
		case at != "":
			answer = admin.Page[admin.Notification]{}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	for after, to := range map[string]string{
		"2026-11-23T14:00Z": "/ui/notifications/n", "2026-11-23T15:00+01:00": "/ui/notifications/n", "2026-11-23T14:00:00Z": "/ui/notifications/n",
		"2026-11-23 14:00": "/ui/notifications/n", "2026-11-23T14:01Z": "", "yesterday": "",
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/find?"+url.Values{"q": {"https://example.org/changes/ " + after}}.Encode(), nil))
		if got := w.Header().Get("Location"); got != to || to == "" && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, to %q, want %q", after, w.Code, got, to)
		}
	}
}

// Links to the next page, and forms about what a filter shows, have the filter as it was.
func TestLinksKeepTheFilter(t *testing.T) {
	var asked []*url.URL
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL)
		switch {
		case r.Method == http.MethodPost:
			_ = json.NewEncoder(w).Encode(admin.Many{Matched: 3, Done: 2, Next: "n1", Error: "The disk is full."})
		case strings.HasSuffix(r.URL.Path, "/count"):
			_ = json.NewEncoder(w).Encode(admin.Many{Matched: 3})
		default:
			_ = json.NewEncoder(w).Encode(admin.Page[admin.Subscription]{Items: []admin.Subscription{{ID: "a"}}, Next: "n1"})
		}
	}))
	ask := func(method, path string, form url.Values) string {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	link := func(text, attribute, begins string) *url.URL {
		m := regexp.MustCompile(attribute + `="(` + regexp.QuoteMeta(begins) + `[^"]*)"`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s that begins with %s in\n%s", attribute, begins, text)
		}
		u, err := url.Parse(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	filter := url.Values{"topic": {`https://example.org/?a=1&b="c"+d`}, "state": {"failing"}}
	same := func(what string, got, want url.Values) {
		t.Helper()
		if got.Encode() != want.Encode() {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	next := link(ask(http.MethodGet, "/ui/subscriptions?"+filter.Encode(), nil), "href", "?").Query()
	want := url.Values{"after": {"n1"}, "topic": filter["topic"], "state": filter["state"]}
	same("the next page", next, want)
	confirm := ask(http.MethodGet, "/ui/subscriptions/all?do=retry&"+filter.Encode(), nil)
	same("the back link", link(confirm, "href", "/ui/subscriptions?").Query(), filter)
	action := link(confirm, "action", "/ui/subscriptions/all")
	same("the form", action.Query(), filter)
	asked = nil
	done := ask(http.MethodPost, action.String(), url.Values{"do": {"retry"}, "confirm": {"3"}})
	same("what was counted", asked[0].Query(), filter)
	same("what was done", asked[1].Query(), filter)
	if !strings.Contains(done, "The disk is full.") {
		t.Error("the page hides the failure")
	}
	goOn := link(done, "action", "/ui/subscriptions/all")
	same("to go on", goOn.Query(), want)
	asked = nil
	ask(http.MethodPost, goOn.String(), url.Values{"do": {"retry"}, "confirm": {"go on"}})
	same("what went on", asked[0].Query(), want)
}

// Subscriptions that are too many for one page are counted on by a link, which the browser
// follows. Nothing can be confirmed until all are counted, and then all of them are.
func TestCountInParts(t *testing.T) {
	next := map[string]string{"": "a1", "a1": "a2", "a2": ""}
	page := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(admin.Many{Matched: 30, Done: 30})
			return
		}
		_ = json.NewEncoder(w).Encode(admin.Many{Matched: 10, Next: next[r.URL.Query().Get("after")]})
	}))
	refresh := ""
	ask := func(method, path string, form url.Values) string {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		refresh = w.Header().Get("Refresh")
		return w.Body.String()
	}
	on := regexp.MustCompile(`class="on" href="([^"]*)"`)
	at := "/ui/subscriptions/all"
	query := "?do=end&host=h.example"
	for _, so := range []string{"10 subscriptions", "20 subscriptions"} {
		body := ask(http.MethodGet, at+query, nil)
		m := on.FindStringSubmatch(body)
		if m == nil || !strings.Contains(body, so+"</strong> so far") || strings.Contains(body, `name="confirm"`) {
			t.Fatalf("%s%s: no way on from %s so far in\n%s", at, query, so, body)
		}
		if query = html.UnescapeString(m[1]); refresh != "0; url="+query {
			t.Errorf("the browser goes on with %q", refresh)
		}
	}
	body := ask(http.MethodGet, at+query, nil)
	if on.MatchString(body) || refresh != "" || !strings.Contains(body, "<b>30</b> to confirm") || !strings.Contains(body, `action="/ui/subscriptions/all?host=h.example"`) {
		t.Errorf("all are counted:\n%s", body)
	}
	for typed, says := range map[string]string{"10": "There are 30 subscriptions now", "27": "There are 30", "34": "There are 30", "": "There are 30", "30": "30 subscriptions", " 3,0": "30 subscriptions: ended", "28": "30 subscriptions: ended", "33": "30 subscriptions: ended"} {
		if body := ask(http.MethodPost, at+"?host=h.example", url.Values{"do": {"end"}, "confirm": {typed}}); !strings.Contains(body, says) {
			t.Errorf("typed %s:\n%s", typed, body)
		}
	}
}
