package subscriptions

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/egress"
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
// the queue does not know of.
func (s *Service) keepHouse(ctx context.Context) {
	for shard := 0; shard < journal.Partitions; shard++ {
		for s.o.Owns(shard) && !s.load(ctx, shard) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(storeRest):
			}
		}
		s.lookThrough(ctx, shard) // the limit per host and the census hold from the start
	}
	ticker := time.NewTicker(housePause)
	defer ticker.Stop()
	for shard := 0; ; shard = (shard + 1) % journal.Partitions {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.lookThrough(ctx, shard)
		}
	}
}

// load takes up the pending requests of a shard and reports whether it could.
func (s *Service) load(ctx context.Context, shard int) bool {
	var after uuid.UUID
	for {
		requests, err := s.o.Store.Requests(ctx, shard, after, page)
		if err != nil {
			s.trouble(ctx, uuid.Nil, err)
			return false
		}
		for i := range requests {
			after = requests[i].SubscriptionID()
			s.Found(Record{Request: &requests[i]})
		}
		if len(requests) < page {
			return true
		}
	}
}

// lookThrough keeps house in one shard, and forgets what it counted of one that is
// not this hub's.
func (s *Service) lookThrough(ctx context.Context, shard int) {
	var after uuid.UUID
	var census Census
	counts := make(map[string]int)
	if !s.o.Owns(shard) {
		s.counted(shard, census, counts)
		return
	}
	for ctx.Err() == nil {
		records, err := s.o.Store.List(ctx, shard, after, page)
		if err != nil {
			s.trouble(ctx, uuid.Nil, err)
			return
		}
		for _, rec := range records {
			var kept Record
			after, kept = s.tidy(ctx, rec)
			census.add(kept, time.Now(), 1)
			if sub := rec.Subscription; s.hosts != nil && sub != nil && sub.Live(time.Now()) {
				counts[egress.HostPortOf(sub.Callback)]++
			}
		}
		if len(records) < page {
			s.counted(shard, census, counts)
			return
		}
	}
}

// counted replaces what is known of a shard by what a walk over it found.
func (s *Service) counted(shard int, census Census, hosts map[string]int) {
	s.census.set(shard, census)
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
	now, err := time.Now(), error(nil)
	switch {
	case expired(rec, now, s.o.ResumeWithin):
		err = s.expire(ctx, id, rec.Subscription.Topic)
	case purgeable(rec, now):
		kept, err = s.update(ctx, id, func(rec Record) (Record, error) { return Purge(rec, time.Now()), nil })
	}
	if err != nil {
		s.trouble(ctx, id, err)
	}
	return id, kept
}

// expire ends a subscription that expired for good.
func (s *Service) expire(ctx context.Context, id uuid.UUID, topic string) error {
	head, err := s.o.Heads.Head(ctx, topic)
	if err != nil {
		return err
	}
	var before *Subscription
	var ended bool
	rec, err := s.update(ctx, id, func(rec Record) (Record, error) {
		before = rec.Subscription
		now := time.Now()
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
