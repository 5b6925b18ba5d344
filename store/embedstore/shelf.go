package embedstore

import (
	"bytes"
	"context"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// shelf implements journal.Shelf. A value begins with the time at which it expires, in
// milliseconds since 1970; 0: never.
type shelf struct{ folder *folder }

// Keep implements journal.Shelf. It also deletes what has expired.
func (s *shelf) Keep(ctx context.Context, name string, fresh []byte, life time.Duration) (kept []byte, err error) {
	err = s.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		b, now := tx.Bucket(bucketShelf), time.Now()
		if kept = shelved(b.Get([]byte(name)), now); kept == nil {
			kept = fresh
		}
		var old [][]byte
		err := b.ForEach(func(k, v []byte) error {
			if shelved(v, now) == nil {
				old = append(old, bytes.Clone(k))
			}
			return nil
		})
		for i := 0; i < len(old) && err == nil; i++ {
			err = b.Delete(old[i])
		}
		if err != nil {
			return err
		}
		var until uint64
		if life > 0 {
			until = uint64(now.Add(life).UnixMilli())
		}
		return b.Put([]byte(name), append(number(until), kept...))
	}})
	return kept, err
}

// Kept implements journal.Shelf.
func (s *shelf) Kept(ctx context.Context, name string) (kept []byte, err error) {
	err = s.folder.view(ctx, func(tx *boltfile.Tx) error {
		kept = shelved(tx.Bucket(bucketShelf).Get([]byte(name)), time.Now())
		return nil
	})
	return kept, err
}

// Drop implements journal.Shelf.
func (s *shelf) Drop(ctx context.Context, name string) error {
	return s.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		return tx.Bucket(bucketShelf).Delete([]byte(name))
	}})
}

// shelved returns a copy of what a value holds; nil: nothing, or it has expired.
func shelved(v []byte, now time.Time) []byte {
	if len(v) < 8 {
		return nil
	}
	if until := readNumber(v[:8]); until != 0 && until <= uint64(max(now.UnixMilli(), 0)) {
		return nil
	}
	return bytes.Clone(v[8:])
}
