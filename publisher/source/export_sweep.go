package source

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// oldTemp ends the names of temporary files of Exports of earlier versions. They left such a
// file beside every document. Other files may have such a name, too.
const oldTemp = ".new"

// numbered matches the names of documents that have the number of an edition.
var numbered = regexp.MustCompile(`^(resourcelist|resourcedump|changelist|changedump)(-[0-9]+){1,3}\.(xml|xml\.gz|zip)$`)

// sweep removes what killed Exports and those of earlier versions left, and returns the
// documents that no record names. It leaves alone every file that may not be of an Export.
func (x *export) sweep() (stray []string, err error) {
	known := pathSet(x.paths, x.before.Paths, x.before.Before)
	folders := make(map[string]bool)
	for p := range known {
		folders[path.Dir(p)] = true
	}
	shelves := make(map[string]string)
	for _, f := range x.files {
		shelves[f.path] = f.from
	}
	for folder := range folders {
		entries, err := os.ReadDir(x.at(folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			at := path.Join(folder, e.Name())
			of, temp := strings.CutSuffix(at, oldTemp)
			switch {
			case !e.Type().IsRegular() || e.Name() == exportRecord:
				continue
			case strings.HasPrefix(e.Name(), exportTemp):
			case temp && (sameFile(os.Lstat, x.at(at), x.at(of)) || begins(x.at(at), shelves[of]) || x.wrote(of, x.at(at))):
			case !temp && !known[at] && x.wrote(at, x.at(at)):
				stray = append(stray, at)
				continue
			default:
				continue
			}
			if err := os.Remove(x.at(at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return stray, nil
}

// begins reports whether a file is the same as another, or has the first of its bytes, as a
// file that was being copied.
func begins(name, of string) bool {
	if of == "" || sameFile(os.Lstat, name, of) {
		return of != ""
	}
	a, copied, err := openFile(name)
	if err != nil {
		return false
	}
	defer a.Close() //nolint:errcheck // it was only read
	b, size, err := openFile(of)
	if err != nil {
		return false
	}
	defer b.Close() //nolint:errcheck // it was only read
	if copied == 0 || copied >= size {
		return false // a whole copy may belong to the user
	}
	part, whole := make([]byte, writeBuffer), make([]byte, writeBuffer)
	for {
		n, err := io.ReadFull(a, part)
		if _, failed := io.ReadFull(b, whole[:n]); failed != nil || !bytes.Equal(part[:n], whole[:n]) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// wrote reports whether a file is a document of this Source that has a number, by the path where
// it is or was going to be, and by its content.
func (x *export) wrote(at, name string) bool {
	if !numbered.MatchString(path.Base(at)) {
		return false
	}
	f, size, err := openFile(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	var h resourcesync.Head
	if strings.HasSuffix(at, ".zip") {
		r, err := resourcesync.NewDumpReader(f, size, resourcesync.DumpReadOptions{})
		if err != nil {
			return false
		}
		h = r.Head()
	} else if h, err = resourcesync.NewReader(f, resourcesync.ReadOptions{Gzip: strings.HasSuffix(at, packedSuffix)}).Head(); err != nil {
		return false
	}
	kind, _, _ := strings.Cut(path.Base(at), "-")
	up, _ := h.Link("up")
	return strings.HasPrefix(h.Capability, kind) && slices.ContainsFunc(x.sets, func(s *set) bool {
		return up.Href == s.composer.url(capabilityListPath) && liesIn(filepath.Dir(name), x.at(s.name))
	})
}
