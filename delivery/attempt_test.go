package delivery

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// exchangeWith makes one attempt at a callback. answer answers it at a listener, and the URL is
// made from the address of that listener. It returns what came over the wire.
func exchangeWith(t *testing.T, o Options, path, answer string, x exchange) (head []string, body string, out outcome) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a listener of the test
	type request struct {
		head []string
		body string
	}
	got := make(chan request, 2)
	go func() {
		defer close(got)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // of the test
		r := bufio.NewReader(conn)
		var req request
		size := 0
		for {
			line, err := textproto.NewReader(r).ReadLine()
			if err != nil || line == "" {
				break
			}
			req.head = append(req.head, line)
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &size)
		}
		b := make([]byte, size)
		_, _ = io.ReadFull(r, b)
		req.body = string(b)
		got <- req
		_, _ = io.WriteString(conn, answer)
	}()
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	m := newMemory()
	o.Journal, o.Subscriptions, o.Client = m, m, cmp.Or[Doer](o.Client, client)
	o.HubURL = "https://hub.example/"
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	x.callback = "http://" + l.Addr().String() + path
	out = d.sender.client.attempt(t.Context(), x)
	req := <-got
	return req.head, req.body, out
}

func bodyOf(topicURL, content, mediaType string, links ...string) *body {
	e := journal.Entry{MediaType: mediaType, Links: links, Body: []byte(content), Size: int64(len(content))}
	return &body{
		key: bodyKey{topic: &topic{url: topicURL}}, entry: e, id: e.ID.String(),
		head: headOf(topicURL, "https://hub.example/", "rshub/1.2.3 (+https://hub.example/)", &e),
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// A delivery on the wire, to the byte (HUB-40 to HUB-45; contract, section 3).
func TestWire_HUB40_HUB41_HUB42_HUB43_HUB44_HUB45(t *testing.T) {
	content := "<urlset>\r\n\u00e4 \x00</urlset>\n"
	x := exchange{
		secret: "s3cret", attempt: 3,
		body: bodyOf("https://source.example/a?x=1,2;3", content, "application/xml;  Charset=\"UTF-8\"",
			`<https://source.example/capabilitylist.xml>; rel="resourcesync"`),
	}
	head, body, out := exchangeWith(t, Options{}, "/cb%2Fx//y?b=2&a=1&a=1&&c", ok, x)
	if out.Status != 200 || out.err != nil {
		t.Fatalf("%+v", out)
	}
	if body != content {
		t.Errorf("body %q", body)
	}
	if head[0] != "POST /cb%2Fx//y?b=2&a=1&a=1&&c HTTP/1.1" {
		t.Errorf("request line %q", head[0])
	}
	want := []string{
		fmt.Sprintf("Content-Length: %d", len(content)),
		`Content-Type: application/xml;  Charset="UTF-8"`,
		`Link: <https://source.example/a?x=1,2;3>; rel="self", <https://hub.example/>; rel="hub", <https://source.example/capabilitylist.xml>; rel="resourcesync"`,
		"RSHub-Attempt: 3",
		"User-Agent: rshub/1.2.3 (+https://hub.example/)",
		"Webhook-Id: 00000000-0000-0000-0000-000000000000",
		"X-Hub-Signature: " + websub.SHA256.Sign("s3cret", []byte(content)),
	}
	for _, w := range want {
		if !strings.Contains("\n"+strings.Join(head, "\n")+"\n", "\n"+w+"\n") {
			t.Errorf("no line %q in\n%s", w, strings.Join(head, "\n"))
		}
	}
	if len(head) != len(want)+2 { // and the request line, and Host
		t.Errorf("more than was asked for:\n%s", strings.Join(head, "\n"))
	}
}

// The signature has the method that was set, in lower-case hexadecimal; without
// a secret there is none (HUB-45).
func TestSignature_HUB45(t *testing.T) {
	for _, m := range []websub.SignatureMethod{websub.SHA1, websub.SHA256, websub.SHA384, websub.SHA512} {
		head, body, _ := exchangeWith(t, Options{Signature: m}, "/", ok, exchange{secret: "k", attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
		for _, line := range head {
			if value, found := strings.CutPrefix(line, "X-Hub-Signature: "); found {
				if err := websub.VerifySignature(value, "k", []byte(body), m); err != nil || value != strings.ToLower(value) {
					t.Errorf("%s: %q: %v", m, value, err)
				}
			}
		}
		if !strings.Contains(strings.Join(head, "\n"), "\nX-Hub-Signature: "+string(m)+"=") {
			t.Errorf("%s: no signature", m)
		}
	}
	head, _, _ := exchangeWith(t, Options{}, "/", ok, exchange{attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
	if strings.Contains(strings.Join(head, "\n"), "X-Hub-Signature") {
		t.Error("signed without a secret")
	}
}

// The callback's path and query go out as they came in, also where net/http
// would encode them otherwise (HUB-40).
func TestCallbackIsVerbatim_HUB40(t *testing.T) {
	for _, path := range []string{
		"", "/", "/?", "?q=1", "/a b"[:2], "/x|y^z?{a}=|", "/%7e%41/%zz"[:7], "/a;b=c,d?e;f", "//x", "//x|y?z", "/a/../b/./c", "/?a=%20+&a=b?c",
	} {
		head, _, out := exchangeWith(t, Options{}, path, ok, exchange{attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
		if out.Status != 200 {
			t.Errorf("%q: %+v", path, out)
			continue
		}
		want := path
		if !strings.HasPrefix(want, "/") {
			want = "/" + want
		}
		got, _ := strings.CutSuffix(strings.TrimPrefix(head[0], "POST "), " HTTP/1.1")
		if i := strings.Index(got, "://"); i >= 0 { // the absolute form says the same
			got = got[i+3:]
			got = got[strings.IndexByte(got, '/'):]
		}
		if got != want {
			t.Errorf("callback %q was asked for as %q", path, head[0])
		}
	}
}

// What each answer means (HUB-46, HUB-47). A redirect is an answer like any other, and is not
// followed.
func TestAnswers_HUB46_HUB47(t *testing.T) {
	for answer, want := range map[string]Result{
		"HTTP/1.1 204 No Content\r\n\r\n":                                                     {Status: 204},
		"HTTP/1.1 299 Whatever\r\nContent-Length: 5\r\n\r\nhello":                             {Status: 299},
		"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + strings.Repeat("x", 100_000): {Status: 200},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbroken":                         {Status: 200},
		"HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n":             {Status: 307},
		"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n":                                      {Status: 410},
		"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n":                  {Status: 503, RetryAfter: 2 * time.Minute},
		"HTTP/1.1 200 OK\r\nConte":                                                            {Status: journal.StatusError},
		"":                                                                                    {Status: journal.StatusError},
		"220 smtp.example ESMTP\r\n":                                                          {Status: journal.StatusError},
	} {
		_, _, out := exchangeWith(t, Options{}, "/", answer, exchange{attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
		if out.Result != want {
			t.Errorf("%.40q: %+v, want %+v", answer, out, want)
		}
	}
	// Nor does an *http.Client follow it.
	moved := "HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
	_, _, out := exchangeWith(t, Options{Client: new(http.Client)}, "/", moved, exchange{attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
	if out.Status != 307 {
		t.Errorf("with net/http: %+v", out.Result)
	}
}

func TestNoConnection(t *testing.T) {
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	// Nothing listens at the far end of a connection, and nothing else can.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	b := newBed(t, func(o *Options) { o.Client = client })
	for callback, want := range map[string]int{
		"http://" + conn.LocalAddr().String() + "/?token=hidden": journal.StatusConnect,
		"http://169.254.169.254/latest/meta?token=hidden":        journal.StatusRefused,
		"http://%zz/hidden": journal.StatusError,
		"http://no-such-host.invalid./callback?token=hidden": journal.StatusConnect,
	} {
		out := b.d.sender.client.attempt(t.Context(), exchange{callback: callback, attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
		if out.Status != want || out.err == nil || strings.Contains(out.err.Error(), "hidden") {
			t.Errorf("%s: %+v", callback, out)
		}
	}
}

// The limits of an exchange: the timeout without progress, and for the whole exchange the timeout
// plus the time of the body at 128 KiB/s.
func TestExchangeLimits(t *testing.T) {
	const mib = 1 << 20 // 8 s at 128 KiB/s
	// takesBody reads the body this much at a time, once a second.
	takesBody := func(step int) callbackFunc {
		return func(r *http.Request) (*http.Response, error) {
			for p := make([]byte, step); ; {
				if _, err := io.ReadFull(r.Body, p); err != nil {
					return status(200), nil
				}
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return nil, context.Cause(r.Context())
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		do     callbackFunc
		status int
		after  time.Duration
	}{
		"never answers":            {func(r *http.Request) (*http.Response, error) { return hangs(r, nil) }, journal.StatusTimeout, 5 * time.Second},
		"answers in time":          {func(*http.Request) (*http.Response, error) { time.Sleep(4 * time.Second); return status(200), nil }, 200, 4 * time.Second},
		"takes the body, slowly":   {takesBody(mib / 12), 200, 12 * time.Second},
		"takes the body, too slow": {takesBody(mib / 20), journal.StatusTimeout, 13 * time.Second},
		"answer drips":             {func(r *http.Request) (*http.Response, error) { return drips(r, nil) }, 200, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, func(o *Options) { o.Timeout, o.Client = 5*time.Second, over(tc.do) })
			x := exchange{callback: cb(0), attempt: 1, body: bodyOf(topicA, strings.Repeat("x", mib), "text/plain")}
			out := b.d.sender.client.attempt(t.Context(), x)
			if out.Status != tc.status || out.duration != tc.after {
				t.Errorf("%s: %+v, want status %d after %v", name, out, tc.status, tc.after)
			}
			var slow *post.SlowError
			if tc.status < 0 && !errors.As(out.err, &slow) {
				t.Errorf("%s: error %v", name, out.err)
			}
		})
	}
}

type callbackFunc func(*http.Request) (*http.Response, error)

func (f callbackFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// Of an answer at most 4 KiB are read, and it is closed (HUB-46).
func TestAnswerIsNotReadOn_HUB46(t *testing.T) {
	flood := &flooding{}
	b := newBed(t, func(o *Options) {
		o.Client = over(callbackFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, ContentLength: -1, Body: flood}, nil
		}))
	})
	out := b.d.sender.client.attempt(t.Context(), exchange{callback: cb(0), attempt: 1, body: bodyOf(topicA, "x", "text/plain")})
	if out.Status != 200 || flood.read > readLimit || !flood.closed {
		t.Errorf("%+v, %d bytes were read, closed %v", out, flood.read, flood.closed)
	}
}

type flooding struct {
	read   int
	closed bool
}

func (f *flooding) Read(p []byte) (int, error) {
	f.read += len(p)
	return len(p), nil
}

func (f *flooding) Close() error {
	f.closed = true
	return nil
}

// A body can be sent again on another connection, whole.
func TestBodyCanBeSentAgain(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	b := newBed(t, func(o *Options) {
		o.Client = over(callbackFunc(func(r *http.Request) (*http.Response, error) {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			again, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			if got, err := io.ReadAll(again); err != nil || !bytes.Equal(got, content) {
				return nil, errors.New("not the same")
			}
			return status(200), nil
		}))
	})
	if out := b.d.sender.client.attempt(t.Context(), exchange{callback: cb(0), attempt: 1, body: bodyOf(topicA, string(content), "text/plain")}); out.Status != 200 {
		t.Errorf("%+v", out)
	}
}
