package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/resourcesync"
)

// rulesName is the file with the rules that the documents were written by.
const rulesName = "rules.yaml"

// SetRules replaces the rules of a set while the Source runs. Every resource whose entry is
// another one now is published as updated: there is no other way in which a Destination that reads
// only changes would learn of it. Their addresses cannot change: the error says that this takes a
// restart. After an error the rules are those of before, unless the disk failed.
func (s *Source) SetRules(name string, rs *Rules) error {
	s.ruling.Lock()
	defer s.ruling.Unlock()
	for _, x := range s.sets {
		if x.name != name {
			continue
		}
		if now := rs.address(x.composer.address.Prefix); !now.equal(&x.composer.address) {
			return errors.New("the section address has changed, which moves resources: restart rspub to publish that")
		}
		if err := (ruler{x}).apply(x.composer.rules.Load(), rs, true); err != nil {
			return err
		}
		return s.describe()
	}
	return fmt.Errorf("there is no set %q", name)
}

// address returns the address that a prefix and rules make.
func (rs *Rules) address(prefix string) address {
	if rs == nil {
		return address{Prefix: prefix}
	}
	return address{Prefix: prefix, Index: rs.index, Drop: rs.drop}
}

// ruler puts rules in force in a set.
type ruler struct{ set *set }

// open brings the rules of the last run and those of this one together. Nothing runs yet.
func (s ruler) open(now *Rules) error {
	var before *Rules
	text, err := os.ReadFile(s.set.rulesFile)
	switch {
	case err == nil:
		// One that this version can't read counts as one without rules.
		if before, err = ParseRules(rulesName, text); err != nil {
			before = nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.apply(before, now, s.set.shelf.current().has(capabilityListPath))
}

// apply puts rules in force. If there are documents already, it logs as updated every
// resource that they change. The file is written at the end, so a process that is killed
// begins again.
func (s ruler) apply(before, now *Rules, published bool) error {
	s.set.composer.rules.Store(now)
	if before.is(now) {
		return nil
	}
	if published && s.set.index.Ready() {
		n, err := s.announceRuled(before, now)
		if err != nil {
			return err
		}
		s.set.composer.log.Info("the rules have changed; the resources whose entries do are published as updated", "event", "rules_applied", "resources", n)
		if s.set.index.Len() > 0 {
			s.set.composer.logUnused()
		}
		s.set.moved.Broadcast()
		e := s.set.shelf.edition()
		if err := s.set.show(e, func(*register) error { return nil }); err != nil {
			return err
		}
	}
	text := ""
	if now != nil {
		text = now.text
	}
	return atomicfile.WriteBytes(s.set.rulesFile, atomicfile.Options{}, []byte(text))
}

// is reports whether two rules were written in the same way.
func (rs *Rules) is(other *Rules) bool {
	text := func(rs *Rules) string {
		if rs == nil {
			return ""
		}
		return rs.text
	}
	return text(rs) == text(other)
}

// announceRuled logs as updated the resources whose entries are others by the new rules.
func (s ruler) announceRuled(before, now *Rules) (n int, err error) {
	if before == nil {
		before = &Rules{}
	}
	if now == nil {
		now = &Rules{}
	}
	err = s.set.index.read(func(snap *Snapshot) error {
		near := s.set.composer.neighbours(snap)
		n, err = s.set.index.logEach(resourcesync.Updated, snap.Resources(), func(r *Resource) (bool, error) {
			if before.mediaType(r) != now.mediaType(r) || before.encoding(r) != now.encoding(r) {
				return true, nil
			}
			loc := near.url(r)
			was, err := before.linksOf(r, loc, near)
			if err != nil {
				return false, err
			}
			is, err := now.linksOf(r, loc, near)
			return !reflect.DeepEqual(was, is), err
		})
		return err
	})
	return n, err
}

// logUnused logs once which rules are for no path. All resources were looked at.
func (s *composer) logUnused() {
	rs := s.rules.Load()
	if rs == nil {
		return
	}
	rs.unused.Do(func() {
		var lines []string
		for i := range rs.resources {
			if r := &rs.resources[i]; !r.used.Load() {
				lines = append(lines, r.line)
			}
		}
		if len(lines) > 0 {
			s.log.Warn("no resource has a path that these rules are for", "event", "rules_unused", "rules", lines)
		}
	})
}

// describes returns the links of the set or the Source as a whole (LNK-12).
func (s *composer) describes(pick func(rs *Rules) []resourceLink) (links []resourcesync.Link) {
	rs := s.rules.Load()
	if rs == nil {
		return nil
	}
	for _, x := range pick(rs) {
		to, _ := x.to.expand(&Resource{}, "") // it has no placeholders
		if !x.to.isURL {
			to = s.urlOf(&s.address, &Resource{Path: to})
		}
		links = append(links, resourcesync.Link{Rel: x.rel, Href: to, Type: x.mediaType})
	}
	return links
}

// openNeighbours connects the index with the address and the rules, and checks that no two
// resources have one URL.
func openNeighbours(s *set, rs *Rules) error {
	s.index.near.related = func(path string) []string {
		if rs := s.composer.rules.Load(); rs != nil {
			return rs.related(path)
		}
		return nil
	}
	a := &s.composer.address
	if len(a.Index)+len(a.Drop) == 0 {
		return nil
	}
	s.index.near.rivals = a.rivals
	path, rival, err := s.index.collision()
	if err == nil && rival != "" {
		err = fmt.Errorf("%s: %q and %q would both be listed at %s; rename one of them, or leave out what shortens their URLs", rs.addressLine, path, rival, s.composer.urlOf(a, &Resource{Path: path}))
	}
	return err
}

// rulesPath is where the rules of a set are remembered.
func rulesPath(state string) string { return filepath.Join(state, rulesName) }
