package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// untimed makes s a Source that gives neither hashes nor lengths, and whose Change List
// is log. It counts the bodies of resources that it sent, and the times that it was asked.
func untimed(s *source, log *[]resourcesync.Entry, lastMod map[string]time.Time) (asked, sent *int) {
	asked, sent = new(int), new(int)
	up := []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}
	s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: s.at, Links: up}, *log...)
	})
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		var entries []resourcesync.Entry
		for name := range s.files {
			entries = append(entries, resourcesync.Entry{Loc: s.URL + "/data/" + name, LastMod: lastMod[name]})
		}
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: up}, entries...)
	})
	for name := range s.files {
		s.set("/data/"+name, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			body, ok := s.files[name]
			if *asked++; !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("ETag", fmt.Sprintf("%q", body))
			if r.Header.Get("If-None-Match") != w.Header().Get("ETag") {
				*sent++
			}
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
		})
	}
	return asked, sent
}

// A Change List without datetimes is handed on again when its beginning changes. What
// the copy has with the same lastmod is not asked for, and what has another lastmod,
// earlier or later, is, by its ETag. A deletion is carried out whatever its lastmod says.
func TestChangesWithoutDatetime(t *testing.T) {
	const files = 200
	s, dir := newSource(t), t.TempDir()
	lastMod := map[string]time.Time{}
	var log []resourcesync.Entry
	entry := func(name string, change resourcesync.ChangeType) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: change, LastMod: lastMod[name]}
	}
	for n := range files {
		name := fmt.Sprint(n)
		s.files[name], lastMod[name] = "body of "+name, s.at.Add(-time.Duration(n)*time.Minute)
		log = append(log, entry(name, resourcesync.Updated))
	}
	asked, sent := untimed(s, &log, lastMod)
	c := s.open(dir)
	sync := func(wantAsked, wantSent int) {
		t.Helper()
		*asked, *sent = 0, 0
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		if *asked != wantAsked || *sent != wantSent {
			t.Errorf("resources were asked for %d times, and sent %d times, want %d and %d", *asked, *sent, wantAsked, wantSent)
		}
		s.same(dir)
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
			t.Errorf("%v %+v", err, a)
		}
	}
	sync(files, files)
	change := func(name, body string, at time.Time) {
		s.files[name], lastMod[name] = body, at
		log = append(log[1:], entry(name, resourcesync.Updated)) // the list has always as many
	}
	change("7", "another body", s.at.Add(time.Minute))
	sync(1, 1)
	sync(0, 0)
	change("8", "a body from the archive", s.at.AddDate(-3, 0, 0))
	sync(1, 1)
	change("9", s.files["9"], s.at.Add(2*time.Minute)) // nothing but its lastmod
	sync(1, 0)
	delete(s.files, "10")
	log = append(log[1:], resourcesync.Entry{Loc: s.URL + "/data/10", Change: resourcesync.Deleted, LastMod: s.at.AddDate(-5, 0, 0)})
	sync(0, 0)
	s.files["10"] = "again, as old as before" // it was deleted, so there is nothing to compare with
	log = append(log, entry("10", resourcesync.Created))
	sync(1, 1)
}

// An entry without datetime keeps its place: what the same list says of the resource
// later stands, also when the list is read again.
func TestChangeWithoutDatetimeKeepsItsPlace(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	lastMod := map[string]time.Time{"a": s.at, "b": s.at}
	s.files["a"], s.files["b"] = "of a", "of b"
	log := []resourcesync.Entry{}
	untimed(s, &log, lastMod)
	c := s.open(dir)
	sync := func() {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		s.same(dir)
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
			t.Errorf("%v %+v", err, a)
		}
	}
	sync()
	s.files["a"] = "of a, again"
	at := func(name string, change resourcesync.ChangeType, seconds int) resourcesync.Entry {
		e := resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: change}
		if seconds > 0 {
			e.Datetime = s.at.Add(time.Duration(seconds) * time.Second)
		}
		return e
	}
	log = []resourcesync.Entry{at("b", resourcesync.Updated, 5), at("a", resourcesync.Deleted, 0), at("a", resourcesync.Created, 10)}
	sync()
	sync()
	log = append(log, at("b", resourcesync.Updated, 20))
	sync()
	delete(s.files, "b")
	log = append(log, at("b", resourcesync.Deleted, 0))
	sync()
	sync()
}

// outOfOrder serves the log as the Change List, in its order. A Writer refuses that.
func outOfOrder(s *source, log *[]resourcesync.Entry) {
	s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
			`<rs:ln rel="up" href="%s/capabilitylist.xml"/><rs:md capability="changelist" from="%s"/>`, s.URL, resourcesync.FormatDatetime(s.at))
		for _, e := range *log {
			_, _ = fmt.Fprintf(w, `<url><loc>%s</loc><rs:md change="%s" datetime="%s"/></url>`, e.Loc, e.Change, resourcesync.FormatDatetime(e.Datetime))
		}
		_, _ = fmt.Fprint(w, `</urlset>`)
	})
}

// The clock of a Source goes back, and its Change List goes on with earlier dates. What is appended counts once, whatever its
// date, and the log says so. A list that does not begin as before counts by its dates alone.
func TestChangesAfterTheClockWentBack(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	lastMod := map[string]time.Time{}
	for _, name := range []string{"a", "b", "c"} {
		s.files[name], lastMod[name] = "of "+name, s.at
	}
	var log []resourcesync.Entry
	asked, _ := untimed(s, &log, lastMod)
	outOfOrder(s, &log)
	c := s.open(dir)
	change := func(name, body string, minutes int) {
		e := resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: resourcesync.Updated, Datetime: s.at.Add(time.Duration(minutes) * time.Minute)}
		if s.files[name] = body; body == "" {
			delete(s.files, name)
			e.Change = resourcesync.Deleted
		}
		log = append(log, e)
	}
	sync := func(wantAsked int) {
		t.Helper()
		*asked = 0
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		if *asked != wantAsked {
			t.Errorf("resources were asked for %d times, want %d", *asked, wantAsked)
		}
	}
	change("a", "of a, at 50", 50)
	sync(4)
	change("a", "of a, at 10", 10) // the clock went back
	change("b", "", 11)
	sync(1)
	s.same(dir)
	sync(0)
	change("c", "of c, at 12", 12)
	sync(1)
	s.same(dir)
	change("a", "of a, at 55", 55)
	sync(1)
	s.same(dir)
	log = log[1:]
	change("c", "of c, at 20", 20)
	sync(0)
}

// What is appended to a Change List counts in the order of the list if some of it is dated before the rest, and no such change
// counts again without those of its resource that follow it.
func TestLateChangesKeepTheirPlace(t *testing.T) {
	const far = 3 * 24 * 60 // minutes
	type change struct {
		name, body string
		minutes    int
	}
	for name, lists := range map[string][][]change{ // of each sync
		"deleted, then created with an earlier date":           {{{"a", "a1", 50}}, {{"a", "", 60}, {"a", "a2", 20}}},
		"created, then deleted with an earlier date":           {{{"b", "b1", 50}}, {{"c", "c1", 60}, {"c", "", 20}}},
		"behind a change of the future":                        {{{"b", "b1", 50}}, {{"b", "b1", far}, {"a", "", 20}}, {{"a", "a2", 60}}, {}},
		"a server of the Source that is behind":                {{{"b", "b1", 50}}, {{"a", "", 20}, {"a", "a2", 60}}, nil, {}},
		"the same, and the last change is of another resource": {{{"b", "b1", 50}}, {{"a", "", 20}, {"a", "a2", 60}, {"b", "b2", 70}}, nil, {}},
		"all of them since the last time":                      {{{"b", "b1", 50}}, {{"a", "", 60}, {"b", "b2", 61}, {"a", "a2", 55}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			for _, name := range []string{"a", "b", "c"} {
				s.files[name] = "of " + name
			}
			var log, shown []resourcesync.Entry
			untimed(s, &log, map[string]time.Time{})
			outOfOrder(s, &shown)
			c := s.open(dir)
			for i, list := range lists {
				for _, ch := range list {
					e := resourcesync.Entry{Loc: s.URL + "/data/" + ch.name, Change: resourcesync.Updated, Datetime: s.at.Add(time.Duration(ch.minutes) * time.Minute)}
					if s.files[ch.name] = ch.body; ch.body == "" {
						delete(s.files, ch.name)
						e.Change = resourcesync.Deleted
					}
					log = append(log, e)
				}
				if shown = log; list == nil {
					shown = log[:1]
				}
				if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
					t.Fatalf("sync %d: %v %+v", i, err, r)
				}
				s.same(dir)
				if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync && list != nil {
					t.Errorf("audit after sync %d: %v %+v", i, err, a)
				}
			}
		})
	}
}
