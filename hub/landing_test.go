package hub

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func get(method, accept string) *http.Request {
	r := newRequest(method, hubURL, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return r
}

func TestLanding(t *testing.T) {
	w := newWorld(t)
	for accept, html := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"text/html": true, "": false, "*/*": false, "text/plain": false, "application/json": false,
	} {
		rec := w.do(get(http.MethodGet, accept))
		media := rec.Header().Get("Content-Type")
		if rec.Code != http.StatusOK || strings.HasPrefix(media, "text/html") != html || !html && media != "text/plain; charset=utf-8" {
			t.Errorf("Accept %q: %d, %s", accept, rec.Code, media)
		}
		body := rec.Body.String()
		for _, want := range []string{hubURL, "hub.mode=subscribe", "hub.callback", "application/xml", "rel=", "Authorization: Bearer", "curl", "Without a token", "hub.mode=publish"} {
			if !strings.Contains(body, want) {
				t.Errorf("Accept %q: no %q in it", accept, want)
			}
		}
		if strings.Contains(body, "<no value>") || strings.Contains(body, "<script") || strings.Contains(body, "ZgotmplZ") {
			t.Errorf("Accept %q: %s", accept, body)
		}
		head := w.do(get(http.MethodHead, accept))
		if head.Code != http.StatusOK || head.Header().Get("Content-Length") != rec.Header().Get("Content-Length") {
			t.Errorf("HEAD: %d, %v", head.Code, head.Header())
		}
	}
}

// The page's own style sheet is all that it may load.
func TestLandingPolicy(t *testing.T) {
	rec := newWorld(t).do(get(http.MethodGet, "text/html"))
	policy, body := rec.Header().Get("Content-Security-Policy"), rec.Body.String()
	_, css, _ := strings.Cut(body, "<style>")
	css, _, ok := strings.Cut(css, "</style>")
	sum := sha256.Sum256([]byte(css))
	if !ok || !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
		t.Errorf("the style sheet on the page is not that of the policy %q", policy)
	}
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%q lacks %q", policy, want)
		}
	}
}

// The page shows the credentials that are required here.
func TestLandingSaysWhatLetsAPublishIn(t *testing.T) {
	for want, auth := range map[string]PublishAuth{
		"Anyone may publish here":                       {Open: true, Token: true},
		"\nThe topic's URL has to serve the very bytes": {Content: true},
	} {
		body := newWorld(t, func(o *Options) { o.Auth = auth }).do(get(http.MethodGet, "")).Body.String()
		if !strings.Contains(body, want) || strings.Contains(body, "$TOKEN") {
			t.Errorf("%+v: %s", auth, body)
		}
	}
	if body := newWorld(t, func(o *Options) { o.Auth = PublishAuth{Token: true} }).do(get(http.MethodGet, "")).Body.String(); strings.Contains(body, "hub.mode=publish") {
		t.Errorf("pings are not taken here: %s", body)
	}
}

// The hub answers at the path of its public URL, and nowhere else.
func TestPath(t *testing.T) {
	for _, tc := range []struct {
		hub, path string
		want      int
	}{
		{"https://hub.example", "/", 200},
		{"https://hub.example/", "/", 200},
		{"https://hub.example/", "/x", 404},
		{"https://hub.example/a/b", "/a/b", 200},
		{"https://hub.example/a/b", "/a/b/", 404},
		{"https://hub.example/a/b", "/a/../a/b", 404},
		{"https://hub.example/a%2Fb", "/a%2Fb", 200},
		{"https://hub.example/a%2Fb", "/a/b", 404},
	} {
		w := newWorld(t, func(o *Options) { o.HubURL = tc.hub })
		if rec := w.do(newRequest(http.MethodGet, tc.path+"?x=y", nil)); rec.Code != tc.want {
			t.Errorf("%s of %s: %d", tc.path, tc.hub, rec.Code)
		}
	}
}
