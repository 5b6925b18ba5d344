package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
)

// inlineMax is the largest notification, in bytes, that is kept in the database,
// whose file never shrinks. Larger ones get files of their own.
const inlineMax = 64 << 10

// temporary ends the name of a file that is being written.
const temporary = ".tmp"

// files are the large notifications, by interval.name. A file is whole and durable
// before the interval that names it is in the database, and removed after it is
// not; so a crash leaves at most files that no interval names.
type files struct{ dir string }

func (f files) path(i interval) string { return filepath.Join(f.dir, i.name()) }

// write stores the bytes of an interval durably.
func (f files) write(i interval, body []byte) (err error) {
	path := f.path(i)
	defer func() {
		if err != nil {
			_ = os.Remove(path + temporary) // what is left the next Open removes
			err = fmt.Errorf("writing a notification: %w", err)
		}
	}()
	w, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // a name of our own in the folder of the outbox
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+temporary, path); err != nil {
		return err
	}
	return syncDir(f.dir)
}

func (f files) open(i interval) (*os.File, error) { return os.Open(f.path(i)) }

// remove takes a file away. What it leaves the next Open removes.
func (f files) remove(i interval) { _ = os.Remove(f.path(i)) }

// removeOrphans removes the files that a crash left: those that no interval names.
func (x *outbox) removeOrphans() error {
	found, err := os.ReadDir(x.files.dir)
	if err != nil {
		return err
	}
	return x.view(func(tx *bbolt.Tx) error {
		for _, f := range found {
			from, ours := parseName(strings.TrimSuffix(f.Name(), temporary))
			if !ours {
				continue
			}
			if i, ok, err := namedInterval(tx, from, f.Name()); err != nil || ok && i.InFile {
				if err != nil {
					return err
				}
				continue
			}
			if err := os.Remove(filepath.Join(x.files.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the caller names the folder
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
