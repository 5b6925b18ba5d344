package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/base/originlog"
)

// copied makes the folder of a rig a copy that rssub keeps, with these origins.
func copied(r *rig, origins ...originlog.Origin) *originlog.Log {
	r.t.Helper()
	r.must(disk.Make(r.at(copyState)))
	l, err := originlog.Open(r.at(copyState), slices.Values(origins))
	r.must(err)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

// vias returns what each resource links to, as "path <- URL".
func (r *rig) viasOf() (all []string) {
	r.t.Helper()
	s := r.snapshot()
	defer s.Close()
	for res, err := range s.Resources() {
		r.must(err)
		text := res.Path
		for _, l := range res.Links {
			text += fmt.Sprintf(" <- %s %s", l.Rel, strings.TrimPrefix(l.Href, "http://one.example/"))
			if !l.Modified.IsZero() {
				text += l.Modified.Format(" 2006")
			}
		}
		all = append(all, text)
	}
	return all
}

func from(path, name string) originlog.Origin {
	return originlog.Origin{Path: path, URL: "http://one.example/" + name, Modified: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// The files of a copy link to where they come from, and others do not. A file whose origin changes
// is updated, though its bytes are the same. LNK-08.
func TestVia_LNK08(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Workers: 1, Hidden: true}, "a", "b/c", "own")
		l := copied(r, from("a", "a"), from("b/c", "x/c"))
		r.want("first scan", r.scan())
		r.want("links", r.viasOf(), "a <- via a 2020", "b/c <- via x/c 2020", "own")
		r.want("nothing new", r.scan())

		r.must(l.Add([]originlog.Origin{from("a", "other"), {Path: "b/c"}, {Path: "own", URL: "http://one.example/own"}, from("later", "later")}))
		r.want("other origins", slices.Sorted(slices.Values(r.scan())), "updated a", "updated b/c", "updated own")
		r.want("links", r.viasOf(), "a <- via other 2020", "b/c", "own <- via own")
		r.write("later", "1")
		r.write("a", "other bytes")
		r.want("bytes", slices.Sorted(slices.Values(r.scan())), "created later", "updated a")
		r.want("links", r.viasOf(), "a <- via other 2020", "b/c", "later <- via later 2020", "own <- via own")

		r.must(l.Add([]originlog.Origin{{Path: "own", URL: "http://one.example/with a space"}}))
		r.want("no document could have it", r.scan(), "updated own")
		r.want("links", r.viasOf(), "a <- via other 2020", "b/c", "later <- via later 2020", "own")
		if !strings.Contains(r.log.String(), "via_left_out") {
			t.Errorf("it is not in the log: %s", r.log)
		}

		r.restart(func(o *FolderOptions) { o.NoVia = true })
		r.want("without", r.scan(), "updated a", "updated later")
		r.restart(func(o *FolderOptions) { o.NoVia = false })
		r.want("with", r.scan(), "updated a", "updated later")
		r.must(os.RemoveAll(r.at(copyState)))
		r.want("no copy any more", r.scan(), "updated a", "updated later")
	})
}

// If nobody may read the origins, what is published stays as it is, and the log says so once.
func TestViaUnreadable(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Workers: 1}, "a", "b")
		copied(r, from("a", "a"), from("b", "b"))
		r.scan()
		r.must(os.Rename(r.at(copyState), r.at("elsewhere")))
		r.must(os.Symlink("loop", r.at("loop")))
		r.must(os.Symlink("loop", r.at(copyState))) // no user is refused it, not even root
		r.remove("elsewhere")
		r.write("a", "other")
		r.write("c", "new")
		r.restart(nil)
		r.want("changes", r.scan(), "updated a", "created c")
		r.want("links", r.viasOf(), "a <- via a 2020", "b <- via b 2020", "c")
		r.scan()
		if n := strings.Count(r.log.String(), "origins_unreadable"); n != 1 || strings.Contains(r.log.String(), "--") {
			t.Errorf("%d lines: %s", n, r.log)
		}
	})
}

// While the folder itself is away, nothing is said about origins, and the links stay.
func TestViaWithoutTheFolder(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Workers: 1}, "a")
		copied(r, from("a", "a"))
		r.scan()
		away := r.dir + ".away"
		r.must(os.Rename(r.dir, away))
		if err := r.Scan(t.Context()); err == nil {
			t.Error("the folder was scanned though it is away")
		}
		r.vias.refresh(r.pending)
		r.must(os.Rename(away, r.dir))
		r.want("when it is back", r.scan())
		r.want("links", r.viasOf(), "a <- via a 2020")
		if log := r.log.String(); strings.Contains(log, "origins_unreadable") {
			t.Errorf("it logs %s", log)
		}
	})
}

// A running Folder takes over what rssub writes, and a folder that becomes a copy.
func TestViaIsFollowed(t *testing.T) {
	r := newRig(t, FolderOptions{Workers: 1, Settle: 20 * time.Millisecond}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	<-r.Ready()
	wait := func(want ...string) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !slices.Equal(r.viasOf(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("got %q, want %q", r.viasOf(), want)
			}
		}
	}
	wait("a")
	l := copied(r, from("a", "a"))
	wait("a <- via a 2020")
	r.must(l.Add([]originlog.Origin{from("a", "b")}))
	wait("a <- via b 2020")
	r.must(l.Rewrite(slices.Values([]originlog.Origin{from("a", "c")})))
	wait("a <- via c 2020")
	if _, err := os.Stat(filepath.Join(r.dir, copyState, originlog.Name)); err != nil {
		t.Fatal(err)
	}
	cancel()
	r.must(<-ended)
}
