package history

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/engine/examine"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/store/storetest"
)

const topic = "https://example.org/changes/"

// minute is an instant of the test's day.
func minute(n int) time.Time {
	return time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
}

// world is a hub's journal and the service over it.
type world struct {
	*Service
	t     *testing.T
	store *storetest.Memory
	away  *atomic.Bool  // the store does not answer
	reads *atomic.Int64 // how often it was read
	mute  *atomic.Bool  // its hints are lost
	// lost is the position of an entry that is lost, and still in pages that were read before; 0: none.
	lost *atomic.Uint64
	now  time.Time
	// charge is Reader.Charge.
	charge func(int64) error
	// allowed is Reader.Allowed.
	allowed func() bool
}

// awayStore is a store that does not answer while it is away.
type awayStore struct {
	*storetest.Memory
	away  atomic.Bool
	reads atomic.Int64
	mute  atomic.Bool
	lost  atomic.Uint64
}

func (s *awayStore) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	if lost := s.lost.Load(); lost > 0 && uint64(e.Position) == lost {
		return nil, journal.ErrNotFound
	}
	return s.Memory.Body(ctx, topic, e)
}

func (s *awayStore) Hints(ctx context.Context, f func(journal.Hint)) {
	s.Memory.Hints(ctx, func(h journal.Hint) {
		if !s.mute.Load() {
			f(h)
		}
	})
}

func (s *awayStore) Read(ctx context.Context, topic string, after journal.Anchor, most int, maxBytes int64) ([]journal.Entry, error) {
	s.reads.Add(1)
	if s.away.Load() {
		return nil, errors.New("the store is away")
	}
	if lost := s.lost.Load(); lost > 0 && uint64(after.Position) == lost {
		return nil, journal.ErrRolledBack
	}
	return s.Memory.Read(ctx, topic, after, most, maxBytes)
}

func newWorld(t *testing.T) *world {
	store := &awayStore{Memory: storetest.NewMemory()}
	service, err := New(Options{HubURL: "https://hub.example/", Journal: store, Watcher: store})
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		Service: service,
		t:       t, store: store.Memory, away: &store.away, reads: &store.reads, mute: &store.mute, lost: &store.lost, now: minute(10_000),
	}
}

// document is a notification of an interval with resources that changed in it.
func document(from, until time.Time, names ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:r="http://www.openarchives.org/rs/terms/"><r:md capability="change-notification" from="%s" until="%s"/>`,
		resourcesync.FormatDatetime(from), resourcesync.FormatDatetime(until))
	for _, name := range names {
		fmt.Fprintf(&b, `<url><loc>https://example.org/%s</loc><r:md change="updated" datetime="%s" xmlns:x="https://x.example/" x:note="a &amp; b"/><r:ln rel="via" href="https://x.example/%s"/></url>`, name, resourcesync.FormatDatetime(from), name)
	}
	return []byte(b.String() + "</urlset>")
}

// publish appends a notification, as the hub does.
func (w *world) publish(from, until time.Time, names ...string) journal.Entry {
	w.t.Helper()
	return w.append(journal.Entry{
		From: from, Until: until, Kind: journal.KindChange, MediaType: "application/xml",
		Counts: journal.Counts{Updated: uint32(len(names))}, Body: document(from, until, names...),
	})
}

func (w *world) append(e journal.Entry) journal.Entry {
	w.t.Helper()
	head, err := w.store.Head(w.t.Context(), topic)
	if err == nil {
		w.now = w.now.Add(time.Second)
		e, err = w.store.Append(w.t.Context(), w.now, topic, e, head.Version)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// get asks for an address of the hub, with headers in pairs.
func (w *world) get(address string, headers ...string) (*httptest.ResponseRecorder, error) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, address, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	q, err := ParseQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	switch {
	case q.Describe != "":
		err = w.Describe(rec, r, q)
	case q.Latest, q.ID != [16]byte{}:
		err = w.Document(rec, r, q, Reader{Name: "x", Charge: w.charge})
	default:
		err = w.Changes(rec, r, q, Reader{Name: "x", Charge: w.charge})
	}
	return rec, err
}

// isUnknown reports whether an error names a topic, or a notification of it, as unknown.
func isUnknown(err error, topic string, id uuid.UUID) bool {
	unknown, ok := errors.AsType[*UnknownError](err)
	return ok && *unknown == UnknownError{topic, id}
}

// since asks for the changes since an instant.
func (w *world) since(at time.Time) (*httptest.ResponseRecorder, error) {
	w.t.Helper()
	return w.get(w.url(topic, paramSince, at.Format(time.RFC3339)))
}

// list reads an answer strictly. The locs are without what they have in common.
func (w *world) list(rec *httptest.ResponseRecorder) (resourcesync.Head, []string) {
	w.t.Helper()
	r := resourcesync.NewReader(rec.Body, resourcesync.ReadOptions{Strict: true})
	h, err := r.Head()
	if err != nil {
		w.t.Fatal(err)
	}
	var locs []string
	for e, err := range r.Entries() {
		if err != nil {
			w.t.Fatal(err)
		}
		locs = append(locs, strings.TrimPrefix(e.Loc, "https://example.org/"))
	}
	return h, locs
}

// want checks an answer: its resources in order, where it begins, and where it ends ("": it is
// open).
func (w *world) want(rec *httptest.ResponseRecorder, err error, locs string, from, until time.Time, gaps ...string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	h, got := w.list(rec)
	if strings.Join(got, " ") != locs || !h.From.Equal(from) || !h.Until.Equal(until) || h.Capability != resourcesync.ChangeList {
		w.t.Errorf("the answer has %q from %v until %v, want %q from %v until %v", got, h.From, h.Until, locs, from, until)
	}
	if got := rec.Header().Values(HeaderGap); strings.Join(got, " ") != strings.Join(gaps, " ") {
		w.t.Errorf("the gaps are %q, want %q", got, gaps)
	}
	if next := rec.Header().Get("Link"); (next != "") != !until.IsZero() {
		w.t.Errorf("it leads on to %q, and ends at %v", next, until)
	}
}

var open time.Time

// The unit is the notification: all that end after since, in order, and no end where the topic
// goes on.
func TestSince_MEM01(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	w.publish(minute(10), minute(20), "b", "c")
	last := w.publish(minute(20), minute(30), "d")
	for _, tc := range []struct {
		since int
		locs  string
		from  int
	}{{0, "a b c d", 0}, {9, "a b c d", 0}, {10, "b c d", 10}, {29, "d", 20}, {30, "", 30}} {
		rec, err := w.since(minute(tc.since))
		w.want(rec, err, tc.locs, minute(tc.from), open)
		if got := rec.Header().Get(HeaderUntil); got != "2026-01-02T00:30:00Z" {
			t.Errorf("%s is %s", HeaderUntil, got)
		}
		if got := rec.Header().Get(HeaderPosition); got != PositionOf(topic, last.Anchor()).String() {
			t.Errorf("%s is not the last entry", HeaderPosition)
		}
	}
	_, err := w.since(minute(31))
	var future *FutureError
	if !errors.As(err, &future) || !future.Until.Equal(minute(30)) {
		t.Errorf("in the future: %v", err)
	}
	_, err = w.since(minute(-1))
	var gone *TrimmedError
	if !errors.As(err, &gone) || !gone.Earliest.Equal(minute(0)) {
		t.Errorf("before the beginning: %v", err)
	}
	if _, err := w.get(w.url("https://other.example/", paramSince, "2026")); !isUnknown(err, "https://other.example/", uuid.Nil) {
		t.Errorf("another topic: %v", err)
	}

	// A reader goes on at the position.
	rec, err := w.since(minute(30))
	w.want(rec, err, "", minute(30), open)
	w.publish(minute(30), minute(40), "e")
	rec, err = w.get(w.url(topic, paramAfter, rec.Header().Get(HeaderPosition)))
	w.want(rec, err, "e", minute(30), open)
}

// What an entry says goes into the answer: links, and attributes of other namespaces under
// prefixes of the answer's own.
func TestEntriesAreWhole(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	rec, err := w.since(minute(0))
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range resourcesync.NewReader(rec.Body, resourcesync.ReadOptions{Strict: true}).Entries() {
		if err != nil || len(e.Links) != 1 || e.Links[0].Href != "https://x.example/a" || len(e.Attributes) != 1 || e.Attributes[0].Value != "a & b" || e.Change != "updated" || !e.Datetime.Equal(minute(0)) {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// An answer that ends before a gap is closed there, names it, and leads on behind it.
func TestGapsAreTold_MEM01(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	w.publish(minute(15), minute(20), "b") // as with --continuity=flag
	rec, err := w.since(minute(5))
	const gap = "2026-01-02T00:10:00Z/2026-01-02T00:15:00Z"
	w.want(rec, err, "a", minute(0), minute(10), gap)
	next, _, _ := strings.Cut(strings.TrimPrefix(rec.Header().Get("Link"), "<"), ">")
	rec, err = w.get(next)
	w.want(rec, err, "b", minute(15), open, gap)
	rec, err = w.since(minute(12))
	w.want(rec, err, "b", minute(15), open, gap)
	rec, err = w.since(minute(15))
	w.want(rec, err, "b", minute(15), open)
}

// A reset begins time anew: the newest run that has the instant is meant.
func TestResetEndsAnAnswer(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(100), "a")
	w.publish(minute(100), minute(200), "b")
	w.reset()
	w.publish(minute(50), minute(60), "c")
	w.publish(minute(60), minute(70), "d")
	const gap = "2026-01-02T03:20:00Z/2026-01-02T00:50:00Z"
	rec, err := w.since(minute(55))
	w.want(rec, err, "c d", minute(50), open)
	rec, err = w.since(minute(60))
	w.want(rec, err, "d", minute(60), open)
	rec, err = w.since(minute(20)) // only the older run has it
	w.want(rec, err, "a b", minute(0), minute(200), gap)
	rec, err = w.since(minute(150))
	w.want(rec, err, "b", minute(100), minute(200), gap)
	if _, err = w.since(minute(201)); err == nil {
		t.Error("no run has it, and there is an answer")
	}
}

func (w *world) reset() {
	w.t.Helper()
	head, err := w.store.Head(w.t.Context(), topic)
	if err == nil {
		err = w.store.Reset(w.t.Context(), topic, head.Version)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// What was trimmed is gone for since, and for the address of a closed part.
func TestTrimmed_MEM01(t *testing.T) {
	w := newWorld(t)
	first := w.publish(minute(0), minute(10), "a")
	w.publish(minute(10), minute(20), "b")
	w.publish(minute(20), minute(30), "c")
	w.trim(2)
	rec, err := w.since(minute(25))
	w.want(rec, err, "c", minute(20), open)
	rec, err = w.since(minute(20))
	w.want(rec, err, "c", minute(20), open)
	_, err = w.since(minute(19))
	var gone *TrimmedError
	if !errors.As(err, &gone) || !gone.Earliest.Equal(minute(20)) {
		t.Errorf("%v", err)
	}
	rec, err = w.get(w.url(topic, paramAfter, PositionOf(topic, first.Anchor()).String()))
	w.want(rec, err, "c", minute(20), open, "2026-01-02T00:10:00Z/2026-01-02T00:20:00Z")
	if _, err := w.get(w.url(topic, paramID, first.ID.String())); !errors.Is(err, ErrGone) {
		t.Errorf("the notification itself: %v", err)
	}
	rec, err = w.get(w.url(topic, paramAfter, earliest))
	w.want(rec, err, "c", minute(20), open)
	w.trim(1)
	_, err = w.since(minute(20))
	if !errors.As(err, &gone) || !gone.Earliest.Equal(minute(30)) {
		t.Errorf("with nothing left: %v", err)
	}
	rec, err = w.since(minute(30))
	w.want(rec, err, "", minute(30), open)

	// A reader from before that receives the gap once, and then has a position behind it.
	for after, from := range map[journal.Anchor]string{first.Anchor(): "2026-01-02T00:10:00Z", {}: "0001-01-01T00:00:00Z"} {
		rec, err = w.get(w.url(topic, paramAfter, PositionOf(topic, after).String()))
		w.want(rec, err, "", minute(30), open, from+"/2026-01-02T00:30:00Z")
		rec, err = w.get(w.url(topic, paramAfter, rec.Header().Get(HeaderPosition)))
		w.want(rec, err, "", minute(30), open)
	}
}

// trimsThen is a journal that trims all that it has after each reading of a head.
type trimsThen struct{ *storetest.Memory }

func (j trimsThen) Head(ctx context.Context, topic string) (journal.Head, error) {
	head, err := j.Memory.Head(ctx, topic)
	if err == nil {
		_, err = j.Trim(ctx, topic, journal.Cut{Before: minute(1_000_000), KeepBytes: -1})
	}
	return head, err
}

// What is trimmed after the head was read was trimmed, and is not still to come.
func TestTrimmedAfterTheHead_MEM01(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	w.publish(minute(10), minute(20), "b")
	w.o.Journal = trimsThen{w.store}
	_, err := w.since(minute(15))
	if gone, ok := errors.AsType[*TrimmedError](err); !ok || !gone.Earliest.Equal(minute(20)) {
		t.Error(err)
	}
}

// trim deletes the n oldest entries.
func (w *world) trim(n int) {
	w.t.Helper()
	head, err := w.store.Head(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	entries, err := w.store.Read(w.t.Context(), topic, head.Trimmed, n, 0)
	if err == nil {
		_, err = w.store.Trim(w.t.Context(), topic, journal.Cut{Before: entries[n-1].ReceivedAt.Add(1), KeepBytes: -1})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// Many changes are an index: the closed parts never change, the open end does.
func TestIndex_MEM02(t *testing.T) {
	w := newWorld(t)
	w.limits = limits{changes: 3, bytes: 1 << 20}
	for i := range 5 {
		w.publish(minute(i), minute(i+1), fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
	}
	rec, err := w.since(minute(1))
	if err != nil {
		t.Fatal(err)
	}
	r := resourcesync.NewReader(bytes.NewReader(rec.Body.Bytes()), resourcesync.ReadOptions{Strict: true})
	h, err := r.Head()
	if err != nil || !h.Index || !h.From.Equal(minute(1)) || !h.Until.IsZero() {
		t.Fatalf("the index: %+v, %v", h, err)
	}
	var all []string
	n := 0
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		part, err := w.get(e.Loc)
		if err != nil {
			t.Fatal(err)
		}
		cached := part.Header().Get("Cache-Control") == forever
		ph, locs := w.list(part)
		all = append(all, locs...)
		if index, _ := ph.Link("index"); index.Href != w.url(topic, paramSince, minute(1).Format(time.RFC3339)) {
			t.Errorf("part %d is in the index %s", n, index.Href)
		}
		if last := n == 4; !ph.From.Equal(e.From) || !ph.Until.Equal(e.Until) || cached == last || ph.Until.IsZero() != last {
			t.Errorf("part %d is %v to %v, cached %t; the index says %v to %v", n, ph.From, ph.Until, cached, e.From, e.Until)
		}
	}
	if got := strings.Join(all, " "); n != 4 || got != "a1 b1 a2 b2 a3 b3 a4 b4" {
		t.Errorf("%d parts have %s", n, got)
	}
	// The part of before says the same after more was published.
	parts := func() (urls []string) {
		rec, err := w.since(minute(1))
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range resourcesync.NewReader(rec.Body, resourcesync.ReadOptions{}).Entries() {
			if err != nil {
				t.Fatal(err)
			}
			urls = append(urls, e.Loc)
		}
		return urls
	}
	before := parts()
	w.publish(minute(5), minute(6), "x", "y")
	after := parts()
	for i, address := range before[:3] {
		if after[i] != address {
			t.Errorf("closed part %d has another address", i)
		}
	}
	w.trim(3)
	if _, err := w.get(before[0]); !errors.Is(err, ErrGone) {
		t.Errorf("a part that was trimmed: %v", err)
	}
}

// The open part of an index that grows too long ends, and never becomes an index itself: its index and its
// next page name what follows.
func TestOpenPartGrows_DOC40(t *testing.T) {
	w := newWorld(t)
	w.limits = limits{changes: 2, bytes: 1 << 20}
	for i := range 3 {
		w.publish(minute(i), minute(i+1), fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	index, err := w.get(w.url(topic, paramAfter, earliest))
	if err != nil {
		t.Fatal(err)
	}
	var last string
	for e, err := range resourcesync.NewReader(index.Body, resourcesync.ReadOptions{Strict: true}).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Loc
	}
	rec, err := w.get(last)
	w.want(rec, err, "a2 b2", minute(2), open)
	w.publish(minute(3), minute(4), "a3", "b3")
	rec, err = w.get(last)
	w.want(rec, err, "a2 b2", minute(2), minute(3))
	if got := rec.Header().Get(HeaderUntil); got != "2026-01-02T00:03:00Z" {
		t.Errorf("%s is %s", HeaderUntil, got)
	}
	next, _, _ := strings.Cut(strings.TrimPrefix(rec.Header().Get("Link"), "<"), ">")
	rec, err = w.get(next)
	w.want(rec, err, "a3 b3", minute(3), open)
}

// Every document that the hub makes passes its own strict check, and agrees with the one that lists it
// (DOC-30, DOC-32, DOC-39, DOC-40), however its reader wrote the question.
func TestDocumentsPassTheStrictCheck_DOC40(t *testing.T) {
	w := newWorld(t)
	w.limits = limits{changes: 3, bytes: 1 << 20}
	for i := range 5 {
		w.publish(minute(i), minute(i+1), fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
	}
	hub := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		rec, err := w.get(r.URL.String()) //nolint:contextcheck // the question has that of the test
		if err != nil {
			http.Error(to, err.Error(), http.StatusBadRequest)
			return
		}
		maps.Copy(to.Header(), rec.Header())
		_, _ = to.Write(rec.Body.Bytes())
	}))
	defer hub.Close()
	w.o.HubURL = hub.URL + "/"
	for question, documents := range map[string]int{
		"since=2026-01-02T00:01:00Z&hub.topic=" + topic:                           5,
		w.url(topic, paramSince, "2026-01-02T00:01:00Z")[len(w.o.HubURL)+1:]:      5,
		w.url(topic, paramAfter, earliest)[len(w.o.HubURL)+1:]:                    6,
		w.url(topic, paramSince, "2026-01-02T00:04:30Z")[len(w.o.HubURL)+1:]:      1,
		w.url(topic, paramSince, "2026-01-02T00:05:00Z")[len(w.o.HubURL)+1:]:      1,
		w.url(topic, paramDescribe, "capabilitylist")[len(w.o.HubURL)+1:]:         7,
		w.url(topic, paramDescribe, resourcesync.Description)[len(w.o.HubURL)+1:]: 8,
	} {
		n := 0
		valid, err := examine.CheckDocument(t.Context(), w.o.HubURL+"?"+question, examine.Options{Client: hub.Client(), Strict: true, Follow: true}, func(d *examine.Document) error {
			n++
			for _, f := range d.Findings {
				t.Errorf("%s: %s: %s", question, d.File, f.Message)
			}
			return nil
		})
		if !valid || err != nil || n != documents {
			t.Errorf("%s: valid %t, %v, with %d documents, want %d", question, valid, err, n, documents)
		}
	}
}

// A notification whose body is damaged is a gap at the second time: the first answer was under
// way, and broke off.
func TestDamagedBodyIsAGap(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	bad := w.publish(minute(10), minute(20), "b")
	w.publish(minute(20), minute(30), "c")
	w.o.Journal = damagedReader{w.store, bad.ID.String()}
	log, lines := observer.New(zap.WarnLevel)
	w.o.Log = zap.New(log)
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				t.Error("the answer was not broken off")
			}
		}()
		_, _ = w.since(minute(0))
	}()
	if all := lines.All(); len(all) != 1 || all[0].ContextMap()["event"] != "history_failed" || all[0].ContextMap()["topic"] != topic {
		t.Errorf("logged %+v", all)
	}
	rec, err := w.since(minute(0))
	const gap = "2026-01-02T00:10:00Z/2026-01-02T00:20:00Z"
	w.want(rec, err, "a", minute(0), minute(10), gap)
	next, _, _ := strings.Cut(strings.TrimPrefix(rec.Header().Get("Link"), "<"), ">")
	rec, err = w.get(next)
	w.want(rec, err, "c", minute(20), open, gap)
}

// damagedReader has one entry whose body cannot be read.
type damagedReader struct {
	*storetest.Memory
	id string
}

func (d damagedReader) Read(ctx context.Context, topic string, after journal.Anchor, most int, maxBytes int64) ([]journal.Entry, error) {
	entries, err := d.Memory.Read(ctx, topic, after, most, maxBytes)
	for i := range entries {
		if entries[i].ID.String() != d.id || maxBytes == 0 {
			continue
		}
		if i == 0 {
			return nil, entries[i].Damaged(errors.New("as the test has it"))
		}
		return entries[:i], err
	}
	return entries, err
}

// A notification that the hub accepted is in its Change List, however odd: with more links than readers
// accept by themselves, and attributes of many namespaces.
func TestOddNotificationsAreWhole(t *testing.T) {
	w := newWorld(t)
	from, until := resourcesync.FormatDatetime(minute(0)), resourcesync.FormatDatetime(minute(10))
	body := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:r="http://www.openarchives.org/rs/terms/"><r:md capability="change-notification" from="` + from + `" until="` + until + `"/><url><loc>https://example.org/a</loc><r:md change="updated"`
	for i := range 15 {
		body += fmt.Sprintf(` xmlns:n%d="https://n.example/%d" n%d:a="1"`, i, i, i)
	}
	body += "/>" + strings.Repeat(`<r:ln rel="via" href="https://x.example/"/>`, 1500) + "</url></urlset>"
	if _, err := resourcesync.CheckNotification(strings.NewReader(body), resourcesync.Limits{}); err != nil {
		t.Fatal(err) // the hub would not accept it
	}
	w.append(journal.Entry{From: minute(0), Until: minute(10), Kind: journal.KindChange, Counts: journal.Counts{Updated: 1}, Body: []byte(body)})
	rec, err := w.since(minute(0))
	if err != nil || strings.Count(rec.Body.String(), "<rs:ln rel=\"via\"") != 1500 || strings.Count(rec.Body.String(), "https://n.example/") != 15 {
		t.Errorf("%v, %d bytes", err, rec.Body.Len())
	}
}

// After a reset a topic still has its changes.
func TestResetTopicHasChanges(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	w.reset()
	rec, err := w.since(minute(0))
	w.want(rec, err, "a", minute(0), open)
}

// A closed part is what it was, or nothing.
func TestClosedPartIsNeverAnother(t *testing.T) {
	w := newWorld(t)
	a := w.publish(minute(0), minute(10), "a")
	b := w.publish(minute(10), minute(20), "b")
	lost := b.Anchor()
	lost.Nonce++ // as after a failover
	for _, to := range []journal.Anchor{lost, {Position: b.Position + 5, Nonce: 1}} {
		if _, err := w.get(w.url(topic, paramAfter, PositionOf(topic, a.Anchor()).String(), paramTo, PositionOf(topic, to).String())); !errors.Is(err, ErrGone) {
			t.Errorf("%v", err)
		}
	}
	var wrong *QueryError
	if _, err := w.get(w.url(topic, paramAfter, PositionOf(topic, a.Anchor()).String(), paramTo, PositionOf("x", b.Anchor()).String())); !errors.As(err, &wrong) {
		t.Errorf("another topic: %v", err)
	}
	if _, err := w.get(w.url(topic, paramAfter, PositionOf(topic, a.Anchor()).String(), paramTo, PositionOf(topic, b.Anchor()).String())); err != nil {
		t.Errorf("%v", err)
	}
}

// Documents come as they were published, with ranges.
func TestDocument(t *testing.T) {
	w := newWorld(t)
	e := w.publish(minute(0), minute(10), "a")
	newest := w.publish(minute(10), minute(20), "b")
	for address, want := range map[string]journal.Entry{w.url(topic, paramID, e.ID.String()): e, w.url(topic, paramLatest, ""): newest} {
		rec, err := w.get(address)
		if err != nil || !bytes.Equal(rec.Body.Bytes(), want.Body) || rec.Header().Get("Content-Type") != "application/xml" || rec.Header().Get("Webhook-Id") != want.ID.String() {
			t.Errorf("%s: %v, %v", address, rec, err)
		}
	}
	rec, err := w.get(w.url(topic, paramID, e.ID.String()), "Range", "bytes=1-6")
	if err != nil || rec.Code != http.StatusPartialContent || rec.Body.String() != "urlset" {
		t.Errorf("a range: %v, %v", rec, err)
	}
	const unknown = "0190163d-8694-739b-aea5-966c26f8ad91"
	if _, err := w.get(w.url(topic, paramID, unknown)); !isUnknown(err, topic, uuid.MustParse(unknown)) {
		t.Errorf("an unknown id: %v", err)
	}
	if _, err := w.get(w.url("https://other.example/", paramID, e.ID.String())); !isUnknown(err, "https://other.example/", uuid.Nil) {
		t.Errorf("of another topic: %v", err)
	}
}

// A topic of plain content has a last document, and no changes.
func TestContentHasNoChanges(t *testing.T) {
	w := newWorld(t)
	w.append(journal.Entry{Kind: journal.KindContent, MediaType: "text/html", Body: []byte("<script>")})
	if _, err := w.since(minute(0)); !errors.Is(err, ErrNoChanges) {
		t.Errorf("%v", err)
	}
	w.reset() // its kind is open, and there is still no time at which a Change List could begin
	for _, address := range []string{w.url(topic, paramAfter, earliest), w.url(topic, paramSince, "2026"), w.url(topic, paramAfter, PositionOf(topic, journal.Anchor{}).String())} {
		if _, err := w.get(address); !errors.Is(err, ErrNoChanges) {
			t.Errorf("%s: %v", address, err)
		}
	}
	rec, err := w.get(w.url(topic, paramLatest, ""))
	if err != nil || rec.Body.String() != "<script>" || !strings.Contains(rec.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v, %v", rec, err)
	}
}

// The hub's own Capability List leads to the changes and to the channel.
func TestDescribe(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	rec, err := w.since(minute(0))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := w.list(rec)
	up, _ := h.Link("up")
	for _, want := range []string{resourcesync.CapabilityList, resourcesync.Description} {
		if rec, err = w.get(up.Href); err != nil {
			t.Fatal(err)
		}
		if h, _ = w.list(rec); h.Capability != want {
			t.Errorf("%s is a %s, want a %s", up.Href, h.Capability, want)
		}
		up, _ = h.Link("up")
	}
}

// An answer that a reader has is not written again, compressed or not.
func TestConditional(t *testing.T) {
	w := newWorld(t)
	w.publish(minute(0), minute(10), "a")
	address := w.url(topic, paramSince, minute(0).Format(time.RFC3339))
	plain, err := w.get(address)
	packed, err2 := w.get(address, "Accept-Encoding", "gzip")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(z); !bytes.Equal(got, plain.Body.Bytes()) {
		t.Errorf("compressed it is %s", got)
	}
	tag := plain.Header().Get("ETag")
	if tag == "" || tag == packed.Header().Get("ETag") {
		t.Errorf("the tags are %s and %s", tag, packed.Header().Get("ETag"))
	}
	rec, err := w.get(address, "If-None-Match", tag)
	if err != nil || rec.Code != http.StatusNotModified || rec.Body.Len() > 0 {
		t.Errorf("%v, %v", rec, err)
	}
	w.publish(minute(10), minute(20), "b")
	if rec, err = w.get(address, "If-None-Match", tag); err != nil || rec.Code != http.StatusOK {
		t.Errorf("after a publish: %v, %v", rec, err)
	}
}

// Answers are counted by requester and in all.
func TestAnswersAreBounded(t *testing.T) {
	w := newWorld(t)
	var done []func()
	for i := range 10 {
		f, err := w.begin(fmt.Sprint(i / 3))
		var busy *BusyError
		switch {
		case i%3 == 2 && i < 9:
			if !errors.As(err, &busy) || !busy.Yours {
				t.Errorf("%d: %v", i, err)
			}
		case i == 9:
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		case err != nil:
			t.Errorf("%d: %v", i, err)
		}
		if f != nil {
			done = append(done, f.end)
		}
	}
	for _, name := range []string{"a", "b"} {
		if f, err := w.begin(name); err == nil {
			done = append(done, f.end)
		}
	}
	var busy *BusyError
	if _, err := w.begin("c"); !errors.As(err, &busy) || busy.Yours {
		t.Errorf("the ninth: %v", err)
	}
	for _, f := range done {
		f()
	}
	if w.answering.all != 0 || len(w.answering.each) != 0 {
		t.Errorf("%d answers are left, %v", w.answering.all, w.answering.each)
	}
}

// many names n topics.
func many(n int) (query string) {
	for i := range n {
		query += fmt.Sprintf("hub.topic=%d&", i)
	}
	return query
}

func TestParseQuery(t *testing.T) {
	at := PositionOf(topic, journal.Anchor{Position: 1}).String()
	for query, param := range map[string]string{
		"hub.topic=": "hub.topic", "hub.topic=a&since=yesterday": "since", "hub.topic=a&since=2026&since=2027": "since",
		"hub.topic=a&after=x": "after", "hub.topic=a&to=" + at: "to", "hub.topic=a&id=1": "id", "hub.topic=a&form=x": "form",
		"hub.topic=a&since=0001-01-01T00:00:00Z": "since", "hub.topic=a&after=0001-01-01T01:00:00%2B01:00": "after", "hub.topic=a&id=00000000-0000-0000-0000-000000000000": "id",
		"hub.topic=a&since=2026&latest": "latest", "hub.topic=a&describe=x": "describe", "hub.topic=a&after=" + at + "&to=y": "to",
		"hub.topic=a&latest=false": "latest", "hub.topic=a&latest=0": "latest", "hub.topic=a&after=earliest&latest=no": "latest",
		strings.Repeat("hub.topic=a&", 33) + many(33):                                            "hub.topic",
		"hub.topic=a&since=2026&index=" + url.QueryEscape("hub.topic=a&since=2026"):              "index",
		"hub.topic=a&after=" + at + "&index=" + url.QueryEscape("hub.topic=b&since=2026"):        "index",
		"hub.topic=a&after=" + at + "&index=" + url.QueryEscape("hub.topic=a&latest"):            "index",
		"hub.topic=a&after=" + at + "&index=" + url.QueryEscape("hub.topic=a&since=2026&\n"):     "index",
		"hub.topic=a&after=" + at + "&index=" + url.QueryEscape("hub.topic=a&since=2026&index="): "index",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseQuery(values)
		var wrong *QueryError
		if !errors.As(err, &wrong) || wrong.Param != param {
			t.Errorf("%s: %v", query, err)
		}
	}
	// Of several mistakes it names the same one each time.
	for range 20 {
		values, _ := url.ParseQuery("hub.topic=a&form=x&id=1&describe=x&after=x&since=x&latest&latest")
		var wrong *QueryError
		if _, err := ParseQuery(values); !errors.As(err, &wrong) || wrong.Param != "since" {
			t.Fatal(err)
		}
	}
	for _, value := range []string{"", "=", "=1", "=true"} {
		values, _ := url.ParseQuery("hub.topic=a&latest" + value)
		if q, err := ParseQuery(values); err != nil || !q.Latest {
			t.Errorf("latest%s: %+v, %v", value, q, err)
		}
	}
	values, _ := url.ParseQuery("hub.topic=a&hub.topic=b&after=" + at + "&form=meta")
	if q, err := ParseQuery(values); err != nil || len(q.Topics) != 2 || !q.Meta || q.After == nil {
		t.Errorf("%+v, %v", q, err)
	}
}
