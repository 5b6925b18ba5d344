package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Event is something that happened to the shards of a hub, for its log.
type Event struct {
	Name   string // one of the constants
	Shards []int  // rising
	Owned  int    // shards after it
	Nodes  []Node // EventNodes: those that live, by name
	Err    error  // EventClusterFailed
}

// Names of events, as they stand in the log.
const (
	EventTaken            = "shards_taken"
	EventYielded          = "shards_yielded"
	EventKept             = "shards_not_yielded" // the store did not confirm it: they wait for the end of the lease
	EventLost             = "shards_lost"
	EventTakeFailed       = "shards_not_taken"
	EventNodes            = "hubs_changed"
	EventClusterFailed    = "cluster_failed"
	EventClusterRecovered = "cluster_recovered"
)

// newsOf are the events that are gathered, since many shards have them at once.
var newsOf = [...]string{EventTaken, EventYielded, EventKept, EventLost, EventTakeFailed}

// hear keeps an event of a shard for tell.
func (k *Keeper) hear(name string, shard int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hearLocked(name, shard)
}

func (k *Keeper) hearLocked(name string, shard int) {
	for i := range newsOf {
		if newsOf[i] == name {
			k.news[i] = append(k.news[i], shard)
		}
	}
}

// tell passes on what hear kept.
func (k *Keeper) tell() {
	owned := k.Owned()
	k.mu.Lock()
	news := k.news
	k.news = [len(newsOf)][]int{}
	k.mu.Unlock()
	for i, shards := range news {
		if len(shards) > 0 {
			slices.Sort(shards)
			k.o.Event(Event{Name: newsOf[i], Shards: slices.Compact(shards), Owned: owned})
		}
	}
}

// trouble is since when the store does not do what it should.
type trouble struct {
	err   error
	since time.Time
}

// note takes down whether the store did what it was asked for; nil: it did.
func (k *Keeper) note(err error) {
	k.mu.Lock()
	before := k.trouble.err
	switch {
	case err == nil:
		k.trouble = trouble{}
	case before == nil:
		k.trouble = trouble{err, time.Now()}
	default:
		k.trouble.err = err
	}
	k.mu.Unlock()
	switch {
	case err != nil && before == nil:
		k.o.Event(Event{Name: EventClusterFailed, Err: err})
	case err == nil && before != nil:
		k.o.Event(Event{Name: EventClusterRecovered})
	}
}

// Check returns nil as long as the leases can be renewed, else since when they
// can't, for GET /readyz. A question or two that fail are no reason yet.
func (k *Keeper) Check() error {
	k.mu.Lock()
	t := k.trouble
	k.mu.Unlock()
	if t.err == nil || time.Since(t.since) < k.o.Lease/3 {
		return nil
	}
	return fmt.Errorf("this hub could not renew its shares since %s, so that other hubs may have taken them over: %w", t.since.UTC().Format(time.RFC3339), t.err)
}

func byName(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }
