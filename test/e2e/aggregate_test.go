package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// A copy is published in its turn: Source, copy, Source over the copy, copy of that. At
// each quiet point the second copy has the bytes of the first and of the folder, over
// what is created, updated and deleted, and nothing of the state of the first (SRC-17).
func TestCopyIsPublished_SRC17(t *testing.T) {
	t.Parallel()
	folder, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	var urls []string
	for _, dir := range []string{folder, first} {
		addr := ports.Addr()
		urls = append(urls, "http://"+addr+"/")
		newProcess(t, "rspub of "+filepath.Base(dir), command("rspub"), "serve", "--dir", dir, "--listen", addr, "--public-url", "http://"+addr+"/", local,
			"--state-dir", t.TempDir(), "--settle", "50ms", "--list-every", "1s", "--dump-every", "off", "--archive-every", "off",
			"--max-deleted", "1", "--log-format", "json").start()
	}
	syncs := func() error {
		for i, dir := range []string{first, second} {
			if code, out := run(t, command("rssub"), "sync", urls[i], "--dir", dir, "--map", urls[i]+"data/=.", local, "--max-delete", "1000"); code != 0 {
				return fmt.Errorf("rssub sync of %s ended with %d:\n%s", urls[i], code, out)
			}
		}
		return errors.Join(sameTrees(folder, first), sameTrees(first, second))
	}
	for _, step := range []func() error{
		func() error {
			return errors.Join(os.MkdirAll(filepath.Join(folder, "sub"), 0o750), os.WriteFile(filepath.Join(folder, "a.txt"), []byte("1"), 0o600),
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
}
