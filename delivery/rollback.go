package delivery

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// fork is where the journal of a topic goes on, after the store lost its tail under
// us (invariant 5). It is found once for all lanes of the topic in this hub.
type fork struct {
	found chan struct{} // closed when the rest is known
	err   error         // why it is not
	// to is the newest entry that was read before and that the journal still has.
	// First and last are the oldest and the newest that it is known to have lost.
	to, first, last anchor
}

// covers tells whether a lane at a goes back to the fork.
func (f *fork) covers(a anchor) bool {
	return a.position >= f.to.position && a.position <= f.last.position && !a.same(f.to)
}

// reanchor takes the lanes of the job's topic back to the newest entry that was
// read before and that the journal still has: what follows may come twice, nothing
// is skipped (invariant 5). What was lost is recorded with the topic before that
// (invariant 10). The first job that finds its cursor lost does so, and others wait
// for it. Only an owner does: the generations of one that was frozen would be later
// than those of who took over, and end what that one stores.
func (d *Dispatcher) reanchor(ctx context.Context, j *job) error {
	for {
		if !d.ownsLane(j.lane) {
			return errLost
		}
		f, mine := d.forkOf(j)
		if mine {
			d.findFork(ctx, j, f)
		} else {
			<-f.found
		}
		switch {
		case f.err != nil:
			return f.err
		case f.covers(j.cursor.anchor):
			// One that came after the others went back, or that nobody knew of.
			if c, ok := d.rewind(j.lane, f); ok {
				d.commits.add(c)
			}
			return nil
		case mine:
			return nil // trimmed meanwhile, as the next read tells
		}
	}
}

// forkOf returns the fork that the job's cursor is behind; mine: it is still to be
// found, and by this caller.
func (d *Dispatcher) forkOf(j *job) (f *fork, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := j.lane.topic
	if f = t.fork.Load(); f != nil && (!f.done() || f.err == nil && f.covers(j.cursor.anchor)) {
		return f, false
	}
	f = &fork{found: make(chan struct{})}
	t.fork.Store(f)
	return f, true
}

// done tells whether the fork was found, or could not be.
func (f *fork) done() bool {
	select {
	case <-f.found:
		return true
	default:
		return false
	}
}

// awaitFork waits while another job finds where the journal of the topic goes on.
// False: the lane has another cursor by then.
func (d *Dispatcher) awaitFork(j *job) bool {
	f := j.lane.topic.fork.Load()
	if f == nil || f.done() {
		return true
	}
	<-f.found
	return d.stands(j)
}

// findFork finds f from the job's cursor, which is lost, records what is missing,
// and takes back all lanes of the topic that are known to be behind it.
func (d *Dispatcher) findFork(ctx context.Context, j *job, f *fork) {
	t := j.lane.topic
	f.err = d.lookForFork(ctx, t, j.cursor.anchor, f)
	gap := journal.Gap{
		From: f.to.instant(), Until: f.last.instant(), Reason: journal.GapRolledBack, At: d.o.Clock.Now(),
		Position: f.last.position, Seq: f.last.seq,
	}
	if f.last.seq > f.to.seq {
		gap.Count = f.last.seq - f.to.seq
	}
	if f.err == nil {
		f.err = d.o.Journal.RecordGap(ctx, t.url, gap)
	}
	if f.err != nil {
		close(f.found)
		return
	}
	d.bodies.forget(t)
	commits := d.rewindAll(t, f)
	close(f.found)
	for _, c := range commits {
		d.commits.add(c)
	}
	if d.o.Gap != nil {
		d.o.Gap(gap)
	}
	d.log.Warn("the store lost its tail: delivery goes back to what it still has, and what follows may come twice",
		zap.String("event", "rolled_back"), zap.String("topic", t.url), zap.Int("subscriptions", len(commits)),
		zap.Uint64("from_seq", f.last.seq), zap.Uint64("to_seq", f.to.seq), zap.Uint64("count", gap.Count),
		known("from", gap.From), known("until", gap.Until))
}

// lookForFork reads from the entries of t that are remembered: backwards from at,
// which is lost, to the first that is not, and forwards to the last that is.
func (d *Dispatcher) lookForFork(ctx context.Context, t *topic, at anchor, f *fork) error {
	d.mu.Lock()
	seen := slices.Clone(t.seen)
	d.mu.Unlock()
	f.first, f.last = at, at
	found := false
	for _, a := range slices.Backward(seen) {
		if a.position >= at.position {
			continue
		}
		lost, err := d.lost(ctx, t, a)
		if err != nil {
			return err
		}
		if found = !lost; found {
			f.to = a
			break
		}
		f.first = a
	}
	if !found {
		head, err := d.o.Journal.Head(ctx, t.url)
		if err != nil {
			return err
		}
		f.to = packAnchor(head.Trimmed)
	}
	for _, a := range seen {
		if a.position <= at.position {
			continue
		}
		lost, err := d.lost(ctx, t, a)
		if err != nil {
			return err
		}
		if !lost {
			break // from here on they are of the journal as it is now
		}
		f.last = a
	}
	return nil
}

// lost tells whether the journal lost an entry that it had.
func (d *Dispatcher) lost(ctx context.Context, t *topic, a anchor) (bool, error) {
	_, err := d.o.Journal.Read(ctx, t.url, a.unpack(), 1, 0)
	if errors.Is(err, journal.ErrRolledBack) {
		return true, nil
	}
	if _, ok := journal.ReadOn(err); ok {
		return false, nil
	}
	return false, err
}

// rewindAll takes the lanes of t back that are at an entry which is known to be
// lost, and returns what is to be stored of them. Between chunks it gives the lock to
// those who deliver.
func (d *Dispatcher) rewindAll(t *topic, f *fork) (commits []subscriptions.Commit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(t.lanes) - 1; i >= 0; i-- {
		if l := t.lanes[i]; l.cursor.position >= f.first.position && f.covers(l.cursor.anchor) && d.ownsLane(l) {
			commits = append(commits, d.goBack(l, f))
		}
		if i%chunk == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
			i = min(i, len(t.lanes))
		}
	}
	return commits
}

// rewind takes one lane back to f, if it is not there yet.
func (d *Dispatcher) rewind(l *lane, f *fork) (c subscriptions.Commit, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state == gone || !f.covers(l.cursor.anchor) || !d.ownsLane(l) {
		return c, false
	}
	return d.goBack(l, f), true
}

// goBack gives a lane the cursor of f in a generation of its own (invariant 4).
func (d *Dispatcher) goBack(l *lane, f *fork) subscriptions.Commit {
	now := d.read()
	c := l.cursor.moveTo(f.to)
	c.generation = journal.MintGeneration(l.cursor.generation, instant(now.wall))
	d.advance(l, c, now)
	return subscriptions.Commit{ID: l.id, Cursor: c.unpack()}
}

// stands tells whether the lane's cursor is still the job's.
func (d *Dispatcher) stands(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds(*j)
}
