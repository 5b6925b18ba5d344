package embedstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

const topic = "https://source.example/changes/"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// add appends a plain entry of some size at the head of a topic.
func add(t *testing.T, s *Store, topic string, size int) journal.Entry {
	t.Helper()
	e, err := tryAdd(t.Context(), s, topic, size)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tryAdd(ctx context.Context, s *Store, topic string, size int) (journal.Entry, error) {
	h, err := s.Head(ctx, topic)
	if err != nil {
		return journal.Entry{}, err
	}
	body := bytes.Repeat([]byte{byte(h.Last.Seq)}, size)
	return s.Append(ctx, start, topic, journal.Entry{Kind: journal.KindContent, Body: body, SHA256: sha256.Sum256(body)}, h.Version)
}

// files counts the bodies in the folder.
func files(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, bodiesName))
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(list, func(f fs.DirEntry) bool { return f.Name() == disk.Marker }))
}

func TestFolderIsOpenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{})
	// In another process, since that is what people do.
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), dir) || !strings.Contains(string(out), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("another process on the folder: %v: %s", err, out)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("another store on the folder: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir, Options{})
}

// No name of a folder is not that of the working directory.
func TestFolderNeedsAName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if s, err := Open("", Options{}); err == nil {
		_ = s.Close()
		t.Error("a store was opened in no folder")
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("in the working directory there are %v, %v", left, err)
	}
}

func TestIdentityIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{})
	id, created := s.ID(), s.meta.createdAt
	if _, err := uuid.Parse(id); err != nil || !s.meta.isNew || time.Since(created) > time.Hour {
		t.Errorf("a new store has id %q, was created at %v, is new: %t", id, created, s.meta.isNew)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = openStore(t, dir, Options{}); s.ID() != id || !s.meta.createdAt.Equal(created) || s.meta.isNew {
		t.Errorf("opened again it has id %q, was created at %v, is new: %t", s.ID(), s.meta.createdAt, s.meta.isNew)
	}
}

func TestFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	add(t, s, topic, inlineMax+1)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := fileOptions()
	o.Format++
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	newer, err := boltfile.Open(filepath.Join(dir, databaseName), o)
	if err == nil {
		err = newer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a newer folder: %v", err)
	}
	if _, err := Open(dir, Options{}); errors.Is(err, ErrLocked) {
		t.Error("the refused folder stays locked")
	}
}

func TestLargeBodiesAreFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	add(t, s, topic, inlineMax)
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files for a body of 64 KiB", n)
	}
	large := add(t, s, topic, inlineMax+1)
	if _, err := s.Append(t.Context(), start, topic, journal.Entry{Body: make([]byte, inlineMax+1)}, "stale"); !errors.Is(err, journal.ErrHeadMoved) {
		t.Errorf("a stale append: %v", err)
	}
	if n := files(t, dir); n != 1 {
		t.Errorf("%d files for a body over 64 KiB, and one that was refused", n)
	}
	if _, err := s.Trim(t.Context(), topic, journal.Cut{KeepBytes: 0}); err != nil {
		t.Fatal(err)
	}
	s.topics.cleanup.Wait()
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files after a trim", n)
	}
	if _, err := s.topics.fileBody(t.Context(), large); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("reading a body that was removed: %v", err)
	}
}

// Racing appends of large bodies leave the winner's file alone.
func TestLosersLeaveNoFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { _, _ = s.Append(t.Context(), start, topic, journal.Entry{Body: make([]byte, inlineMax+1)}, "") })
	}
	group.Wait()
	h, err := s.Head(t.Context(), topic)
	if err != nil || h.Entries != 1 || files(t, dir) != 1 {
		t.Errorf("%d entries and %d files (%v)", h.Entries, files(t, dir), err)
	}
}

// Between a body's file and the entry that names it, and between a trim and the
// removal, lies a crash: what it leaves is gone after the next start.
func TestOrphansAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	kept := add(t, s, topic, inlineMax+1)
	other, err := journal.NewID(start, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.topics.bodies.write(other, []byte("no entry names it")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{other.String() + atomicfile.Suffix, kept.ID.String() + atomicfile.Suffix, "notes of the operator"} {
		if err := os.WriteFile(filepath.Join(dir, bodiesName, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, Options{MinFree: -1})
	if n := files(t, dir); n != 2 {
		t.Errorf("%d files are left, want the body and the notes", n)
	}
	if body, err := s.Body(t.Context(), topic, kept); err != nil || len(body) != inlineMax+1 {
		t.Errorf("the body that an entry names: %d bytes, %v", len(body), err)
	}
}

// A body that is shorter than it was is not handed out.
func TestDamagedBodyIsAnError(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	e := add(t, s, topic, inlineMax+1)
	if err := os.Truncate(s.topics.bodies.path(e.ID), 5); err != nil {
		t.Fatal(err)
	}
	_, readErr := s.Read(t.Context(), topic, journal.Anchor{}, 10, 1<<20)
	_, bodyErr := s.Body(t.Context(), topic, e)
	if !errors.Is(readErr, journal.ErrDamaged) || !errors.Is(bodyErr, journal.ErrDamaged) {
		t.Errorf("Read: %v, Body: %v", readErr, bodyErr)
	}
	// An entry that is missing does not look like one that was trimmed.
	if err := os.Remove(s.topics.bodies.path(e.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Body(t.Context(), topic, e); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Body of a file that is missing: %v", err)
	}
	if got, err := s.Read(t.Context(), topic, journal.Anchor{}, 10, 1<<20); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Read of a file that is missing: %d entries, %v", len(got), err)
	}
}

func TestClosedStore(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{})
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, headErr := s.Head(t.Context(), topic)
	_, appendErr := s.Append(t.Context(), start, topic, journal.Entry{}, "")
	for what, err := range map[string]error{"Ready": s.Ready(t.Context()), "Room": s.Room(t.Context()), "Head": headErr, "Append": appendErr} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Close with operations under way: each is done or refused, and what was
// answered with nil is there.
func TestCloseUnderLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	var mu sync.Mutex
	acked := map[string]uint64{}
	var group sync.WaitGroup
	first := make(chan struct{}, 16)
	for w := range 16 {
		group.Go(func() {
			name := fmt.Sprint(topic, w)
			for {
				e, err := tryAdd(t.Context(), s, name, 100)
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("while closing: %v", err)
					}
					return
				}
				mu.Lock()
				acked[name] = e.Seq
				mu.Unlock()
				select {
				case first <- struct{}{}:
				default:
				}
			}
		})
	}
	<-first
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	s = openStore(t, dir, Options{MinFree: -1})
	for name, seq := range acked {
		if h, err := s.Head(t.Context(), name); err != nil || h.Last.Seq < seq {
			t.Errorf("%s: seq %d after %d was acknowledged (%v)", name, h.Last.Seq, seq, err)
		}
	}
}

// A panic of a change reaches its caller, and nobody else.
func TestPanicOfAChange(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() {
			defer func() {
				if p := recover(); (p != nil) != (i == 5) {
					t.Errorf("caller %d: panic %v", i, p)
				}
			}()
			id := subscriptions.ID(topic, fmt.Sprint(i))
			_, err := s.Update(t.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) {
				if i == 5 {
					panic("a defect")
				}
				return subscriptions.Record{Subscription: &subscriptions.Subscription{Topic: topic, Callback: fmt.Sprint(i)}}, nil
			})
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

// One operation that breaks the transaction does not take the others with it,
// though they share it.
func TestBrokenOperationFailsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir, Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		started, release := make(chan struct{}), make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			_ = s.folder.db.Update(func(*boltfile.Tx) error {
				close(started)
				<-release
				return nil
			})
		})
		<-started
		var errs [5]error
		for i := range errs {
			group.Go(func() {
				errs[i] = s.folder.db.Update(func(tx *boltfile.Tx) error {
					b := tx.Bucket(bucketMeta)
					if err := b.Put([]byte(fmt.Sprint("test ", i)), []byte("x")); err != nil || i != 2 {
						return err
					}
					return b.Put(nil, nil) // bbolt refuses it after the first was written
				})
			})
		}
		synctest.Wait() // all of them wait for the writer
		close(release)
		group.Wait()
		err = s.folder.db.View(func(tx *boltfile.Tx) error {
			for i, err := range errs {
				there := tx.Bucket(bucketMeta).Get([]byte(fmt.Sprint("test ", i))) != nil
				if (err == nil) != (i != 2) || there != (i != 2) {
					t.Errorf("operation %d: %v, stored: %t", i, err, there)
				}
			}
			return nil
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	})
}

// A failure of the disk other than lack of room: nothing is written any more,
// readiness says why, and reading goes on.
func TestFailedWriteEndsWriting(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	add(t, s, topic, 10)
	s.folder.db.Intercept(func(func() error) error { return errors.New("input/output error") })
	if err := s.Reset(t.Context(), topic, ""); !errors.Is(err, journal.ErrHeadMoved) {
		t.Errorf("what writes nothing: %v", err)
	}
	if _, err := tryAdd(t.Context(), s, topic, 10); err == nil {
		t.Error("no error comes back")
	}
	s.folder.db.Intercept(nil)
	for what, err := range map[string]error{
		"Ready": s.Ready(t.Context()),
		"Reset": s.Reset(t.Context(), topic+"x", ""),
	} {
		if err == nil || !strings.Contains(err.Error(), "input/output error") || errors.Is(err, journal.ErrFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if h, err := s.Head(t.Context(), topic); err != nil || h.Entries != 1 {
		t.Errorf("reading: %d entries, %v", h.Entries, err)
	}
}

// After a failed write the database is opened again; where that fails, with
// whatever is read or written next. A publish begins with a read.
func TestDatabaseIsOpenedAgain(t *testing.T) {
	for name, use := range map[string]func(s *Store) error{
		"a read": func(s *Store) error {
			h, err := s.Head(t.Context(), topic)
			if err == nil && h.Last.Seq != 1 {
				t.Errorf("seq %d", h.Last.Seq)
			}
			return err
		},
		"a write": func(s *Store) error { return s.Reset(t.Context(), topic+"new", "") },
	} {
		s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
		add(t, s, topic, 10)
		path := filepath.Join(s.folder.dir, databaseName)
		s.folder.db.Intercept(func(func() error) error { return errors.Join(syscall.ENOSPC, os.Rename(path, path+".away")) })
		if _, err := tryAdd(t.Context(), s, topic, 10); !errors.As(err, new(*boltfile.UnsureError)) {
			t.Errorf("Append: %v", err)
		}
		s.folder.db.Intercept(nil)
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "could not be opened again") {
			t.Errorf("Ready: %v", err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		if err := use(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("Ready after %s: %v", name, err)
		}
		if e := add(t, s, topic, 10); e.Seq != 2 {
			t.Errorf("seq %d", e.Seq)
		}
	}
}

// Where the last step of a commit is what failed, nobody is told that nothing
// was stored, and the body stays.
func TestUnsureCommit(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	add(t, s, topic, 10)
	for _, happened := range []bool{true, false} {
		s.folder.db.Intercept(func(commit func() error) error {
			s.folder.db.Intercept(nil)
			if happened {
				return errors.Join(commit(), syscall.ENOSPC)
			}
			return syscall.ENOSPC
		})
		_, err := tryAdd(t.Context(), s, topic, 10)
		if unsure := errors.As(err, new(*boltfile.UnsureError)); err == nil || unsure != happened || errors.Is(err, journal.ErrFull) == happened {
			t.Errorf("the last step failed: %t, %v", happened, err)
		}
	}
	if e := add(t, s, topic, 10); e.Seq != 3 {
		t.Errorf("seq %d", e.Seq)
	}
}

// Invariant 1 is an fsync, which no test of a killed process shows.
func TestCommitsAreSynced_Invariant1(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{})
	broken := errors.New("input/output error")
	s.folder.db.InterceptSync(func(string, func() error) error { return broken })
	if _, err := tryAdd(t.Context(), s, topic, 100); !errors.Is(err, broken) {
		t.Errorf("an append whose sync fails: %v", err)
	}
}

// Operations that wait together are written together.
func TestWaitingOperationsShareATransaction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir, Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		started, release := make(chan struct{}), make(chan struct{})
		var before, after int
		var group sync.WaitGroup
		group.Go(func() {
			_ = s.folder.do(t.Context(), &boltfile.Op{Run: func(tx *boltfile.Tx) error {
				before = tx.ID() - 1
				close(started)
				<-release
				return nil
			}})
		})
		<-started
		for i := range 100 {
			group.Go(func() {
				if _, err := tryAdd(t.Context(), s, fmt.Sprint(topic, i), 10); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all of them wait for the writer
		close(release)
		group.Wait()
		if err := s.folder.db.View(func(tx *boltfile.Tx) error { after = tx.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		if after-before != 1 {
			t.Errorf("100 appends took %d transactions", after-before)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A waiting caller may leave. What it gave the store then happens or not, with
// the bytes that were given.
func TestCallerMayLeave(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: -1})
	started, release := make(chan struct{}), make(chan struct{})
	hold := &boltfile.Op{Run: func(*boltfile.Tx) error {
		close(started)
		<-release
		return nil
	}}
	var group sync.WaitGroup
	group.Go(func() { _ = s.folder.do(t.Context(), hold) })
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		if _, err := tryAdd(ctx, s, topic, inlineMax+1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left got %v", err)
		}
	})
	group.Go(func() {
		if _, err := tryAdd(ctx, s, topic, 10); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left got %v", err)
		}
	})
	cancel()
	close(release)
	group.Wait()
	if n := files(t, s.folder.dir); n != 0 {
		t.Errorf("%d files of a body that was not stored", n)
	}
	add(t, s, topic, 10)
}
