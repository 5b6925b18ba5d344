package examine

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// input is a document before it is read.
type input struct {
	name string
	at   io.ReaderAt
	size int64
	// requested and final are the URL before and after redirects, and header what it
	// came with.
	requested, final string
	header           http.Header
	gzip             bool // by its name or by HTTP
	cut              bool // there is more of it than was read
}

var (
	magicZIP  = []byte("PK\x03\x04")
	emptyZIP  = []byte("PK\x05\x06")
	magicGzip = []byte("\x1f\x8b")
)

func (in input) beginsWith(magic []byte) bool { return has(in.at, 0, magic) }

// has reports whether a file has some bytes at an offset.
func has(at io.ReaderAt, offset int64, magic []byte) bool {
	is := make([]byte, len(magic))
	_, err := at.ReadAt(is, offset)
	return err == nil && bytes.Equal(is, magic)
}

// notReadable are formats that no reader of documents knows, each with what its files have at an offset.
var notReadable = []struct {
	offset int64
	magic  string
	name   string
}{
	{257, "ustar", "a tar archive"},
	{0, "BZh", "compressed with bzip2"},
	{0, "\xfd7zXZ\x00", "compressed with xz"},
	{0, "\x28\xb5\x2f\xfd", "compressed with zstd"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive"},
	{0, "Rar!", "a RAR archive"},
}

// isPackage reports whether this is a ZIP file.
func (in input) isPackage() bool { return in.beginsWith(magicZIP) || in.beginsWith(emptyZIP) }

// mediaOf is the media type without parameters.
func mediaOf(h http.Header) string {
	m, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // empty if it cannot be parsed
	return m
}

// isXML reports whether HTTP says that this is XML other than a web page.
func (in input) isXML() bool {
	m := mediaOf(in.header)
	return m == "application/xml" || m == "text/xml" || strings.HasSuffix(m, "+xml") && m != "application/xhtml+xml"
}

// body is a document as it is read, from its beginning as often as needed.
type body struct {
	at   io.ReaderAt
	size int64
}

func (b body) reader() io.Reader { return io.NewSectionReader(b.at, 0, b.size) }

// document returns the document to be parsed: at most one byte more than the limit, so
// that the reader sees that it is too long. A document that should be compressed and is
// not, for example because a server decompressed it, is read as it is.
func (in input) document() (body, error) {
	most := resourcesync.DefaultLimits.Bytes + 1
	packed, b, also := in.beginsWith(magicGzip), body{in.at, min(in.size, most)}, ""
	var err error
	if packed {
		b, err = in.decompressed(most)
		also = ", compressed with gzip"
	}
	for _, no := range notReadable {
		if has(b.at, no.offset, []byte(no.magic)) {
			return b, fmt.Errorf("it is %s%s; extract it, and validate the documents in it one by one. A package of a dump has to be a ZIP file", no.name, also)
		}
	}
	if coded := web.CheckCoding(in.header); coded != nil {
		err = coded
	}
	if packed && !in.gzip {
		err = errors.New("it is compressed with gzip, and neither its name, by .gz, nor HTTP says so; readers will not decompress it")
	}
	return b, err
}

// decompressed returns at most most bytes of what gzip has compressed. After an error it has those before it.
func (in input) decompressed(most int64) (body, error) {
	z, err := gzip.NewReader(io.NewSectionReader(in.at, 0, in.size))
	if err != nil {
		return body{at: bytes.NewReader(nil)}, fmt.Errorf("not gzip, though its name or HTTP says so: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		err = fmt.Errorf("not gzip from end to end: %w", err)
	}
	return body{bytes.NewReader(b), int64(len(b))}, err
}

// open opens a file, a URL or standard input. Call the returned function after reading.
func (x *examination) open(ctx context.Context, name string) (input, func(), error) {
	nothing := func() {}
	switch {
	case name == "-":
		in, err := readWhole(name, x.o.Stdin, resourcesync.DefaultLimits.Bytes)
		if err != nil {
			err = fmt.Errorf("reading %s: %w", name, err)
		}
		return in, nothing, err
	case isURL(name):
		in, err := x.fetch(ctx, name, resourcesync.DefaultLimits.Bytes)
		return in, nothing, err
	}
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return input{}, nothing, failed(ErrNotFound, "there is no file %s; name an existing file, an http or https URL, or - for standard input", name)
	}
	if err != nil {
		return input{}, nothing, err
	}
	closing := func() { _ = f.Close() } // only read
	in := input{name: name, at: f}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	} else if in, err = readWhole(name, f, resourcesync.DefaultLimits.Bytes); err != nil {
		closing()
		return input{}, nothing, fmt.Errorf("reading %s: %w", name, err)
	}
	in.gzip = isGzipName(name)
	return in, closing, nil
}

// readWhole reads at most most bytes, and one more to see whether there are more.
func readWhole(name string, r io.Reader, most int64) (input, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	size := int64(len(b))
	return input{name: name, at: bytes.NewReader(b), size: size, cut: size > most}, err
}

func isGzipName(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".gz") }

// fetch reads at most most bytes of the content of a URL.
func (x *examination) fetch(ctx context.Context, name string, most int64) (input, error) {
	a, err := x.get(ctx, http.MethodGet, name)
	if err != nil {
		return input{}, err
	}
	defer a.close()
	if err := a.refusal(name); err != nil {
		return input{}, err
	}
	in, err := readWhole(name, a.body, most)
	if err != nil {
		return in, failed(ErrUnreachable, "%s broke off: %w", name, err)
	}
	in.requested, in.final, in.header = name, a.url, a.header
	media, encoding := mediaOf(a.header), strings.ToLower(strings.TrimSpace(a.header.Get("Content-Encoding")))
	in.gzip = encoding == "gzip" || encoding == "x-gzip" || media == "application/gzip" || media == "application/x-gzip"
	for _, raw := range []string{name, a.url} {
		u, err := url.Parse(raw)
		in.gzip = in.gzip || err == nil && isGzipName(u.Path)
	}
	return in, nil
}

// isURL distinguishes a URL from the name of a file.
func isURL(name string) bool {
	scheme, _, found := strings.Cut(name, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
