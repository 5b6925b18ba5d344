package ingress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/test/pipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a log, and its lines so far.
func logged() (log *slog.Logger, lines func() []map[string]any) {
	b := new(buffer)
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})), b.lines
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) lines() (all []map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d := json.NewDecoder(bytes.NewReader(b.text.Bytes())); ; {
		var line map[string]any
		if d.Decode(&line) != nil {
			return all
		}
		all = append(all, line)
	}
}

var saneID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

var mintedID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// A request keeps the name that its client gave it, if it is one.
func TestRequestIDs(t *testing.T) {
	long := strings.Repeat("x", maxRequestID)
	for _, tc := range []struct {
		given []string
		kept  bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"a"}, true},
		{[]string{"7f3e-2_b.C"}, true},
		{[]string{long}, true},
		{[]string{long + "x"}, false},
		{[]string{"a", "a"}, false},
		{[]string{"a b"}, false},
		{[]string{`a"`}, false},
		{[]string{"a\x1b[31m"}, false},
		{[]string{"é"}, false},
		{[]string{"<script>"}, false},
	} {
		got := requestID(http.Header{HeaderRequestID: tc.given})
		if tc.kept != (len(tc.given) == 1 && got == tc.given[0]) || !tc.kept && !mintedID.MatchString(got) {
			t.Errorf("%q became %q", tc.given, got)
		}
	}
	if a, b := requestID(nil), requestID(nil); a == b {
		t.Errorf("two requests have the name %s", a)
	}
}

// Whatever a client calls its request, it can stand in a header, in a line of the
// log and on a terminal.
func FuzzRequestID(f *testing.F) {
	for _, s := range []string{"", "a", "A.b-c_9", "a b", "\x1b[0m", "é", strings.Repeat("x", maxRequestID+1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id := requestID(http.Header{HeaderRequestID: {s}}); !saneID.MatchString(id) || id != s && saneID.MatchString(s) {
			t.Errorf("%q became %q", s, id)
		}
	})
}

// A handler that panics is answered for, and its connection goes on; the log has
// one line, with the name of the request and nothing of what it held.
func TestPanics(t *testing.T) {
	const secret = "s3cret-of-a-request"
	var nothing map[string]int
	for name, tc := range map[string]struct {
		cause func()
		says  string
	}{
		"a value":   {func() { panic(secret) }, "string"},
		"an error":  {func() { panic(fmt.Errorf("with %s", secret)) }, "*fmt.wrapError"},
		"a mistake": {func() { nothing[secret]++ }, "assignment to entry in nil map"},
	} {
		if name == "an error" {
			tc.cause = func() { panic(fmt.Errorf("with %s: %w", secret, io.EOF)) }
		}
		t.Run(name, func(t *testing.T) {
			log, logs := logged()
			s := httptest.NewServer(&ingress{
				listener: "public listener", log: log,
				next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "1000")
					w.Header().Set("X-Half", secret)
					if r.URL.Path == "/" {
						tc.cause()
					}
				}),
				broken: func(w http.ResponseWriter, _ *http.Request) {
					http.Error(w, "a mistake", http.StatusInternalServerError)
				},
			})
			defer s.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/", strings.NewReader(secret))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+secret)
			req.Header.Set(HeaderRequestID, "r1")
			resp, err := s.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 500 || string(body) != "a mistake\n" || resp.Header.Get(HeaderRequestID) != "r1" || resp.Header.Get("X-Half") != "" || err != nil {
				t.Errorf("%d %v %s %v", resp.StatusCode, resp.Header, body, err)
			}
			lines := logs()
			if len(lines) != 1 {
				t.Fatalf("%d lines", len(lines))
			}
			got := lines[0]
			if got["event"] != "handler_panic" || got["request_id"] != "r1" || got["cause"] != tc.says || !strings.Contains(fmt.Sprint(got["stack"]), "TestPanics") {
				t.Errorf("%v", got)
			}
			if strings.Contains(fmt.Sprint(lines), secret) {
				t.Errorf("the log holds the secret: %v", lines)
			}
		})
	}
}

// Half an answer is cut off, so that nobody takes it for a whole one, and a
// handler that wants its connection closed gets that without a word.
func TestPanicsInTheMidst(t *testing.T) {
	log, logs := logged()
	i := &ingress{log: log, broken: func(http.ResponseWriter, *http.Request) { t.Error("a second answer") }}
	for n, next := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "half"); panic("x") },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("x") },
	} {
		i.next = next
		func() {
			defer func() {
				if cause, _ := recover().(error); !errors.Is(cause, http.ErrAbortHandler) {
					t.Errorf("%d: %v", n, cause)
				}
			}()
			i.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		}()
	}
	if n := len(logs()); n != 2 {
		t.Errorf("%d lines", n)
	}
}

// served runs f with a connection to one of the listeners, in the time of a
// synctest bubble.
func served(t *testing.T, handler http.HandlerFunc, f func(client net.Conn, answers *bufio.Reader)) {
	synctest.Test(t, func(*testing.T) {
		server := NewServer(Options{Name: "public listener", Handler: handler, Total: 10, PerNetwork: 10})
		conns, done := pipes.Listen(), make(chan struct{})
		go func() { defer close(done); _ = server.Serve(conns) }()
		client := conns.Dial()
		f(client, bufio.NewReader(client))
		_ = client.Close()
		_ = server.Close()
		<-done
		time.Sleep(24 * time.Hour)
	})
}

// A connection that a handler took over is none of the listener's any more, and after a mistake of that handler
// nobody else writes to it.
func TestHijacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged()
		end := make(chan struct{})
		broken := false
		l := pipes.Listen()
		server := NewServer(Options{Name: "test", Log: log, Total: 1, Broken: func(http.ResponseWriter, *http.Request) { broken = true }, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				return
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "mine")
			<-end
			panic("oops")
		})})
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
		one := l.Dial()
		_, _ = io.WriteString(one, "GET /mine HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := io.ReadFull(one, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		two := l.Dial()
		defer func() { _ = two.Close() }()
		_, _ = io.WriteString(two, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(two), nil); err != nil { //nolint:bodyclose // it has none
			t.Errorf("there is no room beside it: %v", err)
		}
		close(end)
		rest, err := io.ReadAll(one)
		synctest.Wait()
		if len(rest) > 0 || err != nil || broken {
			t.Errorf("%q, %v, %v", rest, err, broken)
		}
		if all := lines(); len(all) != 1 || all[0]["event"] != "handler_panic" {
			t.Errorf("%v", all)
		}
	})
}

// Who sends slowly, or nothing, or does not read, is cut off in time.
func TestSlowClients(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 8<<10)) }
	drip := func(c net.Conn, first, then string) {
		_, err := io.WriteString(c, first)
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(c, then)
		}
	}
	for name, tc := range map[string]struct {
		send  func(net.Conn)
		read  bool
		limit time.Duration
	}{
		"nothing":               {func(net.Conn) {}, true, headerTime},
		"header":                {func(c net.Conn) { drip(c, "GET / HTTP/1.1\r\nX:", "x") }, true, headerTime},
		"body that nobody asks": {func(c net.Conn) { drip(c, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n", "x") }, true, requestTime},
		"chunks": {func(c net.Conn) {
			drip(c, "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n")
		}, true, requestTime},
		"then idle":       {func(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") }, true, idleTime},
		"answer not read": {func(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") }, false, answerTime},
	} {
		served(t, page, func(client net.Conn, answers *bufio.Reader) {
			start := time.Now()
			go tc.send(client)
			if !tc.read {
				time.Sleep(tc.limit + time.Minute)
				if n, err := io.Copy(io.Discard, answers); n > 0 || err != nil {
					t.Errorf("%s: %d bytes are still there, %v", name, n, err)
				}
				return
			}
			_, _ = io.Copy(io.Discard, answers)
			if took := time.Since(start); took > tc.limit+5*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// What one answer was allowed does not count for the next on its connection.
func TestLimitsAreOfOneAnswer(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		time.Sleep(10 * time.Minute) // as a topic check takes at most
		_, _ = fmt.Fprintf(w, "%s %v", body, err)
	}
	served(t, slow, func(client net.Conn, answers *bufio.Reader) {
		for i := range 3 {
			go func() {
				_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
			}()
			if line, err := answers.ReadString('\n'); !strings.Contains(line, "100 Continue") {
				t.Fatal(i, line, err)
			}
			_, _ = answers.ReadString('\n')
			go func() { _, _ = io.WriteString(client, "ab") }()
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(i, err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "ab <nil>" || !mintedID.MatchString(resp.Header.Get(HeaderRequestID)) {
				t.Errorf("%d: %s %v", i, body, resp.Header)
			}
			time.Sleep(idleTime - time.Second)
		}
	})
}

// A request whose end a proxy in front may see elsewhere is the last of its
// connection: one with a chunked body, since a Content-Length may stand beside, and
// every one of HTTP/1.0, in which net/http overlooks Transfer-Encoding and takes the
// chunks for the next request (RFC 9112, 6.1).
func TestAmbiguousRequestIsTheLast(t *testing.T) {
	const smuggled = "POST /smuggled HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
	for name, request := range map[string]string{
		"both lengths":           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"HTTP/1.0 chunked":       "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"HTTP/1.0, both lengths": "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"HTTP/1.0, other coding": "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: xchunked\r\n\r\n" + smuggled,
		"HTTP/1.0 without Host":  "GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
	} {
		for what, end := range map[string]http.HandlerFunc{
			"answered": func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Length", "2")
				_, _ = io.WriteString(w, "ok")
			},
			"not read": func(http.ResponseWriter, *http.Request) {},
			"broken":   func(http.ResponseWriter, *http.Request) { panic("x") },
		} {
			n := 0
			count := func(w http.ResponseWriter, r *http.Request) { n++; end(w, r) }
			served(t, count, func(client net.Conn, answers *bufio.Reader) {
				go func() { _, _ = io.WriteString(client, request) }()
				all, _ := io.ReadAll(answers)
				if n != 1 || strings.Count(string(all), "HTTP/1.") != 1 || !strings.Contains(string(all), "Connection: close\r\n") {
					t.Errorf("%s, %s: %d requests, answered %s", name, what, n, all)
				}
			})
		}
	}
}

// OPTIONS * is the handler's matter as everything is; net/http would answer it
// without any of the headers.
func TestOptionsOfTheServer(t *testing.T) {
	served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, func(client net.Conn, answers *bufio.Reader) {
		go func() { _, _ = io.WriteString(client, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n") }()
		if line, err := answers.ReadString('\n'); !strings.Contains(line, "418") {
			t.Error(line, err)
		}
	})
}

// Whatever strangers make net/http say is said for a while, and then seldom.
func TestErrorsOfConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logged()
		server := NewServer(Options{Name: "public listener", Total: 1, PerNetwork: 1, Log: log})
		for range 10 * errorsAtOnce {
			server.ErrorLog.Printf("http: TLS handshake error from %s", "192.0.2.1")
		}
		if n := len(logs()); n != errorsAtOnce {
			t.Errorf("%d lines", n)
		}
		time.Sleep(errorsEvery)
		server.ErrorLog.Print("another")
		server.ErrorLog.Print("another")
		if all := logs(); len(all) != errorsAtOnce+1 || all[errorsAtOnce]["msg"] != "another" {
			t.Errorf("%d lines", len(all))
		}
	})
}
