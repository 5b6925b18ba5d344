package subscriber

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/draws"
	"github.com/rshub/rshub/websub"
)

// streamHub is a hub with a stream, within a synctest bubble. Positions are numbers of events.
type streamHub struct {
	*lab
	mu       sync.Mutex
	events   []string // without their ids
	docs     map[string][]byte
	bell     chan struct{} // closed when there is another event
	open     []*io.PipeWriter
	asked    []string // how streams were asked for: "after=..." or "last=..."
	at       []time.Time
	silent   bool
	answer   func(*http.Request) *http.Response // in place of a stream; nil: a stream
	sinceXML []byte                             // the answer to changes since; nil: 404
}

// withStream has a lab read the stream of a hub.
func withStream(change func(*lab)) (*streamHub, func(*lab)) {
	h := &streamHub{docs: map[string][]byte{}}
	return h, func(l *lab) {
		h.lab, h.bell = l, make(chan struct{}) // within the bubble
		l.o.Callback, l.o.Via, l.o.StreamClient, l.o.Start = "", ViaStream, h, l.from
		if change != nil {
			change(l)
		}
		l.Cleanup(func() { h.breakAll(io.EOF) })
	}
}

func answered(status int, mediaType, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(strings.NewReader(body))}
}

func (h *streamHub) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		return h.lab.Do(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	q := r.URL.Query()
	if r.Header.Get("Accept") == "*/*" {
		if doc := h.docs[q.Get("id")]; doc != nil {
			return answered(200, "application/xml", string(doc)), nil
		}
		return answered(410, "text/plain", "it is gone"), nil
	}
	if q.Has("since") {
		h.asked = append(h.asked, "since")
		if h.sinceXML == nil {
			return answered(404, "text/plain", "no history"), nil
		}
		return answered(200, "application/xml", string(h.sinceXML)), nil
	}
	last := r.Header.Get("Last-Event-ID")
	if last != "" {
		h.asked = append(h.asked, "last="+last)
	} else {
		h.asked = append(h.asked, "after="+q.Get("after"))
	}
	h.at = append(h.at, time.Now())
	if h.answer != nil {
		if resp := h.answer(r); resp != nil {
			return resp, nil
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(last, "p"))
	if err != nil {
		if n = len(h.events); q.Has("after") {
			n = 0 // what was published before Start comes again
		}
	}
	in, out := io.Pipe()
	h.open = append(h.open, out)
	ctx := r.Context()
	go func() {
		context.AfterFunc(ctx, func() { _ = out.CloseWithError(ctx.Err()) })
		_, err := fmt.Fprintf(out, "retry: 3000\nid: p%d\n\n", n)
		for err == nil {
			h.mu.Lock()
			bell, silent := h.bell, h.silent
			var next string
			if n < len(h.events) {
				next = h.events[n]
			}
			h.mu.Unlock()
			if next != "" {
				n++
				_, err = fmt.Fprintf(out, "%sid: p%d\n\n", next, n)
				continue
			}
			select {
			case <-bell:
			case <-ctx.Done():
				return
			case <-time.After(heartbeat):
				if !silent {
					_, err = io.WriteString(out, ":\n\n")
				}
			}
		}
	}()
	resp := answered(200, "text/event-stream; charset=utf-8", "")
	resp.Body = in
	return resp, nil
}

// publishEvent adds an event.
func (h *streamHub) publishEvent(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		h.Error(err)
	}
	h.mu.Lock()
	h.events = append(h.events, "event: "+name+"\ndata: "+string(text)+"\n")
	close(h.bell)
	h.bell = make(chan struct{})
	h.mu.Unlock()
	synctest.Wait()
}

// event is the data of a notification.
func (h *streamHub) event(mediaType string, body []byte) map[string]any {
	sum := sha256.Sum256(body)
	return map[string]any{
		"id": fmt.Sprintf("id-%x", sum[:6]), "topic": labTopic, "received_at": time.Now(), "content_type": mediaType,
		"size": len(body), "sha256": hex.EncodeToString(sum[:]), "document": string(body),
	}
}

func (h *streamHub) publish(from, until float64, seconds ...float64) {
	h.publishEvent("notification", h.event("application/xml", h.notification(from, until, h.changes(seconds...)...)))
}

// breakAll ends all connections.
func (h *streamHub) breakAll(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.open {
		_ = c.CloseWithError(err)
	}
	h.open = nil
}

func (h *streamHub) locked(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *streamHub) wantAsked(want ...string) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.asked, want) {
		h.Errorf("the hub was asked %q, want %q", h.asked, want)
	}
}

// streaming runs a test of a lab that reads a stream, and has had everything up to second 0.
func streaming(t *testing.T, change func(*lab), test func(*streamHub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, with := withStream(change)
		newLab(t, with)
		test(h)
	})
}

// start is where a stream begins that nothing came from.
func (h *streamHub) start() string { return "after=" + h.from.UTC().Format(time.RFC3339) }

// What the stream has comes in order, and after an end, a break and a restart the stream goes on
// where it was.
func TestStream(t *testing.T) {
	streaming(t, nil, func(h *streamHub) {
		h.publish(0, 1, 1)
		h.publish(1, 3, 2, 3)
		h.want("1 2 3")
		if st := h.status(); st.Stream == nil || st.Stream.State != "open" || st.Stream.Hub != labHub || st.Trouble != "" {
			t.Errorf("%+v %q", st.Stream, st.Trouble)
		}
		h.breakAll(io.EOF)
		h.publish(3, 4, 4)
		h.want("") // it comes again after the time that the hub asks for
		h.after(4 * time.Second)
		h.want("4")
		h.breakAll(io.ErrUnexpectedEOF)
		h.after(4 * time.Second)
		h.restart()
		h.publish(4, 5, 5)
		h.want("5")
		h.wantAsked(h.start(), "last=p2", "last=p3", "last=p3")
		if st := h.status(); st.Counts.Duplicates != 0 || st.Counts.Received != 4 {
			t.Errorf("%+v", st.Counts)
		}
	})
}

// A place is stored before the first event, so that nothing is missed that comes while the
// Subscriber does not run; and a topic that the hub does not know yet is read from its beginning.
func TestStreamBeginsOnce(t *testing.T) {
	streaming(t, func(l *lab) { l.o.Start = time.Time{} }, func(h *streamHub) {
		h.wantAsked("after=")
		h.end()
		h.publish(0, 1, 1)
		h.lab.start()
		h.after(2 * time.Second)
		h.want("1")
		h.wantAsked("after=", "last=p0")
	})
}

// A hub that has nothing of the topic yet is no trouble: that is said once, and the reader has the first
// notification within seconds, whenever it comes.
func TestStreamWaitsForTheTopic(t *testing.T) {
	var log bytes.Buffer
	h, with := withStream(func(l *lab) {
		l.o.Start, l.o.Log = time.Time{}, slog.New(slog.NewTextHandler(&log, nil))
	})
	h.answer = func(*http.Request) *http.Response {
		if len(h.events) > 0 {
			return nil
		}
		return answered(404, "application/problem+json", `{"type":"https://example.org/problems#unknown-topic","detail":"Nothing is here."}`)
	}
	synctest.Test(t, func(t *testing.T) {
		newLab(t, with)
		h.after(time.Hour)
		if st := h.status(); st.Stream.State != StreamWaiting || st.Trouble != "" {
			t.Errorf("%+v %q", st.Stream, st.Trouble)
		}
		h.publish(0, 1, 1)
		h.after(noTopicRest + noTopicRest/4 + beginAfter)
		h.want("1")
		if last := h.asked[len(h.asked)-1]; last != "after=earliest" {
			t.Error(last)
		}
		if strings.Count(log.String(), "event=stream_waiting") != 1 || strings.Contains(log.String(), "level=WARN") {
			t.Error(log.String())
		}
	})
}

// A hub that says nothing for three heartbeats is asked again; one that only says that it is there
// is not.
func TestStreamIsWatched(t *testing.T) {
	streaming(t, nil, func(h *streamHub) {
		h.after(time.Hour)
		h.wantAsked(h.start())
		h.locked(func() { h.silent = true })
		h.after(75 * time.Second)
		h.wantAsked(h.start(), "last=p0")
		if st := h.status(); !strings.Contains(st.Trouble+st.Stream.State, "open") && !strings.Contains(st.Trouble, "said nothing") {
			t.Errorf("%+v", st)
		}
	})
}

// While the hub is away, it is asked at longer and longer intervals, and not before the time that
// it asks for.
func TestStreamIsTriedAgain(t *testing.T) {
	away := true
	h, with := withStream(nil)
	h.answer = func(*http.Request) *http.Response {
		if !away {
			return nil
		}
		resp := answered(503, "text/plain", "draining")
		if len(h.at) > 8 {
			resp.Header.Set("Retry-After", "300")
		}
		return resp
	}
	synctest.Test(t, func(t *testing.T) {
		newLab(t, with)
		h.after(20 * time.Minute)
		var waits []time.Duration
		for i := range h.at[1:] {
			waits = append(waits, h.at[i+1].Sub(h.at[i]))
		}
		for i, least := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60, 300} {
			if least *= time.Second; i >= len(waits) || waits[i] < least || waits[i] > least+least/4 {
				t.Fatalf("wait %d: %v, want %v", i, waits, least)
			}
		}
		if st := h.status(); st.Stream.State != "broken" || !strings.Contains(st.Trouble, "503") {
			t.Errorf("%+v %q", st.Stream, st.Trouble)
		}
		h.locked(func() { away = false })
		h.publish(0, 1, 1)
		h.after(7 * time.Minute)
		h.want("1")
		if st := h.status(); st.Stream.State != "open" || st.Trouble != "" {
			t.Errorf("%+v %q", st.Stream, st.Trouble)
		}
	})
}

// A stream that opens and then breaks at the same event is tried again at longer and longer intervals, and the Source is
// polled meanwhile. One that was open for a while is read again at once.
func TestStreamThatBreaksAtOnce(t *testing.T) {
	streaming(t, func(l *lab) { l.o.Via = ViaAuto }, func(h *streamHub) {
		for range 20 {
			h.after(time.Minute)
			h.breakAll(errors.New("the network"))
		}
		h.after(time.Minute)
		if n := len(h.at); n != 21 {
			t.Fatalf("%d connections that broke after a while: %v", n, h.at)
		}
		wrong := h.event("application/xml", h.notification(0, 1, h.changes(1)...))
		wrong["sha256"] = "00"
		h.listed(0, 1)
		h.publishEvent("notification", wrong)
		h.after(time.Hour)
		h.want("0 1")
		if n := len(h.at) - 21; n < 50 || n > 70 {
			t.Errorf("%d connections in an hour", n)
		}
		if st := h.status(); !strings.Contains(st.Trouble, "hash") {
			t.Errorf("%q", st.Trouble)
		}
	})
}

// Documents come as text, as Base64 or at the hub, and what is not what the hub hashed is not
// believed.
func TestStreamDocuments(t *testing.T) {
	streaming(t, func(l *lab) { l.o.Start = time.Time{}; l.o.MaxBody = 4096 }, func(h *streamHub) {
		bytesOf := func(body string, change func(map[string]any)) {
			e := h.event("text/plain", []byte(body))
			change(e)
			h.publishEvent("notification", e)
		}
		bytesOf("text", func(map[string]any) {})
		bytesOf("\xff\xfe", func(e map[string]any) { delete(e, "document"); e["document_base64"] = []byte("\xff\xfe") })
		bytesOf("long", func(e map[string]any) {
			delete(e, "document")
			e["url"] = "https://elsewhere.example/"
			id := fmt.Sprint(e["id"])
			h.locked(func() { h.docs[id] = []byte("long") })
		})
		h.want("text \xff\xfe long")
		bytesOf("other topic", func(e map[string]any) { e["topic"] = "https://source.example/other" })
		h.publishEvent("news", map[string]any{"id": "x"})
		h.want("")
		bytesOf("trimmed", func(e map[string]any) { delete(e, "document"); e["url"] = "u" })
		h.want("baseline " + h.span(time.Time{}, time.Time{}))
		bytesOf(strings.Repeat("x", 5000), func(map[string]any) {})
		h.want("baseline " + h.span(time.Time{}, time.Time{}))
		asked := len(h.asked)
		bytesOf("wrong", func(e map[string]any) { e["document"] = "wrung" })
		h.after(10 * time.Second)
		h.want("")
		if st := h.status(); len(h.asked) == asked || !strings.Contains(st.Trouble, "hash") {
			t.Errorf("%d, %q", len(h.asked), st.Trouble)
		}
	})
}

func (h *streamHub) span(from, until time.Time) string {
	return fmt.Sprintf("%g-%g", from.Sub(h.from).Seconds(), until.Sub(h.from).Seconds())
}

// What the hub says that it lacks is read from the Change List, at once if nothing follows, and
// in order if something does.
func TestStreamGap(t *testing.T) {
	gap := func(h *streamHub, from, until float64, reason string) {
		h.publishEvent("gap", map[string]any{"topic": labTopic, "from": h.second(from), "until": h.second(until), "reason": reason})
	}
	streaming(t, nil, func(h *streamHub) {
		h.publish(0, 1, 1)
		h.listed(1, 2, 3)
		gap(h, 1, 3, "retention")
		h.want("1 2 3")
		h.listed(4, 5, 6)
		gap(h, 3, 5, "damaged")
		h.publish(5, 6, 6)
		h.after(15 * time.Second)
		h.want("4 5 6")
		gap(h, 4, 6, "rolled_back")
		h.publish(5, 6, 6) // again
		h.publish(6, 7, 7)
		h.want("7")
	})
	streaming(t, func(l *lab) { l.o.Start = time.Time{} }, func(h *streamHub) { // content is in no list
		gap(h, 1, 3, "retention")
		h.want("baseline 1-3")
		gap(h, 1, 3, "rolled_back")
		h.want("")
	})
}

// While there is no room, the hub waits, and nothing is lost.
func TestStreamWaitsForRoom(t *testing.T) {
	streaming(t, func(l *lab) { l.o.MaxBacklog = 1500 }, func(h *streamHub) {
		for i := range 10 {
			h.publish(float64(i), float64(i+1), float64(i+1))
		}
		h.after(time.Hour)
		if st := h.status(); st.Counts.Backlog > 4000 || st.Counts.Postponed == 0 {
			t.Errorf("%+v", st.Counts)
		}
		var got []string
		for range 10 {
			if s := h.waiting(); s != "" {
				got = append(got, s)
			}
		}
		if s := strings.Join(got, " "); s != "1 2 3 4 5 6 7 8 9 10" {
			t.Error(s)
		}
	})
}

// Without a callback and without a stream, the Source is polled; and when the hub has a stream, it
// is read.
func TestAutoFallsBackToPolling(t *testing.T) {
	h, with := withStream(func(l *lab) { l.o.Via, l.o.Start = ViaAuto, time.Time{} })
	has := false
	h.answer = func(*http.Request) *http.Response {
		if has {
			return nil
		}
		return answered(200, "text/html", "<title>A hub</title>")
	}
	synctest.Test(t, func(t *testing.T) {
		newLab(t, with)
		h.after(time.Second)
		now := time.Since(h.from).Seconds()
		h.listed(now+1, now+2)
		h.after(6 * time.Minute)
		h.want(fmt.Sprintf("%g %g", now+1, now+2))
		st := h.status()
		if st.Stream.State != "none" || st.Way != ViaPoll || !strings.Contains(st.Stream.Why, "text/html") || st.Trouble != "" || len(st.Gaps) != 0 {
			t.Errorf("%+v %+v", st, st.Stream)
		}
		h.locked(func() { has = true })
		h.after(13 * time.Minute)
		if st := h.status(); st.Stream.State != "open" {
			t.Errorf("%+v", st.Stream)
		}
		h.publish(now+2, now+3, now+3)
		h.want(fmt.Sprint(now + 3))
	})
}

// A stream that breaks is one that the hub has: it is read again, with one line in the log. While
// the hub stays away, the Source is polled.
func TestAutoOutlivesItsHub(t *testing.T) {
	var log bytes.Buffer
	h, with := withStream(func(l *lab) { l.o.Via, l.o.Log = ViaAuto, slog.New(slog.NewTextHandler(&log, nil)) })
	synctest.Test(t, func(t *testing.T) {
		newLab(t, with)
		h.publish(0, 1, 1)
		h.want("1")
		h.locked(func() { h.answer = func(*http.Request) *http.Response { return answered(503, "text/plain", "away") } })
		h.breakAll(io.ErrUnexpectedEOF)
		h.listed(1, 2)
		h.after(5 * time.Second)
		h.want("")
		h.after(10 * time.Minute)
		h.want("2")
		st := h.status()
		if st.Stream.State != StreamBroken || st.Way != ViaStream || !strings.Contains(st.Trouble, "503") || strings.Count(log.String(), "event=stream_failed") != 1 {
			t.Errorf("%+v %+v\n%s", st, st.Stream, &log)
		}
		h.locked(func() { h.answer = nil })
		h.publish(1, 3, 2, 3)
		h.after(2 * time.Minute)
		h.want("3")
		st = h.status()
		if st.Stream.State != StreamOpen || st.Stream.Reconnects != 1 || st.Stream.LastEvent.Before(st.Stream.Since) || st.Trouble != "" || h.sub.repairer.polls.Load() {
			t.Errorf("%+v %+v", st, st.Stream)
		}
	})
}

// Where nothing pushes and there is no Change List, nothing comes, and the status says why.
func TestPollingWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(l *lab) {
			l.o.Callback, l.o.Via = "", ViaPoll
			l.page(labCaps, func(w http.ResponseWriter, _ *http.Request) {
				l.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList},
					resourcesync.Entry{Loc: labTopic, Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: labHub}}})
			})
		})
		l.after(time.Second)
		if st := l.status(); st.Way != ViaPoll || !strings.Contains(st.Trouble, "no Change List") {
			t.Errorf("%+v", st)
		}
	})
}

// What a hub refuses to a reader does not pass: the Source is polled.
func TestAutoFallsBackWhereAHubRefuses(t *testing.T) {
	for status, none := range map[int]bool{401: true, 403: true, 404: true, 405: true, 406: true, 410: true, 429: false, 500: false, 503: false} {
		h, with := withStream(func(l *lab) { l.o.Via = ViaAuto })
		h.answer = func(*http.Request) *http.Response { return answered(status, "text/plain", "no") }
		synctest.Test(t, func(t *testing.T) {
			newLab(t, with)
			h.after(time.Second)
			if st := h.status(); (st.Way == ViaPoll) != none || (st.Trouble == "") != none {
				t.Errorf("%d: %+v %+v", status, st, st.Stream)
			}
		})
	}
}

// A stream over plain http is read on this machine alone, unless that is allowed.
func TestStreamIsConfidential(t *testing.T) {
	for hub, want := range map[string]string{"http://hub.example/": "none", "http://127.0.0.1:8080/": "open", "https://hub.example/": "open"} {
		for _, insecure := range []bool{false, true} {
			streaming(t, func(l *lab) { l.o.Hub, l.o.InsecureStream = hub, insecure }, func(h *streamHub) {
				want := want
				if insecure {
					want = "open"
				}
				st := h.status()
				if st.Stream.State != want || (want == "none") != strings.Contains(st.Trouble, "plain http") || (want == "none") != (len(h.asked) == 0) {
					t.Errorf("%s, insecure %t: %+v %q", hub, insecure, st.Stream, st.Trouble)
				}
			})
		}
	}
}

// What is missing of what a hub delivered is read from the hub, and if the hub does not have all
// of it, from the Source.
func TestRepairFromTheHub(t *testing.T) {
	for _, whole := range []bool{true, false} {
		h, with := withStream(func(l *lab) { l.o.Callback, l.o.Via = "https://me.example/cb", ViaCallback })
		subscribed(t, with, func(l *lab) {
			l.pushed(0, 1, 1)
			has := l.changeList(1, 2, 3, 5)
			if !whole {
				has = l.changeList(2, 3, 5) // it begins behind a gap
			}
			h.locked(func() { h.sinceXML = has })
			l.listed(1, 2, 3, 4, 5)
			l.pushed(4, 5, 5)
			l.after(15 * time.Second)
			want, via := "1 2 3 5", labHub
			if !whole {
				want, via = "1 2 3 4 5", labList
			}
			l.want(want)
			if st := l.status(); len(st.Gaps) != 1 || !strings.HasPrefix(st.Gaps[0].Via, via) {
				t.Errorf("%t: %+v", whole, st.Gaps)
			}
		})
	}
}

// changeList is an open Change List from the first second on.
func (l *lab) changeList(seconds ...float64) []byte {
	head := l.head
	head.From = l.second(seconds[0])
	var b bytes.Buffer
	l.write(&b, head, l.changes(seconds...)...)
	return b.Bytes()
}

// The same changes come once each and in order, whatever ways they come, in whatever order these
// are used, and whatever is lost on the way.
func TestMixtureOfWays(t *testing.T) {
	for seed := range draws.Seeds(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h, with := withStream(nil)
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, with)
			now := 0.0
			var want, got []string
			for range 12 {
				via := []Via{ViaCallback, ViaStream, ViaPoll, ViaAuto}[rnd.IntN(4)]
				l.end()
				l.o.Via, l.o.Callback = via, ""
				if via == ViaCallback || via == ViaAuto && rnd.IntN(2) == 0 {
					l.o.Callback = "https://me.example/cb"
				}
				l.start()
				l.after(5 * time.Second)
				for range 1 + rnd.IntN(4) {
					next := now + 1
					l.listed(next)
					h.publish(now, next, next)
					if l.sub.o.subscribes() && rnd.IntN(4) > 0 { // some deliveries are lost
						l.pushed(now, next, next)
					}
					now = next
					want = append(want, fmt.Sprint(next))
					if rnd.IntN(5) == 0 {
						h.breakAll(errors.New("killed"))
					}
				}
				if rnd.IntN(2) == 0 {
					l.after(10 * time.Minute)
				}
				if s := l.waiting(); s != "" {
					got = append(got, strings.Fields(s)...)
				}
			}
			l.end()
			l.o.Via, l.o.Callback = ViaStream, ""
			l.start()
			l.after(time.Minute)
			got = append(got, strings.Fields(l.waiting())...)
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %v, want %v", seed, got, want)
			}
		})
	}
}

// Who changes from the callback to another way has the hub end the subscription, which it verifies at the callback. If
// there is none, that is said once at each start.
func TestWayLeavesTheCallback(t *testing.T) {
	const callback = "https://me.example/cb"
	for _, via := range []Via{ViaStream, ViaPoll} {
		var log bytes.Buffer
		h, with := withStream(func(l *lab) {
			l.o.Via, l.o.Callback, l.o.Log = ViaCallback, callback, slog.New(slog.NewTextHandler(&log, nil))
		})
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, with)
			l.after(3 * time.Second)
			states := func() (all string) {
				for _, s := range l.status().Subscriptions {
					all += s.State + " "
				}
				return all
			}
			left := func() int { return strings.Count(log.String(), "event=subscription_left") }
			l.end()
			l.o.Via, l.o.Callback = via, ""
			l.start()
			l.after(time.Hour)
			if l.requests() != 1 || states() != "active " || left() != 1 {
				t.Errorf("%s without a callback: %v, %s, %s", via, l.forms, states(), log.String())
			}
			l.end()
			l.o.Callback = callback
			l.page(labHub, http.NotFound)
			l.start()
			l.after(time.Minute)
			l.page(labHub, l.hub)
			l.after(20 * time.Minute)
			if f := l.form(l.requests() - 1); f.Get(websub.ParamMode) != "unsubscribe" || f.Get(websub.ParamCallback) != l.form(0).Get(websub.ParamCallback) {
				t.Errorf("%s: %v", via, l.forms)
			}
			if n := l.requests(); n != 2 || states() != "ended " || left() != 1 {
				t.Errorf("%s: %d requests, %s, %s", via, n, states(), log.String())
			}
			if st := l.status(); via == ViaStream && st.Stream.State != StreamOpen || st.Way != via {
				t.Errorf("%+v", st)
			}
			h.publish(0, 1, 1)
			l.listed(1)
			l.after(6 * time.Minute)
			l.want("1")
			l.end()
			l.o.Via = ViaCallback
			l.start()
			l.after(3 * time.Second)
			if !strings.Contains(states(), "active ") || left() != 1 {
				t.Errorf("%s: %s, %s", via, states(), log.String())
			}
		})
	}
}

// The range yields what the stream has and why it broke, goes on behind that, and ends when it is
// left.
func TestNotifications(t *testing.T) {
	h, with := withStream(nil)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, with)
		l.stop()
		h.publish(0, 1, 1)
		h.publishEvent("gap", map[string]any{"topic": labTopic, "from": h.second(1), "until": h.second(2), "reason": "retention"})
		h.publish(2, 4, 3, 4)
		h.locked(func() { h.asked = nil })
		var got []string
		for n, err := range Notifications(t.Context(), StreamOptions{Topic: labTopic, After: "earliest", Client: both{h, l}}) {
			switch {
			case err != nil:
				got = append(got, "error")
			case n.Gap != "":
				got = append(got, n.Gap)
				h.breakAll(io.ErrUnexpectedEOF)
			default:
				for e, err := range n.Entries() {
					if err != nil {
						t.Error(err)
					}
					got = append(got, strings.TrimPrefix(e.Loc, "https://source.example/r/"))
				}
			}
			if len(got) >= 5 {
				break
			}
		}
		if s := strings.Join(got, " "); s != "1 retention error 3 4" {
			t.Error(s)
		}
		h.wantAsked("after=earliest", "last=p2")
	})
}

// both asks the hub for a stream, and the lab for everything else.
type both struct {
	hub *streamHub
	lab *lab
}

func (b both) Do(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.String(), labHub) {
		return b.hub.Do(r)
	}
	return b.lab.Do(r)
}

// Whatever an event says, reading it fails or gives a notification of its topic.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"id":"a","topic":"t","from":"2026-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","size":1,"document":"x"}`))
	f.Add([]byte(`{"topic":"t","reason":"reset","until":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"size":-1,"document_base64":"AA=="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parseEvent(data)
		if err == nil && d.Reason == "" && d.Until.Before(d.From) {
			t.Errorf("%+v", d)
		}
	})
}
