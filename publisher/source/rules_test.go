package source

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// ruled parses rules that are good.
func ruled(t testing.TB, text string) *Rules {
	t.Helper()
	rs, err := ParseRules("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// linked returns the links of each entry of a document in short, by the end of its URL.
func (x *site) linked(path string) map[string]string {
	x.t.Helper()
	a := x.get(path)
	_, entries := readDocument(x.t, path, a.body)
	all := make(map[string]string)
	for _, e := range entries {
		var links []string
		for _, l := range e.Links {
			links = append(links, l.Rel+" "+strings.TrimPrefix(l.Href, x.o.PublicURL+"data/"))
		}
		slices.Sort(links)
		all[strings.TrimPrefix(e.Loc, x.o.PublicURL+"data/")] = strings.Join(links, ", ")
	}
	return all
}

// A rule that is for no path is named in the log, once. A Source without resources says nothing.
func TestUnusedRules(t *testing.T) {
	var log strings.Builder
	x := newSite(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Sets[0].Rules = ruled(t, "resources:\n- {for: '*.pdf', type: text/x-a}\n- {for: 'work/**', type: text/x-b}\n- {for: '*.html', sidecar: .xml}")
	})
	x.build()
	if strings.Contains(log.String(), "rules_unused") {
		t.Error(log.String())
	}
	for range 2 {
		x.write(map[string]string{"a.pdf": log.String(), "works/b.txt": "1"})
		x.build()
	}
	if strings.Count(log.String(), "rules_unused") != 1 || !strings.Contains(log.String(), `rules="[rules.yaml:3 rules.yaml:4]"`) {
		t.Error(log.String())
	}
	log.Reset()
	if err := x.SetRules("", ruled(t, "resources:\n- {for: '*.pdf', type: text/x-a}\n- {for: 'wor/**', type: text/x-b}")); err != nil {
		t.Fatal(err)
	}
	if strings.Count(log.String(), "rules_unused") != 1 || !strings.Contains(log.String(), "rules.yaml:3") {
		t.Error(log.String())
	}
}

// A file that describes another is linked with it as long as both are there. When one of them
// comes or goes, the other is published as updated.
func TestSidecars_LNK05(t *testing.T) {
	x := newSite(t, func(o *Options) {
		o.Sets[0].Rules = ruled(t, `resources: [{for: "*.pdf", sidecar: .dc.xml}]`)
	})
	x.write(map[string]string{"a.pdf": "1", "a.pdf.dc.xml": "<dc/>", "b.pdf": "1", "c.dc.xml": "<dc/>"})
	x.build()
	want := map[string]string{"a.pdf": "describedby a.pdf.dc.xml", "a.pdf.dc.xml": "describes a.pdf", "b.pdf": "", "c.dc.xml": ""}
	if got := x.linked("/resourcelist.xml"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the Resource List has %v", got)
	}
	x.write(map[string]string{"b.pdf.dc.xml": "<dc/>"})
	if err := os.Remove(filepath.Join(x.dir, "a.pdf")); err != nil {
		t.Fatal(err)
	}
	x.build()
	_, got := x.locs("/changelist.xml")
	data := x.o.PublicURL + "data/"
	slices.Sort(got)
	if want := []string{"created " + data + "b.pdf.dc.xml", "deleted " + data + "a.pdf", "updated " + data + "a.pdf.dc.xml", "updated " + data + "b.pdf"}; !slices.Equal(got, want) {
		t.Errorf("the Change List has %v", got)
	}
	want = map[string]string{"a.pdf.dc.xml": "", "b.pdf": "describedby b.pdf.dc.xml", "b.pdf.dc.xml": "describes b.pdf", "c.dc.xml": ""}
	if got := x.linked("/resourcelist.xml"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after it, the Resource List has %v", got)
	}
	// Both go at once: nothing is said of either but that.
	for _, name := range []string{"b.pdf", "b.pdf.dc.xml"} {
		if err := os.Remove(filepath.Join(x.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	x.build()
	_, got = x.locs("/changelist.xml")
	if got = got[4:]; len(got) != 2 || !strings.HasPrefix(got[0], "deleted") || !strings.HasPrefix(got[1], "deleted") {
		t.Errorf("the Change List ends with %v", got)
	}
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A link to a patch is only in the entry of an update, and in no package (LNK-04).
func TestPatchesBelongToUpdates_LNK04(t *testing.T) {
	x := newSite(t, func(o *Options) {
		o.Sets[0].Rules = ruled(t, `resources: [{for: "*.csv", patch: {href: "patches/{sha256}.diff", type: text/x-diff}}]`)
		o.Schedule.RotateAt = 2
	})
	x.write(map[string]string{"a.csv": "1"})
	x.build()
	const sum = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3" // of "two"
	x.write(map[string]string{"a.csv": "two", "patches/" + sum + ".diff": "d", "b": "1"})
	x.build()
	x.write(map[string]string{"c": "1"})
	x.build()
	for _, path := range []string{"/resourcelist.xml", "/changelist.xml"} {
		got, want := x.linked(path)["a.csv"], patchRel+" patches/"+sum+".diff"
		if path == "/resourcelist.xml" {
			want = ""
		}
		if got != want {
			t.Errorf("%s links a.csv with %q", path, got)
		}
	}
	if out, err := follow(t, x); err != nil || !strings.Contains(out, "changedump") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Rules that change while the Source runs, or between two runs, are published as updates of the
// entries that they change, and of no other.
func TestChangedRulesArePublished_LNK12(t *testing.T) {
	h := newHub(t)
	x := newSite(t, func(o *Options) {
		o.Hubs = []publisher.Hub{{URL: h.server.URL + "/"}}
		o.Every = time.Millisecond
	})
	x.write(map[string]string{"a.pdf": "1", "b.txt": "1"})
	x.build()
	x.close()
	x.o.Sets[0].Rules = ruled(t, `resources: [{for: "*.pdf", collection: "https://example.org/prints"}]`)
	x.open()
	stop := x.run()
	topic := x.o.PublicURL + "changes/"
	eventually(t, "the new rules are not pushed", func() bool { return len(h.of(topic)) == 1 })
	if e := h.of(topic)[0]; e.Change != resourcesync.Updated || !strings.HasSuffix(e.Loc, "a.pdf") || len(e.Links) != 1 || e.Links[0].Rel != "collection" {
		t.Errorf("pushed is %+v", e)
	}
	next := ruled(t, "source: {describedby: 'https://example.org/about'}\nset: {describedby: b.txt}\nresources: [{for: '*.pdf', collection: 'https://example.org/prints'}, {for: b.txt, type: text/csv}]")
	if err := x.SetRules("", next); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the newer rules are not pushed", func() bool { return len(h.of(topic)) == 2 })
	if e := h.of(topic)[1]; !strings.HasSuffix(e.Loc, "b.txt") || e.Type != "text/csv" {
		t.Errorf("pushed is %+v", e)
	}
	for path, want := range map[string]string{
		"/.well-known/resourcesync": `rel="describedby" href="https://example.org/about"`,
		"/capabilitylist.xml":       `rel="describedby" href="` + x.o.PublicURL + `data/b.txt"`,
	} {
		if a := x.get(path); !strings.Contains(a.body, want) {
			t.Errorf("%s lacks %s:\n%s", path, want, a.body)
		}
	}
	if a := x.get("/data/b.txt"); a.header.Get("Content-Type") != "text/csv" {
		t.Errorf("b.txt is served as %s", a.header.Get("Content-Type"))
	}
	if err := x.SetRules("", ruled(t, "address: {drop: [.pdf]}")); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("another address: %v", err)
	}
	stop()
	// The same rules again are no news.
	x.close()
	x.o.Sets[0].Rules = next
	x.open()
	if last := x.sets[0].index.state().last.seq; last != 2 {
		t.Errorf("there are %d changes", last)
	}
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// URLs can lack index.html and extensions. The Handler serves resources at these, too.
func TestShortURLs(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Sets[0].Rules = ruled(t, "address: {index: [index.html], drop: [.html]}") })
	x.write(map[string]string{"index.html": "top", "d/index.html": "d", "d/x.html": "x", "y.pdf": "y"})
	x.build()
	data := x.o.PublicURL + "data/"
	if got, _ := x.locs("/resourcelist.xml"); !slices.Equal(got, []string{data + "d/", data + "d/x", data, data + "y.pdf"}) {
		t.Errorf("the Resource List has %v", got)
	}
	for path, want := range map[string]string{"": "top", "d/": "d", "d/x": "x", "y.pdf": "y", "d/x.html": "x"} {
		if a := x.get("/data/" + path); a.body != want {
			t.Errorf("%q answers %d %q", path, a.status, a.body)
		}
	}
	for _, path := range []string{"d", "e/", "d/x/", "y", "../", "d//"} {
		if a := x.get("/data/" + path); a.status != http.StatusNotFound && a.status != http.StatusBadRequest {
			t.Errorf("%q answers %d %q", path, a.status, a.body)
		}
	}
	// Of two files with one URL the first is published. When it goes, the other is.
	x.write(map[string]string{"d/x": "other"})
	x.build()
	if p := x.Status().Sets[0].Folder.Problems; len(p) != 1 || p[0].Path != "d/x" || !strings.Contains(p[0].Err.Error(), `"d/x.html" has the same URL`) {
		t.Errorf("the problems are %v", p)
	}
	if err := os.Remove(filepath.Join(x.dir, "d/x.html")); err != nil {
		t.Fatal(err)
	}
	x.build()
	x.build()
	_, got := x.locs("/changelist.xml")
	if want := []string{"deleted " + data + "d/x", "created " + data + "d/x"}; !slices.Equal(got, want) {
		t.Errorf("the Change List has %v", got)
	}
	// Two that are published already cannot get one URL.
	x.close()
	x.o.Sets[0].Rules = nil
	x.open()
	x.write(map[string]string{"d/x.html": "x"})
	x.build()
	x.close()
	before := x.o
	x.o.Sets = slices.Clone(x.o.Sets)
	x.o.Sets[0].Rules = ruled(t, "\n\naddress: {drop: [.html]}")
	if s, err := Open(x.o); err == nil || !strings.Contains(err.Error(), `rules.yaml:3: "d/x" and "d/x.html"`) && !strings.Contains(err.Error(), `rules.yaml:3: "d/x.html" and "d/x"`) {
		t.Errorf("two resources with one URL: %v %v", s, err)
	}
	x.o = before
	x.open()
}

// A file that is stored compressed says so, and is sent as it is stored.
func TestStoredCompressed_LNK10(t *testing.T) {
	x := newSite(t, func(o *Options) {
		o.Sets[0].Rules = ruled(t, "address: {drop: [.gz]}\nresources: [{for: '*.json.gz', encoding: gzip, type: application/json}]")
	})
	x.write(map[string]string{"a.json.gz": "\x1f\x8bgz"})
	x.build()
	_, entries := readDocument(t, "", x.get("/resourcelist.xml").body)
	if e := entries[0]; e.Encoding != "gzip" || e.Type != "application/json" || e.Length != 4 || !strings.HasSuffix(e.Loc, "/a.json") {
		t.Errorf("it is listed as %+v", e)
	}
	if a := x.get("/data/a.json"); a.header.Get("Content-Encoding") != "gzip" || a.body != "\x1f\x8bgz" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("it answers %d %v %q", a.status, a.header, a.body)
	}
}
