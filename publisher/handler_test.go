package publisher

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// answer is what came back of a request.
type answer struct {
	StatusCode int
	Header     http.Header
	length     int64
	body       string
}

func ask(t *testing.T, h http.Handler, method, url string, header ...string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, url, nil)
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	h.ServeHTTP(w, r)
	length, _ := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return answer{w.Code, w.Header(), length, w.Body.String()}
}

// checkLinks makes sure that an answer names the topic once, each hub, and the
// Capability List (SRC-02, SRC-04, SRC-13).
func checkLinks(t *testing.T, r answer) {
	t.Helper()
	links := websub.ParseLinks(r.Header.Values("Link"))
	self, hubs, list := websub.Targets(links, "self"), websub.Targets(links, "hub"), websub.Targets(links, "resourcesync")
	if len(self) != 1 || self[0] != bedTopic || len(hubs) != 2 || hubs[0] != hubA || hubs[1] != hubB ||
		len(list) != 1 || list[0] != "https://source.example/capabilitylist.xml" {
		t.Errorf("Link: %q", r.Header.Values("Link"))
	}
}

// cutAll cuts what was recorded, as Run does.
func cutAll(t *testing.T, p *Publisher) {
	t.Helper()
	for {
		ok, err := p.cut(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
	}
}

// Before the first notification the topic answers 200 without content, and from
// then on with the newest one (SRC-02, SRC-03).
func TestTopicURI_SRC02_SRC03(t *testing.T) {
	for _, size := range []int{1, 2000} { // in the database, and in a file
		b := newBed(t, hubA, hubB)
		p := b.open(nil)
		h := p.Handler()
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := ask(t, h, method, bedTopic)
			if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/xml" || r.Header.Get("Content-Length") != "0" || r.body != "" {
				t.Errorf("%s before the first: %d %v", method, r.StatusCode, r.Header)
			}
			checkLinks(t, r)
		}
		b.record(p, 0, size, together)
		if r := ask(t, h, http.MethodGet, bedTopic); r.body != "" {
			t.Error("what was not cut is served")
		}
		cutAll(t, p)
		r := ask(t, h, http.MethodGet, bedTopic)
		text := r.body
		n, err := resourcesync.CheckNotification(strings.NewReader(text), resourcesync.Limits{})
		if err != nil || n.Entries != size || n.Up != "https://source.example/capabilitylist.xml" {
			t.Errorf("the notification: %+v %v", n, err)
		}
		checkLinks(t, r)
		copied := r.Header.Get("Content-Location")
		if !strings.HasPrefix(copied, bedTopic) {
			t.Fatalf("Content-Location: %s", copied)
		}
		if head := ask(t, h, http.MethodHead, bedTopic); head.body != "" || head.length != int64(len(text)) || head.Header.Get("ETag") != r.Header.Get("ETag") {
			t.Errorf("HEAD: %v", head.Header)
		}
		b.record(p, size, size+1, together)
		cutAll(t, p)
		if newer := ask(t, h, http.MethodGet, bedTopic); newer.body == text || newer.Header.Get("ETag") == r.Header.Get("ETag") {
			t.Error("the topic serves an old notification")
		}
		// The copy stays, whatever the topic's URL serves.
		again := ask(t, h, http.MethodGet, copied)
		if again.body != text || !strings.Contains(again.Header.Get("Cache-Control"), "immutable") || again.Header.Get("Last-Modified") == "" {
			t.Errorf("the copy: %d %v", again.StatusCode, again.Header)
		}
		checkLinks(t, again)
		tag := again.Header.Get("ETag")
		if r := ask(t, h, http.MethodGet, copied, "If-None-Match", tag); r.StatusCode != http.StatusNotModified || r.body != "" {
			t.Errorf("If-None-Match: %d", r.StatusCode)
		}
		if r := ask(t, h, http.MethodGet, copied, "If-Modified-Since", again.Header.Get("Last-Modified")); r.StatusCode != http.StatusNotModified {
			t.Errorf("If-Modified-Since: %d", r.StatusCode)
		}
		if r := ask(t, h, http.MethodGet, copied, "Range", "bytes=5-9", "If-Range", tag); r.StatusCode != http.StatusPartialContent || r.body != text[5:10] {
			t.Errorf("Range: %d", r.StatusCode)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTopicHasOneRepresentation_SRC05(t *testing.T) {
	b := newBed(t, hubA, hubB)
	p := b.open(nil)
	b.record(p, 0, 1, together)
	cutAll(t, p)
	plain := ask(t, p.Handler(), http.MethodGet, bedTopic)
	for name, value := range map[string]string{"Accept": "text/html", "Accept-Encoding": "gzip", "Accept-Language": "de"} {
		r := ask(t, p.Handler(), http.MethodGet, bedTopic, name, value)
		checkLinks(t, r)
		if r.StatusCode != http.StatusOK || r.body != plain.body || r.Header.Get("Content-Encoding") != "" || r.Header.Get("ETag") != plain.Header.Get("ETag") {
			t.Errorf("with %s: %s the topic answers %d %v", name, value, r.StatusCode, r.Header)
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	b := newBed(t, hubA, hubB)
	p := b.open(nil)
	h := p.Handler()
	b.record(p, 0, 1, together)
	cutAll(t, p)
	name := strings.TrimPrefix(ask(t, h, http.MethodGet, bedTopic).Header.Get("Content-Location"), bedTopic)
	for _, path := range []string{
		"/changes/x", "/changes/../changes/" + name, "/changes/x/" + name, "/changes/" + name + "/", "/changes/" + strings.ToUpper(name),
		"/other/", "/changes", "/", "/changes/" + strings.Replace(name, ".xml", ".tmp", 1),
		"/changes/" + name[:len(name)-8] + "0000.xml", "/changes/19700101T000000.000000000Z-00000000000000000000000000000000.xml",
	} {
		if r := ask(t, h, http.MethodGet, "https://source.example"+path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := ask(t, h, http.MethodPost, bedTopic); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", r.StatusCode, r.Header)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", name} {
		if r := ask(t, h, http.MethodGet, bedTopic+path); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || r.Header.Get("Cache-Control") != "" {
			t.Errorf("of a closed publisher %q: %d %v", path, r.StatusCode, r.Header)
		}
	}
}
