package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// document is one that was looked at.
type document struct {
	verdict

	head resourcesync.Head
	// listed are the entries of a document that lists others; where there is no
	// such thing it is empty.
	listed []resourcesync.Entry
	// requested and final are its URL before and after redirects; empty where it
	// came from elsewhere.
	requested, final string
}

// judge looks at a document by itself. With strict, what is tolerated fails it.
func judge(in input, strict bool) (*document, error) {
	d := &document{verdict: verdict{File: in.name, Valid: true}, requested: in.requested, final: in.final}
	if in.isPackage() {
		return d, d.readPackage(in, strict)
	}
	body, err := in.document()
	if err != nil {
		d.add(finding{Level: levelFail, Kind: resourcesync.NotWellFormed.String(), Rule: "DOC-60", Message: err.Error()})
		return d, nil
	}
	r := resourcesync.NewReader(body.reader(), resourcesync.ReadOptions{})
	d.takeHead(r.Head())
	if isNotification(d.Capability) {
		return d, d.readNotification(body, strict)
	}
	wrong := d.readEntries(r)
	d.takeHead(r.Head()) // what the document says late is known now
	if isNotification(d.Capability) {
		return d, d.readNotification(body, strict)
	}
	d.noteHashes(r, strict)
	d.tolerated(r, strict)
	if wrong != nil {
		err = d.takeError(wrongerStill(body, wrong))
		d.hint(body)
	}
	slices.SortStableFunc(d.Findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d, err
}

// readEntries reads the document to its end or to what is wrong with it.
func (d *document) readEntries(r *resourcesync.Reader) error {
	d.takeHead(r.Head())
	lists := listRule(d.head) != ""
	for e, err := range r.Entries() {
		if err != nil {
			return err
		}
		d.count(e.Change)
		if lists {
			d.listed = append(d.listed, e)
		}
	}
	return nil
}

// tolerable gives a finding the level of what is tolerated.
func tolerable(strict bool, f finding) finding {
	f.Level = levelWarn
	if strict {
		f.Level, f.Kind = levelFail, resourcesync.BadDocument.String()
	}
	return f
}

// takeHead takes a head over. Its error comes with the entries, too.
func (d *document) takeHead(h resourcesync.Head, _ error) {
	d.head = h
	d.Capability, d.Index = h.Capability, h.Index
	d.At, d.Completed, d.From, d.Until = h.At, h.Completed, h.From, h.Until
	up, _ := h.Link("up")
	d.Up = up.Href
}

func (d *document) count(change string) {
	d.Entries++
	switch change {
	case resourcesync.Created:
		d.Created++
	case resourcesync.Updated:
		d.Updated++
	case resourcesync.Deleted:
		d.Deleted++
	}
}

// readNotification holds a notification against the rules of a hub. It gives one
// line, unless what a hub tolerates fails it, too, or there are addresses that a hub
// takes and others may not make out.
func (d *document) readNotification(body body, strict bool) error {
	r := resourcesync.NewNotificationReader(body.reader(), resourcesync.DefaultLimits)
	n, err := r.Check()
	if err != nil {
		d.verdict = verdict{File: d.File, Valid: true}
		return d.takeError(err)
	}
	d.Legacy, d.Up, d.Entries = n.Legacy, n.Up, n.Entries
	d.Created, d.Updated, d.Deleted = n.Counts.Created, n.Counts.Updated, n.Counts.Deleted
	d.noteHashes(r, strict)
	if !strict {
		first, all := r.OddLocs()
		d.take(first, all, strict)
		return nil
	}
	all := resourcesync.NewReader(body.reader(), resourcesync.ReadOptions{})
	for _, err := range all.Entries() {
		if err != nil {
			return d.takeError(err)
		}
	}
	d.tolerated(all, strict)
	return nil
}

// noteHashes takes down the hashes that nothing can be compared with.
func (d *document) noteHashes(r hasher, strict bool) {
	odd, all := r.OddHashes()
	d.take(odd, all, strict)
}

// hasher is a Reader or a NotificationReader.
type hasher interface {
	OddHashes() ([]resourcesync.Toleration, int)
}

// tolerant is a Reader or a DumpReader.
type tolerant interface {
	Tolerated() []resourcesync.Toleration
	TolerationCount() int
}

// tolerated takes down what a reader let pass.
func (d *document) tolerated(r tolerant, strict bool) {
	d.take(r.Tolerated(), r.TolerationCount(), strict)
}

// take takes down what was let pass: the first of it, and how much there is in all.
func (d *document) take(first []resourcesync.Toleration, all int, strict bool) {
	for _, t := range first {
		d.add(tolerable(strict, finding{Rule: t.Rule, Line: t.Line, Column: t.Column, Message: t.Msg}))
	}
	d.Untold += all - len(first)
}

// takeError takes down what is wrong with a document, and returns an error that
// is not the document's.
func (d *document) takeError(err error) error {
	var wrong *resourcesync.Error
	if !errors.As(err, &wrong) {
		return fmt.Errorf("reading %s: %w", d.File, err)
	}
	d.fail(wrong)
	return nil
}

// wrongerStill looks whether a document that breaks a rule is well-formed at
// all, which CheckNotification does whatever the document is.
func wrongerStill(body body, broken error) error {
	var first, second *resourcesync.Error
	_, err := resourcesync.CheckNotification(body.reader(), resourcesync.DefaultLimits)
	if errors.As(broken, &first) && first.Kind == resourcesync.BadDocument &&
		errors.As(err, &second) && second.Kind != resourcesync.BadDocument {
		return err
	}
	return broken
}

// hint says where to go on from a web page, if that is what the document is.
func (d *document) hint(body body) {
	links, err := resourcesync.LinksFromHTML(body.reader(), d.final)
	if err != nil {
		return
	}
	for _, l := range links {
		if strings.EqualFold(l.Rel, "resourcesync") {
			d.add(finding{
				Level: levelWarn, Rule: "SRC-13",
				Message: fmt.Sprintf("this is a web page, and its link to a Capability List leads to %s", l.Href),
			})
		}
	}
}

// readPackage looks at a package of a dump and all that it holds.
func (d *document) readPackage(in input, strict bool) error {
	if in.cut {
		return Fail(ExitFailure, "the package %s is too large to be held in memory; save it as a file, and validate that", in.name)
	}
	r, err := resourcesync.NewDumpReader(in.at, in.size, resourcesync.DumpReadOptions{Strict: strict})
	if err != nil {
		return d.takeError(err)
	}
	d.takeHead(r.Head(), nil)
	for e, err := range r.Entries() {
		if err != nil {
			return d.takeError(err)
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
	d.tolerated(r, strict)
	for _, name := range r.Extra() {
		d.add(tolerable(strict, finding{Rule: "DOC-38", Message: fmt.Sprintf("the package holds a file %q that its manifest does not name", name)}))
	}
	return nil
}

// readBitstream reads one of the bitstreams of e, if there is one, as its manifest
// is to be believed only then.
func (d *document) readBitstream(e resourcesync.Entry) func(io.ReadCloser, error) error {
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
			d.fail(&placed)
			return nil
		}
		return err
	}
}
