package hub

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// refused is one way to be refused: what happened before, the request, and the answer.
type refused struct {
	why    string
	change func(*Options)
	before func(*world)
	req    func() *http.Request
	status int
	slug   string
	says   []string // in the sentence
	check  func(*testing.T, problem)
	header map[string]string
}

func rule(rule string, line int) func(*testing.T, problem) {
	return func(t *testing.T, p problem) {
		if p.Rule != rule || (p.Line > 0) != (line > 0) || line > 0 && p.Line != line || (p.Column > 0) != (line > 0) {
			t.Errorf("rule %q, line %d, column %d; want %q, line %d", p.Rule, p.Line, p.Column, rule, line)
		}
	}
}

// expects checks a refusal after published.
func expects(gapFrom, gapUntil string) func(*testing.T, problem) {
	return func(t *testing.T, p problem) {
		if p.ExpectedFrom != "2026-01-01T11:10:00Z" {
			t.Errorf("expected_from %q", p.ExpectedFrom)
		}
		if (p.Gap != nil) != (gapFrom != "") || p.Gap != nil && (p.Gap.From != gapFrom || p.Gap.Until != gapUntil) {
			t.Errorf("gap %+v", p.Gap)
		}
	}
}

var publishRefusals = []refused{
	// 400
	{
		why: "not well-formed", req: func() *http.Request { return publish("<urlset>\n<url></urlset>") },
		status: 400, slug: "not-well-formed", says: []string{"Line 2"}, check: rule("XML", 2),
	},
	{
		why: "no body", req: func() *http.Request { return publish("") },
		status: 400, slug: "not-well-formed",
	},
	{
		why: "a DTD", req: func() *http.Request { return publish(`<!DOCTYPE urlset><urlset/>`) },
		status: 400, slug: "document-type",
	},
	{
		why: "no Link", req: func() *http.Request { return publish(doc(0, 1, "a"), without("Link")) },
		status: 400, slug: "bad-link", says: []string{`rel="self"`, hubURL},
	},
	{
		why: "no self", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", "<"+hubURL+">; rel=hub")) },
		status: 400, slug: "bad-link", says: []string{`rel="self"`},
	},
	{
		why: "two topics", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Link", link(topic)+", <https://example.org/other/>; rel=self"))
		},
		status: 400, slug: "bad-link", says: []string{"two topics"},
	},
	{
		why: "a topic that is no URL", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", link("/changes/"))) },
		status: 400, slug: "bad-link", says: []string{"absolute"},
	},
	{
		why: "a topic with a fragment", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", link(topic+"#x"))) },
		status: 400, slug: "bad-link", says: []string{"fragment"},
	},
	{
		why: "our hub is not among the hub links", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Link", "<"+topic+">; rel=self, <https://hub.example/websub>; rel=hub"))
		},
		status: 400, slug: "bad-link", says: []string{hubURL, "character by character", "is <https://hub.example/websub>, and not"},
	},
	{
		why: "other hubs, one with a password", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Link", "<"+topic+">; rel=self, <https://a.example>; rel=hub, <https://me:secret@hub.example/websub/>; rel=hub"))
		},
		status: 400, slug: "bad-link", says: []string{"<https://…@hub.example/websub/>, and not", hubURL},
	},
	{
		why: "no hub", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", "<"+topic+">; rel=self")) },
		status: 400, slug: "bad-link", says: []string{`no rel="hub"`, "in Link: <" + topic + ">; rel=self. Send", hubURL},
	},
	{
		why: "no Link that can be read", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", topic+"; rel=self")) },
		status: 400, slug: "bad-link", says: []string{`no rel="self"`, "in Link: " + topic + "; rel=self. Send", hubURL},
	},
	{
		why: "a Link of many bytes", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Link", strings.Repeat("x", 10_000))) },
		status: 400, slug: "bad-link", says: []string{"xxx…. Send", hubURL},
	},
	{
		why: "another charset in the header", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Content-Type", "application/xml; charset=iso-8859-1"))
		},
		status: 400, slug: "charset", says: []string{"UTF-8"},
	},
	{
		why: "another charset in the document", req: func() *http.Request {
			return publish(strings.Replace(doc(0, 1, "a"), "UTF-8", "ISO-8859-1", 1))
		},
		status: 400, slug: "charset",
	},
	{
		why: "bytes that are no UTF-8", req: func() *http.Request { return publish(doc(0, 1, "\xe9")) },
		status: 400, slug: "charset",
	},

	// 401
	{
		why: "a wrong token", req: func() *http.Request { return publish(doc(0, 1, "a"), withToken("nobody's")) },
		status: 401, slug: "wrong-credential", says: []string{"token"}, header: map[string]string{"WWW-Authenticate": "Bearer"},
	},
	{
		why: "an empty token", req: func() *http.Request { return publish(doc(0, 1, "a"), withToken("")) },
		status: 401, slug: "wrong-credential",
	},
	{
		why: "another scheme", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Authorization", "Basic YTpi")) },
		status: 401, slug: "wrong-credential",
	},
	{
		why: "two tokens", req: func() *http.Request {
			return publish(doc(0, 1, "a"), withToken("alice's token"), func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") })
		},
		status: 401, slug: "wrong-credential",
	},
	{
		why: "a wrong signature", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with(websub.HeaderSignature, websub.SHA256.Sign("guessed", []byte(doc(0, 1, "a")))))
		},
		status: 401, slug: "wrong-credential", says: []string{"X-Hub-Signature"},
	},
	{
		why: "the signature of other bytes, with a token that is right", req: func() *http.Request {
			return publish(doc(0, 1, "a"), withToken("alice's token"), with(websub.HeaderSignature, websub.SHA256.Sign("alice's secret", []byte("x"))))
		},
		status: 401, slug: "wrong-credential",
	},
	{
		why: "a wrong token where anybody may publish", change: func(o *Options) { o.Auth.Open = true },
		req:    func() *http.Request { return publish(doc(0, 1, "a"), withToken("nobody's")) },
		status: 401, slug: "wrong-credential",
	},

	// 403
	{
		why: "no credential where one is needed", change: func(o *Options) { o.Auth.Content = false },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 403, slug: "no-credential", says: []string{"bearer token", "X-Hub-Signature"},
	},
	{
		why: "a token that does not cover the topic", req: func() *http.Request {
			return publish(doc(0, 1, "a"), withToken("alice's token"), with("Link", link("https://other.example/")))
		},
		status: 403, slug: "topic-not-covered",
	},
	{
		why: "a signature that does not cover the topic", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Link", link("https://other.example/")),
				with(websub.HeaderSignature, websub.SHA1.Sign("alice's secret", []byte(doc(0, 1, "a")))))
		},
		status: 403, slug: "topic-not-covered",
	},
	{
		why: "a topic that is not allowed", change: func(o *Options) { o.TopicAllow = patterns("https://allowed.example/*") },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 403, slug: "topic-not-allowed", says: []string{topic},
	},
	{
		why: "a topic that is denied", change: func(o *Options) {
			o.TopicAllow, o.TopicDeny = patterns("*"), patterns("https://example.org/*")
		},
		req:    func() *http.Request { return publish(doc(0, 1, "a"), with("Link", link("HTTPS://EXAMPLE.org:443/x"))) },
		status: 403, slug: "topic-not-allowed",
	},
	{
		why: "the topic does not name this hub", before: func(w *world) { w.topics.check = &validate.DeniedError{Reason: "the topic URI answered 404"} },
		req:    func() *http.Request { return publish(doc(0, 1, "a"), withToken("alice's token")) },
		status: 403, slug: "topic-denied", says: []string{"The topic URI answered 404."},
	},
	{
		why: "the content differs", before: func(w *world) {
			w.topics.content = &validate.MismatchError{Reason: "the topic URI serves other bytes than were posted"}
		},
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 403, slug: "content-mismatch", says: []string{"other bytes", "Try again"},
	},

	// 409
	{
		why: "a gap", before: published, req: func() *http.Request { return publish(doc(11, 20, "b")) },
		status: 409, slug: "gap", says: []string{"leaves a gap", "2026-01-01T11:10:00Z"},
		check: expects("2026-01-01T11:10:00Z", "2026-01-01T11:11:00Z"),
	},
	{
		why: "an overlap", before: published, req: func() *http.Request { return publish(doc(9, 20, "b")) },
		status: 409, slug: "overlap", says: []string{"overlaps", "2026-01-01T11:10:00Z"},
		check: expects("", ""),
	},
	{
		why: "the second of the one before", before: published, req: func() *http.Request { return publish(doc(9, 10, "b")) },
		status: 409, slug: "overlap", says: []string{"Its until has to be later than that too", "fractions of a second"}, check: expects("", ""),
	},
	{
		why: "an overlap where gaps are accepted", change: func(o *Options) { o.AcceptGaps = true },
		before: published, req: func() *http.Request { return publish(doc(9, 20, "b")) },
		status: 409, slug: "overlap", check: expects("", ""),
	},
	{
		why: "a known interval with other bytes", before: published, req: func() *http.Request { return publish(doc(0, 10, "b")) },
		status: 409, slug: "conflict", says: []string{"other content", "2026-01-01T11:10:00Z", "Its until has to be later than that too", "fractions of a second"},
		check: expects("", ""),
	},

	// 413
	{
		why: "over the limit by its Content-Length", change: func(o *Options) { o.MaxBody = 100 },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 413, slug: "too-large", says: []string{"100 bytes"},
	},
	{
		why: "over the limit in chunks", change: func(o *Options) { o.MaxBody = 100 },
		req: func() *http.Request {
			return publish(doc(0, 1, "a"), func(r *http.Request) { r.ContentLength = -1 })
		},
		status: 413, slug: "too-large", says: []string{"100 bytes"},
	},
	{
		why: "50,001 entries", req: func() *http.Request {
			return publish(notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T11:01:00Z"`,
				strings.Repeat(`<url><loc>http://e.org/</loc><rs:md change="created"/></url>`, 50_001)))
		},
		status: 413, slug: "too-many-entries", says: []string{"50000", "split"}, check: rule("DOC-60", 4),
	},

	// 415
	{
		why: "another media type", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Content-Type", "text/xml")) },
		status: 415, slug: "media-type", says: []string{"does not read that Content-Type. ", "application/xml", "application/x-www-form-urlencoded"},
	},
	{
		why: "a form with parts", req: func() *http.Request {
			return publish("--x", with("Content-Type", "multipart/form-data; boundary=x"))
		},
		status: 415, slug: "media-type", says: []string{"does not read that Content-Type. ", "application/x-www-form-urlencoded for a subscription request or a ping", "in the body"},
	},
	{
		why: "no media type", req: func() *http.Request { return publish(doc(0, 1, "a"), without("Content-Type")) },
		status: 415, slug: "media-type", says: []string{"There is no Content-Type"},
	},
	{
		why: "a parameter that is not charset", req: func() *http.Request {
			return publish(doc(0, 1, "a"), with("Content-Type", "application/xml; version=1"))
		},
		status: 415, slug: "media-type", says: []string{"parameter"},
	},
	{
		why: "two Content-Types", req: func() *http.Request {
			return publish(doc(0, 1, "a"), func(r *http.Request) { r.Header.Add("Content-Type", "application/xml") })
		},
		status: 415, slug: "media-type", says: []string{"2 Content-Type headers"},
	},
	{
		why: "a Content-Encoding", req: func() *http.Request { return publish(doc(0, 1, "a"), with("Content-Encoding", "gzip")) },
		status: 415, slug: "media-type", says: []string{"Content-Encoding"},
	},

	// 422
	{
		why: "not a notification", req: func() *http.Request { return publish("<feed xmlns='http://www.w3.org/2005/Atom'/>") },
		status: 422, slug: "invalid-notification", says: []string{"Line 1", "DOC-10"}, check: rule("DOC-10", 1),
	},
	{
		why: "a bad entry", req: func() *http.Request {
			return publish(notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T11:01:00Z"`,
				`<url><loc>http://e.org/</loc></url>`))
		},
		status: 422, slug: "invalid-notification", says: []string{"DOC-17"}, check: rule("DOC-17", 4),
	},
	{
		why: "until before from", req: func() *http.Request { return publish(doc(2, 1, "a")) },
		status: 422, slug: "invalid-notification", check: rule("DOC-13", 3),
	},
	{
		why: "until in 2099", req: func() *http.Request {
			return publish(notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="2099-01-01T00:00:00Z"`))
		},
		status: 422, slug: "invalid-notification", says: []string{"2099", "5 minutes"}, check: rule("HUB-55", 0),
	},
	{
		why: "no interval", req: func() *http.Request { return publish(notification(`capability="changelist-notification"`)) },
		status: 422, slug: "invalid-notification", check: rule("DOC-12", 3),
	},
	{
		why: "a kind other than the topic's first", before: published,
		req:    func() *http.Request { return publish(notification(`capability="framework-notification"`)) },
		status: 422, slug: "other-kind", says: []string{"change notifications", "framework notification"}, check: rule("HUB-57", 0),
	},

	// 429
	{
		why: "too many from one publisher", change: func(o *Options) { o.PublishRate = Rate{1, time.Minute} },
		before: published, req: func() *http.Request { return publish(doc(10, 11, "b")) },
		status: 429, slug: "rate-limited", says: []string{"1 per minute"}, header: map[string]string{"Retry-After": "60"},
	},

	// 503
	{
		why: "the store can't be reached", before: func(w *world) { w.journal.fail = errors.New("dial: refused by 10.1.2.3") },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "store-unavailable", header: map[string]string{"Retry-After": "10"},
	},
	{
		why: "high water", before: func(w *world) { w.journal.fail = fmt.Errorf("disk: %w", journal.ErrFull) },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "store-full", says: []string{"nothing was accepted"}, header: map[string]string{"Retry-After": "10"},
	},
	{
		why: "draining", before: func(w *world) { w.SetDraining(true) },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "draining", header: map[string]string{"Retry-After": "10"},
	},
	{
		why: "the topic URI could not be reached", before: func(w *world) {
			w.topics.check = &validate.UnsureError{Reason: "example.org:443 did not answer in time", After: 7 * time.Second}
		},
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "topic-unreachable", says: []string{"example.org:443 did not answer in time."}, header: map[string]string{"Retry-After": "7"},
	},
	{
		why: "too many topic checks at one host", before: func(w *world) {
			w.topics.check = &validate.WaitError{Host: "example.org:443", After: 2500 * time.Millisecond}
		},
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "topic-unreachable", says: []string{"example.org:443"}, header: map[string]string{"Retry-After": "3"},
	},
	{
		why: "no memory for the body", before: func(w *world) { w.memory.TryAcquire(w.o.MaxPublishBytes) },
		req:    func() *http.Request { return publish(doc(0, 1, "a")) },
		status: 503, slug: "busy", header: map[string]string{"Retry-After": "1"},
	},
}

var otherRefusals = []refused{
	{
		why: "another path", req: func() *http.Request {
			r := publish(doc(0, 1, "a"))
			r.URL.Path = "/websub"
			return r
		},
		status: 404, slug: "not-found", says: []string{hubURL},
	},
	{
		why: "another method", req: func() *http.Request {
			r := publish(doc(0, 1, "a"))
			r.Method = http.MethodPut
			return r
		},
		status: 405, slug: "method-not-allowed", header: map[string]string{"Allow": "GET, HEAD, POST"},
	},
	{
		why: "no mode", req: func() *http.Request { return form("hub.topic", topic, "hub.callback", "https://s.example/") },
		status: 400, slug: "bad-form", says: []string{"hub.mode"},
	},
	{
		why: "a form in another charset", req: func() *http.Request {
			r := subscribeForm()
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=iso-8859-1")
			return r
		},
		status: 400, slug: "charset",
	},
	{
		why: "10,000 parameters", req: func() *http.Request {
			return form(append([]string{"hub.mode", "subscribe"}, strings.Split(strings.Repeat("a,b,", 9_999)+"a,b", ",")...)...)
		},
		status: 400, slug: "bad-form", says: []string{"10001 parameters"},
	},
	{
		why: "a secret of 200 bytes", req: func() *http.Request { return subscribeForm("hub.secret", strings.Repeat("é", 100)) },
		status: 400, slug: "bad-form", says: []string{"hub.secret", "200", "199"},
	},
	{
		why: "two topics", req: func() *http.Request { return subscribeForm("hub.topic", topic+"x") },
		status: 400, slug: "bad-form", says: []string{"hub.topic"},
	},
	{
		why: "a long form", req: func() *http.Request { return subscribeForm("x", strings.Repeat("x", websub.MaxFormBytes)) },
		status: 413, slug: "too-large", says: []string{"1048576"},
	},
	{
		why: "a form of a page of another origin",
		req: func() *http.Request {
			r := subscribeForm()
			r.Header.Set("Origin", "https://evil.example")
			return r
		},
		status: 403, slug: "cross-site", says: []string{"another origin", "Sec-Fetch-Site"},
	},
	{
		why: "a form of a page whose name was pointed here",
		req: func() *http.Request {
			r := subscribeForm()
			r.Host = "evil.example"
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			return r
		},
		status: 403, slug: "cross-site", says: []string{"host name", "--allow-host"},
	},
	{
		why: "a callback that is never called", change: func(o *Options) { o.Callbacks = guarded() },
		req: func() *http.Request {
			return form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", "http://169.254.169.254/latest/")
		},
		status: 403, slug: "callback-not-allowed", says: []string{"169.254.169.254"},
	},
	{
		why: "a topic that is not served", change: func(o *Options) { o.TopicDeny = patterns(topic) },
		req:    func() *http.Request { return subscribeForm() },
		status: 403, slug: "topic-not-allowed", says: []string{topic},
	},
	{
		why: "a topic that some servers read as one that is not served", change: func(o *Options) { o.TopicDeny = patterns("https://example.org/private/*") },
		req: func() *http.Request {
			return form("hub.mode", "subscribe", "hub.callback", callback, "hub.topic", "https://example.org/private%2fx")
		},
		status: 403, slug: "topic-not-allowed", says: []string{"private%2fx"},
	},
	{
		why: "a topic that is not served by all readings", change: func(o *Options) { o.TopicAllow = patterns("https://example.org/lib/*") },
		req: func() *http.Request {
			return form("hub.mode", "subscribe", "hub.callback", callback, "hub.topic", "https://example.org/lib%2ft/")
		},
		status: 403, slug: "topic-not-allowed", says: []string{"lib%2ft/"},
	},
	{
		why: "a secret over plain HTTP", change: func(o *Options) { o.RequireHTTPSForSecrets = true },
		req: func() *http.Request {
			r := subscribeForm("hub.secret", "s")
			r.TLS = nil
			return r
		},
		status: 403, slug: "insecure-secret", says: []string{"HTTPS"},
	},
	{
		why: "too many requests", change: func(o *Options) { o.SubscribeRate = Rate{2, time.Hour} },
		before: func(w *world) { w.do(subscribeForm()); w.do(subscribeForm()) },
		req:    func() *http.Request { return subscribeForm() },
		status: 429, slug: "rate-limited", says: []string{"2 per hour"}, header: map[string]string{"Retry-After": "1800"},
	},
	{
		why: "too many subscriptions", before: func(w *world) {
			w.subs.err = &subscriptions.LimitError{Reason: "Too many requests are waiting.", RetryAfter: time.Minute}
		},
		req:    func() *http.Request { return subscribeForm() },
		status: 429, slug: "too-many-subscriptions", says: []string{"Too many requests are waiting."}, header: map[string]string{"Retry-After": "60"},
	},
	{
		why: "the store can't be reached", before: func(w *world) { w.subs.err = errors.New("dial: refused by 10.1.2.3") },
		req:    func() *http.Request { return subscribeForm() },
		status: 503, slug: "store-unavailable", header: map[string]string{"Retry-After": "10"},
	},
}

// published is what has happened before: ten minutes, up to 11:10.
func published(w *world) { w.accept(publish(doc(0, 10, "a"))) }

// Every refusal of docs/problems.md, as text and as problem+json. HUB-14,
// HUB-16, HUB-51, HUB-55, HUB-56, HUB-57.
func TestRefusals_HUB14(t *testing.T) {
	for _, tc := range slices.Concat(publishRefusals, otherRefusals, pingRefusals) {
		t.Run(fmt.Sprintf("%d %s", tc.status, tc.why), func(t *testing.T) {
			for _, accept := range []string{"", "application/problem+json"} {
				w := newWorld(t, tc.change)
				if tc.before != nil {
					tc.before(w)
				}
				stored := w.journal.stored()
				requests, pings := len(w.subs.requests), w.marked()
				r := tc.req()
				r.Header.Set("Accept", accept)
				rec := w.do(r)
				if rec.Code != tc.status {
					t.Fatalf("%d %s", rec.Code, rec.Body)
				}
				if w.journal.stored() != stored || len(w.subs.requests) != requests || !slices.Equal(w.marked(), pings) {
					t.Error("something was stored")
				}
				for name, want := range tc.header {
					if got := rec.Header().Get(name); !strings.HasPrefix(got, want) {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				text := rec.Body.String()
				if accept == "" {
					if got := rec.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
						t.Errorf("Content-Type %q", got)
					}
				} else {
					if got := rec.Header().Get("Content-Type"); got != "application/problem+json" {
						t.Errorf("Content-Type %q", got)
					}
					p := decode[problem](t, rec)
					if !strings.HasSuffix(p.Type, "#"+tc.slug) || p.Status != tc.status || p.Title == "" {
						t.Errorf("type %q, status %d, title %q", p.Type, p.Status, p.Title)
					}
					if tc.check != nil {
						tc.check(t, p)
					}
					text = p.Detail + "\n"
				}
				checkSentence(t, text, tc.says)
			}
		})
	}
}

// checkSentence checks what a stranger gets to read.
func checkSentence(t *testing.T, text string, says []string) {
	t.Helper()
	if !strings.HasSuffix(text, ".\n") || strings.Count(text, "\n") != 1 || strings.Contains(text, "..") {
		t.Errorf("not sentences: %q", text)
	}
	for _, inside := range []string{"%!", "10.1.2.3", "alice", "bool", "nil"} {
		if strings.Contains(text, inside) {
			t.Errorf("%q shows %q", text, inside)
		}
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// A body that breaks off is refused.
func TestBodyBreaksOff(t *testing.T) {
	w := newWorld(t)
	rec := w.do(publish("", func(r *http.Request) {
		r.Body, r.ContentLength = failing{strings.NewReader(doc(0, 1, "a"))}, 10_000
	}))
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "broke off") || w.journal.stored() != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if !w.memory.TryAcquire(w.o.MaxPublishBytes) {
		t.Error("its memory was not given back")
	}
}

// Nor is one that is longer than it was said to be.
func TestBodyIsLongerThanItsContentLength(t *testing.T) {
	w := newWorld(t)
	if rec := w.do(publish(doc(0, 1, "a"), func(r *http.Request) { r.ContentLength = 10 })); rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

type failing struct{ *strings.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil {
		err = errors.New("connection reset")
	}
	return n, err
}

func (f failing) Close() error { return nil }

// The credential, the media type, the Link, the topic and the rates are looked
// at before a byte of the body is asked for.
func TestRefusedBeforeTheBodyIsRead(t *testing.T) {
	early := map[string]bool{
		"bad-link": true, "no-credential": true, "topic-not-allowed": true, "media-type": true, "rate-limited": true,
		"draining": true, "not-found": true, "method-not-allowed": true,
	}
	for _, tc := range publishRefusals {
		if !early[tc.slug] && !strings.Contains(tc.why, "token") && !strings.Contains(tc.why, "by its Content-Length") ||
			strings.Contains(tc.why, "with a token that is right") {
			continue
		}
		w := newWorld(t, tc.change)
		if tc.before != nil {
			tc.before(w)
		}
		r := tc.req()
		r.Body = unread{t: t, why: tc.why}
		if rec := w.do(r); rec.Code != tc.status {
			t.Errorf("%s: %d", tc.why, rec.Code)
		}
	}
}

type unread struct {
	t   *testing.T
	why string
}

func (u unread) Read([]byte) (int, error) {
	u.t.Errorf("%s: the body was read", u.why)
	return 0, errors.New("not to be read")
}

func (u unread) Close() error { return nil }

// Clients that prefer JSON to text get it.
func TestAcceptDecidesTheForm(t *testing.T) {
	for accept, json := range map[string]bool{
		"": false, "*/*": false, "text/plain": false, "text/html,application/xhtml+xml,*/*;q=0.8": false,
		"application/json": true, "application/problem+json": true, "application/*": true,
		"application/json;q=0.5, text/plain;q=0.4": true, "application/json;q=0.4, text/*;q=0.5": false,
		"application/json, text/plain, */*": false, "application/json, */*;q=0.1": true,
		"application/json;q=0": false, "application/json;q=nonsense": false, "APPLICATION/JSON": true,
		strings.Repeat("x/y,", 100) + "application/json": false,
	} {
		rec := newWorld(t).do(publish("", with("Accept", accept)))
		if got := rec.Header().Get("Content-Type") == "application/problem+json"; got != json {
			t.Errorf("Accept %q: JSON = %t", accept, got)
		}
		if rec.Header().Get("Vary") != "Accept" || rec.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", rec.Header())
		}
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{HubURL: "hub", Journal: &memory{}, Pings: storetest.NewMemory(), Subscriptions: &acceptor{}, Topics: &topics{}},
		{HubURL: hubURL, Pings: storetest.NewMemory(), Subscriptions: &acceptor{}, Topics: &topics{}},
		{HubURL: hubURL, Journal: &memory{}, Subscriptions: &acceptor{}, Topics: &topics{}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := ParsePublishAuth([]string{"content", "password"}); err == nil || !strings.Contains(err.Error(), "password") {
		t.Error(err)
	}
	if a, err := ParsePublishAuth([]string{"content", "token", "open"}); err != nil || a != (PublishAuth{true, true, true}) {
		t.Error(a, err)
	}
}
