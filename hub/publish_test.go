package hub

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// HUB-50, HUB-52: a notification posted as application/xml is answered with 200
// exactly, and is in the journal as it came.
func TestPublish_HUB50_HUB52(t *testing.T) {
	w := newWorld(t)
	body := doc(0, 1, "a")
	got := w.accept(publish(body, with("Content-Type", "Application/XML ; Charset=\"utf-8\"")))
	e := w.journal.entries()[0]
	want := accepted{
		ID: e.ID.String(), Topic: topic, From: "2026-01-01T11:00:00Z", Until: "2026-01-01T11:01:00Z",
		Position: "0000000000000001",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if e.ID.Version() != 7 || string(e.Body) != body || e.Size != int64(len(body)) || e.SHA256 != sha256.Sum256([]byte(body)) ||
		e.MediaType != "Application/XML ; Charset=\"utf-8\"" || e.Kind != journal.KindChange ||
		e.Counts != (journal.Counts{Created: 1}) || e.Gap != nil || len(e.Links) != 0 {
		t.Errorf("%+v", e)
	}
}

// The hub accepts some notifications that look odd: intervals of length zero (DOC-13),
// notifications without an entry (DOC-50), framework notifications (HUB-57).
func TestPublishTakes(t *testing.T) {
	for _, tc := range []struct {
		why, body   string
		change      func(*http.Request)
		from, until string
	}{
		{why: "an empty interval", body: notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T11:01:00Z"`), from: "2026-01-01T11:00:00Z", until: "2026-01-01T11:01:00Z"},
		{why: "from = until", body: doc(5, 5, "a"), from: "2026-01-01T11:05:00Z", until: "2026-01-01T11:05:00Z"},
		{
			why:  "nine digits of a second, and an offset",
			body: notification(`capability="change-notification" from="2026-01-01T13:00:00.000000001+02:00" until="2026-01-01T11:00:00.123456789Z"`),
			from: "2026-01-01T11:00:00.000000001Z", until: "2026-01-01T11:00:00.123456789Z",
		},
		{
			why: "the legacy capability", body: strings.Replace(doc(0, 1, "a"), "change-notification", "changelist-notification", 1),
			from: "2026-01-01T11:00:00Z", until: "2026-01-01T11:01:00Z",
		},
		{
			why: "until five minutes ahead", body: notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T12:05:00Z"`),
			from: "2026-01-01T11:00:00Z", until: "2026-01-01T12:05:00Z",
		},
		{why: "a framework notification without an interval", body: notification(`capability="framework-notification"`)},
		{why: "one with half an interval", body: notification(`capability="framework-notification" from="2026-01-01T11:00:00Z"`)},
		{
			why: "a body of unknown length", body: doc(0, 1, "a"), change: func(r *http.Request) { r.ContentLength = -1 },
			from: "2026-01-01T11:00:00Z", until: "2026-01-01T11:01:00Z",
		},
		{
			why: "a large one", body: doc(0, 1, strings.Repeat("a", 10_000)) + strings.Repeat("<!-- padding -->", 50_000),
			change: func(r *http.Request) { r.ContentLength = -1 }, from: "2026-01-01T11:00:00Z", until: "2026-01-01T11:01:00Z",
		},
	} {
		t.Run(tc.why, func(t *testing.T) {
			w := newWorld(t)
			got := w.accept(publish(tc.body, tc.change))
			e := w.journal.entries()[0]
			if got.From != tc.from || got.Until != tc.until || e.Timed() != (tc.from != "") || string(e.Body) != tc.body {
				t.Errorf("%+v, timed %t", got, e.Timed())
			}
		})
	}
}

// HUB-51, HUB-44: self and hub in any order, form and company; resourcesync is
// relayed.
func TestPublishLinks_HUB51_HUB44(t *testing.T) {
	for _, tc := range []struct {
		values  []string
		relayed []string
	}{
		{[]string{`<` + topic + `>;rel=self, <` + hubURL + `>;rel=hub`}, nil},
		{[]string{`<` + hubURL + `>; REL="hub"`, `<` + topic + `>; rel="self"; title="a, b; c"`}, nil},
		{[]string{`<https://other.example/>; rel=hub, <` + hubURL + `>; rel=hub`, `<` + topic + `>; rel=self`}, nil},
		{[]string{link(topic) + `, <` + topic + `>; rel=self`}, nil},
		{
			[]string{link(topic) + `, <https://example.org/capabilitylist.xml>; rel="resourcesync"`},
			[]string{`<https://example.org/capabilitylist.xml>; rel="resourcesync"`},
		},
		{
			[]string{link(topic), `</relative>; rel=resourcesync, <https://example.org/c>; rel="x ResourceSync"; title=t`},
			[]string{`<https://example.org/c>; rel="resourcesync"`},
		},
		{
			[]string{link(topic), strings.Repeat(`<https://example.org/c>; rel=resourcesync, `, 100)},
			[]string{
				`<https://example.org/c>; rel="resourcesync"`, `<https://example.org/c>; rel="resourcesync"`,
				`<https://example.org/c>; rel="resourcesync"`, `<https://example.org/c>; rel="resourcesync"`,
			},
		},
	} {
		w := newWorld(t)
		w.accept(publish(doc(0, 1, "a"), func(r *http.Request) { r.Header["Link"] = tc.values }))
		if d := cmp.Diff(tc.relayed, w.journal.entries()[0].Links); d != "" {
			t.Errorf("%q: %s", tc.values, d)
		}
	}
}

// HUB-56: a body of exactly the limit is accepted.
func TestPublishUpToTheLimit_HUB56(t *testing.T) {
	body := doc(0, 1, "a")
	for _, length := range []int64{int64(len(body)), -1} {
		w := newWorld(t, func(o *Options) { o.MaxBody = int64(len(body)) })
		w.accept(publish(body, func(r *http.Request) { r.ContentLength = length }))
	}
	if w := newWorld(t); w.o.MaxBody != 50<<20 {
		t.Errorf("the default is %d", w.o.MaxBody)
	}
}

// A publish that is sent again after a lost answer is a duplicate, with the
// first id, and stored once; also when later ones came between. The topic is
// not asked again.
func TestPublishAgainIsADuplicate(t *testing.T) {
	w := newWorld(t)
	first := w.accept(publish(doc(0, 1, "a")))
	w.accept(publish(doc(1, 2, "b")))
	w.topics.check = errors.New("not to be asked")
	again := w.accept(publish(doc(0, 1, "a")))
	want := first
	want.Duplicate = true
	if d := cmp.Diff(want, again); d != "" {
		t.Error(d)
	}
	if n := w.journal.stored(); n != 2 {
		t.Errorf("%d entries", n)
	}
	framework := notification(`capability="framework-notification"`)
	at := with("Link", link("https://example.org/framework/"))
	w.topics.check = nil
	first = w.accept(publish(framework, at))
	if again = w.accept(publish(framework, at)); again.ID != first.ID || again.Position != first.Position || !again.Duplicate {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// A publisher without access does not learn that its publish is a duplicate.
func TestADuplicateTakesACredential(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = PublishAuth{Token: true} })
	body := doc(0, 1, "a")
	w.accept(publish(body, withToken("alice's token")))
	for status, change := range map[int]func(*http.Request){
		http.StatusForbidden:    func(*http.Request) {},
		http.StatusUnauthorized: with(websub.HeaderSignature, websub.SHA256.Sign("guessed", []byte(body))),
	} {
		if rec := w.do(publish(body, change)); rec.Code != status {
			t.Errorf("%d, want %d", rec.Code, status)
		}
	}
}

// revoking is a body during which all tokens are revoked.
type revoking struct {
	io.Reader
	of *validate.Publishers
}

func (r revoking) Read(p []byte) (int, error) {
	r.of.Replace(nil)
	return r.Reader.Read(p)
}

// A token that is revoked while a slow body comes is refused.
func TestRevokedWhileItPublishes(t *testing.T) {
	body := doc(0, 1, "a")
	for what, revoke := range map[string]bool{"revoked": true, "in force": false} {
		var publishers *validate.Publishers
		w := newWorld(t, func(o *Options) { publishers = o.Publishers })
		answer := w.do(publish(body, withToken("alice's token"), func(r *http.Request) {
			if revoke {
				r.Body = io.NopCloser(revoking{r.Body, publishers})
			}
		}))
		want := http.StatusOK
		if revoke {
			want = http.StatusUnauthorized
		}
		head, err := w.journal.Head(t.Context(), topic)
		if stored := head.Version != ""; answer.Code != want || stored == revoke || err != nil {
			t.Errorf("%s: %d, stored: %t, %v", what, answer.Code, stored, err)
		}
	}
}

// What a publish needs to be accepted, and when the hub asks the topic (HUB-53).
func TestWhatLetsAPublishIn(t *testing.T) {
	body := doc(0, 1, "a")
	differs := &validate.MismatchError{Reason: "differs"}
	unnamed := &validate.DeniedError{Reason: "does not name this hub"}
	signed := with(websub.HeaderSignature, websub.SHA512.Sign("alice's secret", []byte(body)))
	anonymous := func(*http.Request) {}
	for _, tc := range []struct {
		why            string
		auth           PublishAuth
		change         func(*http.Request)
		check, content error
		status         int
	}{
		{"a token is enough", PublishAuth{Content: true, Token: true}, withToken("alice's token"), nil, differs, 200},
		{"a token, the scheme in lower case", PublishAuth{Token: true}, with("Authorization", "bearer  alice's token"), nil, differs, 200},
		{"a signature is enough", PublishAuth{Content: true, Token: true}, signed, nil, differs, 200},
		{"the content is enough", PublishAuth{Content: true, Token: true}, anonymous, nil, nil, 200},
		{"anonymous, and the content differs", PublishAuth{Content: true, Token: true}, anonymous, nil, differs, 403},
		{"open to anyone", PublishAuth{Open: true, Content: true}, anonymous, nil, differs, 200},
		{"a token does not stand for the topic check", PublishAuth{Token: true}, withToken("alice's token"), unnamed, nil, 403},
		{"nor does open", PublishAuth{Open: true}, anonymous, unnamed, nil, 403},
		{"a wrong token never falls back to the content", PublishAuth{Content: true, Token: true}, withToken("x"), nil, nil, 401},
		{"a wrong signature neither", PublishAuth{Content: true, Token: true}, with(websub.HeaderSignature, "sha256=00"), nil, nil, 401},
		{"nor an empty one", PublishAuth{Content: true, Token: true}, with(websub.HeaderSignature, ""), nil, nil, 401},
		{"nor does a signature that is right beside a wrong token", PublishAuth{Content: true, Token: true}, func(r *http.Request) {
			signed(r)
			withToken("x")(r)
		}, nil, nil, 401},
		{"where tokens don't count, they are not looked at", PublishAuth{Content: true}, withToken("x"), nil, nil, 200},
		{"and don't help", PublishAuth{Content: true}, withToken("alice's token"), nil, differs, 403},
		{"nothing lets anybody in", PublishAuth{}, anonymous, nil, nil, 403},
	} {
		t.Run(tc.why, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Auth = tc.auth })
			w.topics.check, w.topics.content = tc.check, tc.content
			if rec := w.do(publish(body, tc.change)); rec.Code != tc.status {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
}

// A gap that is accepted is recorded with the entry.
func TestPublishAcrossAGap(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AcceptGaps = true })
	w.accept(publish(doc(0, 1, "a")))
	w.accept(publish(doc(5, 6, "b")))
	want := &journal.Gap{From: noon.Add(-59 * time.Minute), Until: noon.Add(-55 * time.Minute), Reason: journal.GapSource, At: noon}
	want.Position, want.Seq = 1, 1 // of the head before it
	if d := cmp.Diff(want, w.journal.entries()[1].Gap); d != "" {
		t.Error(d)
	}
}

// HUB-52, invariant 1: nothing is answered before the entry is stored, and what could
// not be stored is not acknowledged.
func TestDurableBefore200(t *testing.T) {
	w := newWorld(t)
	rec := httptest.NewRecorder()
	w.journal.before = func() {
		if rec.Body.Len() > 0 || len(rec.Header().Get("Content-Type")) > 0 {
			t.Error("answered before it was stored")
		}
	}
	w.ServeHTTP(rec, publish(doc(0, 1, "a")))
	if rec.Code != http.StatusOK || w.journal.stored() != 1 {
		t.Fatal(rec.Code)
	}
	w.journal.before = func() { w.journal.fail = errors.New("disk") }
	if rec := w.do(publish(doc(1, 2, "b"))); rec.Code != http.StatusServiceUnavailable {
		t.Error(rec.Code)
	}
}

// Invariant 2: if Sources race for one interval, exactly one wins. The others get the answer that
// the interval is already there, and those with the same bytes that theirs is a duplicate. Then
// they race for the next interval.
func TestRacingPublishers(t *testing.T) {
	w := newWorld(t)
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		counts := make(map[string]int)
		for i := range 16 {
			wg.Go(func() {
				rec := w.do(publish(doc(round, round+1, fmt.Sprint(i/2)))) // pairs send the same bytes
				outcome := fmt.Sprint(rec.Code)
				if rec.Code == http.StatusOK && strings.Contains(rec.Body.String(), `"duplicate":true`) {
					outcome = "duplicate"
				}
				mu.Lock()
				defer mu.Unlock()
				counts[outcome]++
			})
		}
		wg.Wait()
		if d := cmp.Diff(map[string]int{"200": 1, "duplicate": 1, "409": 14}, counts); d != "" {
			t.Fatal(d)
		}
	}
	entries := w.journal.entries()
	for i := 1; i < len(entries); i++ {
		if !entries[i].From.Equal(entries[i-1].Until) {
			t.Errorf("entry %d starts at %v after %v", i, entries[i].From, entries[i-1].Until)
		}
	}
}

// Invariant 2: when the head moves between the decision and the append, the
// decision is made anew.
func TestTheDecisionIsMadeAnewWhenTheHeadMoves(t *testing.T) {
	t.Run("another took the interval", func(t *testing.T) {
		w := newWorld(t)
		w.journal.before = func() {
			w.journal.before = nil
			w.accept(publish(doc(0, 1, "b")))
		}
		if rec := w.do(publish(doc(0, 1, "a"))); rec.Code != http.StatusConflict {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
	t.Run("the same came first", func(t *testing.T) {
		w := newWorld(t)
		w.journal.before = func() {
			w.journal.before = nil
			w.accept(publish(doc(0, 1, "a")))
		}
		if got := w.accept(publish(doc(0, 1, "a"))); !got.Duplicate || w.journal.stored() != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("it moves on and on", func(t *testing.T) {
		w := newWorld(t)
		n := 0
		framework := func(n int) *http.Request {
			return publish(notification(`capability="framework-notification"`, fmt.Sprintf("<!-- %d -->", n)))
		}
		inside := false
		w.journal.before = func() {
			if inside {
				return
			}
			inside = true
			n++
			w.accept(framework(n))
			inside = false
		}
		rec := w.do(framework(0))
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" || n != maxAppends {
			t.Errorf("%d after %d times: %s", rec.Code, n, rec.Body)
		}
	})
}

// Invariant 2: a refusal is about one state of the store. If the store lost its tail in the middle,
// the hub must not call an earlier interval an overlap: then the Source would continue after the
// lost part.
func TestARefusalIsOfOneHead(t *testing.T) {
	w := newWorld(t)
	w.accept(publish(doc(0, 1, "a")))
	w.accept(publish(doc(1, 2, "b")))
	w.journal.between = func() {
		w.journal.between = nil
		w.journal.topics[topic] = w.journal.topics[topic][:1]
	}
	if got := w.accept(publish(doc(1, 2, "b"))); got.Duplicate || w.journal.stored() != 2 {
		t.Errorf("%+v, %d stored", got, w.journal.stored())
	}
	n := 2
	w.journal.between = func() {
		between := w.journal.between
		w.journal.between = nil
		w.accept(publish(doc(n, n+1, "c")))
		w.journal.between = between
		n++
	}
	rec := w.do(publish(doc(0, 2, "d")))
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" || n != 2+maxAppends {
		t.Errorf("with a head that moves on and on: %d after %d times: %s", rec.Code, n-2, rec.Body)
	}
}

// A store that does not answer is asked once for a publish: each question may take 1.5 s, and a publisher gets its 503 within
// two seconds.
func TestAStoreThatFailsIsNotAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.accept(publish(doc(0, 1, "a")))
	w.journal.between = func() { w.journal.fail = errors.New("away") }
	before := w.journal.reads
	if rec := w.do(publish(doc(3, 4, "b"))); rec.Code != http.StatusServiceUnavailable || w.journal.reads != before {
		t.Errorf("%d after %d reads of the head: %s", rec.Code, w.journal.reads-before, rec.Body)
	}
}

// Invariant 2: a hub does not read the head that it stored itself, and what another hub or a loss did
// since decides all the same.
func TestTheHeadIsRemembered(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		w.accept(publish(doc(n, n+1, "a")))
	}
	if w.journal.reads != 1 {
		t.Errorf("the head was read %d times for three publishes", w.journal.reads)
	}
	elsewhere := newWorld(t, func(o *Options) { o.Journal = w.journal })
	elsewhere.accept(publish(doc(3, 4, "elsewhere")))
	w.accept(publish(doc(4, 5, "a")))
	if got := elsewhere.accept(publish(doc(4, 5, "a"))); !got.Duplicate {
		t.Errorf("sent again to the other hub: %+v", got)
	}
	w.journal.topics[topic] = w.journal.topics[topic][:3]
	if rec := w.do(publish(doc(5, 6, "a"))); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "has to start at 2026-01-01T11:03:00Z") {
		t.Errorf("after the store lost its tail: %d %s", rec.Code, rec.Body)
	}
	w.accept(publish(doc(3, 4, "a")))

	const other = topic + "other"
	framework := func(n int) *http.Request {
		return publish(notification(`capability="framework-notification"`, fmt.Sprintf("<!-- %d -->", n)), with("Link", link(other)))
	}
	w.accept(framework(1))
	elsewhere.accept(framework(2))
	if got := w.accept(framework(1)); got.Duplicate {
		t.Error("a notification was taken for that of a head which another hub replaced")
	}
	if got := w.accept(framework(1)); !got.Duplicate {
		t.Error("a notification was stored twice")
	}
}

// Publishers have an allowance each, and so has each topic host; strangers can't
// use up that of those with a token.
func TestPublishRates(t *testing.T) {
	clock := noon
	w := newWorld(t, func(o *Options) {
		o.PublishRate = Rate{Events: 2, Per: time.Minute}
		o.Now = func() time.Time { return clock }
	})
	post := func(address, host string, change ...func(*http.Request)) int {
		r := publish("<", append(change, with("Link", link("https://"+host+"/")))...)
		r.RemoteAddr = address
		return w.do(r).Code
	}
	for i, tc := range []struct {
		address, host string
		change        func(*http.Request)
		want          int
	}{
		{"192.0.2.1:1", "a.example", nil, 400},
		{"192.0.2.1:2", "b.example", nil, 400},
		{"192.0.2.1:3", "c.example", nil, 429}, // the third of one address
		{"192.0.2.2:1", "a.example", nil, 400},
		{"192.0.2.3:1", "A.example", nil, 429}, // the third to one host
		{"192.0.2.1:4", "example.org", withToken("alice's token"), 400},
		{"192.0.2.9:4", "example.org", withToken("alice's token"), 400},
		{"192.0.2.9:5", "example.org", withToken("alice's token"), 429}, // the third of one publisher
		{"192.0.2.4:1", "d.example", withToken("guess"), 401},
		{"192.0.2.4:1", "d.example", withToken("guess"), 401},
		{"192.0.2.4:1", "d.example", withToken("guess"), 429}, // guessing is no faster
		{"[2001:db8::1]:1", "e.example", nil, 400},
		{"[2001:db8::2]:1", "e.example", nil, 400},
		{"[2001:db8::3]:1", "f.example", nil, 429}, // one /64
		{"[2001:db8:0:1::1]:1", "f.example", nil, 400},
	} {
		if got := post(tc.address, tc.host, tc.change); got != tc.want {
			t.Errorf("request %d from %s to %s: %d, want %d", i, tc.address, tc.host, got, tc.want)
		}
	}
	clock = clock.Add(time.Minute)
	if got := post("192.0.2.1:1", "c.example"); got != 400 {
		t.Errorf("a minute later: %d", got)
	}
}

// Invariant 12: the rates of a bounded number of keys are remembered.
func TestLimitersAreBounded(t *testing.T) {
	l := newLimiters(Rate{1, time.Minute}, 1, alone)
	for i := range maxLimiters + 10 {
		_ = l.allow(noon, fmt.Sprint(i), "")
	}
	if l.keys.Len() != maxLimiters {
		t.Errorf("%d keys", l.keys.Len())
	}
}

// One line a request, with what is needed to follow it and without what must not
// be in a log.
func TestOneLogLineARequest(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(o *Options) { o.Log = zap.New(core) })
	a := w.accept(publish(doc(0, 1, "a"), withToken("alice's token")))
	w.accept(publish(doc(0, 1, "a")))
	w.do(publish(doc(5, 6, "a"), withToken("alice's token")))
	w.do(publish(doc(5, 6, "a"), withToken("guessed token")))
	w.journal.fail = errors.New("disk on fire")
	w.do(publish(doc(1, 2, "a")))
	w.do(subscribeForm("hub.secret", "the secret of it"))
	w.do(form("hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", "https://subscriber.example/cb?capability=url"))

	wants := []struct {
		event, outcome string
		status         int64
		level          zapcore.Level
	}{
		{"publish", "accepted", 200, zapcore.InfoLevel},
		{"publish", "duplicate", 200, zapcore.InfoLevel},
		{"publish", "gap", 409, zapcore.InfoLevel},
		{"publish", "wrong-credential", 401, zapcore.InfoLevel},
		{"publish", "store-unavailable", 503, zapcore.WarnLevel},
		{"subscribe", "accepted", 202, zapcore.InfoLevel},
		{"unsubscribe", "accepted", 202, zapcore.InfoLevel},
	}
	lines := logs.All()
	if len(lines) != len(wants) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		got, want := line.ContextMap(), wants[i]
		if got["event"] != want.event || got["outcome"] != want.outcome || got["status"] != want.status || line.Level != want.level || got["topic"] != topic {
			t.Errorf("line %d: %v %v", i, line.Level, got)
		}
		if _, ok := got["duration"]; !ok {
			t.Errorf("line %d has no duration", i)
		}
		for _, secret := range []string{"alice's token", "guessed token", "the secret", "/cb"} {
			if strings.Contains(fmt.Sprint(got), secret) {
				t.Errorf("line %d shows %q: %v", i, secret, got)
			}
		}
	}
	if got := lines[0].ContextMap(); got["notification_id"] != a.ID || got["publisher"] != "alice" || lines[0].LoggerName != "hub" {
		t.Errorf("%v", got)
	}
	if got := lines[4].ContextMap()["reason"]; !strings.Contains(fmt.Sprint(got), "disk on fire") {
		t.Errorf("the cause is lost: %v", got)
	}
	if got := lines[5].ContextMap(); got["callback_host"] != "subscriber.example:443" || got["subscription_id"] == "" {
		t.Errorf("%v", got)
	}
}
