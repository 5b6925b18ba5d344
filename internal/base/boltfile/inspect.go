package boltfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// openReplayed opens and locks the file by a function, after a replay if it was not closed. It looks again under the
// lock, because another process may have opened the file before, and may have been killed.
func (d *DB) openReplayed(open func() (f io.ReaderAt, closeIt func() error, err error)) error {
	for {
		if err := d.replay(); err != nil {
			return d.openError(err)
		}
		f, closeIt, err := open()
		if err != nil {
			return d.openError(err)
		}
		ids, _, err := marksOf(f)
		if err == nil && len(ids) == 0 {
			return nil
		}
		if err = errors.Join(err, closeIt()); err != nil {
			return d.openError(err)
		}
	}
}

// replay makes the file whole if it is there and was not closed. It waits for its lock.
func (d *DB) replay() error {
	looked, err := os.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ids, _, err := marksOf(looked)
	_ = looked.Close() // it was only read
	if err != nil || len(ids) == 0 {
		return err
	}
	f, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is synced
	for end := time.Now().Add(d.o.Wait); ; time.Sleep(lockRetry) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return (&file{f, d.path, d}).replay()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if !time.Now().Before(end) {
			return berrors.ErrTimeout
		}
	}
}

// lockRetry is how long replay waits before it asks for the lock of a file again.
const lockRetry = 50 * time.Millisecond

// inspect reads the structure of the file, and with values all of it. Bad returns the
// error for a damaged value; nil: go on. View, which may be nil, is called with what is
// there. Fresh: there is no file, or nothing in it.
func (d *DB) inspect(values bool, bad func(bucket, key []byte) error, view func(*Tx) error) (fresh bool, records int, err error) {
	path, o := d.path, d.o
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return true, 0, nil
	}
	var f *os.File
	var db *bbolt.DB
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = abandon(f) }()               // it was only read; nil: it was not opened
	defer (&Tx{d: d, inside: true}).recovered(&err) // bbolt reads the meta pages of any file
	// bbolt has the lock of the file, and nothing more is asked of it here.
	err = d.openReplayed(func() (_ io.ReaderAt, closeIt func() error, err error) {
		db, err = bbolt.Open(path, 0, &bbolt.Options{
			ReadOnly: true, Timeout: max(o.Wait, time.Nanosecond), NoStatistics: true,
			OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
				f, err = os.OpenFile(name, flag, mode) //nolint:gosec // the caller names the file
				return f, err
			},
		})
		return f, db.Close, err
	})
	if err != nil {
		return false, 0, err
	}
	defer func() { _ = db.Close() }() // as above
	if info, err = f.Stat(); err != nil {
		return false, 0, d.openError(err)
	}
	s := &structure{f: f, buckets: o.Buckets, oldest: o.oldest(), format: o.Format, values: values}
	var first error
	s.damaged = func(bucket, key []byte) {
		if err := bad(bucket, key); first == nil {
			first = err
		}
	}
	fresh, err = s.read(info.Size())
	var version *versionError
	switch {
	case errors.As(err, &version):
		return false, 0, d.otherVersion(version)
	case err != nil && !errors.Is(err, errOdd):
		return false, 0, d.openError(err)
	case err == nil:
		err = first
	}
	if err != nil {
		return false, s.records, d.damaged(err)
	}
	if view != nil && !fresh {
		err = d.viewOf(&bolt{db: db, file: &file{f, path, d}, pageSize: db.Info().PageSize}, view)
	}
	return fresh, s.records, err
}

// Check reads a whole file that no process has open. It changes nothing, except as Open does with a file that was not
// closed: the write-ahead log goes into it. Bad is called
// with each record whose value is damaged, and then view, which may be nil, with what
// there is. It returns how many records there are.
func Check(path string, o Options, bad func(bucket, key []byte), view func(*Tx) error) (records int, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return 0, err
	}
	_, records, err = (&DB{path: path, o: o}).inspect(true, func(bucket, key []byte) error {
		bad(bucket, key)
		return nil
	}, view)
	return records, err
}
