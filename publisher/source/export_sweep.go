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

// oldTemp ends the names under which Exports of earlier versions wrote. They left such
// files beside every document; others may have that name, too.
const oldTemp = ".new"

// numbered are the names of documents that no other edition has.
var numbered = regexp.MustCompile(`^(resourcelist|resourcedump|changelist|changedump)(-[0-9]+){1,3}\.(xml|xml\.gz|zip)$`)

// sweep removes what Exports that were killed left, and those of earlier versions, and
// returns the documents that nothing tells of. Only what is surely of an Export is
// taken for that.
func (x *export) sweep() (stray []string, err error) {
	known := make(map[string]bool)
	for _, p := range slices.Concat(x.paths, x.before.Paths, x.before.Before) {
		known[p] = true
	}
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
			case temp && (sameFile(x.at(at), x.at(of)) || begins(x.at(at), shelves[of]) || x.wrote(of, x.at(at))):
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

// begins reports whether a file is the same as another, or has the first of its bytes,
// as one that was being copied.
func begins(name, of string) bool {
	if of == "" || sameFile(name, of) {
		return of != ""
	}
	a, err := os.Open(name) //nolint:gosec // beside a document
	if err != nil {
		return false
	}
	defer func() { _ = a.Close() }() // only read
	b, err := os.Open(of)            //nolint:gosec // a file of the shelf
	if err != nil {
		return false
	}
	defer func() { _ = b.Close() }() // only read
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	if err != nil || one.Size() == 0 || one.Size() >= other.Size() {
		return false // a whole copy may be somebody's own
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

// wrote reports whether a file, which is or was going to be at a path, is a document of
// this Source that has a number: by its name and by what it says.
func (x *export) wrote(at, name string) bool {
	if !numbered.MatchString(path.Base(at)) {
		return false
	}
	f, err := os.Open(name) //nolint:gosec // in the folder of documents
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return false
	}
	var h resourcesync.Head
	if strings.HasSuffix(at, ".zip") {
		r, err := resourcesync.NewDumpReader(f, info.Size(), resourcesync.DumpReadOptions{})
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
