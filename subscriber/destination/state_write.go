package destination

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// writer is a transaction that writes. Its methods keep the first error, after which
// nothing is committed.
type writer struct {
	*boltfile.Tx
	err      error
	n, bytes int64    // files that were added, and their bytes
	recorded []string // URLs of files whose records were written
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) delete(bucket []byte, key string) { w.keep(w.Bucket(bucket).Delete([]byte(key))) }

func (t table[T]) put(w *writer, key string, v T) {
	raw, err := json.Marshal(v)
	w.keep(err)
	w.keep(w.Bucket(t.bucket).Put([]byte(key), raw))
}

func (t table[T]) delete(w *writer, key string) { w.delete(t.bucket, key) }

// update makes what fn writes durable, and counts the files. It may call fn more than once.
func (s *state) update(fn func(w *writer)) error {
	if err := s.unreadable(); err != nil {
		return err
	}
	var w *writer
	err := s.db.Update(func(tx *boltfile.Tx) error {
		w = &writer{Tx: tx}
		fn(w)
		if have, _ := numbersTable.get(tx, bytesKey); w.bytes != 0 {
			numbersTable.put(w, bytesKey, have+w.bytes)
		}
		return w.err
	})
	if err != nil {
		return fmt.Errorf("writing the state of the copy: %w", err)
	}
	s.moved.Store(true)
	s.n.Add(w.n)
	s.space.record(w.bytes, w.recorded)
	return nil
}

// countBytes returns the number of bytes of all files. It counts them if the stored number
// is missing or damaged.
func (w *writer) countBytes() int64 {
	n, ok := numbersTable.get(w.Tx, bytesKey)
	if ok {
		return n
	}
	w.forEachFile(func(_ string, f file) { n += f.Length })
	numbersTable.put(w, bytesKey, n)
	return n
}

// forEachFile calls fn for each record of a file that can be read. Fn must not change them.
func (w *writer) forEachFile(fn func(url string, f file)) {
	w.keep(w.Bucket(filesTable.bucket).ForEach(func(url, raw []byte) error {
		if f := (file{}); json.Unmarshal(raw, &f) == nil {
			fn(string(url), f)
		}
		return nil
	}))
}

// dropFile deletes the record of a file and that of its path. Fold is tree.fold.
func (w *writer) dropFile(url string, fold func(string) string) {
	if w.Bucket(filesTable.bucket).Get([]byte(url)) == nil {
		return
	}
	f, _ := filesTable.get(w.Tx, url) // counts as empty if it is damaged
	w.n--
	w.bytes -= f.Length
	if path := fold(f.Path); string(w.Bucket(pathsBucket).Get([]byte(path))) == url {
		w.delete(pathsBucket, path)
	}
	filesTable.delete(w, url)
}

func (w *writer) putFile(url string, f file, fold func(string) string) {
	w.n++
	w.bytes += f.Length
	w.recorded = append(w.recorded, url)
	filesTable.put(w, url, f)
	w.keep(w.Bucket(pathsBucket).Put([]byte(fold(f.Path)), []byte(url)))
}

// records is what is to be stored of resources, by URL.
type records map[string]record

// record is what is to be stored of a resource.
type record struct {
	file   *file             // it is in the copy, and this is its new record
	gone   bool              // it is not in the copy any more
	well   bool              // it is in sync
	failed *failure          // it could not be fetched or deleted
	pushed *deletion         // it was pushed as deleted, and no Change List repeats that
	says   *membershipChange // which sets list it, or do not any more
}

// store makes d durable. Fold is tree.fold.
func (s *state) store(d records, fold func(string) string, now time.Time) error {
	return s.withOrigins(d, func(w *writer) {
		deleted := 0
		for _, url := range slices.Sorted(maps.Keys(d)) { // in order bbolt is several times faster
			w.store(url, d[url], fold)
			if d[url].gone {
				deleted++
			}
		}
		w.countDeletes(deleted, now)
	})
}

func (w *writer) store(url string, r record, fold func(string) string) {
	m := membersOf(w.Tx, url)
	if r.says != nil {
		m.after(*r.says)
	}
	if r.file != nil || r.gone {
		w.dropFile(url, fold)
	}
	if r.file != nil {
		w.putFile(url, *r.file, fold)
	}
	switch {
	case r.failed == nil:
		if r.file != nil || r.gone || r.well {
			failedTable.delete(w, url)
		}
	case !r.failed.Change.Removes() || len(m) == 0: // another set may list it by now
		failedTable.put(w, url, *r.failed)
	}
	if r.pushed != nil {
		goneTable.put(w, deletionKey(r.pushed.Set, url), *r.pushed)
	}
	for set := range m {
		goneTable.delete(w, deletionKey(set, url))
	}
	implied := members{}
	if r.file != nil { // it was just written: decoding it would cost half of the transaction
		implied[r.file.Set] = r.file.ChangedAt
	} else {
		implied = recordedMembers(w.Tx, url)
	}
	if m.equal(implied) {
		membersTable.delete(w, url)
	} else {
		membersTable.put(w, url, m)
	}
}

// countDeletes counts n deleted files, and forgets those before the window.
func (w *writer) countDeletes(n int, now time.Time) {
	if n == 0 {
		return
	}
	c := w.Bucket(deletesTable.bucket).Cursor()
	for k, _ := c.First(); k != nil && string(k) < instant(now.Add(-deleteWindow)); k, _ = c.First() {
		deletesTable.delete(w, string(k))
	}
	before, _ := deletesTable.get(w.Tx, instant(now))
	deletesTable.put(w, instant(now), before+n)
}

func (s *state) putSet(name string, st setState) error {
	return s.update(func(w *writer) { setsTable.put(w, name, st) })
}

// forgetSet forgets the progress of a set.
func (s *state) forgetSet(name string) error {
	return s.update(func(w *writer) { setsTable.delete(w, name) })
}

// rekey records the paths as fold returns them now. If two files get the same path, the second
// file is forgotten, and is fetched again to another path.
func (s *state) rekey(fold func(string) string) error {
	return s.update(func(w *writer) {
		w.keep(w.Clear(pathsBucket))
		paths := w.Bucket(pathsBucket)
		var twice []string
		w.forEachFile(func(url string, f file) {
			if key := []byte(fold(f.Path)); paths.Get(key) == nil {
				w.keep(paths.Put(key, []byte(url)))
			} else {
				twice = append(twice, url)
			}
		})
		for _, url := range twice {
			w.dropFile(url, fold)
		}
	})
}
