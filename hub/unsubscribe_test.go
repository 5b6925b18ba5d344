package hub_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/subscriptions"
)

// HUB-18: the answer to a request says nothing about whether there is a
// subscription, a request for one, or neither.
func TestAnswersTellNothing_HUB18(t *testing.T) {
	const topic = "https://example.org/"
	hubURL, store := realHub(t)

	known := subscriptions.Subscription{Topic: topic, Callback: "https://s.example/known", Secret: "s3cret"}
	known.ID = subscriptions.ID(known.Topic, known.Callback)
	known.CreatedAt = time.Now()
	known.VerifiedAt, known.ExpiresAt = known.CreatedAt, known.CreatedAt.Add(time.Hour)
	ended := known
	ended.Callback, ended.EndedAt, ended.EndReason = "https://s.example/ended", known.CreatedAt, subscriptions.EndGone
	ended.ID = subscriptions.ID(ended.Topic, ended.Callback)
	for _, s := range []subscriptions.Subscription{known, ended} {
		_, err := store.Update(t.Context(), s.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
			rec.Subscription = &s
			return rec, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ask(t, hubURL, "subscribe", topic, "https://s.example/pending")

	for _, mode := range []string{"subscribe", "unsubscribe"} {
		unknown := ask(t, hubURL, mode, topic, "https://s.example/unknown-"+mode)
		if unknown.Status != http.StatusAccepted {
			t.Errorf("%s: %+v", mode, unknown)
		}
		for _, callback := range []string{known.Callback, ended.Callback, "https://s.example/pending"} {
			if d := cmp.Diff(unknown, ask(t, hubURL, mode, topic, callback)); d != "" {
				t.Errorf("%s: %s is answered in another way:\n%s", mode, callback, d)
			}
		}
	}
	if rec, err := store.Get(t.Context(), known.ID); err != nil || rec.Subscription == nil || rec.Request == nil {
		t.Errorf("the known pair was not known: %+v, %v", rec, err)
	}
}

// told is all that a requester sees of an answer, except its Date.
type told struct {
	Status int
	Header http.Header
	Body   string
}

func ask(t *testing.T, hubURL, mode, topic, callback string) told {
	t.Helper()
	form := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.callback": {callback}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	return told{resp.StatusCode, resp.Header, string(body)}
}
