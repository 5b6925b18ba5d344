package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func TestRefusalsAreListed(t *testing.T) {
	var fail error
	same := false
	o := Options{Refusals: func(context.Context) (all []Refused, _ error) {
		for n := range 7 {
			kind := []string{"publish", "subscribe"}[n%2]
			at := noon.Add(-time.Duration(n) * time.Minute)
			if same {
				at = noon
			}
			all = append(all, Refused{At: at, Kind: kind, Topic: fmt.Sprint("https://example.org/", n%3), Detail: fmt.Sprint(n), LeftOutOfAll: n})
		}
		return all, fail
	}}
	base := start(t, o)
	for query, want := range map[string]string{
		"": "0123456", "?kind=publish": "0246", "?topic=https://example.org/1": "14", "?kind=subscribe&topic=https://example.org/0": "3", "?limit=2": "01", "?kind=read": "",
	} {
		resp, body := send(t, http.MethodGet, base+"/api/v1/refusals"+query)
		got := ""
		for _, r := range decodeBody[RefusedPage](t, body).Items {
			got += r.Detail
		}
		if resp.status != 200 || got != want {
			t.Errorf("%s: %d, %q, want %q", query, resp.status, got, want)
		}
	}
	_, body := send(t, http.MethodGet, base+"/api/v1/refusals?limit=1&kind=publish")
	if page := decodeBody[RefusedPage](t, body); page.Kept != 7 || page.LeftOut != 21 || !page.Since.Equal(noon.Add(-6*time.Minute)) {
		t.Errorf("of all: %s", body)
	}
	// Page by page, with two of one time on one page.
	got, after, pages := "", "", 0
	for pages == 0 || after != "" {
		_, body := send(t, http.MethodGet, base+"/api/v1/refusals?limit=2&after="+after)
		page := decodeBody[RefusedPage](t, body)
		for _, r := range page.Items {
			got += r.Detail
		}
		after, pages = page.Next, pages+1
	}
	if got != "0123456" || pages != 4 {
		t.Errorf("%d pages with %q", pages, got)
	}
	same = true
	_, body = send(t, http.MethodGet, base+"/api/v1/refusals?limit=2")
	if page := decodeBody[RefusedPage](t, body); len(page.Items) != 7 || page.Next != "" {
		t.Errorf("refusals of one time: %s", body)
	}
	resp, body := send(t, http.MethodGet, base+"/api/v1/refusals?after=x")
	wantProblem(t, resp, body, 400, "after=x")
	resp, body = send(t, http.MethodGet, base+"/api/v1/refusals?topik=x")
	wantProblem(t, resp, body, 400, "topik")
	resp, body = send(t, http.MethodGet, base+"/api/v1/refusals?kind=other")
	wantProblem(t, resp, body, 400, "kind=other is not a kind of refusal: these are publish, ")
	fail = errors.New("no disk")
	resp, body = send(t, http.MethodGet, base+"/api/v1/refusals")
	wantProblem(t, resp, body, 503, "no disk")
}

// Operators see the answer of a callback beside the attempt.
func TestAnswersAreForOperators(t *testing.T) {
	l := newTabled(Options{Token: held("the-token-of-the-operator"), ReaderToken: held("the-token-of-a-reader")})
	n := uuid.Must(uuid.NewV7())
	l.m.attempts = []subscriptions.Attempt{{At: noon, NotificationID: n, Number: 1, Status: 500}, {At: noon.Add(time.Second), NotificationID: n, Number: 2, Status: 502}}
	l.api.Answers = func(id uuid.UUID) []Answer {
		if id.String() != l.subscription {
			t.Errorf("asked about %v", id)
		}
		return []Answer{{NotificationID: n, Attempt: 2, Body: []byte("line 1\r\n\x1b[2J\u202eevil\xff")}}
	}
	for token, want := range map[string]string{"the-token-of-the-operator": "line 1\n\ufffd[2J\ufffdevil\ufffd", "the-token-of-a-reader": ""} {
		_, body := l.ask(t, http.MethodGet, "/api/v1/subscriptions/"+l.subscription+"/attempts", "Authorization: Bearer "+token)
		items := decodeBody[Page[Attempt]](t, body).Items
		if len(items) != 2 || items[0].Answer != "" || items[1].Answer != want {
			t.Errorf("%s sees %+v", token, items)
		}
	}
}

// A document comes as it was published, and no browser shows it as a page of the hub's.
func TestDocumentOfANotification(t *testing.T) {
	l := newTabled(Options{})
	l.m.bodies = map[uuid.UUID][]byte{uuid.MustParse(l.notification): []byte("<script>")}
	resp, body := l.ask(t, http.MethodGet, "/api/v1/notifications/"+l.notification+"/document")
	if resp.status != 200 || body != "<script>" || resp.header.Get("Content-Disposition") != `attachment; filename="`+l.notification+`"` ||
		resp.header.Get("X-Content-Type-Options") != "nosniff" || resp.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %q %v", resp.status, body, resp.header)
	}
	resp, body = l.ask(t, http.MethodGet, "/api/v1/notifications/"+uuid.NewString()+"/document")
	wantProblem(t, resp, body, 404, "retention")
	l.m.bodies = nil
	resp, body = l.ask(t, http.MethodGet, "/api/v1/notifications/"+l.notification+"/document")
	wantProblem(t, resp, body, 500, "damaged")
}

func TestReceiversOfANotification(t *testing.T) {
	l := newTabled(Options{})
	_, e, err := l.m.Find(t.Context(), uuid.MustParse(l.notification))
	if err != nil {
		t.Fatal(err)
	}
	add := func(topic, callback string, at journal.Anchor) {
		l.m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
			ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback, CreatedAt: noon.Add(-time.Hour), ExpiresAt: noon.Add(time.Hour), Cursor: journal.Cursor{Anchor: at},
		}})
	}
	add(theTopic, "https://has.example/", e.Anchor())
	add(theTopic, "https://waits.example/", journal.Anchor{})
	add("https://example.org/another", "https://has.example/", e.Anchor())
	for query, want := range map[string]map[string]string{
		"?outcome=delivered": {"https://has.example/": "delivered"},
		"?outcome=pending":   {"https://waits.example/": "pending", theCallback: "pending"},
		"":                   {"https://has.example/": "delivered", "https://waits.example/": "pending", theCallback: "pending"},
	} {
		resp, body := l.ask(t, http.MethodGet, "/api/v1/notifications/"+l.notification+"/subscriptions"+query)
		got := map[string]string{}
		for _, to := range decodeBody[Page[Receiver]](t, body).Items {
			got[to.Callback] = to.Outcome
		}
		if resp.status != 200 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d %v, want %v", query, resp.status, got, want)
		}
	}
	resp, body := l.ask(t, http.MethodGet, "/api/v1/notifications/"+l.notification+"/subscriptions?outcome=odd")
	wantProblem(t, resp, body, 400, "delivered, pending, skipped")
}

func TestPublishersAndSettings(t *testing.T) {
	o := Options{
		Publishers: func(context.Context) Publishers {
			return Publishers{Items: []Publisher{{Name: "library", Token: true, Use: Use{Accepted: 3, LastAt: noon}}}}
		},
		Settings: func() []Setting { return []Setting{{Name: "listen", Value: ":8080", From: "default", Default: true}} },
	}
	base := start(t, o)
	_, body := send(t, http.MethodGet, base+"/api/v1/publishers")
	if p := decodeBody[Page[Publisher]](t, body).Items; len(p) != 1 || p[0].Name != "library" || p[0].Accepted != 3 {
		t.Errorf("%s", body)
	}
	_, body = send(t, http.MethodGet, base+"/api/v1/settings")
	if s := decodeBody[Page[Setting]](t, body).Items; len(s) != 1 || s[0].Name != "listen" {
		t.Errorf("%s", body)
	}
	sum := Use{LastAt: noon, Accepted: 1}
	if sum.Add(Use{Accepted: 2, Refused: 3, LastAt: noon.Add(-time.Hour)}); sum != (Use{LastAt: noon, Accepted: 3, Refused: 3}) {
		t.Errorf("%+v", sum)
	}
}

// The answer about one subscription says why the last try to verify its request failed, and when the
// next one is due.
func TestRequestSaysWhatFailed(t *testing.T) {
	m := many()
	next := noon.Add(time.Minute)
	base := start(t, Options{Topics: m, Subscriptions: m, Tried: func(uuid.UUID) (string, time.Time) { return "the callback answered 500", next }}) + "/api/v1/subscriptions/"
	one := func(i int) *Request {
		topic, callback := fmt.Sprintf("https://example.org/%d", i%30), fmt.Sprintf("https://Host%d.example:8443/cb?%d", i%10, i)
		return decode[Subscription](t, base+subscriptions.ID(topic, callback).String()).Request
	}
	if r := one(2); r == nil || r.LastError != "the callback answered 500" || !r.NextAt.Equal(next) {
		t.Errorf("pending: %+v", r)
	}
	if r := one(4); r != nil {
		t.Errorf("without a request: %+v", r)
	}
}
