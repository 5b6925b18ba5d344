package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Both forms of the header are read alike for every caller, and none gets past its limit.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "-5": 0, "+5": 0, "1.5": 0, "soon": 0,
		"3600": time.Hour, "3601": time.Hour, "9223372036": time.Hour, "99999999999999999999": time.Hour,
		testNow.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		testNow.Add(-time.Hour).Format(http.TimeFormat):  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":                  time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, testNow, time.Hour); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	const year = 365 * 24 * time.Hour
	for value, want := range map[string]time.Duration{"99999999999999999999": year, "31536001": year, "31535999": year - time.Second, "Fri, 31 Dec 9999 23:59:59 GMT": year} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, testNow, year); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]bool{"": false, "soon": false, "-1": false, "0": true, testNow.Add(-time.Hour).Format(http.TimeFormat): true} {
		if after, asks := ParseRetryAfter(http.Header{"Retry-After": {value}}, testNow, year); after != 0 || asks != want {
			t.Errorf("%q: %v %t", value, after, asks)
		}
	}
	// Nearly every answer has none, and each delivery asks.
	if n := testing.AllocsPerRun(100, func() {
		if got := RetryAfter(nil, testNow, time.Hour); got != 0 {
			t.Errorf("no header: %v", got)
		}
	}); n != 0 {
		t.Errorf("%v allocations without the header", n)
	}
}

// An *http.Client follows no redirect, and stays as it was for its owner.
func TestWithoutRedirects(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer s.Close()
	theirs := s.Client()
	for d, want := range map[Doer]int{theirs: 200, WithoutRedirects(theirs): 302, WithoutRedirects(WithoutRedirects(theirs)): 302} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := d.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%p: %d, want %d", d, resp.StatusCode, want)
		}
	}
	if d := WithoutRedirects(nil); d != nil {
		t.Errorf("nil became %v", d)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "Fri, 31 Dec 1999 23:59:59 GMT", "-1", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := RetryAfter(http.Header{"Retry-After": {s}}, testNow, time.Hour); d < 0 || d > time.Hour {
			t.Errorf("%q: %v", s, d)
		}
	})
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ base, ref, want string }{
		{"http://h/a/b", "c?d#e", "http://h/a/c?d"},
		{"https://h/a", "//other/x", "https://other/x"},
		{"http://h/a", " HTTPS://H/%7e/../é ", "https://H/%7e/../é"},
		{"http://h/a", "/100%?a b", "http://h/100%25?a%20b"},
		{"http://h/a", "https://h/", "https://h/"},
		{"http://h/a", "http://me:secret@h/b%2f", "http://h/b%2f"},
		{"http://me:secret@h/a", "b", "http://h/b"},
		{"https://h/a", "http://h/", "error: that leads from https to http"},
		{"HTTPS://h/a", "http://h/", "error: that leads from https to http"},
		{"http://h/a", "file:///etc/passwd", "error: that is no http or https URL"},
		{"http://h/a", "http:///x", "error: that is no http or https URL"},
		{"http://h/a", "mailto:me", "error: that is no http or https URL"},
	} {
		got, err := Resolve(c.base, c.ref)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s from %s: %q, want %q", c.ref, c.base, got, c.want)
		}
	}
}

// hop answers as a handler does.
func hop(status int, location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(status)
	}
}

// noRedirects is a client that follows none.
func noRedirects(c *http.Client) Doer {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Each status leads on for the methods that it redirects, with the method and body it had.
func TestRedirects(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, body)
	})
	mux.Handle("/none", hop(302, ""))
	mux.Handle("/circle", hop(307, "/circle"))
	mux.Handle("/file", hop(302, "file:///etc/passwd"))
	mux.Handle("/secret", hop(302, "gopher://me:secret@h/a@b"))
	mux.Handle("/none-of-it", hop(302, "mailto:me@h/%zz?//a@b"))
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		mux.Handle(fmt.Sprintf("/%d", status), hop(status, "there"))
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	client := noRedirects(s.Client())
	for _, c := range []struct{ method, path, want string }{
		{"GET", "301", "200 GET "},
		{"GET", "302", "200 GET "},
		{"GET", "303", "200 GET "},
		{"GET", "307", "200 GET "},
		{"GET", "308", "200 GET "},
		{"GET", "300", "300 "},
		{"GET", "304", "304 "},
		{"GET", "305", "305 "},
		{"GET", "none", "302 "},
		{"HEAD", "303", "200 "},
		{"POST", "307", "200 POST a=b"},
		{"POST", "308", "200 POST a=b"},
		{"POST", "301", "301 "},
		{"POST", "302", "302 "},
		{"POST", "303", "303 "},
		{"GET", "circle", s.URL + "/circle: more than 5 redirects"},
		{"GET", "secret", s.URL + `/secret redirects to "gopher://h/a@b": that is no http or https URL`},
		{"GET", "none-of-it", s.URL + `/none-of-it redirects to "mailto:me@h/%zz?//a@b": that is no http or https URL`},
		{"GET", "file", s.URL + `/file redirects to "file:///etc/passwd": that is no http or https URL`},
	} {
		r := Request{Method: c.method, URL: s.URL + "/" + c.path}
		if c.method == http.MethodPost {
			r.Body = "a=b"
		}
		a, err := Ask(t.Context(), client, r)
		got := ""
		var redirect *RedirectError
		switch {
		case err == nil:
			body, _ := io.ReadAll(a.Body)
			_ = a.Body.Close()
			got = fmt.Sprintf("%d %s", a.StatusCode, body)
			if is := strings.HasSuffix(a.URL, "/there"); is != (a.StatusCode == 200) {
				t.Errorf("%s %s: %s", c.method, c.path, a.URL)
			}
		case errors.As(err, &redirect):
			got = err.Error()
		default:
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

// A redirect never leads from https to http, nor to what the caller does not allow.
func TestRedirectsThatAreNotFollowed(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(hop(308, plain.URL))
	defer secure.Close()
	client := noRedirects(secure.Client())
	_, err := Ask(t.Context(), client, Request{Method: "GET", URL: strings.Replace(secure.URL, "https", "HTTPS", 1)})
	if err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Error(err)
	}
	other := httptest.NewServer(hop(307, plain.URL))
	defer other.Close()
	no := errors.New("no")
	_, err = Ask(t.Context(), client, Request{Method: "POST", URL: other.URL, Body: "secret", Allow: func(next string) error {
		if next != plain.URL {
			t.Error(next)
		}
		return no
	}})
	if !errors.Is(err, no) {
		t.Error(err)
	}
}

// Credentials stay with scheme, host and port, also when a redirect leads back.
func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	var back string
	var seen []string
	note := func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("Cookie")+" "+r.Header.Get("Accept"))
		if r.URL.Path == "/2" {
			w.Header().Set("Location", back)
			w.WriteHeader(307)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(note))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		to := map[string]string{"/0": "/1", "/1": other.URL + "/2"}[r.URL.Path]
		if to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(302)
		}
	}))
	defer own.Close()
	back = own.URL + "/3"
	header := http.Header{"Authorization": {"a"}, "Cookie": {"c"}, "Accept": {"x"}}
	a, err := Ask(t.Context(), noRedirects(&http.Client{}), Request{Method: "GET", URL: own.URL + "/0", Header: header})
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if got := strings.Join(seen, ", "); got != "/0 ac x, /1 ac x, /2  x, /3  x" {
		t.Error(got)
	}
	if header.Get("Authorization") != "a" {
		t.Error("the header of the caller was changed")
	}
}

func TestNoAnswer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	var none *UnansweredError
	if _, err := Ask(t.Context(), noRedirects(&http.Client{}), Request{Method: "GET", URL: s.URL}); !errors.As(err, &none) || strings.Count(err.Error(), s.URL) != 1 {
		t.Error(err)
	}
	closes := DoerFunc(func(*http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Get", URL: "http://h/", Err: io.EOF}
	})
	if _, err := Ask(t.Context(), closes, Request{Method: "GET", URL: "http://h/"}); !errors.As(err, &none) || err.Error() != "http://h/: the server closed the connection before it answered" {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), noRedirects(&http.Client{}), Request{Method: "GET", URL: "http://h\x00/"}); err == nil || errors.As(err, &none) {
		t.Error(err)
	}
}

// drip gives a byte after each pause.
type drip struct {
	ctx   context.Context //nolint:containedctx // that of the request
	pause time.Duration
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.pause):
		p[0] = 'x'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

var testPace = Pace{Stall: 10 * time.Second, Rate: 1 << 10}

// A body that stalls or drips, and a header that does not come, end in bounded time.
func TestPace(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{
		time.Hour: 10 * time.Second, time.Second: 10*time.Second + 10*time.Second/1024, 9 * time.Second: 10*time.Second + time.Second/1024,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			resp, err := testPace.Do(DoerFunc(func(r *http.Request) (*http.Response, error) {
				return &http.Response{Body: io.NopCloser(drip{r.Context(), pause})}, nil
			}), httptest.NewRequestWithContext(t.Context(), "GET", "http://h/", nil))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if took := time.Since(began); !errors.Is(err, ErrSlow) || took.Round(time.Millisecond) > want.Round(time.Millisecond) {
				t.Errorf("a byte each %v: %v after %v, want %v", pause, err, took, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := testPace.Do(DoerFunc(func(r *http.Request) (*http.Response, error) { //nolint:bodyclose // there is none
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), httptest.NewRequestWithContext(t.Context(), "GET", "http://h/", nil))
		if !errors.Is(err, ErrSlow) || time.Since(began) != testPace.Stall {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	if got := testPace.Limit(5 << 10); got != 15*time.Second {
		t.Error(got)
	}
	if got := (Pace{time.Second, 128 << 10}).Limit(64 << 10); got != 1500*time.Millisecond {
		t.Error(got)
	}
}

// Time in which nobody reads is not the server's.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, err := testPace.Do(DoerFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{Body: io.NopCloser(drip{r.Context(), time.Millisecond})}, nil
		}), httptest.NewRequestWithContext(t.Context(), "GET", "http://h/", nil))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		_ = resp.Body.Close()
	})
}

func TestConfidential(t *testing.T) {
	for url, want := range map[string]bool{
		"https://h/": true, "http://localhost:8080/": true, "http://127.0.0.2/": true, "http://[::1]/": true, "http://[::ffff:127.0.0.1]/": true,
		"http://h/": false, "http://10.0.0.1/": false, "http://localhost.example/": false, "": false, "http://[": false,
	} {
		if got := Confidential(url); got != want {
			t.Errorf("%q: %t", url, got)
		}
	}
}
