package boltfile

import (
	"errors"
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
