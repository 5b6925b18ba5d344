package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// whoami is a page that says as whom it is asked, and what the API answers then.
func whoami(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "/api/v1/topics/x/reset", nil)
		out := httptest.NewRecorder()
		api.ServeHTTP(out, in)
		_, _ = fmt.Fprintf(w, "%s: %q, a change: %d", r.URL.Path, RoleOf(r.Context()), out.Code)
	})
}

// logIn sends the form of a login, and returns where it leads and the cookie that it set.
func logIn(h http.Handler, token, next string, with ...*http.Cookie) (to *url.URL, cookie *http.Cookie) {
	form := url.Values{"token": {token}, "next": {next}}
	w := ask(h, http.MethodPost, LoginPath, form.Encode(), with...)
	to, _ = url.Parse(w.Header().Get("Location"))
	for _, c := range w.Result().Cookies() {
		cookie = c
	}
	if w.Code != http.StatusSeeOther {
		to = nil
	}
	return to, cookie
}

func ask(h http.Handler, method, path, body string, with ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range with {
		if c != nil {
			r.AddCookie(c)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func pageHandler(token, reader func() string) http.Handler {
	return New(Options{Topics: &memory{}, Subscriptions: &memory{}, Token: token, ReaderToken: reader, Page: whoami})
}

// A person with a token gets a session, with a cookie that is as narrow as browsers allow. Nobody
// else gets one.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := "the-token-of-the-operator"
		h := pageHandler(func() string { return token }, held("the-token-of-a-reader"))

		w := ask(h, http.MethodGet, "/ui/topics?after=x&y=z", "")
		to, _ := url.Parse(w.Header().Get("Location"))
		if w.Code != http.StatusSeeOther || to.Path != LoginPath || to.Query().Get("next") != "/ui/topics?after=x&y=z" {
			t.Fatalf("without a session: %d, %s", w.Code, to)
		}
		for _, path := range []string{"/ui", "/ui/", "/ui/../api/v1/info"} {
			if w := ask(h, http.MethodGet, path, ""); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), LoginPath) {
				t.Errorf("%s without a session: %d", path, w.Code)
			}
		}
		if w := ask(h, http.MethodGet, LoginPath, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `""`) {
			t.Errorf("the form: %d %s", w.Code, w.Body)
		}
		to, c := logIn(h, token, "/ui/topics?after=x&y=z")
		if to == nil || to.String() != "/ui/topics?after=x&y=z" || c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != PagePath || c.Secure || len(c.Value) < 26 {
			t.Fatalf("logged in: %v, %+v", to, c)
		}
		shows := func(what string, c *http.Cookie, want string) {
			t.Helper()
			w := ask(h, http.MethodGet, "/ui/x", "", c)
			if want == "" && w.Code != http.StatusSeeOther || want != "" && w.Body.String() != want {
				t.Errorf("%s: %d %s, want %q", what, w.Code, w.Body, want)
			}
		}
		shows("the operator", c, `/ui/x: "operator", a change: 404`)
		_, reader := logIn(h, "the-token-of-a-reader", "")
		shows("a reader", reader, `/ui/x: "reader", a change: 403`)
		shows("another cookie", &http.Cookie{Name: sessionCookie, Value: c.Value[1:] + "A"}, "")

		// Only the page uses the session. No page of another origin can.
		if w := ask(h, http.MethodGet, "/api/v1/topics", "", c); w.Code != http.StatusUnauthorized {
			t.Errorf("the API takes a session: %d", w.Code)
		}
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/ui/x", nil)
		r.AddCookie(c)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w = httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("a form of another origin: %d", w.Code)
		}

		// A session that a stranger planted is not the one that a login begins.
		planted := &http.Cookie{Name: sessionCookie, Value: "PLANTED"}
		if _, fresh := logIn(h, token, "", planted); fresh == nil || fresh.Value == planted.Value || fresh.Value == c.Value {
			t.Errorf("a login goes on with a planted session: %v", fresh)
		}
		shows("the planted one", planted, "")
		// A login during a session ends that session.
		_, other := logIn(h, token, "")
		_, again := logIn(h, token, "", other)
		shows("the one before", other, "")
		shows("the one after", again, `/ui/x: "operator", a change: 404`)

		ask(h, http.MethodPost, logoutPath, "", again)
		shows("logged out", again, "")
		time.Sleep(sessionIdle - time.Second)
		shows("after a while", c, `/ui/x: "operator", a change: 404`)
		time.Sleep(sessionIdle + time.Second)
		shows("idle for too long", c, "")
		_, c = logIn(h, token, "")
		for range 24 {
			time.Sleep(sessionIdle / 2)
			shows("in use", c, `/ui/x: "operator", a change: 404`)
		}
		time.Sleep(time.Second)
		shows("at its end, though in use", c, "")

		_, c = logIn(h, token, "")
		token = "another-token-of-the-operator"
		shows("after the token changed", c, "")
	})
}

// A login leads to a page of this listener, wherever it is asked to lead.
func TestLoginLeadsNowhereElse(t *testing.T) {
	h := pageHandler(held("the-token-of-the-operator"), nil)
	for _, next := range []string{"", "https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example", "/ui/\\evil.example", "/ui/login", "/ui/login?next=x", "/api/v1/info", "javascript:alert(1)", "/ui/\r\nSet-Cookie: x=y"} {
		if to, _ := logIn(h, "the-token-of-the-operator", next); to == nil || to.String() != PagePath {
			t.Errorf("%q: %v", next, to)
		}
	}
}

// Wrong tokens of the form count together with those of the API, and slow down the client that
// guesses.
func TestLoginIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := map[Refusal]int{}
		h := New(Options{Topics: &memory{}, Subscriptions: &memory{}, Token: held("the-token-of-the-operator"), Page: whoami, Refused: func(why Refusal) { refused[why]++ }})
		for n := range guessBurst {
			if to, c := logIn(h, fmt.Sprintf("guess %d", n), "/ui/topics"); to == nil || c != nil || to.Path != LoginPath || to.Query().Get("refused") != string(RefusedToken) || to.Query().Get("next") != "/ui/topics" {
				t.Fatalf("a wrong token: %v, %v", to, c)
			}
		}
		to, c := logIn(h, "the-token-of-the-operator", "")
		if c != nil || to.Query().Get("wait") != "6" || refused[RefusedToken] != guessBurst || refused[RefusedGuesses] != 1 {
			t.Errorf("the right one after too many: %v, %v, %v", to, c, refused)
		}
		time.Sleep(guessEvery)
		if _, c = logIn(h, "the-token-of-the-operator", ""); c == nil {
			t.Error("the right one after a pause is refused")
		}
		for range 2 * guessBurst { // nobody tries anything
			if to, c := logIn(h, "  ", ""); c != nil || to.Query().Get("refused") != string(RefusedNoToken) {
				t.Fatalf("no token: %v, %v", to, c)
			}
		}
		if _, c = logIn(h, "the-token-of-the-operator", ""); c == nil || refused[RefusedNoToken] != 2*guessBurst {
			t.Errorf("forms without a token count as guesses: %v", refused)
		}
		if to, _ := logIn(h, strings.Repeat("x", maxLogin+1), ""); to == nil || to.Path != LoginPath {
			t.Errorf("a token that is too long: %v", to)
		}
	})
}

// Browsers send the session over https only where they speak it: with the listener itself, or with
// the proxy of People.
func TestSessionIsSentOverHTTPS(t *testing.T) {
	people := &People{Proxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")}, Header: "X-Forwarded-User"}
	h := New(Options{Topics: &memory{}, Subscriptions: &memory{}, Token: held("the-token-of-the-operator"), People: people, Page: whoami})
	for from, want := range map[string]bool{"203.0.113.7:1": true, "192.0.2.1:1": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, LoginPath, strings.NewReader("token=the-token-of-the-operator"))
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Forwarded-Proto": {"https"}}
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if c := w.Result().Cookies(); len(c) != 1 || c[0].Secure != want {
			t.Errorf("from %s: %v", from, c)
		}
	}
}

// However often a reader logs in, the operator stays logged in.
func TestReaderEndsNoOthersSession(t *testing.T) {
	h := pageHandler(held("the-token-of-the-operator"), held("the-token-of-a-reader"))
	_, operator := logIn(h, "the-token-of-the-operator", "")
	_, first := logIn(h, "the-token-of-a-reader", "")
	for range maxSessions {
		logIn(h, "the-token-of-a-reader", "")
	}
	if w := ask(h, http.MethodGet, "/ui/x", "", operator); w.Code != http.StatusOK {
		t.Errorf("the operator: %d", w.Code)
	}
	if w := ask(h, http.MethodGet, "/ui/x", "", first); w.Code != http.StatusSeeOther {
		t.Errorf("the first of more sessions than may be: %d", w.Code)
	}
}

// The read-only token looks at everything, and changes nothing.
func TestReaderChangesNothing(t *testing.T) {
	o := Options{Token: held("the-token-of-the-operator"), ReaderToken: held("the-token-of-a-reader"), Reload: func() []Reloaded { t.Error("a reader reloads"); return nil }}
	base := start(t, o)
	for _, rt := range newAPI(o).routes {
		path := strings.ReplaceAll(rt.path, "{id}", "00000000-0000-0000-0000-000000000000")
		resp, body := send(t, rt.method, base+path, "Authorization: Bearer the-token-of-a-reader")
		switch {
		case rt.method != http.MethodGet:
			wantProblem(t, resp, body, 403, "--admin-readonly-token-file")
		case resp.status == 401 || resp.status == 403:
			t.Errorf("a reader gets %d for %s", resp.status, rt.path)
		}
	}
}

// Without a token there is no login, and everybody on this machine is the operator.
func TestPageWithoutToken(t *testing.T) {
	h := pageHandler(nil, nil)
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1/ui/x", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Body.String() != `/ui/x: "operator", a change: 404` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// A person reads the sentence.
	if w := ask(h, http.MethodGet, "http://evil.example/ui/x", ""); w.Code != http.StatusMisdirectedRequest || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.HasPrefix(w.Body.String(), "Without --admin-token-file") {
		t.Errorf("by another name: %d %v %s", w.Code, w.Header(), w.Body)
	}
}
