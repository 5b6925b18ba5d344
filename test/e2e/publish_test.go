package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// One notification from top to bottom, as the callback sees it: the Source's
// bytes (HUB-41, invariant 11) and Content-Type (HUB-42), the links (HUB-43,
// HUB-44) and the signature (HUB-45).
func TestDelivery(t *testing.T) {
	subscriber := newReceiver(t, 1)
	h := startHub(t)
	src := newSource("http://" + h.addr + "/topic")
	callback := subscriber.url(0, "/cb?b=2&a=1&b=3&empty=")
	h.subscribe(src.topic, callback, "hub.secret", "s3cret", "hub.lease_seconds", "3600", "foo", "bar").want(t, http.StatusAccepted)
	h.active(1)

	asked := subscriber.asked()[0]
	if !strings.HasPrefix(asked.raw, "b=2&a=1&b=3&empty=&hub.mode=subscribe&hub.topic=") {
		t.Errorf("HUB-23: the callback's own query was changed: %s", asked.raw)
	}
	if got := asked.query["hub.lease_seconds"]; len(got) != 1 || got[0] != "3600" {
		t.Errorf("HUB-22: lease %v", got)
	}

	body := src.next(0)
	header := h.publishHeader(src.topic)
	header.Set("Content-Type", `application/xml; charset="utf-8"`)
	header.Set("Link", header.Get("Link")+`, <http://127.0.0.1/capabilitylist.xml>; rel="resourcesync"`)
	r := decodeReceipt(t, do(t, http.MethodPost, h.url(), header, body).want(t, http.StatusOK))

	eventually(t, time.Minute, func() error {
		if n := len(subscriber.got()); n != 1 {
			return fmt.Errorf("%d deliveries", n)
		}
		return nil
	})
	d := subscriber.got()[0]
	for name, want := range map[string]string{
		"Content-Type":    `application/xml; charset="utf-8"`,
		"X-Hub-Signature": sign("s3cret", body),
		"Webhook-Id":      r.ID,
		"Rshub-Attempt":   "1",
		"Link": fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub", <http://127.0.0.1/capabilitylist.xml>; rel="resourcesync"`,
			src.topic, h.url()),
	} {
		if got := d.header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want one %q", name, got, want)
		}
	}
	var topics struct {
		Items []struct {
			URL           string `json:"url"`
			Subscriptions int    `json:"subscriptions"`
		} `json:"items"`
	}
	if h.api("/api/v1/topics", &topics); len(topics.Items) != 1 || topics.Items[0].URL != src.topic || topics.Items[0].Subscriptions != 1 {
		t.Errorf("the operator sees the topics %+v", topics.Items)
	}
	if d.callback != "/cb?b=2&a=1&b=3&empty=" {
		t.Errorf("HUB-40: delivered to %s", d.callback)
	}
	if string(d.body) != string(body) {
		t.Errorf("invariant 11: the body was changed:\n%s", d.body)
	}
	if ua := d.header.Get("User-Agent"); !strings.HasPrefix(ua, "rshub/") || !strings.HasSuffix(ua, "(+"+h.url()+")") {
		t.Errorf("User-Agent %q", ua)
	}
}

// A publish whose answer was lost is sent again and delivered once, across a
// kill in between too.
func TestRetriedPublishIsADuplicate(t *testing.T) {
	subscriber := newReceiver(t, 1)
	h := startHub(t)
	src := newSource("http://" + h.addr + "/topic")
	h.subscribe(src.topic, subscriber.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	body := src.next(0)
	first := h.accepted(src.topic, body)
	again := h.accepted(src.topic, body)
	h.kill()
	h.start()
	afterKill := h.accepted(src.topic, body)
	if first.Duplicate || !again.Duplicate || !afterKill.Duplicate || again.ID != first.ID || afterKill.ID != first.ID {
		t.Errorf("first %+v, again %+v, after a kill %+v", first, again, afterKill)
	}
	last := h.accepted(src.topic, src.next(0))
	eventually(t, time.Minute, func() error {
		if got := subscriber.got(); len(got) == 0 || got[len(got)-1].id != last.ID {
			return fmt.Errorf("the last one is not there yet")
		}
		return nil
	})
	var ids []string
	for _, d := range subscriber.got() {
		ids = append(ids, d.id)
	}
	// The kill may have come before the commit of the first delivery.
	if len(ids) > 3 || ids[0] != first.ID || ids[len(ids)-1] != last.ID {
		t.Errorf("delivered %v, want %s once (twice at most after the kill) and then %s", ids, first.ID, last.ID)
	}
}

// HUB-55: an interval that does not begin where the last one ended is refused,
// and the answer says where to go on.
func TestGapAndOverlapAreRefused(t *testing.T) {
	h := startHub(t)
	topic := "http://" + h.addr + "/topic"
	start := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	end := start.Add(time.Minute)
	h.accepted(topic, notification(start, end, 0))
	for name, from := range map[string]time.Time{"gap": end.Add(time.Nanosecond), "overlap": end.Add(-time.Nanosecond)} {
		header := h.publishHeader(topic)
		header.Set("Accept", "application/problem+json")
		a := do(t, http.MethodPost, h.url(), header, notification(from, end.Add(time.Hour), 0)).want(t, http.StatusConflict)
		var problem map[string]any
		if err := json.Unmarshal(a.body, &problem); err != nil {
			t.Fatal(err)
		}
		if problem["expected_from"] != stamp(end) {
			t.Errorf("%s: expected_from %v, want %s in %s", name, problem["expected_from"], stamp(end), a.body)
		}
		plain := h.publish(topic, notification(from, end.Add(time.Hour), 0)).want(t, http.StatusConflict)
		if !strings.Contains(string(plain.body), stamp(end)) {
			t.Errorf("%s: the sentence does not say where to go on: %s", name, plain.body)
		}
	}
	h.accepted(topic, notification(end, end, 0)) // of length zero
	h.accepted(topic, notification(end, end.Add(time.Second), 0))
}

// Invariant 2: of two publishers that race for an interval exactly one wins.
func TestRacingPublishers(t *testing.T) {
	h := startHub(t)
	topic := "http://" + h.addr + "/topic"
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for round := range 25 {
		from := at.Add(time.Duration(round) * time.Second)
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := map[int]int{}
		for n := range 4 {
			wg.Go(func() {
				a, err := try(t.Context(), http.MethodPost, h.url(), h.publishHeader(topic), notification(from, from.Add(time.Second), n))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				won[a.status]++
				mu.Unlock()
			})
		}
		wg.Wait()
		if won[http.StatusOK] != 1 || won[http.StatusConflict] != 3 {
			t.Fatalf("round %d: %v, want one 200 and three 409", round, won)
		}
	}
}

// HUB-12: a renewal that is not confirmed changes nothing, its secret included.
func TestUnconfirmedRenewalKeepsTheOldSecret(t *testing.T) {
	subscriber := newReceiver(t, 1)
	h := startHub(t)
	src := newSource("http://" + h.addr + "/topic")
	callback := subscriber.url(0, "/cb")
	h.subscribe(src.topic, callback, "hub.secret", "old").want(t, http.StatusAccepted)
	h.active(1)
	subscriber.onGet(http.NotFound)
	h.subscribe(src.topic, callback, "hub.secret", "new").want(t, http.StatusAccepted)
	eventually(t, time.Minute, func() error {
		if len(subscriber.asked()) < 2 {
			return fmt.Errorf("the renewal was not verified yet")
		}
		return nil
	})
	body := src.next(0)
	h.accepted(src.topic, body)
	eventually(t, time.Minute, func() error {
		if len(subscriber.got()) == 0 {
			return fmt.Errorf("nothing delivered")
		}
		return nil
	})
	if got := subscriber.got()[0].signature; got != sign("old", body) {
		t.Errorf("signed %s, not with the old secret", got)
	}
	// Confirmed, the new one is in force.
	subscriber.onGet(nil)
	h.subscribe(src.topic, callback, "hub.secret", "new").want(t, http.StatusAccepted)
	eventually(t, time.Minute, func() error {
		body := src.next(0)
		h.accepted(src.topic, body)
		time.Sleep(20 * time.Millisecond)
		got := subscriber.got()
		if last := got[len(got)-1]; last.signature != sign("new", last.body) {
			return fmt.Errorf("still signed with the old secret")
		}
		return nil
	})
}

// HUB-47: a redirect is a failure and is not followed; 410 ends the
// subscription.
func TestRedirectIsRetriedAndGoneEnds(t *testing.T) {
	subscriber := newReceiver(t, 2)
	elsewhere := make(chan struct{}, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		elsewhere <- struct{}{}
	}))
	defer other.Close()
	var mu sync.Mutex
	calls := map[string]int{}
	subscriber.onPost(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls[r.URL.Path]++
		n := calls[r.URL.Path]
		mu.Unlock()
		switch {
		case r.URL.Path == "/moved" && n <= 2:
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusGone)
		}
	})
	h := startHub(t, "--retry-first=50ms")
	src := newSource("http://" + h.addr + "/topic")
	h.subscribe(src.topic, subscriber.url(0, "/moved")).want(t, http.StatusAccepted)
	h.subscribe(src.topic, subscriber.url(1, "/gone")).want(t, http.StatusAccepted)
	h.active(2)
	for range 3 {
		h.accepted(src.topic, src.next(0))
	}
	eventually(t, time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		if calls["/moved"] != 5 {
			return fmt.Errorf("the redirecting callback was called %d times, want 2 + 3", calls["/moved"])
		}
		return nil
	})
	h.active(1)
	mu.Lock()
	defer mu.Unlock()
	if calls["/gone"] != 1 {
		t.Errorf("the callback that answered 410 was called %d times", calls["/gone"])
	}
	if len(elsewhere) != 0 {
		t.Error("a redirect was followed")
	}
}

// Unsubscribing (HUB-27, HUB-49): nothing comes after it was confirmed.
func TestUnsubscribe(t *testing.T) {
	subscriber := newReceiver(t, 1)
	h := startHub(t)
	src := newSource("http://" + h.addr + "/topic")
	callback := subscriber.url(0, "/cb")
	h.subscribe(src.topic, callback).want(t, http.StatusAccepted)
	h.active(1)
	h.form("hub.mode", "unsubscribe", "hub.topic", src.topic, "hub.callback", callback, "hub.lease_seconds", "abc").want(t, http.StatusAccepted)
	h.active(0)
	h.accepted(src.topic, src.next(0))
	time.Sleep(300 * time.Millisecond) // long enough for a delivery that must not come
	if n := len(subscriber.got()); n != 0 {
		t.Errorf("%d deliveries after a confirmed unsubscribe", n)
	}
}
