package resourcesync

import (
	"fmt"
	"io"
	"time"
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

// entry is one url element. It is used again for the next.
type entry struct {
	line, column          int
	hasLoc, hasMod, hasMD bool
	loc                   string
	lastMod               time.Time
	md                    metadata
	links                 []Link
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
		return d.bad("DOC-11", d.tok, "a sitemap element belongs into an index; a notification has url elements only")
	case "md", "ln":
		return d.bad("DOC-10", d.tok, "the element %s is in the namespace of sitemaps; it must be in %s, as rs:%s", quote(d.tag.name), rsURI, d.local)
	}
	return d.bad("DOC-10", d.tok, "the element %s does not belong into a urlset", quote(d.tag.name))
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

// readEntry reads a url element whose start tag is current.
func (d *document) readEntry() error {
	e := &d.entry
	*e = entry{links: e.links[:0]}
	e.line, e.column = d.locate(d.tok)
	if d.entries++; d.entries > d.limits.Entries {
		return d.fail(OverLimit, "DOC-60", d.tok, "the document has more than %d entries; split it in two notifications", d.limits.Entries)
	}
	for i := range d.attrs {
		if a := &d.attrs[i]; !a.declares {
			return d.bad("DOC-15", a.off, "url has the attribute %s; it must have none", quote(d.attrName(a)))
		}
	}
	if d.keep {
		e.links = nil // they are given away
	}
	for {
		ev, err := d.next()
		switch {
		case err != nil:
			return err
		case ev == evText:
			err = d.blank("DOC-15", "url")
		case ev == evEnd:
			if !e.hasLoc {
				return badAt("DOC-16", e.line, e.column, "this url lacks loc, the address of the resource")
			}
			return nil
		case d.ns == nsSitemap:
			err = d.sitemapChild(e)
		case d.ns == nsRS && string(d.local) == "md":
			if e.hasMD {
				return d.bad("DOC-17", d.tok, "a second rs:md in one url; there must be one")
			}
			e.hasMD = true
			if err = d.readMetadata(&e.md); err == nil {
				err = d.empty("rs:md")
			}
		case d.ns == nsRS && string(d.local) == "ln":
			err = d.entryLink(e)
		default:
			err = d.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (d *document) entryLink(e *entry) error {
	var rel relation
	if err := d.readLink(&d.link, &rel); err != nil {
		return err
	}
	if d.keep {
		e.links = append(e.links, d.link)
	}
	return d.empty("rs:ln")
}

// sitemapChild reads an element of the sitemap namespace within a url.
func (d *document) sitemapChild(e *entry) error {
	switch string(d.local) {
	case "loc":
		if e.hasLoc {
			return d.bad("DOC-16", d.tok, "a second loc in one url; there must be one")
		}
		e.hasLoc = true
		v, err := d.textOf("DOC-16", "loc")
		switch {
		case err != nil:
			return err
		case len(v) == 0:
			return d.badContent("DOC-16", "loc is empty; it must be the address of the resource")
		case !isAbsoluteURI(v):
			return d.badContent("DOC-16", "loc is %s; it must be an absolute URI such as https://example.org/a", quote(v))
		case d.keep:
			e.loc = string(v)
		}
		return nil
	case "lastmod":
		if e.hasMod {
			return d.bad("DOC-16", d.tok, "a second lastmod in one url; there may be one")
		}
		e.hasMod = true
		v, err := d.textOf("DOC-16", "lastmod")
		if err != nil {
			return err
		}
		var fault string
		if e.lastMod, fault = parseDatetime(v); fault != "" {
			return d.badContent("DOC-59", "lastmod is %s, which is not a W3C datetime: %s", quote(v), fault)
		}
		return nil
	case "changefreq", "priority":
		_, err := d.textOf("DOC-15", string(d.local))
		return err
	case "md", "ln":
		return d.strayInRoot()
	}
	return d.bad("DOC-15", d.tok, "the element %s does not belong into a url", quote(d.tag.name))
}

// textOf reads an element that holds text alone, and returns the text without
// white space around it. It is good until the next call.
func (d *document) textOf(rule, what string) ([]byte, error) {
	if err := d.attributes(0, nil); err != nil {
		return nil, err
	}
	d.content = d.content[:0]
	d.contentAt = d.base + int64(d.p)
	for {
		ev, err := d.next()
		switch {
		case err != nil:
			return nil, err
		case ev == evEnd:
			return trimSpace(d.content), nil
		case ev == evStart:
			return nil, d.bad(rule, d.tok, "the element %s stands within %s, which may hold text only", quote(d.tag.name), what)
		case len(d.content)+len(d.text) > d.limits.Token:
			return nil, d.fail(OverLimit, "XML", d.tok, "the text of %s is longer than %d bytes", what, d.limits.Token)
		}
		d.content = append(d.content, d.text...)
	}
}

// badContent is an error of the text that textOf returned last. Where its
// beginning has left the window, the place is as near to it as is known.
func (d *document) badContent(rule, format string, args ...any) error {
	return d.bad(rule, int(max(d.contentAt-d.base, 0)), format, args...)
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

// isAbsoluteURI reports whether b looks like a URI, or an IRI, with a scheme.
// It is lenient beyond that: a hub does not fetch what it relays.
func isAbsoluteURI(b []byte) bool {
	scheme := 0
	for scheme < len(b) && b[scheme] < 0x80 && (classes[b[scheme]]&clsName != 0 && b[scheme] != '_' || b[scheme] == '+') {
		scheme++
	}
	if scheme == 0 || scheme >= len(b)-1 || b[scheme] != ':' || b[0]|0x20 < 'a' || b[0]|0x20 > 'z' {
		return false
	}
	for _, c := range b[scheme:] {
		if c <= ' ' || c == 0x7F {
			return false
		}
	}
	return true
}
