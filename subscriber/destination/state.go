package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/resourcesync"
)

// The state is one bbolt file:
//
//	files    file records, as JSON, by URL
//	paths    URLs by path, folded where the file system folds
//	failed   what could not be had, as JSON, by URL
//	members  which sets list a resource, as JSON, by URL, where that is not what its record says
//	deletes  how many files were deleted within the last hour, by time
//	sets     how far each set is, as JSON, by its name
//	gone     when what was pushed as deleted was, where no Change List tells it again, by set and URL
var (
	filesBucket   = []byte("files")
	pathsBucket   = []byte("paths")
	failedBucket  = []byte("failed")
	membersBucket = []byte("members")
	deletesBucket = []byte("deletes")
	setsBucket    = []byte("sets")
	goneBucket    = []byte("gone")
	metaBucket    = []byte("meta")
	namesKey      = []byte("names") // the rule that files got their paths by (tree.rename)
	bytesKey      = []byte("bytes") // of all files together
)

const (
	format    = 3 // in 1 and 2, records had no checksums
	stateFile = "copy.db"
)

// file is what is known of a resource in the copy.
type file struct {
	Path string `json:"path"`
	// Set is the one whose description the bytes are of. The sets that list the
	// resource are its members.
	Set string `json:"set"`
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
	Set       string                  `json:"set"`
	Change    resourcesync.ChangeType `json:"change,omitempty"`
	Length    int64                   `json:"length"` // -1: the Source did not say
	Hash      string                  `json:"hash,omitempty"`
	LastMod   time.Time               `json:"lastmod,omitzero"`
	Links     []mirror                `json:"links,omitempty"`
	Why       string                  `json:"why"`
	Held      bool                    `json:"held,omitempty"` // by MaxDelete
	Tries     int                     `json:"tries"`
	NextAt    time.Time               `json:"next_at,omitzero"`
	ChangedAt time.Time               `json:"changed_at,omitzero"`
}

// setState is how far a set is.
type setState struct {
	CapabilityList string    `json:"capability_list,omitempty"`
	BaselineAt     time.Time `json:"baseline_at,omitzero"` // of a complete one
	From           string    `json:"from,omitempty"`       // the list or dump that it came from
	// Due is as of when a new baseline has to be, since changes before it can't be
	// had; zero: none is needed.
	Due time.Time `json:"due,omitzero"`
	// Via is the address of the Source that led to the set.
	Via string `json:"via,omitempty"`
	// DumpsUntil is how far Change Dumps were taken, where there is no Change List.
	DumpsUntil time.Time `json:"dumps_until,omitzero"`
	// ETag and Modified are the validators of the list at From, where it has no parts.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// state is what is remembered on disk. It may be shared between goroutines.
type state struct {
	db    *boltfile.DB
	space *space
	n     atomic.Int64          // of files
	moved atomic.Bool           // something changed since the status was written
	fault atomic.Pointer[error] // why it can't be read any more; nil: it can
	retry atomic.Int64          // the earliest NextAt of failures that were stored since it was asked, in nanoseconds; 0: none
}

// ErrInUse says that a copy belongs to another process now.
var ErrInUse = boltfile.ErrLocked

// stateOptions are those of the file. All of it is read at once: it is cheap to make
// anew, and a record that cannot be read counts as none.
func stateOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{filesBucket, pathsBucket, failedBucket, membersBucket, deletesBucket, setsBucket, goneBucket, metaBucket},
		Format:  format, Wait: time.Second, Whole: true, PassDamage: true,
		Advice: "Move it away and sync again: what is in the copy already, and as it should be, is not fetched again",
	}
}

// openState opens the state in a folder, or begins one. The space is told of the bytes of
// all files.
func openState(dir string, space *space) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	if err := disk.Mark(dir); err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	db, err := boltfile.Open(filepath.Join(dir, stateFile), stateOptions())
	if err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	s := &state{db: db, space: space}
	if err := s.prepare(); err != nil {
		_ = db.Close() // the first error says more
		return nil, fmt.Errorf("destination: opening the state in %s: %w", dir, err)
	}
	return s, nil
}

// reopen goes on with the state in another folder, and closes this one. Nobody else may use it meanwhile.
func (s *state) reopen(dir string) error {
	other, err := openState(dir, s.space)
	if err != nil {
		return err
	}
	_ = s.db.Close() // a snapshot
	s.db = other.db
	s.n.Store(other.n.Load())
	s.fault.Store(nil)
	return nil
}

// view reads. Where a page cannot be read, what is there reads as if it were not, and
// nothing more is written.
func (s *state) view(fn func(tx *boltfile.Tx) error) {
	if err := s.db.View(fn); err != nil {
		s.fault.CompareAndSwap(nil, &err)
	}
}

func (s *state) update(fn func(tx *boltfile.Tx) error) error {
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return s.db.Update(fn)
}

func (s *state) prepare() error {
	return s.update(func(tx *boltfile.Tx) (err error) {
		s.n.Store(int64(tx.Bucket(filesBucket).Len()))
		s.retry.Store(1)
		s.space.files, err = countBytes(tx)
		return err
	})
}

func putJSON(b boltfile.Bucket, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), raw)
}

// countBytes is how many bytes all files have. If the record of that is damaged, it counts them.
func countBytes(tx *boltfile.Tx) (n int64, err error) {
	if raw := tx.Bucket(metaBucket).Get(bytesKey); raw != nil {
		return n, json.Unmarshal(raw, &n)
	}
	err = tx.Bucket(filesBucket).ForEach(func(_, raw []byte) error {
		n += lengthOf(raw)
		return nil
	})
	return n, errors.Join(err, addBytes(tx, n))
}

// addBytes notes that the files have so many bytes more.
func addBytes(tx *boltfile.Tx, by int64) error {
	if by == 0 {
		return nil
	}
	var have int64
	_ = json.Unmarshal(tx.Bucket(metaBucket).Get(bytesKey), &have)
	return putJSON(tx.Bucket(metaBucket), string(bytesKey), have+by)
}

// lengthOf is the length in the record of a file; 0 where that can't be read.
func lengthOf(raw []byte) int64 {
	var f file
	if json.Unmarshal(raw, &f) != nil {
		return 0
	}
	return f.Length
}

// count is how many files there are.
func (s *state) count() int { return int(s.n.Load()) }

func (s *state) putSet(name string, st setState) error {
	defer s.moved.Store(true)
	return s.update(func(tx *boltfile.Tx) error { return putJSON(tx.Bucket(setsBucket), name, st) })
}

// records is what is to be stored of some resources, together. A URL is in one of
// the maps only.
type records struct {
	files   map[string]file             // that are in the copy now, recorded anew
	gone    map[string]string           // that are not any more, and their paths
	failed  map[string]failure          // that could not be had
	well    map[string]bool             // that are as they should be
	pushed  map[string]deletion         // that were pushed as deleted, in no Change List; also those of gone
	says    map[string]membershipChange // what sets said of any of them, or of others
	deleted int
}

func newRecords() *records {
	return &records{files: map[string]file{}, gone: map[string]string{}, failed: map[string]failure{}, well: map[string]bool{}, pushed: map[string]deletion{}, says: map[string]membershipChange{}}
}

func (d *records) len() int {
	return len(d.files) + len(d.gone) + len(d.failed) + len(d.well) + len(d.pushed) + len(d.says)
}

// store makes d durable. Fold is tree.fold.
func (s *state) store(d *records, fold func(string) string, now time.Time) error {
	var n, bytes, retry int64
	err := s.update(func(tx *boltfile.Tx) error {
		n, bytes, retry = 0, 0, 0
		files, paths, failed := tx.Bucket(filesBucket), tx.Bucket(pathsBucket), tx.Bucket(failedBucket)
		listed := d.members(tx)
		drop := func(url string) error { // forgets the file of a URL, and its path
			raw := files.Get([]byte(url))
			if raw == nil {
				return nil
			}
			n--
			bytes -= lengthOf(raw)
			var have file
			if json.Unmarshal(raw, &have) == nil && string(paths.Get([]byte(fold(have.Path)))) == url {
				if err := paths.Delete([]byte(fold(have.Path))); err != nil {
					return err
				}
			}
			return files.Delete([]byte(url))
		}
		for url := range d.gone {
			if err := errors.Join(drop(url), failed.Delete([]byte(url))); err != nil {
				return err
			}
		}
		for _, url := range slices.Sorted(maps.Keys(d.files)) { // in order bbolt is several times faster
			n++
			f := d.files[url]
			bytes += f.Length
			if err := errors.Join(drop(url), putJSON(files, url, f), paths.Put([]byte(fold(f.Path)), []byte(url)), failed.Delete([]byte(url))); err != nil {
				return err
			}
		}
		if err := putDeletions(tx.Bucket(goneBucket), d, listed); err != nil {
			return err
		}
		for url := range d.well {
			if err := failed.Delete([]byte(url)); err != nil {
				return err
			}
		}
		for url, f := range d.failed {
			if f.Change.Removes() && len(listed[url]) > 0 {
				continue // another set came to list it meanwhile
			}
			if at := f.NextAt.UnixNano(); retry == 0 || at < retry {
				retry = at
			}
			if err := putJSON(failed, url, f); err != nil {
				return err
			}
		}
		if err := putMembers(tx, listed); err != nil {
			return err
		}
		if err := addBytes(tx, bytes); err != nil || d.deleted == 0 {
			return err
		}
		return countDeletes(tx.Bucket(deletesBucket), d.deleted, now)
	})
	if err != nil {
		return fmt.Errorf("writing the state of the copy: %w", err)
	}
	s.moved.Store(true)
	s.n.Add(n)
	s.space.recorded(bytes, d.files)
	if have := s.retry.Load(); retry != 0 && (have == 0 || retry < have) {
		s.retry.Store(retry)
	}
	return nil
}

// countDeletes adds to how many files were deleted, and forgets what was long ago.
func countDeletes(b boltfile.Bucket, n int, now time.Time) error {
	old := string(instant(now.Add(-deleteWindow)))
	c := b.Cursor()
	for k, _ := c.First(); k != nil && string(k) < old; k, _ = c.First() {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	key := string(instant(now))
	var before int
	_ = json.Unmarshal(b.Get([]byte(key)), &before)
	return putJSON(b, key, before+n)
}
