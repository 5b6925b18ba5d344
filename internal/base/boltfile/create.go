package boltfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// create makes a new file, or makes an empty one such. What is at the path is never half of a file: a new one gets its
// name when it is durable, unless another process has made one meanwhile.
func (d *DB) create() error {
	if _, err := os.Stat(d.path); err == nil {
		return d.openError(d.createAt(d.path))
	}
	f, err := os.CreateTemp(filepath.Dir(d.path), filepath.Base(d.path)+".*"+atomicfile.Suffix)
	if err != nil {
		return d.openError(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has its own name by then
	err = errors.Join(f.Close(), d.createAt(f.Name()))
	if err == nil {
		if err = os.Link(f.Name(), d.path); err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(f.Name(), d.path) // not every filesystem has links
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return d.openError(err)
	}
	dir := filepath.Dir(d.path)
	return d.openError(d.sync(dir, func() error { return atomicfile.SyncDir(dir) }))
}

// createAt makes the buckets in an empty file.
func (d *DB) createAt(path string) error {
	db, err := bbolt.Open(path, 0o600, writing(d.o.Wait))
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(aboutBucket) != nil {
			return nil // another process was first
		}
		for _, name := range append([][]byte{aboutBucket}, d.o.Buckets...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return (&Tx{tx: tx, d: d}).SetFormat(d.o.Format)
	})
	return errors.Join(err, db.Close())
}
