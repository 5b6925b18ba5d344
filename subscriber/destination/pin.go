package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// Pinned is the state of a Source that a copy has, if that is not the current one. The first Sync
// decides which it is; a copy never gets another. The zero value is the current state.
type Pinned struct {
	// Document is the list, dump or archive that Options.Source named. The copy has what it
	// describes, and no later changes.
	Document   string `json:"document,omitempty"`
	Capability string `json:"capability,omitempty"` // of Document
	// AsOf is Options.AsOf.
	AsOf time.Time `json:"as_of,omitzero"`
}

// IsZero reports whether the copy has the current state.
func (p Pinned) IsZero() bool { return p.Document == "" && p.AsOf.IsZero() }

// String describes the state for a person.
func (p Pinned) String() string {
	switch {
	case !p.AsOf.IsZero():
		return "the state as of " + resourcesync.FormatDatetime(p.AsOf)
	case p.Document != "":
		return "the state that " + p.Document + " describes"
	}
	return "the current state of the Source"
}

func (p Pinned) equal(other Pinned) bool {
	return p.Document == other.Document && p.AsOf.Equal(other.AsOf)
}

// ErrOtherState says that a copy has another state of the Source than was asked for.
var ErrOtherState = errors.New("a copy has one state only: name another folder with Options.Dir")

// ErrNoState says that the Source does not have the state that was asked for, or not any more.
var ErrNoState = errors.New("the Source does not have this state")

// pinnedTable has one record. Without it the copy has the current state.
var pinnedTable = table[Pinned]{metaBucket}

const pinnedKey = "pinned"

// pinned returns which state the copy has.
func (s *state) pinned() Pinned {
	p, _ := pinnedTable.read(s, pinnedKey)
	return p
}

// isNew reports whether the copy has no state of a Source yet.
func (s *state) isNew() bool {
	for range setsTable.all(s) {
		return false
	}
	return s.count() == 0
}

// leadsFrom reports whether an address of the Source led to a set of the copy.
func (s *state) leadsFrom(address string) bool {
	for _, st := range setsTable.all(s) {
		if st.Via == address {
			return true
		}
	}
	return false
}

// describes says what a document at an address of the Source is for.
type describes int

const (
	theSource describes = iota // it leads to the Source, of which the current state is copied
	aState                     // it is copied itself
	nothing                    // it cannot be copied, see unusable
)

// purposeOf returns what a document of a capability is for.
func purposeOf(found *subscriber.Source) describes {
	switch found.Capability {
	case resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump:
		if found.Sets[0].CapabilityList == "" {
			return theSource // it is all that there is
		}
		return aState
	case resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive:
		return aState
	case resourcesync.ChangeListArchive, resourcesync.ChangeDumpArchive, resourcesync.ResourceDumpManifest, resourcesync.ChangeDumpManifest:
		return nothing
	case "":
		if found.MediaType == "application/zip" {
			return nothing
		}
	}
	return theSource
}

// isMissing reports whether an address is that of a document that is not there. The Source at the
// well-known place of the host is not what was asked for then. An address of a folder, such as that
// of a host, need not have a document.
func isMissing(address string, found *subscriber.Source) bool {
	var status *subscriber.StatusError
	u, err := url.Parse(address)
	return err == nil && u.Path != "" && !strings.HasSuffix(u.Path, "/") &&
		errors.As(found.Elsewhere, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// unusable says what to name instead of a document that cannot be copied.
func unusable(found *subscriber.Source) error {
	switch found.Capability {
	case "":
		return errors.New("it is a ZIP file; to copy a dump, name the Resource Dump or Change Dump that lists the package")
	case resourcesync.ResourceDumpManifest, resourcesync.ChangeDumpManifest:
		return errors.New("it is the manifest of a package; name the Resource Dump or Change Dump that lists the package")
	}
	return errors.New("it is an archive of changes, which describes no state; name one of the documents that it lists, or use Options.AsOf")
}

// pinner decides which state of the Source a copy has, and copies one that is not the current one.
type pinner struct {
	o          *Options
	log        *slog.Logger
	source     *source
	lists      *lists
	state      *state
	reconciler *reconciler
	syncer     *syncer
	lost       Pinned // the state that the copy had, if that was forgotten
}

// lostPinned returns the state that the copy has by its last status, if its own state was lost: without it the next run
// would make it a copy of the current one.
func (c *Copy) lostPinned() Pinned {
	for _, set := range c.lostStatus() {
		if set.Pinned != nil {
			return *set.Pinned
		}
	}
	return Pinned{}
}

// had returns which state the copy has, and whether it can't get another one.
func (s *pinner) had() (p Pinned, fixed bool) {
	if s.state.isNew() && !s.lost.IsZero() {
		return s.lost, true
	}
	return s.state.pinned(), !s.state.isNew()
}

// pin decides which state of the Source the copy has, and records that.
func (s *pinner) pin(found *subscriber.Source) (Pinned, error) {
	want := Pinned{AsOf: s.o.AsOf}
	have, fixed := s.had()
	purpose := purposeOf(found)
	switch {
	case !want.IsZero():
	case have.Document == s.o.Source: // whatever is there now
		want = have
	case have.IsZero() && s.state.leadsFrom(s.o.Source): // a copy that began with a list as the address of the Source
	case purpose == aState:
		want.Document, want.Capability = s.o.Source, found.Capability
	case purpose == nothing:
		return want, &OptionsError{fmt.Errorf("%s cannot be copied: %w", s.o.Source, unusable(found))}
	case !fixed && isMissing(s.o.Source, found):
		return want, fmt.Errorf("there is nothing to copy at this address, though the host has a Source (%s): %w; for its current state, give the address of the Source", cmp.Or(found.Description, found.Robots), found.Elsewhere)
	}
	switch {
	case want.equal(s.state.pinned()) && want.equal(have):
		return want, nil
	case fixed && !want.equal(have):
		return want, fmt.Errorf("the copy in %s has %v, and %v was asked for; %w", s.o.Dir, have, want, ErrOtherState)
	case s.o.DryRun:
		return want, nil
	}
	return want, s.state.update(func(w *writer) { pinnedTable.put(w, pinnedKey, want) })
}

// refusePinned returns an error if the copy has another state than the current one.
func (c *Copy) refusePinned() error {
	p, _ := c.syncer.pinner.had()
	if !c.o.AsOf.IsZero() {
		p.AsOf = c.o.AsOf
	}
	if p.IsZero() {
		return nil
	}
	return fmt.Errorf("the copy in %s has %v, which does not change; %w", c.o.Dir, p, ErrOtherState)
}

// setsOf returns the sets of a state, with the name of each in the state of the copy.
func (s *pinner) setsOf(p Pinned, found *subscriber.Source) ([]namedSet, error) {
	if p.Document == "" {
		return s.source.named(found)
	}
	return s.documentOf(p), nil
}

// documentOf returns the set that a document is.
func (s *pinner) documentOf(p Pinned) []namedSet {
	s.source.keep(p.Document)
	return []namedSet{{Set: subscriber.Set{Documents: map[string]string{p.Capability: p.Document}}, name: p.Document}}
}

// auditedSets returns the sets that the copy is compared with.
func (s *pinner) auditedSets(ctx context.Context) ([]namedSet, error) {
	if p := s.state.pinned(); p.Document != "" {
		return s.documentOf(p), nil
	}
	return s.source.sets(ctx)
}
