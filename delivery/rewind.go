package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// fork is where the journal of a topic goes on, after the store lost its tail while this
// hub ran (invariant 5). It is found once for all lanes of the topic in this hub.
type fork struct {
	find func()      // finds the rest; other calls meanwhile wait for that
	done atomic.Bool // find has ended
	over atomic.Bool // an entry was read since
	err  error       // why it found nothing
	// to is the newest entry that the journal is known to have kept. First and last are
	// the oldest and the newest that it is known to have lost.
	to, first, last anchor
}

// covers reports whether a lane at a goes back to the fork.
func (f *fork) covers(a anchor) bool {
	return a.position >= f.to.position && a.position <= f.last.position && !a.same(f.to)
}

// journalTail is what this hub remembers of the newest entries of a topic.
type journalTail struct {
	// fork is where the journal goes on; nil: it was not rolled back while this hub ran.
	fork atomic.Pointer[fork]

	mu sync.Mutex
	// seen are the newest entries that were read from the journal, oldest
	// first, remembered of them at most: where to go on should it lose its tail.
	seen []anchor
}

// remembered is how many anchors of a topic are kept (invariant 5).
const remembered = 64

// saw remembers that the journal had entries. It leaves out those that lanes further back
// read: so seen stays in the order of positions, and belongs to the history of its newest entry.
func (t *journalTail) saw(all ...anchor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range all {
		if n := len(t.seen); a.position == 0 || n > 0 && t.seen[n-1].position >= a.position {
			continue
		}
		if len(t.seen) == remembered {
			t.seen = slices.Delete(t.seen, 0, 1)
		}
		t.seen = append(t.seen, a)
	}
}

// wentOn says that an entry was read from the journal. An anchor that is found lost after that is behind another fork:
// the journal may have lost its tail again, and lanes that went back may have been there.
func (t *journalTail) wentOn() {
	if f := t.fork.Load(); f != nil {
		f.over.Store(true)
	}
}

// forkAt returns the fork that an anchor is behind; it may not be found yet. If none is known,
// the fork is new, and find finds it.
func (t *journalTail) forkAt(a anchor, find func(*fork)) *fork {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.fork.Load(); f != nil && (!f.done.Load() || f.err == nil && !f.over.Load() && f.covers(a)) {
		return f
	}
	f := &fork{}
	f.find = sync.OnceFunc(func() {
		defer f.done.Store(true)
		find(f)
	})
	t.fork.Store(f)
	return f
}

// rewinder moves lanes back where the store lost the tail of a journal.
type rewinder struct {
	journal Journal
	sched   *schedulers
	bodies  *bodies
	commits results
	report  *reporter
	owns    func(*lane) bool
}

// reanchor moves the lanes of the job's topic back to the newest entry that was
// read before and that the journal still has: what follows may come twice, nothing
// is skipped (invariant 5). What was lost is recorded with the topic before that
// (invariant 10). The first job that finds its cursor lost does so, and others wait
// for it. Only the owner of a shard does so: generations from a hub that was frozen would be
// later than those of the next owner, and results of that owner would lose against them.
func (r *rewinder) reanchor(ctx context.Context, j *job) error {
	for {
		if !r.owns(j.lane) {
			return errLost
		}
		if !r.stands(j) {
			return nil // whoever found the fork moved it
		}
		var commits []subscriptions.Commit
		f := j.lane.topic.tail.forkAt(j.cursor.anchor(), func(f *fork) { commits = r.findFork(ctx, j, f) })
		f.find()
		r.commits.add(commits...)
		switch {
		case f.err != nil:
			return f.err
		case f.covers(j.cursor.anchor()):
			// The lane is new since the others went back, or findFork did not know that
			// its entry is lost.
			commits = nil
			r.sched.of(j.lane).do(func(s *scheduler) { commits = r.goBack(s, j.lane, f, commits) })
			r.commits.add(commits...)
			return nil
		case j.cursor.position <= f.to.position:
			return nil // trimmed meanwhile, or not lost, as the next read finds
		}
	}
}

// awaitFork waits while another job finds where the journal of the topic goes on.
// False: the lane has another cursor by then.
func (r *rewinder) awaitFork(j *job) bool {
	f := j.lane.topic.tail.fork.Load()
	if f == nil || f.done.Load() {
		return true
	}
	f.find()
	return r.stands(j)
}

// stands reports whether the lane's cursor is still the job's.
func (r *rewinder) stands(j *job) (ok bool) {
	r.sched.of(j.lane).do(func(*scheduler) { ok = j.stands() })
	return ok
}

// findFork finds f from the job's cursor, which is lost. It records what is missing, and moves
// back all lanes of the topic that are known to be behind it. It returns the commits of that.
func (r *rewinder) findFork(ctx context.Context, j *job, f *fork) (commits []subscriptions.Commit) {
	if !r.stands(j) {
		return nil // the fork before this one has moved it a moment ago
	}
	t := j.lane.topic.topic
	if f.err = r.searchFork(ctx, t, j.cursor.anchor(), f); f.err != nil || !f.covers(f.last) {
		return nil // not known, or nothing is lost
	}
	gap := gapBetween(f.to.unpack(), f.last.unpack(), journal.GapRolledBack, r.report.clock.Now())
	gap.Position, gap.Seq, gap.After = f.last.position, f.last.seq, f.to.unpack()
	if f.err = r.journal.RecordGap(ctx, t.url, gap); f.err != nil {
		return nil
	}
	r.bodies.forget(t)
	r.sched.each(t, func(s *scheduler, l *lane) {
		if l.cursor.position >= f.first.position {
			commits = r.goBack(s, l, f, commits)
		}
	})
	r.report.rolledBack(t, f, gap, len(commits))
	return commits
}

// searchFork reads from the entries of t that are remembered: backwards from at,
// which is lost, to the first that is not, and forwards to the last that is. Another hub may have
// recorded a newer one that the journal kept.
func (r *rewinder) searchFork(ctx context.Context, t *topic, at anchor, f *fork) (err error) {
	t.tail.mu.Lock()
	seen := slices.Clone(t.tail.seen)
	t.tail.mu.Unlock()
	older := slices.DeleteFunc(slices.Clone(seen), func(a anchor) bool { return a.position >= at.position })
	newer := slices.DeleteFunc(seen, func(a anchor) bool { return a.position <= at.position })
	slices.Reverse(older)
	// The first newer one that is not lost, and those behind it, are of the journal as it is now.
	if f.last, _, err = r.lost(ctx, t, at, newer); err != nil {
		return err
	}
	var kept []anchor
	if f.first, kept, err = r.lost(ctx, t, at, older); err != nil {
		return err
	}
	if f.to, err = r.recorded(ctx, t, f.first); err != nil {
		return err
	}
	if len(kept) > 0 && kept[0].position > f.to.position {
		f.to = kept[0]
	}
	r.widen(ctx, t, f)
	return nil
}

// widen adds to f what else lanes of t show to be lost: between the entry that the journal kept and
// the next one that it has, there is none. If that cannot be read, each lane finds its own fork.
func (r *rewinder) widen(ctx context.Context, t *topic, f *fork) {
	var behind []anchor // before the reading: all that lanes are at now is in what it finds, or lost
	r.sched.each(t, func(_ *scheduler, l *lane) {
		if a := l.cursor.anchor(); a.position > f.to.position {
			behind = append(behind, a)
		}
	})
	next, err := r.journal.Read(ctx, t.url, f.to.unpack(), 1, 0)
	if err != nil {
		return
	}
	for _, a := range behind {
		switch {
		case len(next) > 0 && a.position >= next[0].Position:
		case a.position > f.last.position:
			f.last = a
		case a.position < f.first.position:
			f.first = a
		}
	}
}

// recorded returns the newest entry that the journal of t kept before at, which is lost, as
// the gaps of its head say. That entry may be lost since, too.
func (r *rewinder) recorded(ctx context.Context, t *topic, at anchor) (anchor, error) {
	head, err := r.journal.Head(ctx, t.url)
	if err != nil {
		return anchor{}, err
	}
	for to, ok := head.BackFrom(at.position); ok; to, ok = head.BackFrom(to.Position) {
		_, kept, err := r.lost(ctx, t, at, []anchor{packAnchor(to)})
		if err != nil {
			return anchor{}, err
		}
		if len(kept) > 0 {
			return kept[0], nil
		}
	}
	return packAnchor(head.Trimmed), nil
}

// lost returns the last of the entries that the journal lost without a break, after at, and those
// that follow it. If the journal trimmed what is between the first of those and at, only the newest
// entry that it trimmed follows: nobody who was at the lost entry misses what came before it.
func (r *rewinder) lost(ctx context.Context, t *topic, at anchor, entries []anchor) (last anchor, kept []anchor, err error) {
	for i, a := range entries {
		_, err := r.journal.Read(ctx, t.url, a.unpack(), 1, 0)
		if trimmed, ok := errors.AsType[*journal.TrimmedError](err); ok && trimmed.To.Position < at.position {
			return at, []anchor{packAnchor(trimmed.To)}, nil
		}
		if _, trimmedOrDamaged := journal.ReadOn(err); err == nil || trimmedOrDamaged {
			return at, entries[i:], nil
		}
		if !errors.Is(err, journal.ErrRolledBack) {
			return at, nil, err
		}
		at = a
	}
	return at, nil, nil
}

// goBack moves a lane back to f, if it is behind it, and adds the commit of that.
func (r *rewinder) goBack(s *scheduler, l *lane, f *fork, to []subscriptions.Commit) []subscriptions.Commit {
	if l.state == gone || !f.covers(l.cursor.anchor()) || !r.owns(l) {
		return to
	}
	return append(to, s.goBack(l, f.to))
}
