package embedstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// tmpfsEnv says that the test runs where it may mount.
const tmpfsEnv = "RSHUB_TEST_TMPFS"

// inNamespace runs the calling test again in a new mount namespace. Without the rights of root it also
// makes a user namespace. If neither works, the test fails.
func inNamespace(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), tmpfsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("on a small file system: %v", err)
	}
}

// small mounts a file system of some MiB.
func small(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	mountSmall(t, dir, mib)
	return dir
}

// mountSmall mounts a file system of some MiB at a folder.
func mountSmall(t *testing.T, dir string, mib int) {
	t.Helper()
	// Nothing mounted here shows outside.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatalf("making the mounts private: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
}

// fillUp fills a file system, except for some KiB, with a file, and returns the name of that.
func fillUp(t *testing.T, dir string, leave int64) string {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "filler")
	if err := os.WriteFile(name, make([]byte, int64(st.Bavail)*st.Bsize-leave<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// What every store does when it is full: here, when the disk has less than MinFree.
func TestFullStore(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	mount := small(t, 64)
	s := openStore(t, filepath.Join(mount, "data"), Options{MinFree: 16 << 20})
	var filler string
	storetest.RunFull(t, s,
		func() error { filler = fillUp(t, mount, 8<<10); return nil },
		func() error { return os.Remove(filler) })
}

// The large bodies may be on a disk of their own. The store is full when either disk is.
func TestFullDiskOfTheBodies(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	const least = 16 << 20
	disk := small(t, 64)
	bodies := filepath.Join(disk, "data", bodiesName)
	if err := os.MkdirAll(bodies, 0o700); err != nil {
		t.Fatal(err)
	}
	mountSmall(t, bodies, 32)
	s := openStore(t, filepath.Join(disk, "data"), Options{MinFree: least})
	space := func() int64 {
		free, _, ok := s.Space()
		if !ok {
			t.Error("the free bytes are unknown")
		}
		return free
	}
	for _, dir := range []string{bodies, disk} {
		add(t, s, topic, inlineMax+1)
		filler := fillUp(t, dir, 1<<10)
		_, appended := tryAdd(t.Context(), s, topic, 10)
		for what, err := range map[string]error{"Append": appended, "Ready": s.Ready(t.Context()), "Room": s.Room(t.Context())} {
			if !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "have to stay free") {
				t.Errorf("%s, when %s is full: %v", what, dir, err)
			}
		}
		if free := space(); free >= least {
			t.Errorf("%d bytes are free, when %s is full", free, dir)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); err != nil || space() < least {
			t.Errorf("when %s has room again: %d bytes are free, %v", dir, space(), err)
		}
	}
}

// A store whose large bodies cannot be written is not ready.
func TestBodiesOnAReadOnlyDisk(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	dir := t.TempDir()
	bodies := filepath.Join(dir, bodiesName)
	if err := os.Mkdir(bodies, 0o700); err != nil {
		t.Fatal(err)
	}
	mountSmall(t, bodies, 1)
	s := openStore(t, dir, Options{MinFree: -1})
	for _, readOnly := range []bool{true, false} {
		flags := uintptr(syscall.MS_REMOUNT)
		if readOnly {
			flags |= syscall.MS_RDONLY
		}
		if err := syscall.Mount("", bodies, "", flags, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); readOnly != errors.Is(err, syscall.EROFS) || readOnly != (err != nil) {
			t.Errorf("ready, read-only is %v: %v", readOnly, err)
		}
		if _, err := tryAdd(t.Context(), s, topic, inlineMax+1); readOnly != (err != nil) {
			t.Errorf("a large body, read-only is %v: %v", readOnly, err)
		}
	}
}

// Disk full: appends get ErrFull, nothing is corrupted, and it works again when
// there is room.
func TestDiskFull(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	mount := small(t, 64)
	dir := filepath.Join(mount, "data")
	s := openStore(t, dir, Options{MinFree: -1})
	acked := map[string]uint64{}
	for round := range 5 {
		filler := fillUp(t, mount, []int64{2000, 600, 100, 8, 0}[round])
		full := 0
		for i := range 400 {
			name, size := fmt.Sprint(topic, i%7), []int{900, 40 << 10, 300 << 10}[i%3]
			e, err := tryAdd(t.Context(), s, name, size)
			switch {
			case err == nil:
				acked[name] = e.Seq
			case errors.Is(err, journal.ErrFull):
				full++
			default:
				t.Fatalf("a full disk: %v", err)
			}
			if full == 20 {
				break
			}
		}
		if full < 20 {
			t.Fatalf("the disk was full %d times", full)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			name := fmt.Sprint(topic, i)
			acked[name] = add(t, s, name, 40<<10).Seq
			if _, err := s.Trim(t.Context(), name, journal.Cut{KeepBytes: 1 << 20}); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, dir, Options{MinFree: -1})
		}
		sound(t, s, acked)
	}
}

// A hub that ended on a full disk starts there again, and delivers what it has: the
// file with its pid does not fit, and nothing else is new.
func TestStartOnAFullDisk(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	mount := small(t, 16)
	dir := filepath.Join(mount, "data")
	s := openStore(t, dir, Options{})
	_ = fillUp(t, mount, 4<<10)
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rest := filepath.Join(mount, "rest") // what Close gave back, to the last page
		_ = os.WriteFile(rest, make([]byte, 16<<20), 0o600)
		s = openStore(t, dir, Options{})
		if _, err := s.Head(t.Context(), topic); err != nil {
			t.Error(err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, journal.ErrFull) {
			t.Errorf("Ready: %v", err)
		}
		if err := os.Remove(rest); err != nil {
			t.Fatal(err)
		}
	}
}

// Operations that share a transaction with an append that finds no room are
// stored if they fit.
func TestSmallWritesGoOnWhenTheDiskIsFull(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		inNamespace(t)
		return
	}
	mount := small(t, 64)
	s := openStore(t, filepath.Join(mount, "data"), Options{MinFree: -1})
	sub := subscriptions.Subscription{ID: subscriptions.ID(topic, "cb"), Topic: topic, Callback: "cb"}
	if _, err := s.Update(t.Context(), sub.ID, func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{Subscription: &sub}, nil
	}); err != nil {
		t.Fatal(err)
	}
	fillUp(t, mount, 200)
	started, release := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_ = s.folder.do(t.Context(), &boltfile.Op{Run: func(*boltfile.Tx) error {
			close(started)
			<-release
			return nil
		}})
	})
	<-started
	for i := range 20 { // 1 MiB, for which there is no room
		group.Go(func() {
			if _, err := tryAdd(t.Context(), s, fmt.Sprint(topic, i), 50<<10); err != nil && !errors.Is(err, journal.ErrFull) {
				t.Errorf("Append: %v", err)
			}
		})
	}
	group.Go(func() {
		c := journal.Cursor{Generation: 1}
		if err := s.Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID, Cursor: c}}); err != nil {
			t.Errorf("Commit: %v", err)
		}
	})
	close(release)
	group.Wait()
	sound(t, s, nil)
}

// sound checks that the database is consistent and has what was acknowledged.
func sound(t *testing.T, s *Store, acked map[string]uint64) {
	t.Helper()
	err := s.folder.db.Bolt().View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("the database: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name, seq := range acked {
		h, err := s.Head(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := s.Read(t.Context(), name, h.Trimmed, 1000, 1<<30)
		if err != nil || h.Last.Seq < seq || uint64(len(entries)) != h.Last.Seq-h.Trimmed.Seq {
			t.Errorf("%s: seq %d, acknowledged %d, trimmed %d, %d entries (%v)", name, h.Last.Seq, seq, h.Trimmed.Seq, len(entries), err)
		}
		for _, e := range entries {
			for _, b := range e.Body {
				if b != byte(e.Seq-1) {
					t.Fatalf("%s: the body of entry %d is not what was stored", name, e.Seq)
				}
			}
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(s.topics.bodies.dir, "*"+atomicfile.Suffix))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("%d half-written bodies are left (%v)", len(leftovers), err)
	}
}

// The high water: what is new is refused, a renewal like any other request. The
// rest still works, because trims make room and cursors keep duplicates few.
func TestHighWater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, dir, Options{MinFree: -1})
	small, large := add(t, s, topic, 10), add(t, s, topic, inlineMax+1)
	sub := subscriptions.Subscription{ID: subscriptions.ID(topic, "cb"), Topic: topic, Callback: "cb", ExpiresAt: time.Now().Add(time.Hour)}
	request := func(callback string) func(subscriptions.Record) (subscriptions.Record, error) {
		return func(rec subscriptions.Record) (subscriptions.Record, error) {
			rec.Request = &subscriptions.Request{ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: topic, Callback: callback, Lease: time.Hour, AcceptedAt: time.Now()}
			return rec, nil
		}
	}
	if _, err := s.Update(t.Context(), sub.ID, func(subscriptions.Record) (subscriptions.Record, error) {
		return request("cb")(subscriptions.Record{Subscription: &sub})
	}); err != nil {
		t.Fatal(err)
	}
	s.folder.minFree = 1 << 60
	_, smallErr := tryAdd(t.Context(), s, topic, 10)
	_, largeErr := tryAdd(t.Context(), s, topic, inlineMax+1)
	_, renewalErr := s.Update(t.Context(), sub.ID, request("cb"))
	_, requestErr := s.Update(t.Context(), subscriptions.ID(topic, "new"), request("new"))
	for what, err := range map[string]error{
		"Append": smallErr, "Append of a large body": largeErr, "Ready": s.Ready(t.Context()), "Room": s.Room(t.Context()),
		"Update, a renewal": renewalErr, "Update, a new request": requestErr,
		"Ping":    s.Ping(t.Context(), time.Now(), []string{topic}),
		"Restore": s.Restore(t.Context(), journal.Head{Topic: topic + "restored", Version: "1"}, nil),
	} {
		if !errors.Is(err, journal.ErrFull) || !strings.Contains(fmt.Sprint(err), "free") || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	now := time.Now()
	rec, updateErr := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Activate(rec, rec.Request.ID, now, now, time.Hour)
	})
	if updateErr != nil {
		t.Fatalf("an activation at high water: %v", updateErr)
	}
	moved := rec.Subscription.Cursor
	moved.Anchor = small.Anchor()
	commitErr := s.Commit(t.Context(), []subscriptions.Commit{{
		ID: sub.ID, Cursor: moved, Attempts: []subscriptions.Attempt{{Number: 1}},
		Gaps: []journal.Gap{{Count: 1, Reason: journal.GapGone}}, End: subscriptions.EndGone, EndedAt: now, Lease: rec.Subscription.VerifiedAt,
	}})
	if rec, err := s.Get(t.Context(), sub.ID); err != nil || rec.Request != nil || rec.Subscription.EndReason != subscriptions.EndGone || len(rec.Subscription.Gaps) != 1 {
		t.Errorf("at high water is stored %+v, %v", rec, err)
	}
	h, trimErr := s.Trim(t.Context(), topic, journal.Cut{KeepBytes: 0})
	resetErr := s.Reset(t.Context(), topic, h.Version)
	if err := errors.Join(updateErr, commitErr, trimErr, resetErr); err != nil || h.Trimmed != large.Anchor() {
		t.Errorf("the rest at high water: %v", err)
	}
	s.folder.minFree = 1
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready, when there is room: %v", err)
	}
	add(t, s, topic, 10)
}
