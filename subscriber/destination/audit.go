package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// What an audit finds of a resource.
const (
	Missing      = "missing"      // the Source lists it, and there is no file
	Differing    = "differing"    // the file is not what the Source describes
	Extra        = "extra"        // a file that the Source does not list
	Unverifiable = "unverifiable" // the Source gives no hash to compare with
)

// Finding is a resource that is not as it should be.
type Finding struct {
	What string `json:"what"`
	URL  string `json:"url,omitempty"` // empty: an Extra that no resource is known of
	Path string `json:"path"`
	Why  string `json:"why"`
}

// AuditReport is what an audit found. A copy is in sync if it has all that the
// Source lists and nothing else, as far as the Source gives hashes.
type AuditReport struct {
	Source string        `json:"source"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took_ns"`
	// AsOf is the state of the Source that the copy was compared with: that of its
	// list, and of the changes after it; zero where it does not tell.
	AsOf         time.Time `json:"as_of,omitzero"`
	InSync       bool      `json:"in_sync"`
	Equal        int       `json:"equal"` // compared by hash
	Missing      int       `json:"missing"`
	Differing    int       `json:"differing"`
	Extra        int       `json:"extra"`
	Unverifiable int       `json:"unverifiable"`
	Bytes        int64     `json:"bytes"`    // that were read and hashed
	Findings     []Finding `json:"findings"` // the first of each kind
	// Repaired is what a repair did; nil: none was asked for.
	Repaired *Report `json:"repaired,omitempty"`
}

// Audit compares the copy with what the Source lists, byte by byte: every file is
// read and hashed. Changes that are newer than the list are taken into account.
// With repair, what is missing or differs is fetched, and extra files are deleted as
// far as Options.MaxDelete allows; the report then tells what was found after that.
func (c *Copy) Audit(ctx context.Context, repair bool) (AuditReport, error) {
	a, err := c.audit(ctx)
	if err != nil || !repair || a.report.InSync {
		return a.report, err
	}
	t := &tally{Report: Report{Source: c.o.Source, Began: time.Now(), Problems: []Problem{}}}
	if err := c.repair(ctx, a, t); err != nil {
		return a.report, err
	}
	again, err := c.audit(ctx)
	t.Took = time.Since(t.Began)
	again.report.Repaired = &t.Report
	return again.report, err
}

// audit is one audit under way.
type audit struct {
	c      *Copy
	mu     sync.Mutex
	report AuditReport
	counts map[string]int
	// lacking is what a repair fetches, and extra what it deletes.
	lacking []want
	extra   []want
	strays  []string         // paths of extra files that no resource is known of
	paths   map[key]struct{} // of the files that are accounted for
	done    int
	total   int
}

func (c *Copy) audit(ctx context.Context) (*audit, error) {
	a := &audit{
		c: c, counts: map[string]int{}, paths: map[key]struct{}{},
		report: AuditReport{Source: c.o.Source, Began: time.Now(), Findings: []Finding{}},
	}
	sets, err := c.sets(ctx)
	if err != nil {
		return a, err
	}
	for _, set := range sets {
		if err := a.set(ctx, set, len(sets) == 1); err != nil {
			return a, fmt.Errorf("the set %s: %w", set.name, err)
		}
	}
	if err := a.findExtra(); err != nil {
		return a, err
	}
	r := &a.report
	r.Missing, r.Differing, r.Extra, r.Unverifiable = a.counts[Missing], a.counts[Differing], a.counts[Extra], a.counts[Unverifiable]
	r.InSync = r.Missing+r.Differing+r.Extra == 0
	r.Took = time.Since(r.Began)
	a.progress(true)
	return a, nil
}

// set compares one set.
func (a *audit) set(ctx context.Context, set namedSet, only bool) error {
	list := set.Documents[resourcesync.ResourceList]
	if list == "" {
		return errors.New("the Source offers no Resource List to compare with")
	}
	docs, err := a.c.download(ctx, list)
	if err != nil {
		return err
	}
	defer docs.remove()
	newer, until, err := a.newer(ctx, set, docs.at)
	if err != nil {
		return err
	}
	if only {
		a.report.AsOf = until
	}
	listed, err := docs.resources()
	if err != nil {
		return err
	}
	a.total += len(listed)
	var failed error
	wants := func(yield func(want) bool) {
		for e, err := range docs.entries() {
			if err != nil {
				failed = err
				return
			}
			if _, ok := newer[e.Loc]; !ok && !yield(wanted(set.name, &e)) {
				return
			}
		}
		for _, w := range newer {
			if w.change != resourcesync.Deleted && !yield(w) {
				return
			}
		}
	}
	a.compareAll(ctx, wants)
	return errors.Join(failed, ctx.Err())
}

// newer are the resources of a set that changed since its list was made, by the
// last change of each.
func (a *audit) newer(ctx context.Context, set namedSet, since time.Time) (map[string]want, time.Time, error) {
	out := map[string]want{}
	if since.IsZero() || !set.offers(resourcesync.ChangeList) {
		return out, since, nil
	}
	until, err := subscriber.ReadChanges(ctx, a.c.web, set.Set, since, func(e resourcesync.Entry) error {
		out[e.Loc] = wanted(set.name, &e)
		return nil
	})
	return out, until, err
}

// compareAll compares resources with their files, on all processors.
func (a *audit) compareAll(ctx context.Context, wants iter.Seq[want]) {
	work := make(chan want, 256)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for w := range work {
				a.compare(w)
			}
		})
	}
	for w := range wants {
		if ctx.Err() != nil {
			break
		}
		work <- w
	}
	close(work)
	workers.Wait()
}

// compare compares one resource with its file.
func (a *audit) compare(w want) {
	c := a.c
	f, known, err := c.state.file(w.url)
	if !known && err == nil {
		f.Path, err = c.wish(w.url)
	}
	if err != nil {
		a.found(Missing, w, "", err.Error())
		return
	}
	info, err := c.root.Lstat(f.Path)
	if err != nil || !info.Mode().IsRegular() {
		a.found(Missing, w, f.Path, "there is no such file")
		return
	}
	algorithms := w.digests.Algorithms()
	if w.length >= 0 && info.Size() != w.length {
		a.found(Differing, w, f.Path, fmt.Sprintf("it has %d bytes, and the Source says %d", info.Size(), w.length))
		return
	}
	if len(algorithms) == 0 {
		a.found(Unverifiable, w, f.Path, "the Source gives no hash of it")
		return
	}
	got, n, err := c.hashFile(f.Path, algorithms...)
	switch {
	case err != nil:
		a.found(Differing, w, f.Path, err.Error())
	case got.Compare(w.digests) != resourcesync.Equal:
		a.found(Differing, w, f.Path, fmt.Sprintf("its hash is %s, and the Source says %s", got, w.digests))
	default:
		a.equal(f.Path, n)
	}
}

func (a *audit) equal(p string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Equal++
	a.report.Bytes += n
	a.seen(p)
}

// seen accounts for a file. Called with mu held.
func (a *audit) seen(p string) {
	if p != "" {
		a.paths[keyOf(a.c.fold(p))] = struct{}{}
	}
	if a.done++; a.done%1000 == 0 {
		a.progress(false)
	}
}

func (a *audit) found(what string, w want, p, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen(p)
	if what != Unverifiable {
		w.change, w.changedAt = "", time.Time{}
		a.lacking = append(a.lacking, w)
	}
	a.note(Finding{what, w.url, p, why})
}

// note counts a finding, and keeps the first of each kind.
func (a *audit) note(f Finding) {
	if a.counts[f.What]++; a.counts[f.What] <= maxProblems {
		a.report.Findings = append(a.report.Findings, f)
	}
}

// findExtra finds what is in the copy and not listed: files of resources, and
// files of which nothing is known below the folders that resources go to.
func (a *audit) findExtra() error {
	c := a.c
	roots := map[string]bool{}
	for _, r := range c.o.Roots {
		roots[r.Dir] = true
	}
	for url, f := range c.state.files() {
		roots[c.rootOf(url).Dir] = true
		if _, ok := a.paths[keyOf(c.fold(f.Path))]; ok || notThere(c, f.Path) {
			continue
		}
		a.extra = append(a.extra, want{url: url, set: f.Set, length: -1, change: resourcesync.Deleted})
		a.seen(f.Path)
		a.note(Finding{Extra, url, f.Path, "the Source does not list it"})
	}
	for dir := range roots {
		err := fs.WalkDir(c.root.FS(), path.Clean(dir), func(p string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() && strings.EqualFold(p, stateName):
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			if _, ok := a.paths[keyOf(c.fold(p))]; !ok {
				a.seen(p)
				a.strays = append(a.strays, p)
				a.note(Finding{Extra, "", p, "it belongs to no resource of the Source"})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("looking through the copy: %w", err)
		}
	}
	return nil
}

func (a *audit) progress(finished bool) {
	a.c.o.Progress(Progress{
		What: "audit", Done: a.done, Total: a.total, Failed: a.counts[Missing] + a.counts[Differing], Bytes: a.report.Bytes,
		Began: a.report.Began, Finished: finished, CurrentlyFor: a.c.o.Source,
	})
}

// repair fetches what an audit found missing or differing, and deletes what it
// found extra.
func (c *Copy) repair(ctx context.Context, a *audit, t *tally) error {
	if err := c.deleteAll(ctx, a.extra, t, "the Source does not list it"); err != nil {
		return err
	}
	allowed := c.o.MaxDelete.of(c.state.count()) - c.state.deletes(time.Now())
	for i, p := range a.strays {
		if i >= allowed {
			t.event(Event{What: HeldBack, Path: p, Err: errors.New("more deletions than are allowed (--max-delete)")})
			continue
		}
		if err := c.root.Remove(p); err != nil {
			t.event(Event{What: Failed, Path: p, Err: err})
			continue
		}
		t.event(Event{What: Deleted, Path: p})
	}
	if len(a.lacking) == 0 {
		return nil
	}
	for _, w := range a.lacking { // what is on disk is not what the state says
		c.distrust(w.url)
	}
	return c.carryOut(ctx, t, "repair", len(a.lacking), values(a.lacking))
}

// distrust forgets the validators of a file that turned out to be another.
func (c *Copy) distrust(url string) {
	f, ok, err := c.state.file(url)
	if err != nil || !ok {
		return
	}
	f.ETag, f.Modified = "", ""
	d := newSettled()
	d.files[url], d.keys[url] = f, c.fold(f.Path)
	if err := c.state.store(d, time.Now()); err != nil {
		c.log.Warn("the state could not be written", "event", "state_failed", "error", err)
	}
}
