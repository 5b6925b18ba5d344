package hub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/hub/history"
)

// Each reason why the history of a topic is not answered has a status of its own, and says what to do.
func TestEachRefusalOfAReader(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		says   string
	}{
		{&history.BusyError{Stream: true, Yours: true}, 429, "Your address has as many streams"},
		{&history.BusyError{Stream: true}, 429, "This hub has as many streams"},
		{&history.BusyError{Yours: true}, 429, "answers to your address"},
		{&history.BusyError{}, 429, "as many answers as it does"},
		{history.ErrGone, 410, "no longer has it"},
		{history.ErrNoChanges, 404, "no change notifications"},
		{&history.UnknownError{Topic: "https://x.example/"}, 404, `nothing of the topic "https://x.example/". Check its URL`},
		{&history.UnknownError{Topic: "https://x.example/#1"}, 404, `nothing of this topic: hub.topic has a fragment`},
		{&history.UnknownError{Topic: "https://x.example/", ID: uuid.Max}, 404, "no notification ffffffff-ffff-ffff-ffff-ffffffffffff of the topic"},
	} {
		r := classifyRead(fmt.Errorf("reading: %w", tc.err))
		if r == nil || r.kind.status != tc.status || !strings.Contains(r.detail, tc.says) {
			t.Errorf("%v: %+v", tc.err, r)
		}
	}
	if r := classifyRead(errors.New("the store is away")); r != nil {
		t.Errorf("a failure of the store: %+v", r)
	}
}

// A hub describes what it has of a topic, unless Accept excludes XML. It answers no page that was led
// to it by another name.
func TestDescriptionsOfTopics(t *testing.T) {
	w := withHistory(t)
	for _, what := range []string{"capabilitylist", "description"} {
		got := w.ask(http.MethodGet, about(topic, "&describe="+what))
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `capability="`+what+`"`) {
			t.Errorf("%s: %d %s", what, got.Code, got.Body)
		}
		if got := w.ask(http.MethodGet, about(topic, "&describe="+what), "Accept", "application/json"); got.Code != http.StatusNotAcceptable {
			t.Errorf("%s as JSON: %d %s", what, got.Code, got.Body)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://rebound.example/websub/?"+about(topic, "&latest"), nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if got := w.do(r); got.Code == http.StatusOK {
		t.Errorf("by a name that is not the hub's: %d %s", got.Code, got.Body)
	}
}

// A reader that asks for events gets those of the past, and its stream stays open for the next.
func TestStreamOverTheHubURI(t *testing.T) {
	w := withHistory(t)
	server := httptest.NewServer(w.Handler)
	defer server.Close()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/websub/?"+about(topic, "&after=earliest"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	found := false
	for !found && lines.Scan() {
		found = lines.Text() == "event: notification"
	}
	if resp.StatusCode != http.StatusOK || !found {
		t.Errorf("%s, %v", resp.Status, lines.Err())
	}
}

// All readers together have a limit, too: it protects the hub from many addresses.
func TestReadersShareALimit(t *testing.T) {
	w := withHistory(t, func(o *Options) { o.ReadTotal, o.MaxBody = Rate{Events: 500, Per: time.Minute}, 100 })
	codes := map[int]int{}
	for i := range 3 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, hubURL+"?"+about(topic, "&latest"), nil)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:99", i+1)
		codes[w.do(r).Code]++
	}
	if codes[200] == 0 || codes[429] == 0 {
		t.Errorf("answers by status: %v", codes)
	}
}
