package source

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rshub/rshub/resourcesync"
)

const (
	xmlType = "application/xml"
	zipType = "application/zip"

	packedSuffix = ".gz"
	// writeBuffer is how many bytes of a document one write has.
	writeBuffer = 256 << 10
)

// draft is a document that is being written. Close completes it, and CloseWithError gives it
// up.
type draft struct {
	shelf  *shelf
	doc    document
	file   *os.File
	packed *os.File // nil if the document has no compressed twin
	buf    *bufio.Writer
	zip    *gzip.Writer
	zipped *bufio.Writer // between zip and packed: a gzip.Writer writes a few bytes at a time
	hasher *resourcesync.Hasher
	out    io.Writer
	done   func(document)
	closed bool
}

// draft begins a document that will be served at a path. When it is complete and on disk, it
// is passed to done. Documents of XML get a compressed twin.
func (s *shelf) draft(at, mediaType string, done func(document)) (*draft, error) {
	d := &draft{
		shelf: s, done: done, hasher: resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256),
		doc: document{Path: at, Type: mediaType, Packed: mediaType == xmlType, File: fmt.Sprintf("%d-%s", s.serial.Add(1), path.Base(at))},
	}
	name := filepath.Join(s.dir, d.doc.File)
	var err error
	if d.file, err = create(name); err != nil {
		return nil, err
	}
	d.buf = bufio.NewWriterSize(d.file, writeBuffer)
	d.out = io.MultiWriter(d.buf, d.hasher)
	if d.doc.Packed {
		if d.packed, err = create(name + packedSuffix); err != nil {
			_ = d.CloseWithError(err) // the first error says more
			return nil, err
		}
		// A list of a million resources is written often: so the fastest level, of a library that
		// takes a third of the time of the standard one for no more bytes.
		d.zipped = bufio.NewWriterSize(d.packed, writeBuffer)
		d.zip, _ = gzip.NewWriterLevel(d.zipped, gzip.BestSpeed) // fails only for an unknown level
		d.out = io.MultiWriter(d.buf, d.hasher, d.zip)
	}
	return d, nil
}

func create(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in the Source's own folder
	if err != nil {
		return nil, fmt.Errorf("beginning a document: %w", err)
	}
	return f, nil
}

// Write appends to the document.
func (d *draft) Write(p []byte) (int, error) { return d.out.Write(p) }

// Close makes the document durable and passes it to done. After an error nothing is left of
// it.
func (d *draft) Close() error {
	if d.closed {
		return nil
	}
	err := d.buf.Flush()
	if d.zip != nil {
		err = errors.Join(err, d.zip.Close(), d.zipped.Flush(), d.packed.Sync())
	}
	err = errors.Join(err, d.file.Sync(), d.closeFiles())
	if err != nil {
		d.shelf.remove(&d.doc)
		return fmt.Errorf("writing a document: %w", err)
	}
	sums := d.hasher.Digests()
	d.doc.Length = d.hasher.Length()
	d.doc.SHA256 = hex.EncodeToString(sums.Sum(resourcesync.SHA256))
	d.doc.MD5 = hex.EncodeToString(sums.Sum(resourcesync.MD5))
	d.doc.Modified = time.Now().UTC()
	d.done(d.doc)
	return nil
}

// CloseWithError removes what was written of the document.
func (d *draft) CloseWithError(error) error {
	if d.closed {
		return nil
	}
	err := d.closeFiles()
	d.shelf.remove(&d.doc)
	return err
}

func (d *draft) closeFiles() error {
	d.closed = true
	err := d.file.Close()
	if d.packed != nil {
		err = errors.Join(err, d.packed.Close())
	}
	return err
}

// edition is a group of documents that appear together. Discard removes them, unless they
// were shown.
type edition struct {
	shelf     *shelf
	number    uint64 // in the URLs of parts; no other edition has it
	mu        sync.Mutex
	documents []document // with mu while documents are written
}

func (s *shelf) edition() *edition { return &edition{shelf: s, number: s.serial.Add(1)} }

// draft begins a document of the edition.
func (e *edition) draft(at, mediaType string) (*draft, error) {
	return e.shelf.draft(at, mediaType, func(d document) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.documents = append(e.documents, d)
	})
}

// last is the document that was completed last.
func (e *edition) last() *document { return &e.documents[len(e.documents)-1] }

// dropLast removes the document that was completed last.
func (e *edition) dropLast() {
	e.shelf.remove(e.last())
	e.documents = e.documents[:len(e.documents)-1]
}

// compose writes a document of the edition with fill. After an error nothing is left of it.
func (e *edition) compose(at, mediaType string, fill func(w io.Writer) error) error {
	d, err := e.draft(at, mediaType)
	if err != nil {
		return err
	}
	if err := fill(d); err != nil {
		_ = d.CloseWithError(err) // it is returned
		return fmt.Errorf("writing %s: %w", at, err)
	}
	return d.Close()
}

// write writes a document that is never split, such as a Capability List. It has at most
// maxBytes; zero: as many as the protocol allows.
func (e *edition) write(at string, h resourcesync.Head, maxBytes int64, entries iter.Seq2[resourcesync.Entry, error]) error {
	return e.compose(at, xmlType, func(out io.Writer) error {
		w, err := resourcesync.NewWriter(out, h, resourcesync.WriteOptions{MaxBytes: maxBytes})
		if err != nil {
			return err
		}
		return writeAll(w, entries)
	})
}

// writeAll writes entries and closes the writer, unless there is an error.
func writeAll(w interface {
	Write(e resourcesync.Entry) error
	Close() error
}, entries iter.Seq2[resourcesync.Entry, error],
) error {
	for entry, err := range entries {
		if err == nil {
			err = w.Write(entry)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// each yields the elements of a slice, without an error.
func each[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// discard removes the documents that were not shown.
func (e *edition) discard() {
	for i := range e.documents {
		e.shelf.remove(&e.documents[i])
	}
	e.documents = nil
}

// show puts the documents of the edition on the shelf, and stores what change makes of the
// register. It returns the documents; number 0 of a list is the last. After an error they
// are gone.
func (e *edition) show(change func(c *register) error) ([]document, error) {
	defer e.discard() // nothing, if they are shown
	err := e.shelf.swap(func(c *register) error {
		if err := change(c); err != nil {
			return err
		}
		c.put(e.documents...) // after change, which may write more of them
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown := e.documents
	e.documents = nil
	return shown, nil
}
