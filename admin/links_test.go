package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/store/storetest"
)

// tokenOf is the token of a new link.
func tokenOf(t *testing.T, l *Links, id uuid.UUID) string {
	t.Helper()
	link, err := l.Make(t.Context(), id)
	token, ok := strings.CutPrefix(link.URL, l.URL)
	if err != nil || !ok || !link.ExpiresAt.Equal(l.now().Add(LinkLife).Truncate(time.Second)) {
		t.Fatalf("%+v, %v", link, err)
	}
	return token
}

// A link works only for its subscription, at every hub on the store, for 7 days or until it is
// revoked.
func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMemory()
		one, two := &Links{Shelf: store, URL: "https://hub.example/subscription/"}, &Links{Shelf: store, URL: "https://hub.example/subscription/"}
		a, b := uuid.NewSHA1(uuid.NameSpaceURL, []byte("a")), uuid.NewSHA1(uuid.NameSpaceURL, []byte("b"))
		if _, _, err := two.Open(t.Context(), strings.Repeat("A", base64.RawURLEncoding.EncodedLen(tokenSize))); !errors.Is(err, ErrNoLink) {
			t.Errorf("before there is a key: %v", err)
		}
		first, second, other := tokenOf(t, one, a), tokenOf(t, two, a), tokenOf(t, two, b)
		opens := func(what, token string, want uuid.UUID) {
			t.Helper()
			for _, l := range []*Links{one, two} {
				id, _, err := l.Open(t.Context(), token)
				if want == uuid.Nil && !errors.Is(err, ErrNoLink) || want != uuid.Nil && (err != nil || id != want) {
					t.Errorf("%s: %v, %v", what, id, err)
				}
			}
		}
		opens("the first", first, a)
		opens("the second", second, a)
		opens("the other", other, b)

		raw, err := base64.RawURLEncoding.DecodeString(first)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			raw[i] ^= 1
			opens("a changed one", base64.RawURLEncoding.EncodeToString(raw), uuid.Nil)
			raw[i] ^= 1
		}
		for _, forged := range []string{"", "x", first + "A", first[1:], first + "=", strings.Repeat("A", len(first)), a.String()} {
			opens(forged, forged, uuid.Nil)
		}

		time.Sleep(LinkLife / 2)
		third := tokenOf(t, two, a)
		time.Sleep(LinkLife/2 - 2*time.Second)
		opens("just before the end", first, a)
		time.Sleep(3 * time.Second)
		opens("just after it", first, uuid.Nil)
		opens("a later one", third, a)

		if err := one.Revoke(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		opens("a revoked one", third, uuid.Nil)
		opens("one after that", tokenOf(t, one, a), a)
		opens("a revoked one, later", third, uuid.Nil)
	})
}

// racedShelf has another hub store a value between a look and the next call.
type racedShelf struct{ *storetest.Memory }

func (racedShelf) Kept(context.Context, string) ([]byte, error) { return nil, nil }

// If two hubs look at the same time, one of them gets the turn.
func TestTurnsOfLinksAreTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf, id := racedShelf{storetest.NewMemory()}, uuid.New()
		for n := range 2 {
			wait, err := (&Links{Shelf: shelf}).Take(t.Context(), id, "retry")
			if err != nil || (wait == 0) != (n == 0) {
				t.Errorf("hub %d: %v, %v", n, wait, err)
			}
		}
	})
}

// All hubs together limit how often the holder of a link may change something.
func TestTurnsOfLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, id := storetest.NewMemory(), uuid.New()
		hubs := []*Links{{Shelf: store}, {Shelf: store}}
		take := func() (taken int) {
			for _, l := range hubs {
				for range 3 {
					wait, err := l.Take(t.Context(), id, "replay")
					if err != nil || wait > turnEvery["replay"] {
						t.Fatal(wait, err)
					}
					if wait == 0 {
						taken++
					}
				}
			}
			return taken
		}
		if n := take(); n != 1 {
			t.Errorf("%d at once", n)
		}
		if wait, err := hubs[0].Take(t.Context(), id, "retry"); wait != 0 || err != nil {
			t.Errorf("something else: %v, %v", wait, err)
		}
		if wait, err := hubs[0].Take(t.Context(), uuid.New(), "replay"); wait != 0 || err != nil {
			t.Errorf("another subscription: %v, %v", wait, err)
		}
		wait, err := hubs[1].Take(t.Context(), id, "replay")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		if n := take(); n != 1 {
			t.Errorf("%d after the wait", n)
		}
	})
}

// The holder of a link has the calls that its page needs, and no others; without
// --subscriber-pages there are no links.
func TestLinkedCalls(t *testing.T) {
	l := newTabled(Options{})
	l.api.Links = nil
	resp, body := l.ask(t, http.MethodPost, "/api/v1/subscriptions/"+l.subscription+"/link")
	wantProblem(t, resp, body, http.StatusConflict, "--subscriber-pages")

	var calls http.Handler
	h := NewSubscriberPage(l.api.Options, []string{"hub.example"}, func(api http.Handler) http.Handler {
		calls = api
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
	allowed := 0
	for _, rt := range l.api.routes {
		r := httptest.NewRequestWithContext(context.Background(), rt.method, l.path(rt, ""), strings.NewReader(map[bool]string{true: `{"since": "2026-11-21T12:00:00Z"}`}[strings.HasSuffix(rt.path, "/replay")]))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		calls.ServeHTTP(w, r)
		switch rt.method + " " + rt.path {
		case "GET /api/v1/subscriptions/{id}", "GET /api/v1/subscriptions/{id}/attempts", "GET /api/v1/subscriptions/{id}/gaps",
			"POST /api/v1/subscriptions/{id}/retry", "POST /api/v1/subscriptions/{id}/replay":
			allowed++
			if w.Code != http.StatusOK {
				t.Errorf("%s %s: %d %s", rt.method, rt.path, w.Code, w.Body)
			}
		default:
			if w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", rt.method, rt.path, w.Code)
			}
		}
	}
	if allowed != 5 {
		t.Errorf("%d calls", allowed)
	}

	for _, c := range []struct {
		method, host string
		header       [2]string
		want         int
	}{
		{http.MethodPost, "hub.example", [2]string{}, http.StatusNoContent},
		{http.MethodPost, "hub.example", [2]string{"Origin", "https://hub.example"}, http.StatusNoContent},
		{http.MethodPost, "hub.example", [2]string{"Sec-Fetch-Site", "same-origin"}, http.StatusNoContent},
		{http.MethodPost, "hub.example", [2]string{"Origin", "null"}, http.StatusNoContent}, // its own forms over plain HTTP
		{http.MethodPost, "hub.example", [2]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{http.MethodPost, "hub.example", [2]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodPost, "evil.example", [2]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{http.MethodGet, "hub.example", [2]string{"Sec-Fetch-Site", "cross-site"}, http.StatusNoContent},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "https://"+c.host+"/token", nil)
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
	}
}
