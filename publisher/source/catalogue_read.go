package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher/catalogue"
)

// lineRead is a line, or why it could not be read.
type lineRead struct {
	line catalogue.Line
	err  error
}

// linesAhead is how many lines are read ahead.
const linesAhead = 1000

// read reads the catalogue once and stores what it has. With live, changes are stored as they come; without it, at the
// end of the catalogue, of each resource the last one, so that a file of changes can be read again. It returns an error
// if the catalogue cannot be read.
func (c *Catalogue) read(ctx context.Context, live bool) error {
	in, err := c.open(ctx)
	if errors.Is(err, errUnchanged) {
		return c.unchanged()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := make(chan lineRead, linesAhead)
	go func() { // It ends with the input or, if that is one that nobody can end, with the process.
		defer in.close()
		defer close(ahead)
		for {
			l, err := in.next()
			var bad *catalogue.LineError
			select {
			case ahead <- lineRead{l, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.As(err, &bad) {
				return
			}
		}
	}()
	r := &intake{c: c, live: live, sort: newSorter(c.temp), check: newEntryCheck(), problems: c.problems()}
	defer func() { r.sort.close() }()
	err = r.run(ctx, ahead)
	in.read(err == nil && r.problems.count == 0) // what failed is read again, though the catalogue is the same
	return err
}

// unchanged notes that the catalogue was looked at.
func (c *Catalogue) unchanged() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Scanned = time.Now()
	return nil
}

// intake is one reading of a catalogue. It is for one goroutine.
type intake struct {
	c    *Catalogue
	live bool

	sort    *sorter
	check   *entryCheck
	changes bool  // what follows are changes
	ended   bool  // they follow the end of a whole catalogue, and are stored with it
	why     error // why that is not whole; nil: it is
	entries int64 // how many there were before the end, with those that are wrong
	unnamed int   // how many of them are wrong and do not say of what resource they are
	pending []found
	rivals  rivals

	problems    problems
	incomplete  error
	held, total int
}

// rivals are resources that were left out, because another one has their URL. With wait they are
// tried again, since that one may be about to be deleted.
type rivals struct {
	found []found
	wait  bool
}

// run stores what comes.
func (r *intake) run(ctx context.Context, ahead <-chan lineRead) error {
	for {
		var l lineRead
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l = <-ahead:
		}
		var bad *catalogue.LineError
		switch {
		case errors.Is(l.err, io.EOF):
			return r.finish(ctx, nil)
		case errors.As(l.err, &bad):
			if err := r.refuse(bad); err != nil {
				return err
			}
		case l.err != nil:
			return r.finish(ctx, l.err)
		default:
			if err := r.line(ctx, &l.line); err != nil {
				return err
			}
		}
		if len(r.pending) > 0 && (len(ahead) == 0 || len(r.pending) >= batchSize) {
			if err := r.store(ctx); err != nil {
				return err
			}
		}
		if r.live && r.changes && len(ahead) == 0 {
			r.c.looked(r) // changes may come for years, so nothing can wait for their end
		}
	}
}

// refuse notes a line that is wrong. The resource that it names stays as it is.
func (r *intake) refuse(bad *catalogue.LineError) error {
	r.entries++
	r.problems.add(bad)
	named := cmp.Or(bad.URL, bad.Path)
	if named == "" || len(named) > maxPath {
		r.unnamed++
	} else if !r.changes {
		key, _ := r.c.key(bad.URL, bad.Path) // the line is refused anyway
		return r.sort.add(cmp.Or(key, named), []byte{lineKeeps})
	}
	return nil
}

// line handles a line.
func (r *intake) line(ctx context.Context, l *catalogue.Line) error {
	wrong := func(format string, a ...any) error {
		r.problems.add(&catalogue.LineError{Number: l.Number, Err: fmt.Errorf(format, a...)})
		return nil
	}
	switch l.Kind {
	case catalogue.Changes:
		if r.entries > 0 || r.changes {
			return wrong(`{"begin":"changes"} has to be the first line`)
		}
		r.changes = true
		return r.c.baseline() // a catalogue of changes begins with nothing
	case catalogue.End:
		if r.changes {
			return wrong("what comes before the end are changes, so there can be no end; remove the line, or write the whole catalogue anew")
		}
		return r.end(ctx, l)
	}
	if r.entries++; r.live && r.changes {
		r.c.stopped(nil) // it goes on, and may do so for years
	}
	g, err := r.c.given(&l.Entry)
	if err == nil {
		err = r.check.check(&g)
	}
	if err != nil {
		r.entries--
		return r.refuse(&catalogue.LineError{Number: l.Number, URL: l.Entry.URL, Path: l.Entry.Path, Err: err})
	}
	x := found{key: g.Resource.Key(), line: l.Number}
	if !l.Entry.Deleted {
		x.now = g.step().now
	}
	if r.live && r.changes {
		if slices.ContainsFunc(r.pending, func(p found) bool { return p.key == x.key }) {
			if err := r.store(ctx); err != nil { // each change is compared with the one before it
				return err
			}
		}
		r.pending = append(r.pending, x)
		return nil
	}
	return r.sort.add(x.key, x.pack())
}

// end handles the end of a whole catalogue. What follows are changes.
func (r *intake) end(ctx context.Context, l *catalogue.Line) error {
	var why error
	switch {
	case l.Count != r.entries:
		why = fmt.Errorf("%w: its end says that it has %d entries, and it has %d; write it anew, and count what you write", ErrIncomplete, l.Count, r.entries)
	case r.unnamed > 0:
		why = fmt.Errorf("%w: %d of its lines are wrong and name no resource, so nobody knows what they are about; correct them", ErrIncomplete, r.unnamed)
	}
	if r.changes = true; !r.live {
		// What follows is read again and again with the rest. Only the newest line of a resource counts, so
		// that nothing goes back and forth at each reading.
		r.ended, r.why = true, why
		return nil
	}
	if err := r.merge(ctx, why); err != nil {
		return err
	}
	r.sort.close()
	r.sort = newSorter(r.c.temp)
	return nil
}

// finish stores what is left at the end of the input. Broken is why the input ended too early; nil: it did not.
func (r *intake) finish(ctx context.Context, broken error) error {
	if err := r.store(ctx); err != nil {
		return err
	}
	if broken != nil {
		broken = fmt.Errorf("reading the catalogue: %w", broken)
	}
	if r.ended {
		return cmp.Or(r.merge(ctx, r.why), broken)
	}
	if r.changes {
		err := r.mergeChanges(ctx)
		r.c.looked(r)
		return cmp.Or(err, broken)
	}
	var why error
	switch {
	case broken != nil:
		why = fmt.Errorf("%w: it could not be read to its end: %w", ErrIncomplete, broken)
	default:
		why = fmt.Errorf(`%w: it has no end; write {"end":true,"count":%d} as the last line when all entries are written, or begin it with {"begin":"changes"} if it is no whole catalogue`, ErrIncomplete, r.entries)
	}
	return cmp.Or(r.merge(ctx, why), broken)
}

// baseline ends the first reading: from now on, changes are logged.
func (c *Catalogue) baseline() error {
	if c.x.Ready() {
		return nil
	}
	if err := c.x.baseline(time.Now()); err != nil {
		return err
	}
	c.o.Log.Info("the first catalogue was read", "event", "catalogue_ready", "catalogue", c.name(), "resources", c.x.Len())
	c.signal()
	return nil
}

// key is the key of what a line names: one address has one key, in whatever way lines write it. An address
// at which the set lists a file has the path of that file. If the line has another path, that is an error, too.
func (c *Catalogue) key(at, path string) (string, error) {
	switch listed, err := c.path(at, path); {
	case err != nil || listed == "":
		return cmp.Or(at, path), err
	case path != "" && path != listed:
		return listed, fmt.Errorf("its url is where %q is listed, and its path is %q; give only the path, or leave out the URL of the resources, so that each entry has its own", listed, path)
	default:
		return listed, nil
	}
}

// path returns the path of the file that the set lists at an address; empty: it lists none there. If rules
// shorten addresses, several paths have the same: given is the one to choose, else the one that the index has.
func (c *Catalogue) path(at, given string) (string, error) {
	if at == "" {
		return given, nil
	}
	escaped, ok := strings.CutPrefix(at, c.address.below(c.data, ""))
	if !ok {
		return "", nil
	}
	short, err := url.PathUnescape(escaped)
	if err != nil || EscapePath(short) != escaped {
		return "", nil // such as one with a query
	}
	paths := c.address.paths(short)
	if len(paths) == 0 {
		return "", nil
	}
	if slices.Contains(paths, given) {
		return given, nil
	}
	if len(paths) == 1 {
		return paths[0], nil
	}
	for _, p := range paths {
		if known, err := c.x.record(p); known != nil || err != nil {
			return p, err
		}
	}
	return paths[0], nil
}

// given turns an entry into what the index gets.
func (c *Catalogue) given(e *catalogue.Entry) (Given, error) {
	if u, err := url.Parse(e.URL); err == nil && web.HasDotSegment(u) { // it may be where this Source serves files
		return Given{}, errors.New("its url has a dot segment (/./ or /../, or one that is percent-encoded); write the address without")
	}
	key, err := c.key(e.URL, e.Path)
	switch {
	case err != nil:
		return Given{}, err
	case e.Deleted:
		return Given{Resource: keyed(key)}, nil
	case e.Path != "" && c.contents.root == "":
		return Given{}, errors.New("it has a path, but the folder in which paths begin is not known; set FolderOptions.Dir, or leave out the path")
	case e.Path == "" && strings.HasPrefix(e.URL, c.data):
		return Given{}, fmt.Errorf("its url is below %s, where this Source serves files; name the file with path and leave out the url", c.data)
	}
	r := keyed(key)
	r.Content, r.ModTime, r.MediaType, r.Encoding, r.Links = e.Content, e.LastMod, e.Type, e.Encoding, e.Links
	r.SetHash(e.Hash)
	if r.Length = UnknownLength; e.HasLength {
		r.Length = e.Length
	}
	switch {
	case r.URL != "":
		if r.Path = e.Path; r.Content == r.URL {
			r.Content = ""
		}
	case e.Path == "":
		r.Content = cmp.Or(r.Content, e.URL) // another server has the bytes
	}
	return Given{Resource: r}, nil
}
