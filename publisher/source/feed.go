package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// fed is how many changes are recorded in one write.
const fed = 1000

// feed records the changes that the outbox lacks. The outbox stores their numbers, so none is
// recorded twice, whenever the process is killed.
func (s *set) feed(ctx context.Context) error {
	return s.index.read(func(snap *Snapshot) error { return s.feedFrom(ctx, snap) })
}

// feedFrom is feed with a snapshot. Others may have recorded newer changes since.
func (s *set) feedFrom(ctx context.Context, snap *Snapshot) error {
	offset := s.shelf.current().History.Offset
	after := max(s.changes.Recorded(), offset) - offset
	if begin, at := snap.Begin(); after < begin {
		if after > 0 && s.shelf.current().History.Skipped != begin {
			if err := s.shelf.skip(begin); err != nil {
				return err
			}
			s.composer.log.Error("changes are missing in the outbox and in the log; subscribers are not notified of them, and find them in the Change Lists", "event", "changes_lost", "before", at)
		}
		after = begin
	}
	var found []Change
	for c, err := range snap.Changes(after) {
		if err == nil && len(found) == fed {
			err = s.record(ctx, snap, found, offset)
			found = nil
		}
		if err != nil {
			return err
		}
		found = append(found, c)
	}
	return s.record(ctx, snap, found, offset)
}

// record records changes in the outbox, except those that no document can have.
func (s *set) record(ctx context.Context, snap *Snapshot, found []Change, offset uint64) error {
	var changes []publisher.Change
	for i := range found {
		c := &found[i]
		entry, ok, err := s.composer.change(snap, c)
		if err != nil {
			return err
		}
		if ok {
			changes = append(changes, publisher.Change{Seq: c.Seq + offset, At: c.At, Entry: entry})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := s.changes.Record(ctx, changes...); err != nil {
		return fmt.Errorf("recording changes: %w", err)
	}
	return nil
}

// feedFramework records the notices that the framework channel has yet to publish.
func (s *set) feedFramework(ctx context.Context) error {
	var changes []publisher.Change
	notices := s.shelf.current().History.Notices
	if len(notices) == maxNotices && notices[0].Seq > s.framework.Recorded()+1 {
		s.composer.log.Warn("too many framework notifications wait to be recorded; the oldest are left out", "event", "notices_lost")
	}
	for _, n := range notices {
		base := s.composer.base
		if n.Site {
			base = s.site
		}
		entry := resourcesync.Entry{Loc: base + n.Path, Change: n.Change, Capability: n.Capability}
		if n.Index != "" {
			entry.Links = []resourcesync.Link{{Rel: "index", Href: base + n.Index}}
		}
		changes = append(changes, publisher.Change{Seq: n.Seq, At: n.At, Entry: entry})
	}
	if len(changes) == 0 {
		return nil
	}
	if err := s.framework.Record(ctx, changes...); err != nil {
		return fmt.Errorf("recording framework notifications: %w", err)
	}
	return nil
}

// prune removes from the log the changes that are no longer needed: those that are in closed
// Change Lists and their dumps, in the outbox, and not recent.
func (s *set) prune() error {
	h := s.shelf.current().History
	through := h.After
	for _, p := range h.Periods {
		if s.composer.schedule.Dump >= 0 && p.Dump == "" {
			through = p.After
			break
		}
	}
	if len(h.Periods) > 0 {
		through = min(through, h.Recent.After)
	}
	if s.changes != nil {
		through = min(through, max(s.changes.Recorded(), h.Offset)-h.Offset)
	}
	if through == 0 {
		return nil
	}
	_, err := s.index.Prune(Cut{Before: time.Now().Add(-s.composer.schedule.Linger), Through: through})
	return err
}

// The pace of a loop: it rests for a multiple of the time that its work took.
const (
	restFactor = 9 // it works a tenth of the time at most
	longRest   = time.Hour
	tick       = time.Minute // how often a loop looks at the clock
	retryAfter = 5 * time.Second
)

// work writes those of some documents that are due. It returns when the next one is due;
// zero: only another change makes one due.
type work func(ctx context.Context) (next time.Time, err error)

// onRing is work that only a change makes due.
func onRing(do func(context.Context) error) work {
	return func(ctx context.Context) (time.Time, error) { return time.Time{}, do(ctx) }
}

// loop does work now, whenever a bell rings, and when something is due, but with a pause of
// at least every and a multiple of the time that the work took. It returns when ctx ends. It
// logs what fails and tries again.
func (s *set) loop(ctx context.Context, what string, every func() time.Duration, wake func() <-chan struct{}, do work) {
	failing := ""
	for ctx.Err() == nil {
		rung := wake() // before the work, so that no ring is missed
		began := time.Now()
		next, err := do(ctx)
		rest := max(every(), min(restFactor*time.Since(began), longRest))
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrNoBaseline):
			err, rest = nil, 0 // the first scan rings when it is finished
		case err != nil && err.Error() != failing:
			s.composer.log.Error(what+" failed, and is tried again", "event", "document_failed", "error", err)
		}
		failing = ""
		s.failing.Store(what, failure{err})
		if err != nil {
			failing, rest = err.Error(), max(rest, retryAfter)
		}
		if !clock.Sleep(ctx, rest) {
			return
		}
		if err != nil {
			continue
		}
		clock.Wait(ctx, restUntil(next), rung)
	}
}

// restUntil is how long a loop waits for a ring if something is due at next. It returns every
// now and then to look at the clock, which may have been set.
func restUntil(next time.Time) time.Duration {
	if next.IsZero() {
		return tick
	}
	return min(max(time.Until(next), 0), tick)
}

// isDue reports whether something that was last done at a time is due again. If that time is
// in the future, the clock was set back, and it is due.
func isDue(last time.Time, every time.Duration, now time.Time) bool {
	passed := now.Sub(last)
	return passed >= every || passed < 0
}

// earlier returns the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
