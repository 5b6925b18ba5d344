package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// changesDocument is a change list as it stands.
func changesDocument(attributes, body string) string {
	return strings.Replace(document("urlset", "changelist", body), ` at="2026-01-01T00:00:00Z"`, attributes, 1)
}

// Lists as the Python library writes them: the Change List has no from, its changes
// no datetime, and a deletion the lastmod of what was deleted (DST-16).
func TestListsOfThePythonLibrary(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, "first "+name, 0)
	}
	entry := func(name string, change resourcesync.ChangeType) string {
		md := fmt.Sprintf(`<rs:md change="%s"/>`, change)
		if body, ok := s.files[name]; ok {
			md = fmt.Sprintf(`<rs:md change="%s" hash="%s" length="%d"/>`, change, hashOf(body), len(body))
		}
		return "<url><loc>" + s.URL + "/data/" + name + "</loc><lastmod>2020-01-01T00:00:00Z</lastmod>" + md + "</url>"
	}
	s.set("/changelist.xml", answer(changesDocument("", "")))
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 3 {
		t.Fatalf("%v %+v", err, r)
	}
	s.put("a", "second a", 0)
	s.put("d", "new", 0)
	delete(s.files, "b")
	list := entry("a", "updated") + entry("b", "deleted") + entry("d", "created")
	s.set("/changelist.xml", answer(changesDocument("", list)))
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 || r.Deleted != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	s.put("c", "second c", 0) // the list grows at its end
	s.set("/changelist.xml", answer(changesDocument("", list+entry("c", "updated"))))
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
		t.Errorf("%v %+v", err, a)
	}
}

// Times with offsets order changes by the instant that they mean.
func TestTimesWithOffsets(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.put("a", "first", 0)
	c := s.open(dir)
	s.set("/changelist.xml", answer(changesDocument(` from="2026-01-01T00:00:00Z"`, "")))
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.files["a"] = "second"
	s.set("/changelist.xml", answer(changesDocument(` from="2026-01-01T00:00:00Z"`,
		`<url><loc>`+s.URL+`/data/a</loc><rs:md change="deleted" datetime="2026-01-02T09:00:00+09:00"/></url>`+
			`<url><loc>`+s.URL+`/data/a</loc><rs:md change="created" datetime="2026-01-01T23:30:00-01:00" hash="`+hashOf("second")+`"/></url>`)))
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// More deletions than are allowed are held back, also over restarts, until a run
// that allows them; what came back meanwhile is not deleted.
func TestMaxDelete(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	share := func(text string) func(*destination.Options) {
		return func(o *destination.Options) {
			m, err := destination.ParseShare(text)
			if err != nil {
				t.Fatal(err)
			}
			o.MaxDelete = m
		}
	}
	for i := range 20 {
		s.put(fmt.Sprint(i), "body", 0)
	}
	c := s.open(dir, share("5"))
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range 20 {
		all[fmt.Sprint(i)] = "body"
	}
	for i := range 4 {
		s.drop(fmt.Sprint(i), i+1)
	}
	if r, err := c.Sync(t.Context()); err != nil || r.Deleted != 4 {
		t.Fatalf("%v %+v", err, r)
	}
	_ = c.Close()
	for i := range 3 {
		s.drop(fmt.Sprint(i+4), i+10)
	}
	c = s.open(dir, share("5")) // 4 of the 5 were used by the process before
	r, err := c.Sync(t.Context())
	if err != nil || r.Deleted != 0 || r.Held != 3 || r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := os.Stat(filepath.Join(dir, "4")); err != nil {
		t.Error(err)
	}
	s.put("4", "body", 20) // it is there again
	if r, err = c.Sync(t.Context()); err != nil || r.Held != 2 {
		t.Errorf("%v %+v", err, r)
	}
	_ = c.Close()
	c = s.open(dir, share("100%"))
	if r, err = c.Sync(t.Context()); err != nil || r.Deleted != 2 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	if r, err = c.Sync(t.Context()); err != nil || r.Deleted+r.Unchanged != 0 { // nothing is held any more
		t.Errorf("%v %+v", err, r)
	}
}

// A mirror serves where the resource itself can't be had, and an alternate last.
func TestMirrors(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", "body", 0)
	s.set("/data/a", http.NotFound)
	s.set("/mirror", answer("body"))
	s.set("/wrong", answer("bodX"))
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", `<url><loc>`+s.URL+`/data/a</loc><rs:md hash="`+hashOf("body")+`" length="4"/>`+
		`<rs:ln rel="alternate" href="`+s.URL+`/wrong"/><rs:ln rel="duplicate" pri="2" href="`+s.URL+`/mirror"/><rs:ln rel="duplicate" pri="1" href="`+s.URL+`/wrong"/></url>`)))
	r, err := s.open(dir).Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 1 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// What was cut off goes on where it stopped, if the server proves that it is the same.
func TestResumesWithRange(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	body := strings.Repeat("0123456789abcdef", 200_000)
	s.put("large", body, 0)
	var ranges []string
	s.set("/data/large", func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"v1"`)
		if len(ranges) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body[:len(body)/2])
			return // and the connection breaks
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	})
	r, err := s.open(dir).Sync(t.Context())
	if err != nil || !r.InSync() || len(ranges) != 2 || !strings.HasPrefix(ranges[1], "bytes=") {
		t.Errorf("%v %+v; asked for %q", err, r, ranges)
	}
	s.same(dir)
}

// A server that answers a request for the rest with less or more, or with a range that cannot be, does not change a file whose length
// the Source does not give.
func TestRestInParts(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 200_000)
	from, part := len(body)/2, body[len(body)/2:len(body)/2+100]
	for name, rest := range map[string]struct{ contentRange, sent string }{
		"part":              {fmt.Sprintf("bytes %d-%d/%d", from, from+99, len(body)), part},
		"unknown length":    {fmt.Sprintf("bytes %d-%d/*", from, from+99), part},
		"less than it is":   {fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)), part}, // and its Content-Length agrees with what comes
		"more than it is":   {fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)), body[from:] + "more"},
		"nothing":           {fmt.Sprintf("bytes %d-%d/%d", from, from-1, from), ""},
		"before what it is": {fmt.Sprintf("bytes %d-%d/%d", from, from-10, from-9), part},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits before it tries again
			s, dir := newSource(t), t.TempDir()
			s.put("large", body, 0)
			s.set("/resourcelist.xml", answer(fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="%s"/><url><loc>%s/data/large</loc></url></urlset>`, resourcesync.FormatDatetime(s.at), s.URL)))
			n := 0
			s.set("/data/large", func(w http.ResponseWriter, r *http.Request) {
				n++
				w.Header().Set("ETag", `"v1"`)
				switch {
				case n == 1:
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
					_, _ = io.WriteString(w, body[:from])
				case r.Header.Get("Range") == fmt.Sprintf("bytes=%d-", from):
					w.Header().Set("Content-Range", rest.contentRange)
					w.WriteHeader(http.StatusPartialContent)
					_, _ = io.WriteString(w, rest.sent)
				default:
					_, _ = io.WriteString(w, body)
				}
			})
			r, err := s.open(dir).Sync(t.Context())
			if err != nil || !r.InSync() {
				t.Errorf("%v %+v", err, r)
			}
			if got := read(dir, "large"); got != body {
				t.Errorf("the file has %d bytes, want %d", len(got), len(body))
			}
		})
	}
}

// A server that ignores If-Range sends the rest of what the resource is by now. The Source gives no hash that would show that.
func TestRestOfAnotherState(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	old, body := strings.Repeat("0123456789abcdef", 200_000), strings.Repeat("fedcba9876543210", 200_000)
	s.noHashes = true
	s.put("large", body, 0)
	n := 0
	s.set("/data/large", func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.Header().Set("ETag", `"v1"`)
			w.Header().Set("Content-Length", fmt.Sprint(len(old)))
			_, _ = io.WriteString(w, old[:len(old)/2])
			return // and the connection breaks
		}
		w.Header().Set("ETag", `"v2"`)
		r.Header.Del("If-Range")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	})
	if r, err := s.open(dir).Sync(t.Context()); err != nil || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	if got := read(dir, "large"); got != body {
		t.Errorf("the file has %d bytes, and not those of one state", len(got))
	}
}

// A lastmod may be a date alone. The resource may have changed again as long as that day is not over.
func TestLastmodIsADate(t *testing.T) {
	for ago, want := range map[int]string{0: "second", 2: "first"} {
		s, dir := newSource(t), t.TempDir()
		s.offers, s.noHashes = []string{resourcesync.ResourceList}, true
		s.put("a", "first", 0)
		s.set("/data/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s.files["a"]) })
		s.set("/resourcelist.xml", answer(fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>%s/data/a</loc><lastmod>%s</lastmod></url></urlset>`,
			s.URL, time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly))))
		c := s.open(dir)
		for range 2 {
			if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
				t.Errorf("%v %+v", err, r)
			}
			s.files["a"] = "second"
		}
		if got := read(dir, "a"); got != want {
			t.Errorf("%d days ago: the copy has %q, want %q", ago, got, want)
		}
	}
}

// A server answers 304 for a list that did not change, so nothing in it is asked for, except what has no hash and the date
// of today: it may have changed since.
func TestUnchangedList(t *testing.T) {
	at := func(layout string) string {
		return "<lastmod>" + time.Now().UTC().Add(-time.Second).Format(layout) + "</lastmod>"
	}
	for name, c := range map[string]struct {
		says  string
		asked bool // for the resource, each time
	}{
		"nothing": {"", false},
		"a date":  {at(time.DateOnly), true},
		"a time":  {at(time.RFC3339), false},
		"a hash":  {`<rs:md hash="` + hashOf("first") + `"/>`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.offers = []string{resourcesync.ResourceList}
			body, unchanged := "first", false
			s.set("/data/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			list := document("urlset", "resourcelist", "<url><loc>"+s.URL+"/data/a</loc>"+c.says+"</url>")
			s.set("/resourcelist.xml", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				if unchanged = r.Header.Get("If-None-Match") == `"1"`; unchanged {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = io.WriteString(w, list)
			})
			d := s.open(dir)
			for range 2 {
				if r, err := d.Sync(t.Context()); err != nil || !r.InSync() {
					t.Errorf("%v %+v", err, r)
				}
				body = "other"
			}
			if got := read(dir, "a"); (got == "other") != c.asked || unchanged == c.asked {
				t.Errorf("the copy has %q; the list was answered with 304: %v", got, unchanged)
			}
		})
	}
}

// A Source whose times have whole seconds changes a resource again within the second up to which its Change List was read.
func TestChangedAgainWithinASecond(t *testing.T) {
	for name, noHashes := range map[string]bool{"with hashes": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.noHashes = noHashes
			s.put("a", "0", 0)
			s.set("/data/a", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", fmt.Sprintf("%q", s.files["a"]))
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.files["a"]))
			})
			c := s.open(dir)
			for _, body := range []string{"1", "2", "3"} {
				s.put("a", body, 1)
				for range 2 {
					if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
						t.Errorf("%v %+v", err, r)
					}
					if got := read(dir, "a"); got != body {
						t.Errorf("the copy has %q, want %q", got, body)
					}
				}
			}
		})
	}
}

// A plain sitemap is a Source, asked only for what changed.
func TestPlainSitemap(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.set("/sitemap.xml", answer(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+s.URL+`/data/a</loc></url></urlset>`))
	c := s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/sitemap.xml" })
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
		t.Fatalf("%v %+v", err, r)
	}
	s.same(dir)
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Unverifiable != 1 {
		t.Errorf("%v %+v", err, a)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("bodX"), 0o600); err != nil { // as long as it was
		t.Fatal(err)
	}
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired == nil || a.Repaired.Copied != 1 {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
}

// A Source that has changes only is copied from these.
func TestChangesOnly(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ChangeList}
	s.put("a", "body", 1)
	s.put("b", "body", 2)
	s.drop("b", 3)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	s.put("c", "body", 4)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// Where the Change List does not reach back far enough, a baseline is taken that is
// later than what was missed, or the run says that there is none yet.
func TestMissedChanges(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.put("b", "body", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := s.at
	s.put("c", "missed", 0) // no list tells of it
	s.mu.Lock()
	delete(s.files, "b")
	s.at, s.changes = old.Add(time.Minute), nil
	s.mu.Unlock()
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) { // an old one
		_, _ = io.WriteString(w, strings.Replace(document("urlset", "resourcelist", "<url><loc>"+s.URL+"/data/a</loc></url>"), "2026-01-01T00:00:00Z", resourcesync.FormatDatetime(old), 1))
	})
	s.put("d", "new", 5)
	if r, err := c.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "try again when the Source has written a new list") {
		t.Errorf("%v %+v", err, r)
	}
	s.set("/resourcelist.xml", nil)
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Baseline == "" {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// A dry run says what a run would do, and writes nothing.
func TestDryRun(t *testing.T) {
	s, dir := newSource(t), filepath.Join(t.TempDir(), "copy")
	for i := range 5 {
		s.put(fmt.Sprint(i), "body", 0)
	}
	dry := func(o *destination.Options) { o.DryRun = true }
	c := s.open(dir, dry)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 5 || !r.DryRun {
		t.Errorf("%v %+v", err, r)
	}
	_ = c.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	c = s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.put("1", "other", 1)
	s.put("new", "body", 2)
	s.drop("2", 3)
	c = s.open(dir, dry)
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 2 || r.Deleted != 1 {
		t.Errorf("%v %+v", err, r)
	}
	would := r.Until
	_ = c.Close()
	if raw, _ := os.ReadFile(filepath.Join(dir, "1")); string(raw) != "body" {
		t.Errorf("a dry run wrote %q", raw)
	}
	c = s.open(dir)
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 2 || r.Deleted != 1 || !r.Until.Equal(would) {
		t.Errorf("%v %+v, and the dry run said that it would be in sync as of %v", err, r, would)
	}
	s.same(dir)
}

// One file that can't be had is tried again by the next run, and its success counts.
func TestSeveralSets(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("one/a", "body", 0)
	s.put("two/b", "body", 0)
	up := []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}
	s.set("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.Description}, resourcesync.Entry{Loc: s.URL + "/caps/one", Capability: resourcesync.CapabilityList},
			resourcesync.Entry{Loc: s.URL + "/caps/two", Capability: resourcesync.CapabilityList})
	})
	for _, set := range []string{"one", "two"} {
		s.set("/caps/"+set, func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up}, resourcesync.Entry{Loc: s.URL + "/list/" + set, Capability: resourcesync.ResourceList})
		})
		s.set("/list/"+set, func(w http.ResponseWriter, _ *http.Request) {
			var entries []resourcesync.Entry
			for name := range s.files {
				if strings.HasPrefix(name, set) {
					entries = append(entries, s.entry(name, ""))
				}
			}
			s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/caps/" + set}}}, entries...)
		})
	}
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	s.same(dir)
	s.put("two/b", "changed", 0)
	delete(s.files, "one/a")
	s.put("one/c", "new", 0)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 || r.Deleted != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 2 {
		t.Errorf("%v %+v", err, a)
	}
}
