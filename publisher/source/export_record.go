package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

const (
	// exportRecord is the file in which Export remembers what it wrote.
	exportRecord = ".rspub-export.json"
	// exportTemp begins the name of a file that Export is writing. Of all other names, only
	// that of the record begins with it.
	exportTemp = ".rspub-export"
)

// exported is what Exports wrote to a folder, as paths below it.
type exported struct {
	Paths []string `json:"paths"`
	// Before is what is still there of the Export before.
	Before []string `json:"before,omitempty"`
	// Shared says that there are resources in the folder, too. Otherwise everything in it
	// belongs to the documents.
	Shared bool `json:"shared,omitempty"`
}

func readExported(dir string) (e exported, err error) {
	text, err := os.ReadFile(filepath.Join(dir, exportRecord)) //nolint:gosec // the folder that the caller names
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return e, fmt.Errorf("%s cannot be read: %w; remove it, and older documents stay where they are", filepath.Join(dir, exportRecord), err)
	}
	for _, p := range append(e.Paths, e.Before...) {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			return e, fmt.Errorf("%s names %q, which is not in that folder; remove the record, and older documents stay where they are", filepath.Join(dir, exportRecord), p)
		}
	}
	return e, nil
}

func (e exported) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, exportRecord), atomicfile.Options{}, text)
}

// output is a folder with documents that Export wrote, for a Folder that it lies in.
type output struct {
	folder string // below the Folder; empty for the top
	shared bool
	files  map[string]bool // by path below the Folder
}

// outputs finds outputs, and remembers what it found. It is for one goroutine.
type outputs struct {
	root *os.Root
	seen map[string]seenOutput // by its folder
}

// seenOutput is what was found in a folder.
type seenOutput struct {
	record fs.FileInfo // before it was read; nil: there is none
	found  *output     // nil: none
}

func (o *outputs) in(folder string) *output {
	seen, ok := o.seen[folder]
	if !ok {
		if o.seen == nil {
			o.seen = make(map[string]seenOutput)
		}
		seen.record = o.record(folder)
		seen.found = readOutput(o.root, folder)
		o.seen[folder] = seen
	}
	return seen.found
}

// record returns what the record in a folder is; nil: there is none.
func (o *outputs) record(folder string) fs.FileInfo {
	info, err := o.root.Lstat(join(folder, exportRecord))
	if err != nil {
		return nil
	}
	return info
}

// renew forgets the records about what is at a path, if they have changed. It has to be called after a file was found
// there, or the folder there was listed: Export writes its record before the documents, so they are in the record of that moment.
func (o *outputs) renew(path string) {
	one := func(folder string) {
		seen, ok := o.seen[folder]
		if !ok {
			return
		}
		is, was := o.record(folder), seen.record
		if is == nil && was == nil || is != nil && was != nil && os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) {
			return
		}
		delete(o.seen, folder)
	}
	for folder := range foldersAbove(path) {
		one(folder)
	}
	one(path)
	one("")
}

// readOutput reads the record in a folder; nil: there is none, or it cannot be read.
func readOutput(root *os.Root, folder string) *output {
	name := join(folder, exportRecord)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := root.ReadFile(name)
	var e exported
	if err != nil || json.Unmarshal(text, &e) != nil {
		return nil
	}
	// The top folder always has resources, too.
	found := &output{folder: folder, shared: e.Shared || folder == "", files: make(map[string]bool)}
	for _, p := range append(e.Paths, e.Before...) {
		found.files[join(folder, p)] = true
	}
	return found
}

// have reports whether Export wrote what is at a path, so that it is not a resource.
func (o *outputs) have(path string) bool {
	if strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], exportTemp) {
		return true
	}
	belongs := func(folder string) bool {
		found := o.in(folder)
		return found != nil && (!found.shared || found.files[path])
	}
	for folder := range foldersAbove(path) {
		if belongs(folder) {
			return true
		}
	}
	return belongs("")
}

// whole reports whether a folder has only documents.
func (o *outputs) whole(folder string) bool {
	found := o.in(folder)
	return found != nil && !found.shared
}
