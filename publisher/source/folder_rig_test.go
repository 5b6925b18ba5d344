package source

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rig is a folder with its index.
type rig struct {
	*Folder
	t     *testing.T
	state string
	log   *lockedBuffer
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig makes a folder of files, whose contents are their paths.
func newRig(t *testing.T, o FolderOptions, files ...string) *rig {
	t.Helper()
	r := &rig{t: t, state: t.TempDir(), log: &lockedBuffer{}}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Log = slog.New(slog.NewTextHandler(r.log, nil))
	r.start(o)
	for _, path := range files {
		r.write(path, path)
	}
	return r
}

func (r *rig) start(o FolderOptions) {
	r.t.Helper()
	x, err := OpenIndex(r.state)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = x.Close() })
	if r.Folder, err = NewFolder(x, o); err != nil {
		r.t.Fatal(err)
	}
}

// restart is a new process with the same options, but for what change does.
func (r *rig) restart(change func(*FolderOptions)) {
	r.t.Helper()
	if err := r.x.Close(); err != nil {
		r.t.Fatal(err)
	}
	o := r.o
	if change != nil {
		change(&o)
	}
	r.start(o)
}

func (r *rig) at(path string) string { return filepath.Join(r.dir, path) }

func (r *rig) write(path, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.at(path)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.at(path), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(path string) { r.must(os.RemoveAll(r.at(path))) }

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// scan scans, and returns what was logged.
func (r *rig) scan() []string {
	r.t.Helper()
	var before uint64
	if r.x.Ready() {
		before = r.snapshot().Last().Seq
	}
	r.must(r.Scan(r.t.Context()))
	return r.logged(before)
}

func (r *rig) snapshot() *Snapshot {
	r.t.Helper()
	s, err := r.x.Snapshot()
	r.must(err)
	r.t.Cleanup(s.Close)
	return s
}

// logged returns the changes after a seq as "created path", in order, and checks
// that they are numbered and dated as they have to be.
func (r *rig) logged(after uint64) (all []string) {
	r.t.Helper()
	s := r.snapshot()
	defer s.Close()
	last := Change{Seq: after}
	for c, err := range s.Changes(after) {
		r.must(err)
		if c.Seq != last.Seq+1 || !c.At.After(last.At) || c.At.After(s.At) {
			r.t.Errorf("change %d of %v follows %d of %v", c.Seq, c.At, last.Seq, last.At)
		}
		last = c
		all = append(all, string(c.Change)+" "+c.Resource.Path)
	}
	return all
}

// published returns the paths in the index, and checks what it says of them.
func (r *rig) published() (all []string) {
	r.t.Helper()
	s := r.snapshot()
	defer s.Close()
	for res, err := range s.Resources() {
		r.must(err)
		all = append(all, res.Path)
		content, err := os.ReadFile(r.at(res.Path))
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r.must(err)
		if res.Length != int64(len(content)) || res.SHA256 != sha256.Sum256(content) || res.MD5 != md5.Sum(content) || res.MediaType == "" {
			r.t.Errorf("%q is not what the index says: %+v", res.Path, res)
		}
	}
	if !slices.IsSorted(all) || s.Len() != len(all) {
		r.t.Errorf("%d resources, %q", s.Len(), all)
	}
	return all
}

func (r *rig) want(what string, got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// later runs a test in a bubble whose clock is a day ahead of that of the files:
// none was written to just now.
func later(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	tomorrow := time.Now().Add(24 * time.Hour)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(tomorrow))
		test(t)
	})
}

func shaOf(content string) [32]byte { return sha256.Sum256([]byte(content)) }
