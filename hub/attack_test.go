package hub_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/draws"
	"github.com/rshub/rshub/validate"
)

const (
	attackedHub = "https://hub.example/"
	tokenTopic  = "https://source.example/by-token/"   // whose Source has a token
	openTopic   = "https://source.example/by-content/" // whose Source has none
	ownCallback = "https://app.example/cb/"
	callbacks   = 10
	perMinute   = 20 // --verify-budget
)

// siege is a hub among strangers, in virtual time, on a store that outlives it. The
// Source's host and that of the callbacks have one address, as behind a CDN.
type siege struct {
	t     *testing.T
	store *storetest.Memory
	hub   *hub.Handler
	subs  *subscriptions.Service
	end   func()

	addresses *egress.Budget // as the hub's client acquires places of addresses

	mu       sync.Mutex
	serves   string                 // what openTopic serves
	expects  map[string]bool        // callbacks that asked for something
	unwanted map[string][]time.Time // requests that were not confirmed, by host and address
	sent     atomic.Int64

	attacks int
	forged  string // a notification of anything

	delays [2]time.Duration // the longest of publishes and of renewals
	until  map[string]time.Time
}

func (s *siege) start() {
	budget := egress.NewBudget(perMinute)
	checker, err := validate.NewTopicChecker(validate.TopicOptions{HubURL: attackedHub, Client: s, Budget: budget})
	if err != nil {
		s.t.Fatal(err)
	}
	s.addresses = egress.NewBudget(perMinute)
	s.subs, err = subscriptions.New(subscriptions.Options{
		Store: s.store, Heads: s.store, Client: s, Budget: budget, Check: checker,
		MaxPending: 100_000, MaxPendingPerHost: 1000,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	pattern, err := validate.ParsePattern("https://source.example/*")
	if err != nil {
		s.t.Fatal(err)
	}
	s.hub, err = hub.New(hub.Options{
		HubURL: attackedHub, Journal: s.store, Pings: s.store, Subscriptions: s.subs, Topics: checker,
		Auth: hub.PublishAuth{Content: true, Token: true},
		Publishers: validate.NewPublishers([]validate.Publisher{{
			Name: "source", Topics: []validate.Pattern{pattern}, TokenSHA256: [][32]byte{sha256.Sum256([]byte("token"))},
		}}),
		PublishRate: hub.Rate{Events: 600, Per: time.Minute}, SubscribeRate: hub.Rate{Events: 600, Per: time.Minute},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.subs.Run(ctx) })
	running.Go(func() { _ = s.hub.Fetch(ctx) })
	s.end = func() { cancel(); running.Wait(); checker.Close() }
}

// Do is the network: it acquires a place of the address, and answers after some time.
func (s *siege) Do(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	addr := "address of " + host
	if host == "source.example" || host == "app.example" {
		addr = "address of the CDN"
	}
	_, confirm, wait := s.addresses.Begin(r.Context(), time.Now(), addr)
	if wait > 0 {
		return nil, &egress.BudgetError{Target: addr, Wait: wait}
	}
	at := time.Now()
	time.Sleep(100 * time.Millisecond)
	resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, ContentLength: -1, Body: http.NoBody, Request: r}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Add(1)
	if s.answer(r.URL, resp) {
		confirm()
		return resp, nil
	}
	s.unwanted[host] = append(s.unwanted[host], at)
	if addr == "address of the CDN" {
		s.unwanted[addr] = append(s.unwanted[addr], at)
	}
	return resp, nil
}

// answer fills in the answer of a URL, and reports whether it confirms the request.
func (s *siege) answer(u *url.URL, resp *http.Response) bool {
	topic := u.String()
	q := u.Query()
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	switch callback := u.String(); {
	case topic == tokenTopic, topic == openTopic, u.Host == "evil.example":
		resp.StatusCode = http.StatusOK
		resp.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, attackedHub))
		if topic == openTopic {
			resp.Body = io.NopCloser(strings.NewReader(s.serves))
		}
		return true
	case s.expects[callback]:
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(q.Get("hub.challenge")))
		return true
	}
	return false
}

func (s *siege) do(r *http.Request, from string) int {
	r.RemoteAddr = from + ":4711"
	rec := httptest.NewRecorder()
	s.hub.ServeHTTP(rec, r)
	return rec.Code
}

func (s *siege) form(from string, pairs ...string) int {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, attackedHub, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(r, from)
}

func (s *siege) subscribe(from, topic, callback, secret string) int {
	return s.form(from, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.secret", secret)
}

func (s *siege) post(from, topic, token, doc string) int {
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, attackedHub, bytes.NewReader([]byte(doc)))
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, attackedHub))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return s.do(r, from)
}

func change(from, until time.Time, what string) string {
	return fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="%s" until="%s"/>
<url><loc>https://source.example/%s</loc><rs:md change="updated"/></url></urlset>`, from.Format(time.RFC3339), until.Format(time.RFC3339), what)
}

// publish publishes the changes since the last time, until the hub accepts them.
func (s *siege) publish(topic, token string) {
	now := time.Now().UTC().Truncate(time.Second)
	s.mu.Lock()
	from := s.until[topic]
	s.mu.Unlock()
	doc := change(from, now, "true")
	if token == "" {
		s.mu.Lock()
		s.serves = doc
		s.mu.Unlock()
	}
	start := time.Now()
	for code := 0; ; time.Sleep(250 * time.Millisecond) {
		if code = s.post("203.0.113.1", topic, token, doc); code == http.StatusOK {
			break
		}
		if time.Since(start) > 2*time.Minute {
			s.t.Errorf("%v: a publish to %s is still answered %d after two minutes", time.Now(), topic, code)
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[topic] = now
	s.delays[0] = max(s.delays[0], time.Since(start))
}

// renew has a callback subscribed anew until that is verified.
func (s *siege) renew(i int) {
	callback, start := fmt.Sprint(ownCallback, i), time.Now()
	s.expect(callback, true)
	defer s.expect(callback, false)
	for code := 0; code != http.StatusAccepted; time.Sleep(250 * time.Millisecond) {
		if code = s.subscribe("203.0.113.2", tokenTopic, callback, "its own secret"); time.Since(start) > 2*time.Minute {
			s.t.Errorf("%v: a renewal is still answered %d after two minutes", time.Now(), code)
			return
		}
	}
	for ; time.Since(start) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
		rec, err := s.store.Get(s.t.Context(), subscriptions.ID(tokenTopic, callback))
		if err != nil {
			s.t.Error(err)
		}
		if sub := rec.Subscription; sub != nil && !sub.VerifiedAt.Before(start) {
			if sub.Secret != "its own secret" {
				s.t.Errorf("%s has a stranger's secret", callback)
			}
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays[1] = max(s.delays[1], time.Since(start))
}

func (s *siege) expect(callback string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expects[callback] = on
}

// attack makes the next request of strangers.
func (s *siege) attack() {
	i := s.attacks
	s.attacks++
	from := fmt.Sprintf("198.51.100.%d", i%16)
	switch n := i / 16; n % 10 {
	case 0: // nonsense on the Source's host
		s.subscribe(from, tokenTopic, fmt.Sprint("https://source.example/nonsense/", i), "x")
	case 1:
		s.subscribe(from, fmt.Sprint("https://source.example/nothing/", i), fmt.Sprintf("https://c%d.evil.test/", i), "x")
	case 2: // exactly the callbacks, for themselves and on their host
		s.subscribe(from, tokenTopic, fmt.Sprint(ownCallback, i%callbacks), "a stranger's secret")
		s.subscribe(from, openTopic, fmt.Sprint(ownCallback, i), "x")
	case 3: // exactly the topics
		s.mu.Lock()
		last := s.until[openTopic]
		s.mu.Unlock()
		s.post(from, openTopic, "", change(last, time.Now().UTC().Add(time.Second), "forged"))
		if n%50 == 3 {
			s.form(from, "hub.mode", "publish", "hub.url", openTopic)
			s.form(from, "hub.mode", "publish", "hub.url", fmt.Sprint("https://source.example/nothing/", i))
		}
	case 4, 5: // other topics, which name this hub
		s.subscribe(from, fmt.Sprint("https://evil.example/", i), fmt.Sprintf("https://c%d.evil.test/", i), "x")
	default: // and that do not
		s.post(from, fmt.Sprintf("https://t%d.evil.test/", i), "", s.forged)
	}
}

// Strangers stop neither an established Source, with a token or without, nor renewals. They send
// ten times 60 requests a minute from 16 addresses. The requests name nonsense on the Source's
// host, its own topics and callbacks, and thousands of other topics. The hub has been running, or was
// just restarted. Meanwhile the hub calls what they name no more often than the budget allows.
func TestStrangersStopNobody(t *testing.T) {
	phase := time.Duration(draws.Times()) * 10 * time.Minute
	if testing.Short() {
		phase = 5 * time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		s := &siege{t: t, store: storetest.NewMemory(), expects: map[string]bool{}, unwanted: map[string][]time.Time{}, until: map[string]time.Time{}}
		s.forged = change(time.Now(), time.Now(), "forged")
		time.Sleep(time.Hour) // so that there is a past
		for _, topic := range []string{tokenTopic, openTopic} {
			s.until[topic] = time.Now().UTC().Add(-time.Minute)
		}
		s.start()
		s.publish(tokenTopic, "token")
		s.publish(openTopic, "")
		for i := range callbacks {
			s.renew(i)
		}
		for _, hub := range []string{"running", "just restarted"} {
			s.delays = [2]time.Duration{}
			s.besiege(phase)
			t.Logf("a hub that is %s: publishes waited for %v at most, renewals for %v; %d requests were sent", hub, s.delays[0], s.delays[1], s.sent.Load())
			for i, what := range []string{"publish", "renewal"} {
				if s.delays[i] > 5*time.Second {
					t.Errorf("a hub that is %s: a %s waited for %v, want 5 s at most", hub, what, s.delays[i])
				}
			}
			s.end()
			s.start()
		}
		s.end()
		for target, at := range s.unwanted {
			for i := perMinute; i < len(at); i++ {
				if d := at[i].Sub(at[i-perMinute]); d < time.Minute {
					t.Errorf("%s got %d requests within %v that it did not confirm", target, perMinute+1, d)
					break
				}
			}
		}
		if n := len(s.unwanted["address of the CDN"]); n < 10*int(phase/time.Minute) {
			t.Errorf("the CDN got %d requests that it did not confirm: there was no attack", n)
		}
	})
}

// besiege attacks for some time. Meanwhile the Source publishes every half minute, and each
// callback is renewed every five minutes.
func (s *siege) besiege(d time.Duration) {
	var honest sync.WaitGroup
	for i := range int(d / time.Second * 10) {
		s.attack()
		if i%300 == 50 {
			honest.Go(func() { s.publish(tokenTopic, "token") })
			honest.Go(func() { s.publish(openTopic, "") })
			honest.Go(func() { s.renew(i / 300 % callbacks) })
		}
		time.Sleep(100 * time.Millisecond)
	}
	honest.Wait()
}
