package destination

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

// Problem is a resource that could not be fetched or deleted.
type Problem struct {
	URL    string                  `json:"url,omitempty"`
	Path   string                  `json:"path,omitempty"` // of a file that belongs to no resource
	Change resourcesync.ChangeType `json:"change,omitempty"`
	Why    string                  `json:"why"`
}

// Report describes what a run did.
type Report struct {
	Source   string        `json:"source"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
	DryRun   bool          `json:"dry_run,omitempty"`
	Pinned   Pinned        `json:"pinned,omitzero"`    // which state of the Source the copy has; zero: the current one
	Baseline string        `json:"baseline,omitempty"` // the list or dump of the last baseline; empty: there was none
	// Each resource counts once, by its last result.
	Copied  int `json:"copied"`
	Deleted int `json:"deleted"`
	// Unchanged resources were in sync already.
	Unchanged int `json:"unchanged"`
	// LeftOut counts the entries of lists and changes that the selection leaves out.
	LeftOut   int       `json:"left_out,omitempty"`
	Selection Selection `json:"selection,omitzero"`
	Bytes     int64     `json:"bytes"` // of Copied
	// Patched counts the resources of Copied that patches made of the files before.
	Patched int `json:"patched,omitempty"`
	// Failed resources could not be fetched or deleted, and Held ones were not deleted
	// because of Options.MaxDelete. The first of both are in Problems. The next run tries
	// both again.
	Failed   int       `json:"failed"`
	Held     int       `json:"held"`
	Problems []Problem `json:"problems"`
	// Instead are the hosts of mirrors and alternates that resources came from, and NotAllowed
	// the hosts that were not called because Options.Hosts does not have them.
	Instead    []InsteadReport `json:"instead,omitempty"`
	NotAllowed []string        `json:"not_allowed,omitempty"`
	// Until is how far the copy is in sync with the Source; zero if its sets differ or do not
	// state it.
	Until time.Time `json:"until,omitzero"`
	// Sets are those of the Source that the run reached, in the Source's order.
	Sets []SetReport `json:"sets,omitempty"`
	// Error is why the run did not finish; empty: it did.
	Error string `json:"error,omitempty"`
}

// InsteadReport is a host from whose addresses resources came instead of their own.
type InsteadReport struct {
	Host      string `json:"host"` // host:port
	Resources int    `json:"resources"`
	First     string `json:"first"` // the address of the first one
}

// SetReport is how far a run brought one set.
type SetReport struct {
	Set      string    `json:"set"`                // the URL of its Capability List, or of the document that it has instead
	Baseline string    `json:"baseline,omitempty"` // as in Report
	Until    time.Time `json:"until,omitzero"`     // how far it is in sync; zero: it does not state it
	Error    string    `json:"error,omitempty"`    // why the set is not in sync
	Choices  []Choice  `json:"choices,omitempty"`  // where there was a list and a dump
}

// InSync reports whether the run finished everything.
func (r *Report) InSync() bool { return r.Failed == 0 && r.Held == 0 && r.Error == "" }

// tally counts a Report from several goroutines.
type tally struct {
	mu sync.Mutex
	// counted says as what each resource is counted, by its URL or path. A run may meet a
	// resource several times, but it counts once.
	counted map[key]counted
	// problems are some of the resources that are counted as Failed or HeldBack.
	problems map[key]Problem
	Report
}

// counted is as what a resource is counted, and with how many bytes.
type counted struct {
	what  string
	bytes int64
}

func newTally(source string) *tally {
	return &tally{Report: Report{Source: source, Began: time.Now()}, problems: map[key]Problem{}, counted: map[key]counted{}}
}

// event counts an event, in place of what its resource counted as before. A resource that
// was copied or deleted in this run stays so if it is found unchanged later.
func (t *tally) event(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := keyOf(cmp.Or(e.URL, e.Path))
	delete(t.problems, name)
	was := t.counted[name]
	if e.What == Unchanged && (was.what == Copied || was.what == Deleted) {
		return
	}
	t.instead(e)
	if e.What == Copied && e.Patched {
		t.Patched++
	}
	now := counted{e.What, e.Bytes}
	t.count(was, -1)
	t.count(now, 1)
	t.counted[name] = now
	if !now.isProblem() || len(t.problems) >= 10*maxProblems {
		return
	}
	p := Problem{URL: e.URL, Change: e.Change, Why: e.Err.Error()}
	if e.URL == "" {
		p.Path = e.Path
	}
	t.problems[name] = p
}

// instead counts a resource that came from a mirror or alternate. Called with mu held.
func (t *tally) instead(e Event) {
	if e.What != Copied || e.Instead == "" {
		return
	}
	host := egress.HostPortOf(e.Instead)
	i := slices.IndexFunc(t.Instead, func(r InsteadReport) bool { return r.Host == host })
	if i < 0 && len(t.Instead) < refusedMost {
		i, t.Instead = len(t.Instead), append(t.Instead, InsteadReport{Host: host, First: e.Instead})
	}
	if i >= 0 {
		t.Instead[i].Resources++
	}
}

func (c counted) isProblem() bool { return c.what == Failed || c.what == HeldBack }

// count adds a resource n times. Called with mu held.
func (t *tally) count(c counted, n int) {
	switch c.what {
	case Copied:
		t.Copied += n
		t.Bytes += int64(n) * c.bytes
	case Deleted:
		t.Deleted += n
	case Unchanged:
		t.Unchanged += n
	case Failed:
		t.Failed += n
	case HeldBack:
		t.Held += n
	}
}

// leaveOut counts an entry that the selection leaves out.
func (t *tally) leaveOut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.LeftOut++
}

// baseline records the document that a baseline comes from.
func (t *tally) baseline(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Baseline = address
	if n := len(t.Sets); n > 0 {
		t.Sets[n-1].Baseline = address
	}
}

// begin starts the report of a set.
func (t *tally) begin(set string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sets = append(t.Sets, SetReport{Set: set})
}

// end finishes the report of the set that was started last.
func (t *tally) end(until time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := &t.Sets[len(t.Sets)-1]
	if err != nil {
		last.Error = err.Error()
		return
	}
	last.Until = until
}

// fail records why the run did not finish. Then nothing says how far the copy is in sync.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Error, t.Until = err.Error(), time.Time{}
}

// tried reports whether a resource failed in this run already.
func (t *tally) tried(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted[keyOf(url)].isProblem()
}

// report returns the Report of a run that has ended.
func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.Report
	r.Took = time.Since(r.Began)
	r.Problems = slices.AppendSeq([]Problem{}, maps.Values(t.problems))
	slices.SortFunc(r.Problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Path, b.Path)) })
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	return r
}
