package boltfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A file that is cut off while it is open ends what reads and writes it with an error, and nothing waits for what ended so.
func TestCutOffWhileOpen(t *testing.T) {
	records := records(rand.New(rand.NewPCG(1, 2)), 500)
	for name, pages := range map[string]int64{"empty": 0, "one page": 1, "the meta pages": 2, "some pages": 5} {
		for _, first := range []string{"view", "update", "nothing", "failing", "wipe"} {
			t.Run(name+", "+first, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "file.db")
				d, err := Open(path, options())
				if err != nil {
					t.Fatal(err)
				}
				write(t, d, records)
				if err := os.Truncate(path, pages*int64(d.Bolt().Info().PageSize)); err != nil {
					t.Fatal(err)
				}
				read := func() error {
					return d.View(func(tx *Tx) error {
						return errors.Join(
							tx.Bucket(small).ForEach(func(_, _ []byte) error { return nil }), tx.Bucket(large).ForEach(func(_, _ []byte) error { return nil }))
					})
				}
				change := func() error {
					return d.Update(func(tx *Tx) error { return tx.Bucket(small).Put([]byte("key"), []byte("value")) })
				}
				failing := errors.New("of the caller")
				ways := map[string]func() error{
					"view": read, "update": change, "nothing": func() error { return d.Update(func(*Tx) error { return nil }) }, "wipe": d.Wipe,
					"failing": func() error {
						return d.Update(func(tx *Tx) error { return errors.Join(failing, tx.Bucket(small).Put([]byte("key"), nil)) })
					},
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = ways[first]()
					var all sync.WaitGroup
					for range 4 {
						all.Go(func() {
							for _, err := range []error{read(), change(), read()} {
								if err == nil || !strings.Contains(err.Error(), path) {
									t.Errorf("%v, want an error about the file", err)
								}
							}
						})
					}
					all.Wait()
					_ = d.Close()
				}()
				select {
				case <-done:
				case <-time.After(time.Minute):
					t.Fatal("it waits without end")
				}
			})
		}
	}
}

// A file that is deleted while it is open, or replaced by another one, ends what reads and writes it with an error that
// says so. Nothing is written to a file that nobody can open any more, and nothing to the one in its place.
func TestDeletedWhileOpen(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		for _, first := range []string{"read", "change"} {
			t.Run(fmt.Sprintf("replaced %t, first a %s", replaced, first), func(t *testing.T) {
				dir := t.TempDir()
				path, other := filepath.Join(dir, "file.db"), filepath.Join(dir, "other.db")
				put := func(d *DB, value string) error {
					return d.Update(func(tx *Tx) error { return tx.Bucket(small).Put([]byte("key"), []byte(value)) })
				}
				with := func(path, value string) *DB {
					d, err := Open(path, options())
					if err == nil {
						err = put(d, value)
					}
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				if err := with(other, "other").Close(); err != nil {
					t.Fatal(err)
				}
				d := with(path, "before")
				move := func() error { return os.Remove(path) }
				if replaced {
					move = func() error { return os.Rename(other, path) }
				}
				if err := move(); err != nil {
					t.Fatal(err)
				}
				read := func() error { return d.View(func(*Tx) error { return nil }) }
				change := func() error { return put(d, "after") }
				uses := []func() error{read, change, read, change}
				if first == "change" {
					uses = uses[1:]
				}
				for _, use := range uses {
					if err := use(); err == nil || MayBeStored(err) || !strings.Contains(err.Error(), path+" was deleted while it was open") {
						t.Errorf("%v, want an error that says that the file was deleted", err)
					}
				}
				if err := d.Ready(); err == nil {
					t.Error("it is ready")
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				if !replaced {
					return
				}
				d, err := Open(path, options())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = d.Close() }()
				got, err := Read(d, func(tx *Tx) string { return string(tx.Bucket(small).Get([]byte("key"))) })
				if err != nil || got != "other" {
					t.Errorf("%q, %v: the file that was put there is another one now", got, err)
				}
			})
		}
	}
}
