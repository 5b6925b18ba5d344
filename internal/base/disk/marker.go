package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// Marker is the name of the file that marks a folder of state; its content does not matter. A
// Source publishes nothing from such a folder, wherever it is and whatever it is called.
const Marker = ".rshub"

const markerText = "This folder is state of rshub, rspub or rssub, and may hold secrets. rspub publishes nothing of a folder with this file.\n"

// Mark marks an existing folder as one of state, durably. Call it before the first secret is
// written there. An existing marker stays as it is.
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

// Make creates a folder of state, and the folders above it, if they are missing. The names
// are durable when it returns, except those above the folder's parent.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The parent may belong to another user. Then it can't be synced, and was there before.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	return Mark(dir)
}

// Marked reports whether the folder at a path is one of state, as lstat sees it: os.Lstat, or
// that of an os.Root. After an error of lstat it is false: nothing in that folder can be read
// either.
func Marked(lstat func(name string) (fs.FileInfo, error), path string) bool {
	_, err := lstat(filepath.Join(filepath.FromSlash(path), Marker))
	return err == nil
}
