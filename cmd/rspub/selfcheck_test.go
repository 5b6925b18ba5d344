package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/base/web"
)

// The check at the start reports what hubs refuse: a topic that redirects, one that names another
// topic, and one that does not name the hub.
func TestTopicsAreCheckedAsHubsDo(t *testing.T) {
	const hub = "https://hub.example/"
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	link := func(self, hub string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<"+self+`>; rel="self", <`+hub+`>; rel="hub"`)
		}
	}
	mux.Handle("/good", link(server.URL+"/good", hub))
	mux.Handle("/moved", http.RedirectHandler("/good", http.StatusMovedPermanently))
	mux.Handle("/self", link(server.URL+"/good", hub))
	mux.Handle("/hub", link(server.URL+"/hub", "https://other.example/"))
	client := web.DoerFunc(http.DefaultTransport.RoundTrip)
	for path, want := range map[string]string{
		"/good": "", "/moved": "hubs do not follow a topic's redirect", "/self": "does not name it as self",
		"/hub": "does not name the hub " + hub, "/gone": "answers 404",
	} {
		got := namesHubs(t.Context(), client, server.URL+path, []string{hub})
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
