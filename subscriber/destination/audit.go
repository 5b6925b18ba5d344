package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// Results of an audit for a resource.
const (
	Missing      = "missing"      // the Source lists it, and there is no file
	Differing    = "differing"    // the file is not what the Source describes, or what it had before a change
	Extra        = "extra"        // a file that the Source does not list
	Unverifiable = "unverifiable" // the Source gives no hash to compare with, and no change since it was copied
)

// Finding is a resource that is not as it should be.
type Finding struct {
	What string `json:"what"`
	URL  string `json:"url,omitempty"` // empty: an Extra that belongs to no known resource
	Path string `json:"path"`
	Why  string `json:"why"`
}

// AuditReport is what an audit found. A copy is in sync if it has all that the
// Source lists and nothing else, as far as the Source gives hashes, and if it missed no changes that
// the list is too old to show.
type AuditReport struct {
	Source string        `json:"source"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took_ns"`
	// AsOf is the time of the state of the Source with which the copy was compared: its list and
	// the changes after it. It is zero if there are several sets; Sets then has the time of each.
	AsOf time.Time  `json:"as_of,omitzero"`
	Sets []SetAudit `json:"sets"`
	// Recorded are sets without a Resource List. Their files were compared with what the Source
	// said when they were copied.
	Recorded []string `json:"recorded,omitempty"`
	// Pinned is the state that the copy was compared with; zero: the current one.
	Pinned       Pinned `json:"pinned,omitzero"`
	InSync       bool   `json:"in_sync"`
	Equal        int    `json:"equal"` // compared by hash
	Missing      int    `json:"missing"`
	Differing    int    `json:"differing"`
	Extra        int    `json:"extra"`
	Unverifiable int    `json:"unverifiable"`
	// LeftOut counts files that the selection leaves out, although the Source lists them. They are
	// not compared, and Options.Reselect deletes them.
	LeftOut   int       `json:"left_out,omitempty"`
	Selection Selection `json:"selection,omitzero"`
	UnderWay  int       `json:"under_way,omitempty"` // another process was just fetching these
	Bytes     int64     `json:"bytes"`               // read and hashed
	Findings  []Finding `json:"findings"`            // the first of each kind
	// Found is what was wrong before the repair.
	Found Wrong `json:"found,omitzero"`
	// Repaired is what a repair did; nil: no repair was requested, or none was needed.
	Repaired *Report `json:"repaired,omitempty"`
}

// Wrong counts what is not in sync.
type Wrong struct {
	Missing   int `json:"missing"`
	Differing int `json:"differing"`
	Extra     int `json:"extra"`
}

// SetAudit is what an audit found in one set, in the Source's order. Extra files belong to no
// set.
type SetAudit struct {
	Set          string    `json:"set"`            // the URL of its Capability List, or of what it has instead
	AsOf         time.Time `json:"as_of,omitzero"` // as in AuditReport; zero: it is one of Recorded
	Equal        int       `json:"equal"`
	Missing      int       `json:"missing"`
	Differing    int       `json:"differing"`
	Unverifiable int       `json:"unverifiable"`
	// Unknown says which changes the copy knows that it missed, where the list is too old to show them, or that nothing is known
	// of the set yet; empty: neither.
	Unknown string `json:"unknown,omitempty"`
}

// Audit compares the copy with what the Source lists, byte by byte: every file is read and
// hashed. Changes that are newer than the list are taken into account. With repair, it fetches
// files that are missing or differ, and deletes extra files as far as Options.MaxDelete allows.
// The report then has the findings after the repair. The errors are those of Sync.
func (c *Copy) Audit(ctx context.Context, repair bool) (AuditReport, error) {
	if c.live != "" {
		return c.auditBeside(ctx, repair)
	}
	a, err := c.audit(ctx, repair, nil)
	if err != nil || !repair || a.report.InSync {
		return a.report, err
	}
	t := newTally(c.o.Source)
	if err := c.reconciler.repair(ctx, a, t); err != nil {
		return a.report, err
	}
	repaired := t.report()
	again, err := c.audit(ctx, false, nil)
	again.report.Repaired, again.report.Found = &repaired, a.report.wrong()
	return again.report, err
}

func (r *AuditReport) wrong() Wrong { return Wrong{r.Missing, r.Differing, r.Extra} }

// audit is one audit under way.
type audit struct {
	c      *Copy
	listed map[key]int // the resources that the Source has, each with the number of the last set that lists it
	// unselected are the resources that the Source has and the selection leaves out, if there are
	// files of them.
	unselected map[key]struct{}

	mu     sync.Mutex
	report AuditReport
	counts map[string]int
	// unknown are the paths of files that belong to a resource although there is no record of
	// them.
	unknown map[key]struct{}
	done    int
	total   int
	sets    []string             // the compared ones
	asOf    map[string]time.Time // of each, as in SetAudit
	states  map[string]setState  // of each, as the copy has it
	emptied map[string]error     // why the files of a set stay, if its list is empty or nothing is known of it
	byList  map[string]bool      // sets that list no changes, so that a sync compares times of modification
	unsure  string               // SetAudit.Unknown of the set that is compared
	// problems are the resources, by URL or path, that are missing, differing or extra. only,
	// unless nil, limits the audit to these resources.
	problems, only map[key]struct{}
	// For a repair: what it fetches, and what it deletes, the strays by path.
	repair  bool
	lacking []desired
	extra   []desired
	strays  []string
}

func (c *Copy) audit(ctx context.Context, repair bool, only map[key]struct{}) (*audit, error) {
	a := &audit{
		c: c, repair: repair, only: only, problems: map[key]struct{}{}, asOf: map[string]time.Time{}, byList: map[string]bool{}, emptied: map[string]error{}, states: map[string]setState{}, counts: map[string]int{}, listed: map[key]int{}, unselected: map[key]struct{}{}, unknown: map[key]struct{}{},
		report: AuditReport{Source: c.o.Source, Selection: c.selection.Selection, Pinned: c.state.pinned(), Began: time.Now(), Sets: []SetAudit{}, Findings: []Finding{}},
	}
	sets, err := c.syncer.pinner.auditedSets(ctx)
	if err != nil {
		return a, err
	}
	for _, set := range sets {
		a.sets, a.states[set.name], a.unsure = append(a.sets, set.name), c.state.set(set.name), ""
		a.byList[set.name] = set.Topic == "" && !set.offers(resourcesync.ChangeList, resourcesync.ChangeDump)
		was := a.findings()
		until, err := a.set(ctx, set)
		if err != nil {
			return a, fmt.Errorf("the set %s: %w", set.name, err)
		}
		a.asOf[set.name] = until
		is := a.findings()
		a.report.Sets = append(a.report.Sets, SetAudit{
			Set: set.name, AsOf: until, Equal: is.Equal - was.Equal,
			Missing: is.Missing - was.Missing, Differing: is.Differing - was.Differing, Unverifiable: is.Unverifiable - was.Unverifiable,
			Unknown: a.unsure,
		})
		if len(sets) == 1 {
			a.report.AsOf = until
		}
	}
	if err := a.findExtra(ctx); err != nil {
		return a, err
	}
	r := &a.report
	r.Missing, r.Differing, r.Extra, r.Unverifiable = a.counts[Missing], a.counts[Differing], a.counts[Extra], a.counts[Unverifiable]
	r.InSync = r.Missing+r.Differing+r.Extra+r.UnderWay == 0 && !slices.ContainsFunc(r.Sets, func(s SetAudit) bool { return s.Unknown != "" })
	r.Took = time.Since(r.Began)
	a.progress(true)
	return a, nil
}

// findings returns the findings of all sets until now.
func (a *audit) findings() SetAudit {
	return SetAudit{Equal: a.report.Equal, Missing: a.counts[Missing], Differing: a.counts[Differing], Unverifiable: a.counts[Unverifiable]}
}

// set compares one set, and returns the time of the state of the Source that it was compared
// with.
func (a *audit) set(ctx context.Context, set namedSet) (time.Time, error) {
	list := set.Documents[resourcesync.ResourceList]
	switch {
	case !a.report.Pinned.IsZero():
		return a.past(ctx, set)
	case list == "":
		return time.Time{}, a.byRecord(ctx, set)
	}
	docs, err := a.c.lists.download(ctx, list, resourcesync.ResourceList, setState{})
	if err != nil {
		return time.Time{}, err
	}
	defer docs.remove()
	newer, until, err := a.c.syncer.changesSince(ctx, set, docs.at)
	if errors.Is(err, subscriber.ErrTooOld) && ctx.Err() == nil { // what the copy had of these changes is on record
		a.c.log.Warn("the Change Lists do not reach back to the Resource List", "event", "changes_unknown", "set", set.name, "since", docs.at, "error", err)
		newer, until = map[string]desired{}, docs.at
		a.unsure, err = a.notRead(ctx, set, docs.at)
	}
	if err != nil {
		return time.Time{}, err
	}
	if due := a.states[set.name].missed(); docs.at.Before(due) {
		a.unsure = fmt.Sprintf("changes before %s were missed, and the list is older", resourcesync.FormatDatetime(due))
	}
	listed, err := docs.resources()
	if err != nil {
		return time.Time{}, err
	}
	a.emptied[set.name] = a.c.reconciler.emptied(len(listed) == 0)
	a.total += len(listed)
	return until, a.compareAll(ctx, docs.wants(set, newer), func(w desired, f listedFile) desired {
		if f.members[w.set].After(until) { // it was pushed after the lists were written
			return a.lastSaid(w.url, w.set, f.file)
		}
		return w
	})
}

// notRead says which changes the copy did not read yet, where the Change Lists do not reach back to a list as of at; empty: none.
func (a *audit) notRead(ctx context.Context, set namedSet, at time.Time) (string, error) {
	since := later(at, later(a.states[set.name].BaselineAt, a.states[set.name].DumpsUntil))
	since = later(since, a.c.streamed(set))
	changes, _, err := a.c.syncer.changesSince(ctx, set, since)
	switch {
	case errors.Is(err, subscriber.ErrTooOld):
		return fmt.Sprintf("changes after %s are in no Change List any more, and the list is older", resourcesync.FormatDatetime(since)), nil
	case slices.ContainsFunc(slices.Collect(maps.Values(changes)), func(w desired) bool { return w.changedAt.After(since) }):
		return fmt.Sprintf("resources changed after %s, the list is older, and a sync did not bring them yet", resourcesync.FormatDatetime(since)), err
	}
	return "", err
}

// streamed returns until when the subscriber of a set has its changes; zero: it has none.
func (c *Copy) streamed(set namedSet) time.Time {
	status, err := subscriber.ReadStatus(filepath.Join(c.home, streamDirs+digest(set.name, 8)))
	if err != nil {
		return time.Time{}
	}
	return status.Until
}

// isPushed reports whether a set pushed a resource after its lists were written: they will
// have it soon.
func (a *audit) isPushed(url string) bool {
	for set, at := range a.c.state.members(url) {
		if asOf, ok := a.asOf[set]; ok && at.After(asOf) {
			return true
		}
	}
	return false
}

// compareAll compares resources with their files, on all processors. With the record of a file,
// settle says what the resource is to be; nil: as it is listed.
func (a *audit) compareAll(ctx context.Context, wants iter.Seq2[desired, error], settle func(desired, listedFile) desired) error {
	work := make(chan desired, 256)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			at := folder{tree: a.c.tree}
			defer at.leave()
			for w := range work {
				a.compare(ctx, &at, w, settle)
			}
		})
	}
	var failed error
	for w, err := range wants {
		if failed = cmp.Or(err, ctx.Err()); failed != nil {
			break
		}
		if !a.c.reconciler.selector.wants(&w) {
			a.total--
			if _, has := a.c.state.file(w.url); has {
				a.unselected[keyOf(w.url)] = struct{}{}
			}
			continue
		}
		listed := keyOf(w.url)
		if a.listed[listed] == len(a.sets) {
			continue // the list names it again
		}
		a.listed[listed] = len(a.sets)
		if a.looksAt(w.url) {
			work <- w
		}
	}
	close(work)
	workers.Wait()
	return cmp.Or(failed, ctx.Err())
}

var (
	errNoFile = errors.New("there is no such file")
	errFolder = errors.New("a folder is in its place")
)

// compare compares one resource with its file.
func (a *audit) compare(ctx context.Context, at *folder, w desired, settle func(desired, listedFile) desired) {
	c := a.c
	record, known := c.state.listedFile(w.url)
	f := record.file
	if known && settle != nil {
		w = settle(w, record)
	}
	if !known {
		p, err := c.tree.preferredPath(w.url)
		if err != nil {
			a.found(Missing, w, f, cmp.Or(askable(w.url), err).Error())
			return
		}
		if a.c.state.owner(c.tree.fold(p)) != "" { // as of /A and /%41
			a.found(Missing, w, f, errNoFile.Error())
			return
		}
		f.Path = p
		a.account(p)
	}
	later := known && c.reconciler.outdated(&f, &w)
	if later { // another set describes a later state
		w.length, w.digests = f.Length, resourcesync.ParseHashes(f.Hash)
	}
	said := w // of the bytes that belong into the file
	if is := c.fetcher.prefer.apply(w); is.alternate && !later {
		said = is
	}
	switch size, ok := at.size(f.Path); {
	case !ok:
		why := cmp.Or(askable(w.url), errNoFile)
		if isFolder(c.tree.root, f.Path) {
			why = errFolder
		} else if _, err := c.tree.root.Lstat(f.Path); errors.Is(err, fs.ErrPermission) {
			why = c.fetcher.forbidden(err, f.Path)
		}
		a.found(Missing, w, f, why.Error())
		return
	case said.length >= 0 && size != said.length:
		a.found(Differing, w, f, fmt.Sprintf("it has %d bytes, and the Source says %d", size, said.length))
		return
	}
	algorithms, copied := said.digests.Algorithms(), resourcesync.ParseHashes(f.Hash)
	if len(algorithms) == 0 {
		algorithms = copied.Algorithms()
	}
	got, n, err := at.hashFile(ctx, f.Path, algorithms...)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.found(Differing, w, f, err.Error())
	case got.Compare(said.digests) == resourcesync.Equal:
		a.equal(n)
	case got.Compare(said.digests) == resourcesync.Different:
		a.found(Differing, w, f, fmt.Sprintf("its hash is %s, and the Source says %s", got, said.digests))
	case got.Compare(copied) == resourcesync.Different:
		a.found(Differing, w, f, fmt.Sprintf("its hash is %s, and it was %s when it was copied", got, copied))
	default:
		what, why := Unverifiable, "the Source gives no hash for it"
		if behind := a.isBehind(&record, &said); behind != "" {
			what, why = Differing, behind
		}
		a.found(what, w, f, why)
	}
}

// isBehind says why a file, whose resource has no hash, is what the Source had before; empty: nothing says so.
func (a *audit) isBehind(f *listedFile, w *desired) string {
	if failed, ok := a.c.state.failure(w.url); ok && !failed.Change.Removes() {
		return "the Source changed it, and it could not be fetched: " + failed.Why
	}
	if !a.report.Pinned.IsZero() { // the changes to that state were carried out once
		return ""
	}
	asOf := later(later(f.ChangedAt, f.LastMod), later(f.members[w.set], a.states[w.set].BaselineAt))
	at := w.changedAt
	if f.Instead == "" || w.alternate { // else the bytes are those of a link, with its own time
		at = later(at, w.lastMod)
	}
	if at.After(asOf) {
		return fmt.Sprintf("the Source changed it at %s, and gives no hash", resourcesync.FormatDatetime(at))
	}
	isSame := f.Set == w.set && (f.Instead == w.first || f.Instead == "" && !w.alternate)
	if a.byList[w.set] && isSame && !f.LastMod.IsZero() && !w.lastMod.IsZero() && !w.lastMod.Equal(f.LastMod) {
		return fmt.Sprintf("the Source says that it is of %s, and said %s when it was copied; it gives no hash", resourcesync.FormatDatetime(w.lastMod), resourcesync.FormatDatetime(f.LastMod))
	}
	return ""
}

// account remembers a file that belongs to a resource, although there is no record of it.
func (a *audit) account(p string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unknown[keyOf(a.c.tree.fold(p))] = struct{}{}
}

func (a *audit) equal(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Equal++
	a.report.Bytes += n
	a.step()
}

// step counts a resource. The caller has locked mu.
func (a *audit) step() {
	a.c.audited.Add(1)
	if a.done++; a.done%1000 == 0 {
		a.progress(false)
	}
}

func (a *audit) found(what string, w desired, f file, why string) {
	fetching := what != Unverifiable && a.c.isFetched(w.url)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.step()
	if fetching {
		a.problems[keyOf(w.url)] = struct{}{}
		a.report.UnderWay++
		return
	}
	if a.repair && what != Unverifiable {
		w.change, w.changedAt, w.force, w.mark, w.again = "", later(w.changedAt, f.ChangedAt), true, false, false
		a.lacking = append(a.lacking, w)
	}
	a.note(Finding{what, w.url, f.Path, why})
}

// note counts a finding, and stores the first ones of each kind.
func (a *audit) note(f Finding) {
	if f.What != Unverifiable {
		a.problems[keyOf(cmp.Or(f.URL, f.Path))] = struct{}{}
	}
	if a.counts[f.What]++; a.counts[f.What] <= maxProblems {
		a.report.Findings = append(a.report.Findings, f)
	}
}

func (a *audit) progress(finished bool) {
	a.c.o.Progress(Progress{
		What: "audit", Done: a.done, Total: max(a.total, a.done), Failed: a.counts[Missing] + a.counts[Differing], Bytes: a.report.Bytes,
		Began: a.report.Began, Finished: finished, CurrentlyFor: a.c.o.Source,
	})
}
