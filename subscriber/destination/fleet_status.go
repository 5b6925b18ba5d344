package destination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/clock"
)

// MemberStatus is what there is to know about one copy of a Fleet.
type MemberStatus struct {
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Dir      string    `json:"dir"`
	StateDir string    `json:"state_dir"`
	State    string    `json:"state"` // one of StateStarting and the others
	Since    time.Time `json:"since"` // of the state
	// Ready says that there is a baseline of every set.
	Ready bool `json:"ready"`
	// Trouble is why the Source or its sets are not in sync; empty: they are, as far as is
	// known.
	Trouble string      `json:"trouble,omitempty"`
	Sets    []SetStatus `json:"sets,omitempty"`
}

// Status returns the status of each member, in the order of their names.
func (f *Fleet) Status() []MemberStatus {
	f.mu.Lock()
	var all []*member
	for _, key := range slices.Sorted(maps.Keys(f.members)) {
		all = append(all, f.members[key])
	}
	f.mu.Unlock()
	out := make([]MemberStatus, 0, len(all))
	for _, m := range all {
		out = append(out, m.status(true))
	}
	return out
}

// status returns the status of a member, with that of its sets or without.
func (m *member) status(sets bool) MemberStatus {
	m.mu.Lock()
	r := m.stored
	st := MemberStatus{Name: m.name, Source: r.Source, Dir: r.Dir, StateDir: r.StateDir, State: m.state, Since: m.since}
	if m.why != nil {
		st.Trouble = m.why.Error()
	}
	m.mu.Unlock()
	c := m.copy.Load()
	if c == nil || st.State != StateFollowing {
		return st
	}
	st.Ready, st.Trouble = c.Ready() == nil, c.Trouble()
	if err := c.Stored(); err != nil {
		st.Trouble = strings.TrimPrefix(st.Trouble+"; "+err.Error(), "; ")
	}
	if sets {
		st.Sets, _ = c.Status() // of those that could be read
	}
	return st
}

// Ready returns nil if the Fleet can read and write what it remembers, otherwise why not. A
// copy in trouble makes no Fleet unready: Status has it.
func (f *Fleet) Ready() error { return errors.Join(f.db.Ready(), f.db.Trouble()) }

// Trouble says what keeps the copy from being in sync while Follow runs; empty: nothing that
// is known.
func (c *Copy) Trouble() string { return c.follower.troubles.String() }

// fleetStatusFile is what ReadFleet reads, since a running Fleet has its own file locked.
const fleetStatusFile = "fleet.json"

// keepStatus writes the status for those who look from outside, until ctx ends.
func (f *Fleet) keepStatus(ctx context.Context) {
	for again := true; again; again = clock.Sleep(ctx, statusEvery) {
		f.mu.Lock()
		var all []MemberStatus
		for _, key := range slices.Sorted(maps.Keys(f.members)) {
			all = append(all, f.members[key].status(false))
		}
		f.mu.Unlock()
		raw, err := json.Marshal(all)
		if err == nil {
			err = atomicfile.WriteBytes(filepath.Join(f.o.Dir, fleetStatusFile), atomicfile.Options{Durability: atomicfile.Volatile}, append(raw, '\n'))
		}
		if err != nil {
			f.log.Warn("the status could not be written", "event", "status_failed", "error", err)
		}
	}
}

// ReadFleet reads the status of each member of the Fleet whose FleetOptions.Dir is dir, in the
// order of their names. A Fleet that runs is seconds ahead of it.
func ReadFleet(dir string) ([]MemberStatus, error) {
	name := filepath.Join(dir, fleetStatusFile)
	raw, err := os.ReadFile(name) //nolint:gosec // the folder is the caller's
	if err != nil {
		return nil, err
	}
	var all []MemberStatus
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	for i := range all {
		var failed error
		if all[i].Sets, failed = ReadStatus(all[i].StateDir); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("%s: %w", all[i].Name, failed))
		}
	}
	return all, err
}

// roomFor is how many bytes of notifications a Fleet reads at once.
const roomFor = 512 << 20

// room bounds the memory of the deliveries that are being read, over all copies.
type room struct{ bytes atomic.Int64 }

// serve has h answer, or asks a hub to come again.
func (x *room) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	if size < 0 {
		size = roomFor / 8 // the most that a copy reads
	}
	if r.Method != http.MethodPost {
		size = 0
	}
	defer x.bytes.Add(-size)
	if x.bytes.Add(size) > roomFor && size > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(10))
		http.Error(w, "There is no room for more notifications now.", http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, r)
}
