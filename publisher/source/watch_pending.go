package source

import (
	"slices"
	"sync"
	"time"
)

// maxPending is how many paths may wait one by one. If there are more, the whole folder is
// scanned.
const maxPending = 16_384

// pending are the paths to look at: something happened there, or a file was being written
// when it was looked at.
type pending struct {
	settle time.Duration

	mu    sync.Mutex
	paths map[string]*waiting
	all   time.Time     // when to look at everything; zero: not yet known
	until time.Time     // what next returned last
	wake  chan struct{} // of capacity 1: there is something earlier than that
}

// waiting is what is known of a path that waits.
type waiting struct {
	due      time.Time // zero: it is being looked at
	first    time.Time // when waiting for it began
	since    time.Time // since when it is as seen; zero: never seen
	seen     stat
	reported bool // it was reported that this takes long
	sure     bool // it is in the index, and is looked at once more to be sure
}

func newPending(settle time.Duration) *pending {
	return &pending{settle: settle, paths: map[string]*waiting{}, wake: make(chan struct{}, 1)}
}

// touch notes that something happened at a path. It is looked at after the settle time
// without another event, so that a burst is one change.
func (p *pending) touch(path string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.get(path, now); w != nil {
		w.sure = false
		p.plan(w, now.Add(p.settle))
	}
}

// plan sets the time at which to look at a path.
func (p *pending) plan(w *waiting, due time.Time) {
	w.due = due
	if p.until.IsZero() || due.Before(p.until) {
		poke(p.wake)
	}
}

// get returns what is known of a path, or nil if too many wait.
func (p *pending) get(path string, now time.Time) *waiting {
	w := p.paths[path]
	if w != nil {
		return w
	}
	if len(p.paths) >= maxPending {
		p.setAll(now.Add(p.settle))
		return nil
	}
	w = &waiting{first: now}
	p.paths[path] = w
	return w
}

// settled reports whether the file at a path, which is as seen, is complete; otherwise it
// plans another look. A file is complete when its last change is older than the settle time.
// If the clocks of this host and of the file system disagree, it must have been seen
// unchanged for that time.
func (p *pending) settled(path string, seen stat, now time.Time) bool {
	age := now.Sub(seen.changed.time())
	if age >= p.settle {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.get(path, now)
	if w == nil {
		return false
	}
	if w.since.IsZero() || w.seen != seen {
		w.since, w.seen = now, seen
	}
	rest := p.settle - now.Sub(w.since)
	if rest <= 0 {
		return true
	}
	if age >= 0 {
		rest = min(rest, p.settle-age)
	}
	w.sure = false
	p.plan(w, now.Add(rest))
	return false
}

// again plans to look at a path after a time, or earlier. With sure, that only confirms what
// is in the index.
func (p *pending) again(path string, after time.Duration, sure bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.get(path, now); w != nil && (w.due.IsZero() || !sure) {
		w.sure = sure
		p.plan(w, now.Add(after))
	}
}

// everything plans to look at the whole folder, at the given time or earlier.
func (p *pending) everything(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAll(at)
}

func (p *pending) setAll(at time.Time) {
	if p.all.IsZero() || at.Before(p.all) {
		p.all = at
		poke(p.wake)
	}
}

// poke sends on a channel of capacity 1, unless something waits there already.
func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// next returns when there is something to look at, or a file to report because it has waited
// for longer than patience; false: nothing waits.
func (p *pending) next(patience time.Duration) (at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at = p.all
	for _, w := range p.paths {
		at = earlier(at, w.due)
		if !w.reported {
			at = earlier(at, w.first.Add(patience))
		}
	}
	p.until = at
	return at, !at.IsZero()
}

// due returns the paths that are due, and whether the whole folder is. Call done after
// looking at them.
func (p *pending) due(now time.Time) (paths []string, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.all.IsZero() && !p.all.After(now) {
		all, p.all = true, time.Time{}
	}
	for path, w := range p.paths {
		if !w.due.IsZero() && !w.due.After(now) {
			w.due = time.Time{}
			paths = append(paths, path)
		}
	}
	return paths, all
}

// done forgets the paths that were looked at, unless another look is planned.
func (p *pending) done(paths []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range paths {
		if w := p.paths[path]; w != nil && w.due.IsZero() {
			delete(p.paths, path)
		}
	}
}

// count returns how many paths wait, and how many of them for more than a confirmation.
func (p *pending) count() (all, unknown int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.paths {
		if !w.sure {
			unknown++
		}
	}
	return len(p.paths), unknown
}

// slow returns the paths that have waited for longer than patience, in order, and those of
// them that it has not returned before.
func (p *pending) slow(patience time.Duration, now time.Time) (all, fresh []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, w := range p.paths {
		if now.Sub(w.first) < patience {
			continue
		}
		all = append(all, path)
		if !w.reported {
			w.reported = true
			fresh = append(fresh, path)
		}
	}
	slices.Sort(all)
	slices.Sort(fresh)
	return all, fresh
}
