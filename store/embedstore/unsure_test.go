package embedstore

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// failLate has the next transaction be stored, and its last fsync fail.
func failLate(s *Store, with error) {
	s.folder.db.Intercept(func(commit func() error) error {
		s.folder.db.Intercept(nil)
		return errors.Join(commit(), with)
	})
}

// What may have been stored is told as changed: a Source that publishes again
// gets a 200 as for any duplicate, and nothing else would start the delivery.
func TestUnsureIsTold(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	add(t, s, topic, 10)
	sub := subscriptions.Subscription{ID: subscriptions.ID(topic, "cb"), Topic: topic, Callback: "cb"}
	store := func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{Subscription: &sub}, nil
	}
	if _, err := s.Update(t.Context(), sub.ID, store); err != nil {
		t.Fatal(err)
	}
	partition, shard := journal.Partition(journal.TopicID(topic)), subscriptions.Shard(sub.ID)
	_, topicsSince, topicsErr := s.Changes(t.Context(), partition, 0)
	_, subsSince, subsErr := s.Changed(t.Context(), shard, 0)
	if err := errors.Join(topicsErr, subsErr); err != nil {
		t.Fatal(err)
	}
	hints := journal.HintedTopics(t.Context(), s.Hints)

	var unsure *boltfile.UnsureError
	failLate(s, syscall.ENOSPC)
	if _, err := tryAdd(t.Context(), s, topic, 10); !errors.As(err, &unsure) {
		t.Fatalf("Append: %v", err)
	}
	if h, err := s.Head(t.Context(), topic); err != nil || h.Last.Seq != 2 {
		t.Fatalf("seq %d, %v", h.Last.Seq, err)
	}
	if topics, _, err := s.Changes(t.Context(), partition, topicsSince); err != nil || len(topics) != 1 || len(hints) != 1 {
		t.Errorf("changed topics %q, %d hints, %v", topics, len(hints), err)
	}
	end := subscriptions.Commit{ID: sub.ID, Cursor: journal.Cursor{Attempt: 1}, End: subscriptions.EndGone, EndedAt: start, Lease: start}
	failLate(s, syscall.ENOSPC)
	if err := s.Commit(t.Context(), []subscriptions.Commit{end}); !errors.As(err, &unsure) {
		t.Fatalf("Commit: %v", err)
	}
	ids, subsSince, err := s.Changed(t.Context(), shard, subsSince)
	if err != nil || len(ids) != 1 {
		t.Errorf("changed subscriptions %v, %v", ids, err)
	}
	failLate(s, syscall.ENOSPC)
	if _, err := s.Update(t.Context(), sub.ID, store); !errors.As(err, &unsure) {
		t.Fatalf("Update: %v", err)
	}
	if ids, _, err := s.Changed(t.Context(), shard, subsSince); err != nil || len(ids) != 1 {
		t.Errorf("changed subscriptions %v, %v", ids, err)
	}
}

// Invariant 1: an entry that shows after a failed fsync is not read. Otherwise the hub would answer a
// repeated publish that it is stored.
func TestUnsyncedIsNotRead_Invariant1(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	add(t, s, topic, 10)
	failLate(s, syscall.EIO)
	if _, err := tryAdd(t.Context(), s, topic, 10); err == nil {
		t.Fatal("the fsync failed and the append did not")
	}
	if h, err := s.Head(t.Context(), topic); !errors.Is(err, syscall.EIO) {
		t.Errorf("the head has seq %d, %v", h.Last.Seq, err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("Ready: %v", err)
	}
}

// Without room it is read once the file is synced.
func TestUnsyncedIsSealed_Invariant1(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	add(t, s, topic, 10)
	synced := false
	failLate(s, syscall.ENOSPC)
	s.folder.db.InterceptSync(func(path string, sync func() error) error {
		synced = synced || filepath.Base(path) == databaseName
		return sync()
	})
	if _, err := tryAdd(t.Context(), s, topic, 10); err == nil {
		t.Fatal("the fsync failed and the append did not")
	}
	if h, err := s.Head(t.Context(), topic); err != nil || h.Last.Seq != 2 || !synced {
		t.Errorf("the head has seq %d, the file was synced: %t, %v", h.Last.Seq, synced, err)
	}
}
