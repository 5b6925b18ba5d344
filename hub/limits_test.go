package hub

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/websub"
)

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body of a publish that has to be refused before was read")
	return 0, io.ErrUnexpectedEOF
}

// --publish-rate in bytes: received bytes count for the sender and for the topic's host. A body
// that is longer than the rest of the allowance is not read.
func TestPublishRateInBytes(t *testing.T) {
	clock := noon
	w := newWorld(t, func(o *Options) {
		o.PublishBytes, o.MaxBody = Rate{Events: 1000, Per: time.Minute}, 1000
		o.Now = func() time.Time { return clock }
	})
	post := func(address, host string, n int, change ...func(*http.Request)) int {
		r := publish(strings.Repeat("<", n), append(change, with("Link", link("https://"+host+"/")))...)
		r.RemoteAddr = address
		return w.do(r).Code
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	notRead := func(r *http.Request) { r.Body = io.NopCloser(untouched{t}) }
	breaksOff := func(r *http.Request) {
		r.Body, r.ContentLength = failing{strings.NewReader(strings.Repeat("<", 900))}, 1000
	}
	for i, tc := range []struct {
		address, host string
		n             int
		change        func(*http.Request)
		want          int
	}{
		{"192.0.2.1:1", "a.example", 600, nil, 400},
		{"192.0.2.1:2", "b.example", 401, notRead, 429}, // of one address
		{"192.0.2.2:1", "A.example", 401, notRead, 429}, // to one host
		{"192.0.2.1:2", "b.example", 400, nil, 400},     // just fits
		{"192.0.2.1:2", "c.example", 0, chunked, 429},   // there is nothing left, however long it is
		{"192.0.2.3:1", "d.example", 10, nil, 400},
		{"192.0.2.3:1", "d.example", 990, chunked, 400},
		{"192.0.2.4:1", "e.example", 300, breaksOff, 400}, // the bytes that came count
		{"192.0.2.4:1", "f.example", 101, notRead, 429},
		{"192.0.2.4:1", "f.example", 100, nil, 400},
		{"192.0.2.5:1", "example.org", 1000, nil, 400},
		{"192.0.2.5:1", "example.org", 700, withToken("alice's token"), 400}, // strangers use up only their own allowance
		{"192.0.2.6:1", "example.org", 700, withToken("alice's token"), 429}, // and she hers, from wherever
		{"192.0.2.7:1", "g.example", 500, withToken("guess"), 401},
		{"192.0.2.7:1", "g.example", 1000, nil, 400}, // it was not read
	} {
		if got := post(tc.address, tc.host, tc.n, tc.change); got != tc.want {
			t.Errorf("request %d, %d bytes from %s to %s: %d, want %d", i, tc.n, tc.address, tc.host, got, tc.want)
		}
	}
	clock = clock.Add(30 * time.Second) // of the 600 bytes to a.example 500 are made up for
	if got := post("192.0.2.8:1", "a.example", 901, notRead); got != 429 {
		t.Errorf("half a minute later, too many: %d", got)
	}
	if got := post("192.0.2.8:1", "a.example", 900); got != 400 {
		t.Errorf("half a minute later: %d", got)
	}
}

// The answer says after how long there is room.
func TestPublishRateInBytesSaysWhen(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PublishBytes, o.MaxBody = Rate{Events: 1000, Per: time.Minute}, 2000 })
	first, body := strings.Repeat("<", 700), strings.Repeat("<", 600)
	w.do(publish(first))
	rec := w.do(publish(body))
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "18" || !strings.Contains(rec.Body.String(), "Too many bytes from you: the limit is 1000 per minute") {
		t.Errorf("%d, after %s: %s", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
	}
	if rec := w.do(publish(strings.Repeat("<", 1001))); rec.Code != 429 || !strings.Contains(rec.Body.String(), "Send less at once") {
		t.Errorf("more than there ever is room for: %d %s", rec.Code, rec.Body)
	}
}

// Bytes that a topic serves count like bytes that are sent to it, so a ping evades no limit.
func TestFetchesCountInBytes(t *testing.T) {
	inBed(t, func(b *bed) {
		b.web.set(topic, served("text/plain", strings.Repeat("x", 900)))
		b.pinged(topic)
		time.Sleep(time.Second)
		if rec := b.do(publish(strings.Repeat("<", 200))); rec.Code != 429 {
			t.Errorf("a publish after it: %d %s", rec.Code, rec.Body)
		}
		if rec := b.do(publish(strings.Repeat("<", 200), withToken("alice's token"))); rec.Code != 400 {
			t.Errorf("one with a token: %d", rec.Code)
		}
		b.pinged(topic) // there is something left
		time.Sleep(time.Second)
		if rec := b.do(ping(topic)); rec.Code != 429 {
			t.Errorf("a ping over the limit: %d %s", rec.Code, rec.Body)
		}
		time.Sleep(2 * time.Minute)
		b.pinged(topic)
	}, func(o *Options) { o.PublishBytes, o.MaxBody = Rate{Events: 1000, Per: time.Minute}, 1000 })
}

// Publishes and fetches have memory of their own, however much is fetched and however slowly it
// comes (invariant 12).
func TestFetchesAndPublishesShareNoMemory(t *testing.T) {
	inBed(t, func(b *bed) {
		if !b.fetchMemory.TryAcquire(b.o.MaxFetchBytes) || b.o.MaxFetchBytes >= b.o.MaxPublishBytes {
			t.Fatalf("%d bytes for fetches, %d for publishes", b.o.MaxFetchBytes, b.o.MaxPublishBytes)
		}
		b.accept(publish(notification(`capability="framework-notification"`)))
		b.fetchMemory.Release(b.o.MaxFetchBytes)

		if !b.memory.TryAcquire(b.o.MaxPublishBytes) {
			t.Fatal("something is held")
		}
		defer b.memory.Release(b.o.MaxPublishBytes)
		b.web.set("https://other.example/", served("text/plain", "x"))
		if err := b.store.Ping(t.Context(), time.Now(), []string{"https://other.example/"}); err != nil { // a form needs memory
			t.Fatal(err)
		}
		time.Sleep(sweepEvery + time.Second)
		if m := b.pingRecord("https://other.example/"); m.Last.Outcome != "accepted" {
			t.Errorf("%+v", m)
		}
	})
}

// Nonsense does not fill the disk: the log has the first lines of each kind, then one every two
// seconds, which says how many there were. Accepted requests and other kinds are still logged, and
// everything is counted.
func TestLinesAboutRefusalsAreBounded(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	clock, counted := noon, 0
	w := newWorld(t, func(o *Options) {
		o.Log, o.Now = zap.New(core), func() time.Time { return clock }
		o.Event = func(Event) { counted++ }
	})
	lines := func(outcome string) int { return logs.FilterField(zap.String("outcome", outcome)).Len() }
	for range 1000 {
		w.do(publish("x", withToken("guess")))
	}
	if n := lines("wrong-credential"); n != quiet.Burst || counted != 1000 {
		t.Errorf("%d lines about %d refusals", n, counted)
	}
	w.do(publish("<"))
	w.accept(publish(doc(0, 1, "a")))
	if lines("not-well-formed") != 1 || lines("accepted") != 1 {
		t.Errorf("of others: %d and %d", lines("not-well-formed"), lines("accepted"))
	}
	clock = clock.Add(quiet.Every)
	w.do(publish("x", withToken("guess")))
	w.do(publish("x", withToken("guess")))
	last := logs.FilterField(zap.String("outcome", "wrong-credential")).All()[quiet.Burst:]
	if len(last) != 1 || last[0].ContextMap()["left_out"] != int64(1000-quiet.Burst) {
		t.Errorf("%d lines, the first: %v", len(last), last[0].ContextMap())
	}
}

// The line of a refused publish says all that is known: the publisher, its address, the topic, and
// the rule.
func TestRefusedPublishIsOneLine(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(o *Options) { o.Log = zap.New(core) })
	other := with("Link", link("https://other.example/"))
	foreign := doc(0, 1, "a")
	for _, tc := range []struct {
		why                      string
		req                      *http.Request
		outcome, publisher, rule string
		topic                    string
	}{
		{"a token", publish(foreign, withToken("alice's token"), other), "topic-not-covered", "alice", "", "https://other.example/"},
		{"a signature", publish(foreign, other, with(websub.HeaderSignature, websub.SHA256.Sign("alice's secret", []byte(foreign)))), "topic-not-covered", "alice", "", "https://other.example/"},
		{"a guess", publish(foreign, withToken("guess")), "wrong-credential", "", "", topic},
		{"a bad document", publish(doc(2, 1, "a"), withToken("alice's token")), "invalid-notification", "alice", "DOC-13", topic},
	} {
		logs.TakeAll()
		w.do(tc.req)
		all := logs.All()
		if len(all) != 1 {
			t.Fatalf("%s: %d lines", tc.why, len(all))
		}
		got := all[0].ContextMap()
		for key, want := range map[string]string{
			"event": "publish", "outcome": tc.outcome, "topic": tc.topic, "requester": "192.0.2.1", "publisher": tc.publisher, "rule": tc.rule,
		} {
			if v, _ := got[key].(string); v != want {
				t.Errorf("%s: %s is %q, want %q", tc.why, key, v, want)
			}
		}
		if reason, _ := got["reason"].(string); reason == "" || len(reason) > 2000 {
			t.Errorf("%s: reason %q", tc.why, reason)
		}
	}
}

// X-Forwarded-For gives nobody a second allowance: behind our proxy only the address that the proxy
// appended counts, and from elsewhere the header does not count. A /64 of IPv6 is one requester.
// Behind several of our proxies, the address that the first one saw counts.
func TestSubscribeRateCannotBeEscaped(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.SubscribeRate = Rate{Events: 1, Per: time.Hour}
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	ask := func(remote string, forwarded ...string) int {
		r := subscribeForm()
		r.RemoteAddr = remote
		r.Header["X-Forwarded-For"] = forwarded
		return w.do(r).Code
	}
	for i, tc := range []struct {
		remote    string
		forwarded []string
		want      int
	}{
		{"10.0.0.1:1", []string{"203.0.113.7"}, 202},
		{"10.0.0.1:1", []string{"203.0.113.7"}, 429},
		{"10.0.0.1:1", []string{"198.51.100.1, 203.0.113.7"}, 429},                // what he sent himself, and what was appended
		{"10.0.0.1:1", []string{"198.51.100.2", "203.0.113.7"}, 429},              // in a header of its own
		{"10.0.0.2:1", []string{"198.51.100.3, 203.0.113.7:4711, 10.0.0.1"}, 429}, // by two proxies of ours
		{"10.0.0.1:1", []string{"10.0.0.9, 203.0.113.7"}, 429},                    // one that he claims
		{"10.0.0.1:1", []string{"::ffff:203.0.113.7"}, 429},                       // in other clothes
		{"203.0.113.7:1", nil, 429},                                               // directly
		{"203.0.113.7:2", []string{"198.51.100.4"}, 429},                          // from elsewhere nothing counts
		{"192.0.2.66:1", []string{"10.0.0.1"}, 202},                               // nor that it was one of ours
		{"192.0.2.66:1", []string{"198.51.100.5, 10.0.0.1"}, 429},
		{"10.0.0.1:1", []string{"2001:db8:1:2::1"}, 202},
		{"10.0.0.1:1", []string{"[2001:db8:1:2:ffff::2]:80"}, 429}, // one household
		{"10.0.0.1:1", []string{"2001:db8:1:3::1"}, 202},
		{"10.0.0.1:1", []string{"198.51.100.6, not an address"}, 202}, // counts as the proxy
		{"10.0.0.1:1", []string{"198.51.100.7, not an address"}, 429},
		{"10.0.0.1:1", []string{strings.Repeat("198.51.100.8,", 5000) + "203.0.113.7"}, 429},
	} {
		if got := ask(tc.remote, tc.forwarded...); got != tc.want {
			t.Errorf("request %d from %s, %.80q: %d, want %d", i, tc.remote, tc.forwarded, got, tc.want)
		}
	}
}
