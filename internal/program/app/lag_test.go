package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// When retention deletes notifications that a subscriber has not got, they count as lost and as a gap,
// and no longer as lag: in the API, in the list of the furthest behind, and in the metrics. A retry
// with nothing to deliver says so.
func TestWhatRetentionTookIsNoLag(t *testing.T) {
	for name, args := range map[string]func(t *testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"redis":    func(t *testing.T) []string { return []string{"--redis-url=" + redistest.Standalone(t).URL()} },
	} {
		t.Run(name, func(t *testing.T) {
			h := startLinked(t, append(args(t), "--retention-bytes=1000")...)
			testWhatRetentionTook(t, h)
		})
	}
}

func testWhatRetentionTook(t *testing.T, h *linkedHub) {
	const topic = "https://example.org/changes/"
	var down atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	}))
	defer receiver.Close()
	callback := receiver.URL + "/cb"
	hub, id := "http://"+h.Addr()+"/", subscriptions.ID(topic, callback).String()
	subscribe := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
	postUntil(t, http.StatusAccepted, hub, "application/x-www-form-urlencoded", subscribe.Encode(), "")
	is := func(what string, check func(admin.Subscription) bool) (s admin.Subscription) {
		t.Helper()
		eventually(t, func() string {
			s = admin.Subscription{}
			if h.api(t, http.MethodGet, id, &s) == http.StatusOK && check(s) {
				return ""
			}
			return fmt.Sprintf("it is not so that %s: %+v, lag %+v", what, s, s.Lag)
		})
		return s
	}
	publish := func(n int) {
		postUntil(t, http.StatusOK, hub, "application/xml", notification(n, n+1), `<`+topic+`>; rel="self", <`+h.HubURL()+`>; rel="hub"`)
	}
	is("it is active", func(s admin.Subscription) bool { return s.State == "active" })
	publish(0)
	got := is("it got the first", func(s admin.Subscription) bool { return s.Cursor.Seq == 1 })
	var same admin.Subscription
	if h.api(t, http.MethodPost, id+"/retry", &same); !same.NextAttemptAt.Equal(got.NextAttemptAt) || same.Waits() {
		t.Errorf("a retry with nothing to try: %+v", same)
	}
	if body := h.send(t, "api/v1/subscriptions", "application/json", `{"action": "retry"}`); !strings.Contains(body, `"done":0,"skipped":1`) {
		t.Errorf("the same with many: %s", body)
	}
	to := h.send(t, "ui/subscriptions/"+id+"/retry", "application/x-www-form-urlencoded", "")
	if _, page := get(t, "http://"+h.AdminAddr()+to); !strings.Contains(page, "There is nothing to try: everything is delivered.") {
		t.Errorf("the page says:\n%s", page)
	}
	var link admin.Link
	h.api(t, http.MethodPost, id+"/link", &link)
	visit(t, link.URL, url.Values{"action": {"retry"}}, http.StatusConflict, "everything is delivered")

	down.Store(true)
	for n := range 8 {
		publish(n + 1)
	}
	s := is("retention took some", func(s admin.Subscription) bool { return s.State == "failing" && s.Lag.Lost >= 4 })
	lag := *s.Lag
	if lag.Notifications+lag.Lost != 8 || lag.Notifications == 0 || lag.Seconds != 60*float64(lag.Notifications) || s.Gaps != 1 {
		t.Errorf("%d gaps, lag %+v", s.Gaps, lag)
	}
	var listed admin.Page[admin.Gap]
	if h.api(t, http.MethodGet, id+"/gaps", &listed); len(listed.Items) != 1 || listed.Items[0].Count != lag.Lost {
		t.Errorf("the gaps are %+v, and %d were lost", listed.Items, lag.Lost)
	}
	eventually(t, func() string {
		var now admin.Now
		_, body := get(t, "http://"+h.AdminAddr()+"/api/v1/now")
		if err := json.Unmarshal([]byte(body), &now); err != nil || len(now.Slowest) != 1 || now.Slowest[0].Lag.Notifications != lag.Notifications || now.Slowest[0].Lag.Seconds != lag.Seconds {
			return fmt.Sprintf("now it says %+v (%v), want %+v", now.Slowest, err, lag)
		}
		_, body = get(t, "http://"+h.AdminAddr()+"/metrics")
		for _, line := range []string{fmt.Sprintf("rshub_subscription_lag_notifications_sum %d\n", lag.Notifications), fmt.Sprintf("rshub_subscription_lag_seconds_sum %v\n", lag.Seconds)} {
			if !strings.Contains(body, line) {
				return "the metrics lack " + line
			}
		}
		return ""
	})
	// What is left is listed from both ends.
	kept := func(query string) (seqs []uint64) {
		for next := ""; ; {
			var page admin.Page[admin.Notification]
			if _, body := get(t, "http://"+h.AdminAddr()+"/api/v1/topics/"+journal.TopicID(topic).String()+"/notifications?"+query+next); json.Unmarshal([]byte(body), &page) != nil || len(page.Items) == 0 {
				t.Fatal(body)
			}
			for _, n := range page.Items {
				seqs = append(seqs, n.Seq)
			}
			if page.Next == "" {
				return seqs
			}
			next = "&after=" + page.Next
		}
	}
	oldest, newest := kept("limit=1"), kept("limit=1&order=newest")
	if slices.Reverse(newest); !slices.Equal(oldest, newest) || uint64(len(oldest)) != lag.Notifications {
		t.Errorf("the oldest first: %v, the newest first, reversed: %v; %d are kept", oldest, newest, lag.Notifications)
	}
	down.Store(false)
	h.api(t, http.MethodPost, id+"/retry", &s)
	s = is("it got the rest", func(s admin.Subscription) bool { return s.Cursor.Seq == 9 })
	if *s.Lag != (admin.Lag{}) || s.Gaps != 1 {
		t.Errorf("in the end: %d gaps, lag %+v", s.Gaps, *s.Lag)
	}
}

// send posts something to the operator's listener, and returns the answer, or where it leads.
func (h *linkedHub) send(t *testing.T, path, media, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.AdminAddr()+"/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(resp.Header.Get("Location"), string(answer))
}
