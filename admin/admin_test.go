package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// start serves o over HTTP. What o leaves out is filled in.
func start(t *testing.T, o Options) string {
	t.Helper()
	if o.Topics == nil {
		o.Topics = &memory{}
	}
	if o.Subscriptions == nil {
		o.Subscriptions = &memory{}
	}
	if o.Info == nil {
		o.Info = func(context.Context) Info { return Info{Version: "v1"} }
	}
	o.Now = func() time.Time { return noon }
	s := httptest.NewServer(New(o))
	t.Cleanup(s.Close)
	return s.URL
}

// answer is what a test looks at beside the body.
type answer struct {
	url    string
	status int
	header http.Header
}

// send makes a request; with holds headers as "Name: value", Host too.
func send(t *testing.T, method, url string, with ...string) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range with {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{url, resp.StatusCode, resp.Header}, string(body)
}

func decode[T any](t *testing.T, url string) T {
	t.Helper()
	var v T
	resp, body := send(t, http.MethodGet, url)
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || resp.status != http.StatusOK || resp.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s: %v\n%s", url, resp.status, resp.header.Get("Content-Type"), err, body)
	}
	return v
}

// wantProblem checks an error answer, and that its detail has a word.
func wantProblem(t *testing.T, resp answer, body string, status int, word string) {
	t.Helper()
	var p Problem
	err := json.Unmarshal([]byte(body), &p)
	if err != nil || resp.status != status || p.Status != status || p.Title != http.StatusText(status) || !strings.Contains(p.Detail, word) ||
		resp.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d %s, want %d and a problem that says %q:\n%s", resp.url, resp.status, resp.header.Get("Content-Type"), status, word, body)
	}
}

func TestHealth(t *testing.T) {
	broken := &memory{failAfter: 1}
	broken.calls.Store(1)
	checks := []Check{{Name: "store", Holds: "it answers"}, {Name: "disk", Err: errors.New("200 MiB are free, 256 MiB are needed: make room")}}
	base := start(t, Options{Topics: broken, Subscriptions: broken, Ready: func(context.Context) []Check { return checks }})
	if resp, body := send(t, http.MethodGet, base+"/livez"); resp.status != 200 || body != "ok\n" {
		t.Errorf("livez: %d %s", resp.status, body)
	}
	if broken.calls.Load() != 1 {
		t.Error("livez touched the store")
	}
	resp, body := send(t, http.MethodGet, base+"/readyz")
	if resp.status != 503 || body != "[-] disk: 200 MiB are free, 256 MiB are needed: make room\nnot ready\n" {
		t.Errorf("readyz: %d %s", resp.status, body)
	}
	if _, body := send(t, http.MethodGet, base+"/readyz?verbose"); !strings.HasPrefix(body, "[+] store: it answers\n[-] disk: ") {
		t.Errorf("readyz?verbose: %s", body)
	}
	checks = checks[:1]
	if resp, body := send(t, http.MethodGet, base+"/readyz"); resp.status != 200 || body != "ok\n" {
		t.Errorf("readyz: %d %s", resp.status, body)
	}
	if _, body := send(t, http.MethodGet, base+"/readyz?verbose"); body != "[+] store: it answers\nok\n" {
		t.Errorf("readyz?verbose: %s", body)
	}
}

func TestInfo(t *testing.T) {
	want := Info{
		Version: "v1", Addresses: Addresses{Public: "127.0.0.1:8080", Admin: "127.0.0.1:8081"}, HubURL: "http://hub.example/?a&b",
		Store: StoreInfo{Kind: "embedded", ID: "x"}, NodeID: "n1", Nodes: []Node{{ID: "n1", Shards: 256}}, StartedAt: noon, Uptime: 1.5,
	}
	base := start(t, Options{Info: func(context.Context) Info { return want }})
	if d := cmp.Diff(want, decode[Info](t, base+"/api/v1/info")); d != "" {
		t.Error(d)
	}
	if _, body := send(t, http.MethodGet, base+"/api/v1/info"); !strings.Contains(body, "?a&b") {
		t.Errorf("URLs are escaped: %s", body)
	}
}

func TestIndexListsThePathsAndTheyAreThere(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	base := start(t, Options{Metrics: metrics})
	_, body := send(t, http.MethodGet, base+"/")
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/api/v1/info", "/api/v1/topics", "/api/v1/subscriptions"} {
		if !strings.Contains(body, " "+path+" ") {
			t.Errorf("%s is not listed:\n%s", path, body)
		}
		if resp, _ := send(t, http.MethodHead, base+path); resp.status != 200 {
			t.Errorf("HEAD %s: %d", path, resp.status)
		}
	}
	resp, body := send(t, http.MethodGet, start(t, Options{})+"/metrics")
	wantProblem(t, resp, body, 404, "/metrics")
}

func TestWrongMethodsAndPaths(t *testing.T) {
	base := start(t, Options{})
	resp, body := send(t, http.MethodDelete, base+"/api/v1/topics")
	wantProblem(t, resp, body, 405, "DELETE")
	if resp.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", resp.header.Get("Allow"))
	}
	resp, body = send(t, http.MethodGet, base+"/api/v2/")
	wantProblem(t, resp, body, 404, "/api/v2/")
}

func TestTopics(t *testing.T) {
	m := &memory{}
	for i := range 2500 {
		m.addTopic(journal.Head{Topic: fmt.Sprintf("https://example.org/%d", i), Kind: journal.KindChange})
	}
	full := journal.Head{
		Topic: "https://example.org/full?a&b", Version: "7", Kind: journal.KindChange, From: noon.Add(-time.Hour), Until: noon.In(time.FixedZone("", 3600)),
		Last: journal.Anchor{Position: 0x1234, Seq: 7, Until: noon}, ID: uuid.Max, ReceivedAt: noon,
		Gaps:    []journal.Gap{{From: noon, Count: 3, Reason: journal.GapSource, At: noon}},
		Entries: 5, Bytes: 5000,
	}
	m.addTopic(full)
	pauses := []Pause{
		{Reason: "store", Error: "away", Since: noon, NextLookAt: noon.Add(time.Second)},
		{Reason: "damaged", Error: "cut short", Since: noon, NotificationID: uuid.Max.String(), Seq: 6, PassedOverAt: noon.Add(time.Hour), PassedOver: true},
	}
	base := start(t, Options{
		Topics: m, Subscribers: func(topic string) (int, bool) { return 3, topic == full.Topic },
		Pauses: func(topic string) []Pause { return pauses[:2*strings.Count(topic, full.Topic)] },
	})

	three := 3
	want := Topic{
		ID: headID(full).String(), URL: full.Topic, Kind: "change", LastFrom: noon.Add(-time.Hour), LastUntil: noon,
		Head:          Head{ID: uuid.Max.String(), Seq: 7, Position: "0000000000001234", ReceivedAt: noon},
		Subscriptions: &three, Gaps: []Gap{{From: noon, Count: 3, Reason: "source", At: noon}}, Retained: Retained{Entries: 5, Bytes: 5000},
		Pauses: pauses,
	}
	if d := cmp.Diff(want, decode[Topic](t, base+"/api/v1/topics/"+want.ID)); d != "" {
		t.Error(d)
	}
	for _, heads := range m.heads {
		if len(heads) == 0 {
			continue
		}
		h := heads[len(heads)/2]
		if got := decode[Topic](t, base+"/api/v1/topics/"+headID(h).String()); got.URL != h.Topic {
			t.Fatalf("%s has the id of %s", got.URL, h.Topic)
		}
	}
	seen, pages := collect(t, base+"/api/v1/topics?limit=100", func(v Topic) string { return v.URL })
	if len(seen) != 2501 || pages != 26 {
		t.Errorf("%d topics in %d pages, want 2501 in 26", len(seen), pages)
	}
	for _, id := range []string{"nonsense", uuid.Nil.String(), uuid.Max.String(), journal.TopicID("https://other.example/").String()} {
		resp, body := send(t, http.MethodGet, base+"/api/v1/topics/"+id)
		wantProblem(t, resp, body, 404, id)
	}
}

// collect follows a list to its end and returns what key gives of its items;
// none may come twice.
func collect[T any](t *testing.T, list string, key func(T) string) (seen map[string]T, pages int) {
	t.Helper()
	seen, url := map[string]T{}, list
	for {
		p := decode[Page[T]](t, url)
		pages++
		for _, item := range p.Items {
			if _, twice := seen[key(item)]; twice {
				t.Fatalf("%s came twice", key(item))
			}
			seen[key(item)] = item
		}
		if p.Next == "" {
			return seen, pages
		}
		if len(p.Items) == 0 {
			t.Fatal("an empty page has one after it")
		}
		url = list + "&after=" + p.Next
	}
}

// many has 3,000 subscriptions: of 30 topics, on 10 hosts, in each state.
func many() *memory {
	m := &memory{}
	for i := range 30 {
		m.addTopic(journal.Head{Topic: fmt.Sprintf("https://example.org/%d", i), Last: journal.Anchor{Seq: 10, Until: noon}})
	}
	for i := range 3000 {
		topic, callback := fmt.Sprintf("https://example.org/%d", i%30), fmt.Sprintf("https://Host%d.example:8443/cb?%d", i%10, i)
		q := &subscriptions.Request{ID: uuid.New(), Mode: "subscribe", Topic: topic, Callback: callback, AcceptedAt: noon, Lease: time.Hour}
		s := &subscriptions.Subscription{
			ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback, Secret: "do-not-tell",
			CreatedAt: noon.Add(-time.Hour), VerifiedAt: noon, ExpiresAt: noon.Add(time.Hour),
			Cursor: journal.Cursor{Anchor: journal.Anchor{Position: 1, Seq: 4, Until: noon.Add(-time.Minute)}, LastStatus: 204},
		}
		rec := subscriptions.Record{Subscription: s}
		switch i % 6 {
		case 1:
			rec.Request = q // a renewal
		case 2:
			rec = subscriptions.Record{Request: q}
		case 3:
			s.ExpiresAt = noon
			rec.Request = q // taken up again after the lease
		case 4:
			s.Cursor.Attempt, s.Cursor.LastStatus, s.Cursor.NextAttemptAt = 2, journal.StatusTimeout, noon.Add(time.Hour)
		case 5:
			s.EndedAt, s.EndReason = noon.Add(-time.Minute), subscriptions.EndGone
			s.Cursor.Attempt, s.Cursor.NextAttemptAt = 1, noon.Add(time.Hour)
		}
		m.addRecord(rec)
	}
	return m
}

func TestSubscriptionsArePagedAndFiltered(t *testing.T) {
	m := many()
	list := start(t, Options{Topics: m, Subscriptions: m}) + "/api/v1/subscriptions?"
	for _, tc := range []struct {
		query        string
		items, pages int
	}{
		{"limit=1000", 3000, 3}, // the last page is full, and none is announced after it
		{"limit=7", 3000, 429},
		{"", 3000, 30},
		{"state=active", 1000, 10},
		{"state=pending", 1000, 10},
		{"state=failing", 500, 5},
		{"state=ended", 500, 5},
		{"topic=https://example.org/7", 100, 1},
		{"topic=" + journal.TopicID("https://example.org/7").String(), 100, 1},
		{"topic=https://example.org/none", 0, 1},
		{"host=host3.example&limit=1000", 300, 1},
		{"host=Host3.example:8443&limit=1000", 300, 1},
		{"host=host3.example:443", 0, 1},
		{"host=host3.example.:08443&limit=1000", 300, 1},
		{"host=host4.example&state=failing", 100, 1},
	} {
		seen, pages := collect(t, list+tc.query, func(s Subscription) string { return s.ID })
		if len(seen) != tc.items || pages != tc.pages {
			t.Errorf("?%s: %d in %d pages, want %d in %d", tc.query, len(seen), pages, tc.items, tc.pages)
		}
		for id, s := range seen {
			if id != subscriptions.ID(s.Topic, s.Callback).String() {
				t.Fatalf("%s is not the id of %s, %s", id, s.Topic, s.Callback)
			}
		}
	}
	if _, body := send(t, http.MethodGet, list); strings.Contains(body, "do-not-tell") {
		t.Error("a secret is told")
	}
	if body := decode[Page[Subscription]](t, list+"topic=none"); body.Items == nil {
		t.Error("no items are null and not []")
	}
	for query, word := range map[string]string{
		"limit=0": "1 to 1000", "state=failing;host=x": "read", "host=%zz": "read", "host=a&host=b": "once", "limit=1001": "1 to 1000", "limit=x": "1 to 1000", "after=x": "next", "stat=active": "stat", "state=actve": "failing",
	} {
		resp, body := send(t, http.MethodGet, list+query)
		wantProblem(t, resp, body, 400, word)
	}
}

// A callback is found by its host as it is written, and as logs have it.
func TestFilterByHost(t *testing.T) {
	for host, matches := range map[string]string{
		"s.example": "yes yes yes no", "S.Example:443": "yes no no no", "s.example:80": "no no yes no", "s.example:8443": "no yes no no", "example": "no no no no",
		"[2001:db8::1]": "no no no yes", "2001:db8::1": "no no no yes", "[2001:db8::1]:443": "no no no yes",
	} {
		f, err := parseFilter(url.Values{"host": {host}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, callback := range []string{"https://s.example/cb", "https://S.example:8443/cb", "http://s.example/cb", "https://[2001:db8::1]/cb"} {
			is := "no"
			if f.match(subscriptions.Record{Subscription: &subscriptions.Subscription{Topic: theTopic, Callback: callback}}, noon) {
				is = "yes"
			}
			got = append(got, is)
		}
		if strings.Join(got, " ") != matches {
			t.Errorf("%s matches %s, want %s", host, got, matches)
		}
	}
}

func TestOneSubscription(t *testing.T) {
	m := many()
	base := start(t, Options{Topics: m, Subscriptions: m}) + "/api/v1/subscriptions/"
	one := func(i int) Subscription {
		topic, callback := fmt.Sprintf("https://example.org/%d", i%30), fmt.Sprintf("https://Host%d.example:8443/cb?%d", i%10, i)
		return decode[Subscription](t, base+subscriptions.ID(topic, callback).String())
	}
	failing := one(4)
	want := Subscription{
		ID: failing.ID, Topic: "https://example.org/4", Callback: "https://Host4.example:8443/cb?4", State: "failing", Signed: true,
		CreatedAt: noon.Add(-time.Hour), VerifiedAt: noon, ExpiresAt: noon.Add(time.Hour),
		Cursor: &Cursor{Position: "0000000000000001", Seq: 4, Until: noon.Add(-time.Minute)},
		Lag:    &Lag{Notifications: 6, Seconds: 60}, Attempt: 2, NextAttemptAt: noon.Add(time.Hour), LastError: "timeout",
	}
	if d := cmp.Diff(want, failing); d != "" {
		t.Error(d)
	}
	renewed, pending, expired, ended := one(1), one(2), one(3), one(5)
	if renewed.State != "active" || renewed.Request == nil || renewed.Request.LeaseSeconds != 3600 || renewed.LastStatus != 204 {
		t.Errorf("renewed: %+v", renewed)
	}
	if pending.State != "pending" || pending.Signed || pending.Cursor != nil || pending.Lag != nil || pending.Request.Mode != "subscribe" {
		t.Errorf("pending: %+v", pending)
	}
	if expired.State != "pending" || expired.Lag != nil || expired.Cursor == nil {
		t.Errorf("expired: %+v", expired)
	}
	if ended.State != "ended" || ended.EndReason != "gone" || ended.EndedAt.IsZero() || ended.Lag != nil || !ended.NextAttemptAt.IsZero() {
		t.Errorf("ended: %+v", ended)
	}
	for _, id := range []string{"nonsense", uuid.Nil.String(), subscriptions.ID("a", "b").String()} {
		resp, body := send(t, http.MethodGet, base+id)
		wantProblem(t, resp, body, 404, id)
	}
}

// A paused subscription that failed has its lag and its failures, and no time of a next attempt:
// there is none.
func TestPausedSubscriptionHasNoNextAttempt(t *testing.T) {
	m := new(memory)
	s := &subscriptions.Subscription{ID: subscriptions.ID(theTopic, theCallback), Topic: theTopic, Callback: theCallback, ExpiresAt: noon.Add(time.Hour), PausedAt: noon}
	s.Cursor.Attempt, s.Cursor.LastStatus, s.Cursor.NextAttemptAt = 2, 500, noon.Add(time.Minute)
	m.addRecord(subscriptions.Record{Subscription: s})
	got := decode[Subscription](t, start(t, Options{Topics: m, Subscriptions: m})+"/api/v1/subscriptions/"+s.ID.String())
	if got.State != "paused" || got.Lag == nil || got.Attempt != 2 || got.LastStatus != 500 || !got.NextAttemptAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

// A request to end what there is not shows no subscription (HUB-18).
func TestUnsubscribeOfNothingIsNotShown_HUB18(t *testing.T) {
	m := new(memory)
	ask := &subscriptions.Request{Mode: websub.ModeUnsubscribe, Topic: theTopic, Callback: "https://s.example/cb", AcceptedAt: noon}
	m.addRecord(subscriptions.Record{Request: ask})
	api := start(t, Options{Topics: m, Subscriptions: m}) + "/api/v1/subscriptions"
	for _, query := range []string{"", "?host=s.example", "?state=pending"} {
		if items := decode[Page[Subscription]](t, api+query).Items; len(items) != 0 {
			t.Errorf("%s: %+v", query, items)
		}
	}
	id := ask.SubscriptionID().String()
	resp, body := send(t, http.MethodGet, api+"/"+id)
	wantProblem(t, resp, body, 404, id)
	if n := decode[Many](t, api+"/count").Matched; n != 0 {
		t.Errorf("%d are counted", n)
	}
}

// A store that fails gives a problem before the first item, and no whole page
// after it.
func TestStoreFailures(t *testing.T) {
	m := many()
	m.failAfter = 1
	m.calls.Store(1)
	base := start(t, Options{Topics: m, Subscriptions: m})
	for _, path := range []string{"topics", "subscriptions", "topics/" + uuid.Max.String(), "subscriptions/" + uuid.Max.String()} {
		resp, body := send(t, http.MethodGet, base+"/api/v1/"+path)
		wantProblem(t, resp, body, 503, "on fire")
	}
	m.calls.Store(0)
	m.failAfter = 20
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/subscriptions?limit=1000", nil)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("half a page looks like a whole one")
	}
}

// Net/http takes a client that closed its sending side for one that is gone. It may still read, and half an answer
// must not look like a whole one.
func TestHalfClosedClientIsNotToldThatAllIsWell(t *testing.T) {
	m := many()
	m.failAfter = 1
	m.calls.Store(1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	New(Options{Topics: m, Subscriptions: m}).ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "http://127.0.0.1/api/v1/topics", nil))
	wantProblem(t, answer{"/api/v1/topics", w.Code, w.Header()}, w.Body.String(), 503, "closed its side")
}

func TestBefore(t *testing.T) {
	for id, want := range map[string]string{
		"00000000-0000-0000-0000-000000000001": "00000000-0000-0000-0000-000000000000",
		"00000000-0000-0001-0000-000000000000": "00000000-0000-0000-ffff-ffffffffffff",
		"ffffffff-ffff-ffff-ffff-ffffffffff00": "ffffffff-ffff-ffff-ffff-fffffffffeff",
	} {
		if got := before(uuid.MustParse(id)).String(); got != want {
			t.Errorf("before %s: %s, want %s", id, got, want)
		}
	}
}
