package destination

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// members are the sets that list a resource, each with the time of the last change that
// said so, zero for a baseline. A resource stays in the copy while it has members
// (LNK-11).
//
// Most resources are in one set only, and the record of the file names it. Other members
// have a record of their own.
type members map[string]time.Time

// membershipChange says that one set lists a resource, or that several do not any more.
type membershipChange struct {
	sets   []string
	leaves bool
	at     time.Time // of the change, zero for a baseline
}

// after changes m by what sets said of the resource.
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

// membersOf returns the members of a resource.
func membersOf(tx *boltfile.Tx, url string) members {
	if m, ok := membersTable.get(tx, url); ok && m != nil {
		return m
	}
	return recordedMembers(tx, url)
}

// listedFile is a file with the members of its resource.
type listedFile struct {
	file
	members members
}

func listedFileOf(tx *boltfile.Tx, url string, f file) listedFile {
	if m, ok := membersTable.get(tx, url); ok && m != nil {
		return listedFile{f, m}
	}
	return listedFile{f, members{f.Set: f.ChangedAt}}
}

// listedFile returns the file of a resource.
func (s *state) listedFile(url string) (l listedFile, ok bool) {
	s.view(func(tx *boltfile.Tx) {
		var f file
		if f, ok = filesTable.get(tx, url); ok {
			l = listedFileOf(tx, url, f)
		}
	})
	return l, ok
}

// listedFiles yields all files.
func (s *state) listedFiles() iter.Seq2[string, listedFile] {
	return s.listedFilesIf(func(*boltfile.Tx, string, []byte) bool { return true })
}

// changedFiles yields the files that a change brought, or that have a record of their members. The
// records of the others are not decoded: after a baseline these are nearly all.
func (s *state) changedFiles() iter.Seq2[string, listedFile] {
	return s.listedFilesIf(func(tx *boltfile.Tx, url string, raw []byte) bool {
		return bytes.Contains(raw, []byte(`"changed_at":`)) || tx.Bucket(membersTable.bucket).Get([]byte(url)) != nil
	})
}

// listedFilesIf yields the files with records that are wanted.
func (s *state) listedFilesIf(wanted func(tx *boltfile.Tx, url string, raw []byte) bool) iter.Seq2[string, listedFile] {
	return pages(s, filesTable.bucket, func(tx *boltfile.Tx, url string, raw []byte) (l listedFile, ok bool) {
		var f file
		if !wanted(tx, url, raw) || json.Unmarshal(raw, &f) != nil {
			return l, false
		}
		return listedFileOf(tx, url, f), true
	})
}

// recordedMembers returns the members that the other records of a resource imply: the set
// that its file came from, or else the set that wants it.
func recordedMembers(tx *boltfile.Tx, url string) members {
	if f, ok := filesTable.get(tx, url); ok {
		return members{f.Set: f.ChangedAt}
	}
	if f, ok := failedTable.get(tx, url); ok && !f.Change.Removes() {
		return members{f.Set: f.ChangedAt}
	}
	return members{}
}

// members returns the sets that list a resource.
func (s *state) members(url string) (m members) {
	s.view(func(tx *boltfile.Tx) { m = membersOf(tx, url) })
	return m
}

// othersList reports whether sets other than some list a resource.
func (s *state) othersList(url string, than []string) bool {
	m := s.members(url)
	m.after(membershipChange{sets: than, leaves: true})
	return len(m) > 0
}

// recordSource records that the address of the Source leads to a set.
func (s *syncer) recordSource(set namedSet, st *setState) error {
	if st.Via == s.o.Source && st.Way == set.way || st.BaselineAt.IsZero() || s.o.DryRun {
		return nil
	}
	st.Via, st.Way = s.o.Source, set.way
	return s.state.putSet(set.name, *st)
}

// forgetSets forgets sets that the Source does not have any more, if the same address led
// to them before. Resources that no other set lists are deleted, as far as
// Options.MaxDelete allows. If the sets that the Source has now list nothing, it counts as a list that is suddenly empty.
func (s *syncer) forgetSets(ctx context.Context, are []namedSet, t *tally) error {
	for name := range setsTable.all(s.state) {
		if !s.source.isGone(name) {
			continue
		}
		s.log.Warn("the Source does not name a set any more; the copy deletes resources that no other set lists", "event", "set_gone", "set", name)
		// A dry run does not know what a new set lists.
		empty := !s.o.DryRun && !slices.ContainsFunc(are, func(set namedSet) bool { return s.state.listsAny(set.name) })
		var wants []desired
		for url := range s.state.listedBy(name, nil) {
			w := absent(name, url)
			w.held = s.reconciler.emptied(empty)
			wants = append(wants, w)
		}
		if err := s.reconciler.deleteAll(ctx, wants, t, "the Source does not have its set any more", 0); err != nil || s.o.DryRun {
			return err
		}
		if err := errors.Join(s.state.forgetSet(name), os.RemoveAll(s.subscriberDir(name))); err != nil {
			return err
		}
	}
	return nil
}

// changesMembership reports whether what sets say of a resource is new.
func (s *state) changesMembership(url string, what *membershipChange) bool {
	have := s.members(url)
	then := maps.Clone(have)
	then.after(*what)
	return !then.equal(have)
}

// listedBy yields the resources that a set lists, and those whose deletion by the set is delayed,
// with the time of the last change that said so. It passes over those in but, and does not decode
// the records of their files.
func (s *state) listedBy(set string, but map[key]struct{}) iter.Seq2[string, time.Time] {
	wanted := func(url string) bool {
		_, known := but[keyOf(url)]
		return !known
	}
	return func(yield func(string, time.Time) bool) {
		for url, f := range s.listedFilesIf(func(_ *boltfile.Tx, url string, _ []byte) bool { return wanted(url) }) {
			if at, ok := f.members[set]; ok && !yield(url, at) {
				return
			}
		}
		for url, f := range failedTable.some(s, wanted) {
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

// listsAny reports whether a set lists any resource.
func (s *state) listsAny(set string) bool {
	for range s.listedBy(set, nil) {
		return true
	}
	return false
}
