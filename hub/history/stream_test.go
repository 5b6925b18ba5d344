package history

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/pipes"
)

// said is one event as a reader has it.
type said struct{ name, data, id string }

// tail is a reader of a stream over a real server on a pipe.
type tail struct {
	t      *testing.T
	cancel context.CancelFunc
	events chan said
	status int
	retry  string

	mu    sync.Mutex
	beats []time.Time
}

// serve serves the service on a listener without a network.
func (w *world) serve() *http.Client {
	mux := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q, err := ParseQuery(r.URL.Query())
		from := Reader{Name: cmp.Or(r.Header.Get("X-From"), "192.0.2.1"), Address: "192.0.2.1", Charge: w.charge, Allowed: w.allowed}
		switch {
		case err != nil:
		case r.URL.Query().Has(paramSince):
			err = w.Changes(rw, r, q, from)
		case q.Latest, q.ID != [16]byte{}:
			err = w.Document(rw, r, q, from)
		default:
			err = w.Stream(rw, r, q, from)
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusTeapot)
		}
	})
	l := pipes.Listen()
	server := &http.Server{Handler: mux, ReadTimeout: 25 * time.Second}
	go func() { _ = server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial(), nil }}}
	w.t.Cleanup(func() {
		_ = server.Close()
		client.CloseIdleConnections()
	})
	return client
}

// follow opens a stream. Events that nobody receives wait.
func (w *world) follow(c *http.Client, lastEventID string, params ...string) *tail {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	tl := &tail{t: w.t, cancel: cancel, events: make(chan said, 10_000)}
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub.example/"+strings.TrimPrefix(w.url(topic, params...), "https://hub.example/"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := c.Do(req) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		w.t.Fatal(err)
	}
	tl.status = resp.StatusCode
	go func() {
		defer close(tl.events)
		defer resp.Body.Close() //nolint:errcheck // it was only read
		var e said
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "id":
				e.id = value
			case ":":
				tl.mu.Lock()
				tl.beats = append(tl.beats, time.Now())
				tl.mu.Unlock()
			case "retry":
				tl.retry = value
			case "":
				if e != (said{}) {
					tl.events <- e
				}
				e = said{}
			}
		}
	}()
	return tl
}

// next returns the next event that has data, and every id on the way.
func (tl *tail) next() said {
	tl.t.Helper()
	for {
		select {
		case e, ok := <-tl.events:
			if !ok {
				tl.t.Fatal("the stream ended")
			}
			if e.name != "" {
				return e
			}
		case <-time.After(2 * beat):
			tl.t.Fatal("no event came")
		}
	}
}

// wantNotification checks that the next event is a notification, byte for byte.
func (tl *tail) wantNotification(want journal.Entry) said {
	tl.t.Helper()
	e := tl.next()
	var n Notification
	if err := json.Unmarshal([]byte(e.data), &n); err != nil {
		tl.t.Fatal(err)
	}
	body := n.DocumentBase64
	if n.Document != nil {
		body = []byte(*n.Document)
	}
	if e.name != NameNotification || n.ID != want.ID.String() || n.Topic != topic || string(body) != string(want.Body) || n.Size != want.Size || n.ContentType != want.MediaType {
		tl.t.Errorf("%s %s, want %v with %s", e.name, e.data, want.ID, want.Body)
	}
	return e
}

func (tl *tail) wantGap(from, until time.Time, reason string) said {
	tl.t.Helper()
	e := tl.next()
	var g GapEvent
	if err := json.Unmarshal([]byte(e.data), &g); err != nil {
		tl.t.Fatal(err)
	}
	at := func(p *time.Time) time.Time {
		if p == nil {
			return time.Time{}
		}
		return *p
	}
	if e.name != NameGap || !at(g.From).Equal(from) || !at(g.Until).Equal(until) || g.Reason != reason {
		tl.t.Errorf("%s %s, want a gap from %v until %v by %s", e.name, e.data, from, until, reason)
	}
	return e
}

// inStream runs a test of streams in virtual time.
func inStream(t *testing.T, f func(w *world, c *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.serve()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait() // Run hears the hints of the journal from here on
		f(w, c)
		cancel()
		<-done
	})
}

// A stream begins with what comes next, goes on with each publish at once, and resumes where its
// reader was.
func TestStream(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		tl := w.follow(c, "")
		first := <-tl.events
		if first.name != "" || first.id != PositionOf(topic, a.Anchor()).String() {
			t.Errorf("it begins with %v", first)
		}
		b := w.publish(minute(10), minute(20), "b")
		began := time.Now()
		e := tl.wantNotification(b)
		if d := time.Since(began); d != 0 {
			t.Errorf("it came after %v", d)
		}
		if e.id != PositionOf(topic, b.Anchor()).String() {
			t.Errorf("its id is %s", e.id)
		}
		tl.cancel()
		d := w.publish(minute(20), minute(30), "c")
		for _, tl := range []*tail{w.follow(c, e.id), w.follow(c, "", paramAfter, e.id), w.follow(c, "", paramAfter, minute(20).Format(time.RFC3339))} {
			tl.wantNotification(d)
		}
		tl = w.follow(c, "", paramAfter, earliest)
		for _, e := range []journal.Entry{a, b, d} {
			tl.wantNotification(e)
		}
		// Last-Event-ID wins, since a browser sends it with the address it began with.
		w.follow(c, e.id, paramAfter, earliest).wantNotification(d)
	})
}

// A reader that hears nothing still has a heartbeat, beyond every limit of the listener.
func TestHeartbeat(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		tl := w.follow(c, "")
		time.Sleep(time.Hour)
		tl.wantNotification(w.publish(minute(10), minute(20), "b"))
	})
}

// Streams say that they are there at least every 15 s, and together, whenever they began.
func TestStreamsBeatTogether(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		began := time.Now()
		one := w.follow(c, "")
		time.Sleep(300 * time.Millisecond)
		other := w.follow(c, "")
		time.Sleep(time.Minute)
		for _, tl := range []*tail{one, other} {
			tl.mu.Lock()
			defer tl.mu.Unlock()
		}
		if len(one.beats) < 4 || !slices.Equal(one.beats, other.beats) {
			t.Errorf("one says that it is there at %v, the other at %v", one.beats, other.beats)
		}
		for _, at := range one.beats {
			if at.Sub(began) > beat {
				t.Errorf("silence of %v", at.Sub(began))
			}
			began = at
		}
	})
}

// A stream that begins shows the others what no hint said.
func TestStreamAfterALostHint(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		one := w.follow(c, "")
		time.Sleep(time.Second)
		began := time.Now()
		w.mute.Store(true)
		w.publish(minute(10), minute(20), "b")
		other := w.follow(c, "", paramAfter, earliest)
		other.next()
		b := other.next()
		if got := one.next(); got.data != b.data || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

// What a reader can't have is a gap, and the stream goes on behind it.
func TestStreamTellsGaps(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		w.publish(minute(10), minute(20), "b")
		w.trim(2)
		d := w.publish(minute(20), minute(30), "c")
		tl := w.follow(c, PositionOf(topic, a.Anchor()).String())
		tl.wantGap(minute(10), minute(20), journal.GapRetention)
		tl.wantNotification(d)
		e := w.publish(minute(35), minute(40), "e")
		gap := tl.wantGap(minute(30), minute(35), journal.GapSource)
		tl.wantNotification(e)
		// A reader that broke off between the two hears of it again.
		tl = w.follow(c, gap.id)
		tl.wantGap(minute(30), minute(35), journal.GapSource)
		tl.wantNotification(e)
		w.reset()
		f := w.publish(minute(5), minute(6), "f")
		tl.wantGap(minute(40), minute(5), journal.GapReset)
		tl.wantNotification(f)
	})
}

// A position that this journal never gave out is a gap, and what follows comes again.
func TestStreamOfALostTail(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		lost := a.Anchor()
		lost.Position, lost.Nonce, lost.Until = lost.Position+5, 7, minute(20)
		gap := journal.Gap{From: minute(10), Until: minute(20), Reason: journal.GapRolledBack, Position: lost.Position + 1, After: a.Anchor()}
		if err := w.store.RecordGap(w.t.Context(), topic, gap); err != nil {
			t.Fatal(err)
		}
		tl := w.follow(c, PositionOf(topic, lost).String())
		tl.wantGap(minute(10), minute(20), journal.GapRolledBack)
		tl.wantNotification(w.publish(minute(10), minute(20), "b"))
		// A text of somebody else's, too.
		tl = w.follow(c, "41")
		if e := tl.next(); e.name != NameGap {
			t.Errorf("%v", e)
		}
		tl.wantNotification(a)
	})
}

// Bytes that are no UTF-8 come as base64, and long documents as an address.
func TestFormsOfEvents(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		head := journal.Entry{Kind: journal.KindContent, MediaType: "application/octet-stream"}
		odd, long, exact := head, head, head
		odd.Body = []byte("\xff\x00\n<&>\u2028")
		exact.Body = []byte("line\nline\r\n<&>\u2028\u0000 end")
		long.Body = []byte(strings.Repeat("x", mostInline+1))
		odd, exact, long = w.append(odd), w.append(exact), w.append(long)
		tl, meta := w.follow(c, "", paramAfter, earliest), w.follow(c, "", paramAfter, earliest, paramForm, "meta")
		tl.wantNotification(odd)
		tl.wantNotification(exact)
		var n Notification
		if err := json.Unmarshal([]byte(tl.next().data), &n); err != nil || n.Document != nil || n.URL != w.url(topic, paramID, long.ID.String()) {
			t.Errorf("%+v, %v", n, err)
		}
		n = Notification{}
		if err := json.Unmarshal([]byte(meta.next().data), &n); err != nil || n.Document != nil || n.DocumentBase64 != nil || n.URL != w.url(topic, paramID, odd.ID.String()) {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// A stream ends within a beat after its reader lost the right to it, whenever it began.
func TestDeniedReader(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		var denied atomic.Bool
		w.allowed = func() bool { return !denied.Load() }
		time.Sleep(300 * time.Millisecond)
		for _, after := range []time.Duration{time.Second, time.Minute} {
			tl := w.follow(c, "")
			time.Sleep(after)
			denied.Store(true)
			time.Sleep(beat)
			synctest.Wait()
			if s := w.Stats(); s.Open != 0 || s.Ended[EndDenied] == 0 {
				t.Errorf("%+v, %v after a stream of %v lost its right", s, beat, after)
			}
			tl.cancel()
			denied.Store(false)
			time.Sleep(2 * beat)
		}
	})
}

// Streams are bounded in all and for each address, and end when the hub drains: with a time
// after which to come again.
func TestStreamsAreBounded(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		w.o.MaxStreams, w.o.MaxStreamsEach = 5, 3
		var tails []*tail
		for i := range 4 {
			tl := w.follow(c, "")
			if want := map[bool]int{true: http.StatusOK, false: http.StatusTeapot}[i < 3]; tl.status != want {
				t.Errorf("stream %d: %d", i, tl.status)
			}
			tails = append(tails, tl)
		}
		tails[0].cancel()
		synctest.Wait()
		if n := w.Stats().Open; n != 2 {
			t.Errorf("%d streams are left", n)
		}
		w.Drain()
		synctest.Wait()
		for range tails[1].events {
		}
		if n := w.Stats().Open; n != 0 || tails[1].retry == "" || tails[1].retry == "2000" {
			t.Errorf("%d streams are left, retry: %s", n, tails[1].retry)
		}
		rec := httptest.NewRecorder()
		err := w.Stream(rec, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/", nil), Query{Topics: []string{topic}}, Reader{})
		if err != nil || rec.Code != http.StatusOK || !strings.HasPrefix(rec.Body.String(), "retry: ") { // a status would end a browser for good
			t.Errorf("%v, %v", err, rec)
		}
	})
}

// A reader of which nothing is taken is ended, and costs the others nothing.
func TestStalledReader(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		address := "http://hub.example/?hub.topic=" + url.QueryEscape(topic)
		req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodGet, address, nil)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was never read
		tl := w.follow(c, "")
		synctest.Wait()
		for i := range 100 {
			tl.wantNotification(w.publish(minute(10+i), minute(11+i), strings.Repeat("b", 900)))
		}
		time.Sleep(2 * w.o.Stall)
		if n := w.Stats().Open; n != 1 {
			t.Errorf("%d streams", n)
		}
	})
}

// A reader that is slow and steady gets a long answer whole; one that takes next to nothing does not.
func TestSlowReaderOfALongAnswer(t *testing.T) {
	for pause, whole := range map[time.Duration]bool{60 * time.Millisecond: true, 10 * time.Second: false} {
		inStream(t, func(w *world, c *http.Client) {
			names := make([]string, 1000)
			for i := range names {
				names[i] = fmt.Sprintf("%d-%s", i, strings.Repeat("x", 1000))
			}
			for i := range 5 {
				w.publish(minute(i), minute(i+1), names...)
			}
			req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://hub.example/?since="+minute(0).Format(time.RFC3339)+"&hub.topic="+url.QueryEscape(topic), nil)
			req.Header.Set("Accept-Encoding", "identity")
			resp, err := c.Do(req)
			if err != nil {
				w.t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it was only read
			began, end, buf := time.Now(), "", make([]byte, 32<<10)
			for n := 0; err == nil; {
				time.Sleep(pause)
				n, err = resp.Body.Read(buf)
				end = (end + string(buf[:n]))[max(len(end)+n-20, 0):]
			}
			if got := errors.Is(err, io.EOF) && strings.HasSuffix(end, "</urlset>\n"); got != whole || whole && time.Since(began) < 30*time.Second {
				w.t.Errorf("pause %v: whole: %t, %v after %v", pause, got, err, time.Since(began))
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := w.answering.all; !whole && n != 0 {
				w.t.Errorf("%d answers after %v", n, time.Since(began))
			}
		})
	}
}

// A reader of several topics resumes in each, whatever the order in which it names them.
func TestSeveralTopics(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		const other = "https://example.org/other/"
		publish := func(topic string, body string) journal.Entry {
			head, err := w.store.Head(w.t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(time.Second)
			e, err := w.store.Append(w.t.Context(), w.now, topic, journal.Entry{Kind: journal.KindContent, Body: []byte(body)}, head.Version)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		publish(topic, "0")
		publish(other, "0")
		tl := w.follow(c, "", paramTopic, other)
		synctest.Wait()
		publish(topic, "a")
		tl.next()
		publish(other, "b")
		last := tl.next()
		tl.cancel()
		publish(other, "c")
		publish(topic, "d")
		again := w.follow(c, last.id, paramTopic, other)
		got := map[string]bool{}
		for range 2 {
			var n Notification
			if err := json.Unmarshal([]byte(again.next().data), &n); err != nil {
				t.Fatal(err)
			}
			got[n.Topic+*n.Document] = true
		}
		if !got[topic+"d"] || !got[other+"c"] {
			t.Errorf("%v", got)
		}
	})
}

// A topic that the Last-Event-ID lacks begins where the query says, and not with what comes next.
func TestTopicThatIsAddedToAStream(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		w.publish(minute(10), minute(20), "b")
		elsewhere := PositionOf("https://example.org/other/", journal.Anchor{Position: 1}).String()
		for _, where := range [][]string{{paramAfter, earliest}, {paramAfter, minute(0).Format(time.RFC3339)}, {paramAfter, PositionOf(topic, a.Predecessor()).String()}} {
			tl := w.follow(c, elsewhere, where...)
			tl.wantNotification(a)
			tl.cancel()
		}
		tl := w.follow(c, elsewhere)
		synctest.Wait()
		tl.wantNotification(w.publish(minute(20), minute(30), "c"))
	})
}

// A store that does not answer for a while costs a stream nothing but time.
func TestStreamOutlastsItsStore(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		tl := w.follow(c, "")
		synctest.Wait()
		w.away.Store(true)
		b := w.publish(minute(10), minute(20), "b")
		time.Sleep(time.Minute)
		w.away.Store(false)
		tl.wantNotification(b)
	})
}

// A reader of an unknown position has no new one before it hears of the gap, even if the store does not
// answer at first.
func TestGapComesBeforeAPosition(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		a := w.publish(minute(0), minute(10), "a")
		w.away.Store(true)
		tl := w.follow(c, "somebody else's")
		time.Sleep(time.Minute)
		w.away.Store(false)
		if e := <-tl.events; e.name != NameGap {
			t.Errorf("the first that comes is %+v, want a gap", e)
		}
		tl.wantNotification(a)
	})
}

// Where the store lost all of a topic, and its Source sends the last notification again, only a reader who
// had that one is told of a gap.
func TestVanishedTopicIsNoEmptyGap_MEM01(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t)
		before.publish(minute(0), minute(10), "a")
		one, lost := before.publish(minute(10), minute(20), "b"), before.publish(minute(20), minute(30), "c")
		head, err := before.store.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ = journal.Head{Topic: topic}.Regain(head.Sight(journal.Sight{}), nil, minute(40))
		w := newWorld(t)
		if err := w.store.Restore(t.Context(), head, nil); err != nil {
			t.Fatal(err)
		}
		again := w.publish(minute(20), minute(30), "c")
		c := w.serve()
		w.follow(c, PositionOf(topic, one.Anchor()).String()).wantNotification(again)
		had := w.follow(c, PositionOf(topic, lost.Anchor()).String())
		had.wantGap(minute(20), minute(30), journal.GapRolledBack)
		had.wantNotification(again)
	})
}

// An entry that the journal lost after its page was read is no gap of retention: the stream waits for what the
// journal has in its place.
func TestLostBeforeItIsWritten_MEM01(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		tl := w.follow(c, "")
		synctest.Wait()
		w.mute.Store(true)
		b := w.publish(minute(10), minute(20), "b")
		w.lost.Store(uint64(b.Position))
		time.Sleep(2 * sweepEvery)
		w.lost.Store(0)
		tl.wantNotification(b)
	})
}
