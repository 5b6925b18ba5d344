package resourcesync

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// gzipSlack is by how much a compressed document may be longer than Limits.Bytes allows
// the document itself to be, as content that cannot be compressed grows a little.
const gzipSlack = 64 << 10

// gunzip decompresses gzip. It begins with the first Read, so that NewReader reads
// nothing. The window bounds its output. It bounds its input itself, since any number of
// empty parts decompress to nothing.
type gunzip struct {
	packed io.Reader
	left   int64 // how much more of it may be read
	z      *gzip.Reader
	begun  bool
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(countdown{g})
		if err != nil {
			return 0, gunzipError(err)
		}
		g.z = z
	}
	n, err := g.z.Read(p)
	if !g.begun && n > 0 {
		if g.begun = true; p[0] == 0x1f { // no XML begins like that
			return 0, &Error{Kind: NotWellFormed, Rule: "XML", Msg: "the document is compressed more than once; send it as it is, or as gzip"}
		}
	}
	return n, gunzipError(err)
}

func gunzipError(err error) error {
	switch {
	case err == nil, err == io.EOF: //nolint:errorlint // gzip returns it as it is
		return err
	case err == io.ErrUnexpectedEOF: //nolint:errorlint // gzip returns it as it is; that of a connection says more
		return &cutGzipError{err}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("the gzip data is damaged, or something else follows it (%w)", err)
	}
	return fmt.Errorf("decompressing gzip: %w", err)
}

// cutGzipError is an io.ErrUnexpectedEOF in words.
type cutGzipError struct{ err error }

func (e *cutGzipError) Error() string {
	return "the gzip data ends early: the file was cut off, or something else follows the data"
}
func (e *cutGzipError) Unwrap() error { return e.err }

// countdown is the compressed document, as far as the limit.
type countdown struct{ *gunzip }

func (c countdown) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, &Error{Kind: OverLimit, Rule: "DOC-60", Msg: "the compressed document is longer than the limit for documents"}
	}
	n, err := c.packed.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
