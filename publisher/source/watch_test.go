package source

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// quick are options for a real folder that is really watched: as quick as times of
// files allow.
var quick = FolderOptions{Settle: 30 * time.Millisecond, Patience: time.Minute}

// runs runs a folder until the test ends, and waits for its first scan.
func (r *rig) runs() (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			r.must(<-ended)
		}
	}
	r.t.Cleanup(stop)
	select {
	case <-r.Ready():
	case <-time.After(2 * time.Minute):
		r.t.Fatal("the first scan takes for ever")
	}
	return stop
}

// becomes waits until the index has just these contents by path, each of which is
// a file's content.
func (r *rig) becomes(want map[string]string) {
	r.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got := map[string]string{}
		s := r.snapshot()
		for res, err := range s.Resources() {
			r.must(err)
			got[res.Path] = fmt.Sprintf("%x", res.SHA256)
		}
		s.Close()
		if maps.EqualFunc(got, want, func(sum, content string) bool { return sum == sumOf(content) }) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the index has %q, want %q; log:\n%s", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)), r.log)
		}
		select {
		case <-r.Changed():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func sumOf(content string) string { return fmt.Sprintf("%x", shaOf(content)) }

func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r := newRig(t, quick, "a", "d/e/f", "d/g")
	stop := r.runs()
	r.becomes(map[string]string{"a": "a", "d/e/f": "d/e/f", "d/g": "d/g"})
	r.want("first scan", r.logged(0))

	r.write("a", "other")
	r.write("new/deep/er/x", "x")
	r.remove("d/g")
	r.becomes(map[string]string{"a": "other", "d/e/f": "d/e/f", "new/deep/er/x": "x"})

	// Into a folder that is watched only since a moment ago.
	r.write("new/deep/er/y", "y")
	r.must(os.Rename(r.at("d"), r.at("D")))
	r.becomes(map[string]string{"a": "other", "D/e/f": "d/e/f", "new/deep/er/x": "x", "new/deep/er/y": "y"})

	// Below a folder that was renamed: its watches have to know where they are.
	r.write("D/e/f", "changed")
	r.write("D/e/h", "h")
	r.remove("new")
	r.becomes(map[string]string{"a": "other", "D/e/f": "changed", "D/e/h": "h"})

	if s := r.Status(); !s.Watching || s.Err != nil || len(s.Slow) != 0 {
		t.Errorf("status: %+v", s)
	}
	stop()
	r.must(r.x.Close())
}

// A burst is one change if it is over before the folder looks, which a busy machine may
// make it miss.
func TestBurstIsOneChange(t *testing.T) {
	o := quick
	o.Settle = time.Second
	r := newRig(t, o, "a", "h")
	r.runs()
	for try := 1; ; try++ {
		before, began := r.snapshot().Last().Seq, time.Now()
		last := ""
		for i := range 20 {
			last = fmt.Sprint("burst ", try, i)
			r.write("a", last)
		}
		r.remove("h")
		r.write("h", "h")
		took := time.Since(began)
		r.becomes(map[string]string{"a": last, "h": "h"})
		if took < o.Settle {
			r.want("a burst", r.logged(before), "updated a")
			return
		}
		if try == 100 {
			t.Fatalf("no burst took less than %v", o.Settle)
		}
	}
}

// Two folders change places: their watches have, too.
func TestWatchFoldersThatChangePlaces(t *testing.T) {
	r := newRig(t, quick, "a/s/1", "b/s/2")
	r.runs()
	r.must(os.Rename(r.at("a"), r.at("c")))
	r.must(os.Rename(r.at("b"), r.at("a")))
	r.must(os.Rename(r.at("c"), r.at("b")))
	r.becomes(map[string]string{"a/s/2": "b/s/2", "b/s/1": "a/s/1"})
	r.write("a/s/2", "two")
	r.write("b/s/1", "one")
	r.becomes(map[string]string{"a/s/2": "two", "b/s/1": "one"})
}

// More happens than the system keeps events of: all is scanned.
func TestWatchLosesEvents(t *testing.T) {
	r := newRig(t, quick, "a")
	r.runs()
	r.watch.end() // nothing is heard any more
	r.write("b/c", "c")
	r.lost()
	r.becomes(map[string]string{"a": "a", "b/c": "c"})
	r.write("b/d", "d") // the watches are there again
	r.becomes(map[string]string{"a": "a", "b/c": "c", "b/d": "d"})
}

// More paths wait than are kept one by one: all is scanned.
func TestPendingOverflow(t *testing.T) {
	p := newPending(time.Second)
	now := time.Now()
	for i := range maxPending + 10 {
		p.touch(fmt.Sprint(i), now)
	}
	if n, _ := p.count(); n != maxPending {
		t.Errorf("%d are kept", n)
	}
	if paths, all := p.due(now.Add(time.Second)); !all || len(paths) != maxPending {
		t.Errorf("%d paths, all: %v", len(paths), all)
	}
}

// Without enough watches the folder is scanned more often, and it is said once.
func TestWatchesRunOut(t *testing.T) {
	o := quick
	o.Unwatched = 50 * time.Millisecond
	r := newRig(t, o, "a", "d/e/f")
	r.watch.most = 1
	r.runs()
	r.write("d/e/f", "changed")
	r.write("d/n", "n")
	r.becomes(map[string]string{"a": "a", "d/e/f": "changed", "d/n": "n"})
	if n := strings.Count(r.log.String(), "max_user_watches"); n != 1 || r.Status().Watching {
		t.Errorf("it was said %d times; status %+v", n, r.Status())
	}
}

// A file that was hashed within the tick of its last change is hashed again: it may
// have been changed with all its times the same.
func TestRacyFileIsHashedAgain(t *testing.T) {
	begun := time.Now()
	r := newRig(t, quick, "a")
	r.scan()
	if d := time.Since(begun); d < racyWindow-quick.Settle {
		t.Errorf("after %v it is not known whether the file changed", d)
	}
	rec, err := r.x.record("a")
	r.must(err)
	if rec.racy {
		t.Error("racy still")
	}
	// As if it had been changed since, in the same tick.
	rec.racy, rec.SHA256 = true, shaOf("what it was")
	_, err = r.x.apply(time.Now(), []step{{key: "a", now: rec}})
	r.must(err)
	r.want("looked at again", r.scan(), "updated a")
	r.want("and not again", r.scan())
}

func TestFolderThatGoesAndComesBack(t *testing.T) {
	o := quick
	o.Unwatched = 50 * time.Millisecond
	r := newRig(t, o, "a", "b/c")
	r.runs()
	away := r.dir + ".away"
	r.must(os.Rename(r.dir, away))
	deadline := time.Now().Add(2 * time.Minute)
	for r.Status().Err == nil {
		if time.Now().After(deadline) {
			t.Fatal("nobody noticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.must(os.Rename(away, r.dir))
	r.write("b/c", "changed")
	r.becomes(map[string]string{"a": "a", "b/c": "changed"})
	r.want("changes", r.logged(0), "updated b/c")
	r.write("b/d", "d") // watched again
	r.becomes(map[string]string{"a": "a", "b/c": "changed", "b/d": "d"})
	for r.Status().Err != nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if s := r.Status(); s.Err != nil {
		t.Error(s.Err)
	}
}

// Opening must not wait where somebody puts a pipe.
func TestPipeInPlaceOfAFile(t *testing.T) {
	r := newRig(t, quick, "a", "b")
	r.runs()
	r.remove("a")
	r.must(syscall.Mkfifo(r.at("a"), 0o600))
	r.becomes(map[string]string{"b": "b"})
	if _, err := r.Open("a"); err == nil {
		t.Error("a pipe was opened")
	}
}

// Who waits for the first scan of a Run hears of it though nothing has changed.
func TestFirstScanIsHeardOf(t *testing.T) {
	r := newRig(t, quick, "a")
	r.scan()
	r.restart(nil)
	stop := r.runs()
	select {
	case <-r.Changed():
	case <-time.After(2 * time.Minute):
		t.Error("nothing was heard of the first scan")
	}
	if r.Status().Scanned.IsZero() {
		t.Error("it was heard of before it was finished")
	}
	stop()
}

// Who waits for the folder to be there again hears of it though nothing has changed.
func TestEndOfTroubleIsHeardOf(t *testing.T) {
	r := newRig(t, quick, "a")
	heard := func() bool {
		select {
		case <-r.Changed():
			return true
		default:
			return false
		}
	}
	for name, trouble := range map[string]struct{ begin, end func() }{
		"away": {func() { r.stopped(ErrFolder) }, func() { r.stopped(nil) }},
		"held": {func() { r.withhold(20, 30) }, func() { r.withhold(0, 0) }},
	} {
		trouble.begin()
		if heard() {
			t.Errorf("%s: that is no news to publish", name)
		}
		trouble.end()
		if !heard() {
			t.Errorf("%s: nothing was heard of its end", name)
		}
		trouble.end()
		if heard() {
			t.Errorf("%s: it ended twice", name)
		}
	}
}

// Many events of what is gone with one folder count once.
func TestDeletionsCountOnce(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{}, "n/a/b/c", "n/a/d", "n-x", "z")
		r.scan()
		r.remove("n")
		var paths []string
		for _, path := range []string{"n/a/b/c", "n/a/b", "n/a/d", "n/a", "n-x", "n"} {
			paths = append(paths, path, path+"/x", path+"/y")
		}
		r.must(r.pass(t.Context(), paths, false))
		r.want("changes", r.logged(0), "deleted n/a/b/c", "deleted n/a/d")
		if s := r.Status(); s.Held != 0 {
			t.Errorf("held: %d", s.Held)
		}
	})
}
