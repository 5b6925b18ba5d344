package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/publisher/catalogue"
)

// found is what a catalogue has of a resource.
type found struct {
	key  string
	line int
	now  *record // nil: it was deleted
	keep bool    // the line is wrong, and what the index has stays
	old  *record // what the index has; nil: nothing
}

// The first byte of a packed line.
const (
	lineEntry byte = iota
	lineDeleted
	lineKeeps
)

// pack packs all but the key.
func (x *found) pack() []byte {
	if x.now == nil {
		return []byte{lineDeleted}
	}
	b := binary.AppendUvarint([]byte{lineEntry}, uint64(x.line)) //nolint:gosec // never negative
	return append(b, packRecord(x.now)...)
}

func unpackFound(v sorted) (x found, err error) {
	x.key = string(v.key)
	u := &unpacker{b: v.value}
	switch u.byte() {
	case lineKeeps:
		x.keep = true
	case lineEntry:
		x.line = int(u.uvarint()) //nolint:gosec // an int when it was written
		var r record
		r, err = unpackRecord(x.key, u.b)
		x.now = &r
	}
	return x, err
}

// stored is a value of the index.
type stored struct {
	key   string
	value []byte
}

// values yields what the index has, in the order of the keys. It reads pages, so that what is written
// meanwhile at keys that were yielded does no harm. After an error it ends.
func (x *Index) values() iter.Seq2[stored, error] {
	return paged([]byte(nil), func(from []byte) (page []stored, next []byte, more bool, err error) {
		err = x.view(func(tx *boltfile.Tx) error {
			for k, v := range tx.Bucket(bucketResources).From(from) {
				if len(page) == pageSize {
					more = true
					return nil
				}
				page = append(page, stored{string(k), bytes.Clone(v)})
			}
			return nil
		})
		if len(page) > 0 {
			next = append([]byte(page[len(page)-1].key), 0)
		}
		return page, next, more, err
	})
}

// join calls each with every key that the sorter or the index has, in order: with what the sorter has of
// it, or nil, and what the index had of it, or nil.
func (r *intake) join(each func(key string, line *sorted, old *stored) error) error {
	next, stop := iter.Pull2(r.c.x.values())
	defer stop()
	old, err, ok := next()
	for line, failed := range r.sort.all() {
		if failed != nil {
			return failed
		}
		for ; ok && err == nil && old.key < string(line.key); old, err, ok = next() {
			if err := each(old.key, nil, &old); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		var known *stored
		if ok && old.key == string(line.key) {
			known = &stored{old.key, old.value}
			old, err, ok = next()
		}
		if err := each(string(line.key), &line, known); err != nil {
			return err
		}
	}
	for ; ok && err == nil; old, err, ok = next() {
		if err := each(old.key, nil, &old); err != nil {
			return err
		}
	}
	return err
}

// merge stores a whole catalogue. Why says why it is not whole, so that nothing is deleted because it
// is missing; nil: it is. Merge reads the index and the catalogue side by side, and once more if
// resources are gone: how many they are has to be known first.
func (r *intake) merge(ctx context.Context, why error) error {
	defer r.c.looked(r)
	r.rivals.wait = true
	if err := r.mergeWhole(ctx, why); err != nil {
		return err
	}
	r.pending, r.rivals = r.rivals.found, rivals{}
	return r.store(ctx)
}

func (r *intake) mergeWhole(ctx context.Context, why error) error {
	gone, total := 0, r.c.x.Len()
	ready := r.c.x.Ready()
	err := r.join(func(_ string, line *sorted, old *stored) error {
		if line == nil {
			gone++
			return ctx.Err()
		}
		return r.compare(ctx, line, old)
	})
	if err == nil {
		err = r.store(ctx)
	}
	if err != nil {
		return err
	}
	if r.incomplete = why; why != nil {
		if !ready {
			return fmt.Errorf("the first catalogue has to be whole: %w", why)
		}
		return nil
	}
	if gone >= leastHeld && float64(gone) > r.c.o.MaxDeleted*float64(total) && ready && !r.c.accept.Swap(false) {
		r.held, r.total = gone, total
		return nil
	}
	r.c.accept.Store(false)
	if gone > 0 {
		if err := r.deleteMissing(ctx); err != nil {
			return err
		}
	}
	return r.c.baseline()
}

// mergeChanges stores the changes that are in the sorter.
func (r *intake) mergeChanges(ctx context.Context) error {
	for line, err := range r.sort.all() {
		var x found
		if err == nil {
			x, err = unpackFound(line)
		}
		if err != nil {
			return err
		}
		if r.pending = append(r.pending, x); len(r.pending) >= batchSize {
			if err := r.store(ctx); err != nil {
				return err
			}
		}
	}
	return r.store(ctx)
}

// compare queues what a line changes.
func (r *intake) compare(ctx context.Context, line *sorted, old *stored) error {
	if old != nil && line.value[0] == lineEntry {
		// Most lines are as they were the last time.
		if _, n := binary.Uvarint(line.value[1:]); n > 0 && bytes.Equal(line.value[1+n:], old.value) {
			return nil
		}
	}
	x, err := unpackFound(*line)
	if err != nil || x.keep || x.now == nil && old == nil {
		return err
	}
	if old != nil {
		known, err := unpackRecord(old.key, old.value)
		if err != nil {
			return err
		}
		x.old = &known
	}
	if r.pending = append(r.pending, x); len(r.pending) < batchSize {
		return nil
	}
	return r.store(ctx)
}

// deleteMissing deletes what the index has and the sorter does not.
func (r *intake) deleteMissing(ctx context.Context) error {
	var steps []step
	flush := func() error {
		if len(steps) == 0 {
			return ctx.Err()
		}
		n, err := r.c.x.apply(time.Now(), steps)
		if steps = steps[:0]; n > 0 {
			r.c.signal()
		}
		return err
	}
	err := r.join(func(key string, line *sorted, _ *stored) error {
		if line != nil {
			return nil
		}
		if steps = append(steps, step{key: key}); len(steps) < batchSize {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// store writes what is pending to the index, after it has read the bytes of which the catalogue gives no
// digest.
func (r *intake) store(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	wrong := make([]error, len(r.pending))
	var g errgroup.Group
	g.SetLimit(r.c.o.Workers)
	for i := range r.pending {
		x := &r.pending[i]
		if x.now == nil {
			continue
		}
		if r.changes && !r.ended {
			known, err := r.c.x.record(x.key)
			if err != nil {
				return err
			}
			x.old = known
		}
		if r.c.inherit(x); !x.now.hashed() && r.c.reads(&x.now.Resource) {
			g.Go(func() error {
				wrong[i] = r.c.learn(ctx, x)
				return nil
			})
		}
	}
	_ = g.Wait() // they return nil
	if err := ctx.Err(); err != nil {
		return err
	}
	steps := make([]step, 0, len(r.pending))
	for i := range r.pending {
		x := &r.pending[i]
		if wrong[i] != nil {
			r.problems.add(&catalogue.LineError{Number: x.line, URL: x.key, Err: wrong[i]})
			continue
		}
		if x.now != nil && x.old != nil && bytes.Equal(packRecord(x.now), packRecord(x.old)) {
			continue
		}
		steps = append(steps, step{key: x.key, now: x.now})
	}
	if len(steps) == 0 {
		r.pending = r.pending[:0]
		return nil
	}
	n, err := r.c.x.apply(time.Now(), steps)
	if n > 0 {
		r.c.signal()
	}
	if err == nil {
		r.leftOut()
	}
	r.pending = r.pending[:0]
	return err
}

// leftOut notes which of the pending resources have the URL of another one. If that may be about to be deleted, they
// are tried once more then.
func (r *intake) leftOut() {
	for i := range r.pending {
		x := &r.pending[i]
		switch {
		case x.now == nil || x.now.taken == "":
		case r.rivals.wait && len(r.rivals.found) < batchSize:
			r.rivals.found = append(r.rivals.found, *x)
		default:
			r.problems.add(&catalogue.LineError{Number: x.line, Path: x.key, Err: errTaken(x.now.taken)})
		}
	}
}

// reads reports whether the bytes of a resource are read if the catalogue gives no digest: those of a file, and of a
// URL that it names for that.
func (c *Catalogue) reads(r *Resource) bool {
	at := c.contents.address(r)
	return c.contents.has(r) && (at == "" || at != r.URL && at != c.address.below(c.data, r.Path))
}

// inherit takes over what was read of the bytes before, if the catalogue says that they were not modified
// since.
func (c *Catalogue) inherit(x *found) {
	if x.old == nil || x.now.hashed() || !x.old.hashed() || x.old.racy || x.now.ModTime.IsZero() || !x.typed() ||
		x.now.Path != x.old.Path || x.now.Content != x.old.Content || !x.now.sameBytes(&x.old.Resource) {
		return
	}
	if c.contents.address(&x.now.Resource) == "" && x.old.stat.inode == 0 {
		return // the catalogue gave the digest, and the file was never read
	}
	x.now.from(x.old)
}

// typed reports whether the media type need not be guessed: it is given, or was guessed before.
func (x *found) typed() bool { return x.now.MediaType != "" || x.old.Guessed }

// from copies what was read of the bytes. If there is no media type, that of old has to be a guess.
func (r *record) from(old *record) {
	r.SHA256, r.MD5, r.Digests, r.Length = old.SHA256, old.MD5, old.Digests, old.Length
	if r.MediaType == "" {
		r.MediaType, r.Guessed = old.MediaType, true
	}
	r.stat, r.racy = old.stat, old.racy
	if !r.ModTime.IsZero() {
		r.stat.mtime = instantOf(r.ModTime)
	}
	r.ModTime = modTime(r.stat.mtime)
}

// learn reads the bytes of a resource, unless its file is the one that was read before.
func (c *Catalogue) learn(ctx context.Context, x *found) error {
	if c.contents.address(&x.now.Resource) == "" && x.old != nil && !x.old.racy && x.typed() && x.old.Path == x.now.Path && x.old.stat.inode != 0 {
		f, err := c.contents.file(x.now.Path)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		_ = f.Close() // it was only read
		if err != nil {
			return err
		}
		if s := statOf(info); s.changed == x.old.stat.changed && s.inode == x.old.stat.inode && s.size == x.old.Length {
			x.now.from(x.old)
			return nil
		}
	}
	return c.contents.learn(ctx, x.now)
}
