package resourcesync

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// DumpReadOptions configures a DumpReader. The zero value is good.
type DumpReadOptions struct {
	Limits DumpLimits
	// Strict refuses a manifest that is not as version 1.1 has it, as in
	// ReadOptions.
	Strict bool
	// AnyLoc is that of ReadOptions.
	AnyLoc bool
}

// DumpReader reads a package of a Resource Dump or Change Dump: a ZIP file with a
// manifest (DOC-36, 38, 41, 43) and the bitstreams that the manifest names. It keeps no
// bitstream in memory, and of the manifest only the paths.
//
// A package is not trusted. Before anything is unpacked, its names and declared sizes are
// checked: no path out of the package, no links or devices, no name twice, nothing over
// DumpLimits. Nothing is unpacked beyond the declared size, and each bitstream is
// compared with the length and hashes in the manifest. An error of a package is an *Error
// of the kind BadPackage or OverLimit, and an error of its manifest is one of the kinds
// that Reader has. Other errors are those of the underlying reader.
//
// It is for one goroutine, except that several may call Open and OpenLink while that one
// goes over the entries. Each bitstream is for one goroutine.
type DumpReader struct {
	parcel   *parcel
	manifest io.ReadCloser
	reader   *Reader
	head     Head
	named    map[string]bool // the names in the package that the manifest has named
	missing  []string
}

// NewDumpReader opens a package of size bytes and reads the head of its
// manifest. The package is read as long as the DumpReader is used.
func NewDumpReader(r io.ReaderAt, size int64, o DumpReadOptions) (*DumpReader, error) {
	o.Limits = o.Limits.withDefaults()
	p, err := openParcel(r, size, o.Limits)
	if err != nil {
		return nil, err
	}
	f := p.files[manifestName]
	if f == nil {
		return nil, badPackage("DOC-38", "the package has no %s at its top, which lists its content", manifestName)
	}
	d := &DumpReader{parcel: p, named: map[string]bool{manifestName: true}}
	if d.manifest, err = d.parcel.open(f); err != nil {
		return nil, err
	}
	d.reader = NewReader(d.manifest, ReadOptions{Limits: o.Limits.Manifest, Strict: o.Strict, AnyLoc: o.AnyLoc})
	d.head, err = d.reader.Head()
	if err == nil && d.head.Capability != ResourceDumpManifest && d.head.Capability != ChangeDumpManifest {
		err = badAt("DOC-38", d.head.Line, d.head.Column, "the capability of %s is %s; a manifest has %q or %q",
			manifestName, quote(d.head.Capability), ResourceDumpManifest, ChangeDumpManifest)
	}
	if err != nil {
		_ = d.manifest.Close() // only read
		return nil, err
	}
	return d, nil
}

// Head returns the head of the manifest. Its capability is ResourceDumpManifest or
// ChangeDumpManifest.
func (d *DumpReader) Head() Head { return d.head }

// Tolerated returns what was tolerated in the manifest, as Reader.Tolerated does.
func (d *DumpReader) Tolerated() []Toleration { return d.reader.Tolerated() }

// TolerationCount returns how many things were tolerated in the manifest.
func (d *DumpReader) TolerationCount() int { return d.reader.TolerationCount() }

// Entries returns the entries of the manifest, in its order and once. An error ends them.
// A missing file is no such error: Open returns one, and Missing lists it when all
// entries have been read.
func (d *DumpReader) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		defer func() { _ = d.manifest.Close() }() // only read
		for e, err := range d.reader.Entries() {
			if err == nil {
				d.name(e.Path)
				for _, l := range e.Links {
					d.name(l.Path)
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (d *DumpReader) name(path string) {
	name := strings.TrimPrefix(path, "/")
	if path == "" || d.named[name] {
		return
	}
	d.named[name] = true
	if d.parcel.files[name] == nil {
		d.missing = append(d.missing, path)
	}
}

// Missing returns the paths of the entries read so far that the package lacks.
func (d *DumpReader) Missing() []string { return d.missing }

// Extra returns the names of files in the package that no entry read so far has named.
// After the last entry that means that no entry names them.
func (d *DumpReader) Extra() []string {
	var extra []string
	for _, name := range d.parcel.names {
		if !d.named[name] {
			extra = append(extra, name)
		}
	}
	return extra
}

// Open opens the bitstream of an entry. Its last Read returns io.EOF only if length,
// hashes and the package's own checksum are right, else an *Error. Do not rely on the
// content before that. Hashes of unknown algorithms are ignored (DOC-55). For an entry
// without a path the error is ErrNoBitstream, and for a path that the package lacks an
// *Error.
func (d *DumpReader) Open(e Entry) (io.ReadCloser, error) {
	return d.open(e.Path, e.HasLength, e.Length, e.Hash)
}

// OpenLink opens the bitstream of a link, which is a patch (DOC-43), as Open
// does that of an entry.
func (d *DumpReader) OpenLink(l Link) (io.ReadCloser, error) {
	return d.open(l.Path, l.HasLength, l.Length, l.Hash)
}

func (d *DumpReader) open(path string, hasLength bool, length int64, hash string) (io.ReadCloser, error) {
	if path == "" {
		return nil, ErrNoBitstream
	}
	f := d.parcel.files[strings.TrimPrefix(path, "/")]
	switch {
	case f == nil:
		return nil, badPackage(d.rule(), "the package has no file %s, which its manifest names", quote(path))
	case hasLength && length != clamped(f.UncompressedSize64):
		return nil, badPackage("DOC-56", "%s has %d bytes in the package; its manifest says %d", quote(path), f.UncompressedSize64, length)
	}
	r, err := d.parcel.open(f)
	if err != nil {
		return nil, err
	}
	want := ParseHashes(hash)
	return &bitstream{file: r, path: path, want: want, hasher: NewHasher(want.Algorithms()...)}, nil
}

// rule is the rule of the manifest as a whole.
func (d *DumpReader) rule() string {
	if d.head.Capability == ChangeDumpManifest {
		return "DOC-43"
	}
	return "DOC-38"
}

// bitstream verifies a bitstream while it is read.
type bitstream struct {
	file   io.ReadCloser
	path   string
	want   Digests
	hasher *Hasher
}

func (b *bitstream) Read(p []byte) (int, error) {
	n, err := b.file.Read(p)
	_, _ = b.hasher.Write(p[:n]) // it never fails
	if errors.Is(err, io.EOF) && b.want.Compare(b.hasher.Digests()) == Different {
		err = badPackage("DOC-55", "%s is not what its manifest says: its hashes are %v and not %v", quote(b.path), b.hasher.Digests(), b.want)
	}
	return n, err
}

func (b *bitstream) Close() error { return b.file.Close() }

// open opens a file of a package.
func (p *parcel) open(f *zip.File) (io.ReadCloser, error) {
	r, err := f.Open()
	if err != nil {
		return nil, p.damage(f.Name, err)
	}
	return &damaged{r, p, f.Name}, nil
}

// damaged turns the errors of archive/zip into those of this package.
type damaged struct {
	io.ReadCloser
	parcel *parcel
	name   string
}

func (d *damaged) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.parcel.damage(d.name, err)
	}
	return n, err
}

// damage distinguishes an error of reading the package from damage of the package itself.
func (p *parcel) damage(name string, err error) error {
	if broken := p.source.err.Load(); broken != nil {
		return fmt.Errorf("reading %s in the package: %w", quote(name), *broken)
	}
	return badPackage("DOC-36", "%s in the package is damaged: %v", quote(name), err)
}
