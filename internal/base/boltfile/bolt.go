package boltfile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
)

// bolt is a bbolt database with a write-ahead log. A commit waits for one write and one sync of the log, where
// bbolt alone waits for two syncs of pages all over its file.
//
// bbolt writes the pages of a transaction to places that are free, and then the meta page that leads to them.
// Commit lets it do so without syncs, and keeps a copy of the pages. It keeps the meta page back until the log has all
// of them and is synced. So the file never leads to what is not durable, and who reads never sees it. What is not yet
// synced in the file itself is in the log, from which replay writes it again after a crash. Where a transaction is too
// large for the log, or there can be no log, direct makes it durable.
//
// The methods are for one goroutine at a time.
type bolt struct {
	db       *bbolt.DB
	file     *file // of db
	pageSize int
	maxLog   int64  // bytes
	wal      *wal   // nil: there is none
	commit   bool   // a commit is under way
	record   record // what it wrote
}

// file is an open file. Its writes and syncs call Options.writes and DB.syncs.
type file struct {
	osFile *os.File
	path   string
	d      *DB
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	if may := f.d.o.writes; may != nil {
		if err := may(f.path, at, len(p)); err != nil {
			return 0, err
		}
	}
	return f.osFile.WriteAt(p, at)
}

func (f *file) ReadAt(p []byte, at int64) (int, error) { return f.osFile.ReadAt(p, at) }

func (f *file) sync() error { return f.d.sync(f.path, func() error { return fdatasync(f.osFile) }) }

// openBolt opens and locks a file.
func openBolt(d *DB, o *bbolt.Options, maxLog int64) (*bolt, error) {
	b := &bolt{maxLog: maxLog}
	openFile := o.OpenFile
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := openFile(name, flag, mode)
		b.file = &file{f, name, d}
		return f, err
	}
	var err error
	if b.db, err = bbolt.Open(d.path, 0o600, o); err != nil {
		return nil, err
	}
	b.pageSize = b.db.Info().PageSize
	if err := b.capture(); err != nil {
		return nil, errors.Join(err, b.db.Close())
	}
	return b, nil
}

// capture has bbolt call writeAt for what it writes. No option of bbolt does that, so it sets the field in which
// bbolt has the function.
func (b *bolt) capture() error {
	field := reflect.ValueOf(b.db).Elem().FieldByName("ops").FieldByName("writeAt")
	if !field.IsValid() || field.Type() != reflect.TypeOf(b.writeAt) {
		return errors.New("this version of bbolt does not have the function by which it writes where boltfile looks for it")
	}
	*(*func([]byte, int64) (int, error))(field.Addr().UnsafePointer()) = b.writeAt
	return nil
}

// metaPages are at the beginning of the file. Each transaction begins with them.
const metaPages = 2

// begin begins a transaction of bbolt, unless the file is not what it was opened as. If it was cut off before the end of the
// meta pages, bbolt would panic and keep its locks: whoever came next, and Close, would wait for them without end. If it was
// deleted, also by a file that came to its place, nothing that is written to it outlives the process.
func (b *bolt) begin(write bool) (*bbolt.Tx, error) {
	info, err := b.file.osFile.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Size() < metaPages*int64(b.pageSize):
		return nil, b.file.d.damaged(fmt.Errorf("it has only %d bytes", info.Size()))
	case info.Sys().(*syscall.Stat_t).Nlink == 0: //nolint:errcheck // a file of the system has nothing else
		return nil, &deletedError{b.file.path}
	}
	return b.db.Begin(write)
}

// deletedError says that a file was deleted while it was open.
type deletedError struct{ path string }

func (e *deletedError) Error() string {
	return e.path + " was deleted while it was open, or another file was put in its place: put the right one there if you have it, then start again"
}

// view runs fn in a transaction of bbolt that only reads.
func (b *bolt) view(fn func(*bbolt.Tx) error) error {
	tx, err := b.begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it always can be
	return fn(tx)
}

// writeAt writes for bbolt. While a commit is under way it keeps the pages, which Commit writes with few calls, and the meta
// page, which Commit writes after the log.
func (b *bolt) writeAt(p []byte, at int64) (int, error) {
	if b.commit {
		if at < 2*int64(b.pageSize) {
			b.record.meta, b.record.metaAt = append(b.record.meta[:0], p...), at
			return len(p), nil
		}
		if b.record.add(p, at) {
			return len(p), nil
		}
		// The pages before it were kept, and no record of them is needed any more.
		if err := b.record.writeTo(b.file); err != nil {
			return 0, err
		}
		b.record.pages = b.record.pages[:0]
	}
	return b.file.WriteAt(p, at)
}

// Commit makes a transaction durable. After an error the database has to be opened again.
func (b *bolt) Commit(tx *bbolt.Tx) error {
	b.record.begin(uint64(tx.ID())) //nolint:gosec // it counts from 0
	b.commit, b.db.NoSync = true, true
	err := tx.Commit()
	b.commit, b.db.NoSync = false, false
	if err == nil {
		err = b.record.writeTo(b.file)
	}
	if err != nil {
		return err
	}
	logged, err := b.append()
	switch {
	case err != nil:
		return err
	case !logged:
		return b.direct()
	}
	return b.writeMeta()
}

func (b *bolt) writeMeta() error {
	_, err := b.file.WriteAt(b.record.meta, b.record.metaAt)
	return err
}

// append appends the record to the log. It returns false if the record is too large for the log, or the disk has no
// room for it.
func (b *bolt) append() (logged bool, err error) {
	if b.record.large {
		return false, nil
	}
	if b.wal == nil {
		if started, err := b.startLog(); !started || err != nil {
			return false, err
		}
	}
	b.wal.mark(b.record.meta)
	record := b.record.pack(b.wal.id)
	if b.wal.at > walStart && b.wal.at+int64(len(record)) > b.maxLog {
		if err := b.restartLog(); err != nil {
			return false, err
		}
	}
	switch err = b.wal.write(record); {
	case IsFull(err): // direct gives back the room that the log has
		return false, nil
	case err == nil:
		err = b.wal.f.sync()
	}
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", b.wal.f.path, err)
	}
	b.wal.at += int64(len(record))
	return true, nil
}

// startLog makes an empty log, and marks the file as one that needs it. It returns false if there can be no log, for
// instance because the disk is full.
func (b *bolt) startLog() (started bool, err error) {
	w, err := createWAL(b.file.d, b.pageSize)
	if err != nil {
		return false, nil //nolint:nilerr // direct needs none
	}
	b.wal = w
	if err := w.markFile(b.file); err != nil {
		return false, err
	}
	return true, b.file.sync()
}

// restartLog makes all that is committed durable in the file itself. Then the next record is the first of the log,
// which is emptied before. A replay of some older records would undo what came after them.
func (b *bolt) restartLog() error {
	if err := b.file.sync(); err != nil {
		return err
	}
	return b.wal.zero(walStart + walBlock)
}

// wipe overwrites with zeros what is free in the file, and what the log has.
func (b *bolt) wipe() error {
	tx, err := b.begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it changed nothing
	info, err := b.file.osFile.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, b.pageSize)
	for id := 0; int64(id)*int64(b.pageSize) < info.Size(); id++ {
		page, err := tx.Page(id) // nil: beyond what was ever used
		if err != nil {
			return err
		}
		if page != nil && page.Type != "free" {
			continue
		}
		if _, err := b.file.WriteAt(zeros, int64(id)*int64(b.pageSize)); err != nil {
			return err
		}
	}
	if b.wal == nil {
		return b.file.sync()
	}
	if err := b.restartLog(); err != nil {
		return err
	}
	return b.wal.wipe()
}

// direct makes a transaction durable as bbolt does: its pages, and then its meta page. Between the two it empties the
// log, of which a replay would write over them. Who reads may see the transaction before its last sync has ended.
func (b *bolt) direct() error {
	err := b.file.sync()
	if err == nil && b.wal != nil {
		b.wal.mark(b.record.meta)
		err = b.wal.clear()
	}
	if err == nil {
		err = b.writeMeta()
	}
	if err == nil {
		err = b.file.sync()
	}
	return err
}

// close closes the files as they are.
func (b *bolt) close() error {
	return errors.Join(b.wal.close(), b.db.Close())
}

// finish closes a file such that it needs no log, if nothing is in the way.
func (b *bolt) finish() error {
	var err error
	if b.wal != nil {
		err = syncAndUnmark(b.file, b.pageSize)
		if err == nil {
			err = os.Remove(b.wal.f.path)
		}
	}
	return errors.Join(err, b.close())
}

// hook is a function that a test has called in place of another one; nil: none.
type hook[F any] struct{ atomic.Pointer[F] }

func (h *hook[F]) set(with F) {
	if reflect.ValueOf(with).IsNil() {
		h.Store(nil)
		return
	}
	h.Store(&with)
}
