package websub

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What passes as a topic or a callback is called as it was given, to the byte
// (HUB-40), with and without what is appended to it, and stands unchanged in a
// Link header (HUB-43).
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"https://example.org/a?b=1&b=2", "http://example.org", "http://[::1]:80/%7E/?", "HTTP://EXAMPLE.org:8080?x", "https://a/b;c,d?{|}",
		"https://user@a/", "https://a/#", "http://a:0/", "http://a/%zz", "//a/", "http:///", "http://a%41/", "http://a/{b}", "http://a:/", "http://a:?b", "http://a/{b}?/%7Bb%7D", "http://a/?<b>, c", "http://a/?\x7f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if err := CheckURL("hub.topic", raw); err != nil {
			checkSentence(t, err)
			return
		}
		if len(raw) > MaxURL {
			t.Fatalf("%d bytes", len(raw))
		}
		for _, given := range []string{raw, AppendQuery(raw, Param{"hub.mode", "subscribe"})} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, given, http.NoBody)
			if err != nil {
				t.Fatalf("%q can't be called: %v", given, err)
			}
			_, rest, _ := strings.Cut(given, "://")
			target, host := strings.TrimPrefix(rest, r.URL.Host), r.URL.Host
			target = strings.TrimPrefix(target, ":") // a port that is empty, which HTTP leaves out
			if !strings.HasPrefix(target, "/") {
				target = "/" + target // the one thing that HTTP adds
			}
			if sent := r.URL.RequestURI(); !strings.HasPrefix(rest, host) || sent != target {
				t.Errorf("%q is called at %q as %q", given, host, sent)
			}
		}
		if u, err := http.NewRequestWithContext(t.Context(), http.MethodGet, HubURL(raw), http.NoBody); err != nil || CheckURL("", HubURL(raw)) != nil && len(raw) < MaxURL {
			t.Errorf("%q can't be a hub's URL, and %q can", HubURL(raw), raw)
		} else if same, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, http.NoBody); u.URL.RequestURI() != same.URL.RequestURI() || u.URL.Host != same.URL.Host {
			t.Errorf("%q leads elsewhere than %q", HubURL(raw), raw)
		}
		link := Link{Target: raw, Rels: []string{"self"}}
		if got := Targets(ParseLinks([]string{FormatLinks(link, link)}), "self"); !slices.Equal(got, []string{raw, raw}) {
			t.Errorf("%q is %q in a Link header", raw, got)
		}
	})
}
