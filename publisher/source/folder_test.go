package source

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// SRC-09: the first scan publishes nothing; then every difference is one change.
func TestScan_SRC09(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Workers: 1}, "a.txt", "b/c.html", "b/d/e", "f")
		if _, err := r.x.Snapshot(); !errors.Is(err, ErrNoBaseline) {
			t.Errorf("a snapshot before the first scan: %v", err)
		}
		r.want("first scan", r.scan())
		r.want("resources", r.published(), "a.txt", "b/c.html", "b/d/e", "f")
		r.want("nothing new", r.scan())

		r.write("a.txt", "other")
		r.write("b/n", "new")
		r.remove("f")
		r.want("changes", slices.Sorted(slices.Values(r.scan())), "created b/n", "deleted f", "updated a.txt")

		r.must(os.Chtimes(r.at("a.txt"), time.Time{}, time.Now()))
		r.must(os.Chmod(r.at("b/n"), 0o600))
		r.want("the same bytes", r.scan())
		r.must(os.Rename(r.at("b"), r.at("c")))
		r.want("renamed", r.scan(), "created c/c.html", "created c/n", "created c/d/e", "deleted b/c.html", "deleted b/d/e", "deleted b/n")
		r.published()
	})
}

// A file where there was a folder, and the reverse: whoever copies the folder has
// to make room first.
func TestScanReplacesFoldersByFiles(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Workers: 1}, "a/b/c", "a/d", "f", "z")
		r.scan()
		r.remove("a")
		r.remove("f")
		r.write("a", "file")
		r.write("f/g/h", "in a folder")
		r.want("changes", r.scan(), "deleted a/b/c", "deleted a/d", "created a", "deleted f", "created f/g/h")
		r.published()
	})
}

func TestScanOddNames(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Ignore: []string{}, Hidden: true})
		want := slices.DeleteFunc(slices.Clone(oddPaths), func(p string) bool { return p == "a/b.txt" || p == "a/.b/..c" })
		for _, path := range want {
			r.write(path, "content of "+path)
		}
		r.write("empty", "")
		r.scan()
		want = append(want, "empty")
		slices.Sort(want)
		r.want("resources", r.published(), want...)
		for _, path := range want {
			unescaped, err := UnescapePath(EscapePath(path))
			r.must(err)
			file, err := r.Open(unescaped)
			r.must(err)
			r.must(file.Close())
		}
	})
}

// Links lead out of the folder, or make two resources of one: there are none.
func TestLinksAndSpecialFiles(t *testing.T) {
	later(t, func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, FolderOptions{}, "in/file")
		r.must(os.Symlink(outside, r.at("link")))
		r.must(os.Symlink(filepath.Dir(outside), r.at("folder")))
		r.must(os.Symlink("in", r.at("inside")))
		r.must(os.Symlink("in/file", r.at("inside.txt")))
		r.must(syscall.Mkfifo(r.at("pipe"), 0o600))
		r.scan()
		r.want("resources", r.published(), "in/file")
		if n := r.Status().Skipped; n != 5 {
			t.Errorf("%d were skipped", n)
		}
		for _, path := range []string{"link", "folder/secret", "inside.txt", "pipe", "in", "../secret", "in/../in/file", "/in/file", ""} {
			if file, err := r.Open(path); err == nil {
				t.Errorf("%q can be opened", path)
				_ = file.Close()
			}
		}
		// What was a file becomes a link.
		r.remove("in/file")
		r.must(os.Symlink(outside, r.at("in/file")))
		r.want("replaced by a link", r.scan(), "deleted in/file")
	})
}

func TestUnreadableStaysPublished(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("root reads everything: a name that is too long stands for what can't be read")
	}
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{}, "a", "d/e", "d/f")
		r.scan()
		p := &pass{f: r.Folder, problems: map[string]error{}}
		if err := p.unlisted("d", syscall.EIO); err != nil || len(p.gone) != 0 || !errors.Is(p.problems["d"], syscall.EIO) {
			t.Errorf("a folder that can't be listed: %v, gone %v, problems %v", err, p.gone, p.problems)
		}
		r.looked([]string{"d"}, false, p)
		if s := r.Status(); len(s.Problems) != 1 || s.Problems[0].Path != "d" || !strings.Contains(r.log.String(), "path=d") {
			t.Errorf("problems: %v, log %s", s.Problems, r.log)
		}
		if err := p.unlisted("", syscall.EIO); !errors.Is(err, ErrFolder) {
			t.Errorf("the folder itself can't be listed: %v", err)
		}
		if os.Geteuid() == 0 {
			return
		}
		r.must(os.Chmod(r.at("d"), 0))
		r.must(os.Chmod(r.at("a"), 0))
		defer os.Chmod(r.at("d"), 0o755) //nolint:errcheck // for the cleanup
		r.want("unreadable", r.scan())
		r.want("resources", r.published(), "a", "d/e", "d/f")
	})
}

// A disk that is not mounted must not look like deletions.
func TestSafetyStop(t *testing.T) {
	later(t, func(t *testing.T) {
		var files []string
		for i := range 30 {
			files = append(files, fmt.Sprintf("d/%02d", i))
		}
		r := newRig(t, FolderOptions{}, append(files, "x", "y")...)
		r.scan()
		r.must(os.Rename(r.dir, r.dir+".away"))
		if err := r.Scan(t.Context()); !errors.Is(err, ErrFolder) {
			t.Errorf("without the folder: %v", err)
		}
		r.must(os.Mkdir(r.dir, 0o755))
		r.want("empty", r.scan())
		r.write("new", "new")
		r.want("changes go on", r.scan(), "created new")
		if s := r.Status(); s.Held != 32 || strings.Count(r.log.String(), "level=ERROR") != 1 {
			t.Errorf("held: %d, log %s", s.Held, r.log)
		}
		r.restart(nil)
		r.want("after a restart", r.scan())
		r.remove("")
		r.must(os.Rename(r.dir+".away", r.dir))
		r.want("back", r.scan(), "deleted new")
		if s := r.Status(); s.Held != 0 {
			t.Errorf("held still: %d", s.Held)
		}
		r.remove("d")
		r.want("most is deleted", r.scan())
		r.AcceptDeletions()
		if got := r.scan(); len(got) != 30 {
			t.Errorf("accepted: %q", got)
		}
		for _, path := range files {
			r.write(path, path)
		}
		r.scan()
		r.restart(func(o *FolderOptions) { o.MaxDeleted = 1 })
		r.remove("d")
		if got := r.scan(); len(got) != 30 {
			t.Errorf("all may go: %q", got)
		}
	})
}

// What a file in a folder's place has displaced is deleted already, and counts neither as
// gone nor as a resource.
func TestSafetyStopCountsNoDisplaced(t *testing.T) {
	later(t, func(t *testing.T) {
		write := func(r *rig, folder string, n int) {
			for i := range n {
				r.write(fmt.Sprintf("%s/%02d", folder, i), folder)
			}
		}
		r := newRig(t, FolderOptions{}, "x")
		write(r, "d", 30)
		write(r, "e", 12)
		r.scan()
		r.remove("d")
		r.write("d", "a file now")
		if got := r.scan(); len(got) != 31 {
			t.Errorf("a folder became a file: %q", got)
		}
		if s := r.Status(); s.Held != 0 || strings.Contains(r.log.String(), "deletions_held") {
			t.Errorf("held: %d, log %s", s.Held, r.log)
		}
		r.remove("d")
		write(r, "d", 30)
		r.scan()
		r.restart(func(o *FolderOptions) { o.MaxDeleted = 1 })
		r.remove("d")
		r.write("d", "a file again")
		r.remove("e")
		r.scan()
		r.want("all may go", r.published(), "d", "x")
	})
}

// SRC-09: changes made while nothing ran are found at start, and only what changed is
// read.
func TestRestartHashesOnlyWhatChanged(t *testing.T) {
	later(t, func(t *testing.T) {
		var last Progress
		o := FolderOptions{Workers: 1, Progress: func(p Progress) { last = p }}
		r := newRig(t, o, "a", "b", "c/d", "c/e")
		r.scan()
		if !last.Done || last.Files != 4 || last.Found != 4 || last.Bytes != 8 {
			t.Errorf("first scan: %+v", last)
		}
		r.restart(nil)
		r.want("nothing changed", r.scan())
		if last.Files != 0 || last.Found != 4 {
			t.Errorf("restart: %+v", last)
		}
		info, err := os.Stat(r.at("a"))
		r.must(err)
		r.write("a", "B") // as long as before, and as old by mtime
		r.must(os.Chtimes(r.at("a"), time.Time{}, info.ModTime()))
		r.write("c/f", "new")
		r.remove("b")
		r.restart(nil)
		time.Sleep(24 * time.Hour)
		r.want("while down", r.scan(), "updated a", "created c/f", "deleted b")
		if last.Files != 2 {
			t.Errorf("restart: %+v", last)
		}
		<-r.Ready()
	})
}

// A crash in the middle of the first scan: the rest is no change.
func TestFirstScanThatWasCutShort(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{}, "a", "b", "c")
		// What the first life got to.
		one := &record{Resource: Resource{Path: "a", Length: 1, MediaType: "text/plain"}}
		gone := &record{Resource: Resource{Path: "gone"}}
		if n, err := r.x.apply(time.Now(), []step{{key: "a", now: one}, {key: "gone", now: gone}}); n != 0 || err != nil {
			t.Errorf("%d changes logged: %v", n, err)
		}
		r.restart(nil)
		select {
		case <-r.Ready():
			t.Error("ready in the middle of the first scan")
		default:
		}
		r.want("the rest", r.scan())
		r.want("resources", r.published(), "a", "b", "c")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newRig(t, FolderOptions{}, "x").Scan(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cut short: %v", err)
		}
	})
}

// The clocks disagree: the files are of the future. They have to be seen unchanged.
func TestFileIsLeftToSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{Patience: time.Hour}, "a", "b")
		begun := time.Now()
		r.want("first scan", r.scan())
		if d := time.Since(begun); d < DefaultSettle || d > 2*DefaultSettle {
			t.Errorf("the first scan took %v", d)
		}
		r.want("resources", r.published(), "a", "b")
		go func() {
			for i := range 5 {
				r.write("a", strings.Repeat("x", i+2))
				time.Sleep(DefaultSettle / 2)
			}
		}()
		time.Sleep(time.Millisecond)
		r.want("one change", r.scan(), "updated a")
		if len(r.published()) != 2 {
			t.Error("not settled")
		}
		res, _, err := r.x.Get("a")
		r.must(err)
		if res.Length != 6 {
			t.Errorf("half-written, %d bytes", res.Length)
		}
	})
}

// A file that is always written to is reported, and published when that ends.
func TestFileThatNeverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{}, "a", "log")
		ctx, stop := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r.write("log", strings.Repeat("line\n", i))
				time.Sleep(time.Second)
			}
		})
		time.Sleep(time.Millisecond)
		r.want("first scan", r.scan())
		r.want("resources", r.published(), "a")
		r.must(r.Scan(t.Context()))
		if s := r.Status(); !slices.Equal(s.Slow, []string{"log"}) || strings.Count(r.log.String(), "all the time") != 1 {
			t.Errorf("slow: %q, log %s", s.Slow, r.log)
		}
		stop()
		writer.Wait()
		r.want("at last", r.scan(), "created log")
		if s := r.Status(); len(s.Slow) != 0 {
			t.Errorf("slow still: %q", s.Slow)
		}
	})
}

func TestExclude(t *testing.T) {
	later(t, func(t *testing.T) {
		r := newRig(t, FolderOptions{})
		for _, path := range []string{"a", "state/index.db", ".hidden", ".git/config", "x/state/y", "note~"} {
			r.write(path, path)
		}
		r.restart(func(o *FolderOptions) { o.Exclude = []string{r.at("state"), t.TempDir()} })
		r.scan()
		r.want("resources", r.published(), "a", "x/state/y")
		r.restart(func(o *FolderOptions) { o.Ignore = []string{".git/"}; o.Hidden = true; o.MaxURL = 9 })
		r.write("x/toolonganame", "")
		r.want("new rules", slices.Sorted(slices.Values(r.scan())), "created .hidden", "created note~")
		if s := r.Status(); len(s.Problems) != 1 || s.Problems[0].Path != "x/toolonganame" {
			t.Errorf("problems: %v", s.Problems)
		}
		r.restart(func(o *FolderOptions) { o.MaxURL = 8 })
		r.want("shorter URLs", r.scan(), "deleted x/state/y")
		r.want("and no more", r.scan())
	})
}

func TestNewFolderErrors(t *testing.T) {
	x, err := OpenIndex(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close() //nolint:errcheck // of a test
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]FolderOptions{
		"no name": {}, "missing": {Dir: dir + "/none"}, "a file": {Dir: file}, "state": {Dir: dir, Exclude: []string{dir}}, "pattern": {Dir: dir, Ignore: []string{"a[b"}},
	} {
		if _, err := NewFolder(x, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// DOC-55
func TestHash_DOC55(t *testing.T) {
	r := Resource{SHA256: sha256.Sum256(nil), MD5: md5.Sum(nil)}
	d := resourcesync.ParseHashes(r.Hash())
	if d.String() != r.Hash() || len(d.Algorithms()) != 2 {
		t.Errorf("%s is read as %s", r.Hash(), d)
	}
}
