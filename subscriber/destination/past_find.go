package destination

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// snapshot is a Resource List or Resource Dump, with the time of the state that it describes.
type snapshot struct {
	capability, address string
	at                  time.Time
}

// past is a set as a document describes it, or as it was at an instant.
type past struct {
	base  snapshot   // zero: there are changes only
	docs  *documents // of base
	newer map[string]desired
	dumps []string  // Change Dumps that have the bytes of newer or, without a Change List, the changes
	since time.Time // of the changes
	at    time.Time
	lists bool // newer has all changes
}

// remove removes what was downloaded.
func (p *past) remove() {
	if p.docs != nil {
		p.docs.remove()
	}
}

// snapshots returns the snapshots of a set: those in its archives, and the current ones.
func (l *lists) snapshots(ctx context.Context, set namedSet, of ...string) ([]snapshot, error) {
	archives := map[string]string{resourcesync.ResourceDump: resourcesync.ResourceDumpArchive, resourcesync.ResourceList: resourcesync.ResourceListArchive}
	var all []snapshot
	for _, capability := range of {
		if archive := set.Documents[archives[capability]]; archive != "" {
			docs, err := l.download(ctx, archive, archives[capability], setState{})
			if err != nil {
				return nil, err
			}
			defer docs.remove()
			for e, err := range docs.entries() {
				if err != nil {
					return nil, err
				}
				all = append(all, snapshot{capability, e.Loc, e.At})
			}
		}
		if address := set.Documents[capability]; address != "" {
			all = append(all, snapshot{capability: capability, address: address})
		}
	}
	for i := range all {
		if all[i].at.IsZero() {
			at, err := l.timeOf(ctx, all[i].address)
			if err != nil {
				return nil, err
			}
			all[i].at = at
		}
	}
	slices.SortStableFunc(all, func(a, b snapshot) int { return b.at.Compare(a.at) })
	return all, nil
}

// timeOf returns the time of the state that a list or dump describes. It reads its head only.
func (l *lists) timeOf(ctx context.Context, address string) (time.Time, error) {
	began := time.Now()
	return patiently(ctx, func() (time.Time, error) {
		resp, err := l.web.ask(ctx, address, http.Header{"Accept": {"application/xml, text/xml;q=0.9, */*;q=0.1"}})
		if err != nil {
			return time.Time{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return time.Time{}, &subscriber.StatusError{URL: address, Status: resp.StatusCode}
		}
		head, err := readerOf(resp.Body, l.most).Head()
		if err != nil {
			return time.Time{}, &refusedError{fmt.Errorf("reading %s: %w", address, err)}
		}
		return asOf(&fetched{head: head, resp: resp}, began), nil
	})
}

// newest returns the newest snapshot that is not later than an instant; zero: there is none.
// All are sorted, the newest first.
func newest(all []snapshot, capability string, to time.Time) snapshot {
	for _, one := range all {
		if !one.at.After(to) && (capability == "" || one.capability == capability) {
			return one
		}
	}
	return snapshot{}
}

// named returns the set as the document describes it that Options.Source names.
func (s *pinner) named(ctx context.Context, set namedSet) (*past, error) {
	for capability, address := range set.Documents {
		p := &past{newer: map[string]desired{}, base: snapshot{capability: capability, address: address}, lists: true}
		switch capability {
		case resourcesync.ChangeDump:
			p.base, p.dumps, p.since, p.lists = snapshot{}, []string{address}, firstInstant, false
			return p, nil
		case resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive:
			of := resourcesync.ResourceList
			if capability == resourcesync.ResourceDumpArchive {
				of = resourcesync.ResourceDump
			}
			all, err := s.lists.snapshots(ctx, set, of)
			if err != nil {
				return nil, err
			}
			if p.base = newest(all, of, time.Now()); p.base.address == "" {
				return nil, fmt.Errorf("%w: the archive %s lists none", ErrNoState, address)
			}
		}
		var err error
		if p.docs, err = s.lists.download(ctx, p.base.address, p.base.capability, setState{}); err != nil {
			return nil, err
		}
		p.at, p.base.at = p.docs.at, p.docs.at
		if capability == resourcesync.ChangeList {
			err = p.fromChangeList(set)
		}
		if err != nil {
			p.docs.remove()
		}
		return p, err
	}
	return nil, fmt.Errorf("%w: %s", errNothing, set.name)
}

// fromChangeList makes the changes of a list the whole state.
func (p *past) fromChangeList(set namedSet) error {
	p.base, p.at = snapshot{}, time.Time{}
	for _, part := range p.docs.parts {
		p.at = later(p.at, part.head.Until)
	}
	for e, err := range p.docs.entries() {
		if err != nil {
			return err
		}
		p.newer[e.Loc] = desiredFrom(set.name, &e)
		p.at = later(p.at, e.Datetime)
	}
	return nil
}

// asOf returns a set as it was at an instant: the newest snapshot before, and the changes from
// then on.
func (s *pinner) asOf(ctx context.Context, set namedSet, to time.Time, kinds []string) (*past, error) {
	all, err := s.lists.snapshots(ctx, set, kinds...)
	if err != nil {
		return nil, err
	}
	if newest(all, "", to).address == "" {
		return nil, noState(all, to)
	}
	changes := set.offers(resourcesync.ChangeList, resourcesync.ChangeListArchive, resourcesync.ChangeDump, resourcesync.ChangeDumpArchive)
	if !changes { // then only the states of the snapshots are known
		kinds = []string{""}
	}
	var missing error
	for _, kind := range kinds {
		base := newest(all, kind, to)
		if base.address == "" {
			continue
		}
		p := &past{base: base, newer: map[string]desired{}, at: base.at, since: base.at, lists: true}
		if changes && base.at.Before(to) {
			if failed := s.changesUntil(ctx, set, p, to); failed != nil {
				missing = cmp.Or(missing, failed)
				continue
			}
		}
		p.docs, err = s.lists.download(ctx, base.address, base.capability, setState{})
		return p, err
	}
	at := newest(all, "", to).at
	return nil, fmt.Errorf("%w: the archives have it as of %s, but not all changes from then on: %w. For that state, ask for exactly this time", ErrNoState, resourcesync.FormatDatetime(at), missing)
}

// noState says what states there are instead.
func noState(all []snapshot, to time.Time) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: it offers no Resource List and no Resource Dump, in archives or otherwise", ErrNoState)
	}
	first := resourcesync.FormatDatetime(all[len(all)-1].at)
	if len(all) == 1 {
		return fmt.Errorf("%w: the only one is as of %s, which is after %s", ErrNoState, first, resourcesync.FormatDatetime(to))
	}
	return fmt.Errorf("%w: the earliest is as of %s, the latest snapshot as of %s, and %s is before both", ErrNoState,
		first, resourcesync.FormatDatetime(all[0].at), resourcesync.FormatDatetime(to))
}

// changesUntil adds the changes after the base, up to an instant.
func (s *pinner) changesUntil(ctx context.Context, set namedSet, p *past, to time.Time) error {
	var err error
	if p.dumps, err = s.lists.changeDumpsBetween(ctx, set, p.since, to); err != nil {
		return err
	}
	p.at = to
	documents := maps.Clone(set.Documents)
	documents[resourcesync.ChangeList] = cmp.Or(documents[resourcesync.ChangeList], documents[resourcesync.ChangeListArchive])
	if p.lists = documents[resourcesync.ChangeList] != ""; !p.lists {
		return nil
	}
	beyond := false
	_, err = subscriber.ReadChanges(ctx, s.source.web, subscriber.Set{Documents: documents}, p.since, s.lists.limit(), func(e resourcesync.Entry) error {
		if beyond = beyond || e.Datetime.After(to); !beyond {
			p.newer[e.Loc] = desiredFrom(set.name, &e)
		}
		return nil
	})
	return err
}

// changeDumpsBetween returns the addresses of the Change Dumps of a set that may have changes
// between two instants: those of its archive, and the current one.
func (l *lists) changeDumpsBetween(ctx context.Context, set namedSet, since, to time.Time) (all []string, err error) {
	if archive := set.Documents[resourcesync.ChangeDumpArchive]; archive != "" {
		docs, err := l.download(ctx, archive, resourcesync.ChangeDumpArchive, setState{})
		if err != nil {
			return nil, err
		}
		defer docs.remove()
		for e, err := range docs.entries() {
			if err != nil {
				return nil, err
			}
			if (e.Until.IsZero() || e.Until.After(since)) && !e.From.After(to) {
				all = append(all, e.Loc)
			}
		}
	}
	if current := set.Documents[resourcesync.ChangeDump]; current != "" && !slices.Contains(all, current) {
		all = append(all, current)
	}
	return all, nil
}
