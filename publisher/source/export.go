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

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// exportFile is a file that an Export publishes.
type exportFile struct {
	path string // below the folder of the Export, with slashes
	from string // the file of the shelf
	// extra says that nothing depends on it: a file that is there already may stay instead.
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

// Export writes the documents as files that any web server can serve at the public URL. Each
// has the path of its URL, and those of XML have compressed twins (.gz) beside them. It writes
// no resources: the web server has to serve them below data/ of each set. The folder may be one
// that is published, or lie within one: a Folder knows what an Export wrote.
//
// A document appears after everything that it names. If this Export does not write what an
// earlier one wrote, the next one removes it, so that clients that are reading it can finish.
// Export also removes what a killed one left. An index.html or robots.txt that no Export wrote
// stays. In a folder that is published, every other file stays, too, and the error names the
// first one that is in the place of a document.
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
	// The record comes first: a Folder that watches has to know that these files are
	// documents, even if this process is killed before it is done.
	both := append(slices.Clone(x.paths), append(x.before.Paths, stray...)...)
	slices.Sort(both)
	both = slices.Compact(both)
	if err := x.record(exported{Paths: both, Before: x.before.Before}); err != nil {
		return err
	}
	for _, f := range x.files {
		if err := putFile(f.from, x.at(f.path)); err != nil {
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

// without returns what is in all and not in those, each once.
func without(all, those []string) []string {
	has := pathSet(those)
	var rest []string
	for _, p := range all {
		if !has[p] {
			rest = append(rest, p)
			has[p] = true
		}
	}
	return rest
}

// pathSet returns a map that is true for each of the paths.
func pathSet(paths ...[]string) map[string]bool {
	in := make(map[string]bool)
	for _, p := range slices.Concat(paths...) {
		in[p] = true
	}
	return in
}

// at returns the name of the file at a path of the Export.
func (x *export) at(path string) string { return filepath.Join(x.dir, filepath.FromSlash(path)) }

// collect finds what has to be written, in the order in which it may appear.
func (x *export) collect() error {
	known := pathSet(x.before.Paths, x.before.Before)
	for _, set := range append(slices.Clone(x.sets), &set{shelf: x.site}) {
		below := strings.TrimPrefix(set.composer.base, x.o.PublicURL)
		c := set.shelf.current()
		for _, at := range inOrder(c) {
			d := c.Documents[at]
			f := exportFile{path: below + at, from: filepath.Join(set.shelf.dir, d.File), extra: set.shelf == x.site && at != descriptionPath}
			ok, err := x.isFree(&f, known)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			x.add(f)
			if d.Packed {
				x.add(exportFile{path: f.path + packedSuffix, from: f.from + packedSuffix})
			}
		}
	}
	return nil
}

func (x *export) add(f exportFile) {
	x.files, x.paths = append(x.files, f), append(x.paths, f.path)
}

// isFree reports whether a document may be written at its path. If a file is there that no
// Export wrote, it returns false for a document that is extra, and an error if the file may be
// a resource.
func (x *export) isFree(f *exportFile, known map[string]bool) (bool, error) {
	at := x.at(f.path)
	if _, err := os.Lstat(at); known[f.path] || errors.Is(err, fs.ErrNotExist) || sameFile(os.Lstat, at, f.from) {
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

// liesIn reports whether a folder is the other one or lies in it.
func liesIn(folder, other string) bool {
	folder, other = realPath(folder), realPath(other)
	rel, err := filepath.Rel(other, folder)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// realPath returns an absolute path without links. What does not exist yet keeps its name.
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

// record stores what the Export wrote: everything in the top folder, and the documents of each
// set beside them as well, since that folder may be one that is published.
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

// inFolder returns the paths that are in a folder, relative to it.
func inFolder(paths []string, folder string) []string {
	var in []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, folder+"/"); ok {
			in = append(in, rest)
		}
	}
	return in
}

// inOrder returns the paths of the documents. Each document comes after those that it names:
// packages and parts, then what lists them, the archives, and the Capability List.
func inOrder(c *register) []string {
	rank := func(path string) int {
		switch {
		case path == capabilityListPath:
			return 4
		case isListed(path) && strings.HasSuffix(path, "-archive.xml"):
			return 3
		case isListed(path), path == changeListIndexPath:
			return 2
		case strings.HasPrefix(path, "archive/") && strings.Count(path, "-") == 1: // the whole, not a part
			return 1
		}
		return 0
	}
	paths := c.paths()
	slices.SortStableFunc(paths, func(a, b string) int { return rank(a) - rank(b) })
	return paths
}

// putFile puts a file of a shelf where a web server finds it: whole or not at all, and readable
// for everybody. If the file system can do that, it is a second name of the same file, which is
// never written again.
func putFile(from, to string) error {
	if sameFile(os.Lstat, from, to) {
		return nil // rename does nothing with two names of one file, and both would stay
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	temp := filepath.Join(filepath.Dir(to), exportTemp+"-"+filepath.Base(to))
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Link(from, temp) != nil {
		return copyFile(from, to)
	}
	return errors.Join(os.Chmod(temp, 0o644), os.Rename(temp, to)) //nolint:gosec // for a web server to read
}

func copyFile(from, to string) error {
	in, err := os.Open(from) //nolint:gosec // a file of the shelf
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	readable := atomicfile.Options{Temp: exportTemp + "-*", Prepare: func(f *os.File) error { return f.Chmod(0o644) }}
	return atomicfile.Write(to, readable, func(out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	})
}
