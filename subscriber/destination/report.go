package destination

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Problem is a resource that could not be had or deleted.
type Problem struct {
	URL    string                  `json:"url,omitempty"`
	Path   string                  `json:"path,omitempty"` // of a file that belongs to no resource
	Change resourcesync.ChangeType `json:"change,omitempty"`
	Why    string                  `json:"why"`
}

// Report is what a run did.
type Report struct {
	Source   string        `json:"source"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
	DryRun   bool          `json:"dry_run,omitempty"`
	Baseline string        `json:"baseline,omitempty"` // the list or dump that it was taken from, the last of several; empty: none was
	// Each resource counts once, as what became of it in the end.
	Copied  int `json:"copied"`
	Deleted int `json:"deleted"`
	// Unchanged were there already as they should be.
	Unchanged int   `json:"unchanged"`
	Bytes     int64 `json:"bytes"` // of Copied
	// Failed could not be had, and Held were not deleted (Options.MaxDelete); the
	// first of both are in Problems. Both are tried again by the next run.
	Failed   int       `json:"failed"`
	Held     int       `json:"held"`
	Problems []Problem `json:"problems"`
	// Until is how far the copy is in step with the Source, zero where its sets
	// differ or do not tell.
	Until time.Time `json:"until,omitzero"`
	// Sets are the Source's, in its order, as far as the run came.
	Sets []SetReport `json:"sets,omitempty"`
}

// SetReport is how far a run brought one set.
type SetReport struct {
	Set      string    `json:"set"`                // the URL of its Capability List, or of what it has instead
	Baseline string    `json:"baseline,omitempty"` // as in Report
	Until    time.Time `json:"until,omitzero"`     // how far it is in step; zero: it does not tell
	Error    string    `json:"error,omitempty"`    // why it could not be brought in step
}

// InSync reports whether the run left nothing undone.
func (r *Report) InSync() bool { return r.Failed == 0 && r.Held == 0 }

// tally counts a Report from several goroutines.
type tally struct {
	mu sync.Mutex
	// undone are the resources, by URL or path, that are not as they should be
	// now; what comes right later in a run is no problem any more.
	undone map[string]undone
	// counted is as what each resource is counted, by its URL or path: a run may come to
	// it several times, and it counts once.
	counted map[key]counted
	Report
}

// counted is as what a resource is counted, and with how many bytes.
type counted struct {
	what  string
	bytes int64
}

type undone struct {
	held bool
	why  *Problem // nil: there were many before it
}

func newTally(source string) *tally {
	return &tally{Report: Report{Source: source, Began: time.Now(), Problems: []Problem{}}, undone: map[string]undone{}, counted: map[key]counted{}}
}

// event counts an event.
func (t *tally) event(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := e.URL
	if name == "" {
		name = e.Path
	}
	delete(t.undone, name)
	t.count(keyOf(name), counted{e.What, e.Bytes})
	switch e.What {
	case Failed, HeldBack:
		u := undone{held: e.What == HeldBack}
		if len(t.undone) < 10*maxProblems {
			u.why = &Problem{URL: e.URL, Change: e.Change, Why: e.Err.Error()}
			if e.URL == "" {
				u.why.Path = e.Path
			}
		}
		t.undone[name] = u
	}
}

// count counts what became of a resource in place of what it counted as before. What was
// copied or deleted in this run stays so when it is found unchanged after that. Called
// with mu held.
func (t *tally) count(name key, now counted) {
	was := t.counted[name]
	if now.what == Unchanged && (was.what == Copied || was.what == Deleted) {
		return
	}
	add := func(c counted, n int) {
		switch c.what {
		case Copied:
			t.Copied += n
			t.Bytes += int64(n) * c.bytes
		case Deleted:
			t.Deleted += n
		case Unchanged:
			t.Unchanged += n
		}
	}
	add(was, -1)
	add(now, 1)
	t.counted[name] = now
}

// baseline notes where a baseline comes from.
func (t *tally) baseline(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Baseline = address
	if n := len(t.Sets); n > 0 {
		t.Sets[n-1].Baseline = address
	}
}

// begin says which set the run is about from now on.
func (t *tally) begin(set string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sets = append(t.Sets, SetReport{Set: set})
}

// end says how far the run brought the set that was begun last.
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

// tried reports whether a resource failed in this run already.
func (t *tally) tried(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.undone[url]
	return ok
}

// report is the Report of a run that has ended.
func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.Report
	r.Took = time.Since(r.Began)
	for _, u := range t.undone {
		if u.held {
			r.Held++
		} else {
			r.Failed++
		}
		if u.why != nil {
			r.Problems = append(r.Problems, *u.why)
		}
	}
	slices.SortFunc(r.Problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Path, b.Path)) })
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	return r
}
