package source

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// odd is a Source over files that have odd names, with a change of each.
func odd(t *testing.T) *site {
	t.Helper()
	x := newSite(t, func(o *Options) { withHub(o); withHidden(o) })
	for _, text := range []string{"1", "", "longer"} {
		files := map[string]string{"empty": "", "plain": text}
		for i, name := range oddNames() {
			if text != "" || i%2 == 0 {
				files[name] = text
			}
		}
		x.write(files)
		x.build()
	}
	return x
}

// Whatever files are called, the documents about them pass every check that we have,
// and the schemas (DOC-34, DOC-51, DOC-61).
func TestOddNamesAreValid_DOC34_DOC51_DOC61(t *testing.T) {
	x := odd(t)
	if out, err := follow(t, x); err != nil || strings.Contains(out, "WARN") {
		t.Errorf("%v\n%s", err, out)
	}
	for path, d := range x.sets[0].shelf.current().Documents {
		if d.Type != xmlType {
			continue
		}
		text, err := os.ReadFile(filepath.Join(x.sets[0].shelf.dir, d.File))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("<loc>")) {
			continue // DOC-50
		}
		if said, err := xmllint(t, text); err != nil {
			t.Errorf("%s: %v: %s", path, err, said)
		}
	}
}

// A resource whose file, or a folder above it, has become a link is not served, and is
// deleted with the next scan, wherever the link leads. Until then what is outside is
// out of reach.
func TestWhatBecomesALinkIsGone(t *testing.T) {
	x := newSite(t, nil)
	outside := t.TempDir()
	writeFiles(t, outside, map[string]string{"a": "secret", "b": "secret"})
	x.write(map[string]string{"file/a": "1", "folder/b": "1", "inside/c": "1", "other/c": "1", "stays": "1", "stays too": "1", "and this": "1"})
	x.build()
	for path, to := range map[string]string{"file/a": filepath.Join(outside, "a"), "folder": outside, "inside": "other"} {
		name := filepath.Join(x.dir, path)
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	look := func(when string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if got := x.get(path); got.status == http.StatusOK || strings.Contains(got.body, "secret") {
				t.Errorf("%s %s answers %d %q", when, path, got.status, got.body)
			}
		}
	}
	look("before the next scan", "/data/file/a", "/data/folder/b")
	x.build()
	look("after the next scan", "/data/file/a", "/data/folder/b", "/data/inside/c")
	_, listed := x.read("/resourcelist.xml")
	dumped := x.unpackAll("/resourcedump.xml")
	if len(listed) != 4 || len(dumped) != 4 || dumped[x.server.URL+"/data/stays"] != "1" {
		t.Errorf("listed are %+v, and dumped %v", listed, dumped)
	}
}
