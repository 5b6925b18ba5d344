package subscriptions

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// State is what the operator reads of a record at now: the state of the
// subscription in force, and pending where there is none and a request waits to
// become one. Where there is none and a denial waits to be told, it is ended.
func (r Record) State(now time.Time) State {
	s, q := r.Subscription, r.Request
	switch {
	case s == nil && q != nil && q.Denied != "":
		return StateEnded
	case s == nil:
		return StatePending
	case q != nil && q.Mode == websub.ModeSubscribe && q.Denied == "" && !s.Live(now):
		return StatePending
	default:
		return s.State(now)
	}
}

// Census is what a Service knows of the subscriptions of the shards that this hub
// owns. What the Service itself
// does to them shows at once; all else, such as a lease that runs out or an end by
// a 410, when house is kept, some four minutes later at most.
type Census struct {
	Pending int // asked for, and nothing in force
	Ended   int // ended or expired, and kept to be read
	Stored  int // in all, those that ended included
	Most    int // that may be stored, by this hub's part of Options.MaxTotal; 0: any number
	Waiting int // requests and denials that are being worked on or wait for their turn, or for the hub that owns them
}

// Census returns it as of now. It adds up counts and walks over nothing.
func (s *Service) Census() Census {
	c := s.census.sum()
	c.Stored, c.Most = s.places.sum()
	c.Waiting = s.queue.waiting()
	return c
}

// tally counts the records of each shard that are pending, and those that ended.
type tally struct {
	mu     sync.Mutex
	shards [journal.Partitions]Census
}

func (t *tally) sum() Census {
	t.mu.Lock()
	defer t.mu.Unlock()
	var c Census
	for i := range t.shards {
		c.Pending += t.shards[i].Pending
		c.Ended += t.shards[i].Ended
	}
	return c
}

// set replaces the counts of a shard by those of a walk over it.
func (t *tally) set(shard int, c Census) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shards[shard] = c
}

// changed follows a change from before to after.
func (t *tally) changed(id uuid.UUID, before, after Record, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.shards[Shard(id)]
	c.add(before, now, -1)
	c.add(after, now, 1)
}

// add counts a record n times. What a walk saw before a change, and the change
// after that, may not add up until the next walk; they never go below none.
func (c *Census) add(rec Record, now time.Time, n int) {
	if rec.Subscription == nil && rec.Request == nil {
		return
	}
	switch rec.State(now) {
	case StatePending:
		c.Pending = max(c.Pending+n, 0)
	case StateEnded:
		c.Ended = max(c.Ended+n, 0)
	}
}

// change is Update of the store, counted. The records that change gets and
// returns are not to share what it changes, as those of transition.go do not.
func (s *Service) change(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	var before Record
	rec, err := s.o.Store.Update(ctx, id, func(rec Record) (Record, error) {
		before = rec
		return change(rec)
	})
	if err == nil && s.owns(id) {
		s.census.changed(id, before, rec, s.o.Clock.Earliest())
	}
	return rec, err
}
