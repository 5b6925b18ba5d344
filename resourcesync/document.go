package resourcesync

import (
	"fmt"
	"io"
)

// document walks the structure that all ResourceSync documents share: a root
// with rs:md and rs:ln, and entries with loc, lastmod, rs:md and rs:ln, in any
// order (DOC-51). What a kind of document demands beyond that is the business of
// its own reader.
type document struct {
	xml *scanner
	// keep says that the values of entries are wanted, not only checked.
	keep bool
	// general says that any document is read, not a notification alone: an index
	// too, and with an eye on the order of the elements.
	general bool
	// anyLoc says that a loc need not be absolute to be let pass.
	anyLoc bool
	// pardons, where set, lets pass what leaves no doubt about the meaning.
	pardons *pardons
	// oddLocs, where set, takes the addresses that a Writer would not write. Without
	// general they are let pass in any case.
	oddLocs *pardons
	// oddHashes, where set, takes the hashes that nothing can be compared with.
	oddHashes *pardons
	// onRoot, where set, is called when the root's rs:md has been read, and
	// onLink after each of its rs:ln, which is in link.
	onRoot, onLink func() error

	begun             bool
	index             bool // the root is a sitemapindex
	rootLine, rootCol int
	root              metadata // of the root; its line is 0 before it was read
	up                string   // href of the root's first rs:ln rel="up"
	entries           int
	entry             entry
	link              Link
	words             [len(fieldNames)]string // the last value of each attribute that often has the same
	changeFreq        string                  // that of the entry before
	priority          string
	content           []byte // of the element that is read as one value
	contentAt         int64  // where it begins in the document
}

func newDocument(r io.Reader, l Limits) document {
	return document{xml: newScanner(r, l)}
}

// bad is an error of a rule of ResourceSync at buf[off]. The scanner itself
// could go on.
func (d *document) bad(rule string, off int, format string, args ...any) error {
	line, column := d.xml.in.locate(off)
	return badAt(rule, line, column, format, args...)
}

// odd is bad for what a tolerant reader lets pass. It returns nil if it does.
func (d *document) odd(rule string, off int, format string, args ...any) error {
	if d.pardons == nil {
		return d.bad(rule, off, format, args...)
	}
	line, column := d.xml.in.locate(off)
	d.pardons.add(rule, line, column, format, args...)
	return nil
}

// oddValue is odd for the attribute a, which is then passed over.
func (d *document) oddValue(rule string, a *attr, format string, args ...any) error {
	if err := d.odd(rule, a.off, format, args...); err != nil {
		return err
	}
	return errPassedOver
}

func badAt(rule string, line, column int, format string, args ...any) error {
	return &Error{Kind: BadDocument, Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)}
}

// begin reads up to the start tag of the root.
func (d *document) begin() error {
	d.begun = true
	if _, err := d.xml.next(); err != nil {
		return err
	}
	d.rootLine, d.rootCol = d.xml.in.locate(d.xml.tok)
	switch {
	case d.xml.ns == nsSitemap && string(d.xml.local) == "urlset":
		return d.attributes(0, nil, nil)
	case d.xml.ns == nsSitemap && string(d.xml.local) == "sitemapindex" && d.general:
		d.index = true
		return d.attributes(0, nil, nil)
	case d.xml.ns == nsSitemap && string(d.xml.local) == "sitemapindex":
		return d.bad("DOC-11", d.xml.tok, "the root element is sitemapindex; a notification must be one urlset, so send it in several notifications")
	case string(d.xml.local) == "urlset":
		return d.bad("DOC-10", d.xml.tok, "the root element urlset is in the namespace %s; it must be %s",
			quote([]byte(d.xml.scopes.uriOf(d.xml.ns))), sitemapURI)
	}
	wanted := "urlset"
	if d.general {
		wanted = "urlset or sitemapindex"
	}
	return d.bad("DOC-10", d.xml.tok, "the root element is %s; it must be %s in the namespace %s", quote(d.xml.tag.name), wanted, sitemapURI)
}

// rootName and entryName are the names of the root and of its entries.
func (d *document) rootName() string {
	if d.index {
		return "sitemapindex"
	}
	return "urlset"
}

func (d *document) entryName() string {
	if d.index {
		return "sitemap"
	}
	return "url"
}

// nextEntry reads the next url or sitemap element into d.entry. It returns false
// after the last, when the document has been read to its end.
func (d *document) nextEntry() (bool, error) {
	if !d.begun {
		if err := d.begin(); err != nil {
			return false, err
		}
	}
	for {
		ev, err := d.xml.next()
		switch {
		case err == io.EOF: //nolint:errorlint // next returns it as it is
			return false, nil
		case err != nil:
			return false, err
		case ev == evText:
			err = d.blank("DOC-10", d.rootName())
		case ev == evEnd:
			continue // of the root; only white space and comments follow
		case d.xml.ns == nsSitemap && string(d.xml.local) == d.entryName():
			return true, d.readEntry()
		case d.xml.ns == nsSitemap:
			err = d.strayInRoot()
		case d.xml.ns == nsRS && string(d.xml.local) == "md":
			err = d.rootMetadata()
		case d.xml.ns == nsRS && string(d.xml.local) == "ln":
			err = d.rootLink()
		default:
			err = d.skip()
		}
		if err != nil {
			return false, err
		}
	}
}

// strayInRoot judges an element of the sitemap namespace that is no entry.
func (d *document) strayInRoot() error {
	switch string(d.xml.local) {
	case "sitemap":
		return d.bad("DOC-11", d.xml.tok, "a sitemap element belongs in an index; a notification has url elements only")
	case "url":
		return d.bad("DOC-11", d.xml.tok, "a url element belongs in a urlset; an index has sitemap elements only")
	}
	return d.stray()
}

// stray judges an element of the sitemap namespace that belongs neither in the
// root nor in an entry.
func (d *document) stray() error {
	switch string(d.xml.local) {
	case "md", "ln":
		return d.bad("DOC-10", d.xml.tok, "the element %s is in the namespace of sitemaps; it must be in %s, as rs:%s", quote(d.xml.tag.name), rsURI, d.xml.local)
	}
	if err := d.odd("DOC-10", d.xml.tok, "the element %s does not belong in a %s", quote(d.xml.tag.name), d.rootName()); err != nil {
		return err
	}
	return d.skip()
}

// late notes an element of the root that stands after the first entry.
func (d *document) late(what string) error {
	if !d.general || d.entries == 0 {
		return nil
	}
	return d.odd("DOC-51", d.xml.tok, "%s of the document stands after its first %s; it belongs before", what, d.entryName())
}

func (d *document) rootMetadata() error {
	if d.root.line != 0 {
		return d.bad("DOC-12", d.xml.tok, "a second rs:md of the whole document; there must be one")
	}
	if err := d.late("rs:md"); err != nil {
		return err
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
	if err := d.late("an rs:ln"); err != nil {
		return err
	}
	var rel relation
	keep := d.keep
	d.keep = true // there are few of them, and one is wanted in any case
	ok, err := d.readLink(&d.link, &rel)
	d.keep = keep
	if ok && rel == relUp && d.up == "" {
		d.up = d.link.Href
	}
	if ok && d.onLink != nil {
		err = d.onLink()
	}
	if err != nil {
		return err
	}
	return d.empty("rs:ln")
}

// blank refuses the current text unless it is white space.
func (d *document) blank(rule, where string) error {
	text := d.xml.text
	if isBlank(text) {
		return nil
	}
	off := d.xml.tok
	for _, c := range text {
		if !isSpace(c) {
			break
		}
		off++
	}
	return d.odd(rule, off, "text stands in %s, between its elements", where)
}

// empty reads the rest of an element that holds nothing but perhaps foreign
// elements.
func (d *document) empty(what string) error {
	for {
		ev, err := d.xml.next()
		switch {
		case err != nil:
			return err
		case ev == evEnd:
			return nil
		case ev == evText:
			err = d.blank("DOC-51", what)
		case d.xml.ns == nsSitemap || d.xml.ns == nsRS:
			err = d.odd("DOC-51", d.xml.tok, "the element %s stands within %s, which must be empty; close it before", quote(d.xml.tag.name), what)
			if err == nil {
				err = d.skip()
			}
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
	for depth := len(d.xml.open); ; {
		if _, err := d.xml.next(); err != nil {
			return err
		}
		if len(d.xml.open) < depth {
			return nil
		}
	}
}
