package hub

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/validate"
)

// oneNotification is a journal that has one notification of the topic.
func oneNotification(t *testing.T) *storetest.Memory {
	t.Helper()
	store := storetest.NewMemory()
	_, err := store.Append(t.Context(), noon, topic, journal.Entry{
		From: noon.Add(-time.Hour), Until: noon, Kind: journal.KindChange, MediaType: "application/xml",
		Body: []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T12:00:00Z"/></urlset>`),
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// historyOf answers readers of a store.
func historyOf(t *testing.T, store interface {
	journal.Reader
	journal.Watcher
},
) *history.Service {
	t.Helper()
	s, err := history.New(history.Options{HubURL: hubURL, Journal: store, Watcher: store})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withHistory is a hub with the journal of oneNotification.
func withHistory(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	store := oneNotification(t)
	return newWorld(t, append([]func(*Options){func(o *Options) {
		o.History, o.Read = historyOf(t, store), ReadOpen
		o.Publishers = validate.NewPublishers([]validate.Publisher{{
			Name: "bob", Reads: patterns("https://example.org/*"), TokenSHA256: [][32]byte{sha256.Sum256([]byte("bob's token"))},
		}})
	}}, change...)...)
}

// ask sends a question, with headers in pairs.
func (w *world) ask(method, query string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, hubURL+"?"+query, nil)
	r.RemoteAddr = "192.0.2.1:99"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.do(r)
}

// about is the query of a question about a topic.
func about(topic, rest string) string { return "hub.topic=" + url.QueryEscape(topic) + rest }

// Each refusal has its status, and is never stored by a cache.
func TestQuestionsThatAreRefused(t *testing.T) {
	token := func(o *Options) { o.Read = ReadToken }
	off := func(o *Options) { o.Read = ReadOff }
	denied := func(o *Options) { o.TopicDeny = patterns("https://example.org/*") }
	since := "&since=" + url.QueryEscape(noon.Add(-time.Minute).Format(time.RFC3339))
	for _, tc := range []struct {
		why, query string
		headers    []string
		change     func(*Options)
		status     int
		slug       string
	}{
		{"nothing is asked", about(topic, ""), nil, nil, 400, "bad-query"},
		{"a wrong time", about(topic, "&since=x"), nil, nil, 400, "bad-query"},
		{"two topics", about(topic, "&hub.topic=b"+since), nil, nil, 400, "bad-query"},
		{"two topics and one document", about(topic, "&hub.topic=b&latest"), nil, nil, 400, "bad-query"},
		{"a query that cannot be read", about(topic, "&after=%zz"), nil, nil, 400, "bad-query"},
		{"a semicolon", about(topic, since+";form=meta"), nil, nil, 400, "bad-query"},
		{"a semicolon behind the topic", about(topic, ";latest"), nil, nil, 400, "bad-query"},
		{"another topic", about("https://example.org/other/", since), nil, nil, 404, "unknown-topic"},
		{"a topic that is not served", about(topic, since), nil, denied, 404, "unknown-topic"},
		{"before the beginning", about(topic, "&since=2020"), nil, nil, 410, "trimmed"},
		{"after the end", about(topic, "&since=2099"), nil, nil, 409, "not-yet"},
		{"no XML", about(topic, since), []string{"Accept", "application/json"}, nil, 406, "not-acceptable"},
		{"switched off", about(topic, since), nil, off, 404, "history-off"},
		{"no token", about(topic, since), nil, token, 403, "no-credential"},
		{"a wrong token", about(topic, since), []string{"Authorization", "Bearer x"}, token, 401, "wrong-credential"},
		{"a stream behind what cannot be read", about(topic, "&after=earliest;form=meta"), []string{"Accept", "text/event-stream, application/problem+json;q=0.5"}, nil, 400, "bad-query"},
		{"a stream of a document", about(topic, "&latest"), []string{"Accept", "text/event-stream"}, nil, 400, "bad-query"},
		{"a topic that the token does not cover", about("https://other.example/", since), []string{"Authorization", "Bearer bob's token"}, token, 404, "unknown-topic"},
	} {
		w := withHistory(t, tc.change)
		if !slices.Contains(tc.headers, "Accept") {
			tc.headers = append(tc.headers, "Accept", "application/xml, application/problem+json")
		}
		rec := w.ask(http.MethodGet, tc.query, tc.headers...)
		var p problem
		if rec.Code != tc.status || rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %s", tc.why, rec.Code, rec.Body)
		}
		if json.Unmarshal(rec.Body.Bytes(), &p) == nil && !strings.HasSuffix(p.Type, "#"+tc.slug) {
			t.Errorf("%s: %s, want %s", tc.why, p.Type, tc.slug)
		}
	}
}

// The problem has what a reader needs to continue.
func TestProblemsOfReadersSayWhatThereIs(t *testing.T) {
	w := withHistory(t)
	const accept = "application/problem+json, application/xml;q=0.5"
	var p problem
	if err := json.Unmarshal(w.ask(http.MethodGet, about(topic, "&since=2020"), "Accept", accept).Body.Bytes(), &p); err != nil || p.Earliest != instant(noon.Add(-time.Hour)) {
		t.Errorf("%+v, %v", p, err)
	}
	p = problem{}
	if err := json.Unmarshal(w.ask(http.MethodGet, about(topic, "&since=2099"), "Accept", accept).Body.Bytes(), &p); err != nil || p.Until != instant(noon) {
		t.Errorf("%+v, %v", p, err)
	}
}

// Changes come whatever Accept says, unless it excludes XML, and a token opens what it covers.
func TestQuestionsThatAreAnswered_MEM01(t *testing.T) {
	const none = "no header"
	for _, accept := range []string{
		none, "", ",", "*/*", "text/html,*/*;q=0.1", "text/xml", "application/xml",
		"text/*", "application/xml;q=0, */*", "text/xml, text/event-stream;q=0.1", // the stream is not preferred to XML
	} {
		w := withHistory(t)
		headers := []string{"Accept", accept}
		if accept == none {
			headers = nil
		}
		rec := w.ask(http.MethodGet, about(topic, "&after=earliest"), headers...)
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `capability="changelist"`) {
			t.Errorf("%q: %d, %s", accept, rec.Code, rec.Body)
		}
		if rec := w.ask(http.MethodHead, about(topic, "&after=earliest")); rec.Code != http.StatusOK || rec.Body.Len() > 0 || rec.Header().Get("ETag") == "" {
			t.Errorf("HEAD: %d, %s", rec.Code, rec.Body)
		}
	}
	w := withHistory(t, func(o *Options) { o.Read = ReadToken })
	if rec := w.ask(http.MethodGet, about(topic, "&latest"), "Authorization", "Bearer bob's token"); rec.Code != http.StatusOK {
		t.Errorf("with a token: %d, %s", rec.Code, rec.Body)
	}
	if rec := w.ask(http.MethodGet, about(topic, "&latest"), "Authorization", "bearer  bob's token"); rec.Code != http.StatusOK {
		t.Errorf("with the scheme in lower case: %d, %s", rec.Code, rec.Body)
	}
	if rec := w.ask(http.MethodGet, ""); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "This is a ResourceSync hub") {
		t.Errorf("without a topic: %d, %s", rec.Code, rec.Body)
	}
}

// The bytes that a requester reads are counted.
func TestReadsAreLimited(t *testing.T) {
	w := withHistory(t, func(o *Options) { o.ReadBytes, o.MaxBody = Rate{Events: 500, Per: time.Minute}, 100 })
	codes := []int{}
	for range 3 {
		codes = append(codes, w.ask(http.MethodGet, about(topic, "&latest")).Code)
	}
	if !slices.Equal(codes, []int{200, 200, 429}) && !slices.Equal(codes, []int{200, 429, 429}) {
		t.Errorf("%v", codes)
	}
}

// counting counts how often a journal is read.
type counting struct {
	*storetest.Memory
	reads int
}

func (c *counting) Read(ctx context.Context, topic string, after journal.Anchor, most int, maxBytes int64) ([]journal.Entry, error) {
	c.reads++
	return c.Memory.Read(ctx, topic, after, most, maxBytes)
}

// Planning an answer costs something, too. Who asks again and again for what they may not have yet, or for
// no bytes, is soon refused before anything is read. Who waits as long as they were told gets it.
func TestPlanningIsLimited(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		read, now := &counting{Memory: oneNotification(t)}, noon
		w := withHistory(t, func(o *Options) {
			o.ReadBytes, o.MaxBody = Rate{Events: 400, Per: time.Minute}, 100
			o.Now = func() time.Time { return now }
			o.History = historyOf(t, read)
		})
		question := about(topic, "&after=earliest")
		if rec := w.ask(method, question); rec.Code != http.StatusOK {
			t.Fatalf("%s: %d", method, rec.Code)
		}
		for range 30 {
			w.ask(method, question)
		}
		before := read.reads
		rec := w.ask(method, question)
		if rec.Code != http.StatusTooManyRequests || read.reads > before || before > 60 {
			t.Errorf("%s: %d; the journal is read %d times, and then %d", method, rec.Code, before, read.reads-before)
		}
		for range 2 { // at first it may be told when it may ask, and then when it may have the bytes
			wait, err := strconv.Atoi(rec.Header().Get("Retry-After"))
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Duration(wait) * time.Second)
			if rec = w.ask(http.MethodGet, question); rec.Code == http.StatusOK {
				break
			}
		}
		if rec.Code != http.StatusOK {
			t.Errorf("%s: after the waits %d %s", method, rec.Code, rec.Body)
		}
	}
}

// Only pages of the origins that the operator names may read, and only by GET.
func TestOriginsThatMayRead(t *testing.T) {
	for _, tc := range []struct {
		origins []string
		origin  string
		may     bool
	}{
		{nil, "https://app.example", false},
		{[]string{"https://app.example"}, "https://app.example", true},
		{[]string{"https://app.example"}, "https://evil.example", false},
		{[]string{"*"}, "https://any.example", true},
	} {
		w := withHistory(t, func(o *Options) { o.ReadOrigins = tc.origins })
		got := w.ask(http.MethodGet, about(topic, "&latest"), "Origin", tc.origin)
		if may := got.Header().Get("Access-Control-Allow-Origin") == tc.origin; may != tc.may || got.Code != http.StatusOK || got.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%v, %s: %d, %v", tc.origins, tc.origin, got.Code, got.Header())
		}
		want := map[bool]int{true: http.StatusNoContent, false: http.StatusMethodNotAllowed}[tc.may]
		if got := w.ask(http.MethodOptions, about(topic, ""), "Origin", tc.origin, "Access-Control-Request-Method", "GET"); got.Code != want {
			t.Errorf("%v, preflight of %s: %d", tc.origins, tc.origin, got.Code)
		}
		for _, query := range []string{about(topic, ""), ""} {
			if got := w.ask(http.MethodOptions, query, "Origin", tc.origin, "Access-Control-Request-Method", "POST"); got.Code != http.StatusMethodNotAllowed || got.Header().Get("Access-Control-Allow-Methods") != "" {
				t.Errorf("%v, preflight of a POST: %d, %v", tc.origins, got.Code, got.Header())
			}
		}
	}
}
