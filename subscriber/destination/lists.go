package destination

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Limits of a list and its parts together.
const (
	maxLists     = 16 << 30 // bytes of all
	maxResources = 50_000_000
)

// lists reads the lists and dumps of the Source.
type lists struct {
	dir     *string                        // of the files while they are read; an audit beside a running copy moves it
	most    int                            // Options.MaxEntries
	large   func(list string, entries int) // logs a large list, once
	web     *hosts
	fetcher *fetcher // of packages
}

// limit returns how large a list of the Source may be.
func (l *lists) limit() subscriber.ListLimit {
	return subscriber.ListLimit{Entries: l.most, Large: l.large}
}

// documents are a list and its parts, on disk, so that they stay the same while they are
// used.
type documents struct {
	capability string // of all documents; a sitemap has none
	most       int    // entries of each; 0: as many as the protocol allows
	large      func(list string, entries int)
	parts      []fetched
	bytes      int64
	// at is the time of the state of the Source that they describe: they contain earlier
	// changes, and no later ones.
	at time.Time
	// etag and modified are the validators of the list, if it has no parts.
	etag, modified string
}

// fetched is one of the documents.
type fetched struct {
	name string // of the file
	url  string // after redirects
	head resourcesync.Head
	at   time.Time // as asOf returns it
	resp *http.Response
}

func (d *documents) remove() {
	for _, p := range d.parts {
		_ = os.Remove(p.name)
	}
}

// errUnchanged says that a list is the same as the last time.
var errUnchanged = errors.New("the list did not change")

// download fetches a list, or an index and its parts, of a capability. With the validators
// of the last time it may return errUnchanged.
func (l *lists) download(ctx context.Context, address, capability string, last setState) (*documents, error) {
	d := &documents{capability: capability, most: l.most, large: l.large}
	header := http.Header{}
	if last.From == address {
		web.IfChanged(header, last.ETag, last.Modified)
	}
	top, err := l.downloadOne(ctx, d, address, header)
	if err != nil {
		return nil, err
	}
	d.at = top.at
	if !top.head.Index {
		d.parts = []fetched{top}
		d.etag, d.modified = web.ValidatorsOf(top.resp)
		return d, nil
	}
	defer func() { _ = os.Remove(top.name) }()
	if err := l.downloadParts(ctx, d, top); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// downloadParts fetches the parts that an index names. If the index states no time, that
// of the earliest part counts for all.
func (l *lists) downloadParts(ctx context.Context, d *documents, index fetched) error {
	addresses, err := d.partsOf(index)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		part, err := l.downloadOne(ctx, d, address, http.Header{})
		if err != nil {
			return err
		}
		d.parts = append(d.parts, part)
		if part.head.Index {
			return fmt.Errorf("%s is an index within the index %s", address, index.url)
		}
		if index.head.At.IsZero() {
			d.at = earlier(d.at, part.at)
		}
	}
	return nil
}

// partsOf returns the addresses that an index names, each once. It reads the index to its
// end before any part is fetched.
func (d *documents) partsOf(index fetched) (addresses []string, err error) {
	had := map[string]bool{}
	err = d.read(index.name, func(r *resourcesync.Reader) error {
		for e, err := range biglist.Entries(r, index.url, d.most, d.large) {
			if err != nil {
				return fmt.Errorf("reading %s: %w", index.url, err)
			}
			address, err := resolve(index.url, e.Loc)
			switch {
			case err != nil:
				return fmt.Errorf("%s names %q: %w", index.url, e.Loc, err)
			case address == index.url:
				return fmt.Errorf("%s is an index that names itself", index.url)
			case !had[address]:
				had[address] = true
				addresses = append(addresses, address)
			}
		}
		return nil
	})
	return addresses, err
}

// downloadOne fetches one document into a file.
func (l *lists) downloadOne(ctx context.Context, d *documents, address string, header http.Header) (fetched, error) {
	header.Set("Accept", "application/xml, text/xml;q=0.9, */*;q=0.1")
	began := time.Now()
	return patiently(ctx, func() (fetched, error) {
		resp, err := l.web.ask(ctx, address, header)
		if err != nil {
			return fetched{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode == http.StatusNotModified && len(header) > 1 {
			return fetched{}, &refusedError{errUnchanged}
		}
		if resp.StatusCode != http.StatusOK {
			return fetched{}, &subscriber.StatusError{URL: address, Status: resp.StatusCode}
		}
		if err := web.CheckCoding(resp.Header); err != nil {
			return fetched{}, &refusedError{fmt.Errorf("reading %s: %w", address, err)}
		}
		got := fetched{url: resp.Request.URL.String(), resp: resp}
		if got.name, err = l.toFile(d, resp); err == nil {
			got.head, err = d.headOf(got.name)
		}
		if err != nil {
			_ = os.Remove(got.name)
			return fetched{}, fmt.Errorf("reading %s: %w", address, err)
		}
		got.at = asOf(&got, began)
		return got, nil
	})
}

// toFile writes the document of a response to a file.
func (l *lists) toFile(d *documents, resp *http.Response) (name string, err error) {
	f, err := os.CreateTemp(*l.dir, "list-*.xml")
	if err != nil {
		return "", err
	}
	most := biglist.Sent(d.most)
	n, err := io.Copy(f, io.LimitReader(resp.Body, most+1))
	err = errors.Join(web.EndedEarly(err, n, resp.ContentLength), f.Close())
	d.bytes += n
	switch {
	case err != nil:
	case n > most:
		err = &refusedError{fmt.Errorf("it has more than %d bytes; %s", most, biglist.Advice(d.most))}
	case d.bytes > maxLists:
		err = &refusedError{fmt.Errorf("the list and its parts have more than %d bytes", int64(maxLists))}
	}
	return f.Name(), err
}

// headOf reads the head of a downloaded document. The document must be of the capability,
// or a sitemap in place of a Resource List.
func (d *documents) headOf(name string) (head resourcesync.Head, err error) {
	err = d.read(name, func(r *resourcesync.Reader) error {
		head, err = r.Head()
		return err
	})
	if err != nil {
		return head, &refusedError{biglist.Explain(err, d.most)}
	}
	if head.Capability != d.capability && (head.Capability != "" || d.capability != resourcesync.ResourceList) {
		return head, &refusedError{fmt.Errorf("it is a document of the capability %q, and a %q is wanted", head.Capability, d.capability)}
	}
	return head, nil
}

// asOf returns the time of the state of the Source that a document describes. The document
// states it, or else it is the time when the document was made or sent. It is never later
// than the request.
func asOf(d *fetched, began time.Time) time.Time {
	at := d.head.At
	if at.IsZero() {
		at = began
		for _, name := range []string{"Date", "Last-Modified"} {
			if t, err := http.ParseTime(d.resp.Header.Get(name)); err == nil {
				at = earlier(at, t)
			}
		}
	}
	return earlier(at, began).UTC()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// read reads a downloaded document.
func (d *documents) read(name string, read func(*resourcesync.Reader) error) error {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return read(readerOf(f, d.most))
}

// readerOf returns a reader of a document of up to so many entries, which may be compressed; 0: as
// many as the protocol allows.
func readerOf(r io.Reader, most int) *resourcesync.Reader {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(2)
	return resourcesync.NewReader(b, resourcesync.ReadOptions{
		Limits: biglist.Limits(most), AnyLoc: true, Gzip: len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b,
	})
}

// entries yields the resources, or packages, of all parts. After an error it yields
// nothing more.
func (d *documents) entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, p := range d.parts {
			more := true
			err := d.read(p.name, func(r *resourcesync.Reader) error {
				for e, err := range biglist.Entries(r, p.url, d.most, d.large) {
					if err != nil {
						return err
					}
					if d.capability != resourcesync.ResourceList {
						e.Loc = against(p.url, e.Loc)
					}
					if more = yield(e, nil); !more {
						break
					}
				}
				return nil
			})
			if err != nil {
				more = false
				yield(resourcesync.Entry{}, fmt.Errorf("reading %s: %w", p.url, err))
			}
			if !more {
				return
			}
		}
	}
}

// wants yields the resources of a Resource List that are not in newer, and then those of
// newer.
func (d *documents) wants(set namedSet, newer map[string]desired) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for w, err := range d.others(set, newer) {
			if !yield(w, err) {
				return
			}
		}
		remaining(newer)(yield)
	}
}

// others yields the resources of a Resource List that are not in newer. Those of newer get what
// only the list says of them.
func (d *documents) others(set namedSet, newer map[string]desired) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for e, err := range d.entries() {
			w := asListed(desiredFrom(set.name, &e))
			if later, left := newer[e.Loc]; left && err == nil {
				newer[e.Loc] = later.with(&w)
			} else if !yield(w, err) {
				return
			}
		}
	}
}

// with returns a change with what the list says of its resource and the change does not.
func (w desired) with(listed *desired) desired {
	w.mediaType = cmp.Or(w.mediaType, listed.mediaType)
	if len(w.collections) == 0 {
		w.collections = listed.collections
	}
	return w
}

// remaining yields the resources that exist after changes.
func remaining(newer map[string]desired) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for _, w := range newer {
			if !w.change.Removes() && !yield(w, nil) {
				return
			}
		}
	}
}

// against returns the address of a package, which a document may name relative to its own.
// This is for packages only: the address of a resource is its name as well, and must mean
// the same in each list.
func against(base, ref string) string {
	if u, err := url.Parse(ref); err == nil && !u.IsAbs() {
		if to, err := resolve(base, ref); err == nil {
			return to
		}
	}
	return ref
}

// resources returns the keys of all resources that are listed. It fails if the list cannot
// be read to its end, before anything else is done with it.
func (d *documents) resources() (map[key]struct{}, error) {
	out := map[key]struct{}{}
	for e, err := range d.entries() {
		if err != nil {
			return nil, err
		}
		out[keyOf(e.Loc)] = struct{}{}
		if len(out) > maxResources {
			return nil, fmt.Errorf("the list has more than %d resources", maxResources)
		}
	}
	return out, nil
}
