package subscriber

import (
	"context"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
)

// ListLimit is how many entries a list may have.
type ListLimit struct {
	// Entries is the number; 0: the 50,000 of the protocol. The bytes that a list may
	// have grow with it.
	Entries int
	// Large, if not nil, is called after a list with more entries than the protocol
	// allows.
	Large func(list string, entries int)
}

// ReadChanges reads the changes of a set after an instant from its Change Lists, oldest
// first, and stores nothing. If most of a list is in the order of time, the order of the list
// counts. It is for comparisons. It returns how far the lists are known to be complete. Without a
// Change List there are no changes. The error about a list over the limit names
// Options.MaxEntries. It leaves out changes that are dated more than a day ahead of this machine's
// clock, as a Subscriber does. A nil client is as with Discover.
func ReadChanges(ctx context.Context, client Doer, set Set, since time.Time, limit ListLimit, each func(resourcesync.Entry) error) (until time.Time, err error) {
	list := set.Documents[resourcesync.ChangeList]
	if list == "" {
		return since, nil
	}
	client, end, err := clientOr(client)
	if err != nil {
		return since, err
	}
	defer end()
	p, err := makePlan(ctx, client, list, set.Documents[resourcesync.ChangeListArchive], since)
	if err != nil {
		return since, err
	}
	until = since
	job := &repairJob{limit: time.Now().Add(ahead)}
	for _, l := range p.lists {
		got, err := readPart(ctx, client, l, since, prefix{}, limit, job)
		if err != nil {
			return until, err
		}
		if !got.ordered() {
			order, _ := inTime(got.changes, since)
			sorted := make([]resourcesync.Entry, len(order))
			for i, k := range order {
				sorted[i] = got.changes[k]
			}
			got.changes = sorted
		}
		for i := range got.changes {
			if err := each(got.changes[i]); err != nil {
				return until, err
			}
		}
		until = clock.Later(until, got.until)
	}
	return until, nil
}
