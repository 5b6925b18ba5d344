package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// Marker is the name of the file that makes a folder one of state, whatever the file
// holds: a Source publishes nothing of such a folder, wherever it lies and whatever its
// name is.
const Marker = ".rshub"

const markerText = "This folder is state of rshub, rspub or rssub, and may hold secrets. rspub publishes nothing of a folder with this file.\n"

// Mark makes an existing folder one of state, durably. It has to be called before the
// first secret is written there. A marker that is there already stays as it is.
func Mark(dir string) error {
	name := filepath.Join(dir, Marker)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString(markerText)
		err = errors.Join(err, f.Sync(), f.Close(), atomicfile.SyncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("marking the folder %s as one of state: %w", dir, err)
	}
	return nil
}

// Make makes a folder of state, if it is missing, and the folders above it. Its names are
// durable when it returns, except those above the folder's parent.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The parent may belong to somebody else. Then it cannot be synced, and was there before.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	return Mark(dir)
}

// Marked reports whether the folder at a path is one of state, as lstat sees it: os.Lstat,
// or that of an os.Root. What can't be told is none: nor can anything in that folder be
// read then.
func Marked(lstat func(name string) (fs.FileInfo, error), path string) bool {
	_, err := lstat(filepath.Join(filepath.FromSlash(path), Marker))
	return err == nil
}
