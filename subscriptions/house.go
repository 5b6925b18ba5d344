package subscriptions

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

const (
	// housePause is the pause between two shards that are looked through; a
	// round takes some four minutes.
	housePause = time.Second
	// page is how many records are read at once.
	page = 256
)

// keepHouse takes up what is pending and then goes round the shards of this hub: it ends
// what expired for good, forgets what ended long ago, and takes up requests that
// the queue does not know of. A shard that came to this hub is looked through at once,
// so that the limit per host and the census hold, and one that went is forgotten.
func (s *Service) keepHouse(ctx context.Context) {
	var mine [journal.Partitions]bool
	for turn := 0; ; turn = (turn + 1) % journal.Partitions {
		wait := housePause
		for shard := range mine {
			owns := s.o.Owns(shard)
			if owns == mine[shard] && shard != turn {
				continue
			}
			if !s.lookThrough(ctx, shard, owns) {
				wait = storeRest
				break
			}
			mine[shard] = owns
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// lookThrough keeps house in one shard, or forgets what it counted of one that this hub
// does not own. False: the store failed it, or ctx ended.
func (s *Service) lookThrough(ctx context.Context, shard int, owns bool) bool {
	var after uuid.UUID
	var census Census
	have := tenants{counted: owns}
	counts := make(map[string]int)
	if !owns {
		s.counted(shard, census, counts, have)
		return true
	}
	for ctx.Err() == nil {
		records, err := s.o.Store.List(ctx, shard, after, page)
		if err != nil {
			s.trouble(ctx, uuid.Nil, err)
			return false
		}
		for _, rec := range records {
			var kept Record
			after, kept = s.tidy(ctx, rec)
			census.add(kept, s.o.Clock.Earliest(), 1)
			if kept.Subscription != nil {
				have.add(s.places.of(kept.Subscription), 1)
			}
			if sub := rec.Subscription; s.hosts != nil && sub != nil && sub.Live(s.o.Clock.Earliest()) {
				counts[egress.HostPortOf(sub.Callback)]++
			}
		}
		if len(records) < page {
			s.counted(shard, census, counts, have)
			return true
		}
	}
	return false
}

// counted replaces what is known of a shard by what a walk over it found.
func (s *Service) counted(shard int, census Census, hosts map[string]int, have tenants) {
	s.census.set(shard, census)
	s.places.set(shard, have)
	if s.hosts != nil {
		s.hosts.set(shard, hosts)
	}
}

// tidy does what is due for one record and returns its id, and what is kept.
func (s *Service) tidy(ctx context.Context, rec Record) (id uuid.UUID, kept Record) {
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
		if at.Before(now) { // what is ended does not come back
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
		return Expire(rec, head.Last, now, s.o.ResumeWithin), nil
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
