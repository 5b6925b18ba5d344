package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Build scans the folders once and writes the documents that are due, instead of
// Run. Where Schedule.ChangeList, ResourceList or Dump is negative there are none
// of these.
func (s *Source) Build(ctx context.Context) error {
	for _, x := range s.sets {
		if err := x.folder.Scan(ctx); err != nil {
			return err
		}
		steps := []struct {
			wanted bool
			do     work
		}{
			{x.schedule.ChangeList > 0, x.buildChangeLists},
			{x.schedule.ResourceList > 0, x.buildResourceList},
			{true, x.buildDumps},
			{x.schedule.ChangeList > 0, x.buildChangeLists}, // of what the dumps left out
		}
		for _, step := range steps {
			if !step.wanted {
				continue
			}
			if _, err := step.do(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// exported is the file in which Export remembers what it wrote.
const exported = ".rspub-export.json"

// Export writes the documents as files for any web server to serve at the public
// URL, each where its URL leads, with compressed twins (.gz) beside those of XML.
// The resources are not among them: they are below data/ of each set.
//
// A document appears when all that it names is there. What an earlier Export wrote
// and this one has not is removed by the next, so that who is reading can finish.
func (s *Source) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	old, err := readExported(dir)
	if err != nil {
		return err
	}
	var paths []string
	for _, x := range append(slices.Clone(s.sets), &set{shelf: s.site}) {
		below := strings.TrimPrefix(x.base, s.o.PublicURL)
		c := x.shelf.current()
		for _, path := range inOrder(c) {
			d := c.Documents[path]
			to := filepath.Join(dir, filepath.FromSlash(below+path))
			if err := place(filepath.Join(x.shelf.dir, d.File), to); err != nil {
				return err
			}
			paths = append(paths, below+path)
			if !d.Packed {
				continue
			}
			if err := place(filepath.Join(x.shelf.dir, d.File+packedSuffix), to+packedSuffix); err != nil {
				return err
			}
			paths = append(paths, below+path+packedSuffix)
		}
	}
	now := export{Paths: paths}
	for _, p := range old.Paths {
		if !slices.Contains(paths, p) {
			now.Before = append(now.Before, p)
		}
	}
	for _, p := range old.Before {
		if slices.Contains(paths, p) || slices.Contains(now.Before, p) || !filepath.IsLocal(filepath.FromSlash(p)) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(p))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a document that nothing names any more: %w", err)
		}
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, exported), text)
}

// export is what an Export wrote, and what there is of the one before.
type export struct {
	Paths  []string `json:"paths"`
	Before []string `json:"before,omitempty"`
}

func readExported(dir string) (e export, err error) {
	text, err := os.ReadFile(filepath.Join(dir, exported)) //nolint:gosec // the folder that the caller names
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return e, fmt.Errorf("%s can't be read: %w; remove it, and older documents stay where they are", filepath.Join(dir, exported), err)
	}
	return e, nil
}

// inOrder returns the paths of what is named so that each document comes after
// those that it names: packages and parts, what lists them, the archives, the
// Capability List.
func inOrder(c *catalogue) []string {
	rank := func(path string) int {
		switch {
		case path == capabilityListPath:
			return 4
		case slices.Contains([]string{resourceListArchivePath, resourceDumpArchivePath, changeListArchivePath, changeDumpArchivePath}, path):
			return 3
		case slices.ContainsFunc(capabilityPaths, func(p struct{ capability, path string }) bool { return p.path == path }):
			return 2
		case strings.HasPrefix(path, "archive/") && strings.Count(path, "-") == 1: // the whole, and no part
			return 1
		}
		return 0
	}
	paths := c.paths()
	slices.SortStableFunc(paths, func(a, b string) int { return rank(a) - rank(b) })
	return paths
}

// place puts a file of a shelf where a web server finds it: whole or not at all,
// and readable for everybody. It is the same file where the file system can do
// that, which is never written again.
func place(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	temp := to + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, temp); err != nil {
		if err := copyFile(from, temp); err != nil {
			return fmt.Errorf("writing %s: %w", to, err)
		}
	}
	if err := os.Chmod(temp, 0o644); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	return os.Rename(temp, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from) //nolint:gosec // a file of the shelf
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
