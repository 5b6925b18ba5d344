package embedstore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// At the high water no ping is accepted, because its notification could not be stored. What came
// of those before it is stored still.
func TestPingAtTheHighWater_HUB60(t *testing.T) {
	const pinged, other = "https://source.example/a/", "https://source.example/b/"
	dir := t.TempDir()
	s := openStore(t, dir, Options{MinFree: -1})
	now := time.Now()
	if err := s.Ping(t.Context(), now, []string{pinged}); err != nil {
		t.Fatal(err)
	}
	s.folder.minFree = 1 << 62
	if err := s.Ping(t.Context(), now, []string{pinged, other}); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Ping: %v", err)
	}
	m, err := s.PingRecord(t.Context(), pinged)
	if err != nil || m.Pings != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	m.Fetched = m.Pings
	if err := s.SetFetched(t.Context(), m); err != nil {
		t.Error(err)
	}
	if err := s.DeletePingRecord(t.Context(), m); err != nil {
		t.Error(err)
	}
	for _, topic := range []string{pinged, other} {
		if m, err := s.PingRecord(t.Context(), topic); err != nil || m.Pings != 0 {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

// A ping record that was damaged counts as none, and is no reason to panic: the next ping
// makes it anew. Where nobody is told of it, the list of ping records fails.
func TestDamagedPingRecord(t *testing.T) {
	const pinged = "https://source.example/a/"
	s := openStore(t, t.TempDir(), Options{MinFree: -1})
	id := journal.TopicID(pinged)
	err := s.folder.do(t.Context(), &boltfile.Op{Run: func(tx *boltfile.Tx) error { return tx.Bucket(bucketPings).Put(keyOf(id), []byte{1, 200}) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PingRecords(t.Context(), journal.Partition(id), uuid.Nil, 10); !errors.Is(err, journal.ErrPacked) {
		t.Errorf("Pings: %v", err)
	}
	for what, err := range map[string]error{
		"SetFetched":       s.SetFetched(t.Context(), journal.PingRecord{Topic: pinged}),
		"DeletePingRecord": s.DeletePingRecord(t.Context(), journal.PingRecord{Topic: pinged}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if m, err := s.PingRecord(t.Context(), pinged); err != nil || m.Pings != 0 {
		t.Errorf("before a ping: %+v, %v", m, err)
	}
	if err := s.Ping(t.Context(), time.Now(), []string{pinged}); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if m, err := s.PingRecord(t.Context(), pinged); err != nil || m.Pings != 1 {
		t.Errorf("after a ping: %+v, %v", m, err)
	}
}
