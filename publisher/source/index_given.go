package source

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// Given is a resource as a catalogue or an application gives it, and not as a scan finds it.
type Given struct {
	// Resource is the resource as it is now. If it was deleted, only its Key counts.
	Resource Resource
	// Change says what happened: Created and Updated are logged even if the index has the same,
	// and Deleted even if it has no such resource. Empty: the resource exists now, and
	// it is logged as created or updated if the index does not have it as it is.
	Change resourcesync.ChangeType
}

// ErrGiven is wrapped by the errors of Apply if no document can have what is given.
var ErrGiven = errors.New("this cannot be published")

// Check returns an error that wraps ErrGiven if no document can have the resource, or the Change
// is neither empty nor known.
func (g *Given) Check() error {
	return newEntryCheck().check(g)
}

// Apply stores what is given in the order in which it is given, logs the changes, and returns those
// that it logged. When it returns without an error, all of that is on disk. After an error
// nothing is; the error wraps ErrGiven if no document can have what is given. Before the baseline it
// logs nothing (see Begin).
//
// One call is one transaction, which waits for the disk: give it as many as are at hand, a
// thousand at most.
func (x *Index) Apply(now time.Time, given ...Given) ([]Change, error) {
	return x.applyGiven(now, given, nil)
}

// applyGiven is Apply. In the same transaction it runs also, if it is not nil, with the changes that
// it logged. Also may be called again, and must not call the index.
func (x *Index) applyGiven(now time.Time, given []Given, also func(tx *boltfile.Tx, logged []Change) error) (logged []Change, err error) {
	steps := make([]step, len(given))
	checker := newEntryCheck()
	for i := range given {
		if err := checker.check(&given[i]); err != nil {
			return nil, err
		}
		steps[i] = given[i].step()
	}
	err = x.applied(now, steps, func(b *batch) error {
		if logged = b.logged; also == nil {
			return nil
		}
		return also(b.tx, logged)
	})
	if err != nil {
		return nil, err
	}
	return logged, nil
}

// step returns what to do about g.
func (g *Given) step() step {
	s := step{key: g.Resource.Key(), change: g.Change}
	if !g.Change.Removes() {
		mtime := instantOf(g.Resource.ModTime)
		s.now = &record{Resource: g.Resource, stat: stat{size: g.Resource.Length, mtime: mtime}}
		s.now.ModTime = modTime(mtime)
	}
	return s
}

// Begin records that the index has all resources that there are: from now on changes are logged, and
// there are snapshots. It may be called again.
func (x *Index) Begin(now time.Time) error { return x.baseline(now) }

// entryCheck checks whether documents can have what is given, by the rules of the writer of documents: one
// entry that it refuses would keep a whole list from being written.
type entryCheck struct {
	w  *resourcesync.Writer
	at time.Time
}

func newEntryCheck() *entryCheck {
	at := time.Unix(0, 0).UTC()
	// A Change List, because its entries may have all that any entry may have.
	w, err := resourcesync.NewWriter(io.Discard, resourcesync.Head{
		Capability: resourcesync.ChangeList, From: at, Links: []resourcesync.Link{{Rel: "up", Href: "https://example.org/capabilitylist.xml"}},
	}, resourcesync.WriteOptions{})
	if err != nil {
		panic(err) // the head is always the same
	}
	return &entryCheck{w, at}
}

func (c *entryCheck) check(g *Given) error {
	r := &g.Resource
	if g.Change != "" && !g.Change.Known() {
		return fmt.Errorf("%w: there is no change %q; it is %q, %q or %q", ErrGiven, g.Change, resourcesync.Created, resourcesync.Updated, resourcesync.Deleted)
	}
	if err := checkKey(r); err != nil {
		return err
	}
	if err := checkLinks(r); err != nil {
		return err
	}
	e := describe(r, cmp.Or(r.URL, "https://example.org/"+EscapePath(r.Path)))
	e.Change, e.Datetime = resourcesync.Updated, c.at
	var refused *resourcesync.Error
	if err := c.w.Write(e); errors.As(err, &refused) { // ErrFull comes after the check
		refused.Entry = "" // the caller knows the resource by a line or a path
		return fmt.Errorf("%w: %w", ErrGiven, refused)
	}
	return nil
}

// maxLinks is how many bytes of text the links of a resource may have, so that a notification has room for
// any change.
const maxLinks = 256 << 10

// checkLinks bounds the links, which are most of a long entry.
func checkLinks(r *Resource) error {
	size := 0
	for i := range r.Links {
		l := &r.Links[i]
		size += len(l.Rel) + len(l.Href) + len(l.Hash) + len(l.Path) + len(l.Type) + len(l.Encoding) + len(l.Profile)
		for _, a := range l.Attributes {
			size += len(a.Space) + len(a.Name) + len(a.Value)
		}
	}
	if size > maxLinks {
		return fmt.Errorf("%w: its links have %d KiB, and may have %d", ErrGiven, size>>10, maxLinks>>10)
	}
	return nil
}

// checkKey checks what the index needs.
func checkKey(r *Resource) error {
	key := r.Key()
	switch {
	case r.URL == "" && r.Path == "":
		return fmt.Errorf("%w: it has neither a URL nor a path", ErrGiven)
	case r.URL != "" && !isURL(r.URL):
		return fmt.Errorf("%w: %q is no absolute URL; begin it with https:// or http://", ErrGiven, r.URL)
	case r.Path != "" && !validPath(r.Path):
		return fmt.Errorf("%w: %q is not a path below a folder; write the names from the folder down with / between them, without a / at the start and without the names . and .. in it", ErrGiven, r.Path)
	case len(key) > maxPath:
		return fmt.Errorf("%w: %.100q... has %d bytes, and %d are the most", ErrGiven, key, len(key), maxPath)
	}
	return nil
}
