package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// exportFile is a file that an Export writes.
type exportFile struct {
	path string // below the folder of the Export, with slashes
	from string // the file of the shelf
	// extra says that nothing depends on it: what is there already may stay instead.
	extra bool
}

// export is an Export that is under way.
type export struct {
	*Source
	dir    string
	before exported // what earlier ones wrote
	files  []exportFile
	paths  []string // those of files
}

// Export writes the documents as files for any web server to serve at the public
// URL, each where its URL leads, with compressed twins (.gz) beside those of XML.
// The resources are not among them: they are below data/ of each set. The folder may
// be one that is published, or lie within one: a Folder knows what an Export wrote.
//
// A document appears when all that it names is there. What an earlier Export wrote
// and this one has not is removed by the next, so that who is reading can finish, and
// so is what is left of one that was killed. An index.html or robots.txt of somebody
// else stays. In a folder that is published every other file stays, too, and the error
// names the first that is in the way of a document.
func (s *Source) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	x := &export{Source: s, dir: dir}
	var err error
	if x.before, err = readExported(dir); err != nil {
		return err
	}
	if err := x.collect(); err != nil {
		return err
	}
	stray, err := x.sweep()
	if err != nil {
		return err
	}
	// First of all that these files are documents: a Folder may be watching, and this
	// process be killed before it is done.
	both := append(slices.Clone(x.paths), append(x.before.Paths, stray...)...)
	slices.Sort(both)
	both = slices.Compact(both)
	if err := x.record(exported{Paths: both, Before: x.before.Before}); err != nil {
		return err
	}
	for _, f := range x.files {
		if err := place(f.from, x.at(f.path)); err != nil {
			return err
		}
	}
	now := exported{Paths: x.paths, Before: without(both, x.paths)}
	for _, p := range without(without(x.before.Before, x.paths), now.Before) {
		if err := os.Remove(x.at(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a document that nothing names any more: %w", err)
		}
	}
	return x.record(now)
}

// without returns what of all is not among those.
func without(all, those []string) []string {
	has := make(map[string]bool, len(those))
	for _, p := range those {
		has[p] = true
	}
	var rest []string
	for _, p := range all {
		if !has[p] {
			rest = append(rest, p)
			has[p] = true
		}
	}
	return rest
}

// at is where a path of the Export is.
func (x *export) at(path string) string { return filepath.Join(x.dir, filepath.FromSlash(path)) }

// collect finds what there is to write, in the order in which it may appear.
func (x *export) collect() error {
	known := make(map[string]bool)
	for _, p := range append(slices.Clone(x.before.Paths), x.before.Before...) {
		known[p] = true
	}
	for _, set := range append(slices.Clone(x.sets), &set{shelf: x.site}) {
		below := strings.TrimPrefix(set.composer.base, x.o.PublicURL)
		c := set.shelf.current()
		for _, at := range inOrder(c) {
			d := c.Documents[at]
			f := exportFile{path: below + at, from: filepath.Join(set.shelf.dir, d.File), extra: set.shelf == x.site && at != descriptionPath}
			ok, err := x.free(&f, known)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			x.files = append(x.files, f)
			if d.Packed {
				f.path, f.from = f.path+packedSuffix, f.from+packedSuffix
				x.files = append(x.files, f)
			}
		}
	}
	for _, f := range x.files {
		x.paths = append(x.paths, f.path)
	}
	return nil
}

// free reports whether a document may be written where it belongs: not over a file of
// somebody else, if that may be a resource or the document can be done without.
func (x *export) free(f *exportFile, known map[string]bool) (bool, error) {
	at := x.at(f.path)
	if _, err := os.Lstat(at); known[f.path] || errors.Is(err, fs.ErrNotExist) || sameFile(at, f.from) {
		return true, nil
	}
	if f.extra {
		return false, nil
	}
	for _, s := range x.o.Sets {
		if dir := s.Folder.Dir; liesIn(dir, x.dir) && liesIn(filepath.Dir(at), dir) && !x.wrote(f.path, at) {
			return false, fmt.Errorf("%s is a file of the folder to publish, and a document would take its place: move it away, or write the documents to another folder", at)
		}
	}
	return true, nil
}

// liesIn reports whether a folder is another one or lies in it.
func liesIn(folder, other string) bool {
	folder, other = realPath(folder), realPath(other)
	rel, err := filepath.Rel(other, folder)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// realPath is an absolute path without links, as far as it leads to something that is
// there: the rest is going to be made by its own name.
func realPath(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	for there, rest := abs, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		if real, err := filepath.EvalSymlinks(there); err == nil {
			return filepath.Join(real, rest)
		}
		if there == filepath.Dir(there) {
			return abs
		}
	}
}

// record notes what the Export wrote: of all at the top, and of each set beside its
// documents as well, since the folder that is published may be that one.
func (x *export) record(e exported) error {
	for _, s := range x.sets {
		if s.name == "" {
			continue
		}
		own := exported{Paths: inFolder(e.Paths, s.name), Before: inFolder(e.Before, s.name)}
		if err := x.recordIn(s.name, own); err != nil {
			return err
		}
	}
	return x.recordIn("", e)
}

func (x *export) recordIn(below string, e exported) error {
	dir := x.at(below)
	for _, s := range x.o.Sets {
		e.Shared = e.Shared || liesIn(s.Folder.Dir, dir)
	}
	return e.write(dir)
}

// inFolder returns those of the paths that are in a folder, as they are seen from there.
func inFolder(paths []string, folder string) []string {
	var in []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, folder+"/"); ok {
			in = append(in, rest)
		}
	}
	return in
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
		case path == changeListIndexPath:
			return 2
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
	if sameFile(from, to) {
		return nil // to rename one name of a file to another does nothing, and both stay
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	temp := filepath.Join(filepath.Dir(to), exportTemp+"-"+filepath.Base(to))
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

// sameFile reports whether two names are those of one file.
func sameFile(a, b string) bool {
	one, err := os.Lstat(a)
	if err != nil {
		return false
	}
	other, err := os.Lstat(b)
	return err == nil && os.SameFile(one, other)
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
