package destination_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// pack makes a package of a dump.
func pack(t testing.TB, h resourcesync.Head, entries map[string]string, each func(*resourcesync.Entry)) string {
	t.Helper()
	var out bytes.Buffer
	w, err := resourcesync.NewDumpWriter(&out, h, resourcesync.DumpWriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for loc, body := range entries {
		e := resourcesync.Entry{Loc: loc, Path: fmt.Sprintf("/r/%d", i), Hash: hashOf(body), Length: int64(len(body)), HasLength: true}
		i++
		if each != nil {
			each(&e)
		}
		if err := w.Write(e, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func dumped(s *source, n int) map[string]string {
	in := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("r%d/%d", i%7, i)
		body := fmt.Sprintf("body of %d %s", i, strings.Repeat("x", i%100*10))
		if i == 3 {
			body = strings.Repeat("large ", 100_000)
		}
		s.put(name, body, 0)
		in[s.URL+"/data/"+name] = body
	}
	return in
}

// A Source that has a dump only is copied from it, and audited by what it said.
func TestDumpOnly(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceDump}
	in := dumped(s, 50)
	head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
	s.put("part.zip", pack(t, head, in, nil), 0)
	s.packages = []string{"part.zip"}
	c := s.open(dir)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 50 || !r.InSync() || s.gets["/data/r1/1"] != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	delete(s.files, "part.zip")
	s.same(dir)
	a, err := c.Audit(t.Context(), false)
	if err != nil || !a.InSync || a.Equal != 50 || len(a.Recorded) != 1 {
		t.Errorf("%v %+v", err, a)
	}
	if err := os.WriteFile(filepath.Join(dir, "r1/1"), []byte("bit rot"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err = c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired == nil || a.Repaired.Copied != 1 {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
}

// A package that is damaged, or not what its dump says, brings nothing into the copy;
// where there is a list, that is used.
func TestHostileDumps(t *testing.T) {
	up := []resourcesync.Link{{Rel: "up", Href: "http://example.org/capabilitylist.xml"}}
	head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: time.Now().Add(-time.Hour), Links: up}
	cases := map[string]func(s *source, in map[string]string) string{
		"wrong hash of the package": func(s *source, in map[string]string) string {
			s.set("/data/part.zip", answer(pack(t, head, in, nil)+" "))
			return pack(t, head, in, nil)
		},
		"no package": func(*source, map[string]string) string { return "PK nothing" },
		"changes": func(s *source, in map[string]string) string {
			return pack(t, resourcesync.Head{Capability: resourcesync.ChangeDumpManifest, From: s.at, Links: up}, in, func(e *resourcesync.Entry) {
				e.Change, e.Datetime = resourcesync.Created, s.at
			})
		},
		"zip slip":  func(s *source, _ map[string]string) string { return zipped(t, s, "../../evil", []byte("body")) },
		"a bomb":    func(s *source, _ map[string]string) string { return zipped(t, s, "bomb", make([]byte, 64<<20)) },
		"not there": func(s *source, _ map[string]string) string { s.set("/data/part.zip", http.NotFound); return "x" },
	}
	for name, make := range cases {
		t.Run(name, func(t *testing.T) {
			for _, only := range []bool{true, false} {
				s, top := newSource(t), t.TempDir()
				dir := filepath.Join(top, "copy")
				s.offers = []string{resourcesync.ResourceDump}
				in := dumped(s, 5)
				if !only {
					s.offers = append(s.offers, resourcesync.ResourceList)
				}
				s.put("part.zip", make(s, in), 0)
				s.packages = []string{"part.zip"}
				c := s.open(dir)
				r, err := c.Sync(t.Context())
				if only != (err != nil) || !only && r.Copied != 5 {
					t.Errorf("%v %+v", err, r)
				}
				delete(s.files, "part.zip")
				if only {
					s.files = map[string]string{}
				}
				s.same(dir)
				if !only {
					continue
				}
				// Nothing is known of the set, so a file that was there before is not extra.
				kept := filepath.Join(dir, "kept.txt")
				if err := os.WriteFile(kept, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				a, err := c.Audit(t.Context(), true)
				if _, gone := os.Stat(kept); err != nil || a.InSync || a.Sets[0].Unknown == "" || gone != nil {
					t.Errorf("%v %+v %v", err, a, gone)
				}
				if left, _ := filepath.Glob(filepath.Join(top, "evil")); len(left) > 0 {
					t.Error(left)
				}
			}
		})
	}
}

// What is another kind of document than the Resource Dump that it should be is
// refused before a package is asked for.
func TestAnotherKindOfDump(t *testing.T) {
	for name, kind := range map[string]string{
		"a sitemap": "", "a list": resourcesync.ResourceList, "a Change Dump": resourcesync.ChangeDump, "a manifest": resourcesync.ResourceDumpManifest,
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.offers = []string{resourcesync.ResourceDump}
			head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/resourcedump.xml"}}}
			s.set("/part.zip", answer(pack(t, head, dumped(s, 3), nil)))
			dump := document("urlset", kind, `<url><loc>`+s.URL+`/part.zip</loc></url>`)
			if kind == "" {
				dump = strings.Replace(dump, ` capability=""`, "", 1)
			}
			s.set("/resourcedump.xml", answer(dump))
			r, err := s.open(dir).Sync(t.Context())
			if err == nil || !strings.Contains(err.Error(), `"resourcedump" is wanted`) || s.gets["/part.zip"] != 0 {
				t.Errorf("%v %+v; the package was asked for %d times", err, r, s.gets["/part.zip"])
			}
			s.files = map[string]string{}
			s.same(dir)
		})
	}
}
