package destination_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// A Resource List names a resource by an address that no request can be sent to: sync and audit say which it is and what is
// wrong with it, in the same words.
func TestAddressesThatCannotBeAsked(t *testing.T) {
	for loc, why := range map[string]string{
		"data/b": "it is relative", "/data/b": "it is relative", "ftp://example.org/b": "ftp is neither http nor https", "http:///b": "it names no host",
		"urn:isbn:1": "urn is neither http nor https",
	} {
		t.Run(loc, func(t *testing.T) {
			s := newSource(t)
			s.put("a", "a", 0)
			s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
				head := resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
				s.write(w, head, s.entry("a", ""), resourcesync.Entry{Loc: "http://example.org/REPLACED"})
			})
			list := s.override["/resourcelist.xml"]
			s.set("/resourcelist.xml", func(w http.ResponseWriter, r *http.Request) {
				out := &replaced{w, "http://example.org/REPLACED", loc}
				list(out, r)
			})
			c := s.open(t.TempDir())
			r, err := c.Sync(t.Context())
			if err != nil || r.Copied != 1 || r.Failed != 1 || len(r.Problems) != 1 {
				t.Fatalf("%v %+v", err, r)
			}
			a, err := c.Audit(t.Context(), false)
			if err != nil || a.InSync || a.Missing != 1 || len(a.Findings) != 1 {
				t.Fatalf("%v %+v", err, a)
			}
			for _, got := range []string{r.Problems[0].Why, a.Findings[0].Why} {
				if !strings.Contains(got, "no request can be sent to the address that the Source gives ("+why+")") {
					t.Errorf("%s", got)
				}
			}
		})
	}
}

// A list that names a resource twice is compared with it once.
func TestAuditOfAListThatNamesAResourceTwice(t *testing.T) {
	for _, twice := range []bool{true, false} {
		s := newSource(t)
		s.put("a", "a", 0)
		s.put("b", "b", 0)
		s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
			entries := []resourcesync.Entry{s.entry("a", ""), s.entry("b", "")}
			if twice {
				entries = append(entries, entries...)
			}
			s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, entries...)
		})
		dir := t.TempDir()
		c := s.open(dir)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
			t.Fatalf("%v %+v", err, r)
		}
		if err := os.Remove(filepath.Join(dir, "b")); err != nil {
			t.Fatal(err)
		}
		a, err := c.Audit(t.Context(), false)
		if err != nil || a.Equal != 1 || a.Missing != 1 || len(a.Findings) != 1 || a.Sets[0].Equal != 1 || a.Sets[0].Missing != 1 {
			t.Errorf("twice %v: %v %+v", twice, err, a)
		}
		if a, err = c.Audit(t.Context(), true); err != nil || !a.InSync || a.Equal != 2 || a.Repaired.Copied != 1 {
			t.Errorf("twice %v: %v %+v", twice, err, a)
		}
	}
}

// replaced writes a text in place of another one.
type replaced struct {
	http.ResponseWriter
	old, text string
}

func (r *replaced) Write(p []byte) (int, error) {
	_, err := r.ResponseWriter.Write([]byte(strings.ReplaceAll(string(p), r.old, r.text)))
	return len(p), err
}
