package source

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/base/disk"
)

// secrets are files that a folder may have and nobody means to publish.
var secrets = []string{".env", ".ssh/id_rsa", "app/.npmrc", ".git/config", ".well-known/.htpasswd", "..data/token"}

// Names that begin with a dot are published where somebody says so, and not else.
func TestHiddenNames(t *testing.T) {
	public := []string{".well-known/security.txt", "a.b", "app/.well-known/x", "app/main.css"}
	with := func(more ...string) []string {
		return slices.Sorted(slices.Values(append(slices.Clone(public), more...)))
	}
	for name, c := range map[string]struct {
		o    FolderOptions
		want []string
	}{
		"by default":      {FolderOptions{}, public},
		"other ignores":   {FolderOptions{Ignore: []string{"*.tmp"}}, public},
		"ignores nothing": {FolderOptions{Ignore: []string{}}, public},
		"one name":        {FolderOptions{HiddenAllow: []string{".npmrc"}}, with("app/.npmrc")},
		"one path":        {FolderOptions{HiddenAllow: []string{"/.env", ".npmrc/"}}, with(".env")},
		"a folder":        {FolderOptions{HiddenAllow: []string{".ssh/"}}, with(".ssh/id_rsa")},
		"all":             {FolderOptions{Hidden: true}, slices.DeleteFunc(with(secrets...), func(p string) bool { return p == ".git/config" })},
		"really all":      {FolderOptions{Hidden: true, Ignore: []string{}}, with(secrets...)},
	} {
		t.Run(name, func(t *testing.T) {
			later(t, func(t *testing.T) {
				r := newRig(t, c.o, append(slices.Clone(public), secrets...)...)
				r.scan()
				r.want("resources", r.published(), c.want...)
				for _, path := range append(slices.Clone(public), secrets...) {
					file, err := r.Open(path)
					if may := slices.Contains(c.want, path); may != (err == nil) {
						t.Errorf("%q can be opened: %v", path, err)
					}
					if err == nil {
						_ = file.Close()
					} else if !errors.Is(err, os.ErrNotExist) {
						t.Error(err)
					}
				}
			})
		})
	}
	if _, err := NewFolder(nil, FolderOptions{Dir: t.TempDir(), HiddenAllow: []string{"a["}}); err == nil || !strings.Contains(err.Error(), "a[") {
		t.Errorf("a wrong pattern: %v", err)
	}
}

// What was published and is hidden now is deleted, however much that is, and is not
// served any more from the first moment on.
func TestPublishedAndHiddenNow(t *testing.T) {
	x := newSite(t, withHidden)
	files := map[string]string{"a": "A"}
	for i := range 30 {
		files[fmt.Sprintf(".private/%d", i)] = "secret"
	}
	x.write(files)
	x.build()
	if got := x.get("/data/.private/1"); got.status != http.StatusOK {
		t.Fatalf("it was never published: %d", got.status)
	}
	x.close()
	x.o.Sets[0].Folder.Hidden = false
	x.open()
	if got := x.get("/data/.private/1"); got.status != http.StatusNotFound {
		t.Errorf("before the next scan it answers %d", got.status)
	}
	x.build()
	if n, held := x.Resources(), x.Status().Sets[0].Folder.Held; n != 1 || held != 0 {
		t.Errorf("%d resources stay, %d deletions are held back", n, held)
	}
	if n := strings.Count(x.get("/changelist.xml").body, `change="deleted"`); n != 30 {
		t.Errorf("%d deletions are told of", n)
	}
	if got := x.get("/resourcedump.xml"); strings.Contains(got.body, ".private") {
		t.Error("the dump has it")
	}
}

// Folders of state are known by their marker, whatever they are called and whenever it
// comes.
func TestFoldersOfState(t *testing.T) {
	later(t, func(t *testing.T) {
		var files []string
		for i := range 30 {
			files = append(files, fmt.Sprintf("journal/%02d", i))
		}
		r := newRig(t, FolderOptions{Hidden: true, Ignore: []string{}}, append(files, "a", "data/x", "data/deep/y", "other/z")...)
		r.must(disk.Mark(r.at("data")))
		r.scan()
		r.want("resources", r.published(), append([]string{"a"}, append(files, "other/z")...)...)
		if n := r.Status().Hidden; n != 1 {
			t.Errorf("%d are hidden", n)
		}
		r.must(disk.Mark(r.at("journal")))
		if got := r.scan(); len(got) != 30 || r.Status().Held != 0 {
			t.Errorf("most of it becomes state: %q, held %d", got, r.Status().Held)
		}
		r.want("resources", r.published(), "a", "other/z")
		if _, err := r.Open("data/deep/y"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("state can be opened: %v", err)
		}
		r.must(os.Remove(filepath.Join(r.at("journal"), disk.Marker)))
		if got := r.scan(); len(got) != 30 {
			t.Errorf("it is state no more: %q", got)
		}
		r.must(disk.Mark(r.dir))
		if err := r.Scan(t.Context()); err == nil || !strings.Contains(err.Error(), disk.Marker) {
			t.Errorf("the folder itself becomes state: %v", err)
		}
		if _, err := r.Open("a"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it can be opened then: %v", err)
		}
		if _, err := NewFolder(r.x, r.o); err == nil || !strings.Contains(err.Error(), disk.Marker) {
			t.Errorf("a folder of state is taken: %v", err)
		}
	})
}

// While Run watches, a folder that becomes one of state is no part any more.
func TestFolderBecomesState(t *testing.T) {
	r := newRig(t, quick, "a", "b/x")
	r.runs()
	r.becomes(map[string]string{"a": "a", "b/x": "b/x"})
	r.must(disk.Mark(r.at("b")))
	r.write("b/secret", "secret")
	r.write("c", "c")
	r.becomes(map[string]string{"a": "a", "c": "c"})
}

// A state folder named by mistake is not marked.
func TestStateFolderIsTheFolder(t *testing.T) {
	dir := t.TempDir()
	o := eager(dir)
	o.PublicURL, o.StateDir = "http://example.org/", dir
	if s, err := Open(o); err == nil || !strings.Contains(err.Error(), "itself") {
		t.Errorf("%v, %v", s, err)
	}
	if disk.Marked(os.Lstat, dir) {
		t.Error("the folder to publish is marked as one of state")
	}
}
