package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

const hubURL = "https://hub.example/websub/"

// checker returns a TopicChecker that may call loopback addresses.
func checker(t *testing.T, o TopicOptions) *TopicChecker {
	t.Helper()
	if o.Client == nil {
		c, err := egress.New(egress.Options{Allow: egress.DevAllow()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.CloseIdleConnections)
		o.Client = c
	}
	o.HubURL = hubURL
	c, err := NewTopicChecker(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func links(topic, hub string) string {
	return fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub)
}

// outcome names the kind of an error.
func outcome(err error) string {
	var (
		denied   *DeniedError
		unsure   *UnsureError
		wait     *WaitError
		mismatch *MismatchError
	)
	switch {
	case err == nil:
		return "good"
	case errors.As(err, &denied):
		return "denied"
	case errors.As(err, &mismatch):
		return "mismatch"
	case errors.As(err, &wait):
		return "wait"
	case errors.As(err, &unsure):
		return "unsure"
	}
	return err.Error()
}

// What counts as an answer, and which one (HUB-53, HUB-54).
func TestTopicCheckAnswers_HUB53_HUB54(t *testing.T) {
	right := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", links("http://"+r.Host+r.URL.Path, hubURL))
	}
	headless := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(status)
				return
			}
			right(w, r)
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
		says    string
	}{
		{"both links", right, "good", ""},
		{"204, as N 0.9 wanted it", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			w.WriteHeader(http.StatusNoContent)
		}, "good", ""},
		{"another Content-Type (departure)", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			_, _ = io.WriteString(w, "<p>any")
		}, "good", ""},
		{"empty, without a Content-Type", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			w.Header()["Content-Type"] = nil
			w.Header().Set("Content-Length", "0")
		}, "good", ""},
		{"in two headers, other hubs beside ours", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Link", `<https://other.example/>; rel=hub, <`+hubURL+`>; REL="x HUB"`)
			w.Header().Add("Link", `<http://`+r.Host+r.URL.Path+`>;rel=self`)
		}, "good", ""},
		{"a relative self", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", links("/topic/", hubURL))
		}, "good", ""},
		{"HEAD is not offered", headless(http.StatusMethodNotAllowed), "good", ""},
		{"HEAD is forbidden, as gateways do that know only GET", headless(http.StatusForbidden), "good", ""},
		{"HEAD is not implemented", headless(http.StatusNotImplemented), "good", ""},
		{"neither HEAD nor GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, "denied", "405"},
		{"no links", func(http.ResponseWriter, *http.Request) {}, "denied", `rel="self"`},
		{"links in the body only", func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `<link rel="self" href="http://%s/topic/"><link rel="hub" href=%q>`, r.Host, hubURL)
		}, "denied", `rel="self"`},
		{"another self", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", links("http://"+r.Host+"/topic", hubURL))
		}, "denied", "not http://"},
		{"two selfs", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			w.Header().Add("Link", `<http://other.example/>; rel=self`)
		}, "denied", "http://other.example/"},
		{"another hub", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", links("http://"+r.Host+r.URL.Path, hubURL+"x"))
		}, "denied", hubURL},
		{"links about something else", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://`+r.Host+r.URL.Path+`>; rel=self, <`+hubURL+`>; rel=hub; anchor="https://x.example/"`)
		}, "denied", hubURL},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "denied", "redirect"},
		{"not modified", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "denied", "the topic URI answered 304"},
		{"not found", func(w http.ResponseWriter, r *http.Request) {
			right(w, r)
			w.WriteHeader(http.StatusNotFound)
		}, "denied", "404"},
		{"too many requests", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "unsure", "429"},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "220 mail.example\r\n")
			_ = conn.Close()
		}, "unsure", "not HTTP"},
		{"out of order", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "unsure", "502"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := httptest.NewServer(tc.handler)
			defer srv.Close()
			topic := srv.URL + "/topic/"
			err := checker(t, TopicOptions{}).Check(t.Context(), topic)
			if outcome(err) != tc.want {
				t.Fatalf("%v, want %s", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
			var unsure *UnsureError
			if tc.says == "429" && (!errors.As(err, &unsure) || unsure.After != 7*time.Second) {
				t.Errorf("Retry-After was lost: %+v", err)
			}
			if err := checker(t, TopicOptions{Mode: TopicOff}).Check(t.Context(), topic); err != nil {
				t.Errorf("off: %v", err)
			}
			var warned atomic.Value
			warn := checker(t, TopicOptions{Mode: TopicWarn, Warn: func(_ string, err error) { warned.Store(err) }})
			if err := warn.Check(t.Context(), topic); err != nil {
				t.Errorf("warn: %v", err)
			}
			if (warned.Load() == nil) != (tc.want == "good") {
				t.Errorf("warn was told %v", warned.Load())
			}
		})
	}
}

// A relative link may have an absolute URL in its query.
func TestRelativeLinkWithAURLInItsQuery(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", links(r.URL.RequestURI(), hubURL))
	}))
	defer srv.Close()
	if err := checker(t, TopicOptions{}).Check(t.Context(), srv.URL+"/feed?of=https://example.org/"); err != nil {
		t.Error(err)
	}
}

// A callback gets the reason of a denial in a URL, and the store keeps it until then.
func TestReasonsAreShort(t *testing.T) {
	long := "https://example.org/" + strings.Repeat("é", 20_000)
	for name, answer := range map[string]http.HandlerFunc{
		"header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Link", links(long, hubURL)) },
		"page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<link rel=hub href=%q><link rel=self href=%q>", hubURL, long)
		},
	} {
		srv := httptest.NewServer(answer)
		defer srv.Close()
		err := checker(t, TopicOptions{}).Check(t.Context(), srv.URL+"/")
		if outcome(err) != "denied" || !strings.Contains(err.Error(), "has https://example.org/") || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTopicCheckOfWhatCannotBeReached(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	for _, tc := range []struct{ topic, want string }{
		{srv.URL + "/", "unsure"},
		{"http://169.254.169.254/latest/", "denied"},
		{"http://no-such-host.invalid/", "unsure"},
	} {
		if err := checker(t, TopicOptions{}).Check(t.Context(), tc.topic); outcome(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.topic, err, tc.want)
		}
	}
}

// fakeDoer answers after a while and counts.
type fakeDoer struct {
	mu     sync.Mutex
	calls  int
	delay  time.Duration
	status int
	header http.Header
	body   func(context.Context) io.ReadCloser
	err    error
}

func (f *fakeDoer) set(change func(*fakeDoer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeDoer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeDoer) Do(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.calls++
	delay, resp, err := f.delay, &http.Response{StatusCode: f.status, Header: f.header, Body: http.NoBody, ContentLength: -1, Request: req}, f.err
	if f.body != nil {
		resp.Body = f.body(req.Context())
	}
	f.mu.Unlock()
	select {
	case <-time.After(delay):
		return resp, err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

const fakeTopic = "https://example.org/changes/"

func goodDoer() *fakeDoer {
	return &fakeDoer{status: http.StatusOK, header: http.Header{"Link": {links(fakeTopic, hubURL)}}}
}

// HUB-53: a good answer is remembered for five minutes, a bad one for ten seconds, and
// none not at all.
func TestTopicCheckRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		c := checker(t, TopicOptions{Client: d})
		ask := func(want string, calls int) {
			t.Helper()
			if err := c.Check(t.Context(), fakeTopic); outcome(err) != want || d.count() != calls {
				t.Fatalf("%v after %d requests, want %s after %d", err, d.count(), want, calls)
			}
		}
		ask("good", 1)
		d.set(func(f *fakeDoer) { f.header = nil })
		time.Sleep(RememberGood - time.Nanosecond)
		ask("good", 1)
		time.Sleep(time.Nanosecond)
		ask("denied", 2)
		d.set(func(f *fakeDoer) { f.header = goodDoer().header })
		time.Sleep(RememberBad - time.Nanosecond)
		ask("denied", 2)
		time.Sleep(time.Nanosecond)
		d.set(func(f *fakeDoer) { f.status = http.StatusBadGateway })
		ask("unsure", 3)
		ask("unsure", 4)
		d.set(func(f *fakeDoer) { f.status = http.StatusOK })
		ask("good", 5)
	})
}

// Invariant 12: the memory of topics is bounded.
func TestTopicCheckForgetsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDoer{status: http.StatusNotFound}
		c := checker(t, TopicOptions{Client: d, Remember: 2})
		for i := range 5 {
			_ = c.Check(t.Context(), fmt.Sprintf("https://example.org/%d", i))
		}
		if c.known.Len() != 2 {
			t.Errorf("%d topics are remembered", c.known.Len())
		}
	})
}

// Concurrent callers share one request, and one that leaves takes nothing from the
// others.
func TestTopicCheckIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay = time.Second
		c := checker(t, TopicOptions{Client: d})
		gone, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- c.Check(gone, fakeTopic) }()
		synctest.Wait()
		errs := make(chan error, 50)
		for range cap(errs) {
			go func() { errs <- c.Check(t.Context(), fakeTopic) }()
		}
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if d.count() != 1 {
			t.Errorf("%d requests", d.count())
		}
	})
}

func TestTopicCheckTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay = time.Hour
		start := time.Now()
		err := checker(t, TopicOptions{Client: d, Timeout: 3 * time.Second}).Check(t.Context(), fakeTopic)
		if outcome(err) != "unsure" || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A check whose result is only a warning does not block a caller for long.
func TestTopicWarnDoesNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay, d.header = 10*time.Second, nil
		var warned atomic.Int32
		c := checker(t, TopicOptions{Client: d, Mode: TopicWarn, Warn: func(string, error) { warned.Add(1) }})
		start := time.Now()
		if err := c.Check(t.Context(), fakeTopic); err != nil || time.Since(start) != warnWait {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Minute)
		if warned.Load() != 1 {
			t.Errorf("%d warnings", warned.Load())
		}
	})
}

// A topic that names this hub gives its place in the budget back, one that does
// not keeps it.
func TestTopicCheckKeepsToTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		c := checker(t, TopicOptions{Client: d, Budget: egress.NewBudget(2)})
		for range 10 {
			if err := c.Check(t.Context(), fakeTopic); err != nil {
				t.Fatal(err)
			}
			time.Sleep(RememberGood)
		}
		d.set(func(f *fakeDoer) { f.header = nil })
		for i, want := range []string{"denied", "denied", "wait", "wait"} {
			err := c.Check(t.Context(), fmt.Sprintf("https://example.org/%d", i))
			if outcome(err) != want {
				t.Errorf("request %d: %v, want %s", i, err, want)
			}
			var wait *WaitError
			if errors.As(err, &wait) && (wait.After <= 0 || wait.After > time.Minute) {
				t.Errorf("wait %v", wait.After)
			}
		}
	})
}

// HEAD and GET use a place each, and a good answer returns both.
func TestTopicCheckGivesBothPlacesBack(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Link", links("http://"+r.Host+r.URL.Path, hubURL))
	}))
	defer srv.Close()
	c := checker(t, TopicOptions{Budget: egress.NewBudget(2)})
	for i := range 5 {
		if err := c.Check(t.Context(), fmt.Sprintf("%s/%d", srv.URL, i)); err != nil {
			t.Fatalf("topic %d: %v", i, err)
		}
	}
}

// getOnly answers HEAD with 405, and GET after a second with links to what was asked for and to the hub.
type getOnly struct{ heads, gets atomic.Int32 }

func (g *getOnly) Do(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req}
	if req.Method == http.MethodHead {
		g.heads.Add(1)
	} else {
		g.gets.Add(1)
		resp.StatusCode, resp.Header = http.StatusOK, http.Header{"Link": {links(req.URL.String(), hubURL)}}
	}
	time.Sleep(time.Second)
	return resp, nil
}

// A host without HEAD that has more topics than the budget has places is asked for none with HEAD a second
// time, so that places are left for GET.
func TestHostWithoutHEAD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d getOnly
		c := checker(t, TopicOptions{Client: &d, Budget: egress.NewBudget(20)})
		all := func() (good int) {
			var wg sync.WaitGroup
			var n atomic.Int32
			for i := range 8 {
				wg.Go(func() {
					if err := c.Check(asked(t.Context(), 1), fmt.Sprintf("%s%d", fakeTopic, i)); err == nil {
						n.Add(1)
					} else if outcome(err) != "wait" {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return int(n.Load())
		}
		good := all()
		heads := d.heads.Load()
		for range 2 {
			time.Sleep(time.Minute)
			good = all()
		}
		if good != 8 {
			t.Errorf("%d of 8 topics were good after two minutes, of %d HEADs and %d GETs", good, d.heads.Load(), d.gets.Load())
		}
		if d.heads.Load() != heads || heads == 0 {
			t.Errorf("%d HEADs, %d of them before the host had answered one", d.heads.Load(), heads)
		}
	})
}

// A Source learns about its certificate, which it can fix, and about the hub's proxy,
// which it can't.
func TestTopicCheckSaysWhatFailed(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	for want, o := range map[string]egress.Options{"certificate": {Allow: egress.DevAllow()}, "way out": {Allow: egress.DevAllow(), Proxy: proxy}} {
		client, err := egress.New(o)
		if err != nil {
			t.Fatal(err)
		}
		err = checker(t, TopicOptions{Client: client}).Check(t.Context(), srv.URL+"/topic")
		if outcome(err) != "unsure" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to speak of the %s", err, want)
		}
	}
}

func TestTopicCheckAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay = time.Hour
		c := checker(t, TopicOptions{Client: d, Timeout: 2 * time.Hour})
		got := make(chan error, 1)
		go func() { got <- c.Check(t.Context(), fakeTopic) }()
		synctest.Wait()
		c.Close()
		if err := <-got; outcome(err) != "unsure" {
			t.Errorf("the one under way: %v", err)
		}
		if err := c.Check(t.Context(), fakeTopic); outcome(err) != "unsure" {
			t.Errorf("one after: %v", err)
		}
	})
}

func TestTopicModes(t *testing.T) {
	for _, o := range []TopicOptions{{}, {HubURL: hubURL}, {Client: goodDoer()}} {
		if _, err := NewTopicChecker(o); err == nil {
			t.Errorf("%+v is enough", o)
		}
	}
	if _, err := NewTopicChecker(TopicOptions{Mode: "perhaps"}); err == nil || !strings.Contains(err.Error(), "require, warn or off") {
		t.Error(err)
	}
}
