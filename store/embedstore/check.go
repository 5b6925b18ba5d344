package embedstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Checked is what Check read.
type Checked struct {
	Records int   // of the database
	Entries int   // of all journals
	Bytes   int64 // of their bodies
	// Kept are the names of what journal.Shelf keeps.
	Kept []string
}

// Check reads all that is in the folder of a store that no process has open, and
// changes nothing. Bad is called with each thing that is damaged. The error is about
// the whole: the database cannot be read, or another process has it (ErrLocked).
func Check(dir string, bad func(what string, why error)) (c Checked, err error) {
	c.Records, err = boltfile.Check(filepath.Join(dir, databaseName), fileOptions(), func(bucket, key []byte) {
		bad(fmt.Sprintf("the record %x of %s", key, bucket), errors.New("its checksum is wrong"))
	}, func(tx *boltfile.Tx) error {
		bodies := bodies{dir: filepath.Join(dir, bodiesName), id: string(tx.Bucket(bucketMeta).Get(keyID))}
		there := bodies.there()
		if there != nil {
			bad("the folder of the large bodies", there)
		}
		if err := tx.Bucket(bucketShelf).ForEach(func(name, v []byte) error {
			if shelved(v, time.Now()) != nil {
				c.Kept = append(c.Kept, string(name))
			}
			return nil
		}); err != nil {
			return err
		}
		return tx.Bucket(bucketHeads).ForEach(func(key, v []byte) error {
			h, err := openHead(key, v)
			if err != nil {
				if len(v) > 0 { // else it was reported
					bad("the state of a topic", err)
				}
				return nil
			}
			return c.journal(tx, key, h.Head, bad, func(e journal.Entry) error {
				if there != nil {
					return nil
				}
				_, err := bodies.read(e)
				return err
			})
		})
	})
	if errors.Is(err, boltfile.ErrLocked) {
		return c, lockedError(dir)
	}
	return c, err
}

// journal reads the entries of a topic. File checks the body of one in its file.
func (c *Checked) journal(tx *boltfile.Tx, key []byte, h journal.Head, bad func(what string, why error), file func(journal.Entry) error) error {
	last, topic := h.Trimmed, "the journal of "+h.Topic
	err := scan(tx.Bucket(bucketEntries), key, key, func(k, v []byte) (bool, error) {
		c.Entries++
		e, inline, inFile, err := entryAt(k, v)
		if err != nil {
			if len(v) > 0 { // else it was reported
				bad(topic, err)
			}
			last = journal.Anchor{Position: positionOf(k)}
			return true, nil
		}
		if e.Misses(last) {
			bad(topic, &journal.DamagedError{At: e.Predecessor(), Why: journal.ErrMissing})
		}
		last = e.Anchor()
		c.Bytes += e.Size
		if inFile {
			err = file(e)
		} else {
			err = e.Check(inline)
		}
		if err != nil {
			bad(topic, err)
		}
		return true, nil
	})
	if missing := h.MissingNewest(last); missing != nil {
		bad(topic, missing)
	}
	return err
}
