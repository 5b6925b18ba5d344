package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// door is the operator's listener, asked from any address.
type door struct {
	t       *testing.T
	h       http.Handler
	logs    *observer.ObservedLogs
	counted map[Refusal]int
}

func newDoor(t *testing.T, token string) *door {
	core, logs := observer.New(zapcore.InfoLevel)
	d := &door{t: t, logs: logs, counted: map[Refusal]int{}}
	people := &People{Proxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")}, Header: "X-Forwarded-User"}
	d.h = New(Options{Token: held(token), People: people, Log: zap.New(core), Refused: func(why Refusal) { d.counted[why]++ }})
	return d
}

// ask sends a token from an address, behind which there may be a client that a proxy names.
func (d *door) ask(from, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr, r.Header["X-Forwarded-For"] = from, nil
	if proxy, client, ok := strings.Cut(from, " for "); ok {
		r.RemoteAddr = proxy
		r.Header.Set("X-Forwarded-For", client)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	return w
}

// A client may try ten tokens, and then one every six seconds, right or wrong. The guesses are
// counted and logged, and the log has no token. They delay nobody at another address. Neither does
// a script that still uses an old token.
func TestGuessesAreSlowed(t *testing.T) {
	const right, strange = "the-token-of-the-operator", "192.0.2.1:1000"
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, right)
		tried := 0
		for second := range 600 {
			for n := range 20 {
				switch w := d.ask(strange, fmt.Sprintf("guess-%d-%d", second, n)); w.Code {
				case http.StatusUnauthorized:
					tried++
				case http.StatusTooManyRequests:
					if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after < 1 || after > 6 || !strings.Contains(w.Body.String(), "Other addresses") {
						t.Fatalf("Retry-After %q, %s", w.Header().Get("Retry-After"), w.Body)
					}
				default:
					t.Fatalf("status %d", w.Code)
				}
			}
			if w := d.ask("192.0.2.2:1000", right); w.Code != http.StatusOK {
				t.Fatalf("the operator elsewhere got %d", w.Code)
			}
			time.Sleep(time.Second)
		}
		if tried < 100 || tried > guessBurst+600/6+1 {
			t.Errorf("%d tokens were tried in ten minutes", tried)
		}
		if d.counted[RefusedToken] != tried || d.counted[RefusedGuesses] != 12000-tried {
			t.Errorf("counted: %v", d.counted)
		}
		if n := d.logs.Len(); n < saidBurst || n > saidBurst+600/10+1 {
			t.Errorf("%d lines of the log", n)
		}
		if text := fmt.Sprint(d.logs.All()); strings.Contains(text, "guess-") || strings.Contains(text, right) {
			t.Error("the log has a token")
		}
		line := d.logs.All()[0].ContextMap()
		if line["event"] != "operator_refused" || line["reason"] != "token" || line["requester"] != "192.0.2.1" {
			t.Errorf("%v", line)
		}
		d.ask(strange, "one-more")
		if w := d.ask(strange, right); w.Code != http.StatusTooManyRequests {
			t.Errorf("the right token from the address of the guesses: %d", w.Code)
		}
		time.Sleep(guessEvery)
		if w := d.ask(strange, right); w.Code != http.StatusOK {
			t.Errorf("and after a while: %d", w.Code)
		}
	})
}

// The same wrong token again is no guess, and no token is none.
func TestOldTokensShutNobodyOut(t *testing.T) {
	const right, here = "the-token-of-the-operator", "[::1]:1000"
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, right)
		for n := range 1000 {
			if w := d.ask(here, fmt.Sprintf("old-token-%d", n%guessesKept)); w.Code != http.StatusUnauthorized {
				t.Fatalf("an old token: %d", w.Code)
			}
			if w := d.ask(here, ""); w.Code != http.StatusUnauthorized {
				t.Fatalf("no token: %d", w.Code)
			}
			if w := d.ask(here, right); w.Code != http.StatusOK {
				t.Fatalf("the operator beside the script: %d", w.Code)
			}
		}
		if d.counted[RefusedNoToken] != 1000 || d.counted[RefusedToken] != 1000 {
			t.Errorf("counted: %v", d.counted)
		}
	})
}

// A client behind the proxy of People does not shut out the other people there. Other clients
// cannot name a person with the proxy's headers.
func TestGuessesThroughAProxy(t *testing.T) {
	const right = "the-token-behind-the-proxy"
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, right)
		for n := range 100 {
			d.ask("203.0.113.7:1000 for 198.51.100.1", fmt.Sprintf("guess-%d", n))
			d.ask(fmt.Sprintf("192.0.2.1:1000 for 198.51.100.%d", n+2), fmt.Sprintf("guess-%d", n))
		}
		if d.counted[RefusedToken] != 2*guessBurst {
			t.Errorf("%v", d.counted)
		}
		for from, want := range map[string]int{
			"203.0.113.7:1000 for 198.51.100.2": http.StatusOK, "203.0.113.7:1000": http.StatusOK,
			"203.0.113.7:1000 for 198.51.100.1": http.StatusTooManyRequests, "192.0.2.1:1000 for 198.51.100.200": http.StatusTooManyRequests,
		} {
			if w := d.ask(from, right); w.Code != want {
				t.Errorf("the operator at %s: %d, want %d", from, w.Code, want)
			}
		}
	})
}

// A household has one allowance for all its addresses.
func TestGuessesFromOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, "the-token-of-the-operator")
		for n := range 100 {
			d.ask(fmt.Sprintf("[2001:db8::%x]:1000", n+1), fmt.Sprintf("guess-%d", n))
		}
		if d.counted[RefusedToken] != guessBurst {
			t.Errorf("%v", d.counted)
		}
		if w := d.ask("[2001:db8:0:1::1]:1000", "the-token-of-the-operator"); w.Code != http.StatusOK {
			t.Errorf("the operator next door: %d", w.Code)
		}
	})
}
