package destination

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// members are the sets that list a resource, each with the time of the change that
// said so last, zero for a baseline. A resource stays in the copy until it has none
// (LNK-11).
//
// Most resources are in one set only, and then their record says which: members of
// which that is not all have a record of their own.
type members map[string]time.Time

// membershipChange is what sets said of a resource: one that it has it, or several that they
// have it not.
type membershipChange struct {
	sets   []string
	leaves bool
	at     time.Time // of the change, zero for a baseline
}

// after is who lists a resource after somebody said so.
func (m members) after(s membershipChange) {
	for _, set := range s.sets {
		if s.leaves {
			delete(m, set)
		} else if at, ok := m[set]; !ok || s.at.After(at) {
			m[set] = s.at
		}
	}
}

// equal reports whether two have the same sets and times.
func (m members) equal(other members) bool { return maps.EqualFunc(m, other, time.Time.Equal) }

// membersOf are the members of a resource.
func membersOf(tx *boltfile.Tx, url string) members {
	var m members
	if raw := tx.Bucket(membersBucket).Get([]byte(url)); raw != nil && json.Unmarshal(raw, &m) == nil && m != nil {
		return m
	}
	return recordedMembers(tx, url)
}

// recordedMembers are those that the other records of a resource tell of: the set that
// its file came from, or else the one that wants it.
func recordedMembers(tx *boltfile.Tx, url string) members {
	var f file
	if raw := tx.Bucket(filesBucket).Get([]byte(url)); raw != nil && json.Unmarshal(raw, &f) == nil {
		return members{f.Set: f.ChangedAt}
	}
	var failed failure
	if raw := tx.Bucket(failedBucket).Get([]byte(url)); raw != nil && json.Unmarshal(raw, &failed) == nil && !failed.Change.Removes() {
		return members{failed.Set: failed.ChangedAt}
	}
	return members{}
}

// members are those of each resource that d is about, as they are with it.
func (d *records) members(tx *boltfile.Tx) map[string]members {
	out := make(map[string]members, d.len())
	had := func(url string) {
		if _, ok := out[url]; !ok {
			out[url] = membersOf(tx, url)
		}
	}
	for url := range d.files {
		had(url)
	}
	for url := range d.failed {
		had(url)
	}
	for url := range d.well {
		had(url)
	}
	for url := range d.gone {
		had(url)
	}
	for url, s := range d.says {
		had(url)
		out[url].after(s)
	}
	return out
}

// putMembers stores members, behind the other records of their resources.
func putMembers(tx *boltfile.Tx, listed map[string]members) error {
	b := tx.Bucket(membersBucket)
	for _, url := range slices.Sorted(maps.Keys(listed)) {
		var err error
		if m := listed[url]; !m.equal(recordedMembers(tx, url)) {
			err = putJSON(b, url, m)
		} else if b.Get([]byte(url)) != nil {
			err = b.Delete([]byte(url))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// members are the sets that list a resource.
func (s *state) members(url string) (m members) {
	s.view(func(tx *boltfile.Tx) error { m = membersOf(tx, url); return nil })
	return m
}

// othersList reports whether sets other than some list a resource.
func (s *state) othersList(url string, than []string) bool {
	for set := range s.members(url) {
		if !slices.Contains(than, set) {
			return true
		}
	}
	return false
}

// recordSource notes that the address of the Source leads to a set.
func (s *syncer) recordSource(set namedSet, st *setState) error {
	if st.Via == s.o.Source || st.BaselineAt.IsZero() || s.o.DryRun {
		return nil
	}
	st.Via = s.o.Source
	return s.state.putSet(set.name, *st)
}

// forgetSets forgets sets that the Source has not any more: the same address led to
// them before. What no other set lists is deleted, as far as Options.MaxDelete allows.
func (s *syncer) forgetSets(ctx context.Context, are []namedSet, t *tally) error {
	for name, st := range s.state.sets() {
		if st.Via != s.o.Source || slices.ContainsFunc(are, func(set namedSet) bool { return set.name == name }) {
			continue
		}
		s.log.Warn("the Source does not name a set any more; the copy drops what no other set lists", "event", "set_gone", "set", name)
		var wants []desired
		for url := range s.state.listedBy(name) {
			wants = append(wants, absent(name, url))
		}
		if err := s.reconciler.deleteAll(ctx, wants, t, "the Source does not have its set any more"); err != nil || s.o.DryRun {
			return err
		}
		if err := s.state.forgetSet(name); err != nil {
			return err
		}
		if err := os.RemoveAll(s.subscriberDir(name)); err != nil {
			return err
		}
	}
	return nil
}

// changesMembership reports whether it was not known what sets say of a resource.
func (s *state) changesMembership(url string, what *membershipChange) bool {
	have := s.members(url)
	then := maps.Clone(have)
	then.after(*what)
	return !then.equal(have)
}

// listedBy goes over the resources that a set lists, and those whose deletion by it was held
// back, with when the change was that said so last.
func (s *state) listedBy(set string) iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for url := range s.files() {
			if at, ok := s.members(url)[set]; ok && !yield(url, at) {
				return
			}
		}
		for url, f := range s.failures() {
			_, is := s.file(url)
			at, ok := s.members(url)[set]
			held := f.Held && f.Set == set && !ok
			if held {
				at = f.ChangedAt
			}
			if (held || ok && !is) && !yield(url, at) {
				return
			}
		}
	}
}

// sets are the sets of which there is a state.
func (s *state) sets() map[string]setState {
	return maps.Collect(all[setState](s, setsBucket))
}

// forgetSet forgets how far a set is.
func (s *state) forgetSet(name string) error {
	return s.update(func(tx *boltfile.Tx) error { return tx.Bucket(setsBucket).Delete([]byte(name)) })
}
