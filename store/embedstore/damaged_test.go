package embedstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
)

// A damaged database is an error that names the file and says what to do.
func TestDamagedDatabase(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"overwritten": func(b []byte) []byte {
			for i := 8192; i < len(b); i += 97 {
				b[i] ^= 0xff
			}
			return b
		},
		"cut short":      func(b []byte) []byte { return b[:5000] },
		"something else": func([]byte) []byte { return []byte(strings.Repeat("no database\n", 3000)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, Options{MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			add(t, s, topic, 100)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, databaseName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err = Open(dir, Options{MinFree: -1})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("the error does not say what to do with which file: %v", err)
			}
		})
	}
}

// One record that cannot be read hides none of the others, nor what can be read
// of it, where there is somebody to tell; else it is an error.
func TestDamagedRecordIsLeftOut(t *testing.T) {
	told := map[uuid.UUID]error{}
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1, Unreadable: func(id uuid.UUID, why error) { told[id] = why }})
	const all = 400 // over all shards
	withSecrets(t, s, 0, all)
	count := func() (subs, requests int) {
		for shard := range journal.Partitions {
			records, err := s.List(t.Context(), shard, uuid.Nil, all)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				if rec.Subscription != nil {
					subs++
				}
				if rec.Request != nil {
					requests++
				}
			}
		}
		return subs, requests
	}
	id := subscriptions.ID(topic, "https://subscriber.example/7")
	for name, c := range map[string]struct {
		bucket         []byte
		subs, requests int
	}{"cursor": {bucketCursors, all - 1, all}, "subscription": {bucketSubs, all - 1, all}, "request": {bucketRequests, all, all - 1}} {
		clear(told)
		var whole []byte
		edit := func(change func(b boltfile.Bucket) error) {
			t.Helper()
			if err := s.folder.db.Update(func(tx *boltfile.Tx) error { return change(tx.Bucket(c.bucket)) }); err != nil {
				t.Fatal(err)
			}
		}
		edit(func(b boltfile.Bucket) error {
			whole = bytes.Clone(b.Get(keyOf(id)))
			return b.Put(keyOf(id), whole[:len(whole)-1])
		})
		subs, requests := count()
		if subs != c.subs || requests != c.requests || len(told) != 1 || !errors.Is(told[id], journal.ErrPacked) {
			t.Errorf("with a damaged %s: %d subscriptions and %d requests, told of %v", name, subs, requests, told)
		}
		unreadable := s.records.unreadable
		s.records.unreadable = nil
		if _, err := s.List(t.Context(), subscriptions.Shard(id), uuid.Nil, all); !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("with a damaged %s, and nobody to tell: %v", name, err)
		}
		s.records.unreadable = unreadable
		edit(func(b boltfile.Bucket) error { return b.Put(keyOf(id), whole) })
	}
}

// An error of the system about the database's file says nothing about what is in it,
// so nobody needs to restore a backup.
func TestUnopenedDatabaseIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), databaseName)
	if err := os.Symlink(path, path); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Dir(path), Options{MinFree: -1})
	if !errors.Is(err, syscall.ELOOP) || strings.Contains(err.Error(), "backup") {
		t.Errorf("Open: %v", err)
	}
}

// The bodies of another store are not this one's to remove, though no entry names
// them: its disk was mounted in the wrong place, or the database is not there. Whoever
// starts with them is not ready, and they are whole when they are back.
func TestBodiesOfAnotherStoreStay(t *testing.T) {
	for name, whose := range map[string]int{"of a store with its own": 1, "of a new store": 0} {
		t.Run(name, func(t *testing.T) {
			var dirs [2]string
			var entries [2]journal.Entry
			for i := range dirs {
				dirs[i] = t.TempDir()
				s := openStore(t, dirs[i], Options{MinFree: -1})
				if i <= whose {
					entries[i] = add(t, s, topic, inlineMax+1)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if whose == 0 {
				if err := os.Remove(filepath.Join(dirs[1], databaseName)); err != nil {
					t.Fatal(err)
				}
			}
			folder, here := filepath.Join(dirs[0], bodiesName), filepath.Join(dirs[1], bodiesName)
			if err := errors.Join(os.RemoveAll(here), os.Rename(folder, here)); err != nil {
				t.Fatal(err)
			}
			wrong := openStore(t, dirs[1], Options{MinFree: -1})
			if err := wrong.Ready(t.Context()); err == nil {
				t.Error("it is ready with the bodies of another store")
			}
			if err := errors.Join(wrong.Close(), os.Rename(here, folder)); err != nil {
				t.Fatal(err)
			}
			s := openStore(t, dirs[0], Options{MinFree: -1})
			if _, err := s.Body(t.Context(), topic, entries[0]); err != nil {
				t.Error(err)
			}
			if err := s.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// However many entries are damaged, they go in large steps: each step is a commit,
// for which everything else that is written waits.
func TestManyDamagedEntriesAreTrimmedInSteps(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{MinFree: -1})
	key := keyOf(journal.TopicID(topic))
	err := s.folder.db.Update(func(tx *boltfile.Tx) error {
		for i := range 2 * trimStep {
			h, err := readHead(tx, key, topic)
			if err == nil {
				_, _, err = appendEntry(tx, key, topic, journal.Entry{ID: uuid.New(), Nonce: journal.Nonce(i + 1), ReceivedAt: start, Size: 1}, []byte("x"), h.Version)
			}
			if err != nil {
				return err
			}
			if i%2 == 0 { // so that others are between them
				k, _ := tx.Bucket(bucketEntries).Cursor().Last()
				if err := tx.Bucket(bucketEntries).Put(bytes.Clone(k), []byte("damaged")); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	commits := 0
	s.folder.db.Intercept(func(commit func() error) error {
		commits++
		return commit()
	})
	h, err := s.Trim(t.Context(), topic, journal.All)
	if err != nil || h.Entries != 0 || h.Bytes != 0 || h.Trimmed != h.Last {
		t.Errorf("Trim left %d entries of %d bytes (%v)", h.Entries, h.Bytes, err)
	}
	if commits > 3 {
		t.Errorf("it took %d commits", commits)
	}
}

// What the disk does not give is no damage: a folder that is missing or another, as
// where a disk is not mounted, a file that cannot be read. It is whole again when it
// is back, and nothing is written meanwhile.
func TestMissingFolderIsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	e := add(t, s, topic, inlineMax+1)
	folder, aside := filepath.Join(dir, bodiesName), filepath.Join(dir, "aside")
	file := s.topics.bodies.path(e.ID)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() {
		must(s.Close())
		s = openStore(t, dir, Options{MinFree: -1})
	}
	for name, c := range map[string]struct {
		begin, end func()
		ready      bool
	}{
		"a folder that is missing": {func() { must(os.Rename(folder, aside)) }, func() { must(os.Rename(aside, folder)) }, false},
		"another folder": {
			func() { must(errors.Join(os.Rename(folder, aside), os.Mkdir(folder, 0o700))) },
			func() { must(errors.Join(os.Remove(folder), os.Rename(aside, folder))) }, false,
		},
		"another folder since before the start": {
			func() { must(errors.Join(os.Rename(folder, aside), os.Mkdir(folder, 0o700))); reopen() },
			func() { must(errors.Join(os.Remove(folder), os.Rename(aside, folder))) }, false,
		},
		"the folder of another store": {
			func() {
				must(errors.Join(os.Rename(folder, aside), os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, disk.Marker), []byte("another\n"), 0o600)))
			},
			func() { must(errors.Join(os.RemoveAll(folder), os.Rename(aside, folder))) }, false,
		},
		"a file that cannot be read": { // as root may read any file, it is a folder
			func() { must(errors.Join(os.Rename(file, aside), os.Mkdir(file, 0o700))) },
			func() { must(errors.Join(os.Remove(file), os.Rename(aside, file))) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.begin()
			_, bodyErr := s.Body(t.Context(), topic, e)
			_, readErr := s.Read(t.Context(), topic, journal.Anchor{}, 10, 1<<20)
			for what, err := range map[string]error{"Body": bodyErr, "Read": readErr} {
				if err == nil || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNotFound) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := s.Ready(t.Context()); (err == nil) != c.ready {
				t.Errorf("Ready: %v", err)
			}
			if !c.ready {
				if _, err := tryAdd(t.Context(), s, topic, inlineMax+1); err == nil || !strings.Contains(err.Error(), folder) {
					t.Errorf("a large body was taken meanwhile: %v", err)
				}
				add(t, s, topic+"small", 1)
			}
			c.end()
			if body, err := s.Body(t.Context(), topic, e); err != nil || len(body) != inlineMax+1 {
				t.Errorf("when it was back: %d bytes, %v", len(body), err)
			}
			if err := s.Ready(t.Context()); err != nil {
				t.Errorf("Ready when it was back: %v", err)
			}
		})
	}
}

// If the disk of another store is mounted in the place of this one's, the bodies on it stay.
func TestOtherFolderIsLeftAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, bodiesName, uuid.NewString())
	for name, content := range map[string]string{filepath.Join(dir, bodiesName, disk.Marker): "another\n", theirs: "a body"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = openStore(t, dir, Options{MinFree: -1})
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
	if err := s.Ready(t.Context()); err == nil {
		t.Error("it is ready")
	}
}

// A head or a ping record that cannot be read hides no other, where there is somebody to
// tell, and no other ping.
func TestDamagedTopicIsLeftOut(t *testing.T) {
	told := map[uuid.UUID]error{}
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1, UnreadableTopic: func(id uuid.UUID, why error) { told[id] = why }})
	damage := func(_ int, id uuid.UUID) error {
		return s.folder.db.Update(func(tx *boltfile.Tx) error {
			junk := []byte{0, 3, 1}
			err := tx.Bucket(bucketPings).Put(keyOf(id), junk)
			if heads := tx.Bucket(bucketHeads); heads.Get(keyOf(id)) != nil {
				err = errors.Join(err, heads.Put(keyOf(id), junk))
			}
			return err
		})
	}
	storetest.RunLeftOut(t, s, told, damage, func() { s.folder.unreadableTopic = nil })
}

// A remembered interval that cannot be read counts as forgotten, and the others can still be read.
func TestDamagedIntervalIsForgotten(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	publish := func(from time.Time, ifHead journal.Version) journal.Entry {
		e, err := s.Append(t.Context(), start, topic, journal.Entry{Kind: journal.KindChange, From: from, Until: from.Add(time.Hour)}, ifHead)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := publish(start, "")
	second := publish(first.Until, first.Nonce.Version())
	if err := s.folder.db.Update(func(tx *boltfile.Tx) error {
		return tx.Bucket(bucketIntervals).Put(append(keyOf(journal.TopicID(topic)), 0), []byte{3, 1})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Interval(t.Context(), topic, first.From, first.Until); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the damaged interval: %v", err)
	}
	all, err := s.Intervals(t.Context(), topic)
	if err != nil || len(all) != 1 || all[0].ID != second.ID {
		t.Errorf("%d intervals, %v", len(all), err)
	}
}

// A damaged page of the database fails only the calls that read it.
func TestDamagedPageIsAnError(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	e := add(t, s, topic, 10)
	panics := func(*boltfile.Tx) error { panic("assertion failed: Page expected to be: 7, but self identifies as 9") }
	if err := s.folder.view(t.Context(), panics); err == nil || errors.Is(err, journal.ErrDamaged) {
		t.Errorf("reading: %v", err)
	}
	if err := s.folder.do(t.Context(), &boltfile.Op{Run: panics}); err == nil || errors.Is(err, journal.ErrDamaged) {
		t.Errorf("writing: %v", err)
	}
	if _, err := s.Body(t.Context(), topic, e); err != nil {
		t.Error(err)
	}
	add(t, s, topic, 10)
}
