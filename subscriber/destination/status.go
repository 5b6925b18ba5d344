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

// SetStatus is the status of one set of the copy.
type SetStatus struct {
	// Set is the URL of its Capability List, or of the document that it has instead; empty if its
	// folder does not say it.
	Set string `json:"set,omitempty"`
	// Status is that of its stream of changes; AsOf is zero if it has none.
	subscriber.Status
	// Framework is the status of its stream of framework notifications, which tell of new
	// documents; nil: it has none.
	Framework *subscriber.Status `json:"framework,omitempty"`
	// BaselineAt is the time of the state of the Source that its last baseline copied.
	BaselineAt time.Time `json:"baseline_at,omitzero"`
	// Pinned is the state that the copy has in place of the current one; nil: it has the current one.
	Pinned *Pinned `json:"pinned,omitempty"`
	// SyncedAt is when a baseline or changes were last carried out since the start. Zero: nothing
	// was carried out yet, or the time is unknown. ReadStatus never knows it.
	SyncedAt time.Time `json:"synced_at,omitzero"`
	// Failed counts the resources that could not be fetched. DeletionsHeld counts the files that
	// the Source no longer has and that Options.MaxDelete keeps. Held are the URLs of the first
	// of these.
	Failed        int      `json:"failed"`
	DeletionsHeld int      `json:"deletions_held"`
	Held          []string `json:"held,omitempty"`
	// Selection is what the copy has of the Source; nil: everything. Copy.Status does not say it.
	Selection *Selection `json:"selection,omitempty"`
}

const (
	statusFile  = "copy.json" // for ReadStatus, since a running Copy has the state locked
	statusEvery = 2 * time.Second
	statusHeld  = 10 // URLs of a set that are named
)

// keepStatus writes the status for other processes, until ctx ends.
func (c *Copy) keepStatus(ctx context.Context) {
	for again := true; again; again = clock.Sleep(ctx, statusEvery) {
		if err := c.writeStatus(); err != nil {
			c.log.Warn("the status could not be written", "event", "status_failed", "error", err)
		}
	}
}

// writeStatus writes the status of each set, if it may have changed.
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
	var part *Selection
	if c.selection != nil && !c.selection.All() {
		part = &c.selection.Selection
	}
	for name, st := range setsTable.all(c.state) {
		of(name).BaselineAt, of(name).Selection = st.BaselineAt, part
		if p := c.state.pinned(); !p.IsZero() {
			of(name).Pinned = &p
		}
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
	counted := []SetStatus{}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		counted = append(counted, *sets[name])
	}
	c.counted.Store(&counted)
	raw, err := json.Marshal(counted)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(c.o.StateDir, statusFile), atomicfile.Options{Durability: atomicfile.Volatile}, append(raw, '\n'))
}

// lostStatus returns the last status of a copy whose state was lost; nil: it was not, or the status was lost too.
func (c *Copy) lostStatus() []SetStatus {
	if !c.state.isNew() {
		return nil
	}
	sets, _ := ReadStatus(c.home) // it may not be there
	return sets
}

// Status returns the status of each set while Follow runs, in the order of their URLs. The counts
// of files are some seconds old.
func (c *Copy) Status() ([]SetStatus, error) {
	var out []SetStatus
	if counted := c.counted.Load(); counted != nil {
		out = slices.Clone(*counted)
	}
	var errs []error
	for _, stream := range c.follower.handlers.all() {
		st, err := stream.Status()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		setOf(&out, stream.set).Status = st
	}
	for _, stream := range c.follower.handlers.allNamed() {
		st, err := stream.Status()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		setOf(&out, stream.set).Framework = &st
	}
	for i := range out {
		if c.follower.handlers.isPolled(digest(out[i].Set, 8)) {
			out[i].Way = subscriber.ViaPoll
		}
		if at, ok := c.follower.synced.Load(out[i].Set); ok {
			out[i].SyncedAt, _ = at.(time.Time)
		}
	}
	return out, errors.Join(errs...)
}

// setOf returns the entry of a set, and adds one if there is none.
func setOf(all *[]SetStatus, set string) *SetStatus {
	i := slices.IndexFunc(*all, func(s SetStatus) bool { return s.Set == set })
	if i < 0 {
		*all, i = append(*all, SetStatus{Set: set}), len(*all)
	}
	return &(*all)[i]
}

// Ready returns nil if Follow has a baseline of every set and accepts notifications, otherwise
// why not.
func (c *Copy) Ready() error {
	if _, whole := c.follower.handlers.get(""); !whole {
		return errors.New("not every set has a baseline yet; the log says what it waits for")
	}
	return nil
}

// Stored returns nil if the state can be read and its last write succeeded, and the disk has
// room; otherwise why not.
func (c *Copy) Stored() error {
	errs := []error{c.state.unreadable()}
	errs = append(errs, cmp.Or(c.state.db.Ready(), c.state.db.Trouble()), c.space.free(0))
	for _, stream := range slices.Concat(c.follower.handlers.all(), c.follower.handlers.allNamed()) {
		errs = append(errs, stream.Ready())
	}
	return errors.Join(errs...)
}

// setName is the file beside a set's stream that names the set. The name of the folder does not,
// and the state itself can't be read while a Copy has it open.
const setName = "set"

// nameSet records which set's stream is in a folder.
func nameSet(dir, set string) error {
	if readSetName(dir) == set {
		return nil
	}
	return atomicfile.WriteBytes(filepath.Join(dir, setName), atomicfile.Options{Durability: atomicfile.Volatile}, []byte(set+"\n"))
}

// readSetName returns what nameSet recorded; empty: nothing.
func readSetName(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, setName)) //nolint:gosec // the folder is the caller's
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// IsState reports whether a folder is the Options.StateDir of a copy. As long as the copy has no baseline, ReadStatus may
// return no set.
func IsState(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, stateFile))
	return err == nil && info.Mode().IsRegular()
}

// ReadStatus reads the status of each set of the copy whose Options.StateDir is dir, in the order
// of their URLs. If another process works on the copy, the status is some seconds old. With an
// error it returns the sets that could be read. The error wraps fs.ErrNotExist if there is no such folder.
func ReadStatus(dir string) ([]SetStatus, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	var out []SetStatus
	var err error
	name := filepath.Join(dir, statusFile)
	switch raw, failed := os.ReadFile(name); { //nolint:gosec // the folder is the caller's
	case failed == nil:
		if failed = json.Unmarshal(raw, &out); failed != nil {
			err, out = fmt.Errorf("%s is damaged, and the next sync writes it anew: %w", name, failed), nil
		}
	case !errors.Is(failed, fs.ErrNotExist):
		err = failed
	}
	for _, d := range streamsIn(dir) {
		st, failed := subscriber.ReadStatus(d)
		if failed != nil {
			if err == nil || !errors.Is(failed, fs.ErrNotExist) { // a stream that has not begun is the least trouble
				err = failed
			}
			continue
		}
		switch name := readSetName(d); {
		case !strings.HasPrefix(filepath.Base(d), frameworkDirs):
			setOf(&out, name).Status = st
		case name != "":
			setOf(&out, name).Framework = &st
		}
	}
	slices.SortStableFunc(out, func(a, b SetStatus) int { return cmp.Compare(a.Set, b.Set) })
	return out, err
}
