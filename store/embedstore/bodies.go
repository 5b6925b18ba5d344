package embedstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/journal"
)

// inlineMax is the largest body, in bytes, that is stored in the database. Its file never
// shrinks, so larger bodies get their own files.
const inlineMax = 64 << 10

// bodies are the files of the large bodies, named by the notification's id. A file is complete
// and durable before the entry that names it, and is removed after the entry. So a crash leaves
// at most files that no entry names.
//
// The folder has a marker (disk.Marker) with the id of the store. A folder without the marker is
// not the folder of these bodies but, for example, the mount point of an unmounted disk. Then no
// body counts as missing, and none is written.
type bodies struct{ dir, id string }

func (b bodies) path(id uuid.UUID) string { return filepath.Join(b.dir, id.String()) }

// mark writes the marker durably.
func (b bodies) mark() error {
	return atomicfile.WriteBytes(filepath.Join(b.dir, disk.Marker), atomicfile.Options{}, []byte(b.id+"\n"))
}

// there returns nil if the folder of the bodies is there, otherwise why not.
func (b bodies) there() error {
	path := filepath.Join(b.dir, disk.Marker)
	id, err := os.ReadFile(path) //nolint:gosec // in the operator's folder
	if err == nil && strings.TrimSpace(string(id)) != b.id {
		err = fmt.Errorf("%s names another store", path)
	}
	if err != nil {
		return fmt.Errorf("%s is not the folder of the large bodies of this store: %w; mount its disk or put the folder back; if the bodies are lost for good, write %s into %s",
			b.dir, err, b.id, path)
	}
	return nil
}

// ready returns nil if a body could be stored now, otherwise why not.
func (b bodies) ready() error {
	if err := b.there(); err != nil {
		return err
	}
	const write, search = 2, 1
	if err := syscall.Access(b.dir, write|search); err != nil {
		return fmt.Errorf("nothing can be written to %s: %w; give the folder to the user that the hub runs as, or look at its disk", b.dir, err)
	}
	return nil
}

// write stores a body durably.
func (b bodies) write(id uuid.UUID, body []byte) error {
	if err := b.there(); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(b.path(id), atomicfile.Options{}, body); err != nil {
		b.remove(id) // it may be there, if only the sync of the folder failed
		return fmt.Errorf("writing a body: %w", spaceOr(err))
	}
	return nil
}

// read returns the body of an entry. A *journal.DamagedError may also mean that the entry was trimmed
// meanwhile.
func (b bodies) read(e journal.Entry) ([]byte, error) {
	body, err := os.ReadFile(b.path(e.ID))
	switch {
	case err == nil:
		return body, e.Check(body)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("reading a body: %w", err)
	}
	if err := b.there(); err != nil {
		return nil, fmt.Errorf("reading a body: %w", err)
	}
	return nil, e.Damaged(fmt.Errorf("its body is missing: there is no file %s", b.path(e.ID)))
}

// remove deletes bodies. The next Open deletes those that it could not delete.
func (b bodies) remove(ids ...uuid.UUID) {
	for _, id := range ids {
		_ = os.Remove(b.path(id)) //nolint:gosec // an id in the operator's folder
	}
}

// removeOrphans deletes the files that a crash left and that no entry names. It changes nothing in the
// folder of another store.
func (b bodies) removeOrphans(db *boltfile.DB) error {
	if err := b.there(); err != nil {
		return nil //nolint:nilerr // Ready says so
	}
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	return db.View(func(tx *boltfile.Tx) error {
		ids, entries := tx.Bucket(bucketIDs), tx.Bucket(bucketEntries)
		for _, f := range files {
			id, err := uuid.Parse(strings.TrimSuffix(f.Name(), atomicfile.Suffix))
			if err != nil {
				continue // not one of ours
			}
			if at := ids.Get(id[:]); f.Name() == id.String() && at != nil && (len(at) == 0 || entries.Get(at) != nil) {
				continue // a damaged place may belong to an entry
			}
			if err := os.Remove(filepath.Join(b.dir, f.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Space returns the free bytes on the disk of the folder, and the number below which nothing new is
// stored. If the large bodies are on a disk of their own, it is the one with less. False: the free
// bytes are unknown.
func (s *Store) Space() (free, least int64, ok bool) {
	free, err := disk.Free(s.folder.dir)
	if ofBodies, err := disk.Free(s.folder.bodies()); err == nil {
		free = min(free, ofBodies)
	}
	return free, max(s.folder.minFree, 0), err == nil
}

// Room implements subscriptions.Space.
func (r *records) Room(ctx context.Context) error {
	if err := cmp.Or(ctx.Err(), r.folder.db.Closed()); err != nil {
		return err
	}
	return r.folder.room(0)
}

// A disk with plenty more bytes free than it has to have is asked again only after plentyFor, or for more bytes: no disk gets
// full so fast.
const (
	plenty    = 1 << 30
	plentyFor = 50 * time.Millisecond
)

// room returns an error that wraps journal.ErrFull if size more bytes would leave less than MinFree on
// the disk.
func (f *folder) room(size int64) error {
	if at := f.plentyAt.Load(); f.minFree < 0 || at != nil && size <= plenty && time.Since(*at) < plentyFor {
		return nil
	}
	now := time.Now()
	if f.fits(size+plenty) == nil {
		f.plentyAt.Store(&now)
		return nil
	}
	err := f.fits(size)
	if errors.As(err, new(*disk.FullError)) {
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return err
}

// fits returns an error if size more bytes would leave less than MinFree. The large bodies may be on a disk of their own. If
// their folder is not there, only what needs it fails.
func (f *folder) fits(size int64) error {
	err := disk.Room(f.dir, f.minFree, size)
	if ofBodies := disk.Room(f.bodies(), f.minFree, size); err == nil && errors.As(ofBodies, new(*disk.FullError)) {
		err = ofBodies
	}
	return err
}
