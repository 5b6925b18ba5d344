package redisstore

import (
	"sync"
	"testing"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// A slot moves to another server of a Cluster while its subscriptions are
// committed and changed. Redis refuses some of that meanwhile. What it
// accepted is there afterwards, and then it accepts everything again.
func TestRecordsWhileASlotMoves(t *testing.T) {
	nodes := redistest.Cluster(t)
	s := openStore(t, Options{URL: nodes.URL(), Timeout: patience})
	subs := fill(t, s, 400)
	slot := nodes.Slot(t, s.conn.key.recordsOf(subs[0].ID).cursors)
	from, _ := nodes.Owner(t, slot)
	to := nodes.Servers()[0]
	if to == from {
		to = nodes.Servers()[1]
	}
	accepted := make([]journal.Cursor, len(subs))
	changed := make([]int, len(subs))
	moved := make(chan struct{})
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for {
				for i := w; i < len(subs); i += 2 {
					commit := nextCommits(subs[i:i+1], 0, 1)
					if s.Commit(t.Context(), commit) == nil {
						accepted[i] = commit[0].Cursor
					}
					if i%20 < 2 && count(t, s, subs[i]) == nil {
						changed[i]++
					}
				}
				select {
				case <-moved:
					return
				default:
				}
			}
		})
	}
	nodes.MigrateSlot(t, slot, to)
	close(moved)
	group.Wait()
	for i := range subs {
		rec := get(t, s, subs[i].ID)
		if rec.Subscription.Cursor.Compare(accepted[i]) < 0 {
			t.Errorf("cursor %+v was accepted, and %+v is stored", accepted[i], rec.Subscription.Cursor)
		}
		if got := int(rec.Subscription.VerifiedAt.Sub(subs[i].VerifiedAt)); got < changed[i] {
			t.Errorf("%d changes were accepted, and %d are stored", changed[i], got)
		}
	}
	if err := s.Commit(t.Context(), nextCommits(subs, 0, len(subs))); err != nil {
		t.Error(err)
	}
}

// count makes a change that can be counted.
func count(t *testing.T, s *Store, sub subscriptions.Subscription) error {
	_, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec.Subscription.VerifiedAt = rec.Subscription.VerifiedAt.Add(1)
		return rec, nil
	})
	return err
}
