package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Event is something that happened to the shards of a hub, for its log.
type Event struct {
	Name   string // one of the constants
	Shards []int  // in order
	Owned  int    // how many shards the hub owns after it
	Nodes  []Node // EventNodes: the live hubs, by name
	Err    error  // EventClusterFailed
}

// Names of events, as in the log.
const (
	EventTaken            = "shards_taken"
	EventYielded          = "shards_yielded"
	EventKept             = "shards_not_yielded" // the store did not confirm it; they are free when the lease ends
	EventLost             = "shards_lost"
	EventTakeFailed       = "shards_not_taken"
	EventNodes            = "hubs_changed"
	EventClusterFailed    = "cluster_failed"
	EventClusterRecovered = "cluster_recovered"
)

// gathered are the events that often happen to many shards at once. They are reported together.
var gathered = [...]string{EventTaken, EventYielded, EventKept, EventLost, EventTakeFailed}

// events gathers and reports what happens. It may be shared between goroutines.
type events struct {
	report func(Event)

	mu      sync.Mutex
	shards  [len(gathered)][]int // by the event, until flush
	failure error                // of the store; nil: the last request was answered
	since   time.Time            // of the failure
}

// shard keeps an event of a shard until flush.
func (e *events) shard(name string, shard int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(gathered[:], name)
	e.shards[i] = append(e.shards[i], shard)
}

// flush reports the events of shards. Owned is how many the hub owns now.
func (e *events) flush(owned int) {
	e.mu.Lock()
	all := e.shards
	e.shards = [len(gathered)][]int{}
	e.mu.Unlock()
	for i, shards := range all {
		if len(shards) > 0 {
			slices.Sort(shards)
			e.report(Event{Name: gathered[i], Shards: slices.Compact(shards), Owned: owned})
		}
	}
}

// store reports when the store begins to fail, and when it answers again. Nil: it answered.
func (e *events) store(err error) {
	e.mu.Lock()
	before := e.failure
	if e.failure = err; before == nil {
		e.since = time.Now()
	}
	e.mu.Unlock()
	switch {
	case err != nil && before == nil:
		e.report(Event{Name: EventClusterFailed, Err: err})
	case err == nil && before != nil:
		e.report(Event{Name: EventClusterRecovered})
	}
}

// Check is for GET /readyz. It returns nil as long as the leases can be renewed. One or two
// failed requests are not an error yet.
func (k *Keeper) Check() error {
	k.events.mu.Lock()
	failure, since := k.events.failure, k.events.since
	k.events.mu.Unlock()
	if failure == nil || time.Since(since) < k.o.Lease/3 {
		return nil
	}
	return fmt.Errorf("this hub could not renew its shard leases since %s, so other hubs may own its shards now: %w", since.UTC().Format(time.RFC3339), failure)
}

func byName(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }
