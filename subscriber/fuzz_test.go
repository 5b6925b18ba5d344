package subscriber

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/corpus"
	"github.com/rshub/rshub/websub"
)

// FuzzBatch reads what may stand in a damaged state.
func FuzzBatch(f *testing.F) {
	raw, err := packBatch(batch{ID: "x", From: time.Unix(1, 0), Until: time.Unix(2, 0), Skip: []string{"a"}}, []byte("payload"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{255, 255, 255, 255, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, payload, err := unpackBatch(raw)
		if err != nil {
			return
		}
		again, err := packBatch(b, payload)
		if err != nil {
			return // a time that can't be written
		}
		c, other, err := unpackBatch(again)
		if err != nil || !bytes.Equal(payload, other) || c.ID != b.ID || !c.Until.Equal(b.Until) {
			t.Errorf("%+v %v became %+v %v: %v", b, payload, c, other, err)
		}
	})
}

// FuzzCallback asks a callback for verifications: only what was asked for is
// confirmed, and then with the challenge and nothing else.
func FuzzCallback(f *testing.F) {
	const token, topic = "TOKEN", "https://source.example/topic"
	s, err := Open(Options{Dir: f.TempDir(), Topic: topic, Callback: "https://me.example/"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	s.inbox.db.InterceptSync(func(string, func() error) error { return nil })
	f.Add("TOKEN", "hub.mode=subscribe&hub.topic=https%3A%2F%2Fsource.example%2Ftopic&hub.challenge=abc&hub.lease_seconds=10")
	f.Add("TOKEN", "hub.mode=denied&hub.topic=https://source.example/topic&hub.reason=%ff%0a")
	f.Add("/TOKEN", "hub.mode=denied&hub.topic=https://source.example/topic")
	f.Add("TOKEN", "hub.mode=subscribe&hub.topic=x&hub.topic=https://source.example/topic&hub.challenge=abc")
	f.Add("OTHER", "hub.mode=subscribe&hub.topic=https://source.example/topic&hub.challenge=abc;%zz&hub.lease_seconds=99999999999999999999")
	f.Fuzz(func(t *testing.T, path, query string) {
		if err := s.inbox.update(func(tx *tx) error {
			return putSubscription(tx, subscription{Token: token, Topic: topic, Wanted: websub.ModeSubscribe, AskedAt: time.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: "/cb/" + path, RawQuery: query}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		q, _ := url.ParseQuery(query)
		mode, challenge := q.Get("hub.mode"), q.Get("hub.challenge")
		wanted := path[strings.LastIndexByte(path, '/')+1:] == token && q.Get("hub.topic") == topic && (mode == "subscribe" && challenge != "" || mode == "denied")
		if wanted != (w.Code == 200) || wanted && w.Body.String() != challenge || !wanted && w.Code != 404 {
			t.Errorf("%q: %d %q", query, w.Code, w.Body)
		}
		if st, err := s.Status(); err != nil || w.Code == 200 && mode == "subscribe" && !st.Subscriptions[0].ExpiresAt.After(time.Now()) {
			t.Errorf("%+v %v", st, err)
		}
	})
}

// FuzzExamine reads what hubs send.
func FuzzExamine(f *testing.F) {
	f.Add("application/xml", []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:01Z"/><url><loc>https://source.example/a</loc><rs:md change="created" datetime="2026-01-01T00:00:01Z"/></url></urlset>`), true)
	f.Add("text/plain; charset", []byte("x"), false)
	f.Add("application/atom+xml", []byte("<feed/>"), false)
	for _, folder := range []string{corpus.Documents, corpus.Malformed} {
		for _, doc := range corpus.Read(f, folder) {
			f.Add("application/xml", doc, true)
		}
	}
	f.Fuzz(func(t *testing.T, mediaType string, body []byte, changesOnly bool) {
		b, err := examine(mediaType, body, changesOnly)
		if err != nil {
			return
		}
		if b.Content && changesOnly || b.Content && !b.Until.IsZero() || b.Until.Before(b.From) || len(b.edge) > 0 && b.Empty {
			t.Errorf("%+v", b)
		}
	})
}

// FuzzStatusFile reads what may stand in a folder.
func FuzzStatusFile(f *testing.F) {
	f.Add([]byte(`{"as_of":"2026-01-01T00:00:00Z","gaps":[{"from":"2026-01-01T00:00:00Z","state":"open"}],"counts":{"refused":{"x":1}}}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, statusFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := ReadStatus(dir); err != nil && st.Counts.Received > 0 && len(st.Gaps) > 1<<20 {
			t.Error("a status and an error")
		}
	})
}
