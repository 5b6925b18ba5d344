package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// examples are the files of a new folder.
var examples = map[string]string{
	"README.txt":       "Change anything in this folder: the copy follows.\n",
	"a.txt":            "Hello, world\n",
	"letters/greek.md": "# α β γ\n",
}

// fill makes a folder with examples where there is none.
func fill(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name, text := range examples {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for the reader to look at
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// apart returns an error unless neither folder is within the other.
func apart(data, copied string) error {
	a, err := whole(data)
	if err != nil {
		return err
	}
	b, err := whole(copied)
	if err != nil {
		return err
	}
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s and %s lie one within the other; name folders beside each other with --data and --copy", data, copied)
		}
	}
	return nil
}

// whole is the absolute path of a folder, which need not exist, without links.
func whole(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return dir, nil //nolint:nilerr // what is not there can't be a link
	}
	return filepath.Join(parent, filepath.Base(dir)), nil
}

// mark is in the folder of each demo's copy, where copies have what is their own.
const mark = ".rssub/rshub-demo"

// claim makes the folder of the copy, or returns an error where there is one with
// files that no demo put there: a copy deletes what its Source does not have.
func claim(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(mark))
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	switch there, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case len(there) > 0:
		return fmt.Errorf("%s holds files that no demo put there, and what is not in the folder that is published would be deleted; name another folder with --copy", dir)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // for the reader to look at
		return err
	}
	return os.WriteFile(name, []byte("The folder above is the copy that rshub demo makes.\n"), 0o644) //nolint:gosec // as above
}
