package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// reach is how far back the list of recent changes goes at least: age, or this many
// changes, whichever is less.
type reach struct {
	age     time.Duration
	changes int
}

const (
	recentAge     = 30 * day
	recentChanges = 50_000
)

// recent is the Change List of recent changes: those after After up to Last. It begins at
// From.
type recent struct {
	From  time.Time `json:"from"`
	After uint64    `json:"after"`
	Last  uint64    `json:"last"`
}

// rest is how long the Change List at a path, with this many changes, stays as it is. Each
// time the whole list is written, so this bounds what a change costs. A change that comes
// after a quiet while is in the list at once.
func (s *set) rest(path string, changes uint64) time.Duration {
	every := s.composer.schedule.ChangeList
	paced := every + every*time.Duration(min(changes, recentChanges))/1000
	passed := time.Since(s.shelf.current().Documents[path].Modified)
	return min(max(paced-passed, every), paced)
}

func (s *set) changeListRest() time.Duration {
	h := s.shelf.current().History
	if h.Open == "" {
		h.Open = changeListPath
	}
	return s.rest(h.Open, h.Last-h.After)
}

func (s *set) recentRest() time.Duration {
	r := s.shelf.current().History.Recent
	return s.rest(changeListPath, r.Last-r.After)
}

// buildRecent writes the list of recent changes if it lacks some. The list is not in the
// index, whose lists have the same changes, and it is open: a client that reads it more
// often than it reaches back misses nothing. Until the first list is closed, the open one is
// in its place.
func (s *set) buildRecent(ctx context.Context) error {
	return s.index.read(func(snap *Snapshot) error {
		c := s.shelf.current()
		if len(c.History.Periods) == 0 || c.has(changeListPath) && c.History.Recent.Last == snap.Last().Seq && !c.History.Recent.From.IsZero() {
			return nil
		}
		return s.writeRecent(ctx, snap, c.History.Recent)
	})
}

func (s *set) writeRecent(ctx context.Context, snap *Snapshot, before recent) error {
	r, err := s.recentOf(snap, before)
	e := s.shelf.edition()
	for err == nil {
		head := resourcesync.Head{Capability: resourcesync.ChangeList, From: r.From, Links: s.composer.links(changeListIndexPath, changeListArchivePath)}
		full, failed := s.composer.writeChanges(ctx, e, changeListPath, head, snap, r.After, r.Last)
		if failed == nil {
			break
		}
		if err = failed; errors.Is(err, resourcesync.ErrFull) {
			// It has too many bytes. A tenth less leaves room for a while.
			err = r.dropThrough(snap, r.After+max((full-r.After)/10, 1))
		}
	}
	if err != nil {
		return err
	}
	return s.show(e, func(c *register) error {
		if len(c.History.Periods) == 0 {
			return errors.New("the Change Lists began anew meanwhile")
		}
		c.History.Recent = r
		return nil
	})
}

// recentOf returns what the list of recent changes has next.
func (s *set) recentOf(snap *Snapshot, r recent) (recent, error) {
	last := snap.Last().Seq
	if begin, at := snap.Begin(); r.From.IsZero() || r.After < begin || r.After > last {
		r.From, r.After = at, begin
	}
	r.Last = last
	old := snap.At.Add(-s.reach.age)
	through := r.After
	for c, err := range snap.Changes(r.After) {
		if err != nil {
			return r, err
		}
		if !c.At.Before(old) && last-c.Seq < uint64(s.reach.changes) { //nolint:gosec // not negative
			break
		}
		through = c.Seq
	}
	return r, r.dropThrough(snap, through)
}

// dropThrough drops changes from the beginning of the list.
func (r *recent) dropThrough(snap *Snapshot, through uint64) error {
	if through == r.After {
		return nil
	}
	for c, err := range snap.Changes(through - 1) {
		if err != nil {
			return err
		}
		r.From, r.After = c.At.Add(time.Microsecond), c.Seq // changes are in whole microseconds
		return nil
	}
	return missingChange(through)
}

func missingChange(seq uint64) error {
	return fmt.Errorf("%w: change number %d is not in the log", ErrPruned, seq)
}

// writeChanges writes a Change List of the changes after a number up to another. It reads
// them in pages. If the error is ErrFull, the document has no room for the change full.
func (s *composer) writeChanges(ctx context.Context, e *edition, path string, head resourcesync.Head, snap *Snapshot, after, last uint64) (full uint64, err error) {
	err = e.write(path, head, s.limits.MaxBytes, s.changes(ctx, snap, after, last, &full))
	return full, err
}

// changes yields the entries of the changes after a number up to another, and stores at at the number
// of the one that it yields.
func (s *composer) changes(ctx context.Context, snap *Snapshot, after, last uint64, at *uint64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for c, err := range snap.Changes(after) {
			if err == nil && c.Seq > last {
				return
			}
			*at = c.Seq
			entry, ok, failed := s.change(snap, &c)
			if err = errors.Join(err, failed, ctx.Err()); (ok || err != nil) && !yield(entry, err) {
				return
			}
		}
	}
}
