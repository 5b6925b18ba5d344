package embedstore

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// wipe overwrites with zeros what is free in the file of a database, since
// bbolt leaves there what it held: secrets that were not sealed, or were with a
// key that is to be retired.
//
// Nobody may read the database meanwhile. Then all pages that bbolt calls free
// are such as its next transaction would write to: no state that a crash could
// bring back has anything in them.
func wipe(db *bbolt.DB) (err error) {
	f, err := os.OpenFile(db.Path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("overwriting old secrets in %s: %w", db.Path(), err)
		}
	}()
	size, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, db.Info().PageSize)
	return db.Update(func(tx *bbolt.Tx) error {
		for id := 0; int64(id)*int64(len(zeros)) < size.Size(); id++ {
			page, err := tx.Page(id) // nil: beyond what was ever used
			if err != nil {
				return err
			}
			if page != nil && page.Type != "free" {
				continue
			}
			if _, err := f.WriteAt(zeros, int64(id)*int64(len(zeros))); err != nil {
				return err
			}
		}
		return f.Sync()
	})
}
