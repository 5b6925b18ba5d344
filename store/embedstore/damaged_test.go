package embedstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A damaged database is an error that names the file and says what to do.
func TestDamagedDatabase(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"overwritten": func(b []byte) []byte {
			for i := 8192; i < len(b); i += 97 {
				b[i] ^= 0xff
			}
			return b
		},
		"cut short":      func(b []byte) []byte { return b[:5000] },
		"something else": func([]byte) []byte { return []byte(strings.Repeat("no database\n", 3000)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, Options{MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			add(t, s, topic, 100)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, databaseName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err = Open(dir, Options{MinFree: -1})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("the error does not say what to do with which file: %v", err)
			}
		})
	}
}

// One record that cannot be read hides none of the others, nor what can be read
// of it, where there is somebody to tell; else it is an error.
func TestDamagedRecordIsLeftOut(t *testing.T) {
	told := map[uuid.UUID]error{}
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1, Unreadable: func(id uuid.UUID, why error) { told[id] = why }})
	const all = 400 // over all shards
	withSecrets(t, s, 0, all)
	count := func() (subs, requests, asked int) {
		for shard := range journal.Partitions {
			records, err := s.List(t.Context(), shard, uuid.Nil, all)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				if rec.Subscription != nil {
					subs++
				}
				if rec.Request != nil {
					requests++
				}
			}
			pending, err := s.Requests(t.Context(), shard, uuid.Nil, all)
			if err != nil {
				t.Fatal(err)
			}
			asked += len(pending)
		}
		return subs, requests, asked
	}
	id := subscriptions.ID(topic, "https://subscriber.example/7")
	for name, c := range map[string]struct {
		bucket         []byte
		subs, requests int
	}{"cursor": {bucketCursors, all - 1, all}, "subscription": {bucketSubs, all - 1, all}, "request": {bucketRequests, all, all - 1}} {
		clear(told)
		var whole []byte
		edit := func(change func(b *bbolt.Bucket) error) {
			t.Helper()
			if err := s.db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(c.bucket)) }); err != nil {
				t.Fatal(err)
			}
		}
		edit(func(b *bbolt.Bucket) error {
			whole = bytes.Clone(b.Get(keyOf(id)))
			return b.Put(keyOf(id), whole[:len(whole)-1])
		})
		subs, requests, asked := count()
		if subs != c.subs || requests != c.requests || asked != c.requests || len(told) != 1 || !errors.Is(told[id], journal.ErrPacked) {
			t.Errorf("with a damaged %s: %d subscriptions, %d and %d requests, told of %v", name, subs, requests, asked, told)
		}
		unreadable := s.unreadable
		s.unreadable = nil
		if _, err := s.List(t.Context(), subscriptions.Shard(id), uuid.Nil, all); !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("with a damaged %s, and nobody to tell: %v", name, err)
		}
		s.unreadable = unreadable
		edit(func(b *bbolt.Bucket) error { return b.Put(keyOf(id), whole) })
	}
}
