package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/subscriber"
)

// SetStatus is what there is to know about one set of the copy.
type SetStatus struct {
	// Set is the URL of its Capability List, or of what it has instead; empty where its
	// folder does not say it.
	Set string `json:"set,omitempty"`
	// Status is that of its stream of changes; AsOf is zero where it has none.
	subscriber.Status
	// BaselineAt is as of when its last baseline was.
	BaselineAt time.Time `json:"baseline_at,omitzero"`
	// Failed are the resources that could not be had, and DeletionsHeld the files that the
	// Source has not any more and that Options.MaxDelete keeps. Held are the URLs of the
	// first of these.
	Failed        int      `json:"failed"`
	DeletionsHeld int      `json:"deletions_held"`
	Held          []string `json:"held,omitempty"`
}

const (
	statusFile  = "copy.json" // what ReadStatus reads beside the streams, since a running Copy has the state locked
	statusEvery = 2 * time.Second
	statusHeld  = 10 // URLs of a set that are named
)

// keepStatus writes the status for those who look from outside, until ctx ends.
func (c *Copy) keepStatus(ctx context.Context) {
	for clock.Sleep(ctx, statusEvery) {
		if err := c.writeStatus(); err != nil {
			c.log.Warn("the status could not be written", "event", "status_failed", "error", err)
		}
	}
}

// writeStatus writes what there is to know of each set, if that may be another by now.
func (c *Copy) writeStatus() error {
	if c.o.DryRun || !c.state.moved.Swap(false) {
		return nil
	}
	sets := map[string]*SetStatus{}
	of := func(name string) *SetStatus {
		if sets[name] == nil {
			sets[name] = &SetStatus{Set: name}
		}
		return sets[name]
	}
	for name, st := range setsTable.all(c.state) {
		of(name).BaselineAt = st.BaselineAt
	}
	for url, f := range c.state.failures() {
		st := of(f.Set)
		if !f.Held {
			st.Failed++
			continue
		}
		if st.DeletionsHeld++; st.DeletionsHeld <= statusHeld {
			st.Held = append(st.Held, url)
		}
	}
	raw, err := json.Marshal(slices.Collect(maps.Values(sets)))
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(c.o.StateDir, statusFile), atomicfile.Options{Durability: atomicfile.Volatile}, append(raw, '\n'))
}

// setName is the file, beside a set's stream, that says which set it is: the names of
// folders don't, and the state itself can't be read while a Copy has it.
const setName = "set"

// nameSet notes whose stream is in a folder.
func nameSet(dir, set string) error {
	if readSetName(dir) == set {
		return nil
	}
	return atomicfile.WriteBytes(filepath.Join(dir, setName), atomicfile.Options{Durability: atomicfile.Volatile}, []byte(set+"\n"))
}

// readSetName is what nameSet noted; empty: nothing.
func readSetName(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, setName)) //nolint:gosec // the folder is the caller's
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// ReadStatus reads the status of each set of the copy whose Options.StateDir is dir, in
// the order of their URLs; it may be worked on in another process, and is seconds behind
// then. Beside an error are those that could be read.
func ReadStatus(dir string) ([]SetStatus, error) {
	dirs, err := filepath.Glob(filepath.Join(dir, "set-*"))
	if err != nil {
		return nil, err
	}
	var out []SetStatus
	name := filepath.Join(dir, statusFile)
	switch raw, failed := os.ReadFile(name); { //nolint:gosec // the folder is the caller's
	case failed == nil:
		if failed = json.Unmarshal(raw, &out); failed != nil {
			err, out = fmt.Errorf("%s is damaged: %w", name, failed), nil
		}
	case !errors.Is(failed, fs.ErrNotExist):
		err = failed
	}
	for _, d := range dirs {
		st, failed := subscriber.ReadStatus(d)
		if failed != nil {
			err = failed
			continue
		}
		set := readSetName(d)
		i := slices.IndexFunc(out, func(s SetStatus) bool { return s.Set == set })
		if i < 0 {
			out, i = append(out, SetStatus{Set: set}), len(out)
		}
		out[i].Status = st
	}
	slices.SortStableFunc(out, func(a, b SetStatus) int { return cmp.Compare(a.Set, b.Set) })
	return out, err
}
