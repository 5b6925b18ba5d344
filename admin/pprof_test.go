package admin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// Profiles are served only if --pprof is set, and only with the token. Without one there are none,
// even on this machine.
func TestProfiles(t *testing.T) {
	get := func(o Options, path, token string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		New(o).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	on := Options{Token: held("t"), ReaderToken: held("r"), Pprof: true}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace", "/debug/pprof/symbol"} {
		if status, body := get(on, path, "r"); status != http.StatusForbidden {
			t.Errorf("%s for a reader: %d %.100q", path, status, body)
		}
	}
	if status, body := get(on, "/debug/pprof/cmdline", "t"); status != http.StatusNotFound || strings.Contains(body, os.Args[0]) {
		t.Errorf("the command line: %d %.100q", status, body)
	}
	for path, part := range map[string]string{
		"/": "/debug/pprof/", "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/heap": "",
	} {
		if status, body := get(on, path, "t"); status != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: %d %.100q", path, status, body)
		}
		for _, token := range []string{"", "wrong"} {
			if status, _ := get(on, path, token); status != http.StatusUnauthorized {
				t.Errorf("%s with the token %q: %d", path, token, status)
			}
		}
		if path == "/" {
			continue
		}
		for _, off := range []Options{{Token: held("t")}, {Pprof: true}, {}} {
			if status, _ := get(off, path, "t"); status != http.StatusNotFound {
				t.Errorf("%s, with a token: %t, Pprof %t: %d", path, off.Token != nil, off.Pprof, status)
			}
		}
	}
	if status, _ := get(on, "/debug/pprof/nonesuch", "t"); status != http.StatusNotFound {
		t.Errorf("an unknown profile: %d", status)
	}
}
