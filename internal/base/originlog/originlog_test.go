package originlog

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const state = ".rssub"

// bed is a copy with a Log, and a Reader of it.
type bed struct {
	*testing.T
	dir string
	log *Log
	r   *Reader
}

func newBed(t *testing.T, all ...Origin) *bed {
	b := &bed{T: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(b.dir, state), 0o700); err != nil {
		t.Fatal(err)
	}
	b.open(all...)
	b.r = NewReader(b.dir, state)
	return b
}

func (b *bed) open(all ...Origin) {
	b.Helper()
	if err := b.log.Close(); err != nil {
		b.Fatal(err)
	}
	var err error
	if b.log, err = Open(filepath.Join(b.dir, state), slices.Values(all)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = b.log.Close() })
}

func (b *bed) add(all ...Origin) {
	b.Helper()
	if err := b.log.Add(all); err != nil {
		b.Fatal(err)
	}
}

// refresh wants what the Reader names as new.
func (b *bed) refresh(all bool, paths ...string) {
	b.Helper()
	got, gotAll, err := b.r.Refresh()
	if err != nil || gotAll != all || !slices.Equal(got, paths) {
		b.Fatalf("new are %q, all %t, %v; want %q, all %t", got, gotAll, err, paths, all)
	}
}

// has wants a path to come from a URL; empty: from none.
func (b *bed) has(path, url string) {
	b.Helper()
	if o, ok, err := b.r.Get(path); err != nil || ok != (url != "") || ok && o.URL != url {
		b.Fatalf("%s comes from %+v, %t, %v; want %q", path, o, ok, err, url)
	}
}

func TestReaderFollowsTheLog(t *testing.T) {
	at := time.Date(2026, 11, 26, 1, 2, 3, 4, time.UTC)
	b := newBed(t, Origin{"a", "http://one.example/a?x=1&y=2", at})
	b.has("a", "")
	b.refresh(true)
	b.has("a", "http://one.example/a?x=1&y=2")
	if o, _, _ := b.r.Get("a"); o.Modified != at {
		t.Errorf("its time is %v", o.Modified)
	}
	b.refresh(false)
	b.add(Origin{Path: "b", URL: "http://one.example/b"}, Origin{Path: "a"})
	b.has("b", "")
	b.refresh(false, "b", "a")
	b.has("a", "")
	b.has("b", "http://one.example/b")
	b.add(Origin{Path: "a", URL: "http://two.example/a"})
	b.refresh(false, "a")
	b.has("a", "http://two.example/a")
	b.r.merge()
	b.has("a", "http://two.example/a")
	b.has("b", "http://one.example/b")
	b.has("c", "")

	if err := b.log.Rewrite(slices.Values([]Origin{{Path: "c", URL: "http://one.example/c"}})); err != nil {
		t.Fatal(err)
	}
	b.has("a", "http://two.example/a")
	b.refresh(true)
	b.has("a", "")
	b.has("c", "http://one.example/c")
	b.add(Origin{Path: "d", URL: "http://one.example/d"})
	b.refresh(false, "d")

	if err := os.RemoveAll(filepath.Join(b.dir, state)); err != nil {
		t.Fatal(err)
	}
	b.refresh(true)
	b.has("c", "")
	b.refresh(false)
}

// What a power failure may leave: half a line, and lines that make no sense.
func TestCutOffLines(t *testing.T) {
	b := newBed(t, Origin{Path: "a", URL: "http://one.example/a"})
	name := filepath.Join(b.dir, state, Name)
	half := func(text string) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(text)
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	half("nonsense\n" + strings.Repeat("x", 3*longest) + "\n" + `{"path":"b","url":"http://on`)
	b.refresh(true)
	b.has("a", "http://one.example/a")
	b.has("b", "")
	b.open()
	b.add(Origin{Path: "c", URL: "http://one.example/c"})
	b.refresh(false, "c")
	b.has("c", "http://one.example/c")
	half(`{"path":"d",`)
	b.refresh(false)
	half(`"url":"http://one.example/d"}` + "\n")
	b.refresh(false, "d")
	b.has("d", "http://one.example/d")
}

// Links are followed by neither side: the copy of a Source must not read other files.
func TestNoLinks(t *testing.T) {
	b := newBed(t)
	name, other := filepath.Join(b.dir, state, Name), filepath.Join(t.TempDir(), "other")
	if err := os.Rename(name, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, name); err != nil {
		t.Fatal(err)
	}
	b.refresh(false)
	if l, err := Open(filepath.Dir(name), slices.Values([]Origin{})); err == nil {
		t.Errorf("%v was opened through a link", l.Close())
	}
}

// The file has a bound: when most lines are old, it says so. A reader that finds more new lines
// than it names says that all may be new.
func TestLong(t *testing.T) {
	b := newBed(t)
	b.refresh(true)
	many := func(n int) iter.Seq[Origin] {
		return func(yield func(Origin) bool) {
			for i := range n {
				if !yield(Origin{Path: fmt.Sprint(i), URL: fmt.Sprint("http://one.example/", i)}) {
					return
				}
			}
		}
	}
	b.add(slices.Collect(many(spare + 20))...)
	if !b.log.Long(9) || b.log.Long(10) {
		t.Errorf("%d lines for 9 files are not long, or are for 10", spare+20)
	}
	if _, all, err := b.r.Refresh(); !all || err != nil {
		t.Errorf("all may be new: %t, %v", all, err)
	}
	for _, i := range []int{0, 7, spare, spare + 19} {
		b.has(fmt.Sprint(i), fmt.Sprint("http://one.example/", i))
	}
	b.open() // it counts what is there
	if !b.log.Long(9) || b.log.Long(10) {
		t.Error("it was counted wrongly")
	}
	if err := b.log.Rewrite(many(9)); err != nil || b.log.Long(0) {
		t.Errorf("it is still long: %v", err)
	}
}
