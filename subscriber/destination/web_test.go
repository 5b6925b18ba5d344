package destination

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/subscriber"
)

// doer answers requests without a network.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func response(status int, header http.Header, body io.Reader) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body), ContentLength: -1}
}

func testCopy(d doer, parallel int) *Copy {
	o := Options{Source: "http://h/", Client: d, Parallel: parallel}
	c := &Copy{o: o, web: newHosts(&o)}
	c.fetcher = &fetcher{web: c.web}
	c.reconciler = newReconciler(&c.o, nil, c.fetcher)
	return c
}

// drip gives a byte, and then waits.
type drip struct {
	ctx   context.Context
	pause time.Duration
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.pause):
		p[0] = 'x'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// A Source that moves to https at the same host is followed, between the ports of the two schemes and nowhere else.
func TestSameHostByHTTPS(t *testing.T) {
	for _, c := range []struct {
		source, to string
		follows    bool
	}{
		{"http://h/", "https://h/x", true},
		{"HTTP://H:80/", "https://h:443/x", true},
		{"http://[::1]/", "https://[::1]/x", true},
		{"http://h/", "https://h:8443/x", false},
		{"http://h:8080/", "https://h/x", false},
		{"http://h/", "https://sub.h/x", false},
		{"https://h:80/", "https://h/x", false},
		{"https://h/", "http://h/x", false},
	} {
		d := doer(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/x" {
				return response(http.StatusOK, nil, strings.NewReader("")), nil
			}
			return response(http.StatusMovedPermanently, http.Header{"Location": {c.to}}, strings.NewReader("")), nil
		})
		resp, err := newHosts(&Options{Source: c.source, Client: d, Parallel: 1}).ask(t.Context(), c.source, nil)
		if c.follows != (err == nil) {
			t.Errorf("%s to %s: %v", c.source, c.to, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}

// An answer that does not come, stalls, or drips ends in bounded time.
func TestSlowAnswersEnd(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		most  time.Duration
	}{
		"stalls": {time.Hour, stallTimeout}, "drips": {time.Second, 2 * stallTimeout}, "drips slowly": {29 * time.Second, 2 * stallTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := testCopy(func(r *http.Request) (*http.Response, error) {
					return response(200, nil, drip{r.Context(), c.pause}), nil
				}, 1)
				began := time.Now()
				resp, err := d.web.ask(t.Context(), "http://h/a", http.Header{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if took := time.Since(began); !errors.Is(err, web.ErrSlow) || took > c.most {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := testCopy(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, 1)
		began := time.Now()
		if _, err := d.web.ask(t.Context(), "http://h/a", http.Header{}); !errors.Is(err, web.ErrSlow) || time.Since(began) != stallTimeout { //nolint:bodyclose // there is none
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Time in which nobody reads is not the server's.
func TestSlowReadersAreNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testCopy(func(*http.Request) (*http.Response, error) { return response(200, nil, strings.NewReader("abc")), nil }, 1)
		resp, err := d.web.ask(t.Context(), "http://h/a", http.Header{})
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		for range 3 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(resp.Body, one); err != nil {
				t.Error(err)
			}
		}
		_ = resp.Body.Close()
	})
}

// A host that asks to be left alone is, by all, for as long as it asks; then it gets
// half of the requests at once.
func TestRetryAfterHoldsTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var first time.Time
		d := testCopy(func(*http.Request) (*http.Response, error) {
			if asked.Add(1) == 1 {
				first = time.Now()
				return response(429, http.Header{"Retry-After": {"90"}}, strings.NewReader("")), nil
			}
			if wait := time.Since(first); wait < 90*time.Second {
				t.Errorf("asked again after %v", wait)
			}
			return response(200, nil, strings.NewReader("")), nil
		}, 8)
		get := func() error {
			resp, err := patiently(t.Context(), func() (*http.Response, error) { return d.web.ask(t.Context(), "http://h/a", http.Header{}) })
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		if err := get(); err != nil {
			t.Error(err)
		}
		h := d.web.hosts["h:80"]
		if h.kept+h.surplus != 4 {
			t.Errorf("%d slots are kept back", h.kept+h.surplus)
		}
		for range 200 {
			if err := get(); err != nil {
				t.Fatal(err)
			}
		}
		if h.kept+h.surplus != 0 || len(h.slots) != 8 {
			t.Errorf("%d slots are kept back, %d are free", h.kept+h.surplus, len(h.slots))
		}
	})
}

// What one host asks for, or that it does not answer, is of no matter to another.
func TestHostsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testCopy(func(r *http.Request) (*http.Response, error) {
			switch r.URL.Host {
			case "h":
				return response(503, http.Header{"Retry-After": {"200"}}, strings.NewReader("")), nil
			case "dead":
				return nil, errors.New("no route")
			}
			return response(200, nil, strings.NewReader("")), nil
		}, 4)
		d.web.allowed["dead"], d.web.allowed["well"] = true, true
		var status *subscriber.StatusError
		if _, err := d.web.ask(t.Context(), "http://h/a", http.Header{}); !errors.As(err, &status) { //nolint:bodyclose // there is none
			t.Error(err)
		}
		for range 100 {
			_, _ = d.web.ask(t.Context(), "http://dead/a", http.Header{}) //nolint:bodyclose // there is none
		}
		began := time.Now()
		for range 100 {
			resp, err := d.web.ask(t.Context(), "http://well/a", http.Header{})
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		if waited := time.Since(began); waited != 0 || len(d.web.hosts["well:80"].slots) != 4 {
			t.Errorf("it waited %v, and has %d slots", waited, len(d.web.hosts["well:80"].slots))
		}
	})
}

// A host that answers again is as one that always did.
func TestHostsRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := true
		asked := 0
		d := testCopy(func(*http.Request) (*http.Response, error) {
			asked++
			if bad {
				return nil, errors.New("no route")
			}
			return response(200, nil, strings.NewReader("")), nil
		}, 4)
		ask := func(n int) (failed int) {
			for range n {
				resp, err := d.web.ask(t.Context(), "http://h/a", http.Header{})
				if err != nil {
					failed++
					continue
				}
				_ = resp.Body.Close()
			}
			return failed
		}
		for range 10 { // never as many in a row as make it rest
			bad = true
			ask(27)
			bad = false
			if n := ask(1); n != 0 {
				t.Fatalf("it is left alone after %d questions", asked)
			}
		}
		bad = true
		ask(28)
		time.Sleep(hostRest)
		bad = false
		if n := ask(100); n != 0 {
			t.Errorf("%d of 100 were not asked after the rest", n)
		}
	})
}

// A host that does not answer is not asked a million times.
func TestDeadHostIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		d := testCopy(func(*http.Request) (*http.Response, error) { asked++; return nil, errors.New("no route") }, 4)
		for range 1000 {
			_, _ = d.web.ask(t.Context(), "http://h/a", http.Header{}) //nolint:bodyclose // there is none
		}
		if asked != 28 {
			t.Errorf("asked %d times", asked)
		}
		var away *awayError
		if _, err := d.web.ask(t.Context(), "http://h/a", http.Header{}); !errors.As(err, &away) { //nolint:bodyclose // there is none
			t.Error(err)
		}
		time.Sleep(hostRest)
		_, _ = d.web.ask(t.Context(), "http://h/a", http.Header{}) //nolint:bodyclose // there is none
		if asked != 29 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// No host gets more than Parallel requests at once.
func TestParallelIsPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		d := testCopy(func(*http.Request) (*http.Response, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return response(200, nil, strings.NewReader("")), nil
		}, 3)
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				resp, err := d.web.ask(t.Context(), "http://h/a", http.Header{})
				if err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestPassing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&subscriber.StatusError{Status: 404}, false},
		{&subscriber.StatusError{Status: 410}, false},
		{&subscriber.StatusError{Status: 429}, true},
		{&subscriber.StatusError{Status: 500}, true},
		{&HostError{"h"}, false},
		{&awayError{}, false},
		{&mismatchError{what: "hash"}, false},
		{&mismatchError{what: "cut off", short: true}, true},
		{syscall.ENOSPC, false},
		{web.ErrSlow, true},
		{io.ErrUnexpectedEOF, true},
	} {
		if got := passing(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if !fatal(&errorsJoined{}) || fatal(io.EOF) {
		t.Error("fatal")
	}
}

type errorsJoined struct{}

func (*errorsJoined) Error() string { return "the disk is full" }
func (*errorsJoined) Unwrap() error { return syscall.ENOSPC }

// A token that was given for a name goes over plain http only to the Source that is
// called so.
// A token that changes is sent from the next request on, and to its host alone.
func TestTokensChange(t *testing.T) {
	now := "first"
	w := newHosts(&Options{
		Source: "https://h/", Parallel: 1, Tokens: map[string]string{"h": "of the start"},
		Token: func(host string) string { return host + " " + now },
	})
	for _, now = range []string{"first", "second"} {
		for raw, want := range map[string]string{"https://h/x": "h " + now, "https://other/": ""} {
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.token(u); got != want {
				t.Errorf("%s: %q, want %q", raw, got, want)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	var got string
	o := Options{Source: "https://h/", Parallel: 1, Hosts: []string{"h", "other", "[2001:DB8:0::1]"}, Tokens: map[string]string{"H": "secret", "other:8080": "theirs", "[2001:db8:0::1]:08443": "six"}}
	o.Client = doer(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Authorization")
		return response(200, nil, strings.NewReader("")), nil
	})
	w := newHosts(&o)
	for _, c := range []struct{ method, url, want string }{
		{"GET", "https://h/x", "Bearer secret"},
		{"GET", "https://h:8443/x", "Bearer secret"},
		{"GET", "http://h/x", ""},
		{"POST", "https://h/hub", ""},
		{"GET", "http://other:8080/", "Bearer theirs"},
		{"GET", "http://other/", ""},
		{"GET", "https://other/", ""},
		{"GET", "https://[2001:db8::1]:8443/", "Bearer six"},
		{"GET", "https://[2001:db8:0:0::1]:8443/", "Bearer six"},
		{"GET", "https://[2001:db8:0:0::1]/", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = "none"
		resp, err := w.Do(req)
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v", c.method, c.url, got, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		if req.Header.Get("Authorization") != "" {
			t.Error("the request of the caller was changed")
		}
	}
}

// A resource is worked on by one at a time, and whoever waits for it ends with ctx.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := claims{}
		if !c.acquire(t.Context(), "a") || !c.acquire(t.Context(), "b") {
			t.Fatal("not taken")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c.acquire(ctx, "a") {
			t.Error("taken twice")
		}
		go func() { time.Sleep(time.Minute); c.release("a") }()
		if !c.acquire(t.Context(), "a") {
			t.Error("not taken after it was given")
		}
	})
}
