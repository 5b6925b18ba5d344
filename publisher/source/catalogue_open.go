package source

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher/catalogue"
)

// seenAt is how the catalogue looked when it was read last.
type seenAt struct {
	stat           stat   // of a file
	etag, modified string // of a URL
	pending        stat   // how the file looks that has changed, and may still be written to
}

// errUnchanged says that the catalogue is as it was when it was read last.
var errUnchanged = errors.New("the catalogue is unchanged")

// input is where the lines of a catalogue come from. Next returns io.EOF at the end.
type input struct {
	next  func() (catalogue.Line, error)
	close func()
	// read is called when the lines were read, with whether all of them were.
	read func(all bool)
}

// open begins a reading.
func (c *Catalogue) open(ctx context.Context) (*input, error) {
	switch {
	case c.from.Entries != nil:
		return c.openEntries(ctx), nil
	case c.from.Location == "-":
		if c.from.Input == nil {
			return nil, errors.New("there is no input to read the catalogue from")
		}
		return lines(c.from.Input, func() {}), nil
	case isWebAddress(c.from.Location):
		return c.openURL(ctx)
	}
	return c.openFile()
}

func lines(in io.Reader, release func()) *input {
	return &input{next: catalogue.NewReader(in).Next, close: release, read: func(bool) {}}
}

func (c *Catalogue) openFile() (*input, error) {
	f, err := os.Open(c.from.Location)
	if err != nil {
		return nil, fmt.Errorf("opening the catalogue: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder; name the file of the catalogue", c.from.Location)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	in := lines(f, func() { _ = f.Close() }) // it was only read
	in.read = func(bool) { c.seen = seenAt{stat: statOf(info), pending: statOf(info)} }
	return in, nil
}

// fileChanged reports whether the catalogue is a file that has changed since it was read, and not since the last call.
func (c *Catalogue) fileChanged() bool {
	if c.from.Location == "" || c.once() || isWebAddress(c.from.Location) {
		return false
	}
	info, err := os.Stat(c.from.Location) //nolint:gosec // the operator names it
	if err != nil {
		return false // the next reading reports it
	}
	now := statOf(info)
	settled := now == c.seen.pending
	c.seen.pending = now
	return settled && now != c.seen.stat
}

// openURL asks for the catalogue, unless it is as it was.
func (c *Catalogue) openURL(ctx context.Context) (*input, error) {
	if c.contents.client == nil {
		return nil, errors.New("the catalogue is at a URL, and this Source makes no requests")
	}
	header := http.Header{"Accept-Encoding": {"gzip"}}
	if !c.accept.Load() && c.Status().Held == 0 {
		web.IfChanged(header, c.seen.etag, c.seen.modified)
	}
	pace := web.Pace{Stall: contentStall, Rate: contentRate}
	client := web.DoerFunc(func(req *http.Request) (*http.Response, error) { return pace.Do(c.contents.client, req) })
	resp, err := web.Ask(ctx, client, web.Request{Method: http.MethodGet, URL: c.from.Location, Header: header})
	if err != nil {
		return nil, fmt.Errorf("fetching the catalogue: %w", err)
	}
	release := func() { _ = resp.Body.Close() } // it was only read
	switch {
	case resp.StatusCode == http.StatusNotModified:
		release()
		return nil, errUnchanged
	case resp.StatusCode != http.StatusOK:
		release()
		return nil, fmt.Errorf("fetching the catalogue: %s answers %d", c.from.Location, resp.StatusCode)
	}
	var body io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(resp.Body); err != nil { // lines have a bound, and all others lie on disk
			release()
			return nil, fmt.Errorf("the catalogue is not what its Content-Encoding says: %w", err)
		}
	}
	in := lines(body, release)
	in.read = func(all bool) {
		if c.seen = (seenAt{}); all {
			c.seen.etag, c.seen.modified = web.ValidatorsOf(resp.Response)
		}
	}
	return in, nil
}

// openEntries turns the entries of a program into lines.
func (c *Catalogue) openEntries(ctx context.Context) *input {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan lineRead)
	go func() {
		defer close(ch)
		send := func(l catalogue.Line, err error) bool {
			select {
			case ch <- lineRead{l, err}:
				return true
			case <-ctx.Done():
				return false
			}
		}
		if c.from.Changes && !send(catalogue.Line{Kind: catalogue.Changes}, nil) {
			return
		}
		number := 0
		for e, err := range c.from.Entries(ctx) {
			var bad *catalogue.LineError
			if number++; err == nil {
				if err = e.Check(); err != nil {
					err = &catalogue.LineError{Number: number, URL: e.URL, Path: e.Path, Err: err}
				}
			} else if !errors.As(err, &bad) {
				send(catalogue.Line{}, err)
				return
			}
			if !send(catalogue.Line{Number: number, Entry: e}, err) {
				return
			}
		}
		if !c.from.Changes && ctx.Err() == nil {
			send(catalogue.Line{Number: number + 1, Kind: catalogue.End, Count: int64(number)}, nil)
		}
	}()
	return &input{close: cancel, read: func(bool) {}, next: func() (catalogue.Line, error) {
		l, ok := <-ch
		if !ok {
			return catalogue.Line{}, io.EOF
		}
		return l.line, l.err
	}}
}
