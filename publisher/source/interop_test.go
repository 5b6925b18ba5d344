package source

import (
	"bufio"
	"encoding/xml"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What follows plays the habits of the Python library resync, the reference
// Destination, without our own reader.

// pyList is a document as a reader sees it that knows XML and not us.
type pyList struct {
	XMLName xml.Name
	MD      []pyMD    `xml:"http://www.openarchives.org/rs/terms/ md"`
	LN      []pyLN    `xml:"http://www.openarchives.org/rs/terms/ ln"`
	URLs    []pyEntry `xml:"url"`
	Members []pyEntry `xml:"sitemap"`
}

type pyEntry struct {
	Loc     []string `xml:"loc"`
	LastMod string   `xml:"lastmod"`
	MD      []pyMD   `xml:"http://www.openarchives.org/rs/terms/ md"`
}

type pyMD struct {
	Capability string `xml:"capability,attr"`
	Change     string `xml:"change,attr"`
	Datetime   string `xml:"datetime,attr"`
	Hash       string `xml:"hash,attr"`
	Length     string `xml:"length,attr"`
	At         string `xml:"at,attr"`
	From       string `xml:"from,attr"`
	Until      string `xml:"until,attr"`
}

type pyLN struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

// pyRead fetches a document as urllib does: identity, no conditions.
func (x *site) pyRead(path string) pyList {
	x.t.Helper()
	got := x.get(path, "Accept-Encoding", "identity", "User-Agent", "Python-urllib/3.11", "Connection", "close")
	if got.status != http.StatusOK || got.header.Get("Content-Encoding") != "" {
		x.t.Fatalf("%s: %d, %v", path, got.status, got.header)
	}
	var l pyList
	if err := xml.Unmarshal([]byte(got.body), &l); err != nil {
		x.t.Fatalf("%s: %v", path, err)
	}
	return l
}

// It looks for lists by their default names, and finds there what the Capability
// List, the only one, lists.
func TestPythonFindsDefaultNames(t *testing.T) {
	x := grown(t)
	if l := x.pyRead("/.well-known/resourcesync"); len(l.URLs) != 1 {
		t.Errorf("there are %d Capability Lists", len(l.URLs))
	}
	listed := make(map[string]string)
	for _, e := range x.pyRead("/capabilitylist.xml").URLs {
		u, err := url.Parse(e.Loc[0])
		if err != nil {
			t.Fatal(err)
		}
		listed[e.MD[0].Capability] = u.Path
	}
	for capability, path := range map[string]string{
		"resourcelist": "/resourcelist.xml", "changelist": "/changelist-index.xml", "resourcedump": "/resourcedump.xml", "changedump": "/changedump.xml",
	} {
		if l := x.pyRead(path); listed[capability] != path || l.MD[0].Capability != capability {
			t.Errorf("%s is listed at %s, and what is at %s is a %s", capability, listed[capability], path, l.MD[0].Capability)
		}
	}
}

// It gives up at a second rs:md, a second loc, and resources on another host and
// port than the list; it compares lastmod, length and either hash, and reads times
// right only if they are UTC with Z (DOC-51, DOC-55, DOC-56, DOC-59).
func TestPythonReadsLists_DOC51_DOC55_DOC56_DOC59(t *testing.T) {
	x := grown(t)
	site, err := url.Parse(x.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	utc := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	hash := regexp.MustCompile(`^md5:[0-9a-f]{32} sha-256:[0-9a-f]{64}$`)
	for _, path := range []string{"/resourcelist.xml", "/changelist.xml"} {
		top := x.pyRead(path)
		lists := []pyList{top}
		for _, m := range top.Members {
			lists = append(lists, x.pyRead(m.Loc[0]))
		}
		for _, l := range lists {
			if len(l.MD) != 1 || len(l.LN) == 0 || l.LN[0].Rel != "up" {
				t.Errorf("%s: %+v, %+v", path, l.MD, l.LN)
			}
			for _, s := range []string{l.MD[0].At, l.MD[0].From, l.MD[0].Until} {
				if s != "" && !utc.MatchString(s) {
					t.Errorf("%s: the time %s", path, s)
				}
			}
			for _, e := range l.URLs {
				u, err := url.Parse(e.Loc[0])
				if err != nil || len(e.Loc) != 1 || len(e.MD) != 1 || u.Host != site.Host || u.Scheme != site.Scheme {
					t.Errorf("%s: the entry %+v", path, e)
				}
				md := e.MD[0]
				deleted := md.Change == "deleted"
				if !utc.MatchString(e.LastMod) || (path == "/changelist.xml") != utc.MatchString(md.Datetime) || deleted == hash.MatchString(md.Hash) || deleted != (md.Length == "") {
					t.Errorf("%s: the entry %+v", path, e)
				}
				if modified, at := when(t, e.LastMod), when(t, md.Datetime); deleted && (modified.Before(at) || modified.Sub(at) >= time.Millisecond) {
					t.Errorf("%s: it was deleted at %s, and lastmod, by which old versions prune, is %s", path, md.Datetime, e.LastMod)
				}
			}
		}
	}
}

func when(t testing.TB, datetime string) time.Time {
	t.Helper()
	if datetime == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, datetime)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// It parses without looking ahead, and so the rs elements of a document have to come
// before its first entry (DOC-51).
func TestPythonReadsInOrder_DOC51(t *testing.T) {
	x := grown(t)
	for path, d := range x.sets[0].shelf.current().Documents {
		if d.Type != xmlType {
			continue
		}
		f, err := os.Open(filepath.Join(x.sets[0].shelf.dir, d.File))
		if err != nil {
			t.Fatal(err)
		}
		entries, inEntry := 0, false
		for lines := bufio.NewScanner(f); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			switch {
			case line == "<url>" || line == "<sitemap>":
				entries, inEntry = entries+1, true
			case line == "</url>" || line == "</sitemap>":
				inEntry = false
			case strings.HasPrefix(line, "<rs:") && entries > 0 && !inEntry:
				t.Errorf("%s: %s after the first entry", path, line)
			}
		}
		_ = f.Close() // only read
	}
}

// Its incremental sync takes from the Change List what is later than the Resource
// List; baseline and changes together are the folder, whatever is built when.
func TestPythonBaselineAndIncremental(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "1", "b": "1", "c": "1"})
	x.build()
	list := x.pyRead("/resourcelist.xml")
	copied := make(map[string]string)
	for _, e := range list.URLs {
		copied[e.Loc[0]] = x.get(e.Loc[0]).body
	}
	x.write(map[string]string{"b": "2", "d": "1"})
	if err := os.Remove(filepath.Join(x.dir, "c")); err != nil {
		t.Fatal(err)
	}
	// Loaded with an old time, as archives are unpacked.
	if err := os.Chtimes(filepath.Join(x.dir, "d"), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	x.build()
	for _, e := range x.pyRead("/changelist.xml").URLs {
		switch md := e.MD[0]; {
		case md.Datetime <= list.MD[0].At: // both in UTC with six digits at most
		case md.Change == "deleted":
			delete(copied, e.Loc[0])
		default:
			copied[e.Loc[0]] = x.get(e.Loc[0]).body
		}
	}
	for path, want := range map[string]string{"a": "1", "b": "2", "d": "1"} {
		if got := copied[x.server.URL+"/data/"+path]; got != want {
			t.Errorf("%s is %q in the copy", path, got)
		}
	}
	if len(copied) != 3 {
		t.Errorf("the copy has %v", copied)
	}
}
