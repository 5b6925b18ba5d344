package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// changeLists are the Change Lists that are being written: those that are closed
// now, and the open one.
type changeLists struct {
	set     *set
	edition *edition
	history history // what it is going to be
	closed  []period
}

// buildChangeLists writes the open Change List anew where there are changes that
// it lacks, and closes it where it is old or long enough. All changes are in one
// list and no other: intervals begin where the one before them ended, with the end
// excluded, and every change has an instant of its own (DOC-39, DOC-40).
func (s *set) buildChangeLists(ctx context.Context) (next time.Time, err error) {
	snap, err := s.index.Snapshot()
	if err != nil {
		return next, err
	}
	defer snap.Close()
	b := &changeLists{set: s, edition: s.shelf.edition(), history: s.shelf.current().History.clone()}
	defer func() { b.edition.discard() }()
	if !b.due(snap) {
		return b.next(), nil
	}
	if err := b.collect(ctx, snap); err != nil {
		return next, err
	}
	err = s.show(b.edition, b.apply)
	b.edition = s.shelf.edition() // the other is shown
	if len(b.closed) > 0 {
		s.moved.ring() // for their Change Dumps
	}
	return b.next(), err
}

// next is when the open list is old enough to be closed, or a closed one leaves the
// index or the archive.
func (b *changeLists) next() (next time.Time) {
	h := &b.history
	if b.set.composer.schedule.Rotate > 0 && h.Last > h.After {
		next = h.From.Add(b.set.composer.schedule.Rotate)
	}
	for _, p := range h.Periods[:max(len(h.Periods)-1, 0)] {
		if !b.unneeded(p) {
			continue
		}
		if p.Indexed && b.set.composer.schedule.KeepChanges > 0 {
			next = earlier(next, p.Until.Add(b.set.composer.schedule.KeepChanges))
		}
		if keep := b.set.composer.schedule.keepClosed(); keep > 0 {
			next = earlier(next, p.Until.Add(keep))
		}
	}
	return next
}

// due reports whether there is anything to write.
func (b *changeLists) due(snap *Snapshot) bool {
	h := &b.history
	begin, at := snap.Begin()
	if h.From.IsZero() || h.After < begin || h.Last > snap.Last().Seq {
		if !h.From.IsZero() {
			b.set.composer.log.Warn("the Change Lists begin anew: the log of changes does not fit what they say. Who has a copy of this Source needs the Resource List again",
				"event", "change_lists_begin_anew", "from", at)
		}
		h.From, h.After, h.Last, h.Open, h.Periods, h.Recent = at, begin, begin, "", nil, recent{}
		return true
	}
	return snap.Last().Seq > h.Last || b.aged(snap.At) && h.Last > h.After || b.expired(time.Now())
}

// aged reports whether the open list is to be closed now.
func (b *changeLists) aged(now time.Time) bool {
	return b.set.composer.schedule.Rotate > 0 && now.Sub(b.history.From) >= b.set.composer.schedule.Rotate
}

// collect closes the open list each time that it is full, or old, and then writes what
// is left.
func (b *changeLists) collect(ctx context.Context, snap *Snapshot) error {
	h := &b.history
	last := snap.Last().Seq
	for last-h.After > uint64(b.set.composer.schedule.RotateAt) { //nolint:gosec // not negative
		if err := b.closeAt(ctx, snap, h.After+uint64(b.set.composer.schedule.RotateAt)); err != nil { //nolint:gosec // not negative
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
	h.Last = last
	return b.write(ctx, snap)
}

// closeAt closes the list before the change after last.
func (b *changeLists) closeAt(ctx context.Context, snap *Snapshot, last uint64) error {
	for next, err := range snap.Changes(last) {
		if err != nil {
			return err
		}
		return b.closeUntil(ctx, snap, last, next.At)
	}
	return fmt.Errorf("%w: change number %d is not in the log", ErrPruned, last+1)
}

// closeUntil writes the changes up to last as a closed list, until an instant that is
// later than all of them and not later than any that is to come.
func (b *changeLists) closeUntil(ctx context.Context, snap *Snapshot, last uint64, until time.Time) error {
	h := &b.history
	p := period{From: h.From, Until: until, After: h.After, Last: last, Path: b.openPath(), Indexed: true}
	full, err := b.set.composer.writeChanges(ctx, b.edition, p.Path, b.head(p.From, p.Until, changeListIndexPath), snap, p.After, p.Last)
	if errors.Is(err, resourcesync.ErrFull) && full > h.After+1 {
		return b.splitAt(ctx, snap, full, last, until)
	}
	if err != nil {
		return err
	}
	b.closed = append(b.closed, p)
	h.Periods = append(h.Periods, p)
	h.From, h.After, h.Open = until, last, ""
	return nil
}

// splitAt closes two lists instead of one that would be too long in bytes: one before
// the change for which there is no room, and the rest.
func (b *changeLists) splitAt(ctx context.Context, snap *Snapshot, full, last uint64, until time.Time) error {
	if err := b.closeAt(ctx, snap, full-1); err != nil {
		return err
	}
	return b.closeUntil(ctx, snap, last, until)
}

// openPath is where the list that begins at After is and, when it is closed, stays.
func (b *changeLists) openPath() string {
	return fmt.Sprintf("changelist-%d.xml", b.history.After+1)
}

func (b *changeLists) head(from, until time.Time, index string) resourcesync.Head {
	return resourcesync.Head{
		Capability: resourcesync.ChangeList, From: from, Until: until,
		Links: b.set.composer.links(index, b.archive()),
	}
}

// archive is the path of the Change List Archive, if there is going to be one.
func (b *changeLists) archive() string {
	if len(b.history.Periods) == 0 {
		return ""
	}
	return changeListArchivePath
}

// write writes the open list and, where there are closed ones and it has changed, the
// index.
func (b *changeLists) write(ctx context.Context, snap *Snapshot) error {
	h := &b.history
	b.expire(time.Now())
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
	if before := b.set.shelf.current(); was == path && len(b.closed) == 0 && before.has(changeListIndexPath) && slices.Equal(indexedPaths(h), indexedPaths(&before.History)) {
		return nil
	}
	var members []resourcesync.Entry
	for _, p := range h.Periods {
		if p.Indexed {
			members = append(members, resourcesync.Entry{Loc: b.set.composer.url(p.Path), From: p.From, Until: p.Until})
		}
	}
	members = append(members, resourcesync.Entry{Loc: b.set.composer.url(h.Open), From: h.From})
	head := b.head(members[0].From, time.Time{}, "")
	head.Index = true
	return b.edition.write(changeListIndexPath, head, members)
}

func indexedPaths(h *history) (paths []string) {
	for _, p := range h.Periods {
		if p.Indexed {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// expired reports whether a closed list is to leave the index or the archive.
func (b *changeLists) expired(now time.Time) bool {
	for i, p := range b.history.Periods {
		if last := i == len(b.history.Periods)-1; last {
			return false // the index keeps the newest
		}
		if b.unneeded(p) && (b.set.composer.schedule.expired(p, now) || p.Indexed && b.set.composer.schedule.unlisted(p, now)) {
			return true
		}
	}
	return false
}

// expire takes closed lists out of the index and the archive. The newest stays, so
// that an index stays one.
func (b *changeLists) expire(now time.Time) {
	h := &b.history
	for len(h.Periods) > 1 && b.unneeded(h.Periods[0]) && b.set.composer.schedule.expired(h.Periods[0], now) {
		h.Periods = h.Periods[1:]
	}
	if n := len(h.Periods) - mostKept; n > 0 {
		b.set.composer.log.Warn("there are more closed Change Lists than an index can list; the oldest are removed though it is not time: let each have more changes (Schedule.RotateAt)",
			"event", "change_lists_removed", "lists", n, "until", h.Periods[n-1].Until)
		h.Periods = h.Periods[n:]
	}
	for i := range max(len(h.Periods)-1, 0) {
		p := &h.Periods[i]
		p.Indexed = p.Indexed && !(b.unneeded(*p) && b.set.composer.schedule.unlisted(*p, now))
	}
}

// unneeded reports whether nobody needs a closed list who begins with the current
// Resource List or Resource Dump: it ended before them. Where little changes they
// may be older than what is kept.
func (b *changeLists) unneeded(p period) bool {
	h := &b.history
	if !h.List.At.IsZero() && p.Until.After(h.List.At) {
		return false
	}
	n := len(h.Dumps)
	return n == 0 || !p.Until.After(h.Dumps[n-1].At)
}

// unlisted reports whether a closed list has been beside the open one for long
// enough, and expired whether it has been in the archive.
func (s *Schedule) unlisted(p period, now time.Time) bool {
	return s.KeepChanges > 0 && now.Sub(p.Until) >= s.KeepChanges
}

func (s *Schedule) expired(p period, now time.Time) bool {
	keep := s.keepClosed()
	return keep > 0 && now.Sub(p.Until) >= keep
}

// keepClosed is how long a closed list is found at all; negative: for ever.
func (s *Schedule) keepClosed() time.Duration {
	if s.Archive < 0 {
		return s.KeepChanges
	}
	return s.KeepArchive
}

// apply makes c what the lists on disk say it is. What others wrote of the periods
// meanwhile, their dumps, is kept.
func (b *changeLists) apply(c *catalogue) error {
	now, h := time.Now(), &c.History
	dumped := make(map[string]period)
	for _, p := range h.Periods {
		dumped[p.Path] = p
	}
	existed, before := b.set.shelf.current().has(changeListPath), h.Open
	h.From, h.After, h.Last, h.Open, h.Periods = b.history.From, b.history.After, b.history.Last, b.history.Open, b.history.Periods
	for i := range h.Periods {
		p := &h.Periods[i]
		p.Dump, p.Packages = dumped[p.Path].Dump, dumped[p.Path].Packages
		delete(dumped, p.Path)
	}
	for path, p := range dumped {
		c.drop(now, path)
		if p.Dump != "" {
			c.drop(now, append(pathsOf(p.Packages), p.Dump)...)
		}
	}
	if before != "" && before != h.Open && !slices.ContainsFunc(h.Periods, func(p period) bool { return p.Path == before }) {
		c.drop(now, before)
	}
	if len(h.Periods) == 0 {
		c.drop(now, changeListIndexPath)
		h.Recent = recent{}
	}
	b.notices(c, existed, before)
	if len(b.closed) == 0 && len(dumped) == 0 && c.has(changeListArchivePath) {
		return nil
	}
	if err := b.set.archivist.changeListArchive(b.edition, c); err != nil || len(dumped) == 0 || !c.has(changeDumpPath) {
		return err
	}
	return b.set.archivist.changeDumps(b.edition, c) // of those that are left
}

// notices tells of lists that were closed or have begun. That something was added
// to the open one is what the other channel tells.
func (b *changeLists) notices(c *catalogue, existed bool, before string) {
	for _, p := range b.closed {
		c.History.notify(notice{At: time.Now().UTC(), Path: p.Path, Index: changeListIndexPath, Capability: resourcesync.ChangeList, Change: written(p.Path == before)})
	}
	switch {
	case len(b.closed) > 0:
		c.notify(resourcesync.ChangeList, changeListIndexPath, []string{b.history.Open}, false)
	case !existed:
		c.notify(resourcesync.ChangeList, changeListPath, nil, false)
	}
}

func pathsOf(packages []packaging) []string {
	paths := make([]string, len(packages))
	for i := range packages {
		paths[i] = packages[i].Path
	}
	return paths
}
