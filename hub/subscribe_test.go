package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const callback = "https://subscriber.example/cb"

// HUB-13: a request that is accepted as it was sent gets exactly 202. HUB-02, HUB-03, HUB-04.
func TestSubscribe_HUB13(t *testing.T) {
	plain := websub.SubscribeRequest{Mode: websub.ModeSubscribe, Topic: topic, Callback: callback}
	changed := func(change func(*websub.SubscribeRequest)) websub.SubscribeRequest {
		r := plain
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name string
		req  *http.Request
		want websub.SubscribeRequest
	}{
		{"the least", subscribeForm(), plain},
		{"HUB-05", subscribeForm("hub.lease_seconds", "3600"), changed(func(r *websub.SubscribeRequest) { r.Lease, r.HasLease = time.Hour, true })},
		{
			"HUB-06", form("hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", callback, "hub.lease_seconds", "never"),
			changed(func(r *websub.SubscribeRequest) { r.Mode = websub.ModeUnsubscribe }),
		},
		{"HUB-07", subscribeForm("hub.secret", strings.Repeat("s", 199)), changed(func(r *websub.SubscribeRequest) { r.Secret = strings.Repeat("s", 199) })},
		{"HUB-08", subscribeForm("hub.secret", "over plain HTTP"), changed(func(r *websub.SubscribeRequest) { r.Secret = "over plain HTTP" })},
		{"HUB-09", subscribeForm("foo", "bar", "hub.foo", "hub.bar", "hub.verify", "async", "hub.verify_token", "x"), plain},
		{"HUB-09 again", subscribeForm("hub.topic", topic), plain},
		{"HUB-10", func() *http.Request {
			r := newRequest(http.MethodPost, hubURL, strings.NewReader(
				"hub.mode=subscribe&hub.topic=http%3A%2F%2Fexample.org%2F%257e%3Fa%3D1%26b%3D2&hub.callback=https://%73ubscriber.example/cb"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
			return r
		}(), changed(func(r *websub.SubscribeRequest) { r.Topic = "http://example.org/%7e?a=1&b=2" })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			rec := w.do(tc.req)
			if rec.Code != http.StatusAccepted {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if d := cmp.Diff([]websub.SubscribeRequest{tc.want}, w.subs.requests); d != "" {
				t.Error(d)
			}
			if w.subs.requester != "192.0.2.1" {
				t.Errorf("requester %q", w.subs.requester)
			}
		})
	}
}

// HUB-01: the hub ignores the query string.
func TestSubscribeReadsTheBodyAlone_HUB01(t *testing.T) {
	w := newWorld(t)
	r := newRequest(http.MethodPost, hubURL+"?hub.mode=subscribe&hub.topic="+topic+"&hub.callback="+callback, http.NoBody)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if rec := w.do(r); rec.Code != http.StatusBadRequest || len(w.subs.requests) != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// HUB-15: the answer is the same whatever the topic and its check would say, and
// nothing is asked before it is given.
func TestSubscribeDoesNotAsk_HUB15(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Topics = unasked{t} })
	if rec := w.do(subscribeForm()); rec.Code != http.StatusAccepted {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// unasked is a topic check that must not be asked.
type unasked struct{ t *testing.T }

func (u unasked) Check(context.Context, string) error {
	u.t.Error("the topic was checked")
	return errors.New("not to be asked")
}

func (u unasked) Fetch(context.Context, string) (validate.Fetched, error) {
	u.t.Error("the topic was fetched")
	return validate.Fetched{}, errors.New("not to be asked")
}

func (u unasked) Content(context.Context, string, string, []byte) error {
	u.t.Error("the topic's content was compared")
	return errors.New("not to be asked")
}

// HUB-16: topics and callbacks are refused by policy; whoever wants to leave can.
func TestSubscribePolicy_HUB16(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.TopicAllow, o.TopicDeny = patterns("https://example.org/*"), patterns("https://example.org/private/*")
		o.Callbacks = guarded()
	})
	for _, tc := range []struct {
		mode, topic, callback string
		want                  int
	}{
		{"subscribe", topic, callback, 202},
		{"subscribe", "https://example.org/private/x", callback, 403},
		{"subscribe", "https://example.org/x/../%70rivate/x", callback, 403},
		{"subscribe", "https://other.example/", callback, 403},
		{"unsubscribe", "https://other.example/", callback, 202},
		{"subscribe", topic, "http://127.0.0.1/", 403},
		{"subscribe", topic, "http://[::1]:80/", 403},
		{"subscribe", topic, "http://192.168.1.1/", 403},
	} {
		rec := w.do(form("hub.mode", tc.mode, "hub.topic", tc.topic, "hub.callback", tc.callback))
		if rec.Code != tc.want {
			t.Errorf("%s %s at %s: %d %s", tc.mode, tc.topic, tc.callback, rec.Code, rec.Body)
		}
	}
}

// HUB-08: with the switch on, secrets need HTTPS, here or at a trusted proxy.
func TestRequireHTTPSForSecrets_HUB08(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.RequireHTTPSForSecrets = true
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	plain := func(r *http.Request) { r.TLS = nil }
	proxied := func(addr string) func(*http.Request) {
		return func(r *http.Request) {
			r.TLS, r.RemoteAddr = nil, addr
			r.Header.Set("X-Forwarded-Proto", "https")
		}
	}
	for _, tc := range []struct {
		why    string
		req    *http.Request
		change func(*http.Request)
		want   int
	}{
		{"no secret", subscribeForm(), plain, 202},
		{"plain", subscribeForm("hub.secret", "s"), plain, 403},
		{"TLS", subscribeForm("hub.secret", "s"), func(r *http.Request) { r.TLS = &tls.ConnectionState{} }, 202},
		{"behind our proxy", subscribeForm("hub.secret", "s"), proxied("10.0.0.1:1"), 202},
		{"behind nobody's proxy", subscribeForm("hub.secret", "s"), proxied("192.0.2.1:1"), 403},
	} {
		tc.change(tc.req)
		if rec := w.do(tc.req); rec.Code != tc.want {
			t.Errorf("%s: %d %s", tc.why, rec.Code, rec.Body)
		}
	}
}

// Requests to subscribe are durable, so the hub accepts them while it drains.
func TestSubscribeWhileDraining(t *testing.T) {
	w := newWorld(t)
	w.SetDraining(true)
	if rec := w.do(subscribeForm()); rec.Code != http.StatusAccepted {
		t.Error(rec.Code)
	}
	w.SetDraining(false)
	w.accept(publish(doc(0, 1, "a")))
}
