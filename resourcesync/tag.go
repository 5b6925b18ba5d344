package resourcesync

import (
	"bytes"
	"unicode/utf8"
)

// tag is the start tag that was scanned last.
type tag struct {
	name   []byte // as written, prefix and all
	local  []byte
	ns     namespace
	attrs  []attr
	values []byte // the values of attributes that could not stay as they are
}

// attr is an attribute of tag. Its fields are offsets, since tag.values may
// move while it grows.
type attr struct {
	off      int // of the name, in buf
	name     int // length of the name
	colon    int // in the name; -1 if there is none
	val, end int // of the value, in buf, or in tag.values if moved is set
	moved    bool
	declares bool // xmlns or xmlns:prefix
	ns       namespace
}

func (s *scanner) attrName(a *attr) []byte  { return s.in.buf[a.off : a.off+a.name] }
func (s *scanner) attrLocal(a *attr) []byte { return s.in.buf[a.off+a.colon+1 : a.off+a.name] }

func (s *scanner) attrPrefix(a *attr) []byte {
	return s.in.buf[a.off : a.off+max(a.colon, 0)]
}

// value returns the normalised value of a.
func (s *scanner) value(a *attr) []byte {
	if a.moved {
		return s.values[a.val:a.end]
	}
	return s.in.buf[a.val:a.end]
}

// startTag scans a start tag or an empty element. The whole tag is within the
// window, or it is too long.
func (s *scanner) startTag() bool {
	const what = "a start tag"
	if s.rootSeen && len(s.open) == 0 {
		return s.in.refuse(s.in.p, "a second root element")
	}
	nameEnd, colon := s.name(s.in.p+1, what)
	if nameEnd == s.in.p+1 {
		return s.in.refuse(s.in.p, "\"<\" must be followed by a name; in text, write \"&lt;\"")
	}
	if nameEnd < 0 {
		return false
	}
	s.tag.name = s.in.buf[s.in.p+1 : nameEnd]
	s.local = s.tag.name[colon+1:]
	s.attrs, s.values = s.attrs[:0], s.values[:0]
	p := s.attributes(nameEnd, what)
	switch {
	case p < 0:
		return false
	case s.in.buf[p] == '>':
		return s.push(p+1, colon)
	case s.in.buf[p] != '/':
		return s.unexpected(p, what)
	case s.in.buf[p+1] != '>':
		return s.expected(p+1, "\">\" must follow \"/\"", what)
	}
	s.selfEnd = true
	return s.push(p+2, colon)
}

// attributes scans the attributes of what, which begin at p. It returns where the end
// of what should be, or -1 after an error.
func (s *scanner) attributes(p int, what string) int {
	for s.in.err == nil {
		start := p
		p = s.space(p)
		switch c := s.in.buf[p]; {
		case c == '>' || c == '/' || c == '?':
			return p
		case p == start && len(s.attrs) > 0 && startsNCName(s.in.buf[p:s.in.w]):
			s.in.refuse(p, "white space is missing between two attributes")
		case p == start:
			s.unexpected(p, what)
		case len(s.attrs) == s.in.limits.Attributes:
			s.in.overLimit(p, "%s has more than %d attributes", what, s.in.limits.Attributes)
		default:
			p = s.attribute(p, what)
		}
	}
	return -1
}

// space returns where the white space at p ends.
func (s *scanner) space(p int) int {
	for classes[s.in.buf[p]]&clsSpace != 0 {
		p++
	}
	return p
}

// attribute scans name="value" at p and returns where it ends, or -1 after an error.
func (s *scanner) attribute(p int, what string) int {
	end, colon := s.name(p, what)
	a := attr{off: p, name: end - p, colon: colon}
	switch {
	case end == p:
		s.unexpected(p, what)
		return -1
	case end < 0:
		return -1
	}
	if p = s.space(end); s.in.buf[p] != '=' {
		s.expected(p, "an attribute needs \"=\" and a quoted value", what)
		return -1
	}
	p = s.space(p + 1)
	q := s.in.buf[p]
	if q != '"' && q != '\'' {
		s.expected(p, "the value of an attribute must stand in quotes", what)
		return -1
	}
	a.val = p + 1
	if a.end = s.valueEnd(a.val, q, &a.moved, what); a.end < 0 {
		return -1
	}
	p = a.end + 1
	if a.moved && !s.normalise(&a) {
		return -1
	}
	s.attrs = append(s.attrs, a)
	return p
}

// valueEnd returns where the attribute value at p ends, or -1. It sets special if the
// value must be normalised.
func (s *scanner) valueEnd(p int, quote byte, special *bool, what string) int {
	b := s.in.buf
	for s.in.err == nil {
		p = plainValue(b, p)
		switch c := b[p]; c {
		case quote:
			return p
		case '"', '\'':
			p++
		case '&', '\t', '\n', '\r':
			*special = true
			p++
		case '<':
			s.in.refuse(p, "\"<\" in the value of an attribute; write \"&lt;\"")
		default:
			n := s.in.chars(p)
			switch {
			case n > 0:
				p += n
			case p+utf8.UTFMax > s.in.w && !s.in.eof:
				s.in.short(what)
			default:
				s.in.badChar(p, "the value of an attribute")
			}
		}
	}
	return -1
}

// normalise writes the value of a to tag.values: references replaced, white
// space turned into spaces (XML 3.3.3).
func (s *scanner) normalise(a *attr) bool {
	from := len(s.values)
	for p := a.val; p < a.end; {
		run := p
		p = min(plainValue(s.in.buf, p), a.end)
		s.values = append(s.values, s.in.buf[run:p]...)
		if p == a.end {
			break
		}
		switch c := s.in.buf[p]; c {
		case '&':
			r, end := s.parseReference(p)
			if end < 0 {
				return false
			}
			s.values = utf8.AppendRune(s.values, r)
			p = end
		case '\r', '\n', '\t':
			if c == '\r' && s.in.buf[p+1] == '\n' {
				p++
			}
			s.values = append(s.values, ' ')
			p++
		default:
			s.values = append(s.values, c)
			p++
		}
	}
	a.val, a.end = from, len(s.values)
	return true
}

// endTag scans an end tag and closes its element.
func (s *scanner) endTag() bool {
	const what = "an end tag"
	if len(s.open) == 0 {
		return s.in.refuse(s.in.p, "an end tag that closes nothing")
	}
	p := s.in.p + 2
	want := s.openName()
	if bytes.HasPrefix(s.in.buf[p:s.in.w], want) {
		if p = s.space(p + len(want)); s.in.buf[p] == '>' {
			s.in.p = p + 1
			s.pop()
			return true
		}
	}
	nameEnd, _ := s.name(s.in.p+2, what)
	switch {
	case nameEnd < 0:
		return false
	case nameEnd == s.in.p+2:
		return s.unexpected(nameEnd, what)
	case !bytes.Equal(s.in.buf[s.in.p+2:nameEnd], want):
		return s.in.refuse(s.in.p, "the end tag of %s does not match the open element %s", quote(s.in.buf[s.in.p+2:nameEnd]), quote(want))
	}
	return s.expected(p, "an end tag must end with \">\" after the name", what)
}
