package destination

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// table is a bucket of records, which are stored as JSON.
type table[T any] struct{ bucket []byte }

// get returns a record. A record that cannot be read counts as missing: the next one
// replaces it.
func (t table[T]) get(tx *boltfile.Tx, key string) (v T, ok bool) {
	raw := tx.Bucket(t.bucket).Get([]byte(key))
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return *new(T), false
	}
	return v, true
}

// read is get in a separate transaction.
func (t table[T]) read(s *state, key string) (v T, ok bool) {
	s.view(func(tx *boltfile.Tx) { v, ok = t.get(tx, key) })
	return v, ok
}

// all yields the records that can be read. It reads them in pages, so the table may be
// changed meanwhile.
func (t table[T]) all(s *state) iter.Seq2[string, T] {
	return t.some(s, func(string) bool { return true })
}

// some is all for the records with keys that are wanted, which must not use the state.
func (t table[T]) some(s *state, wanted func(key string) bool) iter.Seq2[string, T] {
	return pages(s, t.bucket, func(_ *boltfile.Tx, key string, raw []byte) (v T, ok bool) {
		return v, wanted(key) && json.Unmarshal(raw, &v) == nil
	})
}

// pages yields what decode makes of the records of a bucket, in pages.
func pages[T any](s *state, bucket []byte, decode func(tx *boltfile.Tx, key string, raw []byte) (T, bool)) iter.Seq2[string, T] {
	const page = 1000 // records that are looked at, so that no page lasts long
	type record struct {
		key   string
		value T
	}
	return func(yield func(string, T) bool) {
		for from := []byte{}; from != nil; {
			var got []record
			var next []byte
			s.view(func(tx *boltfile.Tx) {
				c := tx.Bucket(bucket).Cursor()
				k, raw := c.Seek(from)
				for n := 0; k != nil && n < page; n++ {
					key := string(k)
					if v, ok := decode(tx, key, raw); ok {
						got = append(got, record{key, v})
					}
					k, raw = c.Next()
				}
				next = bytes.Clone(k)
			})
			for _, r := range got {
				if !yield(r.key, r.value) {
					return
				}
			}
			from = next
		}
	}
}

// view reads. If a page cannot be read, its records count as missing, and nothing more is
// written.
func (s *state) view(fn func(tx *boltfile.Tx)) {
	err := s.db.View(func(tx *boltfile.Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		s.fault.CompareAndSwap(nil, &err)
	}
}

// unreadable returns why the state cannot be read any more; nil: it can.
func (s *state) unreadable() error {
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

func (s *state) file(url string) (f file, ok bool)       { return filesTable.read(s, url) }
func (s *state) failure(url string) (f failure, ok bool) { return failedTable.read(s, url) }
func (s *state) files() iter.Seq2[string, file]          { return filesTable.all(s) }
func (s *state) failures() iter.Seq2[string, failure]    { return failedTable.all(s) }

// set returns the progress of a set.
func (s *state) set(name string) setState {
	st, _ := setsTable.read(s, name)
	return st
}

// owner returns the URL whose file has a path; empty: there is none.
func (s *state) owner(key string) (url string) {
	s.view(func(tx *boltfile.Tx) { url = string(tx.Bucket(pathsBucket).Get([]byte(key))) })
	return url
}

// below reports whether any file is in the folder of a path.
func (s *state) below(key string) (found bool) {
	s.view(func(tx *boltfile.Tx) {
		k, _ := tx.Bucket(pathsBucket).Cursor().Seek([]byte(key + "/"))
		found = strings.HasPrefix(string(k), key+"/")
	})
	return found
}

// deletes returns how many files were deleted within the window. Where the clock was set back, deletions count that
// are ahead of it by as much; those far ahead would count until it gets there.
func (s *state) deletes(now time.Time) (n int) {
	old, ahead := instant(now.Add(-deleteWindow)), instant(now.Add(deleteWindow))
	for at, deleted := range deletesTable.all(s) {
		if at >= old && at <= ahead {
			n += deleted
		}
	}
	return n
}

// instant is a time as a key.
func instant(t time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())))
}
