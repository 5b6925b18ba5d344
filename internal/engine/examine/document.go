package examine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// check checks a document alone. With Options.Strict a toleration fails it.
func (x *examination) check(in input) (*Document, error) {
	d := &Document{File: in.name, Valid: true, requested: in.requested, final: in.final}
	if in.isPackage() {
		d.content = body{in.at, in.size}
		return d, x.readPackage(d, in)
	}
	body, err := in.document()
	if err != nil {
		d.broken = true
		d.add(Finding{Level: Fail, Kind: resourcesync.NotWellFormed.String(), Rule: "DOC-60", Message: err.Error()})
		return d, nil
	}
	r := resourcesync.NewReader(body.reader(), resourcesync.ReadOptions{})
	d.setHead(r.Head())
	var wrong error
	if !isNotification(d.Capability) {
		wrong = x.readEntries(d, r)
		d.setHead(r.Head()) // what the document says late is known now
	}
	if isNotification(d.Capability) {
		return d, x.readNotification(d, body)
	}
	x.warn(d)(r.OddHashes())
	x.warn(d)(r.Tolerated(), r.TolerationCount())
	if wrong != nil {
		err = d.fail(worse(body, wrong))
		d.hint(body)
	}
	slices.SortStableFunc(d.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d, err
}

// readEntries reads the document to its end or to its first error.
func (x *examination) readEntries(d *Document, r *resourcesync.Reader) error {
	lists := listRule(d.head) != ""
	for e, err := range r.Entries() {
		if err != nil {
			return err
		}
		d.count(e.Change)
		switch {
		case lists && x.o.Follow:
			d.listed = append(d.listed, e)
		case !lists && x.source != nil:
			x.source.entry(d, e)
		}
	}
	return nil
}

// setHead copies a head. Its error comes with the entries as well.
func (d *Document) setHead(h resourcesync.Head, _ error) {
	d.head = h
	d.Capability, d.Index = h.Capability, h.Index
	d.At, d.Completed, d.From, d.Until = h.At, h.Completed, h.From, h.Until
	up, _ := h.Link("up")
	d.Up = up.Href
}

func (d *Document) count(change resourcesync.ChangeType) {
	d.Entries++
	d.Counts.Add(change)
}

// readNotification applies the rules of a hub to a notification. It reports one finding,
// unless there are addresses or hashes that a hub accepts and others may not understand,
// or Options.Strict fails what a hub tolerates.
func (x *examination) readNotification(d *Document, body body) error {
	r := resourcesync.NewNotificationReader(body.reader(), resourcesync.DefaultLimits)
	n, err := r.Check()
	if err != nil {
		*d = Document{File: d.File, Valid: true, requested: d.requested, final: d.final}
		return d.fail(err)
	}
	d.Legacy, d.Up, d.Entries, d.Counts = n.Legacy, n.Up, n.Entries, n.Counts
	x.warn(d)(r.OddHashes())
	if !x.o.Strict {
		x.warn(d)(r.OddLocs())
		return nil
	}
	all := resourcesync.NewReader(body.reader(), resourcesync.ReadOptions{})
	for _, err := range all.Entries() {
		if err != nil {
			return d.fail(err)
		}
	}
	x.warn(d)(all.Tolerated(), all.TolerationCount())
	return nil
}

// warn returns what reports tolerations: the first of them, and how many there are.
func (x *examination) warn(d *Document) func(first []resourcesync.Toleration, all int) {
	return func(first []resourcesync.Toleration, all int) {
		for _, t := range first {
			d.add(x.tolerable(Finding{Rule: t.Rule, Line: t.Line, Column: t.Column, Message: t.Msg}))
		}
		d.Untold += all - len(first)
	}
}

// tolerable gives a finding the level of what is tolerated.
func (x *examination) tolerable(f Finding) Finding {
	f.Level = Warn
	if x.o.Strict {
		f.Level, f.Kind = Fail, resourcesync.BadDocument.String()
	}
	return f
}

// fail reports an error of a document. It returns an error that is not the document's.
func (d *Document) fail(err error) error {
	d.broken = true
	var wrong *resourcesync.Error
	if !errors.As(err, &wrong) {
		return fmt.Errorf("reading %s: %w", d.File, err)
	}
	d.add(Finding{Level: Fail, Kind: wrong.Kind.String(), Rule: wrong.Rule, Line: wrong.Line, Column: wrong.Column, Message: wrong.Msg})
	return nil
}

// worse checks whether a document that breaks a rule is well-formed at all.
// CheckNotification does that for any document.
func worse(body body, broken error) error {
	var first, second *resourcesync.Error
	_, err := resourcesync.CheckNotification(body.reader(), resourcesync.DefaultLimits)
	if errors.As(broken, &first) && first.Kind == resourcesync.BadDocument &&
		errors.As(err, &second) && second.Kind != resourcesync.BadDocument {
		return err
	}
	return broken
}

// hint reports the Capability Lists that a web page links to, if the document is one.
func (d *Document) hint(body body) {
	links, _ := resourcesync.LinksFromHTML(body.reader(), d.final) // what could be read
	for _, to := range targets(links, websub.RelResourceSync) {
		d.add(Finding{Level: Warn, Rule: "SRC-13", Message: "this is a web page, and its link to a Capability List leads to " + to})
	}
}

// readPackage reads a package of a dump and all that is in it.
func (x *examination) readPackage(d *Document, in input) error {
	if in.cut {
		return fmt.Errorf("the package %s is too large for memory; save it as a file, and validate that", in.name)
	}
	r, err := resourcesync.NewDumpReader(in.at, in.size, resourcesync.DumpReadOptions{Strict: x.o.Strict})
	if err != nil {
		return d.fail(err)
	}
	d.setHead(r.Head(), nil)
	for e, err := range r.Entries() {
		if err != nil {
			return d.fail(err)
		}
		d.count(e.Change)
		if err := d.readBitstream(e)(r.Open(e)); err != nil {
			return err
		}
		for _, l := range e.Links {
			if err := d.readBitstream(e)(r.OpenLink(l)); err != nil {
				return err
			}
		}
	}
	x.warn(d)(r.Tolerated(), r.TolerationCount())
	for _, name := range r.Extra() {
		d.add(x.tolerable(Finding{Rule: "DOC-38", Message: fmt.Sprintf("the package has a file %q that its manifest does not name", name)}))
	}
	return nil
}

// readBitstream reads one of the bitstreams of e, if there is one. Only that shows
// whether the manifest is right.
func (d *Document) readBitstream(e resourcesync.Entry) func(io.ReadCloser, error) error {
	return func(r io.ReadCloser, err error) error {
		if errors.Is(err, resourcesync.ErrNoBitstream) {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			_ = r.Close() // only read
		}
		var wrong *resourcesync.Error
		if errors.As(err, &wrong) {
			placed := *wrong
			placed.Line, placed.Column = e.Line, e.Column
			err = &placed
		}
		if err != nil {
			return d.fail(err)
		}
		return nil
	}
}
