package source

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// read reads a document of the site.
func (x *site) read(url string) (resourcesync.Head, []resourcesync.Entry) {
	x.t.Helper()
	got := x.get(url)
	if got.status != 200 {
		x.t.Fatalf("%s answers %d", url, got.status)
	}
	return readDocument(x.t, url, got.body)
}

func readDocument(t testing.TB, url, text string) (resourcesync.Head, []resourcesync.Entry) {
	t.Helper()
	r := resourcesync.NewReader(strings.NewReader(text), resourcesync.ReadOptions{Strict: true})
	var entries []resourcesync.Entry
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatalf("%s: %v\n%s", url, err, text)
		}
		entries = append(entries, e)
	}
	h, err := r.Head()
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return h, entries
}

// lists is where the Capability List says that the Change Lists are.
func (x *site) lists() string {
	x.t.Helper()
	_, entries := x.read("/" + capabilityListPath)
	for _, e := range entries {
		if e.Capability == resourcesync.ChangeList {
			return strings.TrimPrefix(e.Loc, strings.TrimSuffix(x.o.PublicURL, "/"))
		}
	}
	x.t.Fatal("there is no Change List")
	return ""
}

// changes reads all Change Lists that are listed at a path, of which there has to be
// one after the other in time.
func (x *site) changes(path string) (from time.Time, all []resourcesync.Entry) {
	x.t.Helper()
	h, entries := x.read(path)
	if !h.Index && h.Capability == resourcesync.ChangeList {
		return h.From, within(x.t, path, h, entries)
	}
	until := h.From
	for i, e := range entries {
		part, of := x.read(e.Loc)
		if i == 0 {
			from, until = part.From, part.From
		}
		if !part.From.Equal(until) || !e.From.Equal(part.From) || !e.Until.Equal(part.Until) {
			x.t.Errorf("%s is from %v until %v, and listed as from %v until %v; the one before it ends at %v", e.Loc, part.From, part.Until, e.From, e.Until, until)
		}
		if index, _ := part.Link("index"); index.Href != x.o.PublicURL+changeListIndexPath {
			x.t.Errorf("the index of %s is %s", e.Loc, index.Href)
		}
		if open := part.Until.IsZero(); open != (i == len(entries)-1 && h.Index) {
			x.t.Errorf("%s, number %d of %d: open is %v", e.Loc, i+1, len(entries), open)
		}
		until = part.Until
		all = append(all, within(x.t, e.Loc, part, of)...)
	}
	return from, all
}

// within checks that changes lie in the interval of their list, its end excluded.
func within(t testing.TB, url string, h resourcesync.Head, entries []resourcesync.Entry) []resourcesync.Entry {
	t.Helper()
	for _, e := range entries {
		if e.Datetime.Before(h.From) || !h.Until.IsZero() && !e.Datetime.Before(h.Until) {
			t.Errorf("%s: %s changed at %v, outside of %v to %v", url, e.Loc, e.Datetime, h.From, h.Until)
		}
	}
	return entries
}

// log are the changes of the index.
func (x *site) log(after uint64) (all []Change) {
	x.t.Helper()
	snap, err := x.sets[0].index.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	defer snap.Close()
	for c, err := range snap.Changes(after) {
		if err != nil {
			x.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// churn changes the folder and the index with it, as a scan would, at a time.
func (x *site) churn(random *rand.Rand, n int, now time.Time) {
	x.t.Helper()
	var steps []step
	for range n {
		path := fmt.Sprintf("%d/%d.txt", random.IntN(3), random.IntN(20))
		s := step{key: path}
		if random.IntN(4) > 0 {
			text := fmt.Sprint(random.Uint64())
			x.write(map[string]string{path: text})
			s.now = &record{Resource: Resource{Path: path, Length: int64(len(text)), SHA256: shaOf(text), MD5: md5.Sum([]byte(text)), MediaType: "text/plain"}}
		} else if err := os.Remove(filepath.Join(x.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.t.Fatal(err)
		}
		steps = append(steps, s)
	}
	if _, err := x.sets[0].index.apply(now, steps); err != nil {
		x.t.Fatal(err)
	}
}

func (x *site) step(do work) {
	x.t.Helper()
	if _, err := do(context.Background()); err != nil {
		x.t.Fatal(err)
	}
}

// Whatever comes when, and wherever lists are closed: each change is in one Change
// List, in order, and the intervals follow each other (SRC-15, DOC-39, DOC-40).
func TestEveryChangeIsInOneList_DOC39_DOC40_SRC15(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Rotate = 7, 50*time.Millisecond })
		x.build()
		s := x.sets[0]
		for turn := range 20 {
			x.churn(random, random.IntN(12), time.Now())
			if random.IntN(3) == 0 {
				// A list that is old is closed at the time of the snapshot.
				s.composer.schedule.Rotate = time.Nanosecond
			}
			x.step(s.buildChangeLists)
			s.composer.schedule.Rotate = time.Hour
			if random.IntN(5) == 0 {
				x.close()
				x.open()
				s = x.sets[0]
			}
			from, listed := x.changes(x.lists())
			want := x.log(0)
			if len(listed) != len(want) {
				t.Fatalf("seed %d, turn %d: %d changes are listed, there were %d", seed, turn, len(listed), len(want))
			}
			for i, c := range want {
				if e := listed[i]; !e.Datetime.Equal(c.At) || e.Change != c.Change || !strings.HasSuffix(e.Loc, "/data/"+c.Resource.Path) {
					t.Fatalf("seed %d, turn %d: change %d is %+v in the list and %+v in the log", seed, turn, i, e, c)
				}
				if !c.At.After(from) {
					t.Errorf("change %d is not later than where the lists begin", i)
				}
			}
		}
	}
}

// A list that is polled while it is open stays where it is when it is closed (DST-19).
func TestOpenListIsClosedWhereItIs_DOC39(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt = 3 })
	x.build()
	s, random := x.sets[0], rand.New(rand.NewPCG(1, 1))
	for len(x.log(0)) < 4 {
		x.churn(random, 3, time.Now())
	}
	x.step(s.buildChangeLists)
	_, members := x.read(x.lists())
	open := members[len(members)-1].Loc
	if h, _ := x.read(open); !h.Until.IsZero() {
		t.Fatal("the last list is not open")
	}
	for range 3 {
		x.churn(random, 3, time.Now())
	}
	x.step(s.buildChangeLists)
	if h, _ := x.read(open); h.Until.IsZero() {
		t.Error("the list that was open is not closed, and others came after it")
	}
}

// Closed lists leave the index, and then the archive; the newest stays, so that
// an index stays one.
func TestChangeListsExpire_DOC45(t *testing.T) {
	x := newSite(t, func(o *Options) {
		o.Schedule.RotateAt, o.Schedule.KeepChanges, o.Schedule.KeepArchive, o.Schedule.Linger = 2, time.Hour, 2*time.Hour, -1
	})
	x.build()
	s, random := x.sets[0], rand.New(rand.NewPCG(1, 1))
	for len(x.log(0)) < 9 {
		x.churn(random, 3, time.Now())
	}
	x.step(s.buildChangeLists)
	x.step(s.buildDumps)
	_, index := x.read(x.lists())
	_, archive := x.read("/changelist-archive.xml")
	if len(index) < 5 || len(archive) != len(index)-1 {
		t.Fatalf("%d lists in the index and %d in the archive", len(index), len(archive))
	}
	_, dumps := x.read("/changedump.xml")
	if len(dumps) != len(archive) {
		t.Fatalf("%d dumps of %d closed lists", len(dumps), len(archive))
	}
	first := index[0].Loc

	// Who begins with the Resource List, or the dump, needs all changes since.
	s.composer.schedule.KeepChanges = time.Nanosecond
	x.step(s.buildChangeLists)
	list, _ := x.read("/resourcelist.xml")
	if from, _ := x.changes(x.lists()); from.After(list.At) {
		t.Errorf("the Resource List is of %v, and the Change List begins at %v", list.At, from)
	}
	x.step(s.buildResourceList)
	x.step(s.buildChangeLists)
	x.step(s.buildDumps)
	x.step(s.buildDumps)
	if _, index = x.read(x.lists()); len(index) != 2 {
		t.Errorf("%d lists are in the index, want the newest that is closed and the open one", len(index))
	}
	if _, now := x.read("/changelist-archive.xml"); len(now) != len(archive) {
		t.Errorf("%d lists are in the archive, and there were %d", len(now), len(archive))
	}
	if got := x.get(first); got.status != 200 {
		t.Errorf("%s is in the archive, and answers %d", first, got.status)
	}
	x.changes("/changelist-archive.xml")

	s.composer.schedule.KeepArchive = time.Nanosecond
	x.step(s.buildChangeLists)
	if _, archive = x.read("/changelist-archive.xml"); len(archive) != 1 {
		t.Errorf("%d lists are in the archive, want one", len(archive))
	}
	if _, dumps = x.read("/changedump.xml"); len(dumps) != 1 {
		t.Errorf("%d packages are in the Change Dump, want one", len(dumps))
	}
	if _, archive = x.read("/changedump-archive.xml"); len(archive) != 1 {
		t.Errorf("%d dumps are in the archive, want one", len(archive))
	}
	if err := s.shelf.sweep(); err != nil {
		t.Fatal(err)
	}
	if got := x.get(first); got.status != 404 {
		t.Errorf("%s is in no list any more, and answers %d", first, got.status)
	}
	x.onlyNamed()
}

// onlyNamed checks that the folder of the shelf holds what the catalogue names.
func (x *site) onlyNamed() {
	x.t.Helper()
	s := x.sets[0].shelf
	var want []string
	for _, d := range s.current().Documents {
		if want = append(want, d.File); d.Packed {
			want = append(want, d.File+packedSuffix)
		}
	}
	want = append(want, registerName)
	got := names(x.t, s.dir)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		x.t.Errorf("the folder has\n%q and the catalogue\n%q", got, want)
	}
}

// Where the state was set back, or the log lost, the lists begin anew with what
// there is, and say so by their from.
func TestChangeListsBeginAnew(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Linger = 2, -1 })
	x.build()
	s, random := x.sets[0], rand.New(rand.NewPCG(1, 1))
	for len(x.log(0)) < 5 {
		x.churn(random, 3, time.Now())
	}
	x.step(s.buildChangeLists)
	if _, err := s.index.Prune(Cut{AtMost: 1, Through: x.log(0)[3].Seq, Before: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := s.shelf.swap(func(c *register) error { c.History.After, c.History.Last = 1, 1; return nil }); err != nil {
		t.Fatal(err)
	}
	x.step(s.buildChangeLists)
	snap, err := s.index.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	seq, at := snap.Begin()
	snap.Close()
	from, listed := x.changes(x.lists())
	if want := x.log(seq); len(listed) != len(want) || !from.Equal(at) {
		t.Errorf("%d changes from %v are listed, want %d from %v", len(listed), from, len(want), at)
	}
	if got := x.get("/changelist-archive.xml"); got.status != 404 && len(s.shelf.current().History.Periods) == 0 {
		t.Errorf("the archive of lists that are gone answers %d", got.status)
	}
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) }
