package resourcesync

import (
	"bytes"
	"math"
	"strings"
	"time"
)

// metadata is one rs:md or rs:ln. Values that a check alone does not need are filled
// in only by a reader that returns entries.
type metadata struct {
	set, wrong   field // the attributes with a good value, and those with a wrong one
	line, column int   // of an rs:md; 0 if there is none

	times   [timeCount]time.Time
	texts   [textCount]string
	change  ChangeType
	length  int64
	pri     int
	foreign []Attribute
}

func (m *metadata) has(f field) bool        { return m.set&f != 0 }
func (m *metadata) time(f field) time.Time  { return m.times[f.index()] }
func (m *metadata) text(f field) string     { return m.texts[f.index()-timeCount] }
func (m *metadata) textAt(f field) *string  { return &m.texts[f.index()-timeCount] }
func (m *metadata) isZeroTime(f field) bool { return m.has(f) && m.time(f).IsZero() }

// link returns the rs:ln as a Link.
func (m *metadata) link() Link {
	return Link{
		Rel: m.text(fldRel), Href: m.text(fldHref), Pri: m.pri, Modified: m.time(fldModified),
		Length: m.length, HasLength: m.has(fldLength), Hash: m.text(fldHash), Path: m.text(fldPath),
		Type: m.text(fldType), Encoding: m.text(fldEncoding), Profile: m.text(fldProfile), Attributes: m.foreign,
	}
}

// attributes reads the attributes of the current start tag into m. It applies the rule
// for all elements of the two namespaces (DOC-10): their attributes have no prefix and
// are among the allowed ones. Other attributes need a foreign namespace. A reader that
// returns entries keeps those, unless m is nil.
func (d *document) attributes(m *metadata, allowed field) {
	for i := range d.xml.attrs {
		a := &d.xml.attrs[i]
		name := d.xml.attrName(a)
		switch {
		case a.declares:
			continue
		case a.ns == nsXML || a.ns >= nsForeign:
			if d.keep && m != nil {
				m.foreign = append(m.foreign, Attribute{Space: d.xml.scopes.uriOf(a.ns), Name: string(d.xml.attrLocal(a)), Value: string(d.xml.value(a))})
			}
			continue
		case a.ns != nsNone:
			d.prefixed(a)
			name = d.xml.attrLocal(a)
		}
		switch f := fieldOf(name); {
		case f&allowed == 0:
			d.odd("DOC-10", a.off, "the attribute %s is not known on %s; attributes of your own need the prefix of a namespace of your own",
				quote(d.xml.attrName(a)), quote(d.xml.tag.name))
		case d.attribute(m, f, a):
			m.set |= f
		default:
			m.wrong |= f
		}
	}
}

// prefixed reports an attribute of ResourceSync that has a prefix.
func (d *document) prefixed(a *attr) {
	for i := range d.xml.attrs {
		b := &d.xml.attrs[i]
		if b.off != a.off && !b.declares && b.ns < nsXML && bytes.Equal(d.xml.attrLocal(a), d.xml.attrLocal(b)) {
			d.bad("DOC-10", a.off, "the attribute %s is there twice, once with a prefix and once as %s", quote(d.xml.attrLocal(a)), quote(d.xml.attrName(b)))
		}
	}
	d.odd("DOC-10", a.off, "the attribute %s has a prefix; write %s, the attributes of ResourceSync have none",
		quote(d.xml.attrName(a)), quote(d.xml.attrLocal(a)))
}

// attribute reads the attribute f into m. It returns false if the value is wrong; the
// attribute then counts as absent.
func (d *document) attribute(m *metadata, f field, a *attr) (ok bool) {
	v := d.xml.value(a)
	switch f {
	case fldAt, fldCompleted, fldDatetime, fldFrom, fldModified, fldUntil:
		m.times[f.index()], ok = d.datetime(d.xml.attrName(a), a.off, trimSpace(v))
		return ok
	case fldCapability:
		*m.textAt(f) = intern(v)
	case fldChange:
		if m.change, ok = changeOf(v); !ok {
			d.bad("DOC-17", a.off, "change is %s; it must be %s", quote(v), changeWords)
		}
	case fldLength:
		if m.length, ok = integer(v, math.MaxInt64); !ok {
			d.odd("DOC-56", a.off, "length is %s; it must be a number of bytes, 0 or more", quote(v))
		}
		return ok
	case fldPri:
		n, whole := integer(v, 999_999)
		if ok = whole && n > 0; !ok {
			d.odd("DOC-52", a.off, "pri is %s; it must be a whole number from 1 to 999999", quote(v))
		}
		m.pri = int(n)
		return ok
	case fldPath:
		return d.path(m, a)
	case fldRel, fldHref:
		d.keepText(m, f, v)
		if isBlank(v) {
			d.odd("DOC-52", a.off, "%s of an rs:ln is empty", d.xml.attrName(a))
			return false
		}
		if f == fldHref {
			*m.textAt(f) = withoutUser(m.text(f))
		}
	case fldHash:
		d.keepText(m, f, v)
		d.noteHash(m, a)
	default:
		d.keepText(m, f, v)
	}
	return true
}

// keepText sets a text of m, without a copy if it is the one of the element before.
func (d *document) keepText(m *metadata, f field, v []byte) {
	if d.keep {
		*m.textAt(f) = again(&d.words[f.index()-timeCount], trimSpace(v))
	}
}

// again returns b as a string: as last, if it is the same, without a copy.
func again(last *string, b []byte) string {
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}

// readLink reads the rs:ln whose start tag is current into d.ln. It returns false if that
// is no link, which a tolerant reader skips.
func (d *document) readLink() bool {
	d.ln = metadata{}
	d.attributes(&d.ln, lnFields)
	switch missing := (fldRel | fldHref) &^ d.ln.set; {
	case missing == 0:
		return true
	case missing&d.ln.wrong != 0: // reported already
	case missing&fldRel != 0:
		d.odd("DOC-52", d.xml.tok, "this rs:ln lacks rel, the relation of the linked resource")
	default:
		d.odd("DOC-52", d.xml.tok, "this rs:ln lacks href, the address of the linked resource")
	}
	return false
}

// noteHash notes a hash that nothing can be compared with.
func (d *document) noteHash(m *metadata, a *attr) {
	if d.oddHashes == nil {
		return
	}
	v, hash := d.xml.value(a), m.text(fldHash)
	if !d.keep {
		hash = string(v)
	}
	if !isBlank(v) && !hasDigest(hash) {
		line, column := d.xml.in.locate(a.off)
		d.oddHashes.add("DOC-55", line, column, "the hash %s has no hexadecimal digest of a known algorithm, so nothing can be compared with it", quote(v))
	}
}

// datetime reads v, the value of what at buf[off]. A tolerant reader reads a time without
// a zone, as the type of the schema allows, as one in UTC.
func (d *document) datetime(what []byte, off int, v []byte) (t time.Time, ok bool) {
	t, fault := parseDatetime(v)
	if fault != "" {
		d.odd("DOC-59", off, "%s is %s, which is not a W3C datetime: %s", what, quote(v), fault)
	}
	if fault == faultZone {
		t, fault = parseDatetime(append(bytes.Clone(v), 'Z'))
		return t, fault == "" && !t.IsZero()
	}
	return t, fault == ""
}

// path checks that a path stays within a package once it is unpacked (DOC-57), and
// keeps it. Some libraries write it without the slash at its beginning.
func (d *document) path(m *metadata, a *attr) bool {
	v := string(d.xml.value(a))
	switch {
	case isPath(v):
	case d.general && isPath("/"+v):
		d.odd("DOC-57", a.off, "path is %s and lacks the slash that it must begin with", quote(v))
		v = "/" + v
	default:
		d.odd("DOC-57", a.off, "path is %s; it must begin with a slash, not end with one, and have no \"..\" in it", quote(v))
		return false
	}
	if d.keep {
		*m.textAt(fldPath) = v
	}
	return true
}

func isPath(s string) bool {
	return len(s) > 1 && s[0] == '/' && s[len(s)-1] != '/' && !strings.Contains(s, "/../") && !strings.HasSuffix(s, "/..")
}

// integer reads a whole number from 0 to most, which may have a plus sign.
func integer(b []byte, most int64) (n int64, ok bool) {
	b = trimSpace(b)
	if len(b) > 1 && b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		digit := int64(c - '0')
		if c < '0' || c > '9' || n > (most-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, len(b) > 0
}
