package resourcesync

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// DumpWriteOptions say how a package is written. The zero value is good for most.
type DumpWriteOptions struct {
	// Algorithms are those of the hashes that a DumpWriter adds to entries without one.
	// Nil stands for MD5 and SHA256, which most readers expect (DOC-55).
	Algorithms []Algorithm
	// Store writes bitstreams as they are instead of deflating them, for content that is
	// compressed already.
	Store bool
	// MaxEntries and MaxBytes bound the manifest, as in WriteOptions.
	MaxEntries int
	MaxBytes   int64
}

// DumpWriter writes a package of a Resource Dump or Change Dump (DOC-36, 38, 41, 43): a
// ZIP file of bitstreams, and the manifest.xml that describes them. It writes bitstreams
// as it reads them. Its memory grows with the directory of the ZIP file and the
// compressed manifest, by some hundred bytes for each entry.
//
// The same entries, bitstreams and options make the same bytes: files come in
// the order of the entries and the manifest last; the time of a file is the
// entry's LastMod, or else its Datetime or the head's At or From.
//
// It is for one goroutine.
type DumpWriter struct {
	out      counter
	zip      *zip.Writer
	manifest *Writer
	packed   bytes.Buffer // the manifest, deflated
	deflate  *flate.Writer
	options  DumpWriteOptions
	made     time.Time // the head's
	paths    map[string]bool
	buf      []byte // for copying
	err      error  // sticky
	closed   bool
}

// NewDumpWriter begins a package on w. The head is that of the manifest, with the
// capability ResourceDumpManifest or ChangeDumpManifest. The error is an *Error if the
// head breaks a rule.
func NewDumpWriter(w io.Writer, h Head, o DumpWriteOptions) (*DumpWriter, error) {
	if h.Capability != ResourceDumpManifest && h.Capability != ChangeDumpManifest {
		return nil, &Error{Kind: BadDocument, Rule: "DOC-38", Msg: fmt.Sprintf("the capability is %s; the manifest of a package has %q or %q",
			quote(h.Capability), ResourceDumpManifest, ChangeDumpManifest)}
	}
	if o.Algorithms == nil {
		o.Algorithms = []Algorithm{MD5, SHA256}
	}
	d := &DumpWriter{out: counter{w: w}, options: o, made: h.At, paths: map[string]bool{manifestName: true}, buf: make([]byte, 32<<10)}
	if d.made.IsZero() {
		d.made = h.From
	}
	d.deflate, _ = flate.NewWriter(&d.packed, flate.DefaultCompression) // it knows this level
	var err error
	if d.manifest, err = NewWriter(d.deflate, h, WriteOptions{MaxEntries: o.MaxEntries, MaxBytes: o.MaxBytes}); err != nil {
		return nil, err
	}
	d.zip = zip.NewWriter(&d.out)
	return d, nil
}

// Write adds an entry and its bitstreams: first that of e.Path, then one for each of
// e.Links that has a Path, in their order; none for an entry without paths, such as a
// deletion. Each is read to its end.
//
// Length and Hash are filled in if the entry or the link has none, and compared if it
// has. For an entry that breaks a rule (Writer.Write), or whose path is in use or not safe,
// the error is an *Error, and if the manifest has no room, ErrFull. After these, and if
// there are too few or too many bitstreams, the package is as it was. All other errors
// leave it unusable, also that of a bitstream that differs: an *Error of the kind
// BadPackage.
func (d *DumpWriter) Write(e Entry, bitstreams ...io.Reader) error {
	switch {
	case d.closed:
		return errClosed
	case d.err != nil:
		return d.err
	}
	e.Links = append([]Link(nil), e.Links...) // they are filled in
	files := d.filesOf(&e)
	if len(files) != len(bitstreams) {
		return fmt.Errorf("the entry %s has %d paths, but %d bitstreams were given", quote(e.Loc), len(files), len(bitstreams))
	}
	if err := d.admit(e, files); err != nil {
		return err
	}
	for i, f := range files {
		d.paths[f.name()] = true
		if d.err = d.add(f, d.timeOf(&e), bitstreams[i]); d.err != nil { //nolint:gosec // there are as many
			return d.err
		}
	}
	d.err = d.manifest.Write(e)
	return d.err
}

// dumpFile is a bitstream as an entry or a link has it.
type dumpFile struct {
	path      string
	length    *int64
	hasLength *bool
	hash      *string
}

func (f dumpFile) name() string { return strings.TrimPrefix(f.path, "/") }

// filesOf returns the files of an entry, whose lengths and hashes are filled in later.
func (d *DumpWriter) filesOf(e *Entry) []dumpFile {
	var files []dumpFile
	if e.Path != "" {
		files = append(files, dumpFile{e.Path, &e.Length, &e.HasLength, &e.Hash})
	}
	for i := range e.Links {
		if l := &e.Links[i]; l.Path != "" {
			files = append(files, dumpFile{l.Path, &l.Length, &l.HasLength, &l.Hash})
		}
	}
	return files
}

// admit refuses an entry whose errors can be found before a bitstream is written.
func (d *DumpWriter) admit(e Entry, files []dumpFile) error {
	seen := make(map[string]bool)
	for _, f := range files {
		bad := func(format string, args ...any) error {
			return &Error{Kind: BadDocument, Rule: "DOC-57", Msg: fmt.Sprintf("the path %s ", quote(f.path)) + fmt.Sprintf(format, args...)}
		}
		switch fault := nameFault(f.name()); {
		case !strings.HasPrefix(f.path, "/"):
			return bad("does not begin with a slash")
		case fault != "":
			return bad("leads to a file whose name %s", fault)
		case d.paths[f.name()] || seen[f.name()]:
			return bad("is that of another file of the package")
		}
		seen[f.name()] = true
	}
	// Try it with the largest values that can be filled in.
	e.Links = append([]Link(nil), e.Links...)
	for _, f := range d.filesOf(&e) {
		if *f.hash == "" {
			*f.hash = NewHasher(d.options.Algorithms...).Digests().String()
		}
		if !*f.hasLength {
			*f.hasLength, *f.length = true, math.MaxInt64
		}
	}
	return d.manifest.wouldWrite(&e)
}

// wouldWrite returns the error that Write would, and writes nothing.
func (d *Writer) wouldWrite(e *Entry) error {
	c := d.composer
	before := c.now()
	if err := c.entry(e); err != nil {
		return err
	}
	size := int64(len(c.buf) - before.size)
	c.undo(before)
	if d.room == 0 || size > d.left {
		return ErrFull
	}
	return nil
}

// timeOf is the time of an entry's files.
func (d *DumpWriter) timeOf(e *Entry) time.Time {
	for _, t := range []time.Time{e.LastMod, e.Datetime, d.made} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// add writes a file and fills in its length and hash.
func (d *DumpWriter) add(f dumpFile, modified time.Time, from io.Reader) error {
	header := headerOf(f.name(), modified)
	if d.options.Store {
		header.Method = zip.Store
	}
	to, err := d.zip.CreateHeader(header)
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	stated := ParseHashes(*f.hash)
	hasher := NewHasher(append(stated.Algorithms(), d.options.Algorithms...)...)
	if _, err := io.CopyBuffer(io.MultiWriter(to, hasher), from, d.buf); err != nil {
		return fmt.Errorf("writing %s into the package: %w", quote(f.path), err)
	}
	found := hasher.Digests()
	switch {
	case *f.hasLength && *f.length != hasher.Length():
		return badPackage("DOC-56", "the bitstream of %s has %d bytes; its entry says %d", quote(f.path), hasher.Length(), *f.length)
	case stated.Compare(found) == Different:
		return badPackage("DOC-55", "the bitstream of %s is not what its entry says: its hashes are %v and not %v", quote(f.path), found, stated)
	}
	*f.hasLength, *f.length = true, hasher.Length()
	if *f.hash == "" {
		*f.hash = found.String()
	}
	return nil
}

// headerOf omits a time that a ZIP file cannot store.
func headerOf(name string, modified time.Time) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	if modified = modified.UTC(); modified.Year() >= 1980 && modified.Year() < 2107 {
		h.Modified = modified
	}
	return h
}

// Size returns how many bytes of the package have been written to the underlying
// writer so far: when it is time for another package.
func (d *DumpWriter) Size() int64 { return d.out.n }

// Close writes the manifest and ends the package. It does not close the underlying
// writer. A package is complete only after a Close without an error. A second Close does
// nothing and returns the same again.
func (d *DumpWriter) Close() error {
	if d.closed || d.err != nil {
		return d.err
	}
	d.closed = true
	d.err = d.end()
	return d.err
}

func (d *DumpWriter) end() error {
	err := d.manifest.Close()
	if err == nil {
		err = d.deflate.Close()
	}
	if err != nil {
		return err
	}
	to, err := d.zip.CreateHeader(headerOf(manifestName, d.made))
	if err == nil {
		_, err = io.Copy(to, flate.NewReader(&d.packed))
	}
	if err == nil {
		err = d.zip.Close()
	}
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	return nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
