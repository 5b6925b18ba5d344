package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
)

// document is a served document: a file on disk, and the path and type that it is served
// with.
type document struct {
	// Path is its path within its set: "resourcelist.xml".
	Path string `json:"path"`
	// File is its name in the folder of the shelf. If Packed, it has a compressed twin,
	// whose name ends with ".gz".
	File   string `json:"file"`
	Packed bool   `json:"packed,omitempty"`
	// Type is the media type. Length, SHA256 and MD5 are those of File; the hashes are in
	// hexadecimal digits.
	Type   string `json:"type"`
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"`
	MD5    string `json:"md5"`
	// Modified is when it was written.
	Modified time.Time `json:"modified"`
	// Dropped is when other documents ceased to name it; zero while they do.
	Dropped time.Time `json:"dropped,omitzero"`
}

// hashes is the attribute hash of an entry about the document (DOC-55).
func (d *document) hashes() string { return "md5:" + d.MD5 + " sha-256:" + d.SHA256 }

// register is everything on a shelf at one moment. Once it is current, it never changes.
type register struct {
	// Serial is higher than any number that a file of an earlier register has.
	Serial    uint64              `json:"serial"`
	Documents map[string]document `json:"documents"` // by path
	History   history             `json:"history"`
}

func (c *register) clone() *register {
	n := *c
	n.Documents = maps.Clone(c.Documents)
	n.History = c.History.clone()
	return &n
}

// has reports whether there is a document at a path that others name.
func (c *register) has(path string) bool {
	d, ok := c.Documents[path]
	return ok && d.Dropped.IsZero()
}

// registerName is the file of the register, which says which of the other files count.
const registerName = "catalogue.json"

// shelf has the documents of one set of resources in a folder. The next register replaces
// the current one, in memory by a pointer and on disk by a rename. So documents that name
// each other appear together, and a process that is killed leaves the old ones or the new
// ones. No file is written twice.
//
// What a newer document no longer names is served for the time of linger, so that a client
// that reads the older one finds it. The shelf may be shared between goroutines.
type shelf struct {
	dir    string
	linger time.Duration
	serial atomic.Uint64
	shown  atomic.Pointer[register]
	mu     sync.Mutex // locked by swap
}

// openShelf opens the shelf in a folder, which it makes if there is none. It removes files
// that the register does not name: a process that was killed left them.
func openShelf(dir string, linger time.Duration) (*shelf, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("the folder for documents: %w", err)
	}
	s := &shelf{dir: dir, linger: linger}
	c := &register{Documents: make(map[string]document)}
	name := filepath.Join(dir, registerName)
	text, err := os.ReadFile(name) //nolint:gosec // the folder is the Source's own
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("reading the register of documents: %w", err)
	default:
		if err := json.Unmarshal(text, c); err != nil {
			return nil, &boltfile.DamagedError{Path: name, Why: err, Advice: "remove " + dir + ", and all documents are built anew"}
		}
	}
	s.serial.Store(c.Serial)
	s.shown.Store(c)
	return s, s.clear(c)
}

// current is the register of what is on the shelf now.
func (s *shelf) current() *register { return s.shown.Load() }

// clear removes the files that c does not name.
func (s *shelf) clear(c *register) error {
	named := map[string]bool{registerName: true}
	for _, d := range c.Documents {
		named[d.File] = true
		named[d.File+packedSuffix] = d.Packed
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("the folder for documents: %w", err)
	}
	for _, f := range files {
		if !named[f.Name()] {
			if err := os.RemoveAll(filepath.Join(s.dir, f.Name())); err != nil {
				return fmt.Errorf("removing what is left of an unfinished document: %w", err)
			}
		}
	}
	return nil
}

// swap makes the next register from the current one with change, and shows it. It removes
// from disk the documents that change removed from c.Documents or replaced there. After an
// error everything is as it was.
func (s *shelf) swap(change func(c *register) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current()
	c := old.clone()
	if err := change(c); err != nil {
		return err
	}
	maps.DeleteFunc(c.Documents, func(_ string, d document) bool { return s.lingered(&d) })
	c.Serial = s.serial.Load()
	if err := s.write(c); err != nil {
		return fmt.Errorf("writing the register of documents: %w", err)
	}
	s.shown.Store(c)
	for path, d := range old.Documents {
		if c.Documents[path].File != d.File {
			s.remove(&d)
		}
	}
	return nil
}

// lingered reports whether a document was dropped long enough ago to be removed.
func (s *shelf) lingered(d *document) bool {
	return !d.Dropped.IsZero() && time.Since(d.Dropped) >= s.linger
}

// sweep removes what was dropped long enough ago.
func (s *shelf) sweep() error {
	for _, d := range s.current().Documents {
		if s.lingered(&d) {
			return s.swap(func(*register) error { return nil })
		}
	}
	return nil
}

func (s *shelf) write(c *register) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	// The files of the documents have to be durable before a register names them.
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.dir, registerName), atomicfile.Options{}, text)
}

// remove deletes the files of a document. If it fails, clear deletes them at the next start.
func (s *shelf) remove(d *document) {
	_ = os.Remove(filepath.Join(s.dir, d.File))
	if d.Packed {
		_ = os.Remove(filepath.Join(s.dir, d.File+packedSuffix))
	}
}

// put shows documents. Each replaces the one at its path.
func (c *register) put(documents ...document) {
	for _, d := range documents {
		c.Documents[d.Path] = d
	}
}

// drop records that documents are no longer named. It skips paths without a document.
func (c *register) drop(paths ...string) {
	for _, p := range paths {
		if d, ok := c.Documents[p]; ok && d.Dropped.IsZero() {
			d.Dropped = time.Now()
			c.Documents[p] = d
		}
	}
}

// paths returns the paths of the documents that are named, in order.
func (c *register) paths() []string {
	var all []string
	for p, d := range c.Documents {
		if d.Dropped.IsZero() {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}
