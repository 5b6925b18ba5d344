package destination

import (
	"sync"
	"time"
)

// Problem is a resource that could not be had or deleted.
type Problem struct {
	URL    string `json:"url"`
	Change string `json:"change,omitempty"`
	Why    string `json:"why"`
}

// Report is what a run did.
type Report struct {
	Source   string        `json:"source"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
	DryRun   bool          `json:"dry_run,omitempty"`
	Baseline string        `json:"baseline,omitempty"` // the list or dump that it was taken from; empty: none was
	Copied   int           `json:"copied"`
	Deleted  int           `json:"deleted"`
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
}

// InSync reports whether the run left nothing undone.
func (r *Report) InSync() bool { return r.Failed == 0 && r.Held == 0 }

// tally counts a Report from several goroutines.
type tally struct {
	mu     sync.Mutex
	failed map[string]struct{} // the URLs of Failed and Held
	Report
}

func (t *tally) event(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.What {
	case Copied:
		t.Copied++
		t.Bytes += e.Bytes
	case Deleted:
		t.Deleted++
	case Unchanged:
		t.Unchanged++
	case Failed:
		t.Failed++
	case HeldBack:
		t.Held++
	}
	if e.What == Failed || e.What == HeldBack {
		if t.failed == nil {
			t.failed = map[string]struct{}{}
		}
		t.failed[e.URL] = struct{}{}
	}
	if e.Err != nil && len(t.Problems) < maxProblems {
		t.Problems = append(t.Problems, Problem{e.URL, e.Change, e.Err.Error()})
	}
}

// tried reports whether a resource failed in this run already.
func (t *tally) tried(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.failed[url]
	return ok
}
