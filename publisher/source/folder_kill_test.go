package source

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// killEnv has the folder and the state of a process that is going to be killed.
const killEnv = "RSHUB_TEST_FOLDER"

// TestKilledFolderChild is that process. Else it is no test.
func TestKilledFolderChild(t *testing.T) {
	dir, state, ok := strings.Cut(os.Getenv(killEnv), "\n")
	if !ok {
		t.Skip("it is run by TestKilledFolder")
	}
	x, err := OpenIndex(state)
	must(t, err)
	o := quick
	o.Dir, o.Log = dir, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	f, err := NewFolder(x, o)
	must(t, err)
	must(t, f.Run(context.Background()))
}

// SRC-09: a process that watches is killed at random moments while files change.
// In the end the index is the folder, and the log leads from the first scan to it.
func TestKilledFolder_SRC09(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{rnd: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir()}
	for range 300 {
		c.change()
	}
	state := t.TempDir()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	var base map[string]string // what the first scan found
	for range rounds {
		// The first lives end before the first scan does.
		life := time.Duration(c.rnd.IntN(400)) * time.Millisecond
		c.live(t, state, life, base != nil)
		got, log := read(t, state)
		if base == nil && log != nil {
			if len(log) > 0 {
				t.Fatalf("the first scan logged %v", log)
			}
			base = got
		}
	}
	x, err := OpenIndex(state)
	must(t, err)
	f, err := NewFolder(x, FolderOptions{Dir: c.dir, Settle: quick.Settle, MaxDeleted: 1})
	must(t, err)
	must(t, f.Scan(t.Context()))
	must(t, x.Close())
	got, log := read(t, state)
	if base == nil {
		base = got
	}
	if want := onDisk(t, c.dir); !maps.Equal(got, want) {
		t.Errorf("the index has %v, the folder %v", got, want)
	}
	replay(t, base, log, got)
	t.Logf("%d changes of %d files in %d lives", len(log), len(got), rounds)
}

// live runs a process for a while, and changes files meanwhile.
func (c *chaos) live(t *testing.T, state string, life time.Duration, busy bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledFolderChild$")
	cmd.Env = append(os.Environ(), killEnv+"="+c.dir+"\n"+state)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	end := time.After(life)
	for going := true; going; {
		select {
		case <-end:
			going = false
		case <-time.After(time.Duration(c.rnd.IntN(5)) * time.Millisecond):
			if busy {
				c.change()
			}
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	if busy {
		for range 10 { // while it is down
			c.change()
		}
	}
}

// chaos changes a folder at random.
type chaos struct {
	rnd *rand.Rand
	dir string
	n   int
}

func (c *chaos) path() string {
	path := c.dir
	for range 1 + c.rnd.IntN(3) {
		path = filepath.Join(path, fmt.Sprint("n", c.rnd.IntN(8)))
	}
	return path
}

// change does one thing. What can't be done where it is tried is none.
func (c *chaos) change() {
	path := c.path()
	c.n++
	switch c.rnd.IntN(10) {
	case 0:
		_ = os.Rename(path, c.path())
	case 1:
		_ = os.Remove(path)
	case 2:
		_ = os.RemoveAll(path)
	default:
		if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
			_ = os.WriteFile(path, []byte(strings.Repeat(fmt.Sprint(c.n, " "), c.rnd.IntN(3000))), 0o600)
		}
	}
}

// onDisk returns the sums of the files in a folder.
func onDisk(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = sumOf(string(content))
		return err
	}))
	return all
}

// read returns what an index has, and its log; a nil log before the first scan is
// finished.
func read(t *testing.T, state string) (all map[string]string, log []Change) {
	t.Helper()
	x, err := OpenIndex(state)
	must(t, err)
	defer x.Close() //nolint:errcheck // of a test
	if !x.Ready() {
		return nil, nil
	}
	all, log = map[string]string{}, []Change{}
	s := snap(t, x)
	defer s.Close()
	for r, err := range s.Resources() {
		must(t, err)
		all[r.Path] = fmt.Sprintf("%x", r.SHA256)
	}
	for c, err := range s.Changes(0) {
		must(t, err)
		log = append(log, c)
	}
	return all, log
}

// replay checks that a log leads from one state to another, step by step.
func replay(t *testing.T, base map[string]string, log []Change, want map[string]string) {
	t.Helper()
	now := maps.Clone(base)
	var last Change
	for _, c := range log {
		sum, was := now[c.Resource.Path]
		if c.Seq != last.Seq+1 || !c.At.After(last.At) {
			t.Fatalf("%+v follows %+v", c, last)
		}
		if was == (c.Change == resourcesync.Created) || c.Change == resourcesync.Updated && sum == fmt.Sprintf("%x", c.Resource.SHA256) {
			t.Fatalf("%+v, where there was %q", c, sum)
		}
		if delete(now, c.Resource.Path); c.Change != resourcesync.Deleted {
			for path := range now {
				if below(path, c.Resource.Path) || below(c.Resource.Path, path) {
					t.Fatalf("%+v, where there is %q", c, path)
				}
			}
			now[c.Resource.Path] = fmt.Sprintf("%x", c.Resource.SHA256)
		}
		last = c
	}
	if !maps.Equal(now, want) {
		t.Errorf("the log leads to %q, and the index has %q", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(want)))
	}
}
