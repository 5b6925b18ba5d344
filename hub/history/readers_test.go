package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// asked is an answer that nobody has read yet.
type asked struct {
	status int
	body   io.Reader
}

// ask sends a question of a requester.
func (w *world) ask(c *http.Client, from string, params ...string) asked {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://hub.example/"+strings.TrimPrefix(w.url(topic, params...), "https://hub.example/"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-From", from)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return asked{resp.StatusCode, resp.Body}
}

// whole reads an answer to its end.
func (w *world) whole(a asked) int {
	w.t.Helper()
	b, err := io.ReadAll(a.body)
	if err != nil || a.status != http.StatusOK {
		w.t.Errorf("%d, %d bytes, %v", a.status, len(b), err)
	}
	return len(b)
}

// While an answer waits for its reader, another one has its place: readers that take nothing keep
// nobody from reading.
func TestSlowReadersHaveNoPlace(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		names := slices.Repeat([]string{strings.Repeat("x", 500)}, 200)
		for i := range 5 {
			w.publish(minute(i), minute(i+1), names...)
		}
		since := minute(0).Format(time.RFC3339)
		for i := range 2 * w.o.MaxAnswers {
			w.ask(c, strconv.Itoa(i), paramSince, since)
		}
		synctest.Wait()
		began := time.Now()
		w.whole(w.ask(c, "another", paramSince, since))
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		for i := range waiting * w.o.MaxAnswers {
			w.ask(c, strconv.Itoa(100+i), paramSince, since)
		}
		if a := w.ask(c, "last", paramSince, since); a.status != http.StatusTeapot {
			t.Errorf("there is no bound: %d", a.status)
		}
	})
}

// Answers that wait for memory have no places, since an answer that has memory needs a place to go on.
func TestAnswersThatWaitForMemoryHaveNoPlace(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.memory = semaphore.NewWeighted(pageBytes)
		w.publish(minute(0), minute(1), slices.Repeat([]string{strings.Repeat("x", 500)}, 200)...)
		c.Timeout = time.Minute
		since := minute(0).Format(time.RFC3339)
		first := w.ask(c, "first", paramSince, since)
		var all sync.WaitGroup
		for i := range w.o.MaxAnswers {
			all.Go(func() { w.whole(w.ask(c, strconv.Itoa(i), paramSince, since)) })
		}
		synctest.Wait()
		began := time.Now()
		w.whole(first)
		all.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// A document is in memory once, however many read it, and a slow reader of one ends.
func TestDocumentsAreShared(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.large = newLent(3 << 20)
		big := func(name string) string {
			return w.append(journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte(strings.Repeat(name, 2<<20))}).ID.String()
		}
		one, two := big("1"), big("2")
		for i := range 20 {
			w.ask(c, strconv.Itoa(i), paramID, one)
		}
		began := time.Now()
		if n := w.whole(w.ask(c, "another", paramID, one)); n != 2<<20 || time.Since(began) != 0 {
			t.Errorf("%d bytes after %v", n, time.Since(began))
		}
		// The other one has to wait for room, until the slow readers are ended, and needs no place.
		if n := w.whole(w.ask(c, "another", paramID, two)); n != 2<<20 || time.Since(began) > time.Minute {
			t.Errorf("%d bytes after %v", n, time.Since(began))
		}
		synctest.Wait()
		if !w.large.memory.TryAcquire(w.large.most) || len(w.large.loans) != 0 {
			t.Errorf("%d loans are left", len(w.large.loans))
		}
	})
}

// errFull refuses a charge.
var errFull = errors.New("too many bytes")

// What was there before a stream is charged to its reader, who gets it when there is room. What comes
// while it goes on is not.
func TestCatchUpIsCharged(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		var before []journal.Entry
		for i := range 4 {
			before = append(before, w.publish(minute(2*i), minute(2*i+1), "a"))
		}
		var charged, most atomic.Int64
		most.Store(1800)
		w.charge = func(n int64) error {
			if charged.Load()+n > most.Load() {
				return errFull
			}
			charged.Add(n)
			return nil
		}
		tl := w.follow(c, "", paramAfter, earliest)
		tl.wantNotification(before[0])
		tl.wantGap(minute(1), minute(2), journal.GapSource)
		tl.wantNotification(before[1])
		time.Sleep(time.Minute)
		synctest.Wait()
		tl.wantGap(minute(3), minute(4), journal.GapSource) // once, however long it waits
		for drained := false; !drained; {
			select {
			case e := <-tl.events:
				if e.name != "" {
					t.Errorf("%v came though there was no room", e)
				}
			default:
				drained = true
			}
		}
		most.Store(1 << 20)
		tl.wantNotification(before[2])
		tl.wantGap(minute(5), minute(6), journal.GapSource)
		tl.wantNotification(before[3])
		if n := charged.Load(); n < before[0].Size*4 {
			t.Errorf("%d bytes were charged", n)
		}
		most.Store(0)
		tl.wantNotification(w.publish(minute(7), minute(8), "b"))
	})
}

// Readers pay for what is sent: for ranges, not for the whole document, and not for what they have.
func TestOnlyWhatIsSentIsCharged(t *testing.T) {
	w := newWorld(t)
	e := w.append(journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte(strings.Repeat("x", 1000))})
	address := w.url(topic, paramID, e.ID.String())
	var charged int64
	w.charge = func(n int64) error { charged += n; return nil }
	for _, tc := range []struct {
		header, value string
		status        int
		most          int64
	}{
		{"Range", "bytes=0-9", http.StatusPartialContent, 10},
		{"Range", "bytes=0-9,90-99", http.StatusPartialContent, 500}, // with the headers of the parts
		{"Range", "bytes=2000-", http.StatusRequestedRangeNotSatisfiable, 0},
		{"If-None-Match", `*`, http.StatusNotModified, 0},
		{"Accept", "*/*", http.StatusOK, 1000},
	} {
		charged = 0
		rec, err := w.get(address, tc.header, tc.value)
		if err != nil || rec.Code != tc.status || charged > tc.most || charged == 0 && tc.most > 0 {
			t.Errorf("%s: %s: %v, %v, %d bytes are charged", tc.header, tc.value, rec, err, charged)
		}
	}
	w.charge = func(int64) error { return errFull }
	rec, err := w.get(address, "Range", "bytes=0-9")
	if !errors.Is(err, errFull) || rec.Body.Len() != 0 || len(rec.Header()) != 0 {
		t.Errorf("%v, %v", rec, err)
	}
}

// However many streams are at the head of a topic, the store is read a few times after a notification.
func TestStreamsShareReads(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		var tails []*tail
		for range 50 {
			tails = append(tails, w.follow(c, ""))
		}
		synctest.Wait()
		w.reads.Store(0)
		b := w.publish(minute(10), minute(20), "b")
		for _, tl := range tails {
			tl.wantNotification(b)
		}
		synctest.Wait()
		if n := w.reads.Load(); n > 3 {
			t.Errorf("the store was read %d times", n)
		}
	})
}

// What an operator removed is in no stream after that, though streams had it.
func TestRemovedIsNotKept(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		b := w.publish(minute(10), minute(20), "b")
		tl := w.follow(c, "", paramAfter, earliest)
		tl.wantNotification(a)
		tl.wantNotification(b)
		w.follow(c, PositionOf(topic, a.Anchor()).String()).wantNotification(b)
		head, err := w.store.Head(t.Context(), topic)
		if err == nil {
			err = w.store.Remove(t.Context(), topic, head.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		n := w.publish(minute(30), minute(40), "new")
		synctest.Wait()
		again := w.follow(c, PositionOf(topic, a.Anchor()).String())
		if e := again.next(); e.name != NameGap {
			t.Errorf("%v, want a gap", e)
		}
		again.wantNotification(n)
	})
}

// Events count as long as they are sent, and not as long as their documents are.
func TestEventsCountAsSent(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.unread = semaphore.NewWeighted(500 << 10)
		w.append(journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte(strings.Repeat("\x01", 100<<10))}) // six bytes each in JSON
		if e := w.follow(c, "", paramAfter, earliest).next(); !strings.Contains(e.data, `"url":`) {
			t.Errorf("%d bytes", len(e.data))
		}
	})
}

// An answer tells every gap that it begins behind.
func TestEachGapIsTold_MEM01(t *testing.T) {
	w := newWorld(t)
	a := w.publish(minute(0), minute(10), "a")
	lost := a.Anchor()
	lost.Position, lost.Nonce, lost.Until = lost.Position+5, 7, minute(12)
	gap := journal.Gap{From: minute(10), Until: minute(12), Reason: journal.GapRolledBack, Position: lost.Position + 1, After: a.Anchor()}
	if err := w.store.RecordGap(t.Context(), topic, gap); err != nil {
		t.Fatal(err)
	}
	w.publish(minute(15), minute(20), "b")
	rec, err := w.get(w.url(topic, paramAfter, PositionOf(topic, lost).String()))
	w.want(rec, err, "b", minute(15), time.Time{}, "2026-01-02T00:10:00Z/2026-01-02T00:12:00Z", "2026-01-02T00:10:00Z/2026-01-02T00:15:00Z")
}

// oneBody is a journal in which all entries have the same body.
type oneBody struct {
	journal.Reader
	body []byte
}

func (j oneBody) Body(context.Context, string, journal.Entry) ([]byte, error) { return j.body, nil }

// heapNow is the memory of what is in use, in bytes.
func heapNow() int {
	runtime.GC()
	runtime.GC() // what is pooled lives for one more
	var n runtime.MemStats
	runtime.ReadMemStats(&n)
	return int(n.HeapAlloc)
}

// What is kept of events takes no more memory than it may, with the keys and the room behind the texts.
func TestEventsHaveTheirMemory(t *testing.T) {
	for _, size := range []int{10, 800, 5000} {
		w := newWorld(t)
		w.o.Journal = oneBody{w.o.Journal, bytes.Repeat([]byte("a"), size)}
		before, most := heapNow(), w.events.most
		for n := range 2 * most / (size + 500) {
			e := journal.Entry{Position: journal.Position(n), MediaType: "text/plain", Size: int64(size)}
			if _, err := w.event(t.Context(), topic, &e, false); err != nil {
				t.Fatal(err)
			}
		}
		if kept := heapNow() - before; kept < most/2 || kept > most+most/8 {
			t.Errorf("of events of %d bytes, %d KiB are kept, and may be %d", size, kept>>10, most>>10)
		}
		runtime.KeepAlive(w)
	}
}

// The same holds for pages of entries, whatever links a publisher gives them and however long its topics are.
func TestPagesHaveTheirMemory(t *testing.T) {
	for _, tt := range []struct{ entries, links, topic int }{{0, 0, 10}, {0, 0, 2000}, {1, 4, 10}, {9, 0, 10}, {9, 4, 100}} {
		w := newWorld(t)
		before, known := heapNow(), w.pages.known
		for n, made := 0, 0; made < known.most*3/2; n++ {
			key := pageKey{topic: fmt.Sprint(n, strings.Repeat("t", tt.topic))}
			p, err := known.get(t.Context(), key, func() (p page, err error) {
				for range tt.entries {
					e := journal.Entry{MediaType: fmt.Sprint("text/", n)}
					for range tt.links {
						e.Links = append(e.Links, fmt.Sprint(n, strings.Repeat("l", 2000)))
					}
					p.entries = append(p.entries, e)
				}
				return p, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			made += resultBytes + tt.topic + p.bytes()
		}
		if kept := heapNow() - before; kept < known.most/2 || kept > known.most+known.most/6 {
			t.Errorf("of pages with %+v, %d KiB are kept, and may be %d", tt, kept>>10, known.most>>10)
		}
		runtime.KeepAlive(w)
	}
}

// Where making a result panics, those who wait for it make it by themselves, and so do later ones.
func TestResultsOutlastAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShared(1<<20, func(_, v int) int { return v })
		w := newWorld(t)
		e := w.publish(minute(0), minute(1), "a")
		lent := func(read func() ([]byte, error)) (string, error) {
			turn, err := w.begin("x")
			if err != nil {
				return "", err
			}
			defer turn.end()
			b, free, err := w.large.get(t.Context(), turn, &e, read)
			if err == nil {
				free()
			}
			return string(b), err
		}
		begun := make(chan struct{})
		panics := func() {
			close(begun)
			time.Sleep(time.Second)
			panic("oops")
		}
		for _, tt := range []struct{ fail, get func() }{
			{func() { _, _ = c.get(t.Context(), 1, func() (int, error) { panics(); return 0, nil }) }, func() {
				if v, err := c.get(t.Context(), 1, func() (int, error) { return 7, nil }); v != 7 || err != nil {
					t.Errorf("shared: %d, %v", v, err)
				}
			}},
			{func() { _, _ = lent(func() ([]byte, error) { panics(); return nil, nil }) }, func() {
				if b, err := lent(func() ([]byte, error) { return []byte("b"), nil }); b != "b" || err != nil {
					t.Errorf("lent: %q, %v", b, err)
				}
			}},
		} {
			begun = make(chan struct{})
			go func() {
				defer func() { _ = recover() }()
				tt.fail()
			}()
			<-begun
			tt.get()
			tt.get()
		}
		if !w.large.memory.TryAcquire(w.large.most) || len(w.large.loans) != 0 {
			t.Errorf("%d loans are left", len(w.large.loans))
		}
	})
}

// What is counted is what is kept, even if a result takes so long that it is removed before it is there, or is the
// oldest itself, or fails. One that is larger than all may be removes no other.
func TestSharedCountsWhatItKeeps(t *testing.T) {
	const most = 20 * (resultBytes + 100)
	c := newShared(most, func(_, v int) int { return v })
	get := func(key, size int, during func() error) {
		_, _ = c.get(t.Context(), key, func() (int, error) { return size, during() })
	}
	none := func() error { return nil }
	for round := range 50 {
		slow := 1000 * (round + 1)
		get(slow, 150, func() error {
			for n := range 1 + round {
				get(slow+1+n, 100, none)
			}
			return nil
		})
		get(slow+900, 100, func() error { return errors.New("it fails") })
		get(slow+901, 2*most, none)
		sum := 0
		for _, r := range c.lru.Values() {
			sum += resultBytes + r.v
		}
		if sum != c.bytes || round > 25 && sum < most*3/4 {
			t.Fatalf("round %d: it counts %d bytes and keeps %d, and %d may be", round, c.bytes, sum, most)
		}
	}
}

// New refuses options that a Service cannot do without.
func TestNewNeedsItsOptions(t *testing.T) {
	store := storetest.NewMemory()
	for name, o := range map[string]Options{
		"HubURL":  {Journal: store, Watcher: store},
		"Journal": {HubURL: "https://hub.example/", Watcher: store},
		"Watcher": {HubURL: "https://hub.example/", Journal: store},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
