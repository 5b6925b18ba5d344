package source

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// step is what was found at a path: a resource, or nil.
type step struct {
	path string
	now  *record
}

// batch is a transaction that writes steps.
type batch struct {
	tx   *boltfile.Tx
	head *head
	now  int64 // microseconds since 1970
	// undo is what was at the paths before the batch; nil: nothing was there.
	undo map[string]*Resource
}

// apply writes what was found, and logs what has changed. It logs nothing before the first
// scan is finished, and not if the bytes are those in the index. It returns how many changes
// it logged. After an error nothing is written.
func (x *Index) apply(now time.Time, steps []step) (logged int, err error) {
	return x.logged(now, func(b *batch) error {
		for _, s := range steps {
			if err := b.step(s); err != nil {
				return err
			}
		}
		// Before the commit, so that a snapshot that reads its pages finds what to undo. If
		// the commit fails, what is undone is what is there.
		for s := range x.open {
			s.keep(b.undo)
		}
		return nil
	})
}

// logged runs fn on a batch in a transaction, and returns how many changes it logged.
func (x *Index) logged(now time.Time, fn func(b *batch) error) (n int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.update(func(tx *boltfile.Tx, h *head) error {
		before := h.last.seq
		err := fn(&batch{tx: tx, head: h, now: now.UnixMicro(), undo: map[string]*Resource{}})
		n = int(h.last.seq - before) //nolint:gosec // at most a few per step
		return err
	})
	return n, err
}

func (b *batch) step(s step) error {
	old, err := getRecord(b.tx, s.path)
	if err != nil {
		return err
	}
	switch {
	case s.now == nil && old == nil:
		return nil
	case s.now == nil:
		return b.remove(s.path, old)
	case old == nil:
		if err = b.displace(s.path); err == nil {
			err = b.log(resourcesync.Created, s.now)
		}
		b.head.count++
	case !old.equal(&s.now.Resource):
		err = b.log(resourcesync.Updated, s.now)
	}
	if err != nil {
		return err
	}
	b.remember(s.path, old)
	return b.tx.Bucket(bucketResources).Put([]byte(s.path), packRecord(s.now))
}

// displace removes what cannot exist beside a new resource: a file that is a folder now, and
// files below a folder that is a file now. They are gone in any case, and a copy of the
// folder has to delete them first.
func (b *batch) displace(path string) error {
	displaced := slices.Collect(foldersAbove(path))
	prefix := []byte(path + "/")
	c := b.tx.Bucket(bucketResources).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		displaced = append(displaced, string(k))
	}
	for _, p := range displaced {
		old, err := getRecord(b.tx, p)
		if err == nil && old != nil {
			err = b.remove(p, old)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) remove(path string, old *record) error {
	b.remember(path, old)
	b.head.count--
	if err := b.log(resourcesync.Deleted, &record{Resource: Resource{Path: path}}); err != nil {
		return err
	}
	return b.tx.Bucket(bucketResources).Delete([]byte(path))
}

func (b *batch) remember(path string, old *record) {
	if _, ok := b.undo[path]; ok {
		return
	}
	if b.undo[path] = nil; old != nil {
		b.undo[path] = &old.Resource
	}
}

// log writes a change. Its time is that of the batch, or a microsecond after the last change
// or snapshot if that is later, for example because the clock was set back.
func (b *batch) log(change resourcesync.ChangeType, r *record) error {
	if !b.head.ready {
		return nil
	}
	b.head.last = place{b.head.last.seq + 1, max(b.now, b.head.floor+1)}
	b.head.floor = b.head.last.at
	c := Change{Seq: b.head.last.seq, At: time.UnixMicro(b.head.last.at).UTC(), Change: change, Resource: r.Resource}
	log := b.tx.Bucket(bucketLog)
	log.Dense() // keys only ever rise
	return log.Put(seqKey(c.Seq), packChange(&c, r.stat.mtime))
}

// renew logs as updated those of the resources that the index still has with these bytes, and
// returns how many. Of the others the log has a later change.
func (x *Index) renew(now time.Time, resources []Resource) (logged int, err error) {
	return x.logged(now, func(b *batch) error {
		for i := range resources {
			r, err := getRecord(b.tx, resources[i].Path)
			if err == nil && r != nil && r.equal(&resources[i]) {
				err = b.log(resourcesync.Updated, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// baseline records that the first scan is finished: from now on changes are logged.
func (x *Index) baseline(now time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.update(func(_ *boltfile.Tx, h *head) error {
		if h.ready {
			return nil
		}
		at := place{at: max(now.UnixMicro(), h.floor)}
		h.ready, h.baseline, h.last, h.begin, h.floor = true, at.at, at, at, at.at
		return nil
	})
}

// update runs fn on the head and stores the result. It reads the head from the file each time,
// because a commit that failed at the very end may have succeeded nevertheless: what it logged
// must not be overwritten. The caller has locked mu.
func (x *Index) update(fn func(tx *boltfile.Tx, h *head) error) error {
	var h head
	err := x.db.Update(func(tx *boltfile.Tx) (err error) {
		h = head{}
		if v := tx.Bucket(bucketMeta).Get(keyHead); v != nil {
			h, err = unpackHead(v)
		}
		if err == nil {
			err = fn(tx, &h)
		}
		if err == nil {
			err = putHead(tx, h)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing to the index: %w", err)
	}
	x.head = h
	return nil
}

// Cut says which changes Prune may remove.
type Cut struct {
	// Before: changes that were detected earlier may be removed.
	Before time.Time
	// AtMost: of the later ones this many have to stay; 0: all of them.
	AtMost int
	// Through is the number of the last change that may be removed.
	Through uint64
}

// pruneStep is the most changes that a transaction removes, so that no other waits long.
const pruneStep = 10_000

// Prune removes changes from the beginning of the log, and returns how many. So the log has
// no holes. While a Snapshot is open, Prune removes nothing.
func (x *Index) Prune(cut Cut) (removed int, err error) {
	for {
		n, err := x.prune(cut)
		removed += n
		if err != nil || n < pruneStep {
			return removed, err
		}
	}
}

func (x *Index) prune(cut Cut) (removed int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) > 0 {
		return 0, nil
	}
	err = x.update(func(tx *boltfile.Tx, h *head) error {
		removed = 0
		log := tx.Bucket(bucketLog)
		c := log.Cursor()
		for k, v := c.First(); k != nil && removed < pruneStep; k, v = c.First() {
			change, err := unpackChange(k, v)
			if err != nil {
				return err
			}
			over := cut.AtMost > 0 && h.last.seq-h.begin.seq > uint64(cut.AtMost)
			if change.Seq > cut.Through || !over && !change.At.Before(cut.Before) {
				break
			}
			if err := log.Delete(k); err != nil {
				return err
			}
			h.begin = place{change.Seq, change.At.UnixMicro()}
			removed++
		}
		return nil
	})
	return removed, err
}

// below reports whether path is dir or below it. All is below "".
func below(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
