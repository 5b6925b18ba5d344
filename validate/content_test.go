package validate

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// HUB-53: the comparison of what was posted with what the topic serves.
func TestContent(t *testing.T) {
	body := bytes.Repeat([]byte("<urlset/>"), 10_000)
	wrong := append(bytes.Clone(body), 'x')
	last := bytes.Clone(body)
	last[len(last)-1] = 'x'

	mux := http.NewServeMux()
	serve := func(path string, b []byte, named bool) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if named {
				w.Header().Set("Link", links("http://"+r.Host+"/"+strings.Split(r.URL.Path, "/")[1]+"/", hubURL))
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			_, _ = w.Write(b)
		})
	}
	serve("/same/{$}", body, true)
	serve("/same/anonymous", body, false)
	serve("/unnamed/{$}", body, false)
	serve("/longer/{$}", wrong, true)
	serve("/other/{$}", last, true)
	serve("/other/copy", body, true)
	serve("/other/deep/copy.xml", body, true)
	serve("/other/anonymous", body, false)
	serve("/other/old", last, true)
	serve("/empty/{$}", nil, true)
	relative := func(path, self string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", links(self, hubURL))
			_, _ = w.Write(body)
		})
	}
	relative("/other/deep/up", "../")
	relative("/other/deep/here", "./")
	mux.HandleFunc("/other/moved", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", links("http://"+r.Host+"/other/", hubURL))
		http.Redirect(w, r, "/other/copy", http.StatusFound)
	})
	mux.HandleFunc("/other/down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/down/{$}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	mux.HandleFunc("/moved/{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/same/", http.StatusFound) })
	mux.HandleFunc("/endless/{$}", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(body); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/cut/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		_, _ = w.Write(body[:len(body)-1])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	c := checker(t, TopicOptions{})

	for _, tc := range []struct{ topic, location, want, says string }{
		{"/same/", "", "good", ""},
		{"/same/", "/same/", "good", ""},
		{"/unnamed/", "", "good", ""}, // its links are the topic check's business
		{"/longer/", "", "mismatch", "90001 bytes"},
		{"/other/", "", "mismatch", "other bytes"},
		{"/empty/", "", "mismatch", "0 bytes"},
		{"/missing/", "", "mismatch", "404"},
		{"/moved/", "", "mismatch", "redirect"},
		{"/down/", "", "unsure", "429"},
		{"/endless/", "", "mismatch", "other bytes"},
		{"/cut/", "", "unsure", "broke off"},

		{"/other/", "/other/copy", "good", ""},
		{"/other/", "/other/deep/copy.xml", "good", ""},
		{"/other/", "/other/deep/up", "good", ""}, // relative to the copy
		{"/other/", "/other/deep/here", "mismatch", `as rel="self"`},
		{"/other/", "/other/anonymous", "mismatch", `rel="self"`},
		{"/other/", "/other/old", "mismatch", "other bytes"},
		{"/other/", "/other/missing", "mismatch", "404"},
		{"/other/", "/other/moved", "mismatch", "redirect"},
		{"/other/", "/other/down", "unsure", "503"},
		{"/other/", "/same/", "mismatch", "not a URL below"},
		{"/same/", "/other/down", "good", ""},     // no copy, and the topic itself serves it
		{"/same/", "/same/anonymous", "good", ""}, // a copy that says nothing, likewise
	} {
		location := tc.location
		if location != "" {
			location = srv.URL + location
		}
		err := c.Content(t.Context(), srv.URL+tc.topic, location, body)
		if outcome(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s with %q: %v, want %s with %q", tc.topic, tc.location, err, tc.want, tc.says)
		}
	}
	if err := checker(t, TopicOptions{Client: new(http.Client)}).Content(t.Context(), srv.URL+"/moved/", "", body); outcome(err) != "mismatch" {
		t.Errorf("a redirect, with net/http: %v", err)
	}
	if err := c.Content(t.Context(), "http://169.254.169.254/", "", body); outcome(err) != "denied" {
		t.Errorf("an address that is never called: %v", err)
	}
}

func TestCheckCopy(t *testing.T) {
	for _, tc := range []struct {
		topic, location string
		ok              bool
	}{
		{"https://example.org/changes/", "https://example.org/changes/2026/1.xml", true},
		{"https://example.org/changes", "https://example.org/changes/1.xml", true},
		{"https://example.org", "https://example.org/1.xml", true},
		{"https://example.org/changes/", "https://example.org/changes/%C3%A9.xml", true},
		{"https://example.org/changes/", "https://example.org/changes/...xml", true},
		{"https://example.org/changes/", "https://example.org/changes/", false},
		{"https://example.org/changes", "https://example.org/changes/", false},
		{"https://example.org/changes", "https://example.org/changes.xml", false},
		{"https://example.org", "https://example.org.evil.example/1.xml", false},
		{"https://example.org", "https://example.org@evil.example/1.xml", false},
		{"https://example.org/changes/", "/changes/1.xml", false},
		{"https://example.org/changes/", "1.xml", false},
		{"https://example.org/changes/", "http://example.org/changes/1.xml", false},
		{"https://example.org/changes/", "https://EXAMPLE.org/changes/1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/1.xml?x", false},
		{"https://example.org/changes/", "https://example.org/changes/?", false},
		{"https://example.org/changes/", "https://example.org/changes/1.xml#x", false},
		{"https://example.org/changes/", "https://example.org/changes/../1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/x/..", false},
		{"https://example.org/changes/", "https://example.org/changes/./1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/%2e%2E/1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/.%2e/1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/..%2f1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/a%2Fb", false},
		{"https://example.org/changes/", "https://example.org/changes/a%5Cb", false},
		{"https://example.org/changes/", `https://example.org/changes/..\1.xml`, false},
		{"https://example.org/changes/", "https://example.org/changes/%252e%252E/1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/..%252f1.xml", false},
		{"https://example.org/changes/", "https://example.org/changes/50%25.xml", true},
		{"https://example.org/changes/", "https://example.org/changes/%zz", false},
		{"https://example.org/changes/", "https://example.org/changes/a b", false},
		{"https://example.org/changes?set=1", "https://example.org/changes?set=1/1.xml", false},
	} {
		if err := checkCopy(tc.topic, tc.location); (err == nil) != tc.ok || err != nil && outcome(err) != "mismatch" {
			t.Errorf("%s below %s: %v, want ok = %t", tc.location, tc.topic, err, tc.ok)
		}
	}
}

// A topic's owner controls whatever passes for a copy: the URL starts with the
// topic and stays below it however it is read.
func FuzzCheckCopy(f *testing.F) {
	for _, s := range []string{"https://example.org/changes/1.xml", "https://example.org/changes/%2e./x", "https://example.org/changes/..%5c", "https://example.org/changes/%252e%252e/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, location string) {
		if checkCopy("https://example.org/changes", location) != nil {
			return
		}
		u, err := canonical(location)
		for _, read := range []string{u.path.strict, u.path.loose} {
			if err != nil || u.scheme != "https" || u.host != "example.org:443" || !strings.HasPrefix(read, "/changes/") || len(read) == len("/changes/") {
				t.Errorf("%q passes as a copy and is %+v, %v", location, u, err)
			}
		}
	})
}

// drip sends a byte and then nothing, until its request is cancelled.
type drip struct {
	ctx   context.Context
	left  int
	pause time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(d.pause)
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	d.left--
	p[0] = 'x'
	return 1, nil
}

func (d *drip) Close() error { return nil }

// blocked is a body that never comes, until its request is cancelled.
type blocked struct{ done <-chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.done
	return 0, io.ErrUnexpectedEOF
}

func (b blocked) Close() error { return nil }

type blockedDoer struct{}

func (blockedDoer) Do(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: blocked{req.Context().Done()}, ContentLength: -1, Request: req}, nil
}

// A body that stops coming is given up after the time limit; one that comes
// slowly but steadily is not.
func TestContentIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := checker(t, TopicOptions{Client: blockedDoer{}, Timeout: 4 * time.Second}).Content(t.Context(), fakeTopic, "", make([]byte, 100*slowest))
		if outcome(err) != "unsure" || time.Since(start) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		body := []byte("xxxxxxxxxx")
		d := goodDoer()
		d.body = func(ctx context.Context) io.ReadCloser { return &drip{ctx, len(body), 100 * time.Millisecond} }
		if err := checker(t, TopicOptions{Client: d, Timeout: 4 * time.Second}).Content(t.Context(), fakeTopic, "", body); err != nil {
			t.Errorf("a slow one: %v", err)
		}
		d.body = func(ctx context.Context) io.ReadCloser { return &drip{ctx, len(body), time.Second} }
		start = time.Now()
		err = checker(t, TopicOptions{Client: d, Timeout: 4 * time.Second}).Content(t.Context(), fakeTopic, "", body)
		if outcome(err) != "unsure" || time.Since(start) > 5*time.Second {
			t.Errorf("one that is slower than the slowest: %v after %v", err, time.Since(start))
		}
	})
}

// Fetching what does not name this hub uses the budget up.
func TestContentKeepsToTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.header = nil
		c := checker(t, TopicOptions{Client: d, Budget: egress.NewBudget(1)})
		for _, want := range []string{"mismatch", "wait"} {
			if err := c.Content(t.Context(), fakeTopic, "", []byte("x")); outcome(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
