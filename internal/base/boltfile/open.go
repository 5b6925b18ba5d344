package boltfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// Options say what a file holds. Buckets, Format and Advice are needed.
type Options struct {
	// Buckets are made in a new file. A file has these and no others.
	Buckets [][]byte
	// Format is the version of what is stored, 1 or more. A new file gets it. Oldest is the
	// least that Open accepts; 0: only Format.
	Format, Oldest uint64
	// Advice says what to do about a damaged file. It ends a sentence.
	Advice string
	// Closed is the error of what comes after Close; nil: one of this package.
	Closed error
	// Wait is for how long Open waits for a process that has the file; 0: not at all.
	Wait time.Duration
	// Whole has Open compare all values with their checksums.
	Whole bool
	// PassDamage has a damaged value read as an empty one, which no decoder may accept.
	// Otherwise it ends the transaction with a *DamagedError.
	PassDamage bool
	// Room returns an error where the disk has no room for so many bytes more. It is
	// asked before an Op that Grows. Nil: there always is.
	Room func(bytes int64) error
	// Reload is called when the file was opened, and after changes that were made were
	// undone: what the caller remembers of the file may be wrong. It has the file
	// for itself, and must not call the DB. Nil: nothing is remembered.
	Reload func(*Tx) error
	// MaxLog is how long the write-ahead log may become before the file is synced, which the write of
	// that moment waits for. In bytes; 0: DefaultMaxLog.
	MaxLog int64

	// Of a test: what is called in place of syncs, as with DB.InterceptSync, and before writes,
	// which it may have fail.
	syncs  func(path string, sync func() error) error
	writes func(path string, at int64, size int) error
}

func (o *Options) oldest() uint64 { return cmp.Or(o.Oldest, o.Format) }

// DefaultMaxLog is that of Options.MaxLog, in bytes.
const DefaultMaxLog = 4 << 20

// Errors of Open.
var (
	// ErrLocked is wrapped where another process has the file open.
	ErrLocked = errors.New("is in use by another process")
	// ErrNewer is wrapped where a newer version of the program wrote the file.
	ErrNewer = errors.New("was written by a newer version of this program")
	// ErrOlder is wrapped where a version wrote the file that this one does not read.
	ErrOlder = errors.New("was written by an older version of this program")
)

// ErrDamaged is what each DamagedError is.
var ErrDamaged = errors.New("the file is damaged")

var errClosed = errors.New("the file is closed")

// DamagedError says that a file cannot be read, and what to do.
type DamagedError struct {
	Path   string
	Why    error
	Advice string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s cannot be read and seems damaged (%v): %s", e.Path, e.Why, e.Advice)
}

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Why }

// Is reports whether target is ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// versionError is that of a file with another format.
type versionError struct{ have, oldest, know uint64 }

func (e *versionError) Error() string {
	has, start := fmt.Sprintf("it has the format %d, and ", e.have), "older"
	switch {
	case e.have == 0:
		has = ""
	case e.have > e.know:
		start = "newer"
	}
	knows := fmt.Sprintf("the format %d", e.know)
	if e.oldest < e.know {
		knows = fmt.Sprintf("the formats %d to %d", e.oldest, e.know)
	}
	return fmt.Sprintf("%sthis version knows %s; start the %s version, or choose another folder", has, knows, start)
}

func (e *versionError) Unwrap() error {
	if e.have > e.know {
		return ErrNewer
	}
	return ErrOlder
}

// DB is an open file. It may be shared between goroutines.
type DB struct {
	path string
	o    Options

	// mu guards what follows: held for reading by each View, and for writing while the
	// file is closed or opened again.
	mu    sync.RWMutex
	db    *bolt // nil: closed, or not opened again after a failed commit
	fault error // why nothing is written until the next start

	trouble atomic.Pointer[error] // why the last write failed; nil: it did not

	// Of a test.
	commit hook[func(commit func() error) error]
	syncs  hook[func(path string, sync func() error) error]

	ops       chan *Op
	wipes     chan chan error
	stop      chan struct{} // closed by Close
	stopped   chan struct{} // closed when the writer has ended
	closeOnce sync.Once
	closeErr  error
}

// Open opens a file, and makes it if there is none. Its folder has to be there.
func Open(path string, o Options) (*DB, error) {
	if o.Closed == nil {
		o.Closed = errClosed
	}
	if as, err := filepath.EvalSymlinks(path); err == nil {
		path = as // its log is beside it
	}
	d := &DB{path: path, o: o, ops: make(chan *Op), wipes: make(chan chan error), stop: make(chan struct{}), stopped: make(chan struct{})}
	if o.syncs != nil {
		d.InterceptSync(o.syncs)
	}
	fresh, _, err := d.inspect(o.Whole, func(bucket, key []byte) error {
		return fmt.Errorf("the checksum of the value of %q in %s is wrong", key, bucket)
	}, nil)
	if err == nil && fresh {
		err = d.create()
	}
	if err != nil {
		return nil, err
	}
	if d.db, err = d.open(); err != nil {
		return nil, err
	}
	if err := d.reload(d.db); err != nil {
		_ = d.db.close() // the first error says more
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	go d.write()
	return d, nil
}

// sync calls a function that syncs a file or a folder.
func (d *DB) sync(path string, sync func() error) error {
	if with := d.syncs.Load(); with != nil {
		return (*with)(path, sync)
	}
	return sync()
}

// open opens and locks the file, whose structure is good, and makes durable what it holds.
func (d *DB) open() (db *bolt, err error) {
	var f *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if err != nil {
			_ = abandon(f) // where a panic left it open; the first error says more
		}
	}()
	defer (&Tx{d: d, inside: true}).recovered(&err)
	err = d.openReplayed(func() (_ io.ReaderAt, closeIt func() error, err error) {
		o := writing(d.o.Wait)
		o.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			f, err = os.OpenFile(name, flag&^os.O_CREATE, mode) //nolint:gosec // the caller names the file
			return f, err
		}
		if db, err = openBolt(d, o, cmp.Or(d.o.MaxLog, DefaultMaxLog)); err != nil {
			return nil, nil, err
		}
		return db.file, db.close, nil
	})
	if err != nil {
		return nil, err
	}
	if err = unmark(db.file, db.pageSize); err != nil {
		return nil, d.openError(errors.Join(err, db.close()))
	}
	// It may be another file, or have another format, than inspect has seen before it was locked.
	err = d.viewOf(db, func(tx *Tx) error {
		if have := tx.Format(); (have < d.o.oldest() || have > d.o.Format) && have != 0 {
			return d.otherVersion(&versionError{have, d.o.oldest(), d.o.Format})
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	_ = os.Remove(d.path + walSuffix) // what is there is ignored
	return db, nil
}

// abandon unlocks and closes a file that bbolt has left mapped, which would keep the lock.
func abandon(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // Close says more
	return f.Close()
}

// writing are the options of a file that is written to.
func writing(wait time.Duration) *bbolt.Options {
	return &bbolt.Options{
		Timeout: max(wait, time.Nanosecond), FreelistType: bbolt.FreelistMapType, NoStatistics: true,
		// Otherwise each commit writes the list of all free pages, which is long after
		// much was deleted. Close writes it once.
		NoFreelistSync: true,
	}
}

func (d *DB) otherVersion(is *versionError) error {
	return fmt.Errorf("%s %w: %w", d.path, is.Unwrap(), is)
}

// openError is what is said of an error of bbolt.Open.
func (d *DB) openError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%s %w; stop that one, or choose another folder", d.path, ErrLocked)
	case errors.As(err, new(syscall.Errno)): // the system's, which says nothing about what is stored
		return fmt.Errorf("opening %s: %w", d.path, err)
	}
	return d.damaged(err)
}

func (d *DB) damaged(why error) *DamagedError { return &DamagedError{d.path, why, d.o.Advice} }

// reload has the caller read what it remembers of the file.
func (d *DB) reload(db *bolt) error {
	if d.o.Reload == nil {
		return nil
	}
	return d.viewOf(db, d.o.Reload)
}

// View runs fn in a transaction that only reads. It sees what is durable, and where a transaction could not go to the
// write-ahead log, also what becomes durable at that moment. It should be short: no page that it could need is used
// again meanwhile.
func (d *DB) View(fn func(*Tx) error) error {
	err := d.view(fn)
	if !errors.Is(err, errUnopened) {
		return err
	}
	// The writer opens the file before it looks at an operation.
	if err := d.Update(func(*Tx) error { return nil }); err != nil {
		return err
	}
	return d.view(fn)
}

// Read returns what a function reads in a View.
func Read[T any](d *DB, what func(*Tx) T) (v T, err error) {
	err = d.View(func(tx *Tx) error {
		v = what(tx)
		return nil
	})
	return v, err
}

func (d *DB) view(fn func(*Tx) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.db == nil {
		return d.unavailable()
	}
	return d.viewOf(d.db, fn)
}

func (d *DB) viewOf(db *bolt, fn func(*Tx) error) (err error) {
	t := &Tx{d: d, inside: true}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer t.recovered(&err)
	return db.view(func(tx *bbolt.Tx) error {
		t.tx, t.inside = tx, false
		err := fn(t)
		t.inside = true
		return err
	})
}

// recovered, which has to be deferred, turns a panic about the file into a
// *DamagedError. Others are the caller's own.
func (t *Tx) recovered(err *error) {
	p := recover()
	if p == nil {
		return
	}
	if damaged, ok := p.(*DamagedError); ok {
		*err = damaged
		return
	}
	_, fault := p.(interface {
		runtime.Error
		Addr() uintptr
	})
	text, _ := p.(string)
	if !t.inside && !fault && !strings.HasPrefix(text, "assertion failed: ") { // so bbolt says it
		panic(p)
	}
	*err = t.d.damaged(fmt.Errorf("%v", p))
}

// unavailable is why there is no open file. Mu is held.
func (d *DB) unavailable() error {
	switch {
	case d.closing():
		return d.o.Closed
	case d.fault != nil:
		return d.fault
	}
	return errUnopened
}

// Ready returns nil where the file can be read and written, otherwise why not.
func (d *DB) Ready() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.db != nil && d.fault == nil && !d.closing() {
		return nil
	}
	return d.unavailable()
}

// Closed returns Options.Closed after Close, and nil before it.
func (d *DB) Closed() error {
	if d.closing() {
		return d.o.Closed
	}
	return nil
}

// Trouble returns why the last write failed, nil if it did not.
func (d *DB) Trouble() error {
	if err := d.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *DB) closing() bool {
	select {
	case <-d.stop:
		return true
	default:
		return false
	}
}

// Close ends the DB after the operations that were begun, and releases the file. It
// may be called more than once.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		close(d.stop)
		<-d.stopped
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.db == nil {
			return
		}
		var err error
		if d.fault == nil {
			err = d.tidy()
		}
		switch {
		case d.fault == nil && err == nil:
			d.closeErr = d.db.finish()
		case errors.As(err, new(*DamagedError)): // bbolt gave up within a transaction, and would wait for itself
			d.closeErr = errors.Join(err, d.db.wal.close(), abandon(d.db.file.osFile))
		default: // with the log, for the next start
			d.closeErr = errors.Join(err, d.db.close())
		}
		d.db = nil
	})
	return d.closeErr
}

// tidy writes the list of free pages, so that the next Open need not look for them,
// and cuts what is not used off the end of the file, so that it will be noticed if
// anything else is. Where it fails, the log has to stay for the next start.
func (d *DB) tidy() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer (&Tx{d: d, inside: true}).recovered(&err)
	d.db.db.NoFreelistSync = false
	tx, err := d.db.begin(true)
	if err != nil {
		return err
	}
	if err := d.tryCommit(d.db, &Tx{tx: tx, d: d}); err != nil {
		return err
	}
	return d.db.view(func(tx *bbolt.Tx) error { return d.db.file.osFile.Truncate(tx.Size()) })
}

// CopyTo writes a copy of what is durable, which Open opens.
func (d *DB) CopyTo(w io.Writer) error {
	return d.View(func(t *Tx) error {
		_, err := t.tx.WriteTo(w)
		return err
	})
}

// Copy copies a file, with its write-ahead log if it was not closed, without writing where it is. The error wraps
// ErrLocked if a process has it open. To is not durable.
func Copy(to, from string) error {
	f, err := os.Open(from) //nolint:gosec // the path is the caller's
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read, and the lock goes with it
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return fmt.Errorf("%s %w", from, err)
	}
	for _, suffix := range []string{"", walSuffix} {
		in, err := os.Open(from + suffix) //nolint:gosec // the path is the caller's
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		err = atomicfile.Write(to+suffix, atomicfile.Options{Durability: atomicfile.Volatile}, func(w io.Writer) error {
			_, err := io.Copy(w, in)
			return err
		})
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Wipe overwrites with zeros what is free in the file, as bbolt leaves there what it
// held, and the write-ahead log. Nobody may read meanwhile. Then all pages that bbolt calls free are such as its
// next transaction would write to: no state that a crash could bring back has anything
// in them.
func (d *DB) Wipe() error {
	done := make(chan error, 1)
	select {
	case d.wipes <- done:
	case <-d.stop:
		return d.o.Closed
	}
	if err := <-done; err != nil {
		return fmt.Errorf("overwriting what was deleted in %s: %w", d.path, err)
	}
	return nil
}

// Bolt returns the bbolt database, which a failed commit replaces. It is for tests.
func (d *DB) Bolt() *bbolt.DB {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.db.db
}

// Intercept has a function called in place of each commit, until it is nil. It is for
// tests.
func (d *DB) Intercept(with func(commit func() error) error) { d.commit.set(with) }

// InterceptSync has a function called in place of each sync of a file or a folder, until it is nil. It is for
// tests.
func (d *DB) InterceptSync(with func(path string, sync func() error) error) { d.syncs.set(with) }
