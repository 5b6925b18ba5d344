package resourcesync

import "time"

// entry is one url element. It is used again for the next.
type entry struct {
	line, column          int
	hasLoc, hasMod, hasMD bool
	loc                   string
	lastMod               time.Time
	md                    metadata
	links                 []Link
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
	case "changefreq":
		_, err := d.textOf("DOC-15", "changefreq")
		return err
	case "priority":
		_, err := d.textOf("DOC-15", "priority")
		return err
	case "md", "ln":
		return d.strayInRoot()
	}
	return d.bad("DOC-15", d.tok, "the element %s does not belong in a url", quote(d.tag.name))
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
