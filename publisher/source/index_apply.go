package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// step is what was found or given for a key: a resource, or nil.
type step struct {
	key string
	now *record
	// change, if it is set, is logged even if the resource is as it was: somebody who knows
	// said that it happened.
	change resourcesync.ChangeType
}

// batch is a transaction that writes steps.
type batch struct {
	tx   *boltfile.Tx
	head *head
	now  int64 // microseconds since 1970
	// undo is what had the keys before the batch, for the snapshots that are open; nil: nothing had.
	undo map[string]*Resource
	// logged are the changes that were logged.
	logged []Change
	// raised: the index has the newest format.
	raised bool

	near  *neighbourhood
	moved []string // paths at which a resource came or went
}

// apply writes what was found, and logs what has changed. It logs nothing before the first
// scan is finished, and not if the bytes are those in the index. It returns how many changes
// it logged. After an error nothing is written.
func (x *Index) apply(now time.Time, steps []step) (logged int, err error) {
	err = x.applied(now, steps, func(b *batch) error {
		logged = len(b.logged)
		return nil
	})
	return logged, err
}

// applied is apply. At the end of the transaction it runs also.
func (x *Index) applied(now time.Time, steps []step, also func(b *batch) error) error {
	return x.write(now, func(b *batch) error {
		for _, s := range steps {
			if err := b.step(s); err != nil {
				return err
			}
		}
		if err := errors.Join(b.relate(), also(b)); err != nil {
			return err
		}
		// Before the commit, so that a snapshot that reads its pages finds what to undo. If
		// the commit fails, what is undone is what is there.
		for s := range x.open {
			s.keep(b.undo)
		}
		return nil
	})
}

// write runs fn on a batch in a transaction.
func (x *Index) write(now time.Time, fn func(b *batch) error) error {
	var b *batch
	err := x.commit(func(tx *boltfile.Tx, h *head) error {
		b = &batch{near: &x.near, tx: tx, head: h, now: now.UnixMicro()}
		if len(x.open) > 0 {
			b.undo = map[string]*Resource{}
		}
		return fn(b)
	}, func() {
		if x.recorded != nil {
			x.fresh = append(x.fresh, b.logged...)
		}
	})
	if err == nil {
		x.report()
	}
	return err
}

func (b *batch) step(s step) error {
	old, err := getRecord(b.tx, s.key)
	if err != nil {
		return err
	}
	switch {
	case s.now == nil && old == nil && s.change == "":
		return nil
	case s.now == nil:
		return b.remove(s.key, old)
	case old == nil:
		if s.now.taken = b.near.rival(b.tx, s.key); s.now.taken != "" {
			return nil
		}
		b.cameOrWent(s.key)
		if err = b.displace(s.key); err == nil {
			err = b.log(cmp.Or(s.change, resourcesync.Created), s.now)
		}
		b.head.count++
	case s.change != "" || !old.equal(&s.now.Resource):
		err = b.log(cmp.Or(s.change, resourcesync.Updated), s.now)
	}
	if err == nil {
		err = b.raise(&s.now.Resource)
	}
	if err != nil {
		return err
	}
	b.remember(s.key, old)
	resources := b.tx.Bucket(bucketResources)
	if b.near.nested && !b.head.ready {
		resources.Dense() // the first catalogue comes sorted
	}
	return resources.Put([]byte(s.key), packRecord(s.now))
}

// raise gives the index the newest format before it gets a resource that is not plain.
func (b *batch) raise(r *Resource) error {
	if b.raised || r.plain() {
		return nil
	}
	if b.raised = true; b.tx.Format() >= format {
		return nil
	}
	return b.tx.SetFormat(format)
}

// displace removes what cannot exist beside a new resource: a file that is a folder now, and
// files below a folder that is a file now. They are gone in any case, and a copy of the
// folder has to delete them first. Resources that are known by their URLs displace nothing, and
// nothing does in an index that is not of a folder.
func (b *batch) displace(path string) error {
	if isURL(path) || b.near.nested {
		return nil
	}
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

// remove removes a resource, and logs that it was deleted. Old is nil if the index does not have
// it.
func (b *batch) remove(key string, old *record) error {
	gone := keyed(key)
	if err := errors.Join(b.raise(&gone), b.log(resourcesync.Deleted, &record{Resource: gone})); err != nil || old == nil {
		return err
	}
	b.remember(key, old)
	b.cameOrWent(key)
	b.head.count--
	return b.tx.Bucket(bucketResources).Delete([]byte(key))
}

func (b *batch) remember(key string, old *record) {
	if _, ok := b.undo[key]; ok || b.undo == nil {
		return
	}
	if b.undo[key] = nil; old != nil {
		b.undo[key] = &old.Resource
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
	b.logged = append(b.logged, c)
	return log.Put(seqKey(c.Seq), packChange(&c, r.stat.mtime))
}

// renew logs as updated those of the resources that the index still has with these bytes, and
// returns how many. Of the others the log has a later change.
func (x *Index) renew(now time.Time, resources []Resource) (logged int, err error) {
	err = x.write(now, func(b *batch) error {
		for i := range resources {
			r, err := getRecord(b.tx, resources[i].Key())
			if err == nil && r != nil && r.equal(&resources[i]) {
				err = b.log(resourcesync.Updated, r)
			}
			if err != nil {
				return err
			}
		}
		logged = len(b.logged)
		return nil
	})
	return logged, err
}

// logEach logs a change of those of the resources that wanted selects, as the index has them now,
// and returns how many.
func (x *Index) logEach(change resourcesync.ChangeType, all iter.Seq2[Resource, error], wanted func(r *Resource) (bool, error)) (logged int, err error) {
	var keys []string
	write := func() error {
		err := x.write(time.Now(), func(b *batch) error {
			for _, key := range keys {
				r, err := getRecord(b.tx, key)
				if err == nil && r != nil && change.Removes() {
					r = &record{Resource: keyed(key)}
				}
				if err == nil && r != nil {
					err = b.log(change, r)
				}
				if err != nil {
					return err
				}
			}
			logged += len(b.logged)
			return nil
		})
		keys = keys[:0]
		return err
	}
	for r, err := range all {
		var ok bool
		if err == nil {
			ok, err = wanted(&r)
		}
		if ok {
			keys = append(keys, r.Key())
		}
		if err == nil && len(keys) == logStep {
			err = write()
		}
		if err != nil {
			return logged, err
		}
	}
	return logged, write()
}

// logStep is how many changes logEach logs in one transaction.
const logStep = 10_000

// baseline records that the first scan is finished: from now on changes are logged.
func (x *Index) baseline(now time.Time) error {
	return x.update(func(_ *boltfile.Tx, h *head) error {
		if h.ready {
			return nil
		}
		at := place{h.last.seq, max(now.UnixMicro(), h.floor)}
		h.ready, h.baseline, h.last, h.begin, h.floor = true, at.at, at, at, at.at
		return nil
	})
}

// update runs fn on the head and stores the result. It reads the head from the file each time,
// because a commit that failed at the very end may have succeeded nevertheless: what it logged
// must not be overwritten. While fn runs, mu is locked. Concurrent calls share a commit: fn sees
// what those before it wrote, and may be called again if that is undone.
func (x *Index) update(fn func(tx *boltfile.Tx, h *head) error) error { return x.commit(fn, func() {}) }

// commit is update. When the result is on disk, it calls then, with mu locked and in the order of the commits.
func (x *Index) commit(fn func(tx *boltfile.Tx, h *head) error, then func()) error {
	var h head
	err := x.db.Run(&boltfile.Op{
		Run: func(tx *boltfile.Tx) (err error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			h = head{}
			if v := tx.Bucket(bucketMeta).Get(keyHead); v != nil {
				h, err = unpackHead(v)
			}
			before := h
			if err == nil {
				err = fn(tx, &h)
			}
			if err == nil && h != before {
				err = putHead(tx, h)
			}
			return err
		},
		Finish: func(err error) { // in the order of the commits
			if err == nil {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.head = h
				then()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("writing to the index: %w", err)
	}
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
	err = x.update(func(tx *boltfile.Tx, h *head) error {
		if removed = 0; len(x.open) > 0 {
			return nil
		}
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
