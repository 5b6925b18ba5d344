package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
)

// fetch asks a topic and reads what it serves.
func fetch(ctx context.Context, c *TopicChecker, topic string) (body string, f Fetched, err error) {
	if f, err = c.Fetch(ctx, topic); err != nil {
		return "", f, err
	}
	defer func() { _ = f.Body.Close() }()
	b, err := io.ReadAll(f.Body)
	return string(b), f, err
}

// HUB-60, HUB-61: one request, whose answer says both what there is and whose it
// is.
func TestFetch_HUB60_HUB61(t *testing.T) {
	named := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", links("http://"+r.Host+r.URL.Path, hubURL))
	}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		require string // the outcome with each mode
		warn    string
		off     string
		status  int
		says    string
	}{
		{"it names itself and this hub", func(w http.ResponseWriter, r *http.Request) {
			named(w, r)
			w.Header().Set("Content-Type", `text/plain; charset="x"`)
			_, _ = io.WriteString(w, "content")
		}, "good", "good", "good", 200, "content"},
		{"another hub", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", links("http://"+r.Host+r.URL.Path, "https://other.example/"))
			_, _ = io.WriteString(w, "content")
		}, "denied", "good", "good", 200, hubURL},
		{"no links", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }, "denied", "good", "good", 200, `rel="self"`},
		{"another self", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", links("https://other.example/", hubURL))
		}, "denied", "good", "good", 200, "https://other.example/"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			named(w, r)
			http.Redirect(w, r, "/other", http.StatusFound)
		}, "denied", "denied", "denied", 302, "redirect"},
		{"gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "denied", "denied", "denied", 410, "410"},
		{"in trouble", func(w http.ResponseWriter, r *http.Request) {
			named(w, r)
			w.WriteHeader(http.StatusBadGateway)
		}, "unsure", "unsure", "unsure", 502, "502"},
		{"asked too often", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "unsure", "unsure", "unsure", 429, "429"},
		{"a part", func(w http.ResponseWriter, r *http.Request) {
			named(w, r)
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "con")
		}, "unsure", "unsure", "unsure", 206, "206"},
		{"broken off", func(w http.ResponseWriter, r *http.Request) {
			named(w, r)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "content")
		}, "unsure", "unsure", "unsure", 200, "after 7 bytes"},
	} {
		for mode, want := range map[TopicMode]string{TopicRequire: tc.require, TopicWarn: tc.warn, TopicOff: tc.off} {
			t.Run(fmt.Sprintf("%s, %s", tc.name, mode), func(t *testing.T) {
				var requests, warned atomic.Int32
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					if r.Method != http.MethodGet || r.Header.Get("Accept-Encoding") != "identity" {
						t.Errorf("%s, Accept-Encoding %q", r.Method, r.Header.Get("Accept-Encoding"))
					}
					tc.handler(w, r)
				}))
				defer srv.Close()
				c := checker(t, TopicOptions{Mode: mode, Warn: func(string, error) { warned.Add(1) }})
				body, f, err := fetch(t.Context(), c, srv.URL+"/topic")
				if outcome(err) != want || f.Status != tc.status || requests.Load() != 1 {
					t.Fatalf("%v (want %s), status %d after %d requests", err, want, f.Status, requests.Load())
				}
				if err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v does not say %q", err, tc.says)
				}
				if err == nil && tc.require == "good" && (body != tc.says || f.Header.Get("Content-Type") != `text/plain; charset="x"`) {
					t.Errorf("%q, %v", body, f.Header)
				}
				if loud := mode == TopicWarn && tc.require == "denied" && tc.warn == "good"; loud != (warned.Load() == 1) {
					t.Errorf("%d warnings", warned.Load())
				}
			})
		}
	}
}

func TestFetchOfWhatCannotBeAsked(t *testing.T) {
	guarded, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := checker(t, TopicOptions{Client: guarded})
	if _, f, err := fetch(t.Context(), c, "http://127.0.0.1:8/"); outcome(err) != "denied" || f.Status != 0 {
		t.Errorf("a private address: %v, %d", err, f.Status)
	}
	srv := httptest.NewServer(nil)
	srv.Close()
	if _, _, err := fetch(t.Context(), checker(t, TopicOptions{}), srv.URL); outcome(err) != "unsure" || !strings.Contains(err.Error(), "could not be reached") {
		t.Errorf("nobody there: %v", err)
	}
}

// No flag opens a port of another protocol, so the error does not say that --allow-cidr does.
func TestPortOfAnotherProtocol(t *testing.T) {
	_, _, err := fetch(t.Context(), checker(t, TopicOptions{}), "http://127.0.0.1:6379/")
	if outcome(err) != "denied" || !strings.Contains(err.Error(), "the port of 127.0.0.1:6379") || strings.Contains(err.Error(), "allow-cidr") {
		t.Error(err)
	}
}

// What a topic said when it was fetched need not be asked again.
func TestFetchIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		c := checker(t, TopicOptions{Client: d})
		if _, _, err := fetch(t.Context(), c, fakeTopic); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context(), fakeTopic); err != nil || d.count() != 1 {
			t.Errorf("%v after %d requests", err, d.count())
		}
	})
}

// A topic that names this hub gives its place in the budget back, one that does
// not keeps it, whatever the mode.
func TestFetchKeepsToTheBudget_HUB60(t *testing.T) {
	for _, mode := range []TopicMode{TopicRequire, TopicOff} {
		synctest.Test(t, func(t *testing.T) {
			d := goodDoer()
			c := checker(t, TopicOptions{Client: d, Mode: mode, Budget: egress.NewBudget(2)})
			for range 10 {
				if _, _, err := fetch(t.Context(), c, fakeTopic); err != nil {
					t.Fatal(err)
				}
			}
			d.set(func(f *fakeDoer) { f.header = nil })
			for i, wait := range []bool{false, false, true} {
				_, _, err := fetch(t.Context(), c, fmt.Sprintf("https://example.org/%d", i))
				if (outcome(err) == "wait") != wait {
					t.Errorf("%s, request %d: %v", mode, i, err)
				}
			}
		})
	}
}

func TestFetchIsNotWaitedForLong(t *testing.T) {
	const timeout = 10 * time.Second
	for name, tc := range map[string]struct {
		change func(*fakeDoer)
		want   string
		after  time.Duration
	}{
		"no answer": {func(f *fakeDoer) { f.delay = time.Hour }, "unsure", timeout},
		"a body that stalls": {func(f *fakeDoer) {
			f.body = func(ctx context.Context) io.ReadCloser { return &trickle{ctx: ctx, every: time.Hour, n: 1} }
		}, "unsure", timeout},
		// 1 KiB a second: 10 s, and 1/128 s for each.
		"a body that drips": {func(f *fakeDoer) {
			f.body = func(ctx context.Context) io.ReadCloser {
				return &trickle{ctx: ctx, every: time.Second, n: 1 << 10}
			}
		}, "unsure", timeout + 10*time.Second/128},
		"a body that takes its time": {func(f *fakeDoer) {
			f.body = func(ctx context.Context) io.ReadCloser {
				return &trickle{ctx: ctx, every: time.Second, n: 128 << 10, left: 60}
			}
		}, "good", time.Minute},
		"a fast one that stalls": {func(f *fakeDoer) {
			f.body = func(ctx context.Context) io.ReadCloser {
				return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 50<<20)), &trickle{ctx: ctx, every: time.Hour, n: 1}))
			}
		}, "unsure", timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := goodDoer()
				tc.change(d)
				start := time.Now()
				_, _, err := fetch(t.Context(), checker(t, TopicOptions{Client: d, Timeout: timeout}), fakeTopic)
				if took := time.Since(start); outcome(err) != tc.want || took != tc.after {
					t.Errorf("%v after %v, want %s after %v", err, took, tc.want, tc.after)
				}
			})
		})
	}
}

// trickle gives n bytes each time that every has passed, left times, or for ever
// where that is 0.
type trickle struct {
	ctx     context.Context
	every   time.Duration
	n, left int
	given   int
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.left > 0 && r.given >= r.left*r.n {
		return 0, io.EOF
	}
	if r.given%r.n == 0 {
		select {
		case <-time.After(r.every):
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	n := min(len(p), r.n-r.given%r.n)
	r.given += n
	return n, nil
}

func (r *trickle) Close() error { return nil }

// A date in Retry-After counts as seconds do, up to an hour.
func TestRetryAfterOfATopic(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 48 * time.Hour: time.Hour, -time.Hour: 0} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {time.Now().Add(after).UTC().Format(http.TimeFormat)}}}
		var unsure *UnsureError
		if err := answered(resp, "the topic URI"); !errors.As(err, &unsure) || unsure.After > want || want-unsure.After > 2*time.Minute {
			t.Errorf("in %v: %+v", after, err)
		}
	}
}

// Time in which the hub does not read a fetched topic does not count as slowness of the
// topic.
func TestFetchedTopicWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := TopicOptions{HubURL: hubURL, Mode: TopicOff, Timeout: time.Second, Client: web.DoerFunc(func(r *http.Request) (*http.Response, error) {
			body := io.NopCloser(readerFunc(func(p []byte) (int, error) {
				p[0] = 'x'
				return 1, r.Context().Err()
			}))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1}, nil
		})}
		c, err := NewTopicChecker(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := c.Fetch(t.Context(), "http://topic.example/")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(f.Body, make([]byte, 10)); err != nil {
				t.Error(err)
			}
		}
		_ = f.Body.Close()
	})
}

// readerFunc is a function as a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
