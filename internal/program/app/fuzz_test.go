package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/test/pipes"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// script is a connection that delivers the given bytes and then nothing. A read with a
// deadline then fails at once.
type script struct {
	in  *bytes.Reader
	out bytes.Buffer // once it is closed

	change  sync.Cond
	limited bool
	closed  bool
}

func newScript(in []byte) *script {
	return &script{in: bytes.NewReader(in), change: sync.Cond{L: new(sync.Mutex)}}
}

func (s *script) Read(p []byte) (int, error) {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.in.Len() > 0:
			return s.in.Read(p)
		case s.limited:
			return 0, os.ErrDeadlineExceeded
		}
		s.change.Wait()
	}
}

func (s *script) Write(p []byte) (int, error) {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	return s.out.Write(p)
}

func (s *script) SetReadDeadline(t time.Time) error {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	s.limited = !t.IsZero()
	s.change.Broadcast()
	return nil
}

func (s *script) Close() error {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	s.closed = true
	s.change.Broadcast()
	return nil
}

// wait returns when the other side has closed.
func (s *script) wait() {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	for !s.closed {
		s.change.Wait()
	}
}

func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// wire is one of the listeners, to which bytes are sent.
type wire struct {
	conns *pipes.Listener
	logs  *observer.ObservedLogs
}

func newWire(f *testing.F, o ingress.Options) *wire {
	f.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	a := &App{log: zap.New(core)}
	o.Total, o.PerNetwork = 100, 100
	server := a.server(o)
	w := &wire{conns: pipes.Listen(), logs: logs}
	go func() { _ = server.Serve(w.conns) }()
	f.Cleanup(func() { _ = server.Close() })
	return w
}

// The statuses that there are: ours, of docs/problems.md and docs/operations.md,
// and those that net/http answers with before a handler is asked.
var (
	ours = []int{
		200, 202, 301, 400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 503,
	}
	theirs = []int{400, 408, 417, 431, 501, 505}
)

var saneID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// send sends bytes and checks every answer. No answer may contain forbidden.
func (w *wire) send(t *testing.T, in []byte, forbidden string) {
	t.Helper()
	s := newScript(in)
	w.conns.Send(s)
	s.wait()
	if lines := w.logs.FilterField(zap.String("event", "handler_panic")).All(); len(lines) > 0 {
		t.Fatalf("%v", lines[0].ContextMap())
	}
	if strings.Contains(s.out.String(), forbidden) {
		t.Errorf("an answer holds %s:\n%s", forbidden, &s.out)
	}
	first, _, _ := bytes.Cut(in, []byte(" "))
	answers := bufio.NewReader(&s.out)
	resp, err := http.ReadResponse(answers, &http.Request{Method: string(first)})
	if err == nil && resp.StatusCode == http.StatusContinue {
		_ = resp.Body.Close()
		resp, err = http.ReadResponse(answers, &http.Request{Method: string(first)})
	}
	if err != nil {
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) { // cut off, or not answered
			t.Errorf("no answer can be read: %v", err)
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	h := resp.Header
	if h.Get(ingress.HeaderRequestID) == "" {
		if !slices.Contains(theirs, resp.StatusCode) || !resp.Close {
			t.Errorf("%d %v without a request id", resp.StatusCode, h)
		}
		return
	}
	if !slices.Contains(ours, resp.StatusCode) {
		t.Errorf("status %d", resp.StatusCode)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	id, policy := h.Values(ingress.HeaderRequestID), h.Get("Content-Security-Policy")
	if len(id) != 1 || !saneID.MatchString(id[0]) || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("%s %q, policy %q", ingress.HeaderRequestID, id, policy)
	}
}

// accepting accepts every subscription request, and open every topic. Nothing is
// ever called.
type (
	accepting struct{}
	open      struct{}
)

func (accepting) Accept(context.Context, websub.SubscribeRequest, string) error { return nil }

func (open) Check(context.Context, string) error                     { return nil }
func (open) Content(context.Context, string, string, []byte) error   { return nil }
func (open) Fetch(context.Context, string) (validate.Fetched, error) { return validate.Fetched{}, nil }

// No bytes break the public listener. Each of its answers has a known status, and the headers that go
// with it.
func FuzzPublicListener(f *testing.F) {
	const url, topic = "http://h/", "http://t/"
	store := storetest.NewMemory()
	handler, err := hub.New(hub.Options{
		HubURL: url, Journal: store, Pings: store, Subscriptions: accepting{}, Topics: open{},
		Auth: hub.PublishAuth{Open: true, Token: true}, MaxBody: 1 << 16, AcceptGaps: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	link := `Link: <` + topic + `>; rel="self", <` + url + `>; rel="hub"` + "\r\n"
	form := "Content-Type: application/x-www-form-urlencoded\r\n"
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n",
		"HEAD / HTTP/1.0\r\nX-Request-Id: a\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/xml\r\nAccept: application/json\r\n" + link + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(notification(0, 1))) + notification(0, 1),
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/xml\r\n" + link + "Transfer-Encoding: chunked\r\n\r\n1\r\n<\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\nContent-Type: application/xml\r\n" + link + "Content-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\n" + form + "Content-Length: 69\r\n\r\nhub.mode=subscribe&hub.topic=http://t/&hub.callback=http://c/&hub.x=1",
		"POST / HTTP/1.1\r\nHost: h\r\n" + form + "Expect: 100-continue\r\nContent-Length: 36\r\n\r\nhub.mode=publish&hub.topic=http://t/",
		"POST http://h/?a HTTP/1.1\r\nHost: h\r\nExpect: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01", "GET /%zz HTTP/1.1\n\n", "",
	} {
		f.Add([]byte(s))
	}
	w := newWire(f, ingress.Options{Name: "public listener", Handler: handler, Broken: handler.Broken})
	f.Fuzz(func(t *testing.T, in []byte) { w.send(t, in, "\x00") })
}

// The same for the operator's listener. Some of the requests have a token.
func FuzzOperatorListener(f *testing.F) {
	const token = "t0ken-of-the-operator"
	store := storetest.NewMemory()
	handler := admin.New(admin.Options{
		Topics: store, Pings: store, Subscriptions: store, Token: func() string { return token },
		Info:    func(context.Context) admin.Info { return admin.Info{Version: "v1"} },
		Ready:   func(context.Context) []admin.Check { return []admin.Check{{Name: "store", Holds: "it answers"}} },
		Metrics: http.NotFoundHandler(),
	})
	auth := "Host: h\r\nAuthorization: Bearer " + token + "\r\n"
	for _, s := range []string{
		"GET / HTTP/1.1\r\n" + auth + "\r\n",
		"GET /readyz?verbose HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /api/v1/topics?limit=1 HTTP/1.1\r\n" + auth + "X-Request-Id: b\r\n\r\n",
		"GET /api/v1/subscriptions?state=active&host=x HTTP/1.1\r\n" + auth + "\r\n",
		"POST /api/v1/subscriptions/6ba7b811-9dad-11d1-80b4-00c04fd430c8/replay HTTP/1.1\r\n" + auth +
			"Content-Type: application/json\r\nContent-Length: 34\r\n\r\n{\"since\": \"2026-01-31T00:00:00Z\"}",
		"DELETE /api/v1/subscriptions/x HTTP/1.1\r\n" + auth + "Origin: http://evil.example\r\n\r\n",
		"POST //api/../v1/topics/x/reset HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HEAD /livez HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "GET /api/v1/info HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	w := newWire(f, ingress.Options{Name: "operator's listener", Handler: handler, Broken: admin.Broken})
	f.Fuzz(func(t *testing.T, in []byte) { w.send(t, in, token) })
}
