package resourcesync

import (
	"bytes"
	"errors"
	"math"
	"time"
)

// metadata is one rs:md. Values that a check alone does not need are filled in
// only by a reader that hands out entries.
type metadata struct {
	set          field
	line, column int

	capability    string
	change        ChangeType
	at, completed time.Time
	datetime      time.Time
	from, until   time.Time
	modified      time.Time
	length        int64

	hash, mediaType, encoding, path string
	foreign                         []Attribute
}

func (m *metadata) has(f field) bool { return m.set&f != 0 }

// zeroTimes are the times of a document's interval and snapshot that are there
// and the zero Time, which stands for none.
func (m *metadata) zeroTimes() field {
	return m.set & timeFields &^ (timeSet(fldAt, m.at) | timeSet(fldCompleted, m.completed) | timeSet(fldFrom, m.from) | timeSet(fldUntil, m.until))
}

// errPassedOver says that an attribute is wrong, and is taken for one that is not
// there.
var errPassedOver = errors.New("passed over")

// attributes walks the attributes of the current start tag that are its own,
// and applies what holds for all elements of the two namespaces (DOC-10): such
// an attribute has no prefix and is one of the allowed; others need a foreign
// namespace, and are kept where that is wanted.
func (d *document) attributes(allowed field, foreign *[]Attribute, each func(f field, a *attr) error) error {
	for i := range d.xml.attrs {
		a := &d.xml.attrs[i]
		if a.declares {
			continue
		}
		name := d.xml.attrName(a)
		if a.ns != nsNone {
			if a.ns == nsXML || a.ns >= nsForeign {
				d.keepForeign(a, foreign)
				continue
			}
			if err := d.prefixed(a); err != nil {
				return err
			}
			name = d.xml.attrLocal(a)
		}
		f := fieldOf(name)
		if f&allowed == 0 {
			if err := d.odd("DOC-10", a.off, "the attribute %s is not known on %s; attributes of your own need the prefix of a namespace of your own",
				quote(d.xml.attrName(a)), quote(d.xml.tag.name)); err != nil {
				return err
			}
			continue
		}
		if err := each(f, a); err != nil && err != errPassedOver { //nolint:errorlint // it is never wrapped
			return err
		}
	}
	return nil
}

func (d *document) keepForeign(a *attr, to *[]Attribute) {
	if d.keep && to != nil {
		*to = append(*to, Attribute{Space: d.xml.scopes.uriOf(a.ns), Name: string(d.xml.attrLocal(a)), Value: string(d.xml.value(a))})
	}
}

// prefixed judges an attribute of ResourceSync that has a prefix.
func (d *document) prefixed(a *attr) error {
	for i := range d.xml.attrs {
		b := &d.xml.attrs[i]
		if b.off != a.off && !b.declares && b.ns < nsXML && bytes.Equal(d.xml.attrLocal(a), d.xml.attrLocal(b)) {
			return d.bad("DOC-10", a.off, "the attribute %s is there twice, once with a prefix and once as %s", quote(d.xml.attrLocal(a)), quote(d.xml.attrName(b)))
		}
	}
	return d.odd("DOC-10", a.off, "the attribute %s has a prefix; write %s, the attributes of ResourceSync have none",
		quote(d.xml.attrName(a)), quote(d.xml.attrLocal(a)))
}

// readMetadata reads the rs:md whose start tag is current.
func (d *document) readMetadata(m *metadata) error {
	*m = metadata{}
	m.line, m.column = d.xml.in.locate(d.xml.tok)
	return d.attributes(mdFields, &m.foreign, func(f field, a *attr) (err error) {
		switch f {
		case fldAt:
			m.at, err = d.datetime(a)
		case fldCapability:
			m.capability = intern(d.xml.value(a))
		case fldChange:
			known := false
			if m.change, known = changeOf(d.xml.value(a)); !known {
				err = d.bad("DOC-17", a.off, "change is %s; it must be %s", quote(d.xml.value(a)), changeWords)
			}
		case fldCompleted:
			m.completed, err = d.datetime(a)
		case fldDatetime:
			m.datetime, err = d.datetime(a)
		case fldFrom:
			m.from, err = d.datetime(a)
		case fldUntil:
			m.until, err = d.datetime(a)
		case fldModified:
			m.modified, err = d.datetime(a)
		case fldLength:
			m.length, err = d.length(a)
		case fldPath:
			m.path, err = d.path(a)
		case fldHash:
			m.hash = d.kept(a)
			d.noteHash(a)
		case fldType:
			m.mediaType = d.word(f, a)
		case fldEncoding:
			m.encoding = d.word(f, a)
		}
		if err == nil {
			m.set |= f
		}
		return err
	})
}

// readLink reads the rs:ln whose start tag is current. It returns false where
// that is not one, and was let pass.
func (d *document) readLink(l *Link, rel *relation) (ok bool, err error) {
	*l = Link{}
	var set, empty field
	err = d.attributes(lnFields, &l.Attributes, func(f field, a *attr) (err error) {
		set |= f
		switch f {
		case fldRel, fldHref:
			v := trimSpace(d.xml.value(a))
			if len(v) == 0 {
				empty |= f
				return d.oddValue("DOC-52", a, "%s of an rs:ln is empty", d.xml.attrName(a))
			}
			if f == fldRel {
				*rel = relationOf(v)
				l.Rel = d.word(f, a)
			} else {
				l.Href = d.kept(a)
			}
		case fldLength:
			l.Length, err = d.length(a)
			l.HasLength = err == nil
		case fldModified:
			l.Modified, err = d.datetime(a)
		case fldPri:
			l.Pri, err = d.rank(a)
		case fldPath:
			l.Path, err = d.path(a)
		case fldHash:
			l.Hash = d.kept(a)
			d.noteHash(a)
		case fldType:
			l.Type = d.word(f, a)
		case fldEncoding:
			l.Encoding = d.word(f, a)
		case fldProfile:
			l.Profile = d.word(f, a)
		}
		return err
	})
	switch {
	case err != nil || empty != 0:
		return false, err
	case set&fldRel == 0:
		return false, d.odd("DOC-52", d.xml.tok, "this rs:ln lacks rel, the relation of the linked resource")
	case set&fldHref == 0:
		return false, d.odd("DOC-52", d.xml.tok, "this rs:ln lacks href, the address of the linked resource")
	}
	return true, nil
}

// kept is the value of a for a reader that hands out entries.
func (d *document) kept(a *attr) string {
	if !d.keep {
		return ""
	}
	return string(trimSpace(d.xml.value(a)))
}

// noteHash notes a hash that nothing can be compared with.
func (d *document) noteHash(a *attr) {
	if d.oddHashes == nil {
		return
	}
	if v := d.xml.value(a); len(trimSpace(v)) > 0 && !hasDigest(v) {
		line, column := d.xml.in.locate(a.off)
		d.oddHashes.add("DOC-55", line, column, "the hash %s has no hexadecimal digest of a known algorithm, so nothing can be compared with it", quote(v))
	}
}

// word is kept for attributes that often have the same value again.
func (d *document) word(f field, a *attr) string {
	if !d.keep {
		return ""
	}
	return again(&d.words[f.index()], trimSpace(d.xml.value(a)))
}

func (d *document) datetime(a *attr) (time.Time, error) {
	v := trimSpace(d.xml.value(a))
	t, fault := parseDatetime(v)
	if fault == "" {
		return t, nil
	}
	err := d.oddValue("DOC-59", a, "%s is %s, which is not a W3C datetime: %s", d.xml.attrName(a), quote(d.xml.value(a)), fault)
	if t = withoutZone(v, fault); err == errPassedOver && !t.IsZero() { //nolint:errorlint // it is never wrapped
		return t, nil
	}
	return time.Time{}, err
}

// withoutZone reads a datetime that has a time and no zone, as the type of the
// schema allows, for one in UTC. Zero if it is something else.
func withoutZone(v []byte, fault string) time.Time {
	if fault != faultZone {
		return time.Time{}
	}
	t, fault := parseDatetime(append(bytes.Clone(v), 'Z'))
	if fault != "" {
		return time.Time{}
	}
	return t
}

func (d *document) length(a *attr) (int64, error) {
	n, ok := integer(trimSpace(d.xml.value(a)), math.MaxInt64)
	if !ok {
		return 0, d.oddValue("DOC-56", a, "length is %s; it must be a number of bytes, 0 or more", quote(d.xml.value(a)))
	}
	return n, nil
}

func (d *document) rank(a *attr) (int, error) {
	n, ok := integer(trimSpace(d.xml.value(a)), 999_999)
	if !ok || n == 0 {
		return 0, d.oddValue("DOC-52", a, "pri is %s; it must be a whole number from 1 to 999999", quote(d.xml.value(a)))
	}
	return int(n), nil
}

// path checks that a path stays within a package once it is unpacked (DOC-57).
// Some libraries write it without the slash at its beginning.
func (d *document) path(a *attr) (string, error) {
	v := d.xml.value(a)
	switch {
	case isPath(v) && d.keep:
		return string(v), nil
	case isPath(v):
		return "", nil
	}
	if rooted := "/" + string(v); d.general && isPath([]byte(rooted)) {
		return rooted, d.odd("DOC-57", a.off, "path is %s and lacks the slash that it must begin with", quote(v))
	}
	return "", d.oddValue("DOC-57", a, "path is %s; it must begin with a slash, not end with one, and have no \"..\" in it", quote(v))
}

func isPath(v []byte) bool {
	if len(v) < 2 || v[0] != '/' || v[len(v)-1] == '/' {
		return false
	}
	for seg := 1; seg < len(v); {
		end := seg
		for end < len(v) && v[end] != '/' {
			end++
		}
		if string(v[seg:end]) == ".." {
			return false
		}
		seg = end + 1
	}
	return true
}

// integer reads a whole number from 0 to most.
func integer(b []byte, most int64) (int64, bool) {
	if len(b) > 1 && b[0] == '+' {
		b = b[1:]
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := int64(c - '0')
		if n > (most-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}
