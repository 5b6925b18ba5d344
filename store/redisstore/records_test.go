package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
	"github.com/rshub/rshub/websub"
)

const recordTopic = "https://source.example/changes/"

// clientsOf opens a store n times, as so many hubs do.
func clientsOf(t testing.TB, n int) []*Store {
	t.Helper()
	url, prefix := redistest.Standalone(t, redistest.Shared()).URL(), freshPrefix()
	out := make([]*Store, n)
	for i := range out {
		out[i] = openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
	}
	return out
}

// subscriptionNo is the subscription of the i-th callback.
func subscriptionNo(i int) subscriptions.Subscription {
	start := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	callback := fmt.Sprintf("https://subscriber.example/callbacks/%08d", i)
	at := journal.Anchor{Position: journal.Position(start.UnixNano()), Nonce: 1 << 62, Seq: 100, Until: start}
	return subscriptions.Subscription{
		ID: subscriptions.ID(recordTopic, callback), Topic: recordTopic, Callback: callback, Secret: "0123456789abcdef0123456789abcdef",
		CreatedAt: start, VerifiedAt: start, ExpiresAt: start.Add(240 * time.Hour), Start: at,
		Cursor: journal.Cursor{Generation: uint64(start.UnixMicro()), Anchor: at},
	}
}

// set stores a record as it is.
func set(t testing.TB, s *Store, id uuid.UUID, rec subscriptions.Record) {
	t.Helper()
	_, err := s.Update(t.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) { return rec, nil })
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s *Store, id uuid.UUID) subscriptions.Record {
	t.Helper()
	rec, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// Two hubs change the same record at the same time, and neither change is lost.
func TestUpdatesOfTwoClientsLoseNothing(t *testing.T) {
	stores := clientsOf(t, 2)
	sub := subscriptionNo(1)
	set(t, stores[0], sub.ID, subscriptions.Record{Request: &subscriptions.Request{ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: sub.Topic, Callback: sub.Callback}})
	const workers, rounds = 3, 15
	var group sync.WaitGroup
	for _, s := range stores {
		for range workers {
			group.Go(func() {
				for range rounds {
					_, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
						rec.Request.Tries++
						return rec, nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	if got, want := get(t, stores[0], sub.ID).Request.Tries, len(stores)*workers*rounds; got != want {
		t.Errorf("%d of %d changes are there", got, want)
	}
}

// Invariant 3: a commit that comes while a record is being changed is not lost,
// and change sees it.
func TestCommitDuringUpdate(t *testing.T) {
	stores := clientsOf(t, 2)
	sub := subscriptionNo(1)
	set(t, stores[0], sub.ID, subscriptions.Record{Subscription: &sub})
	moved := sub.Cursor
	moved.Position += 100
	var seen []journal.Cursor
	rec, err := stores[0].Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		seen = append(seen, rec.Subscription.Cursor)
		if err := stores[1].Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID, Cursor: moved}}); err != nil {
			t.Error(err)
		}
		rec.Subscription.ExpiresAt = rec.Subscription.ExpiresAt.Add(time.Hour)
		return rec, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []journal.Cursor{sub.Cursor, moved}; !slices.Equal(seen, want) {
		t.Errorf("change saw %v, want %v", seen, want)
	}
	got := get(t, stores[1], sub.ID).Subscription
	if got.Cursor != moved || rec.Subscription.Cursor != moved {
		t.Errorf("the committed cursor is lost: %+v is stored", got.Cursor)
	}
	if !got.ExpiresAt.Equal(sub.ExpiresAt.Add(time.Hour)) {
		t.Errorf("the change is lost: it expires at %v", got.ExpiresAt)
	}
}

// A script that the client sent again, as the answer got lost, changes nothing
// and says what it said the first time.
func TestChangeThatIsSentTwiceIsMadeOnce(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub := subscriptionNo(1)
	next := s.records.packRecord(subscriptions.Record{Subscription: &sub})
	c := s.records.replaceCall(sub.ID, stored{}, next, newToken(), nil)
	for i := range 2 {
		if won, err := s.conn.run(t.Context(), replaceScript, c.keys, c.args...).Bool(); err != nil || !won {
			t.Errorf("call %d: %t, %v", i+1, won, err)
		}
	}
	c.args[7] = newToken()
	if won, err := s.conn.run(t.Context(), replaceScript, c.keys, c.args...).Bool(); err != nil || won {
		t.Errorf("the same from another client: %t, %v", won, err)
	}
	changes, err := s.conn.client.XLen(t.Context(), s.conn.key.recordsOf(sub.ID).changes).Result()
	if err != nil || changes != 1 {
		t.Errorf("%d changes are reported, %v", changes, err)
	}
}

// An Update that others overtake each time gives up in the end.
func TestUpdateGivesUp(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub := subscriptionNo(1)
	set(t, s, sub.ID, subscriptions.Record{Subscription: &sub})
	n := 0
	_, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		n++
		rec.Subscription.Cursor.Position += journal.Position(n)
		set(t, s, sub.ID, rec)
		return rec, nil
	})
	if err == nil || n != maxChanges {
		t.Errorf("%v after %d tries", err, n)
	}
}

// A value that cannot be read is said to be so, whoever meets it.
func TestDamagedRecordIsRefused(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub, beside := subscriptionNo(1), subscriptionNo(2)
	k := s.conn.key.recordsOf(sub.ID)
	rec := subscriptions.Record{Subscription: &sub, Request: &subscriptions.Request{ID: uuid.New(), Topic: sub.Topic, Callback: sub.Callback}}
	moved := sub.Cursor
	moved.Position++
	gap := []journal.Gap{{Count: 1, Reason: journal.GapGaveUp}}
	same := func(rec subscriptions.Record) (subscriptions.Record, error) { return rec, nil }
	for name, hash := range map[string]string{"cursor": k.cursors, "subscription": k.subs, "request": k.requests} {
		set(t, s, sub.ID, rec)
		set(t, s, beside.ID, subscriptions.Record{Subscription: &beside})
		whole := s.conn.client.HGet(t.Context(), hash, string(sub.ID[:])).Val()
		s.conn.client.HSet(t.Context(), hash, string(sub.ID[:]), whole[:len(whole)-1])
		_, getErr := s.Get(t.Context(), sub.ID)
		_, listErr := s.List(t.Context(), subscriptions.Shard(sub.ID), uuid.Nil, 10)
		_, updateErr := s.Update(t.Context(), sub.ID, same)
		errs := map[string]error{"Get": getErr, "List": listErr, "Update": updateErr}
		if name != "request" { // which a commit has nothing to do with
			errs["Commit"] = s.Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID, Cursor: moved, Gaps: gap}, {ID: beside.ID, Cursor: moved}})
		}
		for what, err := range errs {
			if !errors.Is(err, journal.ErrPacked) {
				t.Errorf("with a damaged %s, %s: %v", name, what, err)
			}
		}
		if got := get(t, s, beside.ID).Subscription.Cursor; name != "request" && got != moved {
			t.Errorf("with a damaged %s, the commit beside it was not stored", name)
		}
		s.conn.client.HSet(t.Context(), hash, string(sub.ID[:]), whole)
		set(t, s, sub.ID, subscriptions.Record{})
		set(t, s, beside.ID, subscriptions.Record{})
	}
}

// A record that cannot be read hides neither the others nor its own readable part, if there
// is a function to report it to.
func TestDamagedRecordIsLeftOut(t *testing.T) {
	s := clientsOf(t, 1)[0]
	told := map[uuid.UUID]error{}
	s.records.unreadable = func(id uuid.UUID, why error) { told[id] = why }
	sub := subscriptionNo(1)
	shard, beside := subscriptions.Shard(sub.ID), subscriptionNo(2)
	for i := 3; subscriptions.Shard(beside.ID) != shard; i++ {
		beside = subscriptionNo(i)
	}
	both := func(sub subscriptions.Subscription) subscriptions.Record {
		return subscriptions.Record{Subscription: &sub, Request: &subscriptions.Request{ID: uuid.New(), Topic: sub.Topic, Callback: sub.Callback}}
	}
	k := s.conn.key.recordsOf(sub.ID)
	for name, c := range map[string]struct {
		hash       string
		subs, reqs int // how many can be read
	}{"cursor": {k.cursors, 1, 2}, "subscription": {k.subs, 1, 2}, "request": {k.requests, 2, 1}} {
		set(t, s, sub.ID, both(sub))
		set(t, s, beside.ID, both(beside))
		whole := s.conn.client.HGet(t.Context(), c.hash, string(sub.ID[:])).Val()
		s.conn.client.HSet(t.Context(), c.hash, string(sub.ID[:]), whole[:len(whole)-1])
		for limit := 1; limit < 4; limit++ {
			clear(told)
			var subs, reqs int
			for after, more := uuid.Nil, true; more; {
				page, err := s.List(t.Context(), shard, after, limit)
				if err != nil {
					t.Fatalf("with a damaged %s: %v", name, err)
				}
				for _, rec := range page {
					if after = beside.ID; rec.Subscription != nil {
						after = rec.Subscription.ID
					} else if rec.Request != nil {
						after = rec.Request.SubscriptionID()
					}
					if rec.Subscription != nil {
						subs++
					}
					if rec.Request != nil {
						reqs++
					}
				}
				more = len(page) == limit
			}
			if subs != c.subs || reqs != c.reqs || len(told) != 1 || !errors.Is(told[sub.ID], journal.ErrPacked) {
				t.Errorf("with a damaged %s, in pages of %d: %d subscriptions and %d requests, told of %v", name, limit, subs, reqs, told)
			}
		}
		s.conn.client.HSet(t.Context(), c.hash, string(sub.ID[:]), whole)
	}
}

// A hub asks with a value that the store lost or has trimmed. The answer says so, and the hub
// asks for all.
func TestChangedWithAValueThatIsNotKnown(t *testing.T) {
	s := clientsOf(t, 1)[0]
	const shard = 5
	var ids []uuid.UUID
	for i := 0; len(ids) < 3; i++ {
		if sub := subscriptionNo(i); subscriptions.Shard(sub.ID) == shard {
			set(t, s, sub.ID, subscriptions.Record{Subscription: &sub})
			ids = append(ids, sub.ID)
		}
	}
	slices.SortFunc(ids, compareIDs)
	_, last, err := s.Changed(t.Context(), shard, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, since := range map[string]uint64{"before all": 1 << changeShift, "one that was never given": last - 1<<changeShift + 700, "after all": last + 5<<changeShift} {
		if got, _, err := s.Changed(t.Context(), shard, since); !errors.Is(err, subscriptions.ErrChangesLost) {
			t.Errorf("%s: %d ids, %v", name, len(got), err)
		}
	}
	if got, next, err := s.Changed(t.Context(), shard, 0); err != nil || next != last || !slices.Equal(got, ids) {
		t.Errorf("%d of %d ids, next %d instead of %d, %v", len(got), len(ids), next, last, err)
	}
	// The list is bounded (invariant 12), and a hub that is further behind gets an error.
	one := get(t, s, ids[0])
	for range 2 * changesKept {
		set(t, s, ids[0], one)
	}
	if n := s.conn.client.XLen(t.Context(), s.conn.key.records(shard).changes).Val(); n > changesKept+200 {
		t.Errorf("%d changes are kept", n)
	}
	if got, _, err := s.Changed(t.Context(), shard, last); !errors.Is(err, subscriptions.ErrChangesLost) {
		t.Errorf("a hub that is far behind gets %d ids, %v", len(got), err)
	}
}
