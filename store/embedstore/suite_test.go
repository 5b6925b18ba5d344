package embedstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/store/storetest"
)

// openStore opens a store that is closed at the end of the test.
func openStore(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// harness is a store in a folder of its own.
func harness(t *testing.T) *storetest.Harness { return harnessWith(t, nil) }

// harnessWith is one that has keys from the beginning.
func harnessWith(t *testing.T, keys *seal.Keys) *storetest.Harness {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1, Keys: keys})
	t.Cleanup(func() { _ = s.Close() }) // whichever it is by then
	reopenWith := func(with *seal.Keys) (storetest.Store, error) {
		if err := s.Close(); err != nil {
			return nil, err
		}
		again, err := Open(dir, Options{MinFree: -1, Keys: with})
		if err != nil {
			return nil, err
		}
		s = again
		return s, nil
	}
	reopen := func() (storetest.Store, error) { return reopenWith(keys) }
	return &storetest.Harness{
		Store:  s,
		Reopen: reopen,
		Snapshot: func() (func() (storetest.Store, error), error) {
			// Nothing is being written, so the files are a state of the store.
			saved := filepath.Join(t.TempDir(), "saved")
			if err := os.CopyFS(saved, os.DirFS(dir)); err != nil {
				return nil, err
			}
			return func() (storetest.Store, error) {
				if err := errors.Join(s.Close(), os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(saved))); err != nil {
					return nil, err
				}
				return reopen()
			}, nil
		},
		Damage: func(topic string, e journal.Entry, d storetest.Damage) error { return damage(s, topic, e, d) },
		Sealing: &storetest.Sealing{Reopen: reopenWith, Stored: func() (all []byte, err error) {
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				all = append(all, b...)
				return err
			})
			return all, err
		}},
	}
}

// damage damages an entry in the files of a store.
func damage(s *Store, topic string, e journal.Entry, d storetest.Damage) error {
	file := s.topics.bodies.path(e.ID)
	if e.Size > inlineMax {
		switch d {
		case storetest.DamagedBody:
			body := bytes.Clone(e.Body)
			body[len(body)/2] ^= 1
			return os.WriteFile(file, body, 0o600)
		case storetest.ShortBody:
			return os.Truncate(file, e.Size-1)
		case storetest.MissingBody:
			return os.Remove(file)
		}
	}
	return s.folder.db.Update(func(tx *boltfile.Tx) error {
		b, k := tx.Bucket(bucketEntries), positionKey(keyOf(journal.TopicID(topic)), e.Position)
		v := bytes.Clone(b.Get(k))
		switch d {
		case storetest.DamagedEntry:
			return b.Put(k, v[:len(v)/2])
		case storetest.MissingEntry:
			return b.Delete(k)
		default:
			v[len(v)-1] ^= 1
			return b.Put(k, v)
		}
	})
}

// Invariants 1, 2, 3, 4, 5, 10 and 12, as far as a store answers for them.
func TestStorePassesTheSuite(t *testing.T) { storetest.Run(t, harness) }

func TestStoreAgreesWithTheReference(t *testing.T) { storetest.RunModel(t, harness) }

// Nobody notices that secrets are sealed.
func TestSealingStoreAgreesWithTheReference(t *testing.T) {
	storetest.RunModel(t, func(t *testing.T) *storetest.Harness { return harnessWith(t, sealKeys(t, 1)) })
}
