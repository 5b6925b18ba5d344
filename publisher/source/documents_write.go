package source

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

const (
	xmlType = "application/xml"
	zipType = "application/zip"

	packedSuffix = ".gz"
	// writeBuffer is how much of a document is gathered for one write, in bytes.
	writeBuffer = 256 << 10
)

// draft is a document that is being written. It ends with Close or, where it is
// not going to be complete, with CloseWithError.
type draft struct {
	shelf  *shelf
	doc    document
	file   *os.File
	packed *os.File // nil where the document has no compressed twin
	buf    *bufio.Writer
	zip    *gzip.Writer
	hasher *resourcesync.Hasher
	out    io.Writer
	done   func(document)
	closed bool
}

// draft begins a document that is to be served at a path; done gets it when it is
// complete and on disk. Documents of XML are compressed besides.
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
			_ = d.CloseWithError(err) // it is returned
			return nil, err
		}
		// The fastest: a list of a million resources is written often.
		d.zip, _ = gzip.NewWriterLevel(d.packed, gzip.BestSpeed) // it knows this level
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

// Close ends the document, makes it durable and hands it over.
func (d *draft) Close() error {
	if d.closed {
		return nil
	}
	err := d.buf.Flush()
	if d.zip != nil {
		err = errors.Join(err, d.zip.Close(), d.packed.Sync())
	}
	if err = errors.Join(err, d.file.Sync()); err != nil {
		_ = d.CloseWithError(err) // it is returned
		return fmt.Errorf("writing a document: %w", err)
	}
	d.closed = true
	if err := d.closeFiles(); err != nil {
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

// CloseWithError gives the document up and removes what there is of it.
func (d *draft) CloseWithError(error) error {
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.closeFiles()
	d.shelf.remove(&d.doc)
	return err
}

func (d *draft) closeFiles() error {
	err := d.file.Close()
	if d.packed != nil {
		err = errors.Join(err, d.packed.Close())
	}
	return err
}

// edition is a group of documents that are to appear together. Those that were
// written are removed again by discard, unless they were taken.
type edition struct {
	shelf     *shelf
	number    uint64 // in the URLs of parts; no other edition has it
	documents []document
}

func (s *shelf) edition() *edition { return &edition{shelf: s, number: s.serial.Add(1)} }

// draft begins a document of the edition.
func (e *edition) draft(at, mediaType string) (*draft, error) {
	return e.shelf.draft(at, mediaType, func(d document) { e.documents = append(e.documents, d) })
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

// write writes a whole document that is never split, such as a Capability List.
func (e *edition) write(at string, h resourcesync.Head, entries []resourcesync.Entry) error {
	return e.compose(at, xmlType, func(out io.Writer) error {
		w, err := resourcesync.NewWriter(out, h, resourcesync.WriteOptions{})
		for i := range entries {
			if err == nil {
				err = w.Write(entries[i])
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	})
}

// discard removes what was written and will not be shown.
func (e *edition) discard() {
	for i := range e.documents {
		e.shelf.remove(&e.documents[i])
	}
	e.documents = nil
}

// show puts the documents of the edition on the shelf, and with them whatever
// change makes of the catalogue. It returns them, number 0 of a list last. After
// an error they are gone.
func (e *edition) show(change func(c *catalogue) error) ([]document, error) {
	err := e.shelf.swap(func(c *catalogue) error {
		if err := change(c); err != nil {
			return err
		}
		c.put(e.documents...) // after change, which may write more of them
		return nil
	})
	if err != nil {
		e.discard()
		return nil, err
	}
	return e.documents, nil
}
