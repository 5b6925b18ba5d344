package source

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// pageSize is how many resources or changes one transaction reads.
const pageSize = 1000

// Snapshot is the index at one instant: its resources and its log belong together, whatever
// is written meanwhile. It may be shared between goroutines, and has to be closed.
//
// It reads in pages, each in its own short transaction: during a long one, such as the
// writing of a dump, bbolt could neither use free pages nor grow. If a path is written after
// the snapshot, what was there before stays in memory until Close. That is all the memory
// that a snapshot needs.
type Snapshot struct {
	// At is the instant. The snapshot has every change up to At, and every other change
	// will be later than At.
	At time.Time

	x    *Index
	head head
	last Change

	mu   sync.Mutex
	undo map[string]*Resource // what was there before, by key; nil: nothing
}

// Snapshot returns the index as it is now. Before the first scan is finished, the error is
// ErrNoBaseline.
func (x *Index) Snapshot() (*Snapshot, error) {
	if err := x.db.Closed(); err != nil {
		return nil, err
	}
	if !x.Ready() {
		return nil, ErrNoBaseline
	}
	s := &Snapshot{x: x}
	// The instant is stored, so that later changes get later times even if the clock is set
	// back and the process restarts.
	err := x.update(func(tx *boltfile.Tx, h *head) (err error) {
		h.floor = max(time.Now().UnixMicro(), h.floor)
		s.At, s.head = time.UnixMicro(h.floor).UTC(), *h
		s.last = Change{Seq: h.last.seq, At: time.UnixMicro(h.last.at).UTC()}
		if v := tx.Bucket(bucketLog).Get(seqKey(h.last.seq)); v != nil {
			s.last, err = unpackChange(seqKey(h.last.seq), v)
		}
		// Now, because what is written next may share the commit.
		s.undo = map[string]*Resource{}
		x.open[s] = struct{}{}
		return err
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// read runs do on a snapshot, and closes it.
func (x *Index) read(do func(snap *Snapshot) error) error {
	snap, err := x.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	return do(snap)
}

// Close releases the memory of the snapshot. It may be called again.
func (s *Snapshot) Close() {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	delete(s.x.open, s)
}

// Len returns the number of resources.
func (s *Snapshot) Len() int { return s.head.count }

// Last returns the newest change. Before the first change it has the Seq of Begin, and At is the end of
// the first scan. If it was pruned, it has only Seq and At.
func (s *Snapshot) Last() Change { return s.last }

// Baseline returns when the first scan was finished. The log had every change since then,
// but its beginning may have been pruned.
func (s *Snapshot) Baseline() time.Time { return time.UnixMicro(s.head.baseline).UTC() }

// Begin returns how far the log reaches back: it has every change after seq, that is, every
// change after at.
func (s *Snapshot) Begin() (seq uint64, at time.Time) {
	return s.head.begin.seq, time.UnixMicro(s.head.begin.at).UTC()
}

// Resources yields the resources in the order of the bytes of their keys (Resource.Key). After an error it
// ends.
func (s *Snapshot) Resources() iter.Seq2[Resource, error] { return s.ResourcesAfter("") }

// ResourcesAfter yields the resources after a key, which need not be that of a resource.
func (s *Snapshot) ResourcesAfter(after string) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		var page []Resource // each has the memory of the one before
		paged(after, func(at string) (_ []Resource, next string, more bool, err error) {
			page, next, more, err = s.page(page[:0], at)
			return page, next, more, err
		})(yield)
	}
}

// paged yields what is read in pages. Read gets where a page begins, and returns the page,
// where the next one begins, and whether there is one. After an error paged ends.
func paged[P, T any](begin P, read func(at P) (page []T, next P, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at, more := begin, true; more; {
			var page []T
			var err error
			if page, at, more, err = read(at); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range page {
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}

// page appends resources after a key. It also returns the last of their keys, and whether there are more.
func (s *Snapshot) page(into []Resource, after string) (page []Resource, end string, more bool, err error) {
	page = into
	err = s.x.view(func(tx *boltfile.Tx) error {
		c := tx.Bucket(bucketResources).Cursor()
		for k, v := c.Seek([]byte(after + "\x00")); k != nil; k, v = c.Next() {
			if len(page) == pageSize {
				more = true
				return nil
			}
			r, err := unpackRecord(string(k), v)
			if err != nil {
				return err
			}
			page = append(page, r.Resource)
			end = string(k)
		}
		return nil
	})
	if err != nil {
		return nil, "", false, err
	}
	return s.restore(page, after, end, more), end, more, nil
}

// restore undoes what was written since the snapshot in a page. The page reaches from after
// to end or, if there are no more, to the last key.
func (s *Snapshot) restore(page []Resource, after, end string, more bool) []Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.undo) == 0 {
		return page
	}
	page = slices.DeleteFunc(page, func(r Resource) bool {
		_, ok := s.undo[r.Key()]
		return ok
	})
	for key, r := range s.undo {
		if r != nil && key > after && (!more || key <= end) {
			page = append(page, *r)
		}
	}
	slices.SortFunc(page, func(a, b Resource) int { return strings.Compare(a.Key(), b.Key()) })
	return page
}

// keep stores what had keys before they were written.
func (s *Snapshot) keep(undo map[string]*Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range undo {
		if _, ok := s.undo[key]; !ok {
			s.undo[key] = r
		}
	}
}

// get returns the resource at a path; nil: there is none.
func (s *Snapshot) get(path string) (r *Resource, err error) {
	err = s.x.view(func(tx *boltfile.Tx) error {
		found, err := getRecord(tx, path)
		if found != nil {
			r = &found.Resource
		}
		return err
	})
	s.mu.Lock() // after it was read, as in page
	defer s.mu.Unlock()
	if before, ok := s.undo[path]; ok {
		return before, nil
	}
	return r, err
}

// Changes yields the changes after a seq, oldest first. If the log begins later, it yields
// an error that wraps ErrPruned, and no change. After an error it ends.
func (s *Snapshot) Changes(after uint64) iter.Seq2[Change, error] {
	return paged(after, s.changes)
}

// changes reads a page of the changes after a seq.
func (s *Snapshot) changes(after uint64) (page []Change, last uint64, more bool, err error) {
	if seq, at := s.Begin(); after < seq {
		return nil, 0, false, fmt.Errorf("%w: it has the changes after number %d, of %v, but those after number %d are needed", ErrPruned, seq, at, after)
	}
	if after >= s.head.last.seq {
		return nil, after, false, nil
	}
	err = s.x.view(func(tx *boltfile.Tx) error {
		cur, next := tx.Bucket(bucketLog).Cursor(), after+1
		for k, v := cur.Seek(seqKey(next)); k != nil && len(page) < pageSize; k, v = cur.Next() {
			c, err := unpackChange(k, v)
			if err != nil {
				return err
			}
			if c.Seq > s.head.last.seq {
				return nil
			}
			if c.Seq != next+uint64(len(page)) {
				break
			}
			page = append(page, c)
		}
		if len(page) == 0 {
			return missingChange(next)
		}
		return nil
	})
	return page, after + uint64(len(page)), true, err
}

// before returns the number of the newest change that is earlier than an instant, or where the log
// begins if it has none. Times grow with the numbers.
func (s *Snapshot) before(at time.Time) (seq uint64, err error) {
	begin, _ := s.Begin()
	err = s.x.view(func(tx *boltfile.Tx) error {
		var failed error
		earlier := sort.Search(int(s.head.last.seq-begin), func(i int) bool { //nolint:gosec // as many as the log has
			c, err := logged(tx, begin+1+uint64(i)) //nolint:gosec // not negative
			failed = cmp.Or(failed, err)
			return !c.At.Before(at)
		})
		seq = begin + uint64(earlier) //nolint:gosec // not negative
		return failed
	})
	return seq, err
}

// changed returns when a change was logged.
func (s *Snapshot) changed(seq uint64) (at time.Time, err error) {
	err = s.x.view(func(tx *boltfile.Tx) error {
		c, err := logged(tx, seq)
		at = c.At
		return err
	})
	return at, err
}

// logged reads a change.
func logged(tx *boltfile.Tx, seq uint64) (Change, error) {
	v := tx.Bucket(bucketLog).Get(seqKey(seq))
	if v == nil {
		return Change{}, missingChange(seq)
	}
	return unpackChange(seqKey(seq), v)
}
