package hub

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/test/pipes"
)

// onTheWire runs f with a connection to a server of w.
func onTheWire(t *testing.T, change func(*Options), f func(*world, net.Conn, *bufio.Reader)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		l := pipes.Listen()
		srv := &http.Server{Handler: w, ReadTimeout: time.Minute}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		client := l.Dial()
		f(w, client, bufio.NewReader(client))
		_ = client.Close()
		_ = srv.Close()
		<-done
		time.Sleep(24 * time.Hour) // whoever still writes finds the connection closed
	})
}

func head(extra string) string {
	return "POST /websub/ HTTP/1.1\r\nHost: hub.example\r\nContent-Type: application/xml\r\nLink: " + link(topic) + "\r\n" + extra + "\r\n"
}

func status(t *testing.T, r *bufio.Reader) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// write writes in the background, as far as anybody reads.
func write(c net.Conn, parts ...string) {
	go func() {
		for _, p := range parts {
			if _, err := io.WriteString(c, p); err != nil {
				return
			}
		}
	}()
}

// A body that is announced and does not come keeps its connection for the time limit and no longer.
func TestSlowBodies(t *testing.T) {
	for _, pause := range []time.Duration{time.Hour, time.Second} {
		onTheWire(t, nil, func(w *world, c net.Conn, r *bufio.Reader) {
			start := time.Now()
			go func() {
				_, err := io.WriteString(c, head("Content-Length: 1000\r\n"))
				for err == nil {
					time.Sleep(pause)
					_, err = io.WriteString(c, "x")
				}
			}()
			code, text := status(t, r)
			if code != http.StatusRequestTimeout || !strings.Contains(text, "too slowly") {
				t.Errorf("%d %s", code, text)
			}
			if took := time.Since(start).Round(time.Second); took != bodyTimeout {
				t.Errorf("a byte every %v was waited for %v", pause, took)
			}
			if !w.memory.TryAcquire(w.o.MaxPublishBytes) {
				t.Error("its memory was not given back")
			}
		})
	}
}

// A body that the hub does not want does not delay its refusal.
func TestSlowBodyOfARefusal(t *testing.T) {
	onTheWire(t, nil, func(_ *world, c net.Conn, r *bufio.Reader) {
		start := time.Now()
		write(c, strings.Replace(head("Content-Length: 1000\r\n"), "application/xml", "text/html", 1))
		if code, text := status(t, r); code != http.StatusUnsupportedMediaType {
			t.Errorf("%d %s", code, text)
		}
		if took := time.Since(start); took > lingering {
			t.Errorf("the refusal took %v", took)
		}
	})
}

// A body that comes slowly but steadily has the time that it needs. After that the answer has a
// time limit too, so that the deadline of the body does not cut off the topic check.
func TestSteadyBodies(t *testing.T) {
	onTheWire(t, nil, func(w *world, c net.Conn, r *bufio.Reader) {
		w.o.Topics = &slowTopics{}
		body := doc(0, 1, "a") + strings.Repeat(" ", 2<<20)
		go func() {
			_, err := io.WriteString(c, head(fmt.Sprintf("Content-Length: %d\r\n", len(body))))
			for rest := body; err == nil && rest != ""; time.Sleep(time.Second) {
				n := min(len(rest), slowest)
				_, err = io.WriteString(c, rest[:n])
				rest = rest[n:]
			}
		}()
		if code, text := status(t, r); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
	})
}

// slowTopics need longer to answer than a body may take to come.
type slowTopics struct{ topics }

func (slowTopics) Check(ctx context.Context, _ string) error {
	select {
	case <-time.After(5 * time.Minute):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A request goes on for a while after its client is gone, and no longer.
func TestRequestsOutliveTheirClients(t *testing.T) {
	onTheWire(t, nil, func(w *world, c net.Conn, _ *bufio.Reader) {
		ended := make(chan Event, 1)
		w.o.Topics, w.o.Event = &slowTopics{}, func(e Event) { ended <- e }
		body := doc(0, 1, "a")
		if _, err := io.WriteString(c, head(fmt.Sprintf("Content-Length: %d\r\n", len(body)))+body); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		_ = c.Close()
		if e := <-ended; e.Err == nil || time.Since(start) != afterClient {
			t.Errorf("it ended %v after its client was gone: %v", time.Since(start), e.Err)
		}
	})
}

// A body without an end is read up to the limit.
func TestEndlessBodies(t *testing.T) {
	onTheWire(t, func(o *Options) { o.MaxBody = 1 << 20 }, func(w *world, c net.Conn, r *bufio.Reader) {
		sent := make(chan int, 1)
		go func() {
			n := 0
			_, err := io.WriteString(c, head("Transfer-Encoding: chunked\r\n"))
			for err == nil {
				_, err = io.WriteString(c, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")
				n += 0x1000
			}
			sent <- n
		}()
		if code, text := status(t, r); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", code, text)
		}
		if n := <-sent; n > 2<<20 {
			t.Errorf("%d bytes were read", n)
		}
		if w.journal.stored() != 0 {
			t.Error("it was stored")
		}
	})
}

// Expect: 100-continue is answered after every check that needs no body. A refusal saves sending
// the body.
func TestExpectContinue(t *testing.T) {
	body := doc(0, 1, "a")
	expect := fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n", len(body))
	onTheWire(t, nil, func(_ *world, c net.Conn, r *bufio.Reader) {
		write(c, head(expect))
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(line, err)
		}
		_, _ = r.ReadString('\n')
		write(c, body)
		if code, text := status(t, r); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
	})
	onTheWire(t, nil, func(_ *world, c net.Conn, r *bufio.Reader) {
		write(c, head(expect+"Authorization: Bearer x\r\n"))
		if code, text := status(t, r); code != http.StatusUnauthorized {
			t.Errorf("%d %s", code, text)
		}
	})
}

// Invariant 12: the bodies in progress share a bounded memory. It is reserved as bytes come in, and
// not as they are announced.
func TestBodiesShareABoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.MaxBody, o.MaxPublishBytes = 1<<20, 2<<20 })
		held := func() (n int64) {
			for w.memory.TryAcquire(1 << 10) {
				n += 1 << 10
			}
			w.memory.Release(n)
			return w.o.MaxPublishBytes - n
		}
		release := make(chan struct{})
		codes := make(chan int)
		const promised = 30 // a megabyte each
		for range promised {
			go func() {
				codes <- w.do(publish("", func(r *http.Request) {
					r.Body, r.ContentLength = &paused{first: "<", wait: release}, 1<<20
				})).Code
			}()
		}
		synctest.Wait()
		if n := held(); n != promised*firstStep {
			t.Errorf("%d bytes are held", n)
		}
		rest := w.o.MaxPublishBytes - held()
		w.memory.TryAcquire(rest)
		if rec := w.do(publish(doc(0, 1, "a"))); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		w.memory.Release(rest)
		w.accept(publish(doc(0, 1, "a")))
		close(release)
		for range promised {
			if code := <-codes; code != http.StatusBadRequest {
				t.Error(code)
			}
		}
		if n := held(); n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
}

// paused is a body that gives a little and then waits.
type paused struct {
	first string
	wait  <-chan struct{}
}

func (p *paused) Read(b []byte) (int, error) {
	if p.first == "" {
		<-p.wait
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	return n, nil
}

func (p *paused) Close() error { return nil }
