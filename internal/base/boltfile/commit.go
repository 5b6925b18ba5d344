package boltfile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// maxBatch is how many operations share a transaction.
const maxBatch = 1024

// errUnopened is the state after a failed write where the file could not be opened again, until the
// next try.
var errUnopened = errors.New("the file could not be opened again after a failed write; the next read or write tries it")

// Op is one operation of the writer.
type Op struct {
	// Run does the work. It may be called more than once, each time on a transaction
	// that does not show the call before, and never after Do has returned. If it returns
	// an error, nothing that it wrote is stored. One that wrote nothing costs no sync.
	Run func(*Tx) error
	// Finish, which may be nil, is called once with the result, before Do returns it. It is also
	// called where Do has returned already.
	Finish func(err error)
	// Grows: the operation stores something new. Where the disk is full, it fails and leaves the
	// room to those that do not grow. Run may set it. Bytes is about how much it needs.
	Grows bool
	Bytes int64

	gone     <-chan struct{} // the end of the caller's context, and its error
	why      func() error
	err      error
	panicked any
	done     chan struct{}

	running sync.Mutex // held while Run is called; guards what follows
	begun   bool       // Run was called
	left    bool       // Do has returned
}

// UnsureError is a commit that failed so late that it may be durable.
type UnsureError struct {
	Path string
	Err  error
}

func (e *UnsureError) Error() string {
	return fmt.Sprintf("writing to %s failed, and it may or may not have been stored: %v", e.Path, e.Err)
}

// Unwrap returns the error of the commit.
func (e *UnsureError) Unwrap() error { return e.Err }

// MayBeStored reports whether an operation with this result is stored, or may be.
func MayBeStored(err error) bool { return err == nil || errors.As(err, new(*UnsureError)) }

// IsFull reports whether an error says that there is no room.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error() // bbolt makes texts of some errors
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, berrors.ErrMaxSizeReached) ||
		strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, syscall.EDQUOT.Error())
}

// Update runs fn as the Run of an Op.
func (d *DB) Update(fn func(*Tx) error) error { return d.Run(&Op{Run: fn}) }

// Run is Do for an operation that is never given up.
func (d *DB) Run(o *Op) error {
	o.why = func() error { return nil }
	return d.submit(o)
}

// Do has the writer run o and returns its result, nil once it is durable. If ctx ends
// before that has begun, it never happens; otherwise Do waits for it.
func (d *DB) Do(ctx context.Context, o *Op) error {
	o.gone, o.why = ctx.Done(), ctx.Err
	return d.submit(o)
}

func (d *DB) submit(o *Op) error {
	o.done = make(chan struct{})
	err := o.why()
	if err == nil {
		select {
		case d.ops <- o:
		case <-o.gone:
			err = o.why()
		case <-d.stop:
			err = d.o.Closed
		}
	}
	if err != nil {
		if o.Finish != nil {
			o.Finish(err)
		}
		return err
	}
	select {
	case <-o.done:
	case <-o.gone:
		if o.leave() {
			return o.why()
		}
		<-o.done
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// leave reports whether the operation has not begun. Then it never will.
func (o *Op) leave() bool {
	o.running.Lock()
	defer o.running.Unlock()
	o.left = !o.begun
	return o.left
}

func (o *Op) answer(err error) {
	o.err = err
	if o.Finish != nil {
		o.Finish(err)
	}
	close(o.done)
}

// write is the writer: it runs operations until the DB is closed.
func (d *DB) write() {
	defer close(d.stopped)
	debug.SetPanicOnFault(true)
	for {
		select {
		case <-d.stop:
			return
		case o := <-d.ops:
			d.group(d.admit(d.gather(o)))
		case done := <-d.wipes:
			done <- d.wipe()
		}
	}
}

// wipe is Wipe in the writer, outside of any other transaction: a page that such a one frees is still needed.
func (d *DB) wipe() (err error) {
	db, err := d.writable()
	if err != nil {
		return err
	}
	defer (&Tx{d: d, inside: true}).recovered(&err)
	if err := db.wipe(); err != nil {
		return d.recoverFrom(err, nil, 0)
	}
	return nil
}

// gather returns the operations that are waiting.
func (d *DB) gather(first *Op) []*Op {
	batch := []*Op{first}
	runtime.Gosched() // callers that were answered a moment ago come along
	for len(batch) < maxBatch {
		select {
		case o := <-d.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// admit answers the operations that must not run, and returns the others.
func (d *DB) admit(batch []*Op) []*Op {
	var need int64
	return slices.DeleteFunc(batch, func(o *Op) bool {
		err := o.why()
		if err == nil && o.Grows && d.o.Room != nil {
			if err = d.o.Room(need + o.Bytes); err == nil {
				need += o.Bytes
			}
		}
		if err != nil {
			o.answer(err)
		}
		return err != nil
	})
}

// group runs operations in one transaction and answers them. If one fails after it has written, group
// answers it and runs the others again. Where the disk is full, those that grow fail, and group runs
// the others again.
func (d *DB) group(ops []*Op) {
	for len(ops) > 0 {
		failed, err := d.transact(ops)
		grows := func(o *Op) bool { return o.Grows }
		switch {
		case failed != nil:
			ops = slices.DeleteFunc(ops, func(o *Op) bool { return o == failed })
			failed.answer(err)
			continue
		case !MayBeStored(err) && IsFull(err) && slices.ContainsFunc(ops, grows):
			for _, o := range ops {
				if o.Grows {
					o.answer(err)
				}
			}
			ops = slices.DeleteFunc(ops, grows)
			continue
		}
		for _, o := range ops {
			if err != nil {
				o.err = err
			}
			o.answer(o.err)
		}
		return
	}
}

// transact runs operations in one transaction and commits it. Where err is nil, each operation has its
// own result in its err. Failed is an operation because of which the transaction was rolled back.
func (d *DB) transact(ops []*Op) (failed *Op, err error) {
	db, err := d.writable()
	if err != nil {
		return nil, err
	}
	tx, err := db.begin(true)
	if err != nil {
		return nil, d.recoverFrom(err, nil, 0)
	}
	t, id := &Tx{tx: tx, d: d}, tx.ID()
	for _, o := range ops {
		before := t.writes
		if o.err = o.try(t); o.err == nil || t.writes == before && o.panicked == nil {
			continue
		}
		if err := t.rollback(); err != nil {
			return nil, d.recoverFrom(err, tx, id)
		}
		return o, errors.Join(o.err, d.reload(db))
	}
	if t.writes == 0 {
		if err := t.rollback(); err != nil {
			return nil, d.recoverFrom(err, tx, id)
		}
	} else if err := d.tryCommit(db, t); err != nil {
		return nil, d.recoverFrom(err, tx, id)
	}
	if t.writes > 0 || errors.As(d.Trouble(), new(*UnsureError)) { // which is durable by now
		d.trouble.Store(nil)
	}
	return nil, nil
}

// rollback ends a transaction that was not committed. Only a damaged file is in the way.
func (t *Tx) rollback() (err error) {
	t.inside = true
	defer t.recovered(&err)
	return t.tx.Rollback()
}

// try runs the operation once. A panic of it is passed to the caller of Do.
func (o *Op) try(t *Tx) (err error) {
	o.running.Lock()
	defer o.running.Unlock()
	if o.left {
		return o.why()
	}
	o.begun, o.panicked = true, nil
	defer func() {
		if o.panicked = recover(); o.panicked != nil {
			err = fmt.Errorf("panic: %v", o.panicked)
		}
	}()
	defer t.recovered(&err)
	return o.Run(t)
}

// tryCommit commits. A panic of bbolt means that the file is damaged.
func (d *DB) tryCommit(db *bolt, t *Tx) (err error) {
	t.inside = true
	defer func() {
		if err != nil {
			defer t.recovered(new(error)) // the first error says more
			_ = t.tx.Rollback()           // where the commit did not do it
		}
	}()
	defer t.recovered(&err)
	commit := func() error { return db.Commit(t.tx) }
	if with := d.commit.Load(); with != nil {
		return (*with)(commit)
	}
	return commit()
}

// writable returns the database to write to, opened again where it was lost.
func (d *DB) writable() (*bolt, error) {
	d.mu.RLock()
	db, fault := d.db, d.fault // only the writer changes them before it has ended
	d.mu.RUnlock()
	if fault != nil || db != nil {
		return db, fault
	}
	db, err := d.open()
	if err != nil {
		return nil, err
	}
	return db, d.adopt(db)
}

// adopt replaces the database by one that was opened again.
func (d *DB) adopt(db *bolt) error {
	if err := d.reload(db); err != nil {
		_ = db.close() // the first error says more
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.db = db
	return nil
}

// recoverFrom makes the DB sound again after a transaction with this id could not be
// committed, and returns the error for the callers. The file is opened again, so that
// nothing of the failed transaction is left in memory. If the file shows it all the
// same, its sync was what failed, and opening the file has made it durable.
//
// Where space was lacking the DB goes on. After any other error of the disk nobody
// knows what it holds, and nothing more is written. A file that was deleted is not opened again:
// another one may be in its place.
func (d *DB) recoverFrom(cause error, tx *bbolt.Tx, id int) error {
	err := fmt.Errorf("writing to %s failed: %w", d.path, cause)
	deleted := errors.As(cause, new(*deletedError))
	d.mu.Lock()
	switch {
	case deleted:
		err = cause
		d.fault = err
	case !IsFull(cause):
		err = fmt.Errorf("a write to %s failed; look at the disk, then start again: %w", d.path, cause)
		d.fault = err
	}
	d.trouble.Store(&err)
	old, fault := d.db, d.fault
	d.db = nil
	d.mu.Unlock()
	if tx != nil && tx.DB() != nil { // bbolt gave up within it, and waits for itself
		return &UnsureError{d.path, cause}
	}
	_ = old.close() // the cause says more
	if deleted {
		return err
	}
	db, openErr := d.open()
	if openErr != nil {
		return &UnsureError{d.path, errors.Join(cause, openErr)}
	}
	happened := id > 0
	viewErr := db.view(func(tx *bbolt.Tx) error {
		happened = happened && tx.ID() >= id
		return nil
	})
	if viewErr == nil && !happened {
		return errors.Join(err, d.adopt(db))
	}
	err = &UnsureError{d.path, cause}
	if fault != nil {
		_ = db.close() // nothing is read any more either
	} else if d.adopt(db) == nil { // if it fails, writable tries again
		d.trouble.Store(&err)
	}
	return err
}
