package source

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// The paths of documents within a set, as the command line promises them.
const (
	capabilityListPath = "capabilitylist.xml"
	resourceListPath   = "resourcelist.xml"
	// changeListPath always has a Change List and no index, since some clients can't read an
	// index there. Once there is an index, it is the list of recent changes.
	changeListPath      = "changelist.xml"
	changeListIndexPath = "changelist-index.xml"
	resourceDumpPath    = "resourcedump.xml"
	changeDumpPath      = "changedump.xml"

	resourceListArchivePath = "resourcelist-archive.xml"
	resourceDumpArchivePath = "resourcedump-archive.xml"
	changeListArchivePath   = "changelist-archive.xml"
	changeDumpArchivePath   = "changedump-archive.xml"

	changesPath   = "changes/"
	frameworkPath = "framework/"
	dataPath      = "data/"
)

// composer writes what the documents of a set say into an edition.
type composer struct {
	base     string // the URL of all that is in the set, with a slash at the end
	address  address
	moves    []move // former addresses, oldest first
	rules    atomic.Pointer[Rules]
	schedule Schedule
	limits   resourcesync.WriteOptions // of a document; only tests set them
	log      *slog.Logger
	odd      oddities
}

// set publishes one folder: it decides when each document is due, and feeds its topics.
type set struct {
	composer  composer
	archivist archivist
	packager  packager

	name  string
	site  string // the URL of the Source
	above string // the URL of its Source Description
	hooks *Hooks

	index     *Index
	rulesFile string
	shelf     *shelf
	reach     reach
	// changes and framework publish the topics. Without hubs they are nil, and there are no
	// topics.
	changes, framework *publisher.Publisher
	topics             []topic
	hubs               []string

	moved   clock.Signal // the index has changed
	noticed clock.Signal // there are notices to publish
	failing sync.Map     // failure of each loop, by what it does
}

// topic is a topic of a set, at a path within it.
type topic struct {
	path, url string
	kind      publisher.Kind
	publisher *publisher.Publisher
	handler   http.Handler
}

// failure is why a loop failed at its last turn; nil: it succeeded.
type failure struct{ error }

// failure returns why a loop of the set failed at its last turn; nil: none did.
func (s *set) failure() (err error) {
	s.failing.Range(func(what, last any) bool {
		if f, _ := last.(failure); f.error != nil {
			err = fmt.Errorf("%v failed, and is tried again: %w", what, f.error)
		}
		return err == nil
	})
	return err
}

// url returns the URL of a document of the set.
func (s *composer) url(path string) string { return s.base + path }

// upLink is the link to the Capability List, which all documents of a set have.
func (s *composer) upLink() resourcesync.Link {
	return resourcesync.Link{Rel: "up", Href: s.url(capabilityListPath)}
}

// links are the links of a document: up and, if it is in an index or has an archive, index
// and archives.
func (s *composer) links(index, archive string) []resourcesync.Link {
	links := []resourcesync.Link{s.upLink()}
	if index != "" {
		links = append(links, resourcesync.Link{Rel: "index", Href: s.url(index)})
	}
	if archive != "" && s.schedule.Archive > 0 {
		links = append(links, resourcesync.Link{Rel: "archives", Href: s.url(archive)})
	}
	return links
}

// longestURL is the longest loc that a document may have, in characters (DOC-60).
const longestURL = 2048

// entry is what a list says of a resource (DOC-34). It returns false if the URL is too long
// for any list.
func (s *composer) entry(snap *Snapshot, r *Resource) (e resourcesync.Entry, ok bool, err error) {
	if e, ok = s.entryAt(&s.address, r); ok {
		err = s.ruled(snap, r, &e)
	}
	e.Links = withoutPatches(e.Links)
	return e, ok, err
}

func (s *composer) entryAt(a *address, r *Resource) (resourcesync.Entry, bool) {
	e := describe(r, s.urlOf(a, r))
	if utf8.RuneCountInString(e.Loc) > longestURL {
		s.odd.note(s.log, r.Key(), "its URL is longer than 2,048 characters, which no list can have; give it a shorter path")
		return e, false
	}
	return e, true
}

// ruled adds to an entry what the rules give it.
func (s *composer) ruled(snap *Snapshot, r *Resource, e *resourcesync.Entry) error {
	rs := s.rules.Load()
	if rs == nil || len(rs.resources) == 0 {
		return nil
	}
	e.Type, e.Encoding = rs.mediaType(r), rs.encoding(r)
	links, err := rs.linksOf(r, e.Loc, s.neighbours(snap))
	e.Links = append(slices.Clip(e.Links), links...)
	return err
}

func (s *composer) neighbours(snap *Snapshot) neighbours {
	return neighbours{get: snap.get, url: func(r *Resource) string { return s.urlOf(&s.address, r) }}
}

// withoutPatches returns the links that do not lead to a patch, which only the entry of an update may have
// (LNK-04).
func withoutPatches(links []resourcesync.Link) []resourcesync.Link {
	isPatch := func(l resourcesync.Link) bool { return l.Rel == patchRel }
	if !slices.ContainsFunc(links, isPatch) {
		return links
	}
	return slices.DeleteFunc(slices.Clone(links), isPatch)
}

// describe returns the entry of a resource at a URL.
func describe(r *Resource, loc string) resourcesync.Entry {
	e := resourcesync.Entry{Loc: loc, LastMod: r.ModTime, Type: r.MediaType, Hash: r.Hash(), Encoding: r.Encoding, Links: r.Links}
	if r.Length >= 0 {
		e.Length, e.HasLength = r.Length, true
	}
	return e
}

// change is what a list says of a change (DOC-39, DOC-17). Of a deleted resource the time of
// the deletion is also the last modification: clients that compare only that would ignore an
// earlier one. It is rounded up to the precision that documents have. Its URL is the one that
// the resource had then.
func (s *composer) change(snap *Snapshot, c *Change) (e resourcesync.Entry, ok bool, err error) {
	e, ok = s.entryAt(s.addressAt(c.Seq), &c.Resource)
	if c.Change.Removes() {
		return resourcesync.Entry{Loc: e.Loc, Change: c.Change, Datetime: c.At, LastMod: c.At.Add(time.Millisecond - 1).Truncate(time.Millisecond)}, ok, nil
	}
	if ok {
		err = s.ruled(snap, &c.Resource, &e)
	}
	if e.Change, e.Datetime = c.Change, c.At; c.Change != resourcesync.Updated {
		e.Links = withoutPatches(e.Links)
	}
	return e, ok, err
}

// oddities are the resources that can't be published. Each is logged once.
type oddities struct {
	mu       sync.Mutex
	reported map[string]bool
}

// mostOddities is how many of them are logged.
const mostOddities = 1000

func (o *oddities) note(log *slog.Logger, path, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reported[path] || len(o.reported) >= mostOddities {
		return
	}
	if o.reported == nil {
		o.reported = make(map[string]bool)
	}
	o.reported[path] = true
	log.Warn("a resource is not published: "+why, "event", "resource_left_out", "path", path)
}

// writeSplit writes a document of any length at a path of the edition.
func (s *composer) writeSplit(e *edition, path string, h resourcesync.Head, entries iter.Seq2[resourcesync.Entry, error]) error {
	return s.writeSplits(e, []splitting{{path: path, head: h}}, entries)
}

// splitting is a document that is split if it has to be.
type splitting struct {
	path  string
	head  resourcesync.Head
	parts []string // the paths of its parts, once it is written
	w     *resourcesync.Splitter
}

// writeSplits is writeSplit for several documents with the same entries.
func (s *composer) writeSplits(e *edition, all []splitting, entries iter.Seq2[resourcesync.Entry, error]) (err error) {
	sinks := make([]parts, len(all))
	defer func() {
		for i := range all {
			if all[i].parts = sinks[i].paths; err != nil && all[i].w != nil {
				all[i].w.Abort(err)
			}
		}
	}()
	for i := range all {
		x := &all[i]
		sinks[i] = parts{edition: e, base: s.base, zero: x.path}
		if x.w, err = resourcesync.NewSplitter(x.head, &sinks[i], s.limits); err != nil {
			return x.wrong(err)
		}
	}
	return writeEach(all, entries)
}

// writeEach writes entries to several documents and completes them, unless there is an error. Each document has a
// goroutine, because composing and compressing takes longer than reading the index.
func writeEach(all []splitting, entries iter.Seq2[resourcesync.Entry, error]) error {
	var g errgroup.Group
	var failed atomic.Bool
	feeds := make([]chan []resourcesync.Entry, len(all))
	for i := range all {
		feeds[i] = make(chan []resourcesync.Entry, 1)
		g.Go(func() (err error) {
			for batch := range feeds[i] {
				for _, e := range batch {
					if err == nil {
						err = all[i].w.Write(e)
					}
				}
				failed.CompareAndSwap(false, err != nil)
			}
			return all[i].wrong(err)
		})
	}
	feed := func(batch []resourcesync.Entry) {
		for _, f := range feeds {
			f <- batch
		}
	}
	batch := make([]resourcesync.Entry, 0, entriesAtOnce)
	var err error
	for entry, wrong := range entries {
		if err = wrong; err != nil || failed.Load() {
			break
		}
		if batch = append(batch, entry); len(batch) == cap(batch) {
			feed(batch)
			batch = make([]resourcesync.Entry, 0, entriesAtOnce)
		}
	}
	feed(batch)
	for _, f := range feeds {
		close(f)
	}
	if err = cmp.Or(all[0].wrong(err), g.Wait()); err != nil {
		return err
	}
	for i := range all {
		if err := all[i].wrong(all[i].w.Close()); err != nil {
			return err
		}
	}
	return nil
}

// entriesAtOnce is how many entries a goroutine of writeEach gets at once.
const entriesAtOnce = 256

// wrong says in what document an error is.
func (x *splitting) wrong(err error) error {
	if err != nil {
		return fmt.Errorf("writing %s: %w", x.path, err)
	}
	return nil
}

// parts is the Sink of a document. Number 0 has the path of the whole document; the others
// have paths that no other edition has.
type parts struct {
	edition *edition
	base    string
	zero    string
	paths   []string // of the parts
}

// Create implements resourcesync.Sink.
func (p *parts) Create(part int) (io.WriteCloser, string, error) {
	path := p.zero
	if part > 0 {
		path = fmt.Sprintf("%s-%d-%d.xml", strings.TrimSuffix(p.zero, ".xml"), p.edition.number, part)
		p.paths = append(p.paths, path)
	}
	d, err := p.edition.draft(path, xmlType)
	if err != nil {
		return nil, "", err
	}
	return d, p.base + path, nil
}

// show puts an edition on the shelf, with what change makes of the history, and notifies
// the framework channel and the hooks.
func (s *set) show(e *edition, change func(c *register) error) error {
	noticed := s.shelf.current().History.Noticed
	shown, err := e.show(func(c *register) error {
		c.put(e.documents...)
		if err := change(c); err != nil {
			return err
		}
		c.put(e.documents...) // change may have written more of them
		if s.framework != nil {
			c.History.recorded(s.framework.Recorded())
		} else {
			c.History.Notices = nil
		}
		return s.capabilityList(e, c)
	})
	if err != nil {
		return err
	}
	if s.shelf.current().History.Noticed != noticed {
		s.noticed.Broadcast()
	}
	urls := make([]string, len(shown))
	for i := range shown {
		urls[i] = s.composer.url(shown[i].Path)
		s.composer.log.Debug("a document was written", "event", "document_written", "url", urls[i], "bytes", shown[i].Length)
	}
	if s.hooks.Built != nil && len(urls) > 0 {
		slices.Sort(urls)
		s.hooks.Built(s.name, urls)
	}
	return nil
}

// written is the change of a document that is written, over one that existed or not.
func written(existed bool) resourcesync.ChangeType {
	if existed {
		return resourcesync.Updated
	}
	return resourcesync.Created
}

// notify adds notices about a list or, if it has parts, about these, since nobody is notified
// of an index (DOC-20).
func (c *register) notify(capability, path string, parts []string, existed bool) {
	if len(parts) == 0 {
		c.History.notify(notice{Path: path, Capability: capability, Change: written(existed && capability != resourcesync.ResourceDump)})
	}
	for _, p := range parts {
		c.History.notify(notice{Path: p, Index: path, Capability: capability, Change: resourcesync.Created})
	}
}
