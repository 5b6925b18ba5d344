package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// The state is one bbolt file:
//
//	files    file records, as JSON, by URL
//	paths    URLs by path, folded where the file system folds
//	failed   what could not be had, as JSON, by URL
//	deletes  the files that were deleted within the last hour, by time
//	sets     how far each set is, as JSON, by its name
var (
	filesBucket   = []byte("files")
	pathsBucket   = []byte("paths")
	failedBucket  = []byte("failed")
	deletesBucket = []byte("deletes")
	setsBucket    = []byte("sets")
	metaBucket    = []byte("meta")
	formatKey     = []byte("format")
)

const format = 1

// file is what is known of a resource in the copy.
type file struct {
	Path string `json:"path"`
	Set  string `json:"set"`
	// Length and Hash are those of the bytes in the copy; Said tells that the
	// Source gave a hash, and that they agreed with it.
	Length  int64     `json:"length"`
	Hash    string    `json:"hash"`
	Said    bool      `json:"said,omitempty"`
	LastMod time.Time `json:"lastmod,omitzero"`
	// ETag and Modified are the validators of the answer.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	// ChangedAt is when the change was that brought it, zero for a baseline.
	ChangedAt time.Time `json:"changed_at,omitzero"`
	// Instead is the alternate or mirror that the bytes came from.
	Instead string `json:"instead,omitempty"`
}

// failure is a resource that could not be had, or not deleted.
type failure struct {
	Set       string    `json:"set"`
	Change    string    `json:"change,omitempty"`
	Length    int64     `json:"length"` // -1: the Source did not say
	Hash      string    `json:"hash,omitempty"`
	LastMod   time.Time `json:"lastmod,omitzero"`
	Links     []mirror  `json:"links,omitempty"`
	Why       string    `json:"why"`
	Held      bool      `json:"held,omitempty"` // by MaxDelete
	Tries     int       `json:"tries"`
	NextAt    time.Time `json:"next_at,omitzero"`
	ChangedAt time.Time `json:"changed_at,omitzero"`
}

// setState is how far a set is.
type setState struct {
	CapabilityList string    `json:"capability_list,omitempty"`
	BaselineAt     time.Time `json:"baseline_at,omitzero"` // of a complete one
	From           string    `json:"from,omitempty"`       // the list or dump that it came from
	// DumpsUntil is how far Change Dumps were taken, where there is no Change List.
	DumpsUntil time.Time `json:"dumps_until,omitzero"`
}

type state struct {
	db *bbolt.DB
}

func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	name := filepath.Join(dir, "copy.db")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("destination: %s is in use by another process; end that one, or name another folder", name)
	}
	if err != nil {
		return nil, fmt.Errorf("destination: opening %s: %w", name, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range [][]byte{filesBucket, pathsBucket, failedBucket, deletesBucket, setsBucket, metaBucket} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		var have int
		found, err := getJSON(tx.Bucket(metaBucket), formatKey, &have)
		switch {
		case err != nil:
			return err
		case !found:
			return putJSON(tx.Bucket(metaBucket), formatKey, format)
		case have != format:
			return fmt.Errorf("it has the format %d, and this program knows format %d only", have, format)
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("destination: opening %s: %w", name, err)
	}
	return &state{db}, nil
}

func getJSON(b *bbolt.Bucket, key []byte, v any) (found bool, err error) {
	raw := b.Get(key)
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, fmt.Errorf("the state is damaged at %q: %w", key, err)
	}
	return true, nil
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

// file returns what is known of a URL.
func (s *state) file(url string) (f file, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		ok, err = getJSON(tx.Bucket(filesBucket), []byte(url), &f)
		return err
	})
	return f, ok, err
}

// owner is the URL that is kept at a path; empty: none.
func (s *state) owner(key string) (url string) {
	_ = s.db.View(func(tx *bbolt.Tx) error {
		url = string(tx.Bucket(pathsBucket).Get([]byte(key)))
		return nil
	})
	return url
}

// count is how many files there are.
func (s *state) count() (n int) {
	_ = s.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket(pathsBucket).Stats().KeyN
		return nil
	})
	return n
}

// files goes over all files, some at a time, so that changes may be made meanwhile.
func (s *state) files() iter.Seq2[string, file] {
	const page = 1000
	return func(yield func(string, file) bool) {
		var after []byte
		for {
			type pair struct {
				url string
				f   file
			}
			var got []pair
			_ = s.db.View(func(tx *bbolt.Tx) error {
				c := tx.Bucket(filesBucket).Cursor()
				k, v := c.Seek(after)
				for ; k != nil && len(got) < page; k, v = c.Next() {
					var f file
					if json.Unmarshal(v, &f) == nil {
						got = append(got, pair{string(k), f})
					}
				}
				return nil
			})
			for _, p := range got {
				if !yield(p.url, p.f) {
					return
				}
			}
			if len(got) < page {
				return
			}
			after = append([]byte(got[len(got)-1].url), 0)
		}
	}
}

// failures are what could not be had.
func (s *state) failures() (map[string]failure, error) {
	out := map[string]failure{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(failedBucket)
		return b.ForEach(func(k, _ []byte) error {
			var f failure
			_, err := getJSON(b, k, &f)
			out[string(k)] = f
			return err
		})
	})
	return out, err
}

// settled is what is to be stored of some resources, together.
type settled struct {
	files   map[string]file // that are in the copy now
	keys    map[string]string
	gone    map[string]string // URLs that are not any more, and the keys of their paths
	failed  map[string]failure
	deleted int
}

func newSettled() *settled {
	return &settled{files: map[string]file{}, keys: map[string]string{}, gone: map[string]string{}, failed: map[string]failure{}}
}

func (d *settled) len() int { return len(d.files) + len(d.gone) + len(d.failed) }

// store makes d durable.
func (s *state) store(d *settled, now time.Time) error {
	if d.len() == 0 {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		files, paths, failed := tx.Bucket(filesBucket), tx.Bucket(pathsBucket), tx.Bucket(failedBucket)
		for url, key := range d.gone {
			if err := errors.Join(files.Delete([]byte(url)), paths.Delete([]byte(key)), failed.Delete([]byte(url))); err != nil {
				return err
			}
		}
		for url, f := range d.files {
			if err := errors.Join(putJSON(files, []byte(url), f), paths.Put([]byte(d.keys[url]), []byte(url)), failed.Delete([]byte(url))); err != nil {
				return err
			}
		}
		for url, f := range d.failed {
			var have file
			if found, err := getJSON(files, []byte(url), &have); err != nil {
				return err
			} else if found && have.ChangedAt.After(f.ChangedAt) {
				continue // a newer change was carried out meanwhile
			}
			if err := putJSON(failed, []byte(url), f); err != nil {
				return err
			}
		}
		if d.deleted == 0 {
			return nil
		}
		return countDeletes(tx.Bucket(deletesBucket), d.deleted, now)
	})
}

// countDeletes adds to how many files were deleted, and forgets what was long ago.
func countDeletes(b *bbolt.Bucket, n int, now time.Time) error {
	key := []byte(now.UTC().Format(time.RFC3339Nano))
	old := []byte(now.Add(-deleteWindow).UTC().Format(time.RFC3339Nano))
	c := b.Cursor()
	for k, _ := c.First(); k != nil && string(k) < string(old); k, _ = c.First() {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return putJSON(b, key, n)
}

// deletes is how many files were deleted within the window.
func (s *state) deletes(now time.Time) (n int) {
	old := now.Add(-deleteWindow).UTC().Format(time.RFC3339Nano)
	_ = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(deletesBucket).Cursor()
		for k, v := c.Seek([]byte(old)); k != nil; k, v = c.Next() {
			var one int
			_ = json.Unmarshal(v, &one)
			n += one
		}
		return nil
	})
	return n
}

func (s *state) set(name string) (st setState, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		_, err := getJSON(tx.Bucket(setsBucket), []byte(name), &st)
		return err
	})
	return st, err
}

func (s *state) putSet(name string, st setState) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return putJSON(tx.Bucket(setsBucket), []byte(name), st) })
}

// forget drops the failure of a URL.
func (s *state) forget(url string) error {
	there := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		there = tx.Bucket(failedBucket).Get([]byte(url)) != nil
		return nil
	})
	if err != nil || !there {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(failedBucket).Delete([]byte(url)) })
}
