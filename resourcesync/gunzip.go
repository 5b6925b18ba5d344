package resourcesync

import (
	"compress/gzip"
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
	return n, gunzipError(err)
}

func gunzipError(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // gzip returns it as it is
		return err
	}
	return fmt.Errorf("decompressing gzip: %w", err)
}

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
