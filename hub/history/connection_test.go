package history

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// deaf opens a stream that its reader does not read.
func (w *world) deaf(c *http.Client) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://hub.example/?hub.topic="+url.QueryEscape(topic), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
}

// However many readers take nothing, the others have their events at once.
func TestDeafReadersHoldUpNobody(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		n := 2*runtime.GOMAXPROCS(0) + 1
		for range n {
			w.deaf(c)
		}
		tl := w.follow(c, "")
		synctest.Wait()
		began := time.Now()
		for i := range 20 {
			tl.wantNotification(w.publish(minute(10+i), minute(11+i), strings.Repeat("b", 900)))
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the last event came after %v", d)
		}
		synctest.Wait()
		if got := w.Stats(); got.Behind != n {
			t.Errorf("%d streams are behind, want %d", got.Behind, n)
		}
		time.Sleep(2 * w.o.Stall)
		if got := w.Stats(); got.Open != 1 || got.Ended[EndStalled] != uint64(n) {
			t.Errorf("%+v", got)
		}
	})
}

// When the time to drain is over, readers who take nothing are broken off; the others have ended by then.
func TestFinish(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		w.publish(minute(0), minute(10), "a")
		w.deaf(c)
		tl := w.follow(c, "")
		synctest.Wait()
		w.publish(minute(10), minute(20), strings.Repeat("b", 900))
		tl.next()
		began := time.Now()
		w.Drain()
		w.Drain()
		synctest.Wait()
		if n := w.Stats().Open; n != 1 {
			t.Errorf("%d streams are open", n)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		w.Finish(ctx)
		if n, d := w.Stats().Open, time.Since(began); n != 0 || d != time.Second {
			t.Errorf("after %v %d streams are open", d, n)
		}
	})
}

// A mistake in the turn of one stream ends that stream, where the server tells it, and no other.
func TestPanicInATurn(t *testing.T) {
	inStream(t, func(w *world, c *http.Client) {
		defer log.SetOutput(log.Writer())
		log.SetOutput(io.Discard) // net/http writes a stack there
		w.publish(minute(0), minute(10), "a")
		other := w.follow(c, "")
		w.charge = func(int64) error { panic("oops") }
		tl := w.follow(c, "", paramAfter, earliest)
		for e := range tl.events {
			if e.name != "" {
				t.Errorf("%+v", e)
			}
		}
		other.wantNotification(w.publish(minute(10), minute(20), "b"))
		if n := w.Stats().Open; n != 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// A turn with one event is one write: there is no other one for what waits together, which is nothing.
func TestNothingIsNotWritten(t *testing.T) {
	var writes []string
	st := &stream{s: newWorld(t).Service, topics: make([]*follower, 1), quick: func(b []byte) int {
		writes = append(writes, string(b))
		return len(b)
	}}
	err := st.send(sharedEvent{[]byte("eventid"), 5}, true)
	if err == nil {
		err = st.flush()
	}
	if err != nil || len(writes) != 1 || writes[0] != "eventid" {
		t.Errorf("%q, %v", writes, err)
	}
}

// Over a real connection, what a reader did not take at once comes whole and in order when it reads, and a reader
// who says much is no reader.
func TestStreamOverTCP(t *testing.T) {
	w := newWorld(t)
	first := w.publish(minute(0), minute(10), "a")
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q, err := ParseQuery(r.URL.Query())
		if err == nil {
			err = w.Stream(rw, r, q, Reader{})
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	go func() { _ = w.Run(t.Context()) }()
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = fmt.Fprintf(conn, "GET /?hub.topic=%s&after=%s HTTP/1.1\r\nHost: hub.example\r\n\r\n", url.QueryEscape(topic), url.QueryEscape(PositionOf(topic, first.Anchor()).String()))
		return conn
	}
	conn := dial()
	defer func() { _ = conn.Close() }()
	var want []journal.Entry
	for i := range 200 { // more than the two ends of a connection hold
		want = append(want, w.append(journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte(fmt.Sprint(i, strings.Repeat("x", 100<<10)))}))
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		list, _ := w.List("", 0, 1)
		if len(list) == 1 && list[0].Blocked > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stream does not wait for its reader: %+v", list)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // conn is closed
	if err != nil {
		t.Fatal(err)
	}
	if !resp.Close || resp.ContentLength != -1 || resp.Header.Get("Date") == "" {
		t.Errorf("%+v", resp)
	}
	lines := bufio.NewReader(resp.Body)
	for i, e := range want {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(line, "data: ") {
				continue
			}
			if !strings.Contains(line, e.ID.String()) || !strings.Contains(line, `"`+string(e.Body)+`"`) {
				t.Fatalf("event %d is %.200s, want %v", i, line, e.ID)
			}
			break
		}
	}
	_ = conn.Close()
	loud := dial()
	defer func() { _ = loud.Close() }()
	go func() {
		for range 100 {
			_, _ = loud.Write(make([]byte, mostHeard/64))
		}
	}()
	_, _ = io.Copy(io.Discard, loud) // the end or a reset
	for deadline := time.Now().Add(30 * time.Second); w.Stats().Open > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", w.Stats())
		}
	}
}
