package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/websub"
)

// The hub tests of websub.rocks, 100 to 106, as its public hub mode runs them: the
// suite hosts the topic and tells the hub of what is new by hub.mode=publish.

// rocks is the suite's side: a topic and a subscriber.
type rocks struct {
	t     *testing.T
	hub   *hub
	topic string
	*receiver

	mu        sync.Mutex
	mediaType string
	bare      bool // without a Link header
	body      string
	fetches   int           // GETs of the topic
	gate      chan struct{} // where set, GETs of the topic wait for it
}

func newRocks(t *testing.T, h *hub, mediaType string) *rocks {
	t.Helper()
	r := &rocks{t: t, hub: h, mediaType: mediaType, receiver: newReceiver(t, 1)}
	srv := httptest.NewServer(http.HandlerFunc(r.serveTopic))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	r.topic = srv.URL + "/blog?page=1"
	r.onGet(r.confirm)
	return r
}

func (r *rocks) serveTopic(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	if req.Method == http.MethodGet {
		r.fetches++
	}
	mediaType, bare, body, gate := r.mediaType, r.bare, r.body, r.gate
	r.mu.Unlock()
	if gate != nil && req.Method == http.MethodGet {
		select {
		case <-gate:
		case <-req.Context().Done():
			return
		}
		r.mu.Lock()
		body = r.body
		r.mu.Unlock()
	}
	if !bare {
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, r.topic, r.hub.url()))
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = io.WriteString(w, body)
}

func (r *rocks) write(body string) { r.mu.Lock(); r.body = body; r.mu.Unlock() }

func (r *rocks) hold(gate chan struct{}) { r.mu.Lock(); r.gate = gate; r.mu.Unlock() }

func (r *rocks) fetched() int { r.mu.Lock(); defer r.mu.Unlock(); return r.fetches }

// confirm is how the suite answers a verification: 404 where something is
// missing, else the challenge as application/octet-stream.
func (r *rocks) confirm(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	mode := q.Get("hub.mode")
	switch {
	case mode != "subscribe" && mode != "unsubscribe", q.Get("hub.topic") != r.topic, q.Get("hub.challenge") == "",
		mode == "subscribe" && q.Get("hub.lease_seconds") == "":
		r.t.Errorf("the verification %s", req.URL.RawQuery)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, q.Get("hub.challenge"))
}

// request asks for a subscription, or its end, and waits until it is verified.
func (r *rocks) request(mode, path string, extra ...string) {
	r.t.Helper()
	before := len(r.asked())
	r.hub.form(append([]string{"hub.mode", mode, "hub.topic", r.topic, "hub.callback", r.url(0, path)}, extra...)...).want(r.t, http.StatusAccepted)
	eventually(r.t, time.Minute, func() error {
		for _, v := range r.asked()[before:] {
			if v.callback == path && v.query["hub.mode"][0] == mode {
				return nil
			}
		}
		return fmt.Errorf("no verification of %s", mode)
	})
}

// subscribe is request, until the subscription is in force.
func (r *rocks) subscribe(path string, extra ...string) {
	r.t.Helper()
	r.request("subscribe", path, extra...)
	r.hub.active(1)
}

// publish changes the topic and tells the hub.
func (r *rocks) publish(body string) {
	r.t.Helper()
	r.write(body)
	r.ping()
}

func (r *rocks) ping() {
	r.t.Helper()
	r.hub.form("hub.mode", "publish", "hub.topic", r.topic).want(r.t, http.StatusAccepted)
}

// delivered waits until a callback has n deliveries and returns them.
func (r *rocks) delivered(path string, n int) []delivery {
	r.t.Helper()
	var got []delivery
	eventually(r.t, time.Minute, func() error {
		if got = r.at(path); len(got) < n {
			return fmt.Errorf("%d deliveries to %s, want %d\n%s", len(got), path, n, r.hub.log)
		}
		return nil
	})
	if len(got) > n {
		r.t.Fatalf("%d deliveries to %s, want %d", len(got), path, n)
	}
	return got
}

// at returns the deliveries to a callback so far.
func (r *rocks) at(path string) (got []delivery) {
	for _, d := range r.got() {
		if d.callback == path {
			got = append(got, d)
		}
	}
	return got
}

// check looks at a delivery as the suite does; secret is empty where none was
// given.
func (r *rocks) check(d delivery, secret string) {
	r.t.Helper()
	topic := do(r.t, http.MethodGet, r.topic, nil, nil).want(r.t, http.StatusOK)
	if len(d.body) == 0 || !bytes.Equal(bytes.TrimSpace(d.body), bytes.TrimSpace(topic.body)) {
		r.t.Errorf("delivered %q, the topic serves %q", d.body, topic.body)
	}
	if got, want := d.header.Get("Content-Type"), topic.header.Get("Content-Type"); got != want {
		r.t.Errorf("Content-Type %q, the topic has %q", got, want)
	}
	links := websub.ParseLinks(d.header.Values("Link"))
	if hubs := websub.Targets(links, websub.RelHub); len(hubs) == 0 || hubs[0] != r.hub.url() {
		r.t.Errorf("Link %q: the first hub is not %s", d.header.Values("Link"), r.hub.url())
	}
	if self := websub.Targets(links, websub.RelSelf); len(self) != 1 || self[0] != r.topic {
		r.t.Errorf("Link %q: self is not %s", d.header.Values("Link"), r.topic)
	}
	if (len(d.header.Values("X-Hub-Signature")) > 0) != (secret != "") {
		r.t.Errorf("X-Hub-Signature %q", d.header.Values("X-Hub-Signature"))
	}
	if secret == "" {
		return
	}
	method, got, _ := strings.Cut(d.signature, "=")
	digest := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[method]
	if digest == nil {
		r.t.Fatalf("signed by %q", method)
	}
	mac := hmac.New(digest, []byte(secret))
	mac.Write(d.body)
	if want := hex.EncodeToString(mac.Sum(nil)); got != want {
		r.t.Errorf("signature %q, want %q", got, want)
	}
}

// HUB-60, HUB-61: each scenario, with the topic check as --dev has it and as it is
// by default.
func TestWebSubRocks_HUB60_HUB61(t *testing.T) {
	for _, mode := range []string{"warn", "require"} {
		for _, s := range []struct {
			name      string
			mediaType string
			run       func(t *testing.T, r *rocks)
		}{
			{"100 typical subscriber request", "text/html; charset=UTF-8", rocks100()},
			{"101 with a secret", "text/html; charset=UTF-8", rocks100("hub.secret", "abcdefghijklmnopqrst")},
			{"102 additional parameters", "text/html; charset=UTF-8", rocks100("foo", "bar", "hub.foo", "hub.bar")},
			{"103 re-subscribe before it expires", "text/html", rocks103},
			{"104 unsubscribe", "text/html", rocks104},
			{"105 plain text", "text/plain", rocks100()},
			{"106 JSON", "application/json", rocks100()},
		} {
			t.Run(s.name+", --topic-check="+mode, func(t *testing.T) {
				t.Parallel()
				s.run(t, newRocks(t, startHub(t, "--topic-check", mode), s.mediaType))
			})
		}
	}
}

// rocks100 is 100 and those that only differ in the request and the topic.
func rocks100(extra ...string) func(*testing.T, *rocks) {
	return func(_ *testing.T, r *rocks) {
		secret := ""
		if len(extra) > 0 && extra[0] == "hub.secret" {
			secret = extra[1]
		}
		r.subscribe("/cb", extra...)
		r.publish("{\"one\": \"\xc3\xa9\"}\n")
		r.check(r.delivered("/cb", 1)[0], secret)
		r.publish("{\"two\": 2}\n")
		r.check(r.delivered("/cb", 2)[1], secret)
	}
}

func rocks103(_ *testing.T, r *rocks) {
	r.subscribe("/cb")
	r.publish("one")
	r.check(r.delivered("/cb", 1)[0], "")
	r.subscribe("/cb")
	r.publish("two")
	r.check(r.delivered("/cb", 2)[1], "")
	// One that came twice would have come before the next.
	r.publish("three")
	r.check(r.delivered("/cb", 3)[2], "")
}

func rocks104(t *testing.T, r *rocks) {
	r.subscribe("/cb")
	r.publish("one")
	r.check(r.delivered("/cb", 1)[0], "")
	r.request("unsubscribe", "/cb")
	r.hub.active(0)
	// Another callback tells when what follows has gone out.
	r.subscribe("/witness")
	for i, body := range []string{"two", "three"} {
		r.publish(body)
		r.check(r.delivered("/witness", i+1)[i], "")
	}
	if got := r.at("/cb"); len(got) != 1 {
		t.Errorf("%d deliveries, the last after the end: %q", len(got), got[len(got)-1].body)
	}
}

// DST-01, HUB-57, HUB-60, HUB-61: a feed that names the hub in itself alone, as a blog
// does whose owner can't set headers, goes out as it is, with its DTD and in its
// encoding; so does a page, and a first notification after them.
func TestFeedNamesTheHubItself_DST01_HUB57_HUB60_HUB61(t *testing.T) {
	h := startHub(t, "--topic-check=require")
	r := newRocks(t, h, "application/xml")
	r.bare = true
	r.write(`<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://127.0.0.1:9/rss.dtd">` +
		`<rss version="0.91" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Caf` + "\xe9" + `</title>` +
		`<atom:link rel="self" href="` + r.topic + `"/><atom:link rel="hub" href="` + h.url() + `"/></channel></rss>`)
	r.subscribe("/cb")
	r.ping()
	r.check(r.delivered("/cb", 1)[0], "")

	serve := func(mediaType string, bare bool, body string) {
		r.mu.Lock()
		r.mediaType, r.bare, r.body = mediaType, bare, body
		r.mu.Unlock()
		r.ping()
	}
	serve("text/html", true, `<title>A page</title><link rel="self" href="`+r.topic+`"><link rel="hub" href="`+h.url()+`">`)
	r.check(r.delivered("/cb", 2)[1], "")
	serve("application/xml", false, string(newSource(r.topic).next(0)))
	r.check(r.delivered("/cb", 3)[2], "")
	serve("text/html", false, "an error page")
	h.fetchedAs(r.topic, "other-kind", "carries change notifications")
	r.delivered("/cb", 3)
}

// HUB-60: a ping that was answered is fetched, though the hub is killed before it
// got the topic.
func TestPingOutlivesTheHub_HUB60(t *testing.T) {
	h := startHub(t)
	r := newRocks(t, h, "text/plain")
	r.subscribe("/cb")
	r.hold(make(chan struct{}))
	r.publish("content")
	eventually(t, time.Minute, func() error {
		if r.fetched() == 0 {
			return fmt.Errorf("the topic is not asked")
		}
		return nil
	})
	h.kill()
	r.hold(nil)
	h.start()
	r.check(r.delivered("/cb", 1)[0], "")
}

// HUB-60: a hundred pings while one fetch hangs lead to one more.
func TestPingsCoalesce_HUB60(t *testing.T) {
	h := startHub(t)
	r := newRocks(t, h, "text/plain")
	r.subscribe("/cb")
	gate := make(chan struct{})
	r.hold(gate)
	r.publish("one")
	eventually(t, time.Minute, func() error {
		if r.fetched() == 0 {
			return fmt.Errorf("the topic is not asked")
		}
		return nil
	})
	for range 100 {
		r.ping()
	}
	if n := r.fetched(); n != 1 {
		t.Errorf("%d fetches at once", n)
	}
	r.hold(nil)
	close(gate)
	r.delivered("/cb", 2)
	// A third would have come before what the next ping leads to.
	r.publish("two")
	if got := r.delivered("/cb", 3); r.fetched() != 3 || string(got[2].body) != "two" {
		t.Errorf("%d fetches, the last delivery is %q", r.fetched(), got[2].body)
	}
}

// fetchedAs waits until the topic's API tells of an outcome.
func (h *hub) fetchedAs(topic, outcome, says string) {
	h.t.Helper()
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic))
	eventually(h.t, time.Minute, func() error {
		var got struct {
			URL   string `json:"url"`
			Fetch struct {
				Outcome string `json:"outcome"`
				Detail  string `json:"detail"`
				Waiting bool   `json:"waiting"`
				Status  int    `json:"status"`
			} `json:"fetch"`
		}
		h.api("/api/v1/topics/"+id.String(), &got)
		if f := got.Fetch; got.URL != topic || f.Outcome != outcome || !strings.Contains(f.Detail, says) || f.Waiting || f.Status != http.StatusOK {
			return fmt.Errorf("%+v, want the outcome %s", got, outcome)
		}
		return nil
	})
}

// HUB-60: change notifications that are fetched keep to their intervals; the same
// again is sent once, and what leaves a gap is not.
func TestPingOfNotifications_HUB60(t *testing.T) {
	for _, mode := range []string{"warn", "require"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRocks(t, startHub(t, "--topic-check", mode), "application/xml")
			src := newSource(r.topic)
			r.subscribe("/cb")
			r.publish(string(src.next(0)))
			r.check(r.delivered("/cb", 1)[0], "")
			r.ping() // unchanged
			src.next(0)
			r.publish(string(src.next(0))) // one is missing
			r.hub.fetchedAs(r.topic, "gap", "has to start at")
			src.until = src.until.Add(-2 * time.Second)
			r.publish(string(src.next(0)))
			r.check(r.delivered("/cb", 2)[1], "")
		})
	}
}

// A topic that names another hub is fetched and not delivered, and its API says
// why; where publishing takes a credential there are no pings.
func TestPingOfForeignTopics_HUB60(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<http://`+r.Host+`/>; rel="self", <https://other.example/>; rel="hub"`)
		_, _ = io.WriteString(w, "content")
	}))
	defer foreign.Close()
	h := startHub(t, "--topic-check", "require")
	h.form("hub.mode", "publish", "hub.url", foreign.URL+"/").want(t, http.StatusAccepted)
	h.fetchedAs(foreign.URL+"/", "topic-denied", h.url())
	closed := startHub(t, "--publish-auth", "token")
	closed.form("hub.mode", "publish", "hub.url", foreign.URL+"/").want(t, http.StatusForbidden)
}
