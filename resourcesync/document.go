package resourcesync

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// document walks the structure that all ResourceSync documents share: a root
// with rs:md and rs:ln, and entries with loc, lastmod, rs:md and rs:ln, in any
// order (DOC-51). The readers check what a kind of document demands beyond that.
//
// The first error, of XML or of a rule, is that of the scanner and ends the walk: there
// are no more events, and later errors and tolerations are dropped. So no method returns
// an error.
type document struct {
	xml *scanner
	// keep says that the values of entries are returned, not only checked.
	keep bool
	// general says that any document is read, and not only notifications: indexes as
	// well, and the order of the elements is checked.
	general bool
	// anyLoc says that a tolerant reader accepts a loc that is not absolute.
	anyLoc bool
	// tolerated, if set, collects deviations whose meaning is clear. Otherwise they are
	// errors.
	tolerated *tolerations
	// oddLocs, if set, collects the addresses that a Writer would not write. They are
	// no errors unless general is set.
	oddLocs *tolerations
	// oddHashes, if set, collects the hashes that nothing can be compared with.
	oddHashes *tolerations
	// onRoot, if set, is called after the root's rs:md, and onLink after each of its
	// rs:ln, which is in ln.
	onRoot, onLink func()

	index               bool // the root is a sitemapindex
	rootName, entryName string
	rootLine, rootCol   int      // 0 before the root was read
	root                metadata // its line is 0 before it was read
	up                  string   // href of the root's first rs:ln rel="up"
	entries             int
	entry               entry
	ln                  metadata          // the last rs:ln
	words               [textCount]string // the last value of each attribute of rs:md and rs:ln
	changeFreq          string            // that of the entry before
	priority            string
	content             []byte // of the element that is read as one value
	contentAt           int64  // where it begins in the document
}

func newDocument(r io.Reader, l Limits) document {
	return document{xml: newScanner(r, l)}
}

// elementNames returns the names of the root and of its entries.
func elementNames(index bool) (root, entry string) {
	if index {
		return "sitemapindex", "sitemap"
	}
	return "urlset", "url"
}

// err returns the error, which is io.EOF after the end of the document.
func (d *document) err() error { return d.xml.in.err }

// failed reports whether there was an error, the end of the document not being one.
func (d *document) failed() bool {
	return d.err() != nil && d.err() != io.EOF //nolint:errorlint // the scanner sets it as it is
}

// fail keeps err, unless it is nil or there was an error before.
func (d *document) fail(err error) {
	if err != nil && !d.failed() {
		d.xml.in.err = err
	}
}

// bad fails because of a rule of ResourceSync at buf[off]. The scanner itself could go
// on.
func (d *document) bad(rule string, off int, format string, args ...any) {
	line, column := d.xml.in.locate(off)
	d.fail(badAt(rule, line, column, format, args...))
}

// overLimit fails because of a limit at the current token.
func (d *document) overLimit(rule, format string, args ...any) {
	if !d.failed() {
		d.xml.in.fail(OverLimit, rule, d.xml.tok, format, args...)
	}
}

// odd is bad for what a tolerant reader accepts and notes.
func (d *document) odd(rule string, off int, format string, args ...any) {
	line, column := d.xml.in.locate(off)
	d.oddAt(rule, line, column, format, args...)
}

func (d *document) oddAt(rule string, line, column int, format string, args ...any) {
	switch {
	case d.failed():
	case d.tolerated == nil:
		d.fail(badAt(rule, line, column, format, args...))
	default:
		d.tolerated.add(rule, line, column, format, args...)
	}
}

func badAt(rule string, line, column int, format string, args ...any) error {
	return &Error{Kind: BadDocument, Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)}
}

// is reports whether the current start tag is of this element.
func (d *document) is(ns namespace, local string) bool {
	return d.xml.ns == ns && string(d.xml.local) == local
}

// begin reads up to the start tag of the root.
func (d *document) begin() {
	if d.xml.next() == evNone {
		return
	}
	d.rootLine, d.rootCol = d.xml.in.locate(d.xml.tok)
	d.index = d.is(nsSitemap, "sitemapindex")
	d.rootName, d.entryName = elementNames(d.index)
	switch {
	case d.index && !d.general:
		d.bad("DOC-11", d.xml.tok, "the root element is sitemapindex; a notification must be one urlset, so send it in several notifications")
	case d.index, d.is(nsSitemap, "urlset"):
		d.attributes(nil, 0)
	case string(d.xml.local) == "urlset":
		d.bad("DOC-10", d.xml.tok, "the root element urlset is in the namespace %s; it must be %s",
			quote([]byte(d.xml.scopes.uriOf(d.xml.ns))), sitemapURI)
	case d.general:
		d.bad("DOC-10", d.xml.tok, "the root element is %s; it must be urlset or sitemapindex in the namespace %s", quote(d.xml.tag.name), sitemapURI)
	default:
		d.bad("DOC-10", d.xml.tok, "the root element is %s; it must be urlset in the namespace %s", quote(d.xml.tag.name), sitemapURI)
	}
}

// nextEntry reads the next url or sitemap element into d.entry. It returns false
// after the last one and after an error.
func (d *document) nextEntry() bool {
	if d.rootLine == 0 {
		d.begin()
	}
	for ev := d.xml.next(); ev != evNone; ev = d.xml.next() {
		switch {
		case ev == evText:
			d.blank("DOC-10", d.rootName)
		case ev == evEnd: // of the root; only white space and comments follow
		case d.is(nsSitemap, d.entryName):
			d.readEntry()
			return !d.failed()
		case d.xml.ns == nsSitemap:
			d.strayInRoot()
		case d.is(nsRS, "md"):
			d.rootMetadata()
		case d.is(nsRS, "ln"):
			d.rootLink()
		default:
			d.foreign()
		}
	}
	return false
}

// strayInRoot checks an element of the sitemap namespace that is no entry.
func (d *document) strayInRoot() {
	switch string(d.xml.local) {
	case "sitemap":
		d.bad("DOC-11", d.xml.tok, "a sitemap element belongs in an index; a notification has url elements only")
	case "url":
		d.bad("DOC-11", d.xml.tok, "a url element belongs in a urlset; an index has sitemap elements only")
	default:
		d.stray("DOC-10", d.rootName)
	}
}

// stray reports and skips an element of the sitemap namespace that belongs neither in the
// root nor in an entry.
func (d *document) stray(rule, within string) {
	if local := string(d.xml.local); local == "md" || local == "ln" {
		d.bad("DOC-10", d.xml.tok, "the element %s is in the namespace of sitemaps; it must be in %s, as rs:%s", quote(d.xml.tag.name), rsURI, local)
	}
	d.odd(rule, d.xml.tok, "the element %s does not belong in a %s", quote(d.xml.tag.name), within)
	d.skip()
}

// foreign skips an element of another namespace. It reports md and ln of one that nearly is that of ResourceSync: without them
// the document would count as a plain sitemap, and a Change List as all that there is.
func (d *document) foreign() {
	if local := string(d.xml.local); local == "md" || local == "ln" {
		if uri := d.xml.scopes.uriOf(d.xml.ns); bareURI(uri) == bareURI(rsURI) {
			d.bad("DOC-10", d.xml.tok, "the element %s is in the namespace %s; it must be in %s", quote(d.xml.tag.name), quote([]byte(uri)), rsURI)
		}
	}
	d.skip()
}

// late notes an element of the root that stands after the first entry.
func (d *document) late(what string) {
	if d.general && d.entries > 0 {
		d.odd("DOC-51", d.xml.tok, "%s of the document stands after its first %s; it belongs before", what, d.entryName)
	}
}

func (d *document) rootMetadata() {
	if d.root.line != 0 {
		d.bad("DOC-12", d.xml.tok, "a second rs:md of the whole document; there must be one")
	}
	d.late("rs:md")
	d.readMetadata(&d.root)
	if d.onRoot != nil && !d.failed() {
		d.onRoot()
	}
	d.empty("rs:md")
}

// readMetadata reads the attributes of the rs:md whose start tag is current into m,
// which is zero.
func (d *document) readMetadata(m *metadata) {
	m.line, m.column = d.xml.in.locate(d.xml.tok)
	d.attributes(m, mdFields)
}

func (d *document) rootLink() {
	d.late("an rs:ln")
	keep := d.keep
	d.keep = true // there are few of them, and up is needed in any case
	if d.readLink() && !d.failed() {
		if d.up == "" && strings.EqualFold(d.ln.text(fldRel), "up") {
			d.up = d.ln.text(fldHref)
		}
		if d.onLink != nil {
			d.onLink()
		}
	}
	d.keep = keep
	d.empty("rs:ln")
}

// blank reports the current text, unless it is white space.
func (d *document) blank(rule, where string) {
	if text := trimSpace(d.xml.text); len(text) > 0 {
		d.odd(rule, d.xml.tok+bytes.Index(d.xml.text, text), "text stands in %s, between its elements", where)
	}
}

// empty reads the rest of an element that contains nothing except foreign elements.
func (d *document) empty(what string) {
	for ev := d.xml.next(); ev == evStart || ev == evText; ev = d.xml.next() {
		if ev == evText {
			d.blank("DOC-51", what)
			continue
		}
		if d.xml.ns == nsSitemap || d.xml.ns == nsRS {
			d.odd("DOC-51", d.xml.tok, "the element %s stands within %s, which must be empty; close it before", quote(d.xml.tag.name), what)
		}
		d.skip()
	}
}

// skip skips the element whose start tag is current, with its content.
func (d *document) skip() {
	depth := len(d.xml.open)
	for d.xml.next() != evNone && len(d.xml.open) >= depth {
		continue
	}
}
