package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// lockWait is how long a change waits for another one to finish.
const lockWait = 10 * time.Second

// replaceFile replaces the content of a file, whole or not at all. The file keeps its owner
// and mode, except that others lose all access. Only the owner can read a new file. If root
// creates it, the file gets the owner of its folder.
func replaceFile(path string, data []byte) error {
	mode, like := fs.FileMode(0o600), filepath.Dir(path)
	if info, err := os.Stat(path); err == nil {
		mode, like = info.Mode().Perm()&0o640|0o600, path
	}
	err := atomicfile.WriteBytes(path, atomicfile.Options{
		Durability: atomicfile.FileOnly, Temp: "." + filepath.Base(path) + ".*",
		Prepare: func(f *os.File) error { return errors.Join(owned(f, like, like == path), f.Chmod(mode)) },
	}, data)
	if err == nil {
		_ = atomicfile.SyncDir(filepath.Dir(path)) // the file is replaced; an error only means that a power cut may undo that
	}
	return err
}

// owned gives f to the owner of the file or folder like. It returns an error if must is set
// and that is not possible: the hub could not read f any more.
func owned(f *os.File, like string, must bool) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() && int(owner.Gid) == os.Getegid() || !must && os.Geteuid() != 0 {
		return nil
	}
	if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("%w: %s belongs to another user (%d:%d) and would become unreadable for that user; run this as its owner or as root", ErrRefusedChange, like, owner.Uid, owner.Gid)
	}
	return nil
}

// lockFolder lets one change at a time happen in a folder. The lock of a process that is
// killed ends with it.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir) //nolint:gosec // the operator names it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoPublishersFile, err)
	}
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		switch {
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("locking %s while the publishers change: %w", dir, err)
		case time.Now().After(deadline):
			_ = f.Close()
			return nil, fmt.Errorf("another `rshub token` has been changing the publishers in %s for %s; try again when it has ended", dir, lockWait)
		}
	}
}
