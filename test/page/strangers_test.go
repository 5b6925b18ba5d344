package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	operatorToken = "the token of the operator"
	readerToken   = "the token of a reader"
)

// named is the operator's listener under a name, for the browser.
func (h *hub) named(name string) string {
	return strings.Replace(h.admin, "127.0.0.1", name, 1)
}

// guarded runs a hub with tokens and these settings, with one active subscription, and
// returns its id.
func guarded(t *testing.T, args ...string) (h *hub, id string) {
	t.Helper()
	dir := t.TempDir()
	for name, token := range map[string]string{"operator": operatorToken, "reader": readerToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h = newHub(t, append([]string{"--node-id=hub-1", "--admin-token-file", filepath.Join(dir, "operator"), "--admin-readonly-token-file", filepath.Join(dir, "reader")}, args...)...)
	h.token = operatorToken
	h.run()
	h.ready()
	r := receive(t, "127.0.0.2")
	h.subscribe("https://library.example.org/articles/capabilitylist.xml", r.url+"/ok/mirror")
	return h, h.inState("active", 1)[0].ID
}

// state is that of a subscription.
func (h *hub) state(id string) string {
	h.t.Helper()
	var one listed
	h.api("subscriptions/"+id, &one)
	return one.State
}

// logIn sends the login form.
func (b *tab) logIn(h *hub, address string) {
	b.t.Helper()
	b.visit(address)
	b.await(h, "Token of the operator")
	b.do(chromedp.SendKeys(chromedp.ID("token"), operatorToken))
	b.click("form.login button")
}

// away waits until the page in the tab is at an address other than this.
func (b *tab) away(h *hub, address string) {
	b.t.Helper()
	h.await(func() error {
		if at := ask[string](b, "document.readyState === 'complete' ? location.href : ''"); at == "" || at == address {
			return fmt.Errorf("the browser is still at %s", address)
		}
		return nil
	})
}

// A page whose session has ended goes to the login form by itself, and what it sends then is not
// done without a word.
func TestSessionEnds(t *testing.T) {
	h, id := guarded(t)
	now, one := open(t, true), open(t, true)
	now.logIn(h, h.admin+"ui/")
	one.logIn(h, h.admin+"ui/subscriptions/"+id)
	now.await(h, "No loss is in sight.")
	one.await(h, "Ask its callback again")
	h.restart()
	now.await(h, "Token of the operator")
	one.click("form[action$=pause] button")
	one.await(h, "Nothing was done, because your session has ended.")
	if got := h.state(id); got != "active" {
		t.Errorf("the subscription is %s", got)
	}
}

// frames returns the URLs of what the frames of the page in the tab show.
func (b *tab) frames() (urls []string) {
	b.t.Helper()
	for _, child := range call(b, page.GetFrameTree, cdp.Empty{}).FrameTree.ChildFrames {
		urls = append(urls, child.Frame.URL)
	}
	return urls
}

// site serves pages of a stranger on this machine, by path, and returns its base URL under a name.
func site(t *testing.T, name string, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Query().Has("no-referrer") { // with this, a form has "Origin: null"
			w.Header().Set("Referrer-Policy", "no-referrer")
		}
		_, _ = w.Write([]byte("<!DOCTYPE html><title>Cats</title>" + pages[r.URL.Path]))
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", name, 1)
}

// In a network without TLS the operator logs in and works under the name of --public-url or of
// --allow-host.
func TestForeignName(t *testing.T) {
	for name, setting := range map[string]string{"public URL": "--public-url=http://" + hubName + "/", "allowed": "--allow-host=" + hubName} {
		for how, script := range map[string]bool{"JavaScript": true, "no JavaScript": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				h, id := guarded(t, setting)
				b := open(t, script)
				b.logIn(h, h.named(hubName)+"ui/subscriptions/"+id)
				b.await(h, "No delivery failed.")
				b.click(`form[action$="/pause"] button`)
				b.await(h, "It gets nothing until it is resumed.")
				if got := h.state(id); got != "paused" {
					t.Errorf("the subscription is %s", got)
				}
				b.click(`form[action$="/logout"] button`)
				b.await(h, "Token of the operator")
				if trouble := b.troubles(); len(trouble) > 0 {
					t.Error(trouble)
				}
			})
		}
	}
}

// Under any other name the page says what to do, and nothing changes: a stranger may have pointed
// that name at the hub.
func TestUnknownName(t *testing.T) {
	h, _ := guarded(t)
	b := open(t, true)
	b.logIn(h, h.named(hubName)+"ui/")
	b.await(h, "start the hub with --allow-host and this one")
	tokenless := start(t, "--node-id=hub-1")
	b.visit(tokenless.named(evilName) + "ui/")
	b.await(tokenless, "this listener answers only to the host names localhost, 127.0.0.1 and [::1]")
}

// A page of a stranger, or of another program on the same machine, makes the operator's browser
// send forms. No form changes anything, whether the browser sends the session or not.
func TestForgedForms(t *testing.T) {
	form := func(h *hub, name, id string) string {
		return fmt.Sprintf(`<form method=post action="%sui/subscriptions/%s/pause"><button>Cats</button></form>`, h.named(name), id)
	}
	loggedIn, id := guarded(t, "--allow-host="+hubName)
	tokenless := start(t, "--node-id=hub-1")
	tokenless.subscribe("https://library.example.org/articles/capabilitylist.xml", receive(t, "127.0.0.3").url+"/ok/mirror")
	other := tokenless.inState("active", 1)[0].ID

	for name, tc := range map[string]struct {
		h     *hub
		hub   string // its name in the browser
		id    string
		where string // the name of the stranger's site
	}{
		"another site":                  {loggedIn, hubName, id, evilName},
		"another port of the same site": {loggedIn, hubName, id, hubName}, // gets the cookie of the session
		"at a hub without a token":      {tokenless, "127.0.0.1", other, evilName},
		"the same, from this machine":   {tokenless, "127.0.0.1", other, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			at := site(t, tc.where, map[string]string{"/": form(tc.h, tc.hub, tc.id)})
			b := open(t, true)
			if tc.h == loggedIn {
				b.logIn(tc.h, tc.h.named(tc.hub)+"ui/subscriptions/"+tc.id)
				b.await(tc.h, "No delivery failed.")
			}
			for _, page := range []string{at + "/", at + "/?no-referrer"} {
				b.visit(page)
				b.click("button")
				b.away(tc.h, page)
				if got := tc.h.state(tc.id); got != "active" {
					t.Errorf("after the form of %s the subscription is %s", page, got)
				}
				b.await(tc.h, "sent by a page of another origin")
			}
		})
	}
}

// No page can show the operator's pages in a frame, so nobody can make the operator click on
// something hidden: neither with the operator's session nor at a hub without a token.
func TestFrames(t *testing.T) {
	loggedIn, id := guarded(t, "--allow-host="+hubName)
	tokenless := start(t, "--node-id=hub-1")
	for name, tc := range map[string]struct {
		h          *hub
		hub, where string
		paths      []string
	}{
		"another site":             {loggedIn, hubName, evilName, []string{"ui/", "ui/login"}},
		"the same site":            {loggedIn, hubName, hubName, []string{"ui/", "ui/subscriptions", "ui/subscriptions/" + id, "ui/login"}},
		"at a hub without a token": {tokenless, "127.0.0.1", evilName, []string{"ui/", "ui/subscriptions", "ui/hub"}},
		"the same machine":         {tokenless, "127.0.0.1", "127.0.0.1", []string{"ui/", "ui/topics"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, true)
			if tc.h == loggedIn {
				b.logIn(tc.h, tc.h.named(tc.hub)+"ui/subscriptions/"+id)
				b.await(tc.h, "No delivery failed.")
			}
			shown := site(t, tc.hub, map[string]string{"/": "may be framed"}) + "/"
			frames := "<iframe src='" + shown + "'></iframe>"
			for _, path := range tc.paths {
				frames += "<iframe src='" + tc.h.named(tc.hub) + path + "'></iframe>"
			}
			b.visit(site(t, tc.where, map[string]string{"/": frames}) + "/")
			want := append([]string{shown}, slices.Repeat([]string{"chrome-error://chromewebdata/"}, len(tc.paths))...)
			slices.Sort(want)
			got := b.frames()
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("the frames show %q, want %q", got, want)
			}
		})
	}
}

// A stranger plants a session in the operator's browser, an unknown one or the stranger's. After
// the operator has logged in, the stranger reads on with that session. It never becomes the
// operator's.
func TestPlantedSession(t *testing.T) {
	h, id := guarded(t, "--allow-host="+hubName)
	for _, name := range []string{"unknown", "of a reader"} {
		for _, path := range []string{"/ui/", "/ui/subscriptions", "/"} { // the browser sends the longer path first
			t.Run(name+" for "+path, func(t *testing.T) {
				planted := "PLANTED"
				if name == "of a reader" {
					planted = readerSession(t, h)
				}
				b := open(t, true)
				// Cookies ignore ports, so another program on the machine may do this.
				b.visit(site(t, hubName, nil) + "/")
				call(b, network.SetCookie, network.SetCookieParams{Name: "rshub_session", Value: planted, Domain: hubName, Path: path})
				b.visit(h.named(hubName) + "ui/login")
				if strings.Contains(b.text(), "Log out") { // the planted session is valid
					b.click(`form[action$="/logout"] button`)
					b.await(h, "Token of the operator")
				}
				b.logIn(h, h.named(hubName)+"ui/login?next="+url.QueryEscape("/ui/subscriptions/"+id))
				b.await(h, "No delivery failed.")
				if n := ask[int](b, `document.querySelectorAll('form[action$="/pause"]').length`); n != 1 {
					t.Errorf("the operator sees %d forms to pause it", n)
				}
				if status, _ := h.post("ui/subscriptions/"+id+"/pause", planted, nil); h.state(id) != "active" {
					t.Errorf("the planted session became that of the operator: %s", status)
				}
			})
		}
	}
}

// post sends a form of the page with a session, without a browser, and returns the status and the
// session that the answer sets.
func (h *hub) post(path, session string, form url.Values) (status, begun string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.admin+path, strings.NewReader(form.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"rshub_session=" + session}}
	resp, err := client.Transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for _, c := range resp.Cookies() {
		begun = c.Value
	}
	return resp.Status, begun
}

// readerSession returns the id of a session that a reader began.
func readerSession(t *testing.T, h *hub) string {
	t.Helper()
	status, session := h.post("ui/login", "", url.Values{"token": {readerToken}})
	if session == "" {
		t.Fatalf("a reader gets no session: %s", status)
	}
	return session
}
