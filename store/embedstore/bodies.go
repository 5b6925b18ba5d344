package embedstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/journal"
)

// inlineMax is the largest body, in bytes, that is kept in the database: its
// file never shrinks, so larger ones get files of their own.
const inlineMax = 64 << 10

// temporary ends the name of a body that is being written.
const temporary = ".tmp"

// bodies are the files of the large bodies, named by the notification's id. A
// file is whole and durable before the entry that names it is, and is removed
// after it, so that a crash leaves at most files that no entry names.
type bodies struct{ dir string }

func (b bodies) path(id uuid.UUID) string { return filepath.Join(b.dir, id.String()) }

// write stores a body durably.
func (b bodies) write(id uuid.UUID, body []byte) (err error) {
	path := b.path(id)
	defer func() {
		if err != nil {
			_ = os.Remove(path + temporary) //nolint:gosec // an id in the operator's folder; what is left the next Open removes
			err = fmt.Errorf("writing a body: %w", spaceOr(err))
		}
	}()
	f, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // as above
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+temporary, path); err != nil { //nolint:gosec // as above
		return err
	}
	if err := syncDir(b.dir); err != nil {
		b.remove(id)
		return err
	}
	return nil
}

// read returns the body of an entry, or journal.ErrNotFound.
func (b bodies) read(e journal.Entry) ([]byte, error) {
	body, err := os.ReadFile(b.path(e.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, journal.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a body: %w", err)
	}
	if int64(len(body)) != e.Size {
		return nil, fmt.Errorf("the body in %s has %d bytes, and was stored with %d", b.path(e.ID), len(body), e.Size)
	}
	return body, nil
}

// remove takes bodies away. What it leaves the next Open removes.
func (b bodies) remove(ids ...uuid.UUID) {
	for _, id := range ids {
		_ = os.Remove(b.path(id)) //nolint:gosec // an id in the operator's folder
	}
}

// removeOrphans removes the files that a crash left: those that no entry names.
func (b bodies) removeOrphans(db *bbolt.DB) error {
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		ids := tx.Bucket(bucketIDs)
		for _, f := range files {
			id, err := uuid.Parse(strings.TrimSuffix(f.Name(), temporary))
			if err != nil {
				continue // not one of ours
			}
			if f.Name() == id.String() && ids.Get(id[:]) != nil {
				continue
			}
			if err := os.Remove(filepath.Join(b.dir, f.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// room returns an error that wraps journal.ErrFull where the disk has less than
// MinFree left after taking size bytes more.
func (s *Store) room(size int64) error {
	if s.minFree < 0 {
		return nil
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("looking for the free space of %s: %w", s.dir, err)
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:gosec // no disk has 2^63 bytes
	if free-size < s.minFree {
		return fmt.Errorf("%w: %s has %d MiB free, and %d MiB have to stay free; make room, or move the folder to a larger disk",
			journal.ErrFull, s.dir, free>>20, s.minFree>>20)
	}
	return nil
}
