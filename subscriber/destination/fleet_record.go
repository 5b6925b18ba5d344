package destination

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// fleetFile is what a Fleet remembers: its members, so that one that is left out is
// unsubscribed although nobody names its folder any more.
const fleetFile = "fleet.db"

var membersBucket = []byte("members") // fleetRecord by name in lower case

func fleetOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{membersBucket}, Format: 1, Wait: time.Second,
		Advice: "Move it away and start again: the copies have states of their own. Only copies that were left out meanwhile stay subscribed until their leases end",
	}
}

// fleetRecord is a member on disk: what is needed to end its subscriptions.
type fleetRecord struct {
	Name     string `json:"name"`
	Source   string `json:"source"`
	Dir      string `json:"dir"`
	StateDir string `json:"state_dir"`
	// Leaving says that its subscriptions are to be ended.
	Leaving bool `json:"leaving,omitempty"`
}

// recordOfMember returns what is stored of a member.
func recordOfMember(m *Member) fleetRecord {
	r := fleetRecord{Name: m.Name, Source: m.Options.Source, Dir: m.Options.Dir, StateDir: m.Options.StateDir}
	if r.StateDir == "" {
		r.StateDir = filepath.Join(r.Dir, stateName)
	}
	if dir, err := filepath.Abs(r.Dir); err == nil { // the next start may be in another folder
		r.Dir = dir
	}
	if dir, err := filepath.Abs(r.StateDir); err == nil {
		r.StateDir = dir
	}
	return r
}

// recorded reads all members.
func (f *Fleet) recorded() (all []fleetRecord, err error) {
	err = f.db.View(func(tx *boltfile.Tx) error {
		for _, raw := range tx.Bucket(membersBucket).From(nil) {
			var r fleetRecord
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all, err
}

// putRecords stores all members in place of those that were stored.
func (f *Fleet) putRecords(all map[string]fleetRecord) error {
	return f.db.Update(func(tx *boltfile.Tx) error {
		err := tx.Clear(membersBucket)
		for key, r := range all {
			err = errors.Join(err, tx.Bucket(membersBucket).PutJSON([]byte(key), r))
		}
		return err
	})
}

// forget drops a member that has left. False: it is wanted again.
func (f *Fleet) forget(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !m.leaves() {
		return false
	}
	if err := f.db.Update(func(tx *boltfile.Tx) error { return tx.Bucket(membersBucket).Delete([]byte(m.key)) }); err != nil {
		f.log.Warn("it could not be stored that a copy is not followed any more; the next start ends its subscriptions again", "event", "state_failed", "source", m.name, "error", err)
	}
	delete(f.members, m.key)
	return true
}
