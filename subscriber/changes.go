package subscriber

import (
	"context"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// ListLimit is how many entries a list may have that is read.
type ListLimit struct {
	// Entries is the number; 0: the 50,000 of the protocol. The bytes that a list may
	// have grow with it.
	Entries int
	// Large is told, at its end, of a list that was let in with more entries than the
	// protocol allows. Nil: nobody is.
	Large func(list string, entries int)
}

// ReadChanges reads the changes of a set after an instant from its Change Lists,
// oldest first, and keeps nothing of them: for whoever compares. It returns how
// far the lists are known to be complete. Without a Change List there are no
// changes. A list that is over the limit is an error that names Options.MaxEntries.
func ReadChanges(ctx context.Context, client Doer, set Set, since time.Time, limit ListLimit, each func(resourcesync.Entry) error) (until time.Time, err error) {
	list := set.Documents[resourcesync.ChangeList]
	if list == "" {
		return since, nil
	}
	p, err := makePlan(ctx, client, list, set.Documents[resourcesync.ChangeListArchive], since)
	if err != nil {
		return since, err
	}
	until = since
	for _, l := range p.lists {
		got, err := readPart(ctx, client, l, since, limit, &repairJob{})
		if err != nil {
			return until, err
		}
		order, _ := inTime(got.changes, since)
		for _, k := range order {
			if err := each(got.changes[k]); err != nil {
				return until, err
			}
		}
		if got.until.After(until) {
			until = got.until
		}
	}
	return until, nil
}
