package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

// source is a Source: it serves what it published last at its topic URI, and
// copies of all below it.
type source struct {
	*httptest.Server
	mu     sync.Mutex
	hub    string // as it names it; empty: it names none
	status int
	served map[string]string
}

func newSource(t *testing.T) *source {
	s := &source{status: http.StatusOK, served: make(map[string]string)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hub != "" {
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.topic(r.URL.Path), s.hub))
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.served[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s
}

// topic is the topic that a path is, or is below.
func (s *source) topic(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return s.URL + "/" + name + "/"
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// realHub is a hub on a store of its own, with the guarded client, that lets
// publishes in by their content.
func realHub(t *testing.T) (hubURL string, store *embedstore.Store) {
	t.Helper()
	return realHubAt(t, "/websub/")
}

// realHubAt is realHub with a path of its own in its URL.
func realHubAt(t *testing.T, path string) (hubURL string, store *embedstore.Store) {
	t.Helper()
	store, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	var handler *hub.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	hubURL = srv.URL + path
	checker, err := validate.NewTopicChecker(validate.TopicOptions{HubURL: hubURL, Client: client, Budget: egress.NewBudget(20)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(checker.Close)
	requests, err := subscriptions.New(subscriptions.Options{Store: store, Heads: store, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	handler, err = hub.New(hub.Options{
		HubURL: hubURL, Journal: store, Pings: store, Topics: checker, Callbacks: client, Subscriptions: requests,
		Auth: hub.PublishAuth{Content: true, Token: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	fetching := make(chan struct{})
	go func() { defer close(fetching); _ = handler.Fetch(ctx) }()
	t.Cleanup(func() { cancel(); <-fetching })
	return hubURL, store
}

// post sends a notification and returns the status and the body of the answer.
func post(t *testing.T, hubURL, topic, copyURL, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hubURL))
	if copyURL != "" {
		req.Header.Set("Content-Location", copyURL)
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(answer)
}

func interval(from, until int, what string) string {
	return fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-01T11:%02d:00Z" until="2026-01-01T11:%02d:00Z"/>
<url><loc>http://example.org/%s</loc><rs:md change="updated"/></url></urlset>`, from, until, what)
}

// HUB-53, HUB-54: with the real store, client and topic check, the content and the links of a topic
// decide whether a publish is accepted.
func TestTheTopicLetsAPublishIn_HUB53_HUB54(t *testing.T) {
	hubURL, store := realHub(t)
	src := newSource(t)
	src.set(func() { src.hub = hubURL })
	topic := src.URL + "/changes/"
	a, b, c := interval(0, 1, "a"), interval(1, 2, "b"), interval(2, 3, "c")

	steps := []struct {
		why           string
		change        func()
		copyURL, body string
		status        int
		says          string
	}{
		{"the topic serves nothing yet", func() {}, "", a, 403, "serves 0 bytes"},
		{"it serves this", func() { src.served["/changes/"] = a }, "", a, 200, `"duplicate":false`},
		{"the answer was lost, and the topic moved on", func() { src.served["/changes/"] = b }, "", a, 200, `"duplicate":true`},
		{"forged", func() {}, "", interval(1, 2, "forged"), 403, "serves"},
		{"a copy", func() { src.served["/changes/"], src.served["/changes/2.xml"] = c, b }, topic + "2.xml", b, 200, `"duplicate":false`},
		{"a gap", func() {}, "", interval(5, 6, "c"), 409, "2026-01-01T11:02:00Z"},
		{"down, and its links are remembered", func() { src.status = http.StatusServiceUnavailable }, "", c, 503, "answered 503"},
		{"up again", func() { src.status = http.StatusOK }, "", c, 200, `"duplicate":false`},
	}
	for _, s := range steps {
		src.set(s.change)
		if status, answer := post(t, hubURL, topic, s.copyURL, s.body); status != s.status || !strings.Contains(answer, s.says) {
			t.Errorf("%s: %d %s", s.why, status, answer)
		}
	}
	head, err := store.Head(t.Context(), topic)
	if err != nil || head.Last.Seq != 3 {
		t.Errorf("%d entries, %v", head.Last.Seq, err)
	}

	src.set(func() { src.hub = "https://other.example/" })
	if status, answer := post(t, hubURL, src.URL+"/stranger/", "", a); status != 403 || !strings.Contains(answer, hubURL) {
		t.Errorf("another hub: %d %s", status, answer)
	}
}

// Invariant 2: two Sources that race for each interval, on the real store. One
// wins each time, and the journal has no gap, no overlap and no double.
func TestRacingSourcesOnTheStore(t *testing.T) {
	hubURL, store := realHub(t)
	src := newSource(t)
	src.set(func() { src.hub = hubURL })
	topic := src.URL + "/changes/"
	const rounds, sources = 10, 4
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won, lost := 0, 0
		for i := range sources {
			wg.Go(func() {
				path := fmt.Sprintf("/changes/%d-%d.xml", round, i)
				body := interval(round, round+1, fmt.Sprint(i))
				src.set(func() { src.served[path] = body })
				status, answer := post(t, hubURL, topic, src.URL+path, body)
				mu.Lock()
				defer mu.Unlock()
				switch status {
				case http.StatusOK:
					won++
				case http.StatusConflict:
					lost++
				default:
					t.Errorf("%d %s", status, answer)
				}
			})
		}
		wg.Wait()
		if won != 1 || lost != sources-1 {
			t.Fatalf("round %d: %d won, %d lost", round, won, lost)
		}
	}
	head, err := store.Head(context.Background(), topic)
	if err != nil || head.Last.Seq != rounds || len(head.Gaps) != 0 ||
		!head.Until.Equal(time.Date(2026, 1, 1, 11, rounds, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", head, err)
	}
}

// HUB-13, HUB-15: a request is in the store when it is answered with 202.
func TestSubscriptionIsStored_HUB13_HUB15(t *testing.T) {
	hubURL, store := realHub(t)
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"https://example.org/"}, "hub.callback": {"https://s.example/cb"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, answer := send(t, req); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	rec, err := store.Get(t.Context(), subscriptions.ID("https://example.org/", "https://s.example/cb"))
	if err != nil || rec.Request == nil || rec.Subscription != nil {
		t.Errorf("%+v, %v", rec, err)
	}
}
