package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/fairqueue"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/validate"
)

// web is what topics serve, and remembers when each was fetched.
type web struct {
	mu      sync.Mutex
	serve   map[string]func(ctx context.Context) (validate.Fetched, error) // by topic or host
	fetched map[string][]time.Time
}

func (s *web) fetch(ctx context.Context, topic string) (validate.Fetched, error) {
	s.mu.Lock()
	s.fetched[topic] = append(s.fetched[topic], time.Now())
	serve := s.serve[topic]
	if serve == nil {
		serve = s.serve[egress.HostPortOf(topic)]
	}
	s.mu.Unlock()
	return serve(ctx)
}

func (s *web) times(topic string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fetched[topic])
}

func (s *web) set(where string, serve func(ctx context.Context) (validate.Fetched, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve[where] = serve
}

// served answers with a body and a Content-Type, and with other headers.
func served(mediaType, body string, more ...string) func(context.Context) (validate.Fetched, error) {
	return func(context.Context) (validate.Fetched, error) {
		header := http.Header{}
		if mediaType != "" {
			header.Set("Content-Type", mediaType)
		}
		for i := 0; i < len(more); i += 2 {
			header.Add(more[i], more[i+1])
		}
		return validate.Fetched{Status: 200, Header: header, Length: -1, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func refusing(status int, err error) func(context.Context) (validate.Fetched, error) {
	return func(context.Context) (validate.Fetched, error) { return validate.Fetched{Status: status}, err }
}

// hanging answers when the channel is closed.
func hanging(until <-chan struct{}, serve func(context.Context) (validate.Fetched, error)) func(context.Context) (validate.Fetched, error) {
	return func(ctx context.Context) (validate.Fetched, error) {
		select {
		case <-until:
			return serve(ctx)
		case <-ctx.Done():
			return validate.Fetched{}, &validate.UnsureError{Reason: "the topic URI did not answer in time"}
		}
	}
}

// bed is a Handler that fetches in a bubble, on a store that outlives it.
type bed struct {
	*world
	web    *web
	store  *storetest.Memory
	mu     sync.Mutex
	events []Event
	logs   *observer.ObservedLogs
	stop   func()
}

// inBed runs a test in a bubble.
func inBed(t *testing.T, run func(b *bed), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{
			store: storetest.NewMemory(),
			web:   &web{serve: make(map[string]func(context.Context) (validate.Fetched, error)), fetched: make(map[string][]time.Time)},
		}
		time.Sleep(time.Hour) // so that there is a past
		b.start(t, change...)
		defer func() { b.stop() }()
		run(b)
		b.stop()
		if !b.fetchMemory.TryAcquire(b.o.MaxFetchBytes) {
			t.Error("memory was not given back")
		}
	})
}

// start starts a Handler on the store that there is.
func (b *bed) start(t *testing.T, change ...func(*Options)) {
	core, logs := observer.New(zapcore.InfoLevel)
	b.logs = logs
	b.world = newWorld(t, append([]func(*Options){func(o *Options) {
		o.Journal, o.Pings, o.Log, o.Now = b.store, b.store, zap.New(core), nil
		o.Event = func(e Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if e.Name == EventFetch {
				b.events = append(b.events, e)
			}
		}
	}}, change...)...)
	b.pings = b.store
	b.topics.fetch = b.web.fetch
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Fetch(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil // for the next call
	}
	synctest.Wait()
}

// pinged pings and waits until nothing moves any more but time.
func (b *bed) pinged(topics ...string) {
	b.t.Helper()
	if rec := b.do(ping(topics...)); rec.Code != http.StatusAccepted {
		b.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	synctest.Wait()
}

func (b *bed) pingRecord(topic string) journal.PingRecord {
	b.t.Helper()
	m, err := b.store.PingRecord(context.Background(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// entries are those of the topic of the tests.
func (b *bed) entries() []journal.Entry {
	b.t.Helper()
	entries, err := b.store.Read(context.Background(), topic, journal.Anchor{}, 1000, 1<<30)
	if err != nil {
		b.t.Fatal(err)
	}
	return entries
}

// HUB-60: a fetched change notification is checked like a posted one: the document's rules,
// continuity, duplicates.
func TestFetchedNotifications_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		steps := []struct {
			serve   func(context.Context) (validate.Fetched, error)
			outcome string
			status  int
			stored  int
			says    string
		}{
			{served("application/xml; charset=utf-8", dated(0, 1, "a"), "Link", `</caps.xml?of=https://example.org/>; rel="resourcesync"`), "accepted", 200, 1, ""},
			{served("application/xml", dated(0, 1, "a")), "duplicate", 200, 1, ""},
			{served("application/xml", dated(5, 6, "b")), "gap", 409, 1, "has to start at 2000-01-01T00:01:00Z"},
			{served("application/xml", dated(1, 2, "b")), "accepted", 200, 2, ""},
			{served("application/xml", dated(1, 2, "c")), "conflict", 409, 2, "other content"},
			{served("application/xml", dated(0, 3, "c")), "overlap", 409, 2, "overlaps"},
			{served("application/xml", "<urlset>"), "not-well-formed", 400, 2, "Line 1"},
			{served("application/xml", notification(`capability="resourcelist"`)), "invalid-notification", 422, 2, "Line 3"},
			{served("application/xml; charset=iso-8859-1", dated(2, 3, "c")), "charset", 400, 2, "UTF-8"},
			{served("application/xml; charset=utf-8; charset=x", dated(2, 3, "c")), "media-type", 415, 2, "application/xml"},
			{served("Application/XML ;charset", dated(2, 3, "c")), "media-type", 415, 2, "application/xml"},
			{served("text/html", "<p>an error page"), "other-kind", 422, 2, "this is plain content"},
		}
		for i, s := range steps {
			b.web.set(topic, s.serve)
			b.pinged(topic)
			entries, m, e := b.entries(), b.pingRecord(topic), b.events[i]
			if len(entries) != s.stored || m.Last.Outcome != s.outcome || m.Waiting() || m.Last.Status != 200 || !m.Last.At.Equal(time.Now()) {
				t.Errorf("%d: %d entries, %+v", i, len(entries), m)
			}
			if !strings.Contains(m.Last.Detail, s.says) || (m.Last.Detail == "") != (s.status == 200) {
				t.Errorf("%d: %q", i, m.Last.Detail)
			}
			if e.Outcome != s.outcome || e.Status != s.status || e.Topic != topic || (e.Err == nil) != (s.status == 200) || e.NotificationID != m.Last.ID {
				t.Errorf("%d: %+v", i, e)
			}
		}
		e := b.entries()[0]
		if string(e.Body) != dated(0, 1, "a") || e.MediaType != "application/xml; charset=utf-8" || e.Kind != journal.KindChange || e.Counts.Created != 1 ||
			!slices.Equal(e.Links, []string{`<https://example.org/caps.xml?of=https://example.org/>; rel="resourcesync"`}) {
			t.Errorf("%+v", e)
		}
		if b.events[0].NotificationID != e.ID || b.events[1].NotificationID != e.ID {
			t.Error("the ids are not those of the entry")
		}
	})
}

// dated is doc for the time at which bubbles begin.
func dated(from, until int, what string) string {
	return notification(fmt.Sprintf(`capability="change-notification" from="2000-01-01T00:%02d:00Z" until="2000-01-01T00:%02d:00Z"`, from, until),
		fmt.Sprintf(`<url><loc>http://example.org/%s</loc><rs:md change="created"/></url>`, what))
}

// HUB-61: content that is no notification is delivered as it is served, with the same Content-Type
// to the byte, whether it has changed or not.
func TestFetchedContent_HUB61(t *testing.T) {
	for mediaType, want := range map[string]string{
		"text/plain":                        "",
		`text/plain;charset="Utf-8"; x=y`:   "",
		"application/json":                  "",
		"application/xhtml+xml":             "",
		"text/xml":                          "",
		"not a media type/":                 "",
		"application/x-www-form-urlencoded": "",
		"":                                  "application/octet-stream",
	} {
		inBed(t, func(b *bed) {
			if want == "" {
				want = mediaType
			}
			for i := range 2 {
				b.web.set(topic, served(mediaType, "some \xff content", "Link", link(topic)))
				b.pinged(topic)
				entries := b.entries()
				if len(entries) != i+1 || b.pingRecord(topic).Last.Outcome != "accepted" {
					t.Fatalf("%q: %d entries, %+v", mediaType, len(entries), b.pingRecord(topic))
				}
				e := entries[i]
				if e.MediaType != want || string(e.Body) != "some \xff content" || e.Kind != journal.KindContent || e.Timed() || e.Links != nil {
					t.Errorf("%q: %+v", mediaType, e)
				}
			}
		})
	}
}

// HUB-60, HUB-61: application/xml that is no ResourceSync document is content like any other, in
// any encoding. It is delivered unchanged, with its DTD.
func TestFetchedFeeds_HUB60_HUB61(t *testing.T) {
	const rss = `<rss version="2.0"><channel><title>caf\xe9</title></channel></rss>`
	for mediaType, body := range map[string]string{
		"application/xml":                          `<feed xmlns="http://www.w3.org/2005/Atom"/>`,
		"application/xml; charset=ISO-8859-1":      `<?xml version="1.0" encoding="ISO-8859-1"?>` + rss,
		"APPLICATION/XML ;charset":                 rss,
		"application/xml; charset=utf-8; type=rss": `<!DOCTYPE rss [<!ENTITY a "<urlset>">]>` + rss,
		"application/xml;x":                        "\xff\xfe<\x00r\x00s\x00s\x00/\x00>\x00",
	} {
		inBed(t, func(b *bed) {
			b.web.set(topic, served(mediaType, body))
			b.pinged(topic)
			entries := b.entries()
			if len(entries) != 1 || entries[0].MediaType != mediaType || string(entries[0].Body) != body || entries[0].Kind != journal.KindContent {
				t.Errorf("%s: %+v, %+v", mediaType, entries, b.pingRecord(topic))
			}
		})
	}
	for body, outcome := range map[string]string{
		"no XML at all":           "not-well-formed",
		`<!DOCTYPE rss><urlset/>`: "document-type",
		`<urlset/>`:               "invalid-notification",
		`<?xml version="1.0" encoding="x"?><sitemapindex/>`: "charset",
	} {
		inBed(t, func(b *bed) {
			b.web.set(topic, served("application/xml", body))
			b.pinged(topic)
			if m := b.pingRecord(topic); len(b.entries()) != 0 || m.Last.Outcome != outcome {
				t.Errorf("%s: %+v", body, m)
			}
		})
	}
}

// HUB-57, HUB-60: an anonymous ping may find any content before the first notification. After the
// first notification, posted or fetched, the topic accepts nothing else until it is reset.
func TestContentSettlesNoKind_HUB57_HUB60(t *testing.T) {
	page := served("text/html", "<p>nothing here yet")
	for name, first := range map[string]func(b *bed){
		"fetched": func(b *bed) {
			b.web.set(topic, served("application/xml", dated(10, 20, "a")))
			b.pinged(topic)
		},
		"posted": func(b *bed) {
			if rec := b.do(publish(dated(10, 20, "a"))); rec.Code != http.StatusOK {
				b.t.Errorf("%d %s", rec.Code, rec.Body)
			}
		},
	} {
		inBed(t, func(b *bed) {
			said := func(outcome string, kinds ...journal.Kind) {
				t.Helper()
				var got []journal.Kind
				for _, e := range b.entries() {
					got = append(got, e.Kind)
				}
				if m := b.pingRecord(topic); !slices.Equal(got, kinds) || outcome != "" && m.Last.Outcome != outcome {
					t.Errorf("%s: %q and %+v, want %q and %q", name, got, m.Last, kinds, outcome)
				}
			}
			const content, change = journal.KindContent, journal.KindChange
			for range 2 {
				b.web.set(topic, page)
				b.pinged(topic)
			}
			said("accepted", content, content)
			first(b)
			said("", content, content, change)
			b.web.set(topic, page)
			b.pinged(topic)
			said("other-kind", content, content, change)
			b.web.set(topic, served("application/xml", dated(30, 40, "b")))
			b.pinged(topic)
			said("gap", content, content, change) // its intervals are continuous from its first

			head, err := b.store.Head(context.Background(), topic)
			if err != nil || head.Epoch != 0 || b.store.Reset(context.Background(), topic, head.Version) != nil {
				t.Fatalf("%+v, %v", head, err)
			}
			b.web.set(topic, page)
			b.pinged(topic)
			b.web.set(topic, served("application/xml", dated(30, 40, "b")))
			b.pinged(topic)
			said("accepted", content, content, change, content, change)
			if head, err = b.store.Head(context.Background(), topic); err != nil || len(head.Gaps) != 1 || head.Gaps[0].Reason != journal.GapReset {
				t.Errorf("%+v, %v", head, err)
			}
		})
	}
}

// A permanent failure is not tried again. The next ping tries anew.
func TestFetchesThatAreRefused_HUB60(t *testing.T) {
	for name, tc := range map[string]struct {
		serve   func(context.Context) (validate.Fetched, error)
		outcome string
		status  int
		change  func(*Options)
	}{
		"nothing is served (trap 21)": {serve: served("text/plain", ""), outcome: "empty-content", status: 200},
		"an empty topic of a Source":  {serve: served("application/xml", "", "Content-Length", "0"), outcome: "empty-content", status: 200},
		"another encoding":            {serve: served("text/plain", "x", "Content-Encoding", "gzip"), outcome: "media-type", status: 200},
		"too much":                    {serve: served("text/plain", strings.Repeat("x", 101)), outcome: "too-large", status: 200, change: func(o *Options) { o.MaxBody = 100 }},
		"too much, as it says": {
			serve: func(context.Context) (validate.Fetched, error) {
				return validate.Fetched{Status: 200, Length: 101, Body: unopened{}}, nil
			}, outcome: "too-large", status: 200, change: func(o *Options) { o.MaxBody = 100 },
		},
		"not this hub": {serve: refusing(200, &validate.DeniedError{Reason: "the topic URI has no Link header"}), outcome: "topic-denied", status: 200},
		"gone":         {serve: refusing(410, &validate.DeniedError{Reason: "the topic URI answered 410"}), outcome: "topic-denied", status: 410},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.web.set(topic, tc.serve)
				b.pinged(topic)
				time.Sleep(3 * time.Hour)
				m := b.pingRecord(topic)
				if m.Last.Outcome != tc.outcome || m.Last.Status != tc.status || m.Waiting() || m.Tries != 0 || len(b.web.times(topic)) != 1 {
					t.Errorf("%d fetches, %+v", len(b.web.times(topic)), m)
				}
				checkSentence(t, m.Last.Detail+"\n", nil)
				if len(b.entries()) != 0 {
					t.Error("something was stored")
				}
				b.web.set(topic, served("text/plain", "x"))
				b.pinged(topic)
				if m := b.pingRecord(topic); m.Last.Outcome != "accepted" || m.Last.Detail != "" {
					t.Errorf("the next one: %+v", m)
				}
			}, tc.change)
		})
	}
}

// unopened is a body that must not be read.
type unopened struct{}

func (unopened) Read([]byte) (int, error) { panic("it was read") }
func (unopened) Close() error             { return nil }

// A topic that the hub no longer serves when its fetch is due is not fetched.
func TestFetchOfATopicThatIsNotServed(t *testing.T) {
	inBed(t, func(b *bed) {
		stop := make(chan struct{})
		b.web.set(topic, hanging(stop, served("text/plain", "x")))
		b.pinged(topic)
		b.stop()
		b.start(b.t, func(o *Options) { o.TopicDeny = patterns(topic) })
		if m := b.pingRecord(topic); m.Last.Outcome != "topic-not-allowed" || m.Waiting() || len(b.web.times(topic)) != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// HUB-60: all the pings that come during a fetch cause one more fetch.
func TestPingsCoalesce_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		first := make(chan struct{})
		b.web.set(topic, hanging(first, served("text/plain", "first")))
		b.pinged(topic)
		for range 100 {
			b.pinged(topic)
		}
		if n := len(b.web.times(topic)); n != 1 {
			t.Fatalf("%d fetches at once", n)
		}
		b.web.set(topic, served("text/plain", "last"))
		close(first)
		synctest.Wait()
		m, entries := b.pingRecord(topic), b.entries()
		if n := len(b.web.times(topic)); n != 2 || m.Waiting() || m.Pings != 101 || m.Fetched != 101 {
			t.Errorf("%d fetches, %+v", n, m)
		}
		if len(entries) != 2 || string(entries[1].Body) != "last" {
			t.Errorf("%d entries", len(entries))
		}
		time.Sleep(time.Hour)
		if n := len(b.web.times(topic)); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

// A topic that can't be asked is tried for an hour after its last ping.
func TestFetchIsTriedAgain_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		start := time.Now()
		b.web.set(topic, refusing(502, &validate.UnsureError{Reason: "the topic URI answered 502"}))
		b.pinged(topic)
		m := b.pingRecord(topic)
		if !m.Waiting() || m.Tries != 1 || m.Last.Outcome != "topic-unreachable" || m.Last.Status != 502 || !m.NextAt.After(start) {
			t.Errorf("%+v", m)
		}
		time.Sleep(3 * time.Hour)
		times := b.web.times(topic)
		if n := len(times); n != 7 && n != 8 { // as the pauses fall out
			t.Fatalf("%d tries", n)
		}
		for i, pause := range fairqueue.TopicRetries[:5] {
			got := times[i+1].Sub(times[i])
			if got < pause*8/10 || got > pause*12/10 {
				t.Errorf("pause %d: %v, want about %v", i, got, pause)
			}
		}
		if last := times[len(times)-1].Sub(start); last != fetchFor {
			t.Errorf("the last try came after %v", last)
		}
		if m := b.pingRecord(topic); m.Waiting() || m.Tries != 0 || !m.NextAt.IsZero() || m.Last.Outcome != "topic-unreachable" {
			t.Errorf("%+v", m)
		}
		b.web.set(topic, served("text/plain", "x"))
		b.pinged(topic)
		if m := b.pingRecord(topic); m.Last.Outcome != "accepted" {
			t.Errorf("%+v", m)
		}
	})
}

// A ping of a topic that waits for its next try has it made soon, but not before
// the time that the topic asked for; and many don't put it off.
func TestPingHurriesAFailedFetch(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{0: pingedAgain, 5 * time.Minute: 5 * time.Minute} {
		inBed(t, func(b *bed) {
			b.web.set(topic, refusing(503, &validate.UnsureError{Reason: "the topic URI answered 503"}))
			b.pinged(topic)
			time.Sleep(20 * time.Minute) // to where the pauses are long
			n := len(b.web.times(topic))
			b.web.set(topic, refusing(503, &validate.UnsureError{Reason: "the topic URI answered 503", After: wait}))
			time.Sleep(time.Until(b.pingRecord(topic).NextAt))
			synctest.Wait()
			b.web.set(topic, served("text/plain", "x"))
			failed := time.Now()
			for range 20 {
				b.pinged(topic)
				time.Sleep(time.Second / 2)
			}
			time.Sleep(10 * time.Minute)
			times := b.web.times(topic)
			if len(times) < n+2 || times[n+1].Sub(failed) != want || b.pingRecord(topic).Waiting() {
				t.Errorf("asked to wait %v: %v, %+v", wait, times, b.pingRecord(topic))
			}
		})
	}
}

// Retry-After counts where it is longer than the pause.
func TestFetchHonoursRetryAfter(t *testing.T) {
	inBed(t, func(b *bed) {
		b.web.set(topic, refusing(429, &validate.UnsureError{Reason: "the topic URI answered 429", After: time.Hour}))
		b.pinged(topic)
		time.Sleep(3 * time.Hour)
		if times := b.web.times(topic); len(times) != 2 || times[1].Sub(times[0]) != time.Hour {
			t.Errorf("%v", times)
		}
	})
}

// A ping that was answered with 202 is fetched after a restart, when it is due. A fetch that is
// under way at the shutdown is left for then.
func TestFetchesGoOnAfterARestart_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		other := topic + "other"
		b.web.set(topic, hanging(nil, nil))
		b.web.set(other, refusing(0, &validate.UnsureError{Reason: "example.org could not be reached"}))
		b.pinged(topic, other)
		b.stop()
		due := b.pingRecord(other).NextAt
		if m := b.pingRecord(topic); !m.Waiting() || m.Last.Outcome != "" {
			t.Errorf("%+v", m)
		}
		b.web.set(topic, served("text/plain", "x"))
		b.web.set(other, served("text/plain", "x"))
		b.start(b.t)
		if m := b.pingRecord(topic); m.Waiting() || len(b.entries()) != 1 {
			t.Errorf("%+v", m)
		}
		time.Sleep(time.Minute)
		if times := b.web.times(other); len(times) != 2 || !times[1].Equal(due) {
			t.Errorf("%v, due at %v", times, due)
		}
	})
}

// After a crash between the journal and the ping record nothing is lost, a notification is
// recognised, and content is delivered at most once more.
func TestCrashBeforeThePingIsResolved(t *testing.T) {
	for mediaType, want := range map[string]int{"application/xml": 1, "text/plain": 2} {
		inBed(t, func(b *bed) {
			b.o.Pings = &brokenPings{pings: b.store, setFetched: func(journal.PingRecord) error { return errors.New("the power failed") }}
			b.web.set(topic, served(mediaType, dated(0, 1, "a")))
			b.pinged(topic)
			time.Sleep(time.Hour) // the store still fails, and that is no reason to fetch again
			if n := len(b.web.times(topic)); n != 1 || len(b.entries()) != 1 || !b.pingRecord(topic).Waiting() {
				t.Errorf("%s: %d fetches", mediaType, n)
			}
			b.stop()
			b.start(b.t)
			if n := len(b.entries()); n != want || b.pingRecord(topic).Waiting() {
				t.Errorf("%s: %d entries, %+v", mediaType, n, b.pingRecord(topic))
			}
		})
	}
}

// While the store is down it is asked at intervals, and said once each time.
func TestFetchesWaitForTheStore(t *testing.T) {
	inBed(t, func(b *bed) {
		failures := 3
		b.o.Pings = &brokenPings{pings: b.store, setFetched: func(journal.PingRecord) error {
			if failures--; failures >= 0 {
				return errors.New("no route to host")
			}
			return nil
		}}
		b.web.set(topic, served("text/plain", "x"))
		b.pinged(topic)
		time.Sleep(time.Minute)
		if m := b.pingRecord(topic); m.Waiting() || m.Last.Outcome != "accepted" || len(b.entries()) != 1 {
			t.Errorf("%+v", m)
		}
		if n := b.logs.FilterField(zap.String("event", "fetch_store_failed")).Len(); n != 3 {
			t.Errorf("%d lines", n)
		}
	})
}

// A slow host delays only itself, and gets few requests at once. The same is true of many dead
// hosts.
func TestFetchesAreFairOverHosts(t *testing.T) {
	inBed(t, func(b *bed) {
		var slow, dead []string
		for i := range 100 {
			slow = append(slow, fmt.Sprintf("https://slow.example/%d", i))
		}
		for i := range 3 * firstFetches {
			var failed atomic.Bool
			dead = append(dead, fmt.Sprintf("https://dead-%d.example/", i))
			b.web.set(fmt.Sprintf("dead-%d.example:443", i), func(ctx context.Context) (validate.Fetched, error) {
				if failed.Swap(true) {
					return hanging(nil, nil)(ctx)
				}
				return validate.Fetched{}, &validate.UnsureError{Reason: "it could not be reached"}
			})
		}
		b.web.set("slow.example:443", hanging(nil, nil))
		b.web.set(topic, served("text/plain", "x"))
		b.pinged(slow...)
		for topics := range slices.Chunk(dead, 100) {
			b.pinged(topics...)
		}
		time.Sleep(time.Minute)
		start := time.Now()
		b.pinged(topic)
		if times := b.web.times(topic); len(times) != 1 || !times[0].Equal(start) || b.pingRecord(topic).Waiting() {
			t.Errorf("%v", times)
		}
		asked := 0
		for _, topic := range slow {
			asked += len(b.web.times(topic))
		}
		if asked != fetchesPerHost {
			t.Errorf("%d requests to the slow host at once", asked)
		}
	})
}

// A fetch begins only where a ping record says so: a ping that the running fetch knew of
// leads to no other.
func TestNothingIsFetchedWithoutAMark_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		b.fetches.ping(topic, false, time.Now())
		synctest.Wait()
		if n := len(b.web.times(topic)); n != 0 || b.fetches.known(topic) {
			t.Errorf("%d fetches", n)
		}
	})
}

// A topic that comes after many of another host is fetched in turn with them.
func TestHostsTakeTurns(t *testing.T) {
	inBed(t, func(b *bed) {
		var many []string
		for i := range 90 {
			many = append(many, fmt.Sprintf("https://many.example/%d", i))
		}
		b.web.set("many.example:443", func(ctx context.Context) (validate.Fetched, error) {
			time.Sleep(time.Second)
			return served("text/plain", "x")(ctx)
		})
		b.web.set("example.org:443", b.web.serve["many.example:443"])
		b.pinged(append(many, topic)...)
		time.Sleep(2 * time.Second)
		if b.pingRecord(topic).Waiting() {
			t.Error("it waits for the others")
		}
		time.Sleep(time.Minute)
		for _, topic := range many {
			if b.pingRecord(topic).Waiting() {
				t.Errorf("%s was forgotten", topic)
			}
		}
	})
}

// A fetch that is over the budget waits. That counts as no attempt and is not logged, and other
// hosts go on. In the end it fails like a topic that cannot be fetched.
func TestFetchWaitsForTheBudget_HUB60(t *testing.T) {
	inBed(t, func(b *bed) {
		var over atomic.Bool
		over.Store(true)
		b.web.set("example.org:443", func(ctx context.Context) (validate.Fetched, error) {
			if over.Load() {
				return validate.Fetched{}, &validate.WaitError{Host: "example.org:443", After: 3 * time.Second}
			}
			return served("text/plain", "x")(ctx)
		})
		b.web.set("other.example:443", served("text/plain", "x"))
		var many []string
		for i := range 50 {
			many = append(many, fmt.Sprint(topic, i))
		}
		b.pinged(append(many, topic, "https://other.example/")...)
		time.Sleep(time.Minute)
		asked := 0
		for _, times := range maps.Clone(b.web.fetched) {
			asked += len(times)
		}
		if m := b.pingRecord(topic); !m.Waiting() || m.Tries != 0 || m.Last.Outcome != "" || asked > 200 { // of 51 topics every 3 s
			t.Errorf("%d requests, %+v", asked, m)
		}
		if b.pingRecord("https://other.example/").Waiting() || len(b.events) != 1 {
			t.Errorf("%+v", b.events)
		}
		over.Store(false)
		time.Sleep(4 * time.Second)
		for _, topic := range append(many, topic) {
			if b.pingRecord(topic).Waiting() {
				t.Errorf("%s waits still", topic)
			}
		}
		over.Store(true)
		b.pinged(topic)
		time.Sleep(2 * time.Hour)
		if m := b.pingRecord(topic); m.Waiting() || m.Last.Outcome != "topic-unreachable" {
			t.Errorf("%+v", m)
		}
	})
}

// Where this hub itself is in trouble, a fetch is not given up.
func TestFetchOutlastsTroubleOfThisHub(t *testing.T) {
	inBed(t, func(b *bed) {
		full := sync.OnceFunc(func() {
			if !b.fetchMemory.TryAcquire(b.o.MaxFetchBytes) {
				t.Error("something is held")
			}
		})
		b.web.set(topic, func(ctx context.Context) (validate.Fetched, error) {
			full()
			return served("text/plain", "x")(ctx)
		})
		b.pinged(topic)
		time.Sleep(5 * time.Hour)
		if m := b.pingRecord(topic); !m.Waiting() || m.Last.Outcome != "busy" {
			t.Errorf("%+v", m)
		}
		b.fetchMemory.Release(b.o.MaxFetchBytes)
		time.Sleep(time.Hour)
		if m := b.pingRecord(topic); m.Waiting() || m.Last.Outcome != "accepted" {
			t.Errorf("%+v", m)
		}
	})
}

// PingRecords of topics that nothing came of are forgotten after a week (invariant 12);
// the others stay.
func TestOldPingRecordsAreForgotten(t *testing.T) {
	inBed(t, func(b *bed) {
		gone := topic + "gone"
		b.web.set(topic, served("text/plain", "x"))
		b.web.set(gone, refusing(404, &validate.DeniedError{Reason: "the topic URI answered 404"}))
		b.pinged(topic, gone)
		time.Sleep(journal.PingRecordKeep - time.Second)
		if b.pingRecord(gone).Last.Outcome != "topic-denied" {
			t.Errorf("%+v", b.pingRecord(gone))
		}
		time.Sleep(2 * forgetEvery)
		if m := b.pingRecord(gone); m.Pings != 0 {
			t.Errorf("%+v", m)
		}
		if m := b.pingRecord(topic); m.Pings != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// Pings for which there is no room in memory are fetched in time, too.
func TestMoreTopicsThanFitInMemory(t *testing.T) {
	q := newFetchQueue()
	for i := range maxFetchJobs + 10 {
		q.ping(fmt.Sprintf("https://example.org/%d", i), false, time.Now())
	}
	if len(q.jobs) != maxFetchJobs {
		t.Errorf("%d jobs", len(q.jobs))
	}
	inBed(t, func(b *bed) {
		b.web.set(topic, served("text/plain", "x"))
		if err := b.store.Ping(context.Background(), time.Now(), []string{topic}); err != nil { // and the queue does not hear of it
			t.Fatal(err)
		}
		time.Sleep(sweepEvery + time.Second)
		if b.pingRecord(topic).Waiting() {
			t.Error("it waits still")
		}
	})
}

// One line for each try, with what a publish would have been answered and what
// the topic did.
func TestFetchIsTold(t *testing.T) {
	inBed(t, func(b *bed) {
		b.web.set(topic, refusing(502, &validate.UnsureError{Reason: "the topic URI answered 502"}))
		b.pinged(topic)
		b.web.set(topic, served("text/plain", "four"))
		time.Sleep(time.Minute)
		lines := b.logs.FilterField(zap.String("event", "fetch")).All()
		if len(lines) != 2 {
			t.Fatalf("%v", lines)
		}
		first, second := lines[0].ContextMap(), lines[1].ContextMap()
		if first["outcome"] != "topic-unreachable" || first["status"] != int64(503) || first["topic_status"] != int64(502) || first["attempt"] != int64(1) ||
			first["next_attempt_at"] == nil || first["reason"] == nil || lines[0].Level != zapcore.InfoLevel {
			t.Errorf("%v", first)
		}
		if second["outcome"] != "accepted" || second["status"] != int64(200) || second["attempt"] != int64(2) || second["bytes"] != int64(4) ||
			second["notification_id"] == nil || second["next_attempt_at"] != nil || second["reason"] != nil {
			t.Errorf("%v", second)
		}
	})
}

func TestRetryFetch(t *testing.T) {
	unreachable, final, full := refuse(topicUnreachable, ""), refuse(topicDenied, ""), refuse(storeFull, "")
	asked := refuse(topicUnreachable, "").retryAfter(40 * time.Minute)
	for name, tc := range map[string]struct {
		r     *refusal
		tries int
		after time.Duration // since the ping
		rnd   float64
		pause time.Duration
		again bool
	}{
		"first":                              {unreachable, 0, 0, 0.5, 10 * time.Second, true},
		"spread down":                        {unreachable, 0, 0, 0, 8 * time.Second, true},
		"spread up":                          {unreachable, 0, 0, 1, 12 * time.Second, true},
		"third":                              {unreachable, 2, time.Minute, 0.5, 2 * time.Minute, true},
		"the last one comes at the end":      {unreachable, 5, 50 * time.Minute, 0.5, 10 * time.Minute, true},
		"the end":                            {unreachable, 6, time.Hour, 0.5, 0, false},
		"asked to wait":                      {asked, 0, 0, 0.5, 40 * time.Minute, true},
		"asked to wait beyond the end":       {asked, 3, 50 * time.Minute, 0.5, 40 * time.Minute, true},
		"asked to wait at the end":           {asked, 3, time.Hour, 0.5, 0, false},
		"final":                              {final, 0, 0, 0.5, 0, false},
		"this hub's own trouble has no end":  {full, 99, 100 * time.Hour, 0.5, 30 * time.Minute, true},
		"a clock that went back":             {unreachable, 0, -time.Hour, 0.5, 10 * time.Second, true},
		"many tries, pinged again and again": {unreachable, 99, 0, 0.5, 30 * time.Minute, true},
	} {
		m := journal.PingRecord{Pings: 1, Tries: tc.tries, PingedAt: noon}
		if pause, again := retryFetch(m, tc.r, noon.Add(tc.after), tc.rnd); pause != tc.pause || again != tc.again {
			t.Errorf("%s: %v, %t; want %v, %t", name, pause, again, tc.pause, tc.again)
		}
	}
}

// If a stranger's header gets into a refusal, it is kept short (invariant 12).
func TestDetailOfAFetchIsBounded(t *testing.T) {
	inBed(t, func(b *bed) {
		b.web.set(topic, refusing(200, &validate.DeniedError{Reason: "the topic URI has " + strings.Repeat("é", 60<<10) + ` as rel="self"`}))
		b.pinged(topic)
		if d := b.pingRecord(topic).Last.Detail; len(d) > maxDetail+3 || len(d) < maxDetail-3 || !utf8.ValidString(d) || !strings.HasSuffix(d, "...") {
			t.Errorf("%d bytes", len(d))
		}
	})
}

// A time that a clock which jumped left in a ping record keeps no topic from being
// fetched after a restart.
func TestFetchAfterAClockJump(t *testing.T) {
	inBed(t, func(b *bed) {
		b.stop()
		if err := b.store.Ping(context.Background(), time.Now(), []string{topic}); err != nil {
			t.Fatal(err)
		}
		m := b.pingRecord(topic)
		m.Tries, m.NextAt = 1, time.Now().Add(1000*time.Hour)
		if err := b.store.SetFetched(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		b.web.set(topic, served("text/plain", "x"))
		b.start(b.t)
		if m := b.pingRecord(topic); m.Waiting() {
			t.Errorf("%+v", m)
		}
	})
}
