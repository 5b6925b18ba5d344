package examine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/rshub/rshub/resourcesync"
)

// dump fetches the newest package of a dump that is not too large, and compares it
// with its entry and with its own manifest.
func (x *examination) dump(ctx context.Context, d *document) {
	if x.o.MaxPackage < 0 {
		return
	}
	for i := len(d.listed) - 1; i >= 0; i-- {
		e := &d.listed[i]
		if e.HasLength && e.Length > x.o.MaxPackage {
			continue
		}
		if !x.opened[e.Loc] { // the archive has it, too
			x.opened[e.Loc] = true
			x.parcel(ctx, d, e)
		}
		return
	}
	if len(d.listed) > 0 {
		x.about("dump", d.url).warn("", "all of its packages are larger than %d MiB, so none was looked at", x.o.MaxPackage>>20)
	}
}

func (x *examination) parcel(ctx context.Context, d *document, e *resourcesync.Entry) {
	s := x.about("dump", e.Loc)
	a, err := x.get(ctx, http.MethodGet, e.Loc)
	if err != nil {
		s.fail("", "the package can't be had: %v", err)
		return
	}
	defer a.close()
	if a.status != http.StatusOK {
		s.fail("", "the package can't be had: the server answers %s", a.text())
		return
	}
	body, err := io.ReadAll(io.LimitReader(a.body, x.o.MaxPackage+1))
	if err != nil {
		s.fail("", "the package broke off: %v", err)
		return
	}
	want := resourcesync.ParseHashes(e.Hash)
	h := resourcesync.NewHasher(want.Algorithms()...)
	_, _ = h.Write(body) // it never fails
	switch {
	case int64(len(body)) > x.o.MaxPackage:
		s.warn("", "the package is larger than %d MiB and was not looked at", x.o.MaxPackage>>20)
		return
	case e.HasLength && e.Length != h.Length():
		s.fail("DOC-56", "the package has %d bytes, and %s says %d", h.Length(), d.url, e.Length)
		return
	case want.Compare(h.Digests()) == resourcesync.Different:
		s.fail("DOC-55", "the hashes of the package are %v, and %s says %v", h.Digests(), d.url, want)
		return
	}
	n, err := x.unpack(s, body)
	if err != nil {
		x.broken(s, err)
		return
	}
	s.pass("", "the package is whole: %s, each as its manifest says", count(n, "bitstream", "bitstreams"))
}

// unpack reads all of a package.
func (x *examination) unpack(s subject, body []byte) (n int, err error) {
	r, err := resourcesync.NewDumpReader(bytes.NewReader(body), int64(len(body)), resourcesync.DumpReadOptions{})
	if err != nil {
		return 0, err
	}
	for e, err := range r.Entries() {
		if err != nil {
			return n, err
		}
		b, err := r.Open(e)
		if errors.Is(err, resourcesync.ErrNoBitstream) {
			continue
		}
		if err != nil {
			return n, err
		}
		_, err = io.Copy(io.Discard, b)
		_ = b.Close() // only read
		if err != nil {
			return n, err
		}
		n++
	}
	if extra := r.Extra(); len(extra) > 0 {
		s.warn("DOC-38", "%s in the package that its manifest does not name, such as %s", count(len(extra), "file is", "files are"), extra[0])
	}
	return n, nil
}
