package embedstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// sealKeys are keys that are told apart by one byte each.
func sealKeys(t testing.TB, of ...byte) *seal.Keys {
	t.Helper()
	var secrets [][32]byte
	for _, b := range of {
		secrets = append(secrets, [32]byte{b})
	}
	keys, err := seal.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func secretOf(i int) string { return fmt.Sprintf("secret number %06d of a subscriber", i) }

// withSecrets stores subscriptions, each with a request of the same secret.
func withSecrets(t testing.TB, s *Store, from, until int) {
	t.Helper()
	err := s.folder.do(t.Context(), &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		for i := from; i < until; i++ {
			callback := fmt.Sprintf("https://subscriber.example/%d", i)
			sub := subscriptions.Subscription{Topic: topic, Callback: callback, Secret: secretOf(i)}
			request := subscriptions.Request{ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: topic, Callback: callback, Secret: secretOf(i)}
			id := subscriptions.ID(topic, callback)
			if _, err := s.records.write(tx, keyOf(id), subscriptions.Record{Subscription: &sub, Request: &request}); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// hasSecrets checks that all of them are there, and that the database is sound.
func hasSecrets(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		rec, err := s.Get(t.Context(), subscriptions.ID(topic, fmt.Sprintf("https://subscriber.example/%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		if rec.Subscription == nil || rec.Request == nil || rec.Subscription.Secret != secretOf(i) || rec.Request.Secret != secretOf(i) {
			t.Fatalf("record %d is %+v", i, rec)
		}
	}
	err := s.folder.db.Bolt().View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holds counts the files of the folder that hold a text.
func holds(t *testing.T, dir, text string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A folder without keys is given one, then another, which replaces it, and the
// first is taken away: everything is readable at each step, and when a step is
// done nothing in the file is stored as it was before, free pages included.
func TestSecretsAreStoredAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	ids := sealKeys(t, 1, 2).IDs()
	const plain = "secret number"
	// The byte that says that it is sealed, its length, and the key's id.
	begins := string([]byte{1, byte(len(secretOf(0)) + 4 + 28)})
	one, two := begins+string(ids[0][:]), begins+string(ids[1][:])
	n := 0
	for _, step := range []struct {
		name     string
		keys     []byte
		resealed int // of the records before it
		retired  []seal.ID
		in, out  string // what is in the file afterwards, and what is not
	}{
		{"no key", nil, 0, nil, plain, one},
		{"no key still", nil, 0, nil, plain, one},
		{"a key", []byte{1}, 2 * 1000, nil, one, plain},
		{"the same key", []byte{1}, 0, nil, one, plain},
		{"a new one before it", []byte{2, 1}, 2 * 2000, ids[:1], two, one},
		{"the old one is gone", []byte{2}, 0, nil, two, one},
	} {
		s := openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, step.keys...)})
		got := s.Secrets()
		var key *seal.ID
		if len(step.keys) > 0 {
			key = &sealKeys(t, step.keys...).IDs()[0]
		}
		if d := cmp.Diff(seal.Status{Key: key, Resealed: step.resealed, Retired: step.retired}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, d)
		}
		hasSecrets(t, s, n)
		if step.resealed > 0 && holds(t, dir, step.out) > 0 {
			t.Errorf("%s: once it is open, %q is still in the file", step.name, step.out)
		}
		withSecrets(t, s, n/2, n+500) // some again, of which free pages come
		n += 500
		hasSecrets(t, s, n)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if holds(t, dir, step.in) == 0 || holds(t, dir, step.out) > 0 {
			t.Errorf("%s: %q is in the file, or %q is not", step.name, step.out, step.in)
		}
	}
}

// A folder whose secrets need a key that is not there is not opened, says which
// and how many subscriptions need it, and is as it was.
func TestMissingKeyIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 1)})
	withSecrets(t, s, 0, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	id := sealKeys(t, 1).IDs()[0]
	for name, keys := range map[string]*seal.Keys{"no key": nil, "another key": sealKeys(t, 2), "others": sealKeys(t, 3, 2)} {
		s, err := Open(dir, Options{MinFree: -1, Keys: keys})
		if err == nil {
			_ = s.Close()
			t.Fatalf("%s: it was opened", name)
		}
		var missing *seal.KeyError
		if !errors.As(err, &missing) || missing.ID != id {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{dir, "3 subscriptions", id.String(), "--seal-key-file", "put that key back"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
	s = openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 2, 1)})
	hasSecrets(t, s, 3)
}

// A key that the store remembers and nothing needs is not asked for.
func TestKeyThatNothingNeeds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 1)})
	withSecrets(t, s, 0, 1)
	_, err := s.Update(t.Context(), subscriptions.ID(topic, "https://subscriber.example/0"), func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{}, nil
	})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 2)})
	if got := s.Secrets(); got.Resealed != 0 || !slices.Equal(got.Retired, sealKeys(t, 1).IDs()) {
		t.Errorf("%+v", got)
	}
}

// A start that ended while it stored secrets anew is taken up by the next one.
func TestResealIsTakenUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 1)})
	withSecrets(t, s, 0, 20)
	// Half of it was done, and the store knows of both keys.
	s.records.keys = sealKeys(t, 2, 1)
	withSecrets(t, s, 0, 10)
	err := errors.Join(s.records.remember(forms{ids: []seal.ID{sealKeys(t, 2).IDs()[0], sealKeys(t, 1).IDs()[0]}}), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{MinFree: -1, Keys: sealKeys(t, 2)}); err == nil || !strings.Contains(err.Error(), "10 subscriptions") {
		t.Fatalf("with the new key alone: %v", err)
	}
	s = openStore(t, dir, Options{MinFree: -1, Keys: sealKeys(t, 2, 1)})
	hasSecrets(t, s, 20)
	if got := s.Secrets(); got.Resealed != 20 {
		t.Errorf("%+v", got)
	}
}

// A secret that was put into another record is not opened, and named by id.
func TestMovedSecretIsRefused(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1, Keys: sealKeys(t, 1)})
	withSecrets(t, s, 0, 1)
	id := subscriptions.ID(topic, "https://subscriber.example/0")
	err := s.folder.db.Update(func(tx *boltfile.Tx) error {
		b := tx.Bucket(bucketSubs)
		v := bytes.Replace(b.Get(keyOf(id)), []byte("subscriber.example/0"), []byte("subscriber.example/1"), 1)
		return b.Put(keyOf(id), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), id)
	if !errors.Is(err, seal.ErrDamaged) || !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("%v", err)
	}
}

func FuzzUnpackForms(f *testing.F) {
	f.Add(forms{plain: true, ids: sealKeys(f, 1, 2).IDs()}.pack())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := unpackForms(b)
		if err != nil {
			return
		}
		again, err := unpackForms(v.pack())
		if err != nil || again.plain != v.plain || !slices.Equal(again.ids, v.ids) {
			t.Errorf("%x: %+v, then %+v, %v", b, v, again, err)
		}
	})
}

// BenchmarkReseal opens a folder with 100,000 secrets under a new key.
func BenchmarkReseal(b *testing.B) {
	const n = 100_000
	dir := filepath.Join(b.TempDir(), "data")
	s, err := Open(dir, Options{MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	withSecrets(b, s, 0, n/2) // each twice, in a subscription and a request
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	key := byte(0)
	for b.Loop() {
		key++
		s, err := Open(dir, Options{MinFree: -1, Keys: sealKeys(b, key, key-1)})
		if err != nil {
			b.Fatal(err)
		}
		if got := s.Secrets().Resealed; got != n {
			b.Fatalf("%d were stored anew", got)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "secrets/s")
}
