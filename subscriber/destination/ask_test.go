package destination_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// sameSecond serves what text has. Its time of modification stays that of the first answer, as if all changes were within
// one second. The ETag is as nginx makes it: of that time and the length.
func sameSecond(text *atomic.Value) http.HandlerFunc {
	var modified atomic.Value
	return func(w http.ResponseWriter, r *http.Request) {
		modified.CompareAndSwap(nil, time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Last-Modified", modified.Load().(string)) //nolint:errcheck,forcetypeassert // there is nothing else in it
		w.Header().Set("ETag", `"the length"`)
		if r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text.Load().(string)) //nolint:errcheck,forcetypeassert // as above
	}
}

// What a server sent in the second in which it was modified may have changed within that second, with the same validators.
func TestValidatorsOfTheSameSecond(t *testing.T) {
	t.Run("resource", func(t *testing.T) {
		s, dir := newSource(t), t.TempDir()
		s.noHashes = true
		var text atomic.Value
		text.Store("one")
		s.put("x", "one", 0)
		s.set("/data/x", sameSecond(&text))
		c := s.open(dir)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
			t.Fatalf("%v %+v", err, r)
		}
		text.Store("two")
		s.put("x", "two", 10)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
			t.Errorf("%v %+v", err, r)
		}
		s.same(dir)
	})
	t.Run("list", func(t *testing.T) {
		s, dir := newSource(t), t.TempDir()
		s.offers = []string{"resourcelist"}
		s.put("x", "body", 0)
		s.put("y", "body", 0)
		list := func(name string) string {
			return document("urlset", "resourcelist", "<url><loc>"+s.URL+"/data/"+name+"</loc></url>")
		}
		var text atomic.Value
		text.Store(list("x"))
		s.set("/resourcelist.xml", sameSecond(&text))
		c := s.open(dir)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
			t.Fatalf("%v %+v", err, r)
		}
		text.Store(list("y"))
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || r.Deleted != 1 {
			t.Errorf("%v %+v", err, r)
		}
	})
}
