package destination_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// oddNames are names of resources that some Sources write as they are, without
// percent-encoding them. The paths of the copy are beside them.
var oddNames = map[string]string{
	"with spaces.txt": "with spaces.txt",
	"a|b.txt":         "a%7Cb.txt",
	"100%.txt":        "100%.txt",
	"100%":            "100%",
	"é/ü.txt":         "é/ü.txt",
	`[x]{y}^"<>.txt`:  "[x]{y}^%22%3C%3E.txt",
	"plain.txt":       "plain.txt",
	long + "name.txt": long + "name.txt",
}

// long is more than 2,048 characters.
var long = strings.Repeat(strings.Repeat("l", 210)+"/", 10)

// beyond are addresses that nothing can be asked for at.
var beyond = []string{"relative.txt", "/data/rooted.txt", "ftp://ftp.example/a b", "http:///nowhere", "http://a b/c"}

// escaped is text as it stands in XML.
func escaped(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s))
	return out.String()
}

// encoded is the address of a file of the Source, percent-encoded.
func (s *source) encoded(name string) string {
	return s.URL + (&url.URL{Path: "/data/" + name}).EscapedPath()
}

// listedAs is an entry about an address. Body empty: nothing is said of it.
func listedAs(loc, body, attributes string) string {
	if body != "" {
		attributes += fmt.Sprintf(` hash="%s" length="%d"`, hashOf(body), len(body))
	}
	return "<url><loc>" + escaped(loc) + "</loc><rs:md" + attributes + "/></url>"
}

// at is the attributes of a change.
func (s *source) changeAt(change resourcesync.ChangeType, seconds int) string {
	return fmt.Sprintf(` change="%s" datetime="%s"`, change, resourcesync.FormatDatetime(s.at.Add(time.Duration(seconds)*time.Second)))
}

// sameOdd compares the copy with the files of the Source.
func (s *source) sameOdd(dir string) {
	s.t.Helper()
	files := s.files
	s.files = map[string]string{}
	for name, body := range files {
		s.files[oddNames[name]] = body
	}
	s.same(dir)
	s.files = files
}

// reported wants the problems of a run to be about what cannot be asked for.
func reported(t *testing.T, r *destination.Report, want ...string) {
	t.Helper()
	var got []string
	for _, p := range r.Problems {
		got = append(got, p.URL)
	}
	for i, w := range want {
		want[i] = resourcesync.EncodeURI(w)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) || r.Failed != len(want) {
		t.Errorf("reported %q, want %q", r.Problems, want)
	}
}

// Addresses of all sorts in a Resource List and in Change Lists: what can be encoded
// is, however each list writes it, and means one file; the rest is reported each time,
// and holds up nothing else. DOC-16.
func TestOddLocs_DOC16(t *testing.T) {
	for name, raw := range map[string]bool{"as they are, then encoded": true, "encoded, then as they are": false} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as document has it
			written := func(name string, raw bool) string {
				if raw {
					return s.URL + "/data/" + name
				}
				return s.encoded(name)
			}
			var list, changes strings.Builder
			for name := range oddNames {
				s.put(name, "first of "+name, 0)
				list.WriteString(listedAs(written(name, raw), s.files[name], ""))
			}
			for _, loc := range beyond {
				list.WriteString(listedAs(loc, "", ""))
			}
			up := `<rs:ln rel="up" href="/capabilitylist.xml"/>`
			since := fmt.Sprintf(` from="%s"`, resourcesync.FormatDatetime(s.at))
			s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", up+list.String())))
			s.set("/changelist.xml", answer(changesDocument(since, up)))
			c := s.open(dir)
			r, err := c.Sync(t.Context())
			if err != nil || r.Copied != len(oddNames) {
				t.Fatalf("%v %+v", err, r)
			}
			reported(t, &r, beyond...)
			s.sameOdd(dir)

			// Each is changed, and by the second list once more, then one is deleted.
			for round, change := range []resourcesync.ChangeType{resourcesync.Updated, resourcesync.Deleted} {
				i := 0
				for name := range oddNames {
					i++
					at := s.changeAt(change, round*1000+i)
					if change == resourcesync.Deleted && name != "plain.txt" {
						delete(s.files, name)
						changes.WriteString(listedAs(written(name, !raw), "", at))
						continue
					}
					s.put(name, fmt.Sprintf("round %d of %s", round, name), 0)
					changes.WriteString(listedAs(written(name, !raw), s.files[name], s.changeAt(resourcesync.Updated, round*1000+i)))
				}
				for _, loc := range append(slices.Clone(beyond), "another", "https://"+strings.Repeat("x", 300)+".example/") {
					changes.WriteString(listedAs(loc, "", at(s, round)))
				}
				s.set("/changelist.xml", answer(changesDocument(since, up+changes.String())))
				r, err = c.Sync(t.Context())
				if err != nil || r.Baseline != "" || r.Until.Before(s.at.Add(time.Duration(round*1000)*time.Second)) {
					t.Fatalf("%v %+v", err, r)
				}
				reported(t, &r, append(slices.Clone(beyond), "another", "https://"+strings.Repeat("x", 300)+".example/")...)
				s.sameOdd(dir)
				// Nothing is done twice, and nothing is forgotten.
				again, err := c.Sync(t.Context())
				if err != nil || again.Copied+again.Deleted != 0 || !again.Until.Equal(r.Until) || again.Failed != r.Failed {
					t.Errorf("%v %+v", err, again)
				}
				a, err := c.Audit(t.Context(), false)
				if err != nil || a.InSync || a.Missing != r.Failed || a.Equal != len(s.files) || a.Extra+a.Differing+a.Unverifiable != 0 {
					t.Errorf("%v %+v", err, a)
				}
				_ = c.Close()
				c = s.open(dir)
			}
			// The Source deletes what it should never have listed, and all is well.
			for _, loc := range append(slices.Clone(beyond), "another", "https://"+strings.Repeat("x", 300)+".example/") {
				changes.WriteString(listedAs(loc, "", s.changeAt(resourcesync.Deleted, 3000)))
			}
			s.set("/changelist.xml", answer(changesDocument(since, up+changes.String())))
			if r, err = c.Sync(t.Context()); err != nil || !r.InSync() {
				t.Errorf("%v %+v", err, r)
			}
			if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
				t.Errorf("%v %+v", err, a)
			}
			if st, err := destination.ReadStatus(filepath.Join(dir, ".rssub")); err != nil || len(st) != 1 || st[0].Trouble != "" {
				t.Errorf("%v %+v", err, st)
			}
		})
	}
}

func at(s *source, round int) string { return s.changeAt(resourcesync.Updated, round*1000+900) }

// Packages name resources in any way, too, and documents lead to others by addresses
// that are not encoded, or relative. DOC-36, DOC-41.
func TestOddLocsOfDumpsAndDocuments_DOC16(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	put := func(name, body string) string {
		s.put(name, body, 0)
		return s.URL + "/data/" + name
	}
	manifest := func(capability, attributes, body string) string {
		return strings.Replace(document("urlset", capability, body), ` at="2026-01-01T00:00:00Z"`, attributes, 1)
	}
	const at = ` at="2026-01-01T00:00:00Z"`
	first := put("with spaces.txt", "first")
	s.set("/part%20%7C1.zip", answer(zippedManifest(t, manifest("resourcedump-manifest", at,
		listedAs(first, "first", ` path="/a b"`)+listedAs("relative", "x", ` path="/x"`)), file{"a b", []byte("first")}, file{"x", []byte("x")})))
	s.set("/changes%25.zip", answer(zippedManifest(t, manifest("changedump-manifest", ` from="2026-01-01T00:00:00Z"`,
		listedAs(s.URL+"/data/100%", "changed", ` path="/1" change="created" datetime="2026-01-02T00:00:00Z"`)+
			listedAs(s.encoded("with spaces.txt"), "", ` change="deleted" datetime="2026-01-02T00:00:01Z"`)), file{"1", []byte("changed")})))
	s.set("/.well-known/resourcesync", answer(document("urlset", "description", `<url><loc>sets/a b.xml</loc><rs:md capability="capabilitylist"/></url>`)))
	s.set("/.well-known/sets/a%20b.xml", answer(document("urlset", "capabilitylist", `<rs:ln rel="up" href="../resourcesync"/>`+
		`<url><loc>/dump 100%.xml</loc><rs:md capability="resourcedump"/></url><url><loc>../../changes|.xml</loc><rs:md capability="changedump"/></url>`)))
	s.set("/dump%20100%25.xml", answer(document("sitemapindex", "resourcedump", `<sitemap><loc>`+s.URL+`/parts/1|.xml</loc></sitemap>`)))
	s.set("/parts/1%7C.xml", answer(document("urlset", "resourcedump", `<url><loc>../part |1.zip</loc></url>`)))
	s.set("/changes%7C.xml", answer(manifest("changedump", ` from="2026-01-01T00:00:00Z"`, "")))
	c := s.open(dir)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	reported(t, &r, "relative")
	s.same(dir)

	delete(s.files, "with spaces.txt")
	put("100%", "changed")
	s.set("/changes%7C.xml", answer(manifest("changedump", ` from="2026-01-01T00:00:00Z"`,
		`<url><loc>changes%.zip</loc><rs:md from="2026-01-01T00:00:00Z" until="2026-01-03T00:00:00Z"/></url>`)))
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 1 || r.Deleted != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	reported(t, &r, "relative")
	s.same(dir)
}

// A mirror whose address is not encoded serves. LNK-02.
func TestOddMirror(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", "body", 0)
	s.set("/data/a", answer("other"))
	s.set("/mirror%20of%20100%25", answer("body"))
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", strings.Replace(listedAs(s.URL+"/data/a", "body", ""), "</url>",
		`<rs:ln rel="duplicate" href="`+s.URL+`/mirror of 100%"/></url>`, 1))))
	if r, err := s.open(dir).Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// What is pushed and written as it is, which hubs let pass, means the same file. HUB-55.
func TestOddLocsArePushed(t *testing.T) {
	s := newSource(t)
	s.put("100%.txt", "first", 0)
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", listedAs(s.encoded("100%.txt"), "first", ""))))
	p := follow(t, s)
	callback := p.subscribed()
	p.happens(destination.Copied, "100%25.txt", "")
	s.mu.Lock()
	s.files["100%.txt"] = "second"
	s.mu.Unlock()
	id := p.pushText(callback, listedAs(s.URL+"/data/100%.txt", "second", ` change="updated"`)+listedAs("ftp://ftp.example/a|b", "", ` change="created"`))
	p.happens(destination.Copied, "100%25.txt", id)
	p.same()
	id = p.pushText(callback, listedAs(s.URL+"/data/100%.txt", "", ` change="deleted"`))
	p.happens(destination.Deleted, "100%25.txt", id)
	if read(p.dir, "100%.txt") != "" {
		t.Error("it is still there")
	}
	if !slices.ContainsFunc(p.came, func(e destination.Event) bool {
		return e.What == destination.Failed && e.URL == "ftp://ftp.example/a%7Cb"
	}) {
		t.Errorf("nothing was reported: %+v", p.came)
	}
}

// What could not be had is forgotten when the Source does not list it any more, and not
// before.
func TestUnlistedFailuresAreForgotten(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", "body", 0)
	list := listedAs(s.URL+"/data/a", "body", "")
	wrong := listedAs("a", "body", "") + listedAs(s.URL+"/data/nowhere", "", "")
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list+wrong)))
	c := s.open(dir)
	for range 3 {
		if r, err := c.Sync(t.Context()); err != nil || r.Failed != 2 {
			t.Errorf("%v %+v", err, r)
		}
	}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list)))
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// The page of a host, listed without a path, is a file like others.
func TestHostWithoutPath(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		s, dir := newSource(t), t.TempDir()
		s.offers = []string{resourcesync.ResourceList}
		s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", `<url><loc>`+s.URL+`</loc><rs:md hash="`+hashOf("the page")+`"/></url>`)))
		s.set("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") })
		folder := strings.NewReplacer("http://", "", ":", "_").Replace(s.URL) + "/"
		c := s.open(dir, func(o *destination.Options) {
			o.Source += "/capabilitylist.xml"
			if o.Roots = nil; mapped {
				folder, o.Roots = "", []destination.Root{{URL: s.URL + "/", Dir: "."}}
			}
		})
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || read(dir, folder+"%-") != "the page" {
			t.Errorf("mapped %v: %v %+v", mapped, err, r)
		}
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 1 {
			t.Errorf("mapped %v: %v %+v", mapped, err, a)
		}
	}
}

// What a list says of users and passwords is not sent, and nobody reads it in the copy or its reports.
func TestAddressesWithPasswords(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as document has it
	secret := strings.Replace(s.URL, "//", "//me:hunter2@", 1)
	sent := ""
	for _, name := range []string{"a", "mirrored"} {
		s.put(name, "body", 0)
		s.set("/data/"+name, func(w http.ResponseWriter, r *http.Request) {
			sent += r.Header.Get("Authorization")
			_, _ = io.WriteString(w, "body")
		})
	}
	gone := `<url><loc>` + secret + `/data/gone</loc><rs:ln rel="duplicate" href="` + secret + `/data/gone too"/></url>`
	mirrored := `<url><loc>` + s.URL + `/data/away</loc><rs:ln rel="duplicate" href="` + secret + `/data/mirrored"/><rs:ln rel="via" href="` + secret + `/data/first"/></url>`
	collected := `<url><loc>` + s.URL + `/data/collected</loc><rs:ln rel="collection" href="` + secret + `/collection"/></url>`
	led := `<url><loc>` + s.URL + `/data/led</loc></url>`
	s.set("/data/led", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "gopher://me:hunter2@example.org/")
		w.WriteHeader(http.StatusFound)
	})
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", `<rs:ln rel="up" href="/capabilitylist.xml"/>`+listedAs(secret+"/data/a", "body", "")+mirrored+gone+collected+led)))
	c := s.open(dir)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 2 || r.Failed != 3 {
		t.Errorf("%v %+v", err, r)
	}
	a, err := c.Audit(t.Context(), false)
	if err != nil {
		t.Error(err)
	}
	if said := fmt.Sprintf("%+v %+v", r, a); sent != "" || strings.Contains(said, "hunter2") {
		t.Errorf("sent %q, said %s", sent, said)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("hunter2")) {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
