package subscriber

import (
	"context"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// ReadChanges reads the changes of a set after an instant from its Change Lists,
// oldest first, and keeps nothing of them: for whoever compares. It returns how
// far the lists are known to be complete. Without a Change List there are no
// changes.
func ReadChanges(ctx context.Context, client Doer, set Set, since time.Time, each func(resourcesync.Entry) error) (until time.Time, err error) {
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
		got, err := readPart(ctx, client, l, since, &repairJob{})
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
