package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rshub/rshub/internal/base/disk"
)

// examples are the files of a new folder.
var examples = map[string]string{
	"README.txt":       "Change anything in this folder: the copy follows.\n",
	"a.txt":            "Hello, world\n",
	"letters/greek.md": "# α β γ\n",
}

// fill creates the folder with examples, if there is none.
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

// prefix begins the names of folders for the state of a demo. A demo keeps the file held in
// it locked while it runs.
const (
	prefix = "rshub-demo-"
	held   = "running"
)

// stateFolder creates a folder for the state of a demo, which done removes. It also removes
// the folders of demos that were killed: nobody has their lock.
func stateFolder() (dir string, done func(), err error) {
	for _, name := range disk.Match(os.TempDir(), prefix+"*/"+held) {
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // it has our name
		if err != nil {
			continue // it belongs to another user
		}
		if lock(f) == nil {
			_ = os.RemoveAll(filepath.Dir(name)) // if that fails, the next demo tries again
		}
		_ = f.Close()
	}
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	f, err := os.Create(filepath.Join(dir, held+".new")) //nolint:gosec // it is in our own folder
	if err == nil {
		// Lock it before it gets its name, so that no other demo finds it unlocked.
		err = errors.Join(lock(f), os.Rename(f.Name(), filepath.Join(dir, held)))
	}
	done = func() {
		_ = os.RemoveAll(dir)
		_ = f.Close()
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return dir, done, nil
}

// lock returns an error if another process has locked f.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// ErrNested means that one folder is inside the other.
var ErrNested = errors.New("one is inside the other")

// apart returns ErrNested unless neither folder is within the other.
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
			return fmt.Errorf("the folders %s and %s: %w; name folders beside each other with --data and --copy", data, copied, ErrNested)
		}
	}
	return nil
}

// whole returns the absolute path of a folder without symbolic links. The folder need not
// exist.
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

// flag is the file in the copy's folder by which a demo recognises it.
const flag = ".rssub/rshub-demo"

// claim creates the folder of the copy. It returns an error if the folder has files that are
// not from a demo: a copy deletes files that its Source does not have.
func claim(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(flag))
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	switch there, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case len(there) > 0:
		return fmt.Errorf("%s has files that are not from a demo, and files that are not published would be deleted; name another folder with --copy", dir)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // for the reader to look at
		return err
	}
	return os.WriteFile(name, []byte("The folder above is the copy that rshub demo makes.\n"), 0o644) //nolint:gosec // as above
}
