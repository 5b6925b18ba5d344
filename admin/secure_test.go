package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/browser"
)

var paths = []string{"/", "/livez", "/readyz", "/metrics", "/api/v1/info", "/api/v1/topics", "/api/v1/subscriptions", "/nothing"}

func metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
}

func TestToken(t *testing.T) {
	base := start(t, Options{Token: held("s3cret"), Metrics: metrics()})
	for _, path := range paths {
		isOpen := path == "/livez" || path == "/readyz" || path == "/metrics"
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer S3CRET", "Basic s3cret", "s3cret"} {
			resp, body := send(t, http.MethodGet, base+path, "Authorization: "+auth)
			if isOpen {
				if resp.status != 200 {
					t.Errorf("%s needs a token: %d", path, resp.status)
				}
				continue
			}
			wantProblem(t, resp, body, 401, "--admin-token-file")
			if !strings.HasPrefix(resp.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate: %q", resp.header.Get("WWW-Authenticate"))
			}
		}
		for _, auth := range []string{"Bearer s3cret", "bearer s3cret"} { // any Host, with the token
			if resp, _ := send(t, http.MethodGet, base+path, "Authorization: "+auth, "Host: hub.example"); resp.status != 200 && path != "/nothing" {
				t.Errorf("%s with the token: %d", path, resp.status)
			}
		}
	}
	// No way around it by another spelling of an open path.
	for _, path := range []string{"/livez/../api/v1/info", "//livez", "/livez/", "/livez%2f..%2fapi/v1/info", "/LIVEZ", "/api/v1/info?/livez"} {
		resp, body := send(t, http.MethodGet, base+path)
		wantProblem(t, resp, body, 401, "Bearer")
	}
}

// A name that an attacker points at this machine is not answered.
func TestHostNamesWithoutToken(t *testing.T) {
	base := start(t, Options{Metrics: metrics()})
	for _, path := range paths {
		for host, ok := range map[string]bool{
			"localhost": true, "LocalHost:8081": true, "127.0.0.1": true, "127.0.0.1:1": true, "[::1]": true, "[::1]:8081": true,
			"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "192.168.0.1:8081": false, "127.0.0.2": false,
		} {
			resp, body := send(t, http.MethodGet, base+path, "Host: "+host)
			switch {
			case !ok:
				wantProblem(t, resp, body, 421, "localhost")
			case resp.status == 421:
				t.Errorf("%s%s: %d", host, path, resp.status)
			}
		}
	}
}

func TestCrossOriginWritesAreRefused(t *testing.T) {
	refusals := atomic.Int32{}
	counted := func(why Refusal) {
		if why == RefusedCrossSite {
			refusals.Add(1)
		}
	}
	hosts := []string{"hub.example.org:443", "hub.internal"}
	for name, base := range map[string]string{
		"no token": start(t, Options{Hosts: hosts, Refused: counted}),
		"token":    start(t, Options{Hosts: hosts, Refused: counted, Token: held("s3cret")}),
	} {
		// A name that was pointed to this machine makes any page one of the same origin.
		for _, header := range []string{"Origin: http://evil.example", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} {
			before := refusals.Load()
			resp, body := send(t, http.MethodPost, base+"/api/v1/topics", "Host: evil.example", header, "Authorization: Bearer s3cret")
			wantProblem(t, resp, body, 403, "--allow-host")
			if refusals.Load() != before+1 {
				t.Errorf("%d refusals were counted", refusals.Load()-before)
			}
		}
		for _, host := range []string{"hub.example.org", "hub.internal:8081"} {
			resp, _ := send(t, http.MethodPost, base+"/api/v1/topics", "Host: "+host, "Origin: http://"+host, "Authorization: Bearer s3cret")
			if want := map[string]int{"no token": 421, "token": 405}[name]; resp.status != want {
				t.Errorf("%s, %s: %d, want %d", name, host, resp.status, want)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			for _, header := range []string{"Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
				resp, body := send(t, method, base+"/api/v1/topics", header, "Authorization: Bearer s3cret")
				wantProblem(t, resp, body, 403, "origin")
			}
			// curl, and a page of our own, go through (to a 405 for now).
			for _, header := range []string{"X: y", "Origin: " + base, "Sec-Fetch-Site: same-origin"} {
				if resp, _ := send(t, method, base+"/api/v1/topics", header, "Authorization: Bearer s3cret"); resp.status != 405 {
					t.Errorf("%s, %s %s: %d", name, method, header, resp.status)
				}
			}
		}
	}
}

// Every path answers every method with the headers that keep a browser from interpreting the answer
// as anything else, for every client.
func TestSecurityHeadersAreOnEveryAnswer(t *testing.T) {
	o := Options{Token: held("s3cret"), Metrics: metrics(), Pprof: true}
	base := start(t, o)
	asked := []string{"//api/../livez", "/nothing"}
	for _, rt := range newAPI(o).routes {
		asked = append(asked, strings.NewReplacer("{id}", uuid.Nil.String(), "{profile}", "goroutine").Replace(rt.path))
	}
	for _, path := range asked {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodPut} {
			for _, header := range []string{"Authorization: Bearer s3cret", "Authorization: x", "Origin: https://evil.example"} {
				if strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") {
					header = "Authorization: x" // these need a long time
				}
				resp, _ := send(t, method, base+path, header)
				wantHardened(t, method+" "+path+" "+header, resp.status, resp.header)
			}
		}
	}
	rec := httptest.NewRecorder()
	Broken(rec, nil)
	wantHardened(t, "broken", rec.Code, rec.Header())
	wantProblem(t, answer{status: rec.Code, header: rec.Header()}, rec.Body.String(), 500, "X-Request-Id")
}

func wantHardened(t *testing.T, what string, status int, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": browser.PolicyNothing, "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s (%d): %s: %q, want %q", what, status, name, got, want)
		}
	}
}

// held is a token that stays the same. If it is empty, there is no token.
func held(token string) func() string {
	if token == "" {
		return nil
	}
	return func() string { return token }
}

// A person whom the proxy logged in needs no token. The hub believes the proxy's headers only from
// the proxy.
func TestPeopleBehindAProxy(t *testing.T) {
	people := &People{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}, Header: "X-Forwarded-User", RoleHeader: "X-Role"}
	l := newTabled(Options{Token: held("the-token-of-the-operator"), People: people})
	retry := "/api/v1/subscriptions/" + l.subscription + "/retry"
	for name, tc := range map[string]struct {
		from   string
		header []string
		look   int
		change int
		who    string
	}{
		"operator":             {"192.0.2.7:1", []string{"X-Forwarded-User: alice", "X-Role: operator", "X-Forwarded-For: 198.51.100.3"}, 200, 200, "alice"},
		"reader":               {"192.0.2.7:1", []string{"X-Forwarded-User: bob", "X-Role: Reader"}, 200, 403, ""},
		"no role":              {"192.0.2.7:1", []string{"X-Forwarded-User: eve"}, 403, 403, ""},
		"another role":         {"192.0.2.7:1", []string{"X-Forwarded-User: eve", "X-Role: admin"}, 403, 403, ""},
		"a name of the client": {"192.0.2.7:1", []string{"X-Forwarded-User: admin", "X-Forwarded-User: eve", "X-Role: operator"}, 403, 403, ""},
		"a role of the client": {"192.0.2.7:1", []string{"X-Forwarded-User: eve", "X-Role: operator", "X-Role: reader"}, 403, 403, ""},
		"nobody":               {"192.0.2.7:1", []string{"X-Role: operator"}, 401, 401, ""},
		"not from the proxy":   {"192.0.2.99:1", []string{"X-Forwarded-User: eve", "X-Role: operator", "X-Forwarded-For: 192.0.2.7"}, 401, 401, ""},
		"another site's page":  {"192.0.2.7:1", []string{"X-Forwarded-User: alice", "X-Role: operator", "Origin: https://evil.example"}, 200, 403, ""},
		"a name with an order": {"192.0.2.7:1", []string{"X-Forwarded-User: al\x1b[2Jice", "X-Role: operator"}, 200, 200, "al\ufffd[2Jice"},
		"a token, through it":  {"192.0.2.7:1", []string{"Authorization: Bearer the-token-of-the-operator"}, 200, 200, "operator's token"},
	} {
		with := append([]string{"Remote: " + tc.from}, tc.header...)
		if resp, body := l.ask(t, http.MethodGet, "/api/v1/info", with...); resp.status != tc.look {
			t.Errorf("%s looks: %d %s", name, resp.status, body)
		}
		l.logs.TakeAll()
		resp, body := l.ask(t, http.MethodPost, retry, with...)
		if resp.status != tc.change {
			t.Errorf("%s changes something: %d %s", name, resp.status, body)
		}
		if tc.who == "" {
			continue
		}
		lines := l.logs.FilterField(zap.String("who", tc.who)).All()
		if len(lines) != 1 {
			t.Errorf("%s: no line about %q: %v", name, tc.who, l.logs.All())
		} else if name == "operator" && lines[0].ContextMap()["requester"] != "198.51.100.3" {
			t.Errorf("from where: %v", lines[0].ContextMap())
		}
	}
	people.RoleHeader = ""
	if resp, body := l.ask(t, http.MethodPost, retry, "X-Forwarded-User: alice"); resp.status != 200 {
		t.Errorf("without a header for roles: %d %s", resp.status, body)
	}
}
