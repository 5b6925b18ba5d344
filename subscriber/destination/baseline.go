package destination

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// errNoBaseline says that a set has nothing that a baseline can be taken from.
var errNoBaseline = errors.New("the Source offers neither a Resource List nor a Resource Dump")

// baseline brings the copy of a set in step with the Source's Resource List or
// Resource Dump, and returns the time as of which it is then. What is there and as
// it should be is not fetched again, so that a baseline that was cut off goes on
// where it stopped.
func (c *Copy) baseline(ctx context.Context, set namedSet, t *tally) (time.Time, error) {
	list, dump := set.Documents[resourcesync.ResourceList], set.Documents[resourcesync.ResourceDump]
	useDump := dump != "" && (list == "" || c.o.Baseline == BaselineDump || c.o.Baseline == BaselineAuto && c.isNew(set))
	if c.o.Baseline == BaselineList && list != "" {
		useDump = false
	}
	if useDump && !c.o.DryRun {
		at, err := c.fromDump(ctx, set, dump, t)
		if err == nil || list == "" || ctx.Err() != nil {
			t.Baseline = dump
			return at, err
		}
		c.log.Warn("the Resource Dump could not be used; the Resource List is", "event", "dump_failed", "dump", dump, "error", err)
	}
	switch {
	case list != "":
		t.Baseline = list
		return c.fromList(ctx, set, list, t)
	case dump != "":
		return time.Time{}, fmt.Errorf("%s: a dry run does not fetch dumps, and there is no Resource List", dump)
	}
	return time.Time{}, errNoBaseline
}

// isNew reports whether there is next to nothing of a set in the copy.
func (c *Copy) isNew(set namedSet) bool {
	st, err := c.state.set(set.name)
	return err == nil && st.BaselineAt.IsZero() && c.state.count() < 100
}

// fromList takes a baseline from a Resource List.
func (c *Copy) fromList(ctx context.Context, set namedSet, address string, t *tally) (time.Time, error) {
	began := time.Now()
	docs, err := c.download(ctx, address)
	if err != nil {
		return time.Time{}, err
	}
	defer docs.remove()
	listed, err := docs.resources()
	if err != nil {
		return time.Time{}, err
	}
	var failed error
	wants := func(yield func(want) bool) {
		for e, err := range docs.entries() {
			if err != nil {
				failed = err
				return
			}
			w := wanted(set.name, &e)
			if f, ok := c.has(w); ok {
				t.event(Event{What: Unchanged, URL: w.url, Path: f.Path})
				continue
			}
			if c.o.DryRun {
				t.event(Event{What: Copied, URL: w.url, Bytes: max(0, w.length)})
				continue
			}
			if !yield(w) {
				return
			}
		}
	}
	if err := c.carryOut(ctx, t, "baseline", len(listed), wants); err != nil {
		return time.Time{}, err
	}
	if failed != nil {
		return time.Time{}, failed
	}
	if err := c.deleteUnlisted(ctx, set, listed, t); err != nil {
		return time.Time{}, err
	}
	at := docs.at
	if at.IsZero() {
		at = began // the list does not say; what changed since will say so again
	}
	return at, nil
}

// has reports whether a resource is in the copy as it is wanted, as far as can be
// told without reading it.
func (c *Copy) has(w want) (file, bool) {
	f, ok, err := c.state.file(w.url)
	if err != nil || !ok || f.Instead != "" {
		return f, false
	}
	info, err := c.root.Lstat(f.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Length || w.length >= 0 && w.length != f.Length {
		return f, false
	}
	switch resourcesync.ParseHashes(f.Hash).Compare(w.digests) {
	case resourcesync.Equal:
		return f, true
	case resourcesync.Different:
		return f, false
	}
	return f, !w.lastMod.IsZero() && w.lastMod.Equal(f.LastMod)
}

// deleteUnlisted deletes what was copied of a set and is not listed any more,
// unless that is suspiciously much.
func (c *Copy) deleteUnlisted(ctx context.Context, set namedSet, listed map[key]struct{}, t *tally) error {
	var extra []want
	for url, f := range c.state.files() {
		if _, ok := listed[keyOf(url)]; !ok && f.Set == set.name {
			extra = append(extra, want{url: url, set: set.name, length: -1, change: resourcesync.Deleted})
		}
	}
	return c.deleteAll(ctx, extra, t, "the Source does not list it any more")
}

// deleteAll deletes files, all or none: none where Options.MaxDelete does not allow
// as many.
func (c *Copy) deleteAll(ctx context.Context, wants []want, t *tally, why string) error {
	if len(wants) == 0 {
		return nil
	}
	allowed := c.o.MaxDelete.of(c.state.count()) - c.state.deletes(time.Now())
	if len(wants) > allowed {
		c.log.Error("so many files are not deleted at once; if the Source is right, allow it with --max-delete", "event", "deletions_held",
			"deletions", len(wants), "allowed", max(0, allowed), "why", why)
		return c.holdBack(wants, t, fmt.Errorf("%s, but %d deletions within an hour are more than are allowed (--max-delete)", why, len(wants)))
	}
	if c.o.DryRun {
		for _, w := range wants {
			t.event(Event{What: Deleted, URL: w.url, Change: w.change})
		}
		return nil
	}
	return c.carryOut(ctx, t, "deletions", len(wants), values(wants))
}

func values(wants []want) iter.Seq[want] {
	return func(yield func(want) bool) {
		for _, w := range wants {
			if !yield(w) {
				return
			}
		}
	}
}

// holdBack notes deletions that are not carried out.
func (c *Copy) holdBack(wants []want, t *tally, why error) error {
	d := newSettled()
	for _, w := range wants {
		res := result{want: w, err: why}
		f := res.failure()
		f.Held = true
		d.failed[w.url] = f
		e := Event{What: HeldBack, URL: w.url, Change: w.change, Err: why}
		t.event(e)
		c.o.Event(e)
	}
	if c.o.DryRun {
		return nil
	}
	return c.state.store(d, time.Now())
}

// key stands for a URL where a million of them are in memory.
type key [16]byte

func keyOf(url string) key {
	sum := sha256.Sum256([]byte(url))
	return key(sum[:16])
}

// documents are a list and its parts, on disk, so that they stay the same while
// they are worked on.
type documents struct {
	parts []string
	at    time.Time // of the snapshot; zero: not said
}

func (d *documents) remove() {
	for _, p := range d.parts {
		_ = os.Remove(p)
	}
}

// maxParts is how many parts an index may have.
const maxParts = 50_000

// download fetches a list, or an index and its parts.
func (c *Copy) download(ctx context.Context, address string) (*documents, error) {
	d := &documents{}
	head, err := c.downloadOne(ctx, d, address)
	if err != nil {
		d.remove()
		return nil, err
	}
	d.at = head.At
	if !head.Index {
		return d, nil
	}
	index := d.parts[0]
	d.parts = nil
	defer func() { _ = os.Remove(index) }()
	err = readDocument(index, func(r *resourcesync.Reader) error {
		for e, err := range r.Entries() {
			if err != nil {
				return fmt.Errorf("reading %s: %w", address, err)
			}
			if len(d.parts) == maxParts {
				return fmt.Errorf("%s names more than %d parts", address, maxParts)
			}
			part, err := resolve(address, e.Loc)
			if err != nil {
				return fmt.Errorf("%s names %q: %w", address, e.Loc, err)
			}
			h, err := c.downloadOne(ctx, d, part)
			if err != nil {
				return err
			}
			if h.Index {
				return fmt.Errorf("%s is an index within the index %s", part, address)
			}
		}
		return nil
	})
	if err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// maxList is the largest document in bytes, as it is sent.
const maxList = 64 << 20

// downloadOne fetches one document and returns its head.
func (c *Copy) downloadOne(ctx context.Context, d *documents, address string) (resourcesync.Head, error) {
	var head resourcesync.Head
	resp, err := c.askPatiently(ctx, address)
	if err != nil {
		return head, err
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := os.CreateTemp(c.o.StateDir, "list-*.xml")
	if err != nil {
		return head, err
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, maxList+1))
	err = errors.Join(err, f.Close())
	d.parts = append(d.parts, f.Name())
	switch {
	case err != nil:
		return head, fmt.Errorf("%s: %w", address, err)
	case n > maxList:
		return head, fmt.Errorf("%s has more than %d bytes", address, maxList)
	}
	err = readDocument(f.Name(), func(r *resourcesync.Reader) error {
		head, err = r.Head()
		if err != nil {
			return fmt.Errorf("reading %s: %w", address, err)
		}
		return nil
	})
	return head, err
}

// askPatiently asks for a document, again where that may help.
func (c *Copy) askPatiently(ctx context.Context, address string) (*http.Response, error) {
	wait := tryFirst
	for try := 1; ; try++ {
		resp, err := c.ask(ctx, address, http.Header{"Accept": {"application/xml, text/xml;q=0.9, */*;q=0.1"}})
		if err == nil || try == fetchTries || !passing(err) || ctx.Err() != nil {
			return resp, err
		}
		if !sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		wait *= 4
	}
}

// readDocument reads a downloaded document.
func readDocument(name string, read func(*resourcesync.Reader) error) error {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	b := bufio.NewReader(f)
	magic, _ := b.Peek(2)
	return read(resourcesync.NewReader(b, resourcesync.ReadOptions{Gzip: len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b}))
}

// entries goes over the resources of all parts.
func (d *documents) entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, p := range d.parts {
			left := false
			err := readDocument(p, func(r *resourcesync.Reader) error {
				for e, err := range r.Entries() {
					if err != nil {
						return err
					}
					if !yield(e, nil) {
						left = true
						return nil
					}
				}
				return nil
			})
			if left {
				return
			}
			if err != nil {
				yield(resourcesync.Entry{}, err)
				return
			}
		}
	}
}

// resources are the keys of all that is listed. A list that can't be read to its
// end gives an error, before anything is done about it.
func (d *documents) resources() (map[key]struct{}, error) {
	out := map[key]struct{}{}
	for e, err := range d.entries() {
		if err != nil {
			return nil, err
		}
		out[keyOf(e.Loc)] = struct{}{}
	}
	return out, nil
}
