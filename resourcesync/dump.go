package resourcesync

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync/atomic"
)

// manifestName is the file that lists the content of a package (DOC-38).
const manifestName = "manifest.xml"

// ErrNoBitstream says that an entry of a manifest has no path in the package, as for a
// deleted resource (DOC-43).
var ErrNoBitstream = errors.New("the entry has no bitstream in the package")

// DumpLimits bounds what a DumpReader accepts. A field that is zero or negative has the
// value of DefaultDumpLimits.
type DumpLimits struct {
	// Files is how many files and folders a package may have, manifest included.
	Files int
	// FileBytes is the size of its largest file, and Bytes that of all of them
	// together, in bytes and unpacked.
	FileBytes, Bytes int64
	// Ratio bounds how many times larger the unpacked content may be than the packed one:
	// all of it, and each file of more than a mebibyte.
	Ratio int
	// Manifest bounds the manifest.
	Manifest Limits
}

// DefaultDumpLimits are for packages of two files for each of 50,000 entries.
// Text seldom shrinks to less than a fiftieth, and a ZIP bomb to a thousandth.
var DefaultDumpLimits = DumpLimits{
	Files:     100_001,
	FileBytes: 64 << 30,
	Bytes:     256 << 30,
	Ratio:     200,
}

// maxName is the longest name of a file in a package, in bytes. It bounds the work on
// names, and some systems have no longer ones.
const maxName = 1024

// ratioFrom is the size in bytes up to which files may have any ratio.
const ratioFrom = 1 << 20

func (l DumpLimits) withDefaults() DumpLimits {
	l.Files = cmp.Or(max(l.Files, 0), DefaultDumpLimits.Files)
	l.FileBytes = cmp.Or(max(l.FileBytes, 0), DefaultDumpLimits.FileBytes)
	l.Bytes = cmp.Or(max(l.Bytes, 0), DefaultDumpLimits.Bytes)
	l.Ratio = cmp.Or(max(l.Ratio, 0), DefaultDumpLimits.Ratio)
	return l
}

func badPackage(rule, format string, args ...any) error {
	return &Error{Kind: BadPackage, Rule: rule, Msg: fmt.Sprintf(format, args...)}
}

func overPackage(format string, args ...any) error {
	return &Error{Kind: OverLimit, Rule: "DOC-36", Msg: fmt.Sprintf(format, args...)}
}

// parcel is a ZIP package whose names and declared sizes are safe. Reading a file checks
// that it has the declared size.
type parcel struct {
	source *fence
	files  map[string]*zip.File // by name, folders left out
	names  []string             // in the order of the package
}

// openParcel reads the directory of a package of the given size.
func openParcel(r io.ReaderAt, size int64, l DumpLimits) (*parcel, error) {
	fence := &fence{r: r, left: fenceFixed + int64(l.Files)*fencePerFile}
	z, err := zip.NewReader(fence, size)
	switch {
	case fence.left < 0 || err == nil && len(z.File) > l.Files:
		return nil, overPackage("the package has more than %d files, or a directory that is too large for so many", l.Files)
	case fence.err.Load() != nil:
		return nil, fmt.Errorf("reading the package: %w", *fence.err.Load())
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // names are checked below
		return nil, badPackage("DOC-36", "the package is no ZIP file, or a damaged one: %v", err)
	}
	fence.open = true
	p := &parcel{source: fence, files: make(map[string]*zip.File, len(z.File))}
	folders := make(map[string]bool)
	total := int64(0)
	for _, f := range z.File {
		name, folder := strings.CutSuffix(f.Name, "/")
		if fault := nameFault(name); fault != "" {
			return nil, badPackage("DOC-57", "the package has a file %s, a name that %s", quote(f.Name), fault)
		}
		if err := checkFile(f, folder, l); err != nil {
			return nil, err
		}
		if folder {
			folders[name] = true
			continue
		}
		if p.files[name] != nil {
			return nil, badPackage("DOC-57", "the package has two files named %s", quote(name))
		}
		p.files[name] = f
		p.names = append(p.names, name)
		if total += clamped(f.UncompressedSize64); total > l.Bytes || total < 0 {
			return nil, overPackage("the package has more than %d bytes when it is unpacked", l.Bytes)
		}
	}
	if total > ratioFrom && total/int64(l.Ratio) > size {
		return nil, overPackage("the package of %d bytes has %d when it is unpacked, more than %d times as much", size, total, l.Ratio)
	}
	return p, p.checkFolders(folders)
}

// checkFolders refuses a file that would also have to be a folder.
func (p *parcel) checkFolders(folders map[string]bool) error {
	for _, name := range p.names {
		for i, c := range name {
			if c == '/' && p.files[name[:i]] != nil {
				folders[name[:i]] = true
			}
		}
	}
	for _, name := range p.names {
		if folders[name] {
			return badPackage("DOC-57", "the package has %s both as a file and as a folder", quote(name))
		}
	}
	return nil
}

// nameFault returns why the name of a file in a package is not safe to unpack on any
// system, or is too long (DOC-57). It is empty if the name is good.
func nameFault(name string) string {
	switch {
	case len(name) > maxName:
		return fmt.Sprintf("has more than %d bytes", maxName)
	case strings.HasPrefix(name, "/"):
		return "is absolute; names are relative to the package"
	case strings.ContainsAny(name, "\\\x00"):
		return "has a backslash or NUL in it"
	case len(name) > 1 && name[1] == ':' && name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z':
		return "begins with the letter of a drive"
	case !fs.ValidPath(name) || name == ".":
		return "is no path below the package: it is empty, not UTF-8 or climbs with .., or a part of it is empty or a dot"
	}
	return ""
}

// checkFile checks what the directory says of a file.
func checkFile(f *zip.File, folder bool, l DumpLimits) error {
	name, size, packed := quote(f.Name), clamped(f.UncompressedSize64), clamped(f.CompressedSize64)
	switch mode := f.Mode(); {
	case folder && (mode.Type() != fs.ModeDir || size > 0), !folder && mode.Type() != 0:
		return badPackage("DOC-57", "%s in the package is neither a plain file nor a folder (%v)", name, mode)
	case f.Flags&0x1 != 0:
		return badPackage("DOC-36", "%s in the package is encrypted", name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return badPackage("DOC-36", "%s is packed by method %d; ZIP packages have files stored (0) or deflated (8)", name, f.Method)
	case size > l.FileBytes:
		return overPackage("%s has %d bytes when it is unpacked; the limit is %d", name, size, l.FileBytes)
	case size > ratioFrom && size/int64(l.Ratio) > packed:
		return overPackage("%s has %d bytes when it is unpacked, more than %d times the %d in the package", name, size, l.Ratio, packed)
	}
	return nil
}

// clamped makes n signed. Only a wrong size is larger than that.
func clamped(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// How many bytes of a package may be read as its directory: the search for its end, and
// for each file its record with a name of usual length. With short names more files than
// allowed fit in. Each costs some 300 bytes until they are counted.
const (
	fenceFixed   = 256 << 10
	fencePerFile = 256
)

// fence is a reader that bounds how much of a package is read as its directory, since
// archive/zip trusts the size that the package declares.
type fence struct {
	r    io.ReaderAt
	left int64
	open bool
	err  atomic.Pointer[error] // of r; several goroutines may read
}

func (f *fence) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, zip.ErrFormat // a sum of what the package declares
	}
	if !f.open {
		if f.left -= int64(len(p)); f.left < 0 {
			return 0, io.ErrShortBuffer
		}
	}
	n, err := f.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err.Store(&err)
	}
	return n, err
}
