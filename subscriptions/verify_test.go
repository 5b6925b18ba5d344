package subscriptions

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// realClient is the client of the hub, allowed to call loopback.
func realClient(t *testing.T) *egress.Client {
	t.Helper()
	c, err := egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// server is a real callback that keeps the request targets it was asked for.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	targets []string
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.targets = append(s.targets, r.Method+" "+r.RequestURI)
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.targets...)
}

func echoTo(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprint(w, r.URL.Query().Get("hub.challenge"))
}

// eventually waits for something that happens in real time.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// HUB-22, HUB-23: the request as it goes over the wire. The callback's own query
// comes first, unchanged, with what looks like ours in it.
func TestVerificationRequest_HUB22_HUB23(t *testing.T) {
	w := newWorld(Options{Client: realClient(t)})
	s := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		if coding := r.Header.Get("Accept-Encoding"); coding != "identity" {
			t.Errorf("Accept-Encoding: %q", coding)
		}
		_, _ = fmt.Fprint(rw, r.URL.Query()["hub.challenge"][1])
	})
	own := "z=1&a=%7E&hub.challenge=mine&z=1&a;b"
	cb := s.URL + "/in%2Fbox/?" + own
	r := subscribe(cb)
	r.Lease, r.HasLease = 1234*time.Second, true
	defer w.run(t)()
	w.accept(t, r)
	eventually(t, "activation", func() bool { return w.record(cb).Subscription != nil })
	w.accept(t, websub.SubscribeRequest{Mode: websub.ModeUnsubscribe, Topic: topic, Callback: cb})
	eventually(t, "the end", func() bool { return !w.record(cb).Subscription.EndedAt.IsZero() })

	asked := s.asked()
	if len(asked) != 2 {
		t.Fatalf("asked %q", asked)
	}
	prefix := "GET /in%2Fbox/?" + own + "&hub.mode="
	middle := "&hub.topic=https%3A%2F%2Fsource.example%2Fchanges%2F&hub.challenge="
	for i, want := range []string{prefix + "subscribe" + middle, prefix + "unsubscribe" + middle} {
		if !strings.HasPrefix(asked[i], want) {
			t.Errorf("asked %q, want %q...", asked[i], want)
		}
	}
	if !strings.HasSuffix(asked[0], "&hub.lease_seconds=1234") || strings.Contains(asked[1], "lease_seconds") {
		t.Errorf("lease_seconds belongs to subscribe, and there only: %q", asked)
	}
}

// HUB-25, HUB-26: what is a confirmation and what is none.
func TestOnlyTheExactChallengeConfirms_HUB25_HUB26(t *testing.T) {
	body := func(status int, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, format, r.URL.Query().Get("hub.challenge"))
		}
	}
	elsewhere := serve(t, echoTo)
	redirect := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/?"+r.URL.RawQuery, status)
		}
	}
	const active, waits, dropped = "active", "waits for another try", "dropped"
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"200":              {body(200, "%s"), active},
		"202":              {body(202, "%s"), active},
		"299":              {body(299, "%s"), active},
		"trailing newline": {body(200, "%s\n"), waits},
		"leading space":    {body(200, " %s"), waits},
		"contained":        {body(200, "challenge: %s"), waits},
		"one byte more":    {body(200, "%sX"), waits},
		"empty":            {body(200, "%.0s"), waits},
		"cut short":        {body(200, "%.25s"), waits},
		"400":              {body(400, "%s"), waits},
		"404":              {body(404, "%s"), dropped},
		"410":              {body(410, "%s"), waits},
		"500":              {body(500, "%s"), waits},
		"301":              {redirect(301), waits},
		"302":              {redirect(302), waits},
		"307":              {redirect(307), waits},
		"308":              {redirect(308), waits},
		"302, net/http":    {redirect(302), waits},
		"challenge, then a flood": {func(w http.ResponseWriter, r *http.Request) {
			echoTo(w, r)
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}, waits},
		"reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, waits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var client Doer = realClient(t)
			if strings.HasSuffix(name, "net/http") {
				client = new(http.Client)
			}
			w := newWorld(Options{Client: client})
			s := serve(t, tc.h)
			defer w.run(t)()
			w.accept(t, subscribe(s.URL))
			var got string
			eventually(t, "an outcome", func() bool {
				switch rec := w.record(s.URL); {
				case rec.Subscription != nil:
					got = active
				case rec.Request == nil:
					got = dropped
				case rec.Request.Tries == 1 && rec.Request.NextAt.After(rec.Request.AcceptedAt):
					got = waits
				}
				return got != ""
			})
			if got != tc.want {
				t.Errorf("it %s, want %s", got, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(elsewhere.asked()); n > 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
}

// No more than one byte over the challenge is read.
func TestLittleIsReadOfAnAnswer_HUB25(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		counted := &countingBody{}
		w.o.Check = nil // nor is a topic check needed
		w.o.Client = doFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: counted}, nil
		})
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		if want := len(websub.NewChallenge()) + 1; counted.read != want || !counted.closed {
			t.Errorf("%d bytes were read, want %d; closed %v", counted.read, want, counted.closed)
		}
	})
}

// What the log says of an answer is for the subscriber's programmer, who sees only that nothing
// is delivered. It never has the challenge.
func TestWhyTheChallengeIsMissing_HUB25(t *testing.T) {
	challenge := websub.NewChallenge()
	for format, want := range map[string]string{
		"%.0s":               "is empty",
		"%s\n":               "has a line end after the challenge",
		"%s\r\n":             "has a line end after the challenge",
		"%s OK":              "goes on after the challenge",
		`"%s"`:               "has the challenge in quotes, as JSON has",
		"\ufeff%s":           "has a byte order mark before the challenge",
		"\x1f\x8b\x08%.0s":   "is compressed, which this hub did not ask for",
		"<html>%s</html>":    "begins with a tag, as a page does",
		"\n<!DOCTYPE x>%.0s": "begins with a tag, as a page does",
		"challenge=%s":       "is another text",
		"\"%.0sno\"":         "is another text",
		"%.25s":              "is another text",
	} {
		body := []byte(fmt.Sprintf(format, challenge))
		got := noChallenge(body[:min(len(body), len(challenge)+1)], challenge).Error()
		if !strings.Contains(got, "the answer "+want+";") || strings.Contains(got, challenge) {
			t.Errorf("%q: %s", format, got)
		}
	}
}

type doFunc func(*http.Request) (*http.Response, error)

func (f doFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// countingBody is an endless body.
type countingBody struct {
	read   int
	closed bool
}

func (b *countingBody) Read(p []byte) (int, error) { b.read += len(p); return len(p), nil }
func (b *countingBody) Close() error               { b.closed = true; return nil }

// HUB-24: a challenge is used for one try only, and has 130 bits.
func TestEachTryHasItsOwnChallenge_HUB24(t *testing.T) {
	digits := regexp.MustCompile(`^[A-Z2-7]{26}$`)
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(500))
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(10 * time.Minute)
		seen := map[string]bool{}
		for _, c := range w.callsTo(cbHost) {
			challenge := c.req.URL.Query().Get("hub.challenge")
			if !digits.MatchString(challenge) || seen[challenge] {
				t.Errorf("challenge %q is not of 26 base32 digits, or was used before", challenge)
			}
			seen[challenge] = true
		}
		if len(seen) != 4 {
			t.Errorf("%d tries, want 4", len(seen))
		}
	})
}

// Neither the event nor its error tells the challenge or the callback's path.
func TestEventsKeepSecrets(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.o.Client = doFunc(func(r *http.Request) (*http.Response, error) {
			return (&http.Client{Transport: roundTripFunc(func(*http.Request) (*http.Response, error) {
				return nil, errors.New("connection refused")
			})}).Do(r)
		})
		defer w.run(t)()
		r := subscribe("https://callback.example/private-path")
		r.Secret = "s3cret"
		w.accept(t, r)
		elapse(10 * time.Minute)
		if n := len(w.eventsNamed(EventFailed)); n != 4 {
			t.Errorf("%d failed tries are told, want 4", n)
		}
		for _, e := range w.eventsNamed("") {
			text := fmt.Sprintf("%+v %v", e, e.Err)
			for _, secret := range []string{"private-path", "s3cret", "challenge="} {
				if strings.Contains(text, secret) {
					t.Errorf("%q is told by %s", secret, text)
				}
			}
		}
	})
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
