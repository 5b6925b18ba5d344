package source

import (
	"context"
	"errors"
	"os"
	"testing"
)

// whileReading is a context that does something each time it is asked for its end,
// which is after each piece of a file that is hashed.
type whileReading struct {
	context.Context
	do func()
}

func (c whileReading) Err() error {
	c.do()
	return c.Context.Err()
}

// A file that changes while it is hashed is not taken as it was at no time.
func TestHashOfAFileThatChanges(t *testing.T) {
	r := newRig(t, FolderOptions{}, "a", "other")
	root, err := os.OpenRoot(r.dir)
	must(t, err)
	defer root.Close() //nolint:errcheck // it was only read
	for name, do := range map[string]func(){
		"":         func() {},
		"grows":    func() { r.write("a", "0123456789") },
		"shrinks":  func() { r.write("a", "0") },
		"as long":  func() { r.write("a", "987654321") },
		"replaced": func() { r.must(os.Rename(r.at("other"), r.at("a"))) },
		"removed":  func() { r.remove("a") },
	} {
		r.remove("a")
		r.write("a", "123456789")
		r.write("other", "123456789")
		info, err := root.Lstat("a")
		must(t, err)
		once := true
		ctx := whileReading{t.Context(), func() {
			if once {
				once = false
				do()
			}
		}}
		p := &pass{f: r.Folder, root: root, documents: outputs{root: root}}
		rec, err := p.hashFile(ctx, job{path: "a", seen: statOf(info)}, make([]byte, 4))
		switch {
		case name == "" && (err != nil || rec.SHA256 != shaOf("123456789")):
			t.Errorf("untouched: %+v, %v", rec, err)
		case name != "" && !errors.Is(err, errMoved) && !errors.Is(err, os.ErrNotExist):
			t.Errorf("%s: %+v, %v", name, rec, err)
		}
		if name == "" {
			continue
		}
		// Nor is one that is not any more as it was seen.
		if _, err := p.hashFile(t.Context(), job{path: "a", seen: statOf(info)}, make([]byte, 4)); err == nil {
			t.Errorf("%s before: no error", name)
		}
	}
}

// What was gone when the walker came by, and is there again, is not deleted.
func TestGoneAndThereAgain(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{}, "a", "b")
		r.scan()
		root, err := os.OpenRoot(r.dir)
		must(t, err)
		defer root.Close() //nolint:errcheck // it was only read
		p := &pass{f: r.Folder, root: root, documents: outputs{root: root}, problems: map[string]error{}}
		r.remove("b")
		must(t, p.remove(t.Context(), []string{"a", "b"}))
		r.want("changes", r.logged(0), "deleted b")
		if n, _ := r.pending.count(); n != 1 {
			t.Errorf("%d paths are looked at again", n)
		}
	})
}
