package subscriptions

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

const (
	// sweepPause is the pause between two shards; a round takes some four minutes.
	sweepPause = time.Second
	// startPause is how long the first round waits, again and again, while the hub is starting.
	startPause = 100 * time.Millisecond
	// page is how many records are read at once. With Redis, each page lists the ids of the whole
	// shard.
	page = 4096
)

// sweep sweeps the shards of this hub in turn until ctx ends. It ends subscriptions that
// expired for good, deletes those that ended long ago, and queues requests that the queue
// does not have. It sweeps a newly acquired shard at once, so that limits and counts are
// right, and drops the counts of a shard that this hub no longer owns.
func (s *Service) sweep(ctx context.Context) {
	for s.o.Starting() {
		if !clock.Sleep(ctx, startPause) {
			return
		}
	}
	var swept [journal.Partitions]bool
	for turn := 0; ; turn = (turn + 1) % journal.Partitions {
		wait := sweepPause
		for shard := range swept {
			owns := s.o.Owns(shard)
			if owns == swept[shard] && shard != turn {
				continue
			}
			if !s.sweepShard(ctx, shard, owns) {
				wait = storeRest
				break
			}
			swept[shard] = owns
		}
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

// sweepShard sweeps one shard and counts it, or drops the counts of one that this hub
// does not own. False: the store failed, or ctx ended.
func (s *Service) sweepShard(ctx context.Context, shard int, owns bool) bool {
	found := shardCounts{swept: owns}
	for after, more := (uuid.UUID{}), owns; more; {
		if ctx.Err() != nil {
			return false
		}
		records, err := s.o.Store.List(ctx, shard, after, page)
		if err != nil {
			s.trouble(ctx, uuid.Nil, err)
			return false
		}
		for _, rec := range records {
			after, rec = s.sweepRecord(ctx, rec)
			found.add(s.counts.of(rec, s.o.Clock.Earliest()), 1)
		}
		more = len(records) == page
	}
	s.counts.set(shard, found)
	return true
}

// sweepRecord does what is due for one record. It returns the id, and the record after that.
func (s *Service) sweepRecord(ctx context.Context, rec Record) (id uuid.UUID, kept Record) {
	if rec.Request != nil {
		id = rec.Request.SubscriptionID()
		s.Found(rec)
	}
	kept = rec
	if rec.Subscription == nil {
		return id, kept
	}
	id = rec.Subscription.ID
	now, err := s.o.Clock.Earliest(), error(nil)
	if s.o.StoreTime != nil && (expired(rec, now, s.o.ResumeWithin) || purgeable(rec, now)) {
		at, failed := s.o.StoreTime(ctx)
		if failed != nil {
			s.trouble(ctx, id, failed)
			return id, kept
		}
		if at.Before(now) { // an end cannot be undone
			now = at
		}
	}
	switch {
	case expired(rec, now, s.o.ResumeWithin):
		err = s.expire(ctx, id, rec.Subscription.Topic, now)
	case purgeable(rec, now):
		kept, err = s.update(ctx, id, func(rec Record) (Record, error) { return Purge(rec, now), nil })
	}
	if err != nil {
		s.trouble(ctx, id, err)
	}
	return id, kept
}

// expire ends a subscription that expired for good by now.
func (s *Service) expire(ctx context.Context, id uuid.UUID, topic string, now time.Time) error {
	head, err := s.o.Heads.Head(ctx, topic)
	if err != nil {
		return err
	}
	var before *Subscription
	var ended bool
	rec, err := s.update(ctx, id, func(rec Record) (Record, error) {
		before = rec.Subscription
		ended = expired(rec, now, s.o.ResumeWithin)
		return Expire(rec, head, now, s.o.ResumeWithin), nil
	})
	if err == nil && ended {
		e := event(EventEnded, rec.Subscription, EndExpired)
		e.Gap = newGap(before, rec.Subscription)
		s.o.Event(e)
	}
	return err
}

func (s *Service) trouble(ctx context.Context, id uuid.UUID, err error) {
	if ctx.Err() == nil {
		s.o.Event(Event{Name: EventTrouble, SubscriptionID: id, Err: err})
	}
}
