package embedstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/journal"
)

// maxBatch is how many operations share a transaction.
const maxBatch = 1024

// errUnopened is what there is to say between a failed write after which the
// database could not be opened again, and the next try.
var errUnopened = errors.New("the store could not be opened again after a failed write; it is tried with whatever is read or written next")

// errUnchanged is what an operation returns that had nothing to write. Its
// caller gets nil.
var errUnchanged = errors.New("nothing changed")

// op is one operation of the writer.
type op struct {
	ctx context.Context
	// run does the work. It may be called more than once, each time on a
	// transaction that does not show the call before, and never after do has
	// returned. It refuses before it writes: an error means that nothing was
	// written, but for a *brokenError, after which the transaction is given up.
	run func(tx *bbolt.Tx) error
	// finish, which may be nil, is called once with the result, before the
	// caller has it unless that is gone: it uses nothing of the caller's.
	finish func(err error)
	// grows says that the operation stores something new, and is refused at the high
	// water; one that only run can tell it of sets it there and looks for room itself.
	// room is the space, in bytes, that it takes in the database.
	grows bool
	room  int64

	err      error
	panicked any
	done     chan struct{}

	running sync.Mutex // held while run is called
	left    bool       // do has returned; guarded by running
}

// brokenError is a write inside a transaction that failed.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// unsureError is a commit that failed so late that it may have happened.
type unsureError struct{ err error }

func (e *unsureError) Error() string {
	return fmt.Sprintf("writing to the store failed, it may or may not have been stored: %v", e.err)
}
func (e *unsureError) Unwrap() error { return e.err }

// mayBeStored tells whether an operation with this result has to be told of, as
// it was stored, or may have been.
func mayBeStored(err error) bool {
	unsure := (*unsureError)(nil)
	return err == nil || errors.As(err, &unsure)
}

// put and del write inside an operation.
func put(b *bbolt.Bucket, k, v []byte) error {
	if err := b.Put(k, v); err != nil {
		return &brokenError{err}
	}
	return nil
}

func del(b *bbolt.Bucket, k []byte) error {
	if err := b.Delete(k); err != nil {
		return &brokenError{err}
	}
	return nil
}

// do has the writer run o, and returns its result once that is durable. When
// ctx ends first, o may still happen; only its run is waited for, where that has
// begun.
func (s *Store) do(ctx context.Context, o *op) error {
	o.ctx, o.done = ctx, make(chan struct{})
	err := ctx.Err()
	if err == nil {
		select {
		case s.ops <- o:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.stop:
			err = ErrClosed
		}
	}
	if err != nil {
		if o.finish != nil {
			o.finish(err)
		}
		return err
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		o.running.Lock()
		o.left = true
		o.running.Unlock()
		return ctx.Err()
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// write is the writer: it runs operations until the store is closed.
func (s *Store) write() {
	defer close(s.stopped)
	for {
		select {
		case <-s.stop:
			return
		case o := <-s.ops:
			s.settle(s.admit(s.gather(o)))
		}
	}
}

// gather takes the operations that wait already.
func (s *Store) gather(first *op) []*op {
	batch := []*op{first}
	runtime.Gosched() // callers that were answered a moment ago come along
	for len(batch) < maxBatch {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// admit answers those that are not to be run and returns the others.
func (s *Store) admit(batch []*op) []*op {
	var need int64
	out := batch[:0]
	for _, o := range batch {
		err := o.ctx.Err()
		if err == nil && o.grows {
			if err = s.room(need + o.room); err == nil {
				need += o.room
			}
		}
		if err != nil {
			o.answer(err)
			continue
		}
		out = append(out, o)
	}
	return out
}

func (o *op) answer(err error) {
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	o.err = err
	if o.finish != nil {
		o.finish(err)
	}
	close(o.done)
}

// settle runs operations in one transaction and answers them. One that breaks
// the transaction does not take the others with it.
func (s *Store) settle(ops []*op) {
	if len(ops) == 0 {
		return
	}
	err := s.transact(ops)
	if err == nil {
		for _, o := range ops {
			o.answer(o.err)
		}
		return
	}
	var broken *brokenError
	if errors.As(err, &broken) && len(ops) > 1 {
		for _, o := range ops {
			s.settle([]*op{o})
		}
		return
	}
	// Out of space: what makes room, and what is small, is tried without what
	// takes much.
	if errors.Is(err, journal.ErrFull) {
		var small []*op
		for _, o := range ops {
			if !o.grows {
				small = append(small, o)
			}
		}
		if len(small) < len(ops) {
			for _, o := range ops {
				if o.grows {
					o.answer(err)
				}
			}
			s.settle(small)
			return
		}
	}
	for _, o := range ops {
		o.answer(err)
	}
}

// transact runs operations in one transaction and commits it. With nil, each
// has its own result in err.
func (s *Store) transact(ops []*op) error {
	db, err := s.writable()
	if err != nil {
		return err
	}
	tx, err := db.Begin(true)
	if err != nil {
		return s.recoverFrom(err, 0)
	}
	wrote := false
	for _, o := range ops {
		o.err = o.try(tx)
		var broken *brokenError
		if errors.As(o.err, &broken) {
			_ = tx.Rollback() // it was not committed, so it always can be
			return o.err
		}
		wrote = wrote || o.err == nil
	}
	if !wrote {
		return tx.Rollback()
	}
	id := tx.ID()
	if err := s.commit(tx); err != nil {
		return s.recoverFrom(err, id)
	}
	return nil
}

// try runs the operation once. Its panic is the caller's, and not the writer's.
func (o *op) try(tx *bbolt.Tx) (err error) {
	o.running.Lock()
	defer o.running.Unlock()
	if o.left {
		return o.ctx.Err()
	}
	o.panicked = nil
	defer func() {
		p := recover()
		if fault := pageFault(p); fault != nil {
			err = &brokenError{fault}
		} else if p != nil {
			o.panicked = p
			err = &brokenError{fmt.Errorf("panic: %v", p)}
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return o.run(tx)
}

// writable returns the database to write to, opened again where it was lost.
func (s *Store) writable() (*bbolt.DB, error) {
	s.mu.RLock()
	db, fault := s.db, s.fault // only the writer changes them before it is done
	s.mu.RUnlock()
	if fault != nil || db != nil {
		return db, fault
	}
	db, err := openDatabase(s.dir)
	if err != nil {
		return nil, spaceOr(err)
	}
	if err := harden(db); err != nil {
		_ = db.Close() // the first error says more
		return nil, spaceOr(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db = db
	return db, nil
}

// harden makes the last transaction that a database shows durable, whose own fsync
// may have failed: it is once a transaction after it is. Nobody is to read it
// before that, as a publish that finds itself stored is answered with 200
// (invariant 1).
func harden(db *bbolt.DB) error {
	return db.Update(func(*bbolt.Tx) error { return nil })
}

// recoverFrom makes the store sound again after the transaction with this id
// could not be committed, and returns what to tell the callers. The database is
// opened anew, so that nothing of the failed transaction is left in memory;
// where that shows it all the same, its fsync was what failed, and nothing is
// read until it is hardened.
//
// Where space was lacking the store goes on. After any other error of the disk
// nobody knows what it holds, and nothing more is written.
func (s *Store) recoverFrom(cause error, id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.db.Close() // the cause says more
	s.db = nil
	err := spaceOr(cause)
	if !errors.Is(err, journal.ErrFull) {
		s.fault = fmt.Errorf("a write to the store in %s failed; look at the disk, then start again: %w", s.dir, cause)
		err = s.fault
	}
	db, openErr := openDatabase(s.dir)
	if openErr != nil {
		return &unsureError{errors.Join(cause, openErr)}
	}
	happened := false
	_ = db.View(func(tx *bbolt.Tx) error {
		happened = id > 0 && tx.ID() >= id
		return nil
	})
	if !happened {
		s.db = db
		return err
	}
	if s.fault == nil && harden(db) == nil {
		s.db = db
	} else {
		_ = db.Close() // writable tries again, unless there is a fault
	}
	return &unsureError{cause}
}

// spaceOr wraps journal.ErrFull around an error that says that the disk is
// full, and returns any other as it is.
func spaceOr(err error) error {
	// bbolt flattens some errors to text.
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error())
	if !full {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrFull, err)
}
