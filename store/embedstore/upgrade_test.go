package embedstore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// A store of the version before stays readable for it until the upgrade is finished.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	if s.Upgrader.Pending() {
		t.Error("the upgrade of a new store is pending")
	}
	topic := "https://source.example/"
	now := time.Now().UTC()
	stored, err := s.Append(t.Context(), now, topic, journal.Entry{Body: []byte("x"), Kind: journal.KindContent}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.folder.db.Update(func(tx *boltfile.Tx) error { return tx.SetFormat(previous) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, dir, Options{})
	want := cluster.Formats{Written: previous, Newest: schema}
	if got, err := s.Upgrader.Formats(t.Context()); err != nil || got.Written != want.Written || got.Newest != want.Newest || got.Closed || !s.Upgrader.Pending() {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	after := stored.Anchor()
	lost := func(n int) journal.Gap {
		return journal.Gap{
			From: now.Add(time.Duration(n) * time.Hour), Until: now.Add(time.Duration(n)*time.Hour + time.Minute), Count: 1,
			Reason: journal.GapRolledBack, At: now, Position: after.Position + 1, Seq: 2, After: after,
		}
	}
	record := func(n int) journal.Anchor {
		t.Helper()
		if err := s.RecordGap(t.Context(), topic, lost(n)); err != nil {
			t.Fatal(err)
		}
		h, err := s.Head(t.Context(), topic)
		if err != nil || len(h.Gaps) != n {
			t.Fatalf("%+v, %v", h, err)
		}
		return h.Gaps[n-1].After
	}
	if got := record(1); got != (journal.Anchor{}) {
		t.Errorf("the version before cannot read %+v", got)
	}
	for range 2 { // it may be finished again
		if err := s.Upgrader.FinishUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := record(2); got != after || s.Upgrader.Pending() {
		t.Errorf("after the upgrade %+v is stored, want %+v", got, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, Options{})
	if got, err := s.Upgrader.Formats(t.Context()); err != nil || got.Written != schema || !got.Closed || s.Upgrader.Pending() {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	older := fileOptions()
	older.Format, older.Oldest = previous, 0
	if _, err := boltfile.Open(filepath.Join(dir, databaseName), older); !errors.Is(err, boltfile.ErrNewer) {
		t.Errorf("the version before opens it: %v", err)
	}
}
