package destination_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/subscriber/destination"
)

// A folder that somebody put in the place of a file gives way if it is empty; else the error says what to do.
func TestFolderInPlaceOfAFile(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("empty", "body", 0)
	s.put("full", "body", 0)
	c := s.open(dir, func(o *destination.Options) { o.MaxDelete, _ = destination.ParseShare("0") }) // the file in the folder stays
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	if err := errors.Join(os.Remove(empty), os.Mkdir(empty, 0o700), os.Remove(full), os.Mkdir(full, 0o700), os.WriteFile(filepath.Join(full, "mine"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	a, err := c.Audit(t.Context(), false)
	if err != nil || a.Missing != 2 || a.Findings[0].Why != "a folder is in its place" {
		t.Errorf("%v %+v", err, a)
	}
	a, err = c.Audit(t.Context(), true)
	if err != nil || a.Missing != 1 || a.Findings[0].Path != "full" || a.Repaired == nil || a.Repaired.Copied != 1 || a.Repaired.Failed != 1 {
		t.Fatalf("%v %+v", err, a)
	}
	for _, p := range a.Repaired.Problems {
		if strings.HasSuffix(p.URL, "/full") && p.Why != "a folder with files is in its place: move "+full+" away" {
			t.Error(p.Why)
		}
	}
	if got := read(dir, "empty"); got != "body" {
		t.Errorf("%q", got)
	}
}

// A symbolic link that leads out of the copy is not followed, and nothing is put beside it. The errors say what to do, and an
// audit names the link.
func TestLinkOutOfTheCopy(t *testing.T) {
	for _, linked := range []string{"host", "host/data/d"} {
		t.Run(linked, func(t *testing.T) {
			s, dir, away := newSource(t), t.TempDir(), filepath.Join(t.TempDir(), "away")
			s.put("d/a", "body", 0)
			c := s.open(dir, func(o *destination.Options) { o.Roots = []destination.Root{{URL: s.URL + "/", Dir: "host"}} })
			if _, err := c.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(dir, linked)
			if err := errors.Join(os.Rename(link, away), os.Symlink(away, link)); err != nil {
				t.Fatal(err)
			}
			if a, err := c.Audit(t.Context(), false); err != nil || a.Missing != 1 || a.Extra != 1 {
				t.Errorf("%v %+v", err, a)
			}
			s.put("d/a", "other", 10)
			s.put("d/new", "new", 10)
			r, err := c.Sync(t.Context())
			if err != nil || r.Failed != 2 {
				t.Errorf("%v %+v", err, r)
			}
			for _, p := range r.Problems {
				if want := link + " is a symbolic link that leads out of the copy: put a folder in its place, or mount one there"; p.Why != want {
					t.Error(p.Why)
				}
			}
			if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync {
				t.Errorf("%v %+v", err, a)
			}
			if a, b := read(dir, "host/data/d/a"), read(dir, "host/data/d/new"); a != "other" || b != "new" {
				t.Errorf("%q %q", a, b)
			}
			if got := read(away, strings.TrimPrefix("host/data/d/a", linked+"/")); got != "body" {
				t.Errorf("what the link led to was changed: %q", got)
			}
		})
	}
}
