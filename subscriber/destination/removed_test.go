package destination_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/subscriber/destination"
)

// What somebody removes while a copy is open is made again, or the error says which folder it was.
func TestRemovedWhileOpen(t *testing.T) {
	for what, want := range map[string]string{"parts": "", "state": "copy.db was deleted while it was open", "copy": "was removed: put it back"} {
		t.Run(what, func(t *testing.T) {
			s, dir, state := newSource(t), filepath.Join(t.TempDir(), "copy"), t.TempDir()
			s.put("first", "body", 0)
			c := s.open(dir, func(o *destination.Options) { o.StateDir = state })
			if _, err := c.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.put("second", "body", 1)
			of := map[string]string{"parts": filepath.Join(dir, ".rssub", "parts"), "state": state, "copy": dir}[what]
			if err := os.RemoveAll(of); err != nil {
				t.Fatal(err)
			}
			if what == "state" {
				if err := os.Mkdir(state, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			r, err := c.Sync(t.Context())
			for _, p := range r.Problems {
				err = errors.Join(err, errors.New(p.Why))
			}
			switch {
			case want == "" && (err != nil || read(dir, "second") != "body"):
				t.Errorf("%v %+v", err, r)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), of)):
				t.Errorf("%v, want %q and %s", err, want, of)
			}
		})
	}
}

// An audit reports what it found also where a folder that belongs to nothing of the copy cannot be read, such as lost+found.
func TestAuditPassesUnreadableFolders(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser reads every folder")
	}
	s, dir := newSource(t), t.TempDir()
	s.put("here/a", "body", 0)
	s.put("there/b", "body", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost, there := filepath.Join(dir, "lost+found"), filepath.Join(dir, "there")
	if err := errors.Join(os.Mkdir(lost, 0), os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	a, err := c.Audit(t.Context(), false)
	if err != nil || a.Equal != 2 || a.Extra != 1 || a.Missing+a.Differing != 0 {
		t.Errorf("%v %+v", err, a)
	}
	if err := os.Chmod(there, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(there, 0o700) })
	if a, err = c.Audit(t.Context(), false); err != nil || a.Equal != 1 || a.Missing+a.Differing != 1 {
		t.Errorf("%v %+v", err, a)
	}
}

// Where a folder of the copy belongs to another user, the errors name it, and an audit does not say that the files are gone.
func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may use every folder")
	}
	s, dir := newSource(t), t.TempDir()
	s.put("d/a", "body", 0)
	s.put("d/b", "body", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put("d/a", "other", 10)
	s.drop("d/b", 10)
	folder := filepath.Join(dir, "d")
	if err := os.Chmod(folder, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	want := "this user may not read and change the folder " + folder + "; allow that, or run as the user that may"
	r, err := c.Sync(t.Context())
	if err != nil || r.Failed != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	for _, p := range r.Problems {
		if p.Why != want {
			t.Errorf("%s: %s", p.URL, p.Why)
		}
	}
	if a, err := c.Audit(t.Context(), false); err != nil || a.Missing != 1 || a.Findings[0].Why != want {
		t.Errorf("%v %+v", err, a)
	}
}

// A folder of a copy that cannot be written to is named, once.
func TestFolderCannotBeWritten(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".rssub"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := destination.Open(destination.Options{Source: s.URL, Dir: dir, StateDir: t.TempDir()})
	if err == nil {
		_ = c.Close()
	}
	if err == nil || !strings.HasPrefix(err.Error(), "destination: the folder of the copy, "+dir+", cannot be written to: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
