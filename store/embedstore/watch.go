package embedstore

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// feedMax is how many changed ids a feed remembers. For a value further back, all stored ids count as
// changed.
const feedMax = 1 << 14

// epochShift makes room for the changes of one run of the store below its
// epoch, so that a counter value of an earlier run is always behind.
const epochShift = 40

// feed knows which ids of one partition changed since a counter value. It keeps one value per id, is
// bounded by feedMax (invariant 12), and is in memory only: after a start everything counts as changed.
type feed struct {
	mu    sync.Mutex
	now   uint64   // the value of the latest change
	floor uint64   // changes up to this value are forgotten
	log   []change // rising; a change that is no longer in last is stale
	last  map[uuid.UUID]uint64
}

type change struct {
	id uuid.UUID
	n  uint64
}

// start begins a run of the store.
func (f *feed) start(epoch uint64) {
	f.now = epoch << epochShift
	f.floor = f.now
	f.last = make(map[uuid.UUID]uint64)
}

// bump records a change of id.
func (f *feed) bump(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now++
	f.last[id] = f.now
	f.log = append(f.log, change{id, f.now})
	if len(f.log) <= 2*len(f.last)+64 && len(f.last) <= feedMax {
		return
	}
	f.log = slices.DeleteFunc(f.log, func(c change) bool { return f.last[c.id] != c.n })
	if len(f.log) > feedMax {
		old := f.log[:feedMax/4]
		f.floor = old[len(old)-1].n
		for _, m := range old {
			delete(f.last, m.id)
		}
		f.log = slices.Clone(f.log[len(old):])
	}
}

// since returns the ids that changed after a value, in the order of their last change, and the value
// for the next call. all: the value is too far back, and ids are only the remembered ones.
func (f *feed) since(n uint64) (ids []uuid.UUID, now uint64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if all = n < f.floor || n > f.now; all {
		n = 0
	}
	from, _ := slices.BinarySearchFunc(f.log, n+1, func(c change, n uint64) int {
		if c.n < n {
			return -1
		}
		return 1
	})
	for _, m := range f.log[from:] {
		if f.last[m.id] == m.n {
			ids = append(ids, m.id)
		}
	}
	return ids, f.now, all
}

// report reports a change of a topic to those that watch, once it is stored or may be.
func (t *topics) report(id uuid.UUID, h journal.Hint, err error) {
	if boltfile.MayBeStored(err) {
		t.feeds[journal.Partition(id)].bump(id)
		t.hints.Send(h)
	}
}

// Changes implements journal.Watcher. After a start, or where since is over
// 16,384 topics behind, it returns all topics of the partition.
func (t *topics) Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, 0, err
	}
	// The value is read first, so later changes are reported again.
	ids, next, all := t.feeds[partition].since(since)
	err = t.folder.view(ctx, func(tx *boltfile.Tx) error {
		b := tx.Bucket(bucketHeads)
		collect := func(k, v []byte) (bool, error) {
			h, err := openHead(k, v)
			if err != nil {
				return true, leaveOut(t.folder.unreadableTopic, k, err)
			}
			topics = append(topics, h.Topic)
			return true, nil
		}
		if all {
			prefix := prefixOf(partition)
			return scan(b, prefix, prefix, collect)
		}
		for _, id := range ids {
			key := keyOf(id)
			v := b.Get(key)
			if v == nil {
				continue // its append failed
			}
			if _, err := collect(key, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return topics, next, nil
}

// Hints implements journal.Watcher.
func (t *topics) Hints(ctx context.Context, f func(journal.Hint)) { t.hints.Hints(ctx, f) }
