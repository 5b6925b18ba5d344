package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	pubsource "github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/ports"
)

// A copy is published in its turn, twice: Source, copy, Source over the copy, copy of that, and a
// Source over it. At each quiet point the second copy has the bytes of the first and of the folder,
// over what is created, updated and deleted, and nothing of the state of the first (SRC-17). Both
// aggregators link each resource to the first Source, with its time there, and to nothing in
// between (LNK-08); an update of the first Source passes through. A file that rssub did not bring
// has no such link.
func TestCopyIsPublished_SRC17_LNK08(t *testing.T) {
	t.Parallel()
	folder, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	var urls []string
	for _, dir := range []string{folder, first, second} {
		addr := ports.Addr()
		urls = append(urls, "http://"+addr+"/")
		newProcess(t, "rspub of "+filepath.Base(dir), command("rspub"), "serve", "--dir", dir, "--listen", addr, "--public-url", "http://"+addr+"/", local,
			"--state-dir", t.TempDir(), "--settle", "50ms", "--list-every", "1s", "--dump-every", "off", "--archive-every", "off",
			"--max-deleted", "1", "--log-format", "json").start()
	}
	listed := func(i int, own bool) error { // by the aggregator i
		files, err := filesOf(folder)
		if err != nil {
			return err
		}
		want := map[string]string{}
		for p, modified := range files {
			want[urls[i]+"data/"+pubsource.EscapePath(p)] = urls[0] + "data/" + pubsource.EscapePath(p) + " of " + resourcesync.FormatDatetime(modified)
		}
		if own {
			want[urls[i]+"data/own.txt"] = ""
		}
		got, err := viasOf(urls[i] + "resourcelist.xml")
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("%s lists %v, and not %v", urls[i], got, want)
		}
		return err
	}
	syncs := func() error {
		for i, dir := range []string{first, second} {
			if code, out := run(t, command("rssub"), "sync", urls[i], "--dir", dir, "--map", urls[i]+"data/=.", local, "--max-delete", "1000"); code != 0 {
				return fmt.Errorf("rssub sync of %s ended with %d:\n%s", urls[i], code, out)
			}
		}
		return errors.Join(sameTrees(folder, first), sameTrees(first, second), listed(1, false), listed(2, false))
	}
	old := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, step := range []func() error{
		func() error {
			return errors.Join(os.MkdirAll(filepath.Join(folder, "sub"), 0o750), os.WriteFile(filepath.Join(folder, "a.txt"), []byte("1"), 0o600),
				os.Chtimes(filepath.Join(folder, "a.txt"), old, old),
				os.WriteFile(filepath.Join(folder, "sub", "b ü.txt"), []byte("2"), 0o600), os.WriteFile(filepath.Join(folder, "c.txt"), []byte("3"), 0o600))
		},
		func() error { return os.WriteFile(filepath.Join(folder, "a.txt"), []byte("updated"), 0o600) },
		func() error {
			return errors.Join(os.Remove(filepath.Join(folder, "c.txt")), os.WriteFile(filepath.Join(folder, "sub", "d"), []byte("new"), 0o600))
		},
		func() error { return os.RemoveAll(filepath.Join(folder, "sub")) },
	} {
		must(t, step())
		eventually(t, 2*time.Minute, syncs)
	}
	must(t, os.WriteFile(filepath.Join(first, "own.txt"), []byte("of the aggregator"), 0o600))
	eventually(t, time.Minute, func() error { return listed(1, true) })
	for _, at := range urls[1:] {
		if code, out := run(t, binary, "validate", "--strict", "--follow", "--dev", at+".well-known/resourcesync"); code != 0 {
			t.Errorf("rshub validate of %s ended with %d:\n%s", at, code, out)
		}
	}
}

// filesOf returns the files of a folder with their times, as lists have them.
func filesOf(dir string) (map[string]time.Time, error) {
	files := map[string]time.Time{}
	err := walk(dir, func(p string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err == nil {
			files[p] = info.ModTime().UTC().Truncate(time.Millisecond)
		}
		return err
	})
	return files, err
}

// viasOf returns the origin of each resource of a list; empty: it has none.
func viasOf(list string) (map[string]string, error) {
	resp, err := http.Get(list) //nolint:noctx // of a test on this machine
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := resourcesync.NewReader(resp.Body, resourcesync.ReadOptions{Strict: true})
	vias := map[string]string{}
	for e, err := range r.Entries() {
		if err != nil {
			return nil, err
		}
		vias[e.Loc] = ""
		for _, l := range e.Links {
			if l.Rel == "via" {
				vias[e.Loc] += l.Href + " of " + resourcesync.FormatDatetime(l.Modified.Truncate(time.Millisecond))
			}
		}
	}
	return vias, nil
}
