package embedstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

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
func harness(t *testing.T) *storetest.Harness {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	t.Cleanup(func() { _ = s.Close() }) // whichever it is by then
	reopen := func() (storetest.Store, error) {
		if err := s.Close(); err != nil {
			return nil, err
		}
		var err error
		s, err = Open(dir, Options{MinFree: -1})
		return s, err
	}
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
	}
}

// Invariants 1, 2, 3, 4, 5, 10 and 12, as far as a store answers for them.
func TestStorePassesTheSuite(t *testing.T) { storetest.Run(t, harness) }

func TestStoreAgreesWithTheReference(t *testing.T) { storetest.RunModel(t, harness) }
