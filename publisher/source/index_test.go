package source

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

func newIndex(t testing.TB) (x *Index, dir string) {
	t.Helper()
	dir = t.TempDir()
	x, err := OpenIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x, dir
}

// made is a record that stands for some content.
func made(path, content string) *record {
	r := &record{Resource: Resource{Path: path, Length: int64(len(content)), SHA256: shaOf(content), MediaType: "text/plain"}}
	r.ModTime = time.Unix(1, 2).UTC()
	r.stat = stat{size: r.Length, mtime: instant{1, 2}, changed: instant{-3, 4}, inode: 5}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, x *Index, now time.Time, path, content string) {
	t.Helper()
	s := step{key: path}
	if content != "" {
		s.now = made(path, content)
	}
	_, err := x.apply(now, []step{s})
	must(t, err)
}

func snap(t testing.TB, x *Index) *Snapshot {
	t.Helper()
	s, err := x.Snapshot()
	must(t, err)
	return s
}

// A commit that is said to have failed may have happened: nothing is logged over what
// it logged.
func TestUncertainCommit(t *testing.T) {
	x, _ := newIndex(t)
	var syncs atomic.Int64
	x.db.InterceptSync(func(_ string, sync func() error) error {
		syncs.Add(1)
		return sync()
	})
	now := time.Now()
	must(t, x.baseline(now))
	if syncs.Load() == 0 {
		t.Error("commits are not synced")
	}
	put(t, x, now, "a", "1")
	x.db.Intercept(func(commit func() error) error {
		x.db.Intercept(nil)
		return errors.Join(commit(), syscall.ENOSPC)
	})
	if _, err := x.apply(now, []step{{key: "b", now: made("b", "1")}}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	put(t, x, now, "c", "1")
	s := snap(t, x)
	defer s.Close()
	var got []string
	for c, err := range s.Changes(0) {
		must(t, err)
		got = append(got, c.Resource.Path)
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) || s.Len() != 3 {
		t.Errorf("the log has %v, of %d resources", got, s.Len())
	}
}

// SRC-09, DOC-18: times of changes rise strictly, also where the clock goes back, a
// snapshot was taken, and the index was opened anew.
func TestTimesOfChangesRise_DOC18(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, dir := newIndex(t)
		now := time.Now()
		must(t, x.baseline(now))
		var last time.Time
		seq := uint64(0)
		check := func(s *Snapshot) {
			t.Helper()
			c := s.Last()
			if seq++; c.Seq != seq || !c.At.After(last) || c.At.After(s.At) || !c.At.Equal(c.At.Truncate(time.Microsecond)) || s.At.Before(time.Now()) {
				t.Errorf("change %d of %v after %v, snapshot of %v", c.Seq, c.At, last, s.At)
			}
			last = s.At
			s.Close()
		}
		for i, clock := range []time.Duration{0, 0, time.Second, -time.Hour, -time.Minute, time.Hour, 0} {
			put(t, x, now.Add(clock), "a", fmt.Sprint(i))
			time.Sleep(2 * time.Hour)
			check(snap(t, x))
			if i%2 == 1 {
				must(t, x.Close())
				var err error
				x, err = OpenIndex(dir)
				must(t, err)
			}
		}
		must(t, x.Close())
	})
}

func TestSnapshotBeforeAnyChange(t *testing.T) {
	x, _ := newIndex(t)
	put(t, x, time.Now(), "a", "a")
	at := time.Now().Truncate(time.Microsecond)
	must(t, x.baseline(at))
	s := snap(t, x)
	defer s.Close()
	seq, begin := s.Begin()
	if s.Len() != 1 || s.Last().Seq != 0 || !s.Last().At.Equal(at) || seq != 0 || !begin.Equal(at) || !s.Baseline().Equal(at) {
		t.Errorf("%+v, log after %d of %v", s, seq, begin)
	}
	for c, err := range s.Changes(0) {
		t.Errorf("%v, %v", c, err)
	}
	got, ok, err := x.Get("a")
	if diff := cmp.Diff(made("a", "a").Resource, got, cmp.Comparer(func(a, b resourcesync.Digests) bool { return a == b })); diff != "" || !ok || err != nil {
		t.Errorf("%v, %v, %s", ok, err, diff)
	}
	if _, ok, err := x.Get("b"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func contentOf(r Resource, all []string) string {
	for _, c := range all {
		if shaOf(c) == r.SHA256 {
			return c
		}
	}
	return "?"
}

// A snapshot stays what it was, whatever is written later; and its resources are
// those of the first scan with its log applied.
func TestSnapshotsProperty(t *testing.T) {
	contents := []string{"one", "two", "three"}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		x, err := OpenIndex(dir)
		must(t, err)
		defer x.Close() //nolint:errcheck // of a test
		want := map[string]string{}
		path := rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a-b", "b", "c/d", "c/e", "c", "z\xff"})
		type held struct {
			s    *Snapshot
			want map[string]string
		}
		var open []held
		step := func(rt *rapid.T) {
			p, content := path.Draw(rt, "path"), rapid.SampledFrom(append(contents, "")).Draw(rt, "content")
			put(t, x, time.Now(), p, content)
			if delete(want, p); content == "" {
				return
			}
			maps.DeleteFunc(want, func(other, _ string) bool { return below(other, p) || below(p, other) })
			want[p] = content
		}
		for range rapid.IntRange(0, 5).Draw(rt, "first") {
			step(rt)
		}
		base := maps.Clone(want)
		must(t, x.baseline(time.Now()))
		rt.Repeat(map[string]func(*rapid.T){
			"write": step,
			"snapshot": func(*rapid.T) {
				open = append(open, held{snap(t, x), maps.Clone(want)})
			},
			"": func(rt *rapid.T) {
				for _, h := range open {
					checkSnapshot(rt, h.s, base, h.want, contents)
				}
			},
		})
	})
}

func checkSnapshot(t *rapid.T, s *Snapshot, base, want map[string]string, contents []string) {
	got, paths := map[string]string{}, []string{}
	for r, err := range s.Resources() {
		if err != nil {
			t.Fatal(err)
		}
		got[r.Path] = contentOf(r, contents)
		paths = append(paths, r.Path)
	}
	if !maps.Equal(got, want) || s.Len() != len(want) || !slices.IsSorted(paths) {
		t.Fatalf("a snapshot has %v in the order %q, and should have %v", got, paths, want)
	}
	replayed := maps.Clone(base)
	seq := uint64(0)
	for c, err := range s.Changes(0) {
		if err != nil {
			t.Fatal(err)
		}
		before, was := replayed[c.Resource.Path]
		now := contentOf(c.Resource, contents)
		if seq++; c.Seq != seq || was == (c.Change == resourcesync.Created) || c.Change == resourcesync.Updated && before == now {
			t.Fatalf("change %d of %q, which was there: %v, is %+v", seq, c.Resource.Path, was, c)
		}
		if delete(replayed, c.Resource.Path); c.Change != resourcesync.Deleted {
			replayed[c.Resource.Path] = now
		}
	}
	if !maps.Equal(replayed, want) || s.Last().Seq != seq {
		t.Fatalf("the log up to %d gives %v, and should give %v", seq, replayed, want)
	}
}

// Many pages, with writes between them.
func TestSnapshotInPages(t *testing.T) {
	x, _ := newIndex(t)
	const n = 2*pageSize + 10
	name := func(i int) string { return fmt.Sprintf("%06d", 2*i) }
	var steps []step
	for i := range n {
		steps = append(steps, step{key: name(i), now: made(name(i), "x")})
	}
	_, err := x.apply(time.Now(), steps)
	must(t, err)
	must(t, x.baseline(time.Now()))
	s := snap(t, x)
	defer s.Close()
	i := 0
	for r, err := range s.Resources() {
		must(t, err)
		if r.Path != name(i) || r.SHA256 != shaOf("x") {
			t.Fatalf("resource %d is %+v", i, r)
		}
		if i++; i%700 == 0 {
			put(t, x, time.Now(), name(i+1000), "changed")
			put(t, x, time.Now(), name(i+1001), "")
			put(t, x, time.Now(), name(i)+"1", "new")
			put(t, x, time.Now(), "zzz"+name(i), "new")
		}
	}
	if i != n || s.Len() != n {
		t.Errorf("%d of %d resources", i, n)
	}
	for r, err := range s.ResourcesAfter(name(n - 3)) {
		must(t, err)
		if r.Path != name(n-2) && r.Path != name(n-1) {
			t.Errorf("%q comes after %q", r.Path, name(n-3))
		}
	}
}

func TestPrune(t *testing.T) {
	x, _ := newIndex(t)
	start := time.Now().Truncate(time.Microsecond)
	must(t, x.baseline(start))
	for i := range 10 {
		put(t, x, start.Add(time.Duration(i+1)*time.Minute), "a", fmt.Sprint(i))
	}
	begin := func(want uint64) {
		t.Helper()
		s := snap(t, x)
		defer s.Close()
		seq, at := s.Begin()
		if seq != want || !at.Equal(start.Add(time.Duration(want)*time.Minute)) || s.Last().Seq != 10 || s.Len() != 1 {
			t.Errorf("the log begins after %d of %v, want %d; last %+v", seq, at, want, s.Last())
		}
		n := want
		for c, err := range s.Changes(want) {
			must(t, err)
			if n++; c.Seq != n {
				t.Errorf("change %d, want %d", c.Seq, n)
			}
		}
		if n != 10 {
			t.Errorf("the log ends at %d", n)
		}
		if want == 0 {
			return
		}
		for c, err := range s.Changes(want - 1) {
			if !errors.Is(err, ErrPruned) {
				t.Errorf("from before the beginning: %v, %v", c, err)
			}
		}
	}
	prune := func(want int, c Cut) {
		t.Helper()
		if n, err := x.Prune(c); n != want || err != nil {
			t.Errorf("%d were removed, want %d: %v", n, want, err)
		}
	}
	prune(0, Cut{Before: start.Add(time.Hour)}) // all are needed still
	prune(2, Cut{Before: start.Add(3 * time.Minute), Through: 10})
	begin(2)
	prune(1, Cut{AtMost: 3, Through: 3})
	begin(3)
	s := snap(t, x)
	prune(0, Cut{AtMost: 3, Through: 10}) // a snapshot has them
	s.Close()
	prune(4, Cut{AtMost: 3, Through: 10})
	begin(7)
	prune(3, Cut{Before: start.Add(time.Hour), Through: 10})
	begin(10)
}

func TestOpenIndexErrors(t *testing.T) {
	x, dir := newIndex(t)
	if _, err := OpenIndex(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a second time: %v", err)
	}
	must(t, x.Close())
	if _, err := x.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := x.Get("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := x.apply(time.Now(), []step{{key: "a"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, indexName), []byte(strings.Repeat("no database", 1000)), 0o600))
	if _, err := OpenIndex(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
	o := fileOptions()
	o.Format++
	must(t, os.Remove(filepath.Join(dir, indexName)))
	newer, err := boltfile.Open(filepath.Join(dir, indexName), o)
	must(t, err)
	must(t, newer.Close())
	if _, err := OpenIndex(dir); !errors.Is(err, ErrNewer) {
		t.Errorf("newer: %v", err)
	}
}

// What is read from disk is checked; what is packed comes back.
func FuzzUnpack(f *testing.F) {
	c := Change{Seq: 1, At: time.UnixMicro(5).UTC(), Change: resourcesync.Updated, Resource: made("a", "b").Resource}
	f.Add(packRecord(made("a", "b")))
	f.Add(packChange(&c, instant{1, 2}))
	for _, r := range extendedResources() {
		g := Given{Resource: r}
		f.Add(packRecord(g.step().now))
	}
	f.Add(packHead(head{ready: true, count: 3, baseline: 4, last: place{1, 2}, begin: place{3, 4}, floor: 5}))
	f.Fuzz(func(t *testing.T, v []byte) {
		if h, err := unpackHead(v); err == nil {
			if again, err := unpackHead(packHead(h)); err != nil || again != h {
				t.Errorf("%+v, %+v, %v", h, again, err)
			}
		}
		for _, key := range []string{"a", "https://example.org/a"} {
			r, err := unpackRecord(key, v)
			if err != nil {
				continue
			}
			if again, err := unpackRecord(key, packRecord(&r)); err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("%+v, %+v, %v", r, again, err)
			}
		}
		if c, err := unpackChange(seqKey(7), v); err == nil && c.Change == resourcesync.Deleted {
			if again, err := unpackChange(seqKey(7), packChange(&c, instant{})); err != nil || !reflect.DeepEqual(again, c) {
				t.Errorf("%+v, %+v, %v", c, again, err)
			}
		}
	})
}

func TestPackedRoundTrip(t *testing.T) {
	for _, r := range []*record{made("a", "b"), made("\xff", ""), {}, {racy: true, stat: stat{mtime: instant{1 << 40, 999_999_999}, inode: 1<<64 - 1}}} {
		got, err := unpackRecord(r.Path, packRecord(r))
		r.ModTime = modTime(r.stat.mtime)
		if err != nil || !reflect.DeepEqual(got, *r) {
			t.Errorf("%+v came back as %+v: %v", r, got, err)
		}
		for n := range packRecord(r) {
			if n < len(packRecord(r))-len(r.MediaType) {
				if _, err := unpackRecord(r.Path, packRecord(r)[:n]); err == nil {
					t.Errorf("%+v cut to %d bytes: no error", r, n)
				}
			}
		}
	}
}
