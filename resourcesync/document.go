package resourcesync

import (
	"fmt"
	"io"
)

// document walks the structure that all ResourceSync documents on urlset share:
// a root with rs:md and rs:ln, and url entries with loc, lastmod, rs:md and
// rs:ln, in any order (DOC-51). What a kind of document demands beyond that is
// the business of its own reader.
type document struct {
	*scanner
	// keep says that the values of entries are wanted, not only checked.
	keep bool
	// onRoot, where set, is called when the root's rs:md has been read.
	onRoot func() error

	begun             bool
	rootLine, rootCol int
	root              metadata // of the root; its line is 0 before it was read
	up                string   // href of the root's first rs:ln rel="up"
	entries           int
	entry             entry
	link              Link
	content           []byte // of the element that is read as one value
	contentAt         int64  // where it begins in the document
}

func newDocument(r io.Reader, l Limits) document {
	return document{scanner: newScanner(r, l)}
}

// bad is an error of a rule of ResourceSync at buf[off]. The scanner itself
// could go on.
func (d *document) bad(rule string, off int, format string, args ...any) error {
	line, column := d.locate(off)
	return badAt(rule, line, column, format, args...)
}

func badAt(rule string, line, column int, format string, args ...any) error {
	return &Error{Kind: BadDocument, Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)}
}

// begin reads up to the start tag of the root.
func (d *document) begin() error {
	d.begun = true
	if _, err := d.next(); err != nil {
		return err
	}
	d.rootLine, d.rootCol = d.locate(d.tok)
	switch {
	case d.ns == nsSitemap && string(d.local) == "urlset":
		return d.attributes(0, nil)
	case d.ns == nsSitemap && string(d.local) == "sitemapindex":
		return d.bad("DOC-11", d.tok, "the root element is sitemapindex; a notification must be one urlset, so send it in several notifications")
	case string(d.local) == "urlset":
		return d.bad("DOC-10", d.tok, "the root element urlset is in the namespace %s; it must be %s",
			quote([]byte(d.uriOf(d.ns))), sitemapURI)
	}
	return d.bad("DOC-10", d.tok, "the root element is %s; it must be urlset in the namespace %s", quote(d.tag.name), sitemapURI)
}

// nextEntry reads the next url element into d.entry. It returns false after the
// last, when the document has been read to its end.
func (d *document) nextEntry() (bool, error) {
	if !d.begun {
		if err := d.begin(); err != nil {
			return false, err
		}
	}
	for {
		ev, err := d.next()
		switch {
		case err == io.EOF: //nolint:errorlint // next returns it as it is
			return false, nil
		case err != nil:
			return false, err
		case ev == evText:
			err = d.blank("DOC-10", "urlset")
		case ev == evEnd:
			continue // of the root; only white space and comments follow
		case d.ns == nsSitemap && string(d.local) == "url":
			return true, d.readEntry()
		case d.ns == nsSitemap:
			err = d.strayInRoot()
		case d.ns == nsRS && string(d.local) == "md":
			err = d.rootMetadata()
		case d.ns == nsRS && string(d.local) == "ln":
			err = d.rootLink()
		default:
			err = d.skip()
		}
		if err != nil {
			return false, err
		}
	}
}

func (d *document) strayInRoot() error {
	switch string(d.local) {
	case "sitemap":
		return d.bad("DOC-11", d.tok, "a sitemap element belongs in an index; a notification has url elements only")
	case "md", "ln":
		return d.bad("DOC-10", d.tok, "the element %s is in the namespace of sitemaps; it must be in %s, as rs:%s", quote(d.tag.name), rsURI, d.local)
	}
	return d.bad("DOC-10", d.tok, "the element %s does not belong in a urlset", quote(d.tag.name))
}

func (d *document) rootMetadata() error {
	if d.root.line != 0 {
		return d.bad("DOC-12", d.tok, "a second rs:md of the whole document; there must be one")
	}
	if err := d.readMetadata(&d.root); err != nil {
		return err
	}
	if d.onRoot != nil {
		if err := d.onRoot(); err != nil {
			return err
		}
	}
	return d.empty("rs:md")
}

func (d *document) rootLink() error {
	var rel relation
	keep := d.keep
	d.keep = true // there are few of them, and one is wanted in any case
	err := d.readLink(&d.link, &rel)
	d.keep = keep
	if err != nil {
		return err
	}
	if rel == relUp && d.up == "" {
		d.up = d.link.Href
	}
	return d.empty("rs:ln")
}

// blank refuses the current text unless it is white space.
func (d *document) blank(rule, where string) error {
	text := d.text
	if isBlank(text) {
		return nil
	}
	off := d.tok
	for _, c := range text {
		if !isSpace(c) {
			break
		}
		off++
	}
	return d.bad(rule, off, "text stands in %s, between its elements", where)
}

// empty reads the rest of an element that holds nothing but perhaps foreign
// elements.
func (d *document) empty(what string) error {
	for {
		ev, err := d.next()
		switch {
		case err != nil:
			return err
		case ev == evEnd:
			return nil
		case ev == evText:
			err = d.blank("DOC-51", what)
		case d.ns == nsSitemap || d.ns == nsRS:
			return d.bad("DOC-51", d.tok, "the element %s stands within %s, which must be empty; close it before", quote(d.tag.name), what)
		default:
			err = d.skip()
		}
		if err != nil {
			return err
		}
	}
}

// skip passes over the element whose start tag is current and all it holds.
func (d *document) skip() error {
	for depth := len(d.open); ; {
		if _, err := d.next(); err != nil {
			return err
		}
		if len(d.open) < depth {
			return nil
		}
	}
}
