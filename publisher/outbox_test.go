package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// What a call whose time was up left behind is not written by the next one, and its
// changes are the caller's again; one that has begun is waited for.
func TestRecordIsNotMadeAfterItReturned(t *testing.T) {
	synctest.Test(t, recordIsNotMadeAfterItReturned)
}

func recordIsNotMadeAfterItReturned(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	entered, gate := make(chan struct{}, 100), make(chan struct{})
	p.box.db.Intercept(func(commit func() error) error {
		entered <- struct{}{}
		<-gate
		return commit()
	})
	record := func(ctx context.Context, changes ...Change) <-chan error {
		done := make(chan error, 1)
		go func() { done <- p.Record(ctx, changes...) }()
		return done
	}
	ctx, leave := context.WithCancel(t.Context())
	begun := record(ctx, change(1, time.Time{}, resource(1)))
	<-entered
	mine := []Change{change(2, time.Time{}, resource(2))}
	waiting := record(ctx, mine...)
	synctest.Wait()
	leave()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("who left was told %v", err)
	}
	mine[0].Seq = 99
	close(gate)
	if err := <-begun; err != nil {
		t.Errorf("what had begun is answered %v", err)
	}
	if err := <-record(t.Context(), change(2, time.Time{}, resource(3))); err != nil || p.Recorded() != 2 {
		t.Errorf("%v, and %d is recorded last", err, p.Recorded())
	}
	if _, entries := cutEntries(t, p); len(entries) != 2 {
		t.Errorf("there are %d changes, want 2", len(entries))
	}
}

// Calls at the same time share a write, and each change is there once.
func TestRecordsShareWrites(t *testing.T) { synctest.Test(t, recordsShareWrites) }

func recordsShareWrites(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	commits := 0
	entered, gate := make(chan struct{}), make(chan struct{})
	p.box.db.Intercept(func(commit func() error) error {
		if commits++; commits == 1 {
			close(entered)
			<-gate
		}
		return commit()
	})
	var group sync.WaitGroup
	record := func(n int) {
		group.Go(func() {
			if err := p.Record(t.Context(), change(0, time.Time{}, resource(n))); err != nil {
				t.Error(err)
			}
		})
	}
	record(0)
	<-entered
	for n := range 49 {
		record(1 + n)
	}
	synctest.Wait()
	close(gate)
	group.Wait()
	if commits != 2 {
		t.Errorf("%d commits for two groups", commits)
	}
	_, entries := cutEntries(t, p)
	seen := map[string]bool{}
	for n, e := range entries {
		if seen[e.Loc] = true; n > 0 && !e.Datetime.After(entries[n-1].Datetime) {
			t.Errorf("%v after %v", e.Datetime, entries[n-1].Datetime)
		}
	}
	if len(entries) != 50 || len(seen) != 50 {
		t.Errorf("%d entries of %d resources", len(entries), len(seen))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A commit that fails may have happened or not. Either way a feeder that repeats
// itself gets each change in once, as soon as the disk is well.
func TestFailedCommits(t *testing.T) {
	broken := errors.New("no space left on device")
	for _, happened := range []bool{false, true} {
		p := openAt(t, t.TempDir(), nil)
		if err := p.Record(t.Context(), change(1, time.Time{}, resource(1))); err != nil {
			t.Fatal(err)
		}
		p.box.db.Intercept(func(commit func() error) error {
			if !happened {
				return broken
			}
			return errors.Join(commit(), broken)
		})
		next := []Change{change(2, time.Time{}, resource(2)), change(3, time.Time{}, resource(3))}
		if err := p.Record(t.Context(), next...); !errors.Is(err, broken) {
			t.Fatalf("%v", err)
		}
		if st := p.Status(); !strings.Contains(st.Error, broken.Error()) {
			t.Errorf("%+v", st)
		}
		p.box.db.Intercept(nil)
		if err := p.Record(t.Context(), next...); err != nil {
			t.Fatal(err)
		}
		if st := p.Status(); st.Error != "" || st.Queued != 3 || st.Recorded != 3 {
			t.Errorf("%+v", st)
		}
		if _, entries := cutEntries(t, p); len(entries) != 3 {
			t.Errorf("%d entries", len(entries))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFullOutbox(t *testing.T) {
	p := openAt(t, t.TempDir(), func(o *Options) { o.MaxStored = 4000 })
	n := 0
	for ; ; n++ {
		err := p.Record(t.Context(), change(0, time.Time{}, resource(n)))
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	cutAll(t, p)
	if err := p.trim(t.Context(), time.Now()); err != nil { // no hub is waited for
		t.Fatal(err)
	}
	if st := p.Status(); st.Kept != 1 {
		t.Errorf("%+v", st)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Record(t.Context(), change(0, time.Time{}, resource(1))); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Record(ctx, change(0, time.Time{}, resource(1))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	p := openAt(t, dir, nil)
	good := Options{Dir: dir, Topic: bedTopic}
	check := func(name, want string, o Options) {
		t.Helper()
		if p, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = p.Close()
			}
		}
	}
	check("in use", "another process", good)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	vary := func(f func(*Options)) Options { o := good; f(&o); return o }
	check("another topic", "its own folder", vary(func(o *Options) { o.Topic = "https://source.example/other/" }))
	check("another kind", "its own folder", vary(func(o *Options) { o.Kind = Framework }))
	check("no kind", "there is no kind", vary(func(o *Options) { o.Kind = "x" }))
	check("no folder", "folder", vary(func(o *Options) { o.Dir = "" }))
	check("no topic", "topic", vary(func(o *Options) { o.Topic = "" }))
	check("a query", "query", vary(func(o *Options) { o.Topic += "?a=b" }))
	check("a dot segment", "dot segment", vary(func(o *Options) { o.Topic = "https://source.example/a/../b/" }))
	check("no hub", "hub", vary(func(o *Options) { o.Hubs = []Hub{{}} }))
	check("a hub twice", "twice", vary(func(o *Options) { o.Hubs = []Hub{{URL: hubA}, {URL: hubA, Token: "x"}} }))
	check("two credentials", "one of them", vary(func(o *Options) { o.Hubs = []Hub{{URL: hubA, Token: "x", Secret: "y"}} }))
	check("a list", "document", vary(func(o *Options) { o.CapabilityList = "x" }))
	check("a time", "1970", vary(func(o *Options) { o.Dir, o.From = t.TempDir(), time.Unix(-1, 0) }))
	if err := os.WriteFile(filepath.Join(dir, databaseName), bytes.Repeat([]byte("x"), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	check("damaged", "damaged", good)
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if s := fmt.Sprintf(verb, Options{Hubs: []Hub{{URL: hubA, Token: "hidden"}}}); strings.Contains(s, "hidden") {
			t.Errorf("a token is printed: %s", s)
		}
	}
}

// A crash between the file of a large notification and the database leaves a file
// that the next start removes.
func TestOrphansAreRemoved(t *testing.T) {
	dir := t.TempDir()
	p := openAt(t, dir, nil)
	var all []Change
	for n := range 1000 {
		all = append(all, change(0, time.Time{}, resource(n)))
	}
	if err := p.Record(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	cutAll(t, p)
	orphan := interval{From: time.Unix(1, 0).UTC(), Until: time.Unix(2, 0).UTC()}
	if err := p.box.files.write(orphan, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.box.files.path(orphan)+atomicfile.Suffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(p.box.files.dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = openAt(t, dir, nil)
	found, err := os.ReadDir(p.box.files.dir)
	if err != nil || len(found) != 2 {
		t.Errorf("%v %v", found, err)
	}
	if is, entries := cutEntries(t, p); len(is) != 1 || len(entries) != 1000 {
		t.Errorf("%d intervals, %d entries", len(is), len(entries))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A full disk ends nothing: cutting and sending go on when there is room again.
func TestRunWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 5, together)
		var broken atomic.Bool
		p.box.db.Intercept(func(commit func() error) error {
			if broken.Load() {
				return errors.New("no space left on device")
			}
			return commit()
		})
		broken.Store(true)
		time.Sleep(time.Minute)
		if st := p.Status(); !strings.Contains(st.Error, "no space left") {
			t.Errorf("%+v", st)
		}
		if err := p.Record(t.Context(), change(6, time.Time{}, resource(5))); err == nil {
			t.Error("it was recorded on a full disk")
		}
		broken.Store(false)
		b.record(p, 0, 6, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.hubs[hubA].check(6)
		time.Sleep(2 * trimEvery)
		if st := p.Status(); st.Error != "" {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// The bytes of a large interval are on disk before the interval is, and where they
// are not those any more that it was cut with nobody is sent them.
func TestLargeIntervals(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	var syncs atomic.Int64
	p.box.db.InterceptSync(func(_ string, sync func() error) error {
		syncs.Add(1)
		return sync()
	})
	const n = 40
	for i := range n {
		if err := p.Record(t.Context(), change(0, time.Time{}, resource(i)+"/"+strings.Repeat("x", 1900))); err != nil {
			t.Fatal(err)
		}
	}
	if got := syncs.Load(); got < n {
		t.Errorf("%d records were synced %d times", n, got)
	}
	if err := os.RemoveAll(p.box.files.dir); err != nil {
		t.Fatal(err)
	}
	_, err := p.cut(t.Context(), time.Time{})
	if s := p.box.outboxState(); err == nil || s.kept != 0 || s.queued != n || s.Begun {
		t.Errorf("without a folder for files: %v, %+v", err, s)
	}
	if err := os.Mkdir(p.box.files.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	is, entries := cutEntries(t, p)
	if len(is) != 1 || !is[0].InFile || len(entries) != n {
		t.Fatalf("%d entries in %+v", len(entries), is)
	}
	body, err := p.box.body(is[0])
	if err != nil {
		t.Fatal(err)
	}
	body[len(body)/2] ^= 1
	if err := os.WriteFile(p.box.files.path(is[0]), body, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.box.body(is[0]); !errors.Is(err, errDamaged) {
		t.Errorf("with another byte: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
