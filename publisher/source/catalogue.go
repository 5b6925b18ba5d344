package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/publisher/catalogue"
)

// CatalogueOptions say from where a catalogue is read. One of Location and Entries is needed.
type CatalogueOptions struct {
	// Location is a file, an http or https URL, or "-" for Input. A file is read again when it has
	// changed, and all but Input after FolderOptions.Rescan.
	Location string
	// Input is read once, as it comes. It is used if Location is "-".
	Input io.Reader
	// Entries yields the catalogue of a program. An error that is a *catalogue.LineError is about one entry.
	// After any other error, and unless Changes is set, nothing is deleted that it has not yielded. Run calls
	// Entries again FolderOptions.Unwatched later.
	Entries func(ctx context.Context) iter.Seq2[catalogue.Entry, error]
	// Changes says that Entries yields changes, as they come: a resource that it does not yield stays as it is. Each
	// call begins where the program chooses, for example a while before the error of the last one.
	Changes bool
}

// given reports whether there is a catalogue.
func (o *CatalogueOptions) given() bool { return o.Location != "" || o.Entries != nil }

// isWebAddress reports whether a location is a URL.
func isWebAddress(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}

// ErrIncomplete is wrapped by FolderStatus.Incomplete, and by the errors of Scan.
var ErrIncomplete = errors.New("the catalogue is not whole, so nothing was deleted")

// Catalogue keeps an Index in step with a catalogue. It may be shared between goroutines.
//
// A catalogue is whole or has changes; see package catalogue. A whole one is sorted, in files if it is
// long, and compared with the index, so it never lies in memory. A line that is wrong
// is in the status. It loses nothing of the others: the resource that it names stays as it was and, if it
// names none, nothing is deleted. If the process ends before all is stored, the next
// reading stores the rest.
type Catalogue struct {
	x        *Index
	o        FolderOptions
	from     CatalogueOptions
	data     string // the URL of the files that the set serves
	address  address
	temp     string // a folder for files without a name
	contents *contents

	running sync.Mutex  // held by Run and Scan
	accept  atomic.Bool // what is missing may be published as deleted, once
	wake    chan struct{}
	changed chan struct{}
	seen    seenAt

	mu      sync.Mutex
	status  FolderStatus
	refused int // lines of the last reading
}

var _ origin = (*Catalogue)(nil)

// newCatalogue returns a Catalogue that writes to an index. Of o it uses Dir, which is the root of contents, or
// empty, Exclude, Rescan, Unwatched, Settle, MaxDeleted, Workers and Log. Base is the URL of the set, and at is where
// files are listed.
func newCatalogue(x *Index, o FolderOptions, from CatalogueOptions, base string, at address, temp string, client Doer) (*Catalogue, error) {
	c := &Catalogue{
		x: x, o: folderDefaults(o), from: from, data: base + dataPath, address: at, temp: temp, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	x.near.nested = true
	var err error
	if c.contents, err = newContents(o.Dir, o.Exclude, temp, client); err != nil {
		return nil, err
	}
	if from.Location != "" && from.Entries != nil {
		return nil, errors.New("the catalogue has a location and entries; give one of the two")
	}
	return c, nil
}

// once reports whether the catalogue can be read only once.
func (c *Catalogue) once() bool { return c.from.Location == "-" || c.from.Changes }

// Run implements origin.
func (c *Catalogue) Run(ctx context.Context) error {
	if !c.running.TryLock() {
		return errRunning
	}
	defer c.running.Unlock()
	for {
		err := c.read(ctx, c.once())
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrClosed):
			return err
		}
		c.stopped(err)
		if c.once() && (err == nil || c.from.Entries == nil) { // what was read of Input is gone
			<-ctx.Done()
			return nil
		}
		c.wait(ctx, err)
	}
}

// wait waits until the catalogue has to be read again, or ctx ends.
func (c *Catalogue) wait(ctx context.Context, err error) {
	after := c.o.Rescan
	if err != nil || c.Status().Held > 0 {
		after = c.o.Unwatched
	}
	again := time.NewTimer(after)
	defer again.Stop()
	look := time.NewTicker(max(c.o.Settle/2, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			return
		case <-c.wake:
			return
		case <-look.C:
			if c.fileChanged() {
				return
			}
		}
	}
}

// Scan implements origin. The error wraps ErrIncomplete if the catalogue should be whole and is not.
func (c *Catalogue) Scan(ctx context.Context) error {
	if !c.running.TryLock() {
		return errRunning
	}
	defer c.running.Unlock()
	c.seen = seenAt{}
	err := c.read(ctx, false)
	c.mu.Lock()
	c.status.Err = err
	c.mu.Unlock()
	return cmp.Or(err, c.Status().Incomplete)
}

// Changed implements origin.
func (c *Catalogue) Changed() <-chan struct{} { return c.changed }

func (c *Catalogue) signal() { poke(c.changed) }

// Status implements origin.
func (c *Catalogue) Status() FolderStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Problems = append([]Problem(nil), s.Problems...)
	s.Ready, s.Resources, s.Watching = c.x.Ready(), c.x.Len(), true
	return s
}

// AcceptDeletions implements origin.
func (c *Catalogue) AcceptDeletions() {
	c.accept.Store(true)
	poke(c.wake)
}

// Bytes implements origin.
func (c *Catalogue) Bytes(ctx context.Context, r *Resource) (*os.File, bool, error) {
	return c.contents.open(ctx, r)
}

// stopped stores why the catalogue cannot be read; nil: it can.
func (c *Catalogue) stopped(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch was := c.status.Err; {
	case err != nil && (was == nil || was.Error() != err.Error()):
		c.o.Log.Error("the catalogue cannot be read; it is tried again", "event", "catalogue_failed", "catalogue", c.name(), "error", err)
	case err == nil && was != nil:
		c.signal()
		c.o.Log.Info("the catalogue can be read again", "event", "catalogue_recovered", "catalogue", c.name())
	}
	c.status.Err = err
}

// name is what the log calls the catalogue.
func (c *Catalogue) name() string { return cmp.Or(c.from.Location, "of the program") }

// problems collects what is wrong with the lines of one reading.
type problems struct {
	log   *slog.Logger
	name  string
	known map[string]bool // those of the last reading, which are logged
	count int
	next  int // how many there have to be before another one is logged
	first []Problem
}

// problems begins those of a reading.
func (c *Catalogue) problems() problems {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := problems{log: c.o.Log, name: c.name(), known: map[string]bool{}, next: max(maxProblems, c.refused) + 1}
	for _, old := range c.status.Problems {
		p.known[old.Err.Error()] = true
	}
	return p
}

func (p *problems) add(err error) {
	if p.count++; p.count > maxProblems {
		if p.count == p.next {
			p.next *= 2
			p.log.Warn("many lines of the catalogue are refused, for example by the same mistake; this is one of them", "event", "catalogue_line_refused", "catalogue", p.name, "lines", p.count, "error", err)
		}
		return
	}
	path := ""
	var line *catalogue.LineError
	if errors.As(err, &line) {
		path = cmp.Or(line.URL, line.Path, fmt.Sprintf("line %d", line.Number))
	}
	if p.first = append(p.first, Problem{path, err}); p.known[err.Error()] {
		return
	}
	p.log.Warn("a line of the catalogue is refused", "event", "catalogue_line_refused", "catalogue", p.name, "error", err)
}

// looked stores what a reading found in the status.
func (c *Catalogue) looked(r *intake) {
	p, incomplete, held := &r.problems, r.incomplete, r.held
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = p.count
	s := &c.status
	if incomplete != nil && (s.Incomplete == nil || s.Incomplete.Error() != incomplete.Error()) {
		c.o.Log.Error("nothing that is missing in the catalogue is deleted", "event", "catalogue_incomplete", "catalogue", c.name(), "error", incomplete)
	}
	if held > 0 && s.Held == 0 {
		c.o.Log.Error("so much is missing in the catalogue that nothing is published as deleted: was it written in full? If so, accept the deletions",
			"event", "deletions_held", "catalogue", c.name(), "gone", held, "resources", r.total)
	}
	if held == 0 && s.Held > 0 {
		c.signal()
	}
	s.Scanned, s.Problems, s.Incomplete, s.Held = time.Now(), slices.Clip(p.first), incomplete, held
}
