package resourcesync

import (
	"bytes"
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// entry is one url or sitemap element. It is used again for the next.
type entry struct {
	line, column         int
	seen                 child  // the children that were there
	loc, written         string // written: where it is not loc
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

// export makes an Entry of e, which keeps nothing of it.
func (e *entry) export() Entry {
	m := &e.md
	return Entry{
		Loc: e.loc, Written: e.written, LastMod: e.lastMod, ChangeFreq: e.changeFreq, Priority: e.priority,
		Change: m.change, Datetime: m.datetime, Capability: m.capability,
		At: m.at, Completed: m.completed, From: m.from, Until: m.until, Modified: m.modified,
		Length: m.length, HasLength: m.has(fldLength),
		Hash: m.hash, Type: m.mediaType, Encoding: m.encoding, Path: m.path,
		Links: e.links, Attributes: m.foreign, Line: e.line, Column: e.column,
	}
}

// readEntry reads a url or sitemap element whose start tag is current.
func (d *document) readEntry() error {
	e := &d.entry
	*e = entry{links: e.links[:0]}
	e.line, e.column = d.xml.in.locate(d.xml.tok)
	if d.entries++; d.entries > d.xml.in.limits.Entries {
		return d.xml.in.fail(OverLimit, "DOC-60", d.xml.tok, "the document has more than %d entries; %s", d.xml.in.limits.Entries, d.xml.in.advice)
	}
	for i := range d.xml.attrs {
		if a := &d.xml.attrs[i]; !a.declares {
			if err := d.odd("DOC-15", a.off, "%s has the attribute %s; it must have none", d.entryName(), quote(d.xml.attrName(a))); err != nil {
				return err
			}
		}
	}
	if d.keep {
		e.links = nil // they are given away
	}
	for {
		ev, err := d.xml.next()
		switch {
		case err != nil:
			return err
		case ev == evText:
			err = d.blank("DOC-15", d.entryName())
		case ev == evEnd:
			if e.seen&childLoc == 0 {
				return badAt("DOC-16", e.line, e.column, "this %s lacks loc, the address of the resource", d.entryName())
			}
			return nil
		case d.xml.ns == nsSitemap:
			err = d.sitemapChild(e)
		case d.xml.ns == nsRS && string(d.xml.local) == "md":
			if e.seen&childMD != 0 {
				return d.bad("DOC-17", d.xml.tok, "a second rs:md in one %s; there must be one", d.entryName())
			}
			e.seen |= childMD
			if err = d.readMetadata(&e.md); err == nil {
				err = d.empty("rs:md")
			}
		case d.xml.ns == nsRS && string(d.xml.local) == "ln":
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
	e.seen |= childLink
	ok, err := d.readLink(&d.link, &rel)
	if err != nil {
		return err
	}
	if ok && d.keep {
		if len(e.links) == d.xml.in.limits.Links {
			return d.tooManyLinks()
		}
		e.links = append(e.links, d.link)
	}
	return d.empty("rs:ln")
}

func (d *document) tooManyLinks() error {
	return d.xml.in.fail(OverLimit, "XML", d.xml.tok, "more than %d links in one place", d.xml.in.limits.Links)
}

// sitemapChild reads an element of the sitemap namespace within an entry.
func (d *document) sitemapChild(e *entry) error {
	var c child
	switch string(d.xml.local) {
	case "loc":
		c = childLoc
	case "lastmod":
		c = childLastMod
	case "changefreq":
		c = childChangeFreq
	case "priority":
		c = childPriority
	case "md", "ln":
		return d.stray()
	}
	if c == 0 || d.index && c > childLastMod {
		if err := d.odd("DOC-15", d.xml.tok, "the element %s does not belong in a %s", quote(d.xml.tag.name), d.entryName()); err != nil {
			return err
		}
		return d.skip()
	}
	if e.seen >= c {
		if skip, err := d.misplaced(e, c); skip || err != nil {
			return err
		}
	}
	e.seen |= c
	switch c {
	case childLoc:
		return d.readLoc(e)
	case childLastMod:
		return d.readLastMod(e)
	case childChangeFreq:
		return d.readWord("changefreq", &e.changeFreq, &d.changeFreq)
	default:
		return d.readWord("priority", &e.priority, &d.priority)
	}
}

// misplaced judges a child that comes again, or after one that it belongs
// before. One that comes again is skipped.
func (d *document) misplaced(e *entry, c child) (skipped bool, err error) {
	switch {
	case e.seen&c == 0 && d.general:
		return false, d.odd("DOC-51", d.xml.tok, "%s stands after an element that it belongs before; the order is loc, lastmod, changefreq, priority, rs:md, rs:ln", d.xml.local)
	case e.seen&c == 0 || c > childLastMod && !d.general:
		return false, nil
	case c == childLoc:
		return true, d.bad("DOC-16", d.xml.tok, "a second loc in one %s; there must be one", d.entryName())
	}
	if err := d.odd("DOC-16", d.xml.tok, "a second %s in one %s; there may be one", d.xml.local, d.entryName()); err != nil {
		return true, err
	}
	return true, d.skip()
}

func (d *document) readLoc(e *entry) error {
	v, err := d.textOf("DOC-16", "loc")
	switch {
	case err != nil:
		return err
	case len(v) == 0:
		return d.badContent("DOC-16", "loc is empty; it must be the address of the resource")
	case !isAbsoluteURI(v):
		const msg = "loc is %s; it must be an absolute URI such as https://example.org/a"
		end := bytes.IndexFunc(v, isBlankOrControl)
		if absolute := end >= 0 && isAbsoluteURI(v[:end]); !absolute && !d.anyLoc {
			return d.badContent("DOC-16", msg, quote(v))
		}
		if err := d.oddContent("DOC-16", msg, quote(v)); err != nil {
			return err
		}
	case d.general || d.oddLocs != nil:
		if err := d.toTheLetter(v); err != nil {
			return err
		}
	}
	if d.keep {
		written := string(v)
		if e.loc = EncodeURI(written); e.loc != written {
			e.written = written
		}
	}
	return nil
}

// toTheLetter judges an absolute loc as a Writer does.
func (d *document) toTheLetter(v []byte) error {
	plain := 0 // most have nothing else
	for plain < len(v) && valueClasses[v[plain]]&isURIByte != 0 {
		plain++
	}
	if plain < len(v) {
		if fault := uriFault(string(v)); fault != "" {
			if err := d.oddLoc("DOC-16", "loc is %s, which is not a URI: %s", quote(v), fault); err != nil {
				return err
			}
		}
	}
	if len(v) <= maxLoc {
		return nil
	}
	if n := utf8.RuneCount(v); n > maxLoc {
		return d.oddLoc("DOC-60", "loc has %d characters; the schema of sitemaps wants at most %d", n, maxLoc)
	}
	return nil
}

func (d *document) oddLoc(rule, format string, args ...any) error {
	if d.general {
		return d.oddContent(rule, format, args...)
	}
	line, column := d.xml.in.locate(int(max(d.contentAt-d.xml.in.base, 0)))
	d.oddLocs.add(rule, line, column, format, args...)
	return nil
}

func (d *document) readLastMod(e *entry) error {
	v, err := d.textOf("DOC-16", "lastmod")
	if err != nil {
		return err
	}
	t, fault := parseDatetime(v)
	if fault != "" {
		if err := d.oddContent("DOC-59", "lastmod is %s, which is not a W3C datetime: %s", quote(v), fault); err != nil {
			return err
		}
		t = withoutZone(v, fault)
	}
	e.lastMod = t
	return nil
}

// readWord reads an element that is not checked into v. Most have the same text
// as the one before, last, which then serves again.
func (d *document) readWord(name string, v, last *string) error {
	text, err := d.textOf("DOC-15", name)
	if err == nil && d.keep {
		*v = again(last, text)
	}
	return err
}

// again returns b as a string: as last, if it is the same, without a copy.
func again(last *string, b []byte) string {
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}

// textOf reads an element that holds text alone, and returns the text without
// white space around it. It is good until the next call.
func (d *document) textOf(rule, what string) ([]byte, error) {
	if err := d.attributes(0, nil, nil); err != nil {
		return nil, err
	}
	d.content = d.content[:0]
	d.contentAt = d.xml.in.base + int64(d.xml.in.p)
	for {
		ev, err := d.xml.next()
		switch {
		case err != nil:
			return nil, err
		case ev == evEnd:
			return trimSpace(d.content), nil
		case ev == evStart:
			if err := d.odd(rule, d.xml.tok, "the element %s stands within %s, which may hold text only", quote(d.xml.tag.name), what); err != nil {
				return nil, err
			}
			if err := d.skip(); err != nil {
				return nil, err
			}
			continue
		case len(d.content)+len(d.xml.text) > d.xml.in.limits.Token:
			return nil, d.xml.in.fail(OverLimit, "XML", d.xml.tok, "the text of %s is longer than %d bytes", what, d.xml.in.limits.Token)
		}
		d.content = append(d.content, d.xml.text...)
	}
}

// badContent is an error of the text that textOf returned last. Where its
// beginning has left the window, the place is as near to it as is known.
func (d *document) badContent(rule, format string, args ...any) error {
	return d.bad(rule, int(max(d.contentAt-d.xml.in.base, 0)), format, args...)
}

func (d *document) oddContent(rule, format string, args ...any) error {
	return d.odd(rule, int(max(d.contentAt-d.xml.in.base, 0)), format, args...)
}

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
