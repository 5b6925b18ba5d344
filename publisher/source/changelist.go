package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// changeLists are the Change Lists that are being written: those that are closed now, and
// the open one.
type changeLists struct {
	set      *set
	schedule *Schedule
	edition  *edition
	history  history // as it will be
	closed   []period
}

// buildChangeLists writes the open Change List anew if it lacks changes, and closes it if it
// is old or long enough. Each change is in exactly one list: an interval begins where the
// one before it ended, does not include its end, and no two changes have the same instant
// (DOC-39, DOC-40).
func (s *set) buildChangeLists(ctx context.Context) (next time.Time, err error) {
	err = s.index.read(func(snap *Snapshot) error {
		b := &changeLists{set: s, schedule: &s.composer.schedule, edition: s.shelf.edition(), history: s.shelf.current().History.clone()}
		defer b.edition.discard()
		if b.due(snap) {
			if err := b.collect(ctx, snap); err != nil {
				return err
			}
			if err := s.show(b.edition, b.apply); err != nil {
				return err
			}
		}
		if len(b.closed) > 0 {
			s.moved.Broadcast() // for their Change Dumps
		}
		next = b.next()
		return nil
	})
	return next, err
}

// next is when the open list is old enough to be closed, or a closed one has to leave the
// index or the archive.
func (b *changeLists) next() (next time.Time) {
	if b.history.Last > b.history.After {
		next = keptUntil(b.history.From, b.schedule.Rotate)
	}
	return earlier(next, b.nextExpiry())
}

// due reports whether there is anything to write.
func (b *changeLists) due(snap *Snapshot) bool {
	h := &b.history
	begin, at := snap.Begin()
	if h.From.IsZero() || h.After < begin || h.From.Before(at) || h.Last > snap.Last().Seq {
		if !h.From.IsZero() {
			b.set.composer.log.Warn("the Change Lists begin anew, because they do not fit the log of changes: every copy of this Source has to be compared with the Resource List",
				"event", "change_lists_begin_anew", "from", at)
		}
		h.From, h.After, h.Last, h.LastAt, h.Open, h.Periods, h.Recent = at, begin, begin, at, "", nil, recent{}
		return true
	}
	return snap.Last().Seq > h.Last || b.aged(snap.At) && h.Last > h.After || isPast(b.nextExpiry())
}

// aged reports whether the open list has to be closed now.
func (b *changeLists) aged(now time.Time) bool {
	return b.schedule.Rotate > 0 && now.Sub(b.history.From) >= b.schedule.Rotate
}

// collect closes the open list each time that it is full or old, and then writes the rest.
func (b *changeLists) collect(ctx context.Context, snap *Snapshot) error {
	h := &b.history
	last := snap.Last().Seq
	for last-h.After > uint64(b.schedule.RotateAt) { //nolint:gosec // not negative
		if err := b.closeAt(ctx, snap, h.After+uint64(b.schedule.RotateAt)); err != nil { //nolint:gosec // not negative
			return err
		}
	}
	if b.aged(snap.At) && last > h.After {
		// Later changes are later than the snapshot, and times are in microseconds.
		until := snap.At
		if at := snap.Last().At; !until.After(at) {
			until = at.Add(time.Microsecond)
		}
		if err := b.closeUntil(ctx, snap, last, until); err != nil {
			return err
		}
	}
	h.Last, h.LastAt = last, snap.Last().At
	return b.write(ctx, snap)
}

// closeAt closes the list right before the change that follows last.
func (b *changeLists) closeAt(ctx context.Context, snap *Snapshot, last uint64) error {
	for next, err := range snap.Changes(last) {
		if err != nil {
			return err
		}
		return b.closeUntil(ctx, snap, last, next.At)
	}
	return missingChange(last + 1)
}

// closeUntil writes the changes up to last as a closed list. The list ends at until, which
// is later than all of them and not later than any change to come. If they are too many
// bytes, it closes two lists.
func (b *changeLists) closeUntil(ctx context.Context, snap *Snapshot, last uint64, until time.Time) error {
	h := &b.history
	p := period{From: h.From, Until: until, After: h.After, Last: last, Path: b.openPath(), Indexed: true}
	full, err := b.set.composer.writeChanges(ctx, b.edition, p.Path, b.head(p.From, p.Until, changeListIndexPath), snap, p.After, p.Last)
	if errors.Is(err, resourcesync.ErrFull) && full > h.After+1 {
		if err := b.closeAt(ctx, snap, full-1); err != nil {
			return err
		}
		return b.closeUntil(ctx, snap, last, until)
	}
	if err != nil {
		return err
	}
	b.closed, h.Periods = append(b.closed, p), append(h.Periods, p)
	h.From, h.After, h.Open = until, last, ""
	return nil
}

// openPath is the path of the list that begins after After, while it is open and when it is
// closed.
func (b *changeLists) openPath() string {
	return fmt.Sprintf("changelist-%d.xml", b.history.After+1)
}

func (b *changeLists) head(from, until time.Time, index string) resourcesync.Head {
	archive := ""
	if len(b.history.Periods) > 0 {
		archive = changeListArchivePath
	}
	return resourcesync.Head{Capability: resourcesync.ChangeList, From: from, Until: until, Links: b.set.composer.links(index, archive)}
}

// write writes the open list and, if there are closed ones and it has changed, the index.
func (b *changeLists) write(ctx context.Context, snap *Snapshot) error {
	h := &b.history
	b.expire()
	path, index := changeListPath, ""
	if len(h.Periods) > 0 {
		path, index = b.openPath(), changeListIndexPath
	}
	full, err := b.set.composer.writeChanges(ctx, b.edition, path, b.head(h.From, time.Time{}, index), snap, h.After, h.Last)
	if errors.Is(err, resourcesync.ErrFull) && full > h.After+1 {
		if err := b.closeAt(ctx, snap, full-1); err != nil {
			return err
		}
		return b.write(ctx, snap)
	}
	if err != nil || index == "" {
		h.Open = ""
		return err
	}
	was := h.Open
	h.Open = path
	// Without a newly closed list, members can only leave the index.
	members, before := b.set.composer.indexed(h), b.set.shelf.current()
	if was == path && len(b.closed) == 0 && before.has(changeListIndexPath) && len(members) == len(b.set.composer.indexed(&before.History)) {
		return nil
	}
	head := b.head(members[0].From, time.Time{}, "")
	head.Index = true
	return b.edition.write(changeListIndexPath, head, 0, each(members))
}

// indexed returns the entries of the index of Change Lists: the closed ones that it lists,
// and the open one.
func (s *composer) indexed(h *history) (members []resourcesync.Entry) {
	for _, p := range h.Periods {
		if p.Indexed {
			members = append(members, resourcesync.Entry{Loc: s.url(p.Path), From: p.From, Until: p.Until})
		}
	}
	return append(members, resourcesync.Entry{Loc: s.url(h.Open), From: h.From})
}

// nextExpiry is when the next closed list has to leave the index or the archive; zero:
// never. The newest stays, so that the index stays an index.
func (b *changeLists) nextExpiry() (next time.Time) {
	for _, p := range b.history.Periods[:max(len(b.history.Periods)-1, 0)] {
		if b.needed(p) {
			continue
		}
		if p.Indexed {
			next = earlier(next, keptUntil(p.Until, b.schedule.KeepChanges))
		}
		next = earlier(next, keptUntil(p.Until, b.schedule.keepClosed()))
	}
	return next
}

// expire removes closed lists from the index and the archive.
func (b *changeLists) expire() {
	h := &b.history
	for len(h.Periods) > 1 && !b.needed(h.Periods[0]) && isPast(keptUntil(h.Periods[0].Until, b.schedule.keepClosed())) {
		h.Periods = h.Periods[1:]
	}
	if n := len(h.Periods) - mostKept; n > 0 {
		b.set.composer.log.Warn("there are more closed Change Lists than an index can list; the oldest are removed early: allow more changes in each (Schedule.RotateAt)",
			"event", "change_lists_removed", "lists", n, "until", h.Periods[n-1].Until)
		h.Periods = h.Periods[n:]
	}
	for i := range max(len(h.Periods)-1, 0) {
		p := &h.Periods[i]
		p.Indexed = p.Indexed && (b.needed(*p) || !isPast(keptUntil(p.Until, b.schedule.KeepChanges)))
	}
}

// needed reports whether a client that begins with the current Resource List or Resource
// Dump needs a closed list, because it ended after them. If little changes, they may be
// older than what is kept.
func (b *changeLists) needed(p period) bool {
	list, dumps := b.history.List, b.history.Dumps
	return !list.At.IsZero() && p.Until.After(list.At) || len(dumps) > 0 && p.Until.After(dumps[len(dumps)-1].At)
}

// keepClosed is how long a closed list is kept at all; negative: for ever.
func (s *Schedule) keepClosed() time.Duration {
	if s.Archive < 0 {
		return s.KeepChanges
	}
	return s.KeepArchive
}

// apply stores in c the lists that are on disk now. It keeps the dumps of the periods, which
// may have been written meanwhile.
func (b *changeLists) apply(c *register) error {
	h := &c.History
	dumped := make(map[string]period)
	for _, p := range h.Periods {
		dumped[p.Path] = p
	}
	existed, before := b.set.shelf.current().has(changeListPath), h.Open
	h.From, h.After, h.Last, h.LastAt = b.history.From, b.history.After, b.history.Last, b.history.LastAt
	h.Open, h.Periods = b.history.Open, b.history.Periods
	for i := range h.Periods {
		p := &h.Periods[i]
		p.Dump, p.Packages = dumped[p.Path].Dump, dumped[p.Path].Packages
		delete(dumped, p.Path)
	}
	for path, p := range dumped {
		c.drop(append(p.dumpPaths(), path)...)
	}
	if before != h.Open && !slices.ContainsFunc(h.Periods, func(p period) bool { return p.Path == before }) {
		c.drop(before)
	}
	if len(h.Periods) == 0 {
		c.drop(changeListIndexPath)
		h.Recent = recent{}
	}
	b.notices(c, existed, before)
	if len(b.closed) == 0 && len(dumped) == 0 && c.has(changeListArchivePath) {
		return nil
	}
	if err := b.set.archivist.changeListArchive(b.edition, c); err != nil || len(dumped) == 0 || !c.has(changeDumpPath) {
		return err
	}
	return b.set.archivist.changeDumps(b.edition, c) // of the periods that are left
}

// notices reports lists that were closed or have begun. The other channel reports changes,
// so there is no notice when the open list gets more of them.
func (b *changeLists) notices(c *register, existed bool, before string) {
	for _, p := range b.closed {
		c.History.notify(notice{Path: p.Path, Index: changeListIndexPath, Capability: resourcesync.ChangeList, Change: written(p.Path == before)})
	}
	switch {
	case len(b.closed) > 0:
		c.notify(resourcesync.ChangeList, changeListIndexPath, []string{b.history.Open}, false)
	case !existed:
		c.notify(resourcesync.ChangeList, changeListPath, nil, false)
	}
}
