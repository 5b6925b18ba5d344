package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Who reads an index finds every part that it names, while newer ones take its
// place all the time (DOC-35, DOC-40).
func TestReaderFindsEveryPart_DOC35_DOC40(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt = 3 })
	x.build()
	s := x.sets[0]
	s.composer.limits = resourcesync.WriteOptions{MaxEntries: 3}
	done := make(chan struct{})
	var writers sync.WaitGroup
	for _, build := range []func(){
		func() { x.step(s.buildResourceList) },
		func() { x.step(s.buildChangeLists) },
		func() { x.step(s.buildDumps) },
	} {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, 1))
			for {
				select {
				case <-done:
					return
				default:
				}
				x.churn(random, 4, time.Now())
				build()
			}
		})
	}
	for range 40 {
		for _, path := range []string{"/resourcelist.xml", "/changelist.xml", "/changelist-index.xml", "/changelist-archive.xml", "/resourcelist-archive.xml"} {
			got := x.get(path)
			if got.status == 404 {
				continue // there is none yet
			}
			h, entries := readDocument(t, path, got.body)
			for _, e := range entries {
				if !h.Index && !strings.HasSuffix(path, "-archive.xml") {
					break // it lists resources, of which there are none here
				}
				if got := x.get(e.Loc); got.status != 200 {
					t.Errorf("%s lists %s, which answers %d", path, e.Loc, got.status)
				}
			}
		}
	}
	close(done)
	writers.Wait()
}

// The parts that an index named stay for who is reading it when the next has taken
// its place, and go after a while (DOC-35).
func TestPartsOfAnOlderIndexStay_DOC35(t *testing.T) {
	x := newSite(t, nil)
	x.build()
	s, random := x.sets[0], rand.New(rand.NewPCG(1, 1))
	s.composer.limits = resourcesync.WriteOptions{MaxEntries: 3}
	var old []resourcesync.Entry
	for h := (resourcesync.Head{}); !h.Index; {
		x.churn(random, 12, time.Now())
		x.step(s.buildResourceList)
		h, old = x.read("/resourcelist.xml")
	}
	x.churn(random, 12, time.Now())
	x.step(s.buildResourceList)
	if _, now := x.read("/resourcelist.xml"); now[0].Loc == old[0].Loc {
		t.Fatal("the list was not written anew")
	}
	for _, e := range old {
		if got := x.get(e.Loc); got.status != 200 {
			t.Errorf("%s of the older index answers %d", e.Loc, got.status)
		}
	}
	s.shelf.linger = 0
	if err := s.shelf.sweep(); err != nil {
		t.Fatal(err)
	}
	for _, e := range old {
		if got := x.get(e.Loc); got.status != 404 {
			t.Errorf("%s of the older index answers %d after a while", e.Loc, got.status)
		}
	}
	x.onlyNamed()
}

// A document that was given up leaves nothing, and what is shown stays.
func TestDiscardedDocuments(t *testing.T) {
	s, err := openShelf(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	e := s.edition()
	for _, path := range []string{"a.xml", "b.zip"} {
		d, err := e.draft(path, map[string]string{"a.xml": xmlType, "b.zip": zipType}[path])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte("text")); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := e.draft("c.xml", xmlType)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CloseWithError(errors.New("no")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.dir); len(got) != 3 {
		t.Errorf("the folder has %q", got)
	}
	if _, err := e.show(func(*register) error { return errors.New("no") }); err == nil {
		t.Error("the edition was shown")
	}
	if got := names(t, s.dir); len(got) != 0 || len(s.current().Documents) != 0 {
		t.Errorf("the folder has %q", got)
	}
}

// A register that can't be read is told, with what to do.
func TestBrokenCatalogue(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, registerName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openShelf(dir, 0); err == nil || !strings.Contains(err.Error(), "built anew") {
		t.Errorf("%v", err)
	}
}

// writing is set for the process of TestKilledWhileWriting that is killed.
const writing = "SOURCE_TEST_WRITING"

// Killed at any moment: what is there after the next start is one register, every
// document of it whole, each change in one list, and nothing else in the folder.
func TestKilledWhileWriting(t *testing.T) {
	if state := os.Getenv(writing); state != "" {
		writeForEver(t, state)
		return
	}
	random := rand.New(rand.NewPCG(1, 1))
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Linger = 4, -1 })
	x.build()
	for round := range 8 {
		x.close()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWhileWriting$")
		cmd.Env = append(os.Environ(), writing+"="+strings.Join([]string{x.o.PublicURL, x.dir, x.o.StateDir}, "\n"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it writes
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		x.open()
		x.onlyNamed()
		for path, d := range x.sets[0].shelf.current().Documents {
			h := resourcesync.NewHasher(resourcesync.SHA256)
			text, err := os.ReadFile(filepath.Join(x.sets[0].shelf.dir, d.File))
			_, _ = h.Write(text)
			if err != nil || fmt.Sprintf("sha-256:%s", d.SHA256) != h.Digests().String() {
				t.Errorf("round %d: %s is broken: %v", round, path, err)
			}
		}
		x.checkNames()
	}
	x.step(x.sets[0].buildChangeLists)
	snap, err := x.sets[0].index.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	_, listed := x.changes(x.lists())
	if last := snap.Last(); len(listed) == 0 || uint64(len(listed)) != last.Seq {
		t.Errorf("%d changes are listed, there were %d", len(listed), last.Seq)
	}
}

// checkNames checks that what documents name is there.
func (x *site) checkNames() {
	x.t.Helper()
	s := x.sets[0].shelf
	for path, d := range s.current().Documents {
		if d.Type != xmlType || path == resourceListPath || !d.Dropped.IsZero() || path == capabilityListPath {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.dir, d.File))
		if err != nil {
			x.t.Fatal(err)
		}
		h, entries := readDocument(x.t, path, string(text))
		if !h.Index && !strings.HasSuffix(h.Capability, "-archive") && !slices.Contains([]string{resourcesync.ResourceDump, resourcesync.ChangeDump}, h.Capability) {
			continue
		}
		for _, e := range entries {
			if at := strings.TrimPrefix(e.Loc, x.o.PublicURL); !s.current().has(at) {
				x.t.Errorf("%s names %s, which is not there", path, e.Loc)
			}
		}
	}
}

// writeForEver changes the folder and writes documents until it is killed.
func writeForEver(t *testing.T, state string) {
	args := strings.Split(state, "\n")
	o := eager(args[1])
	o.PublicURL, o.StateDir = args[0], args[2]
	o.Schedule.RotateAt, o.Schedule.Linger = 4, -1
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		writeFiles(t, o.Sets[0].Folder.Dir, map[string]string{fmt.Sprint("f", n%9): fmt.Sprint(time.Now())})
		if err := s.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Print(".")
	}
}
