package embedstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rshub/rshub/internal/seal"
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

// Invariants 1, 2, 3, 4, 5, 10 and 12, as far as a store answers for them.
func TestStorePassesTheSuite(t *testing.T) { storetest.Run(t, harness) }

func TestStoreAgreesWithTheReference(t *testing.T) { storetest.RunModel(t, harness) }

// Nobody notices that secrets are sealed.
func TestSealingStoreAgreesWithTheReference(t *testing.T) {
	storetest.RunModel(t, func(t *testing.T) *storetest.Harness { return harnessWith(t, sealKeys(t, 1)) })
}
