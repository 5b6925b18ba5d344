package resourcesync

import (
	"bytes"
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// entry is one url or sitemap element.
type entry struct {
	line, column         int
	seen                 child  // the children that were there
	loc, written         string // written: if it is not loc
	lastMod              time.Time
	changeFreq, priority string
	md                   metadata
	links                []Link
}

// child is a set of the children that an entry knows, in the order in which the
// schema has them (DOC-51).
type child uint8

const (
	childLoc child = 1 << iota
	childLastMod
	childChangeFreq
	childPriority
	childMD
	childLink // may stand before rs:md as well
)

// childNames are the names of the children in the sitemap namespace, in the order of
// the bits. A sitemap element has the first two only.
var childNames = [...]string{"loc", "lastmod", "changefreq", "priority"}

var lastMod = []byte("lastmod")

// export returns e as an Entry.
func (e *entry) export() Entry {
	m := &e.md
	return Entry{
		Loc: e.loc, Written: e.written, LastMod: e.lastMod, ChangeFreq: e.changeFreq, Priority: e.priority,
		Change: m.change, Datetime: m.time(fldDatetime), Capability: m.text(fldCapability),
		At: m.time(fldAt), Completed: m.time(fldCompleted), From: m.time(fldFrom), Until: m.time(fldUntil), Modified: m.time(fldModified),
		Length: m.length, HasLength: m.has(fldLength),
		Hash: m.text(fldHash), Type: m.text(fldType), Encoding: m.text(fldEncoding), Path: m.text(fldPath),
		Links: e.links, Attributes: m.foreign, Line: e.line, Column: e.column,
	}
}

// readEntry reads a url or sitemap element whose start tag is current.
func (d *document) readEntry() {
	e := &d.entry
	*e = entry{}
	e.line, e.column = d.xml.in.locate(d.xml.tok)
	if d.entries++; d.entries > d.xml.in.limits.Entries {
		d.overLimit("DOC-60", "the document has more than %d entries; %s", d.xml.in.limits.Entries, d.xml.in.advice)
	}
	for i := range d.xml.attrs {
		if a := &d.xml.attrs[i]; !a.declares {
			d.odd("DOC-15", a.off, "%s has the attribute %s; it must have none", d.entryName, quote(d.xml.attrName(a)))
		}
	}
	for ev := d.xml.next(); ev == evStart || ev == evText; ev = d.xml.next() {
		switch {
		case ev == evText:
			d.blank("DOC-15", d.entryName)
		case d.xml.ns == nsSitemap:
			d.sitemapChild(e)
		case d.is(nsRS, "md"):
			if e.seen&childMD != 0 {
				d.bad("DOC-17", d.xml.tok, "a second rs:md in one %s; there must be one", d.entryName)
			}
			e.seen |= childMD
			d.readMetadata(&e.md)
			d.empty("rs:md")
		case d.is(nsRS, "ln"):
			e.seen |= childLink
			if d.readLink() && d.keep {
				e.links = d.addLink(e.links, d.ln.link())
			}
			d.empty("rs:ln")
		default:
			d.foreign()
		}
	}
	if e.seen&childLoc == 0 {
		d.fail(badAt("DOC-16", e.line, e.column, "this %s lacks loc, the address of the resource", d.entryName))
	}
}

// addLink appends l to the links of one place.
func (d *document) addLink(links []Link, l Link) []Link {
	if len(links) == d.xml.in.limits.Links {
		d.overLimit("XML", "more than %d links in one place", d.xml.in.limits.Links)
	}
	return append(links, l)
}

// sitemapChild reads an element of the sitemap namespace within an entry.
func (d *document) sitemapChild(e *entry) {
	known := childNames[:]
	if d.index {
		known = childNames[:2]
	}
	for i, name := range known {
		if name != string(d.xml.local) {
			continue
		}
		c := child(1) << i
		if e.seen >= c && d.again(e, c) {
			return
		}
		e.seen |= c
		switch c {
		case childLoc:
			d.readLoc(e)
		case childLastMod:
			v := d.textOf("DOC-16", name)
			e.lastMod, _ = d.datetime(lastMod, d.contentOff(), v)
		case childChangeFreq:
			e.changeFreq = d.readWord(name, &d.changeFreq)
		case childPriority:
			e.priority = d.readWord(name, &d.priority)
		}
		return
	}
	d.stray("DOC-15", d.entryName)
}

// again checks a child that comes again, or after one that it belongs before. It returns
// true if it skipped the child.
func (d *document) again(e *entry, c child) bool {
	switch {
	case e.seen&c == 0 && d.general:
		d.odd("DOC-51", d.xml.tok, "%s stands after an element that it belongs before; the order is loc, lastmod, changefreq, priority, rs:md, rs:ln", d.xml.local)
		return false
	case e.seen&c == 0 || c > childLastMod && !d.general:
		return false
	case c == childLoc:
		d.bad("DOC-16", d.xml.tok, "a second loc in one %s; there must be one", d.entryName)
	}
	d.odd("DOC-16", d.xml.tok, "a second %s in one %s; there may be one", d.xml.local, d.entryName)
	d.skip()
	return true
}

func (d *document) readLoc(e *entry) {
	const notAbsolute = "loc is %s; it must be an absolute URI such as https://example.org/a"
	v := d.textOf("DOC-16", "loc")
	switch {
	case len(v) == 0:
		d.bad("DOC-16", d.contentOff(), "loc is empty; it must be the address of the resource")
	case isAbsoluteURI(v):
		if d.general || d.oddLocs != nil {
			d.toTheLetter(v)
		}
	case d.anyLoc, isAbsoluteURI(v[:max(bytes.IndexFunc(v, isBlankOrControl), 0)]):
		d.odd("DOC-16", d.contentOff(), notAbsolute, quoteAddress(v))
	default:
		d.bad("DOC-16", d.contentOff(), notAbsolute, quoteAddress(v))
	}
	if d.keep {
		written := withoutUser(string(v))
		if e.loc = EncodeURI(written); e.loc != written {
			e.written = written
		}
	}
}

// quoteAddress quotes an address for an error, without its password.
func quoteAddress(v []byte) quote { return quote(withoutUser(string(v))) }

// toTheLetter checks an absolute loc as a Writer does.
func (d *document) toTheLetter(v []byte) {
	plain := 0 // most have nothing else
	for plain < len(v) && valueClasses[v[plain]]&isIRIByte != 0 {
		plain++
	}
	if plain < len(v) {
		if fault := uriFault(string(v)); fault != "" {
			d.oddLoc("DOC-16", "loc is %s, which is not a URI: %s", quoteAddress(v), fault)
		}
	}
	if len(v) > maxLoc && utf8.RuneCount(v) > maxLoc {
		d.oddLoc("DOC-60", "loc has %d characters; the schema of sitemaps allows at most %d", utf8.RuneCount(v), maxLoc)
	}
}

func (d *document) oddLoc(rule, format string, args ...any) {
	line, column := d.xml.in.locate(d.contentOff())
	if d.general {
		d.oddAt(rule, line, column, format, args...)
	} else {
		d.oddLocs.add(rule, line, column, format, args...)
	}
}

// readWord reads an element that is not checked. Most have the same text as the one
// before, last.
func (d *document) readWord(name string, last *string) string {
	text := d.textOf("DOC-15", name)
	if !d.keep {
		return ""
	}
	return again(last, text)
}

// textOf reads an element that contains text alone, and returns the text without
// white space around it. The text is valid until the next call.
func (d *document) textOf(rule, what string) []byte {
	d.attributes(nil, 0)
	d.content = d.content[:0]
	d.contentAt = d.xml.in.base + int64(d.xml.in.p)
	for ev := d.xml.next(); ev == evStart || ev == evText; ev = d.xml.next() {
		switch {
		case ev == evStart:
			d.odd(rule, d.xml.tok, "the element %s stands within %s, which may contain text only", quote(d.xml.tag.name), what)
			d.skip()
			continue
		case len(d.content)+len(d.xml.text) > d.xml.in.limits.Token:
			d.overLimit("XML", "the text of %s is longer than %d bytes", what, d.xml.in.limits.Token)
		}
		d.content = append(d.content, d.xml.text...)
	}
	return trimSpace(d.content)
}

// contentOff is where the text of the last textOf begins. If that has left the window, it
// is the nearest known place.
func (d *document) contentOff() int { return int(max(d.contentAt-d.xml.in.base, 0)) }

func isBlankOrControl(r rune) bool { return r <= ' ' || r == 0x7F }

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
	rest := b[scheme:]
	for ; len(rest) >= 8; rest = rest[8:] {
		v := binary.LittleEndian.Uint64(rest)
		if (below(v, ' '+1)|zeros(v^0x7F*ones))&highs != 0 {
			return false
		}
	}
	for _, c := range rest {
		if c <= ' ' || c == 0x7F {
			return false
		}
	}
	return true
}
