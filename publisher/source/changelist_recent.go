package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// reach is how far the list of recent changes goes back at least: so long, or so many
// changes, whichever is less.
type reach struct {
	age     time.Duration
	changes int
}

const (
	recentAge     = 30 * day
	recentChanges = 50_000
)

// recent is the Change List of recent changes: those after After up to Last, from From
// on.
type recent struct {
	From  time.Time `json:"from"`
	After uint64    `json:"after"`
	Last  uint64    `json:"last"`
}

// rest is how long a Change List at a path, of so many changes, is left as it is. It is
// written as a whole each time, so this bounds what a change costs; and one that comes
// after a while of quiet is in it at once.
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

// buildRecent writes the list of recent changes where it lacks some. It is no part of
// the index, whose lists have the same changes, and it is open: who looks at it more
// often than it reaches back misses nothing. Before the first list is closed the open
// one is in its place.
func (s *set) buildRecent(ctx context.Context) error {
	snap, err := s.index.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	c := s.shelf.current()
	if len(c.History.Periods) == 0 || c.has(changeListPath) && c.History.Recent.Last == snap.Last().Seq && !c.History.Recent.From.IsZero() {
		return nil
	}
	r, err := s.recentOf(snap, c.History.Recent)
	if err != nil {
		return err
	}
	e := s.shelf.edition()
	for {
		head := resourcesync.Head{Capability: resourcesync.ChangeList, From: r.From, Links: s.composer.links(changeListIndexPath, changeListArchivePath)}
		full, err := s.composer.writeChanges(ctx, e, changeListPath, head, snap, r.After, r.Last)
		if err == nil {
			break
		}
		if !errors.Is(err, resourcesync.ErrFull) {
			e.discard()
			return err
		}
		// Its bytes are too many. A tenth less leaves room for a while.
		if err := r.dropThrough(snap, r.After+max((full-r.After)/10, 1)); err != nil {
			return err
		}
	}
	return s.show(e, func(c *catalogue) error {
		if len(c.History.Periods) == 0 {
			return errors.New("the Change Lists began anew meanwhile")
		}
		c.History.Recent = r
		return nil
	})
}

// recentOf is what the list of recent changes has next.
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
	return fmt.Errorf("%w: change number %d is not in the log", ErrPruned, through)
}

// writeChanges writes a Change List of the changes after a number up to another. It
// holds no more than a page of them. With ErrFull it returns the first for which there
// is no room in a document, and nothing is left of it.
func (s *composer) writeChanges(ctx context.Context, e *edition, path string, head resourcesync.Head, snap *Snapshot, after, last uint64) (full uint64, err error) {
	err = e.compose(path, xmlType, func(out io.Writer) error {
		w, err := resourcesync.NewWriter(out, head, resourcesync.WriteOptions{MaxBytes: s.limits.MaxBytes})
		for c, failed := range snap.Changes(after) {
			if err == nil {
				err = errors.Join(failed, ctx.Err())
			}
			if err != nil || c.Seq > last {
				break
			}
			if entry, ok := s.change(&c); ok {
				if err = w.Write(entry); err != nil {
					full = c.Seq
				}
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	})
	return full, err
}
