package destination

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// file returns what is known of a URL. A record that can't be read counts as none:
// the next one takes its place.
func (s *state) file(url string) (f file, ok bool) {
	return read[file](s, filesBucket, url)
}

// failure returns why a resource could not be had, if it could not.
func (s *state) failure(url string) (f failure, ok bool) {
	return read[failure](s, failedBucket, url)
}

// set returns how far a set is.
func (s *state) set(name string) setState {
	st, _ := read[setState](s, setsBucket, name)
	return st
}

// read reads a record. It can fail only when the state is closed.
func read[T any](s *state, bucket []byte, key string) (v T, ok bool) {
	s.view(func(tx *boltfile.Tx) error {
		raw := tx.Bucket(bucket).Get([]byte(key))
		ok = raw != nil && json.Unmarshal(raw, &v) == nil
		return nil
	})
	if !ok {
		var none T
		return none, false
	}
	return v, true
}

// owner is the URL that is kept at a path; empty: none.
func (s *state) owner(key string) (url string) {
	s.view(func(tx *boltfile.Tx) error {
		url = string(tx.Bucket(pathsBucket).Get([]byte(key)))
		return nil
	})
	return url
}

// below reports whether anything is kept in the folder of a path.
func (s *state) below(key string) (found bool) {
	s.view(func(tx *boltfile.Tx) error {
		k, _ := tx.Bucket(pathsBucket).Cursor().Seek([]byte(key + "/"))
		found = strings.HasPrefix(string(k), key+"/")
		return nil
	})
	return found
}

// files goes over all files, and failures over what could not be had, some at a time, so
// that changes may be made meanwhile.
func (s *state) files() iter.Seq2[string, file]       { return all[file](s, filesBucket) }
func (s *state) failures() iter.Seq2[string, failure] { return all[failure](s, failedBucket) }

func all[T any](s *state, bucket []byte) iter.Seq2[string, T] {
	const page = 1000
	type pair struct {
		url string
		v   T
	}
	return func(yield func(string, T) bool) {
		var after []byte
		for more := true; more; {
			got := make([]pair, 0, page)
			more = false
			s.view(func(tx *boltfile.Tx) error {
				c := tx.Bucket(bucket).Cursor()
				k, raw := c.Seek(after)
				for ; k != nil && len(got) < page; k, raw = c.Next() {
					var p pair
					if json.Unmarshal(raw, &p.v) == nil {
						p.url = string(k)
						got = append(got, p)
					}
				}
				if more = k != nil; more {
					after = append(after[:0], k...)
				}
				return nil
			})
			for _, p := range got {
				if !yield(p.url, p.v) {
					return
				}
			}
		}
	}
}

// nextRetry finds out when the next failure is to be tried again, after retry was set to 0.
func (s *state) nextRetry() {
	for _, f := range s.failures() {
		at := f.NextAt.UnixNano()
		if have := s.retry.Load(); have == 0 || at < have {
			s.retry.Store(at)
		}
	}
}

// deletes is how many files were deleted within the window.
func (s *state) deletes(now time.Time) (n int) {
	s.view(func(tx *boltfile.Tx) error {
		c := tx.Bucket(deletesBucket).Cursor()
		for k, raw := c.Seek(instant(now.Add(-deleteWindow))); k != nil; k, raw = c.Next() {
			var one int
			_ = json.Unmarshal(raw, &one)
			n += one
		}
		return nil
	})
	return n
}

// instant is a time as a key.
func instant(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }
