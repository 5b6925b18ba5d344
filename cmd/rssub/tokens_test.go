package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
)

// A token goes to its host only, over plain http only if the port is named, and not with a POST.
func TestTokensGoToTheirHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readTokens([]string{"Hub.example=" + file, "other.example:8080=" + file, "[2001:DB8:0::1]:08443=" + file, "2001:db8:0::2=" + file})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	client := authorized{doer(func(r *http.Request) (*http.Response, error) { got = r.Header.Get("Authorization"); return nil, nil }), all}
	for _, tc := range []struct{ method, url, want string }{
		{"GET", "https://hub.example/x", "Bearer secret"},
		{"GET", "https://hub.example:444/", "Bearer secret"},
		{"GET", "http://hub.example/", ""},
		{"GET", "http://other.example:8080/", "Bearer secret"},
		{"GET", "https://other.example/", ""},
		{"GET", "https://third.example/", ""},
		{"GET", "https://[2001:db8::1]:8443/", "Bearer secret"},
		{"GET", "https://[2001:db8:0:0::1]:8443/", "Bearer secret"},
		{"GET", "https://[2001:0db8::2]/", "Bearer secret"},
		{"GET", "https://[2001:db8::1]/", ""},
		{"POST", "https://hub.example/", ""},
	} {
		u, _ := url.Parse(tc.url)
		r := (&http.Request{Method: tc.method, URL: u, Header: http.Header{}}).WithContext(t.Context())
		if resp, _ := client.Do(r); resp != nil || got != tc.want || r.Header.Get("Authorization") != "" { //nolint:bodyclose // there is none
			t.Errorf("%s %s got %q, want %q", tc.method, tc.url, got, tc.want)
		}
	}
	for _, wrong := range []string{"x", "=" + file, "a b=" + file, "x="} {
		if _, err := readTokens([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// listen sends its token to a hub whose streams are for readers with one.
func TestListenSendsItsToken(t *testing.T) {
	const data = `{"id":"n1","topic":%q,"content_type":"text/plain","size":2,"sha256":"8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4","document":"hi"}`
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	mux.HandleFunc("/topic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+s.URL+`/topic>; rel="self", <`+s.URL+`/hub>; rel="hub"`)
	})
	mux.HandleFunc("/hub", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: notification\nid: p1\ndata: "+data+"\n\n", s.URL+"/topic")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs printed
	go func() {
		for ctx.Err() == nil && !strings.Contains(out.String(), `"content":"hi"`) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	args := []string{"listen", "--topic", s.URL + "/topic", "--via", "stream", "--allow-cidr", "127.0.0.0/8", "--state-dir", filepath.Join(dir, "state"), "--token-file", strings.TrimPrefix(s.URL, "http://") + "=" + file}
	if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != cli.ExitOK || !strings.Contains(out.String(), `"content":"hi"`) {
		t.Fatalf("%d\n%s%s", code, out.String(), errs.String())
	}
}
