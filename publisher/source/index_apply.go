package source

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// step is what was found at a path: a resource, or (nil) none.
type step struct {
	path string
	now  *record
}

// batch is a transaction that writes steps.
type batch struct {
	tx   *boltfile.Tx
	head *head
	now  int64 // microseconds since 1970
	// undo is what was at the paths before the batch; nil: nothing.
	undo map[string]*Resource
}

// apply writes what was found, and logs what is a change: not before the first
// scan is finished, and not where the bytes are those that the index has. It
// returns how many changes it logged. Where it fails, nothing is written.
func (x *Index) apply(now time.Time, steps []step) (logged int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.update(func(tx *boltfile.Tx, h *head) error {
		b := batch{tx: tx, head: h, now: now.UnixMicro(), undo: map[string]*Resource{}}
		before := h.last.seq
		for _, s := range steps {
			if err := b.step(s); err != nil {
				return err
			}
		}
		// Before the commit, so that who sees its pages finds what to undo. If it
		// fails, this is what still stands there.
		for s := range x.open {
			s.keep(b.undo)
		}
		logged = int(h.last.seq - before) //nolint:gosec // at most a few per step
		return nil
	})
	return logged, err
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
		if err := b.displace(s.path); err != nil {
			return err
		}
		b.head.count++
		if err := b.log(resourcesync.Created, s.now); err != nil {
			return err
		}
	case !old.sameBytes(&s.now.Resource):
		if err := b.log(resourcesync.Updated, s.now); err != nil {
			return err
		}
	}
	b.remember(s.path, old)
	return b.tx.Bucket(bucketResources).Put([]byte(s.path), packRecord(s.now))
}

// displace removes what can't be beside a new resource: a file where its path has
// a folder, and files below it. They are gone, whatever else is, and whoever
// copies the folder has to be told so first.
func (b *batch) displace(path string) error {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		old, err := getRecord(b.tx, path[:i])
		if err != nil {
			return err
		}
		if old != nil {
			if err := b.remove(path[:i], old); err != nil {
				return err
			}
		}
	}
	var below []string
	prefix := []byte(path + "/")
	c := b.tx.Bucket(bucketResources).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		below = append(below, string(k))
	}
	for _, p := range below {
		old, err := getRecord(b.tx, p)
		if err != nil {
			return err
		}
		if err := b.remove(p, old); err != nil {
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

// log writes a change. Where the clock stands or was set back, or a snapshot says
// that it has all that came before an instant, the change is one microsecond later.
func (b *batch) log(change resourcesync.ChangeType, r *record) error {
	if !b.head.ready {
		return nil
	}
	b.head.last = mark{b.head.last.seq + 1, max(b.now, b.head.floor+1)}
	b.head.floor = b.head.last.at
	c := Change{Seq: b.head.last.seq, At: time.UnixMicro(b.head.last.at).UTC(), Change: change, Resource: r.Resource}
	log := b.tx.Bucket(bucketLog)
	log.Dense() // keys only ever rise
	return log.Put(seqKey(c.Seq), packChange(&c, r.stat.mtime))
}

// renew logs those of the resources as updated that the index has still with these
// bytes, and returns how many. It is for whom nothing else would be told: of the
// others the log has a later change.
func (x *Index) renew(now time.Time, resources []Resource) (logged int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.update(func(tx *boltfile.Tx, h *head) error {
		b := batch{tx: tx, head: h, now: now.UnixMicro()}
		before := h.last.seq
		for i := range resources {
			r, err := getRecord(tx, resources[i].Path)
			if err == nil && r != nil && r.sameBytes(&resources[i]) {
				err = b.log(resourcesync.Updated, r)
			}
			if err != nil {
				return err
			}
		}
		logged = int(h.last.seq - before) //nolint:gosec // one for each at most
		return nil
	})
	return logged, err
}

// baseline says that the first scan is finished: from now on changes are logged.
func (x *Index) baseline(now time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.head.ready {
		return nil
	}
	return x.update(func(_ *boltfile.Tx, h *head) error {
		if h.ready {
			return nil
		}
		at := mark{at: max(now.UnixMicro(), h.floor)}
		h.ready, h.baseline, h.last, h.begin, h.floor = true, at.at, at, at, at.at
		return nil
	})
}

// update runs fn on the head and stores what it makes of it. The head is read from the
// file each time: a commit that failed at the very end may have happened all the same,
// and nothing is logged over what it logged. Mu is held.
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

// Cut says which changes the log need not have any more.
type Cut struct {
	// Before: changes that were detected earlier may go.
	Before time.Time
	// AtMost: of later ones all but this many may go, the oldest first; 0: none.
	AtMost int
	// Through is the last change that may go: those after it are needed still.
	Through uint64
}

// pruneStep is how many changes a transaction removes, so that nobody waits long.
const pruneStep = 10_000

// Prune removes changes from the beginning of the log, and returns how many. The
// log never has holes, and while a Snapshot is open it keeps what that has.
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
			h.begin = mark{change.Seq, change.At.UnixMicro()}
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
