package subscriber

import (
	"context"
	"errors"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

var (
	// errNoHistory says that no hub can be asked for what it keeps.
	errNoHistory = errors.New("there is no hub that can be asked for the changes")
	// errUntimed says that the changes that a hub keeps have no times. A list of the Source is
	// needed, in which their order is known.
	errUntimed = errors.New("the changes that the hub keeps have no times")
)

// fillFromHub hands on what the hub keeps of a gap, which it accepted from the Source. The
// answer to changes since an instant is a Change List, or an index of some.
func (r *repairer) fillFromHub(ctx context.Context, job *repairJob, gap *Gap) error {
	var since time.Time
	var at place
	var sub subscription
	err := r.inbox.db.View(func(tx *boltfile.Tx) error {
		since, at = r.inbox.tail(tx).Until, readPlace(tx)
		sub, _ = readSubscription(tx, string(tx.Bucket(metaBucket).Get(currentKey)))
		return nil
	})
	if err != nil {
		return err
	}
	hub, topic := at.Hub, at.Topic
	if r.o.subscribes() {
		hub, topic = sub.Hub, sub.Topic
	}
	if hub == "" || !web.Confidential(hub) && !r.o.InsecureStream {
		return errNoHistory
	}
	address, err := hubQuery(hub, topic, "since", resourcesync.FormatDatetime(since))
	if err != nil {
		return err
	}
	asked := *job
	asked.hub = true
	return r.fillFrom(ctx, r.o.StreamClient, address, "", &asked, gap)
}
