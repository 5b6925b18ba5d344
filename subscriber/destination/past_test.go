package destination_test

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// archived makes a Source with an archive of its state at its beginning, with changes since, and a
// Change Dump of those of the first 45 seconds. If dumped is set, the archive has a Resource Dump, too.
func archived(t *testing.T, dumped bool) (s *source, d *changeDumps) {
	s = newSource(t)
	d = dumpsChanges(s)
	s.offers = []string{resourcesync.ResourceList, resourcesync.ChangeList, resourcesync.ChangeDump, resourcesync.ResourceListArchive}
	first := map[string]string{"a": "first a", "b": "first b", "c": "first c", "same": "same"}
	head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
	in := map[string]string{}
	for name, body := range first {
		s.put(name, body, 0)
		in[s.URL+"/data/"+name] = body
	}
	s.freezeList()
	s.mu.Lock()
	s.override["/archive/list.xml"] = s.override["/resourcelist.xml"]
	delete(s.override, "/resourcelist.xml")
	s.mu.Unlock()
	d.add(0, 45, change{10, "a", "second a"}, change{20, "d", "first d"}, change{30, "b", ""}, change{40, "d", "second d"})
	s.changes = nil
	delete(s.files, "d")
	s.files["a"], s.files["b"] = "first a", "first b"
	s.put("a", "second a", 10)
	s.put("d", "first d", 20)
	s.drop("b", 30)
	s.put("d", "second d", 40)
	s.put("a", "third a", 50)
	s.put("c", "second c", 60)
	s.put("e", "first e", 70)
	current := d.second(100)
	archive := func(capability string, entries ...resourcesync.Entry) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: capability, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, entries...)
		}
	}
	s.set("/resourcelist-archive.xml", archive(resourcesync.ResourceListArchive, resourcesync.Entry{Loc: s.URL + "/archive/list.xml", At: s.at}))
	if dumped {
		s.offers = append(s.offers, resourcesync.ResourceDumpArchive)
		s.set("/archive/dump.zip", answer(pack(t, head, in, nil)))
		s.set("/archive/dump.xml", func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: resourcesync.ResourceDump, At: head.At, Links: head.Links}, resourcesync.Entry{Loc: s.URL + "/archive/dump.zip"})
		})
		s.set("/resourcedump-archive.xml", archive(resourcesync.ResourceDumpArchive, resourcesync.Entry{Loc: s.URL + "/archive/dump.xml", At: s.at}))
	}
	list := resourcesync.Head{Capability: resourcesync.ResourceList, At: current, Links: head.Links}
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		var entries []resourcesync.Entry
		for name := range s.files {
			entries = append(entries, s.entry(name, ""))
		}
		s.write(w, list, entries...)
	})
	return s, d
}

// A past state comes from the archives: from the newest Resource Dump or Resource List before it, the
// changes since, and the packages that have the bytes of then. Nothing else gets into the copy, and
// an audit compares it with that state.
func TestAsOf(t *testing.T) {
	for name, c := range map[string]struct {
		dumped bool
		after  int
		has    map[string]string
		failed int // the bytes of c are only in the Resource Dump
	}{
		"at a snapshot":        {true, 0, map[string]string{"a": "first a", "b": "first b", "c": "first c", "same": "same"}, 0},
		"with changes":         {true, 35, map[string]string{"a": "second a", "c": "first c", "same": "same", "d": "first d"}, 0},
		"a later change":       {true, 60, map[string]string{"a": "third a", "c": "second c", "same": "same", "d": "second d"}, 0},
		"without its bytes":    {false, 35, map[string]string{"a": "second a", "same": "same", "d": "first d"}, 1},
		"at the current state": {false, 100, map[string]string{"a": "third a", "c": "second c", "same": "same", "d": "second d", "e": "first e"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := archived(t, c.dumped)
			dir, at := t.TempDir(), d.second(c.after)
			asOf := func(o *destination.Options) { o.AsOf = at }
			copied := s.open(dir, asOf)
			r, err := copied.Sync(t.Context())
			if err != nil || r.Failed != c.failed || !r.Until.Equal(at) || !r.Pinned.AsOf.Equal(at) {
				t.Errorf("%v %+v", err, r)
			}
			if c.failed > 0 && !strings.Contains(r.Problems[0].Why, "in this state are not at its address any more") {
				t.Errorf("%+v", r.Problems)
			}
			if got := s.copied(dir); !maps.Equal(got, c.has) {
				t.Errorf("the copy has %v", got)
			}
			a, err := copied.Audit(t.Context(), false)
			if err != nil || a.InSync != (c.failed == 0) || a.Equal+a.Unverifiable != len(c.has) || a.Missing != c.failed || !a.Pinned.AsOf.Equal(at) {
				t.Errorf("%v %+v", err, a)
			}
			gets := dataGets(s)
			if r, err = copied.Sync(t.Context()); err != nil || r.Copied != 0 || r.Deleted != 0 || c.failed == 0 && dataGets(s) != gets {
				t.Errorf("again: %v %+v, %d requests", err, r, dataGets(s)-gets)
			}
			_ = copied.Close()
			for _, other := range []func(*destination.Options){nil, func(o *destination.Options) { o.AsOf = at.Add(-time.Second) }} {
				var change []func(*destination.Options)
				if other != nil {
					change = append(change, other)
				}
				mixed := s.open(dir, change...)
				if _, err := mixed.Sync(t.Context()); !errors.Is(err, destination.ErrOtherState) || !strings.Contains(err.Error(), resourcesync.FormatDatetime(at)) {
					t.Errorf("another state: %v", err)
				}
				if err := mixed.Follow(t.Context()); !errors.Is(err, destination.ErrOtherState) {
					t.Errorf("followed: %v", err)
				}
				_ = mixed.Close()
			}
			// Also if the state of the copy is lost.
			if err := os.Remove(filepath.Join(dir, ".rssub", "copy.db")); err != nil {
				t.Fatal(err)
			}
			current := s.open(dir)
			if _, err := current.Sync(t.Context()); !errors.Is(err, destination.ErrOtherState) {
				t.Errorf("the current state, after a loss: %v", err)
			}
			if err := current.Follow(t.Context()); !errors.Is(err, destination.ErrOtherState) {
				t.Errorf("followed, after a loss: %v", err)
			}
			_ = current.Close()
			again := s.open(dir, asOf)
			if r, err := again.Sync(t.Context()); err != nil || r.Failed != c.failed || !r.Pinned.AsOf.Equal(at) {
				t.Errorf("the same state, after a loss: %v %+v", err, r)
			}
			_ = again.Close()
			if got := s.copied(dir); !maps.Equal(got, c.has) {
				t.Errorf("then the copy has %v", got)
			}
		})
	}
}

// A state that the archives do not have is refused in words that say what there is.
func TestNoSuchState(t *testing.T) {
	s, d := archived(t, false)
	dir := t.TempDir()
	want := func(after int, words ...string) {
		t.Helper()
		c := s.open(dir, func(o *destination.Options) { o.AsOf = d.second(after) })
		defer func() { _ = c.Close() }()
		_, err := c.Sync(t.Context())
		for _, w := range words {
			if !errors.Is(err, destination.ErrNoState) || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, without %q", err, w)
			}
		}
	}
	want(-1, "the earliest is as of "+resourcesync.FormatDatetime(s.at), "the latest snapshot as of "+resourcesync.FormatDatetime(d.second(100)))
	old := s.changes
	s.changes = nil
	s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: d.second(25), Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, old[2:]...)
	})
	want(35, "as of "+resourcesync.FormatDatetime(s.at)+", but not all changes", "ask for exactly this time")
	if got := s.copied(dir); len(got) > 0 {
		t.Error(got)
	}
	if _, err := destination.Open(destination.Options{Source: s.URL, Dir: dir, AsOf: time.Now().Add(time.Hour)}); err == nil || !strings.Contains(err.Error(), "in the future") {
		t.Error(err)
	}
}

// A list, dump or archive that is named is copied itself. A copy that began with it as the address of
// its Source goes on, and documents that are no state are refused.
func TestDocumentIsTheState(t *testing.T) {
	first := map[string]string{"a": "first a", "b": "first b", "c": "first c", "same": "same"}
	list := map[string]string{"a": "third a", "c": "second c", "same": "same", "d": "second d", "e": "first e"}
	for document, has := range map[string]map[string]string{
		"/archive/dump.xml": first, "/resourcedump-archive.xml": first, "/resourcelist.xml": list, "/resourcelist-archive.xml": list,
		"/changelist.xml": {"a": "third a", "c": "second c", "d": "second d", "e": "first e"},
		"/changedump.xml": {"a": "second a", "d": "second d"},
	} {
		s, _ := archived(t, true)
		dir := t.TempDir()
		if document == "/resourcelist-archive.xml" { // it lists the current one, too
			s.mu.Lock()
			s.override["/archive/list.xml"] = s.override["/resourcelist.xml"]
			s.mu.Unlock()
		}
		var log strings.Builder
		named := func(o *destination.Options) {
			o.Source, o.Log = s.URL+document, slog.New(slog.NewTextHandler(&log, nil))
		}
		c := s.open(dir, named)
		for range 2 {
			r, err := c.Sync(t.Context())
			if err != nil || !r.InSync() || r.Pinned.Document != s.URL+document {
				t.Errorf("%s: %v %+v", document, err, r)
			}
			if got := s.copied(dir); !maps.Equal(got, has) {
				t.Errorf("%s: the copy has %v", document, got)
			}
		}
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal+a.Unverifiable != len(has) {
			t.Errorf("%s: %v %+v", document, err, a)
		}
		_ = c.Close()
		if strings.Contains(log.String(), "selection_empty") { // nothing was selected
			t.Errorf("%s: %s", document, &log)
		}
		if _, err := s.open(dir).Sync(t.Context()); !errors.Is(err, destination.ErrOtherState) {
			t.Errorf("%s: %v", document, err)
		}
	}

	s, _ := archived(t, true)
	s.set("/archive/dump.zip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		_, _ = w.Write([]byte("PK"))
	})
	s.set("/manifest.xml", answer(document("urlset", "resourcedump-manifest", "")))
	s.set("/changelist-archive.xml", answer(strings.Replace(document("urlset", "changelist-archive", ""), ` at="2026-01-01T00:00:00Z"`, "", 1)))
	for _, document := range []string{"/archive/dump.zip", "/manifest.xml", "/changelist-archive.xml"} {
		c := s.open(t.TempDir(), func(o *destination.Options) { o.Source = s.URL + document })
		if _, err := c.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be copied: it is ") {
			t.Errorf("%s: %v", document, err)
		}
	}
	for document, missing := range map[string]bool{"/resourcedmp.xml": true, "/folder/": false, "": false} {
		dir := t.TempDir()
		c := s.open(dir, func(o *destination.Options) { o.Source = s.URL + document })
		if _, err := c.Sync(t.Context()); missing != (err != nil) || missing && !strings.Contains(err.Error(), "there is nothing to copy at this address") {
			t.Errorf("%s: %v", document, err)
		}
		if missing && len(s.copied(dir)) > 0 {
			t.Errorf("%s: the copy has %v", document, s.copied(dir))
		}
	}
}

// Without a hash, only the time of a response shows that its bytes are those of a past state.
func TestPastWithoutHashes(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	modified := map[string]string{"old": "Mon, 01 Jan 2024 00:00:00 GMT", "new": "Fri, 02 Jan 2026 00:00:00 GMT", "unknown": ""}
	var entries []resourcesync.Entry
	for name, at := range modified {
		entries = append(entries, resourcesync.Entry{Loc: s.URL + "/data/" + name})
		s.set("/data/"+name, func(w http.ResponseWriter, _ *http.Request) {
			if at != "" {
				w.Header().Set("Last-Modified", at)
			}
			_, _ = w.Write([]byte("body"))
		})
	}
	head := resourcesync.Head{Capability: resourcesync.ResourceList, At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) { s.write(w, head, entries...) })
	r, err := s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/resourcelist.xml" }).Sync(t.Context())
	if err != nil || r.Copied != 1 || r.Failed != 2 || !maps.Equal(s.copied(dir), map[string]string{"old": "body"}) {
		t.Errorf("%v %+v", err, r)
	}
}
