package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// namesVersion is raised when the rule of names.go changes for names that may be in a
// copy already.
const namesVersion = 3

// rule describes how files get their paths, so that a change of the rule is noticed.
func (t *tree) rule() string {
	return fmt.Sprintf("%d folds=%v allow=%q", namesVersion, t.folds, t.names.allow)
}

// rename renames files of the copy if the present rule gives them other names than the rule by
// which they were written: guarded names become safe ones, and names that are allowed now become
// their own again. A file keeps its bytes and its record. The next Open continues a run that was
// interrupted.
func (t *tree) rename() error {
	if t.state.rule() == t.rule() {
		return nil
	}
	if t.folds || strings.Contains(t.state.rule(), "folds=true") {
		if err := t.state.rekey(t.fold); err != nil {
			return err
		}
	}
	moved, d := 0, records{}
	store := func() error {
		err := t.state.store(d, t.fold, time.Now())
		for _, r := range d {
			t.release(r.file.Path)
		}
		d = records{}
		return err
	}
	for url, f := range t.state.files() {
		to, err := t.renamed(url, f)
		if err != nil {
			return err
		}
		if to == f.Path {
			t.release(to)
			continue
		}
		if err := t.move(f.Path, to); err != nil {
			return fmt.Errorf("giving %s in the copy the safe name %s: %w", f.Path, to, err)
		}
		f.Path = to
		d[url] = record{file: &f}
		if moved++; len(d) < storeSome {
			continue
		}
		if err := store(); err != nil {
			return err
		}
	}
	if err := store(); err != nil {
		return err
	}
	if err := t.state.rewriteOrigins(); err != nil { // rekey may have forgotten files
		return err
	}
	if moved > 0 {
		t.log.Info("files of the copy were renamed: programs react to their old names, or Options.HiddenAllow allows their own names now", "event", "files_renamed", "files", moved)
	}
	return t.state.putRule(t.rule())
}

// renamed returns the path that a file should have. If it is a new path, it is reserved for the
// file.
func (t *tree) renamed(url string, f file) (string, error) {
	if !t.names.guardsPath(f.Path) {
		strict := &tree{roots: t.roots}
		was, err := strict.preferredPath(url)
		if err != nil || was != f.Path {
			return f.Path, nil //nolint:nilerr // it keeps the path that it has
		}
		if is, err := t.preferredPath(url); err != nil || is == was {
			return f.Path, nil //nolint:nilerr // as above
		}
	}
	t.placing.Lock()
	defer t.placing.Unlock()
	p, _, err := t.assignNew(url)
	return p, err
}

// move renames a file of the copy. If it does not exist or is not a file, the next run fetches
// it.
func (t *tree) move(from, to string) error {
	info, err := t.root.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() || t.throughFile(from) {
		return nil
	}
	if err == nil {
		err = t.root.MkdirAll(path.Dir(to), 0o755)
	}
	if err == nil {
		err = t.root.Rename(from, to)
	}
	if err == nil {
		t.removeEmpty(path.Dir(from))
	}
	return err
}

// rule returns the stored rule; empty: there is none.
func (s *state) rule() (rule string) {
	s.view(func(tx *boltfile.Tx) { rule = string(tx.Bucket(metaBucket).Get(namesKey)) })
	return rule
}

func (s *state) putRule(rule string) error {
	return s.update(func(w *writer) { w.keep(w.Bucket(metaBucket).Put(namesKey, []byte(rule))) })
}
