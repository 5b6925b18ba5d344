package subscriber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// plan is the Change Lists with the changes after an instant.
type plan struct {
	root  string // the Change List, or its index
	lists []changeList
	// unproven says that a list does not say when it begins, so the lists may not reach
	// back far enough.
	unproven bool
}

// changeList is one Change List. A zero until is open or unknown.
type changeList struct {
	url         string
	from, until time.Time
}

// makePlan finds the lists for the changes after since: first the Change List itself. If it
// is closed or begins later, also the members of its index, or else the list that its
// Capability List names now. If all of these begin later, also those of the archive
// (DST-19). The error is a tooOldError if the archive begins later, too.
func makePlan(ctx context.Context, client Doer, list, archive string, since time.Time) (plan, error) {
	p := plan{root: list}
	index, err := p.read(ctx, client, list, 0)
	if err != nil {
		return p, err
	}
	hole, open := p.covers(since)
	for _, more := range []string{index, archive} {
		if open || more == "" || more == archive && hole.IsZero() {
			continue
		}
		if _, failed := p.read(ctx, client, more, 0); failed != nil && !isGone(failed) {
			err = errors.Join(err, failed)
		}
		hole, open = p.covers(since)
	}
	switch {
	case hole.IsZero():
		return p, nil // as far as the lists go
	case err != nil:
		return p, err
	}
	return p, &tooOldError{list, hole}
}

// isGone reports whether a document is permanently missing.
func isGone(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// changeLists finds the Change List of the topic's set, and its archive, which
// may be empty.
func (r *repairer) changeLists(ctx context.Context) (list, archive string, err error) {
	if r.o.Look != nil {
		return "", "", errNoList
	}
	if r.o.ChangeList != "" {
		return r.o.ChangeList, r.o.ChangeListArchive, nil
	}
	d, err := r.renewal.discover(ctx)
	if err != nil && d.Topic == "" {
		return "", "", err
	}
	source, err := DiscoverSource(ctx, r.o.Client, cmp.Or(d.CapabilityList, d.Topic))
	if err != nil {
		return "", "", fmt.Errorf("looking for the Change List of %s: %w", d.Topic, err)
	}
	i := slices.IndexFunc(source.Sets, func(set Set) bool { return set.Topic == d.Topic })
	if i < 0 && len(source.Sets) == 1 {
		i = 0
	}
	if i < 0 || source.Sets[i].Documents[resourcesync.ChangeList] == "" {
		return "", "", fmt.Errorf("%s: %w", d.Topic, errNoList)
	}
	docs := source.Sets[i].Documents
	return docs[resourcesync.ChangeList], docs[resourcesync.ChangeListArchive], nil
}

// asWritten is the address of an entry as its document writes it. Documents and topics are
// compared byte by byte.
func asWritten(e *resourcesync.Entry) string { return cmp.Or(e.Written, e.Loc) }

// isChangeList returns an error for a document of another kind. Its entries would count as changes.
func (d *document) isChangeList() error {
	if d.head.Capability != resourcesync.ChangeList {
		return fmt.Errorf("reading %s: it is a document of the capability %q, and a %q is wanted", d.url, d.head.Capability, resourcesync.ChangeList)
	}
	return nil
}

// read adds a Change List, or all that an index, an archive or a Capability List names, to
// the plan. It returns where there may be more: the index of the list, or the Capability
// List of a closed list without an index. The root of a document says what it is (DST-18).
func (p *plan) read(ctx context.Context, client Doer, address string, depth int) (index string, err error) {
	d, err := open(ctx, client, address, 0)
	if err != nil {
		return "", err
	}
	defer d.end()
	for _, rel := range []string{"index", "up"} { // from a closed one, this leads to the next
		if up, ok := d.head.Link(rel); ok && index == "" && (rel == "index" || !d.head.Until.IsZero()) {
			index, _ = web.Resolve(d.url, up.Href)
		}
	}
	archive := d.head.Capability == resourcesync.ChangeListArchive
	if d.head.Capability == resourcesync.CapabilityList {
		set, err := readSet(d)
		d.end() // so that one answer at a time is open
		if next := set.Documents[resourcesync.ChangeList]; err == nil && next != "" && depth < maxUps {
			_, err = p.read(ctx, client, next, depth+1)
		}
		return "", err
	}
	if !archive {
		if err := d.isChangeList(); err != nil {
			return "", err
		}
	}
	if !d.head.Index && !archive {
		p.add(changeList{address, d.head.From, d.head.Until})
		return index, nil
	}
	var within []string
	for e, err := range d.Entries() {
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", d.url, err)
		}
		target, err := web.Resolve(d.url, asWritten(&e))
		switch {
		case err != nil:
			return "", fmt.Errorf("%s names %q: %w", d.url, e.Loc, err)
		case len(p.lists)+len(within) >= maxLists:
			return "", fmt.Errorf("%s leads to more than %d Change Lists", d.url, maxLists)
		case d.head.Index && archive, e.From.IsZero():
			within = append(within, target) // only the list itself says when it begins
		default:
			p.add(changeList{target, e.From, e.Until})
		}
	}
	if len(within) > 0 && depth >= maxUps {
		return "", fmt.Errorf("%s: indexes within indexes, %d deep", d.url, depth)
	}
	d.end() // as above
	for _, w := range within {
		if _, err := p.read(ctx, client, w, depth+1); err != nil {
			return "", err
		}
	}
	return index, nil
}

func (p *plan) add(l changeList) {
	if !slices.ContainsFunc(p.lists, func(have changeList) bool { return have.url == l.url }) {
		p.lists = append(p.lists, l)
	}
}

// covers sorts the lists by when they begin, drops those that ended before since, and
// returns the end of the first hole between them; zero: there is none. Open says that the
// last list goes on. A list that does not say when it begins counts as one that reaches
// back, and makes the plan unproven.
func (p *plan) covers(since time.Time) (hole time.Time, open bool) {
	p.lists = slices.DeleteFunc(p.lists, func(l changeList) bool { return !l.until.IsZero() && l.until.Before(since) })
	slices.SortStableFunc(p.lists, func(a, b changeList) int {
		return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until))
	})
	p.unproven = false
	reached := since
	for _, l := range p.lists {
		if l.from.After(reached) {
			return l.from, false
		}
		p.unproven = p.unproven || l.from.IsZero()
		if l.until.IsZero() {
			return time.Time{}, true
		}
		reached = clock.Later(reached, l.until)
	}
	return time.Time{}, false
}
