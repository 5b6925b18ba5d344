package resourcesync

import (
	"bytes"
	"strconv"
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
	val, end int // of the value, in buf, or in tag.values where moved is set
	moved    bool
	declares bool // xmlns or xmlns:prefix
	ns       namespace
}

func (s *scanner) attrName(a *attr) []byte  { return s.buf[a.off : a.off+a.name] }
func (s *scanner) attrLocal(a *attr) []byte { return s.buf[a.off+a.colon+1 : a.off+a.name] }

func (s *scanner) attrPrefix(a *attr) []byte {
	return s.buf[a.off : a.off+max(a.colon, 0)]
}

// value returns the normalised value of a.
func (s *scanner) value(a *attr) []byte {
	if a.moved {
		return s.values[a.val:a.end]
	}
	return s.buf[a.val:a.end]
}

// startTag scans a start tag or an empty element. The whole tag is within the
// window, or it is too long.
func (s *scanner) startTag() bool {
	const what = "a start tag"
	if s.rootSeen && len(s.open) == 0 {
		return s.malformed(s.p, "a second root element") == nil
	}
	nameEnd, colon := s.name(s.p+1, what)
	if nameEnd == s.p+1 {
		return s.malformed(s.p, "\"<\" must be followed by a name; in text, write \"&lt;\"") == nil
	}
	if nameEnd < 0 {
		return false
	}
	s.tag.name = s.buf[s.p+1 : nameEnd]
	s.local = s.tag.name[colon+1:]
	s.attrs, s.values = s.attrs[:0], s.values[:0]
	p := nameEnd
	for {
		start := p
		for classes[s.buf[p]]&clsSpace != 0 {
			p++
		}
		switch s.buf[p] {
		case '>':
			p++
			return s.push(p, colon)
		case '/':
			if s.buf[p+1] != '>' {
				return s.expected(p+1, "\">\" must follow \"/\"", what)
			}
			p += 2
			s.selfEnd = true
			return s.push(p, colon)
		}
		if p == start {
			if len(s.attrs) > 0 && startsNCName(s.buf[p:s.w]) {
				return s.malformed(p, "white space is missing between two attributes") == nil
			}
			return s.unexpected(p, what)
		}
		if len(s.attrs) == s.limits.Attributes {
			return s.fail(OverLimit, "XML", p, "the element %s has more than %d attributes", quote(s.tag.name), s.limits.Attributes) == nil
		}
		if p = s.attribute(p); p < 0 {
			return false
		}
	}
}

// attribute scans name="value" at p and returns where it ends, or -1.
func (s *scanner) attribute(p int) int {
	end, colon := s.name(p, "a start tag")
	if end < 0 {
		return -1
	}
	if end == p {
		s.unexpected(p, "a start tag")
		return -1
	}
	a := attr{off: p, name: end - p, colon: colon}
	p = end
	for classes[s.buf[p]]&clsSpace != 0 {
		p++
	}
	if s.buf[p] != '=' {
		s.expected(p, "an attribute needs \"=\" and a quoted value", "a start tag")
		return -1
	}
	p++
	for classes[s.buf[p]]&clsSpace != 0 {
		p++
	}
	q := s.buf[p]
	if q != '"' && q != '\'' {
		s.expected(p, "the value of an attribute must stand in quotes", "a start tag")
		return -1
	}
	p++
	a.val = p
	if a.end = s.valueEnd(p, q, &a.moved); a.end < 0 {
		return -1
	}
	p = a.end + 1
	if a.moved && !s.normalise(&a) {
		return -1
	}
	s.attrs = append(s.attrs, a)
	return p
}

// valueEnd returns where the attribute value at p ends, or -1. It sets special
// if the value is not yet what it stands for.
func (s *scanner) valueEnd(p int, quote byte, special *bool) int {
	b := s.buf
	for {
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
			_ = s.malformed(p, "\"<\" in the value of an attribute; write \"&lt;\"")
			return -1
		default:
			n := s.char(p)
			if n == 0 {
				if p+utf8.UTFMax > s.w && !s.eof {
					_ = s.short("a start tag")
				} else {
					_ = s.badChar(p, "the value of an attribute")
				}
				return -1
			}
			p += n
		}
	}
}

// normalise writes the value of a to tag.values: references replaced, white
// space turned into spaces (XML 3.3.3).
func (s *scanner) normalise(a *attr) bool {
	from := len(s.values)
	for p := a.val; p < a.end; {
		run := p
		p = min(plainValue(s.buf, p), a.end)
		s.values = append(s.values, s.buf[run:p]...)
		if p == a.end {
			break
		}
		switch c := s.buf[p]; c {
		case '&':
			r, end := s.parseReference(p)
			if end < 0 {
				return false
			}
			s.values = utf8.AppendRune(s.values, r)
			p = end
		case '\r', '\n', '\t':
			if c == '\r' && s.buf[p+1] == '\n' {
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
		return s.malformed(s.p, "an end tag that closes nothing") == nil
	}
	p := s.p + 2
	want := s.openName()
	if bytes.HasPrefix(s.buf[p:s.w], want) {
		p += len(want)
		for classes[s.buf[p]]&clsSpace != 0 {
			p++
		}
		if s.buf[p] == '>' {
			s.p = p + 1
			s.pop()
			return true
		}
	}
	nameEnd, _ := s.name(s.p+2, what)
	switch {
	case nameEnd < 0:
		return false
	case nameEnd == s.p+2:
		return s.unexpected(nameEnd, what)
	case !bytes.Equal(s.buf[s.p+2:nameEnd], want):
		return s.malformed(s.p, "the end tag of %s does not match the open element %s", quote(s.buf[s.p+2:nameEnd]), quote(want)) == nil
	}
	return s.expected(p, "an end tag must end with \">\" after the name", what)
}

// name scans a name at p, within what. It returns where the name ends, p itself
// if none begins there and -1 after an error, and where in it the first colon
// is, or -1. Something must follow a name.
func (s *scanner) name(p int, what string) (end, colon int) {
	b, start := s.buf, p
	colon = -1
	if classes[b[p]]&clsNameStart == 0 && b[p] < utf8.RuneSelf && (b[p] != ':' || !s.noNamespaces) {
		return p, -1
	}
	for {
		for classes[b[p]]&clsName != 0 {
			p++
		}
		switch c := b[p]; {
		case c == ':':
			if colon < 0 {
				colon = p - start
			} else if !s.noNamespaces {
				_ = s.malformed(p, "a name has two colons")
				return -1, -1
			}
			p++
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(b[p:s.w])
			switch {
			case s.char(p) == 0 && p+utf8.UTFMax > s.w && !s.eof:
				_ = s.short(what)
				return -1, -1
			case s.char(p) == 0:
				_ = s.badChar(p, what)
				return -1, -1
			case p == start && !isNameStart(r), !isName(r):
				return p, s.colonOf(colon)
			}
			p += n
		case p == s.w:
			_ = s.short(what)
			return -1, -1
		default:
			if colon >= 0 && !s.noNamespaces && !startsNCName(b[start+colon+1:p]) {
				_ = s.malformed(start+colon, "the colon in a name must be followed by a name")
				return -1, -1
			}
			return p, s.colonOf(colon)
		}
	}
}

// colonOf is colon, or -1 where colons mean nothing.
func (s *scanner) colonOf(colon int) int {
	if s.noNamespaces {
		return -1
	}
	return colon
}

// unexpected fails on the character at p, which does not belong into what.
func (s *scanner) unexpected(p int, what string) bool {
	return s.expected(p, "unexpected character", what)
}

// expected fails at p with a sentence, unless the real trouble is that the
// document ends there or that there is no character.
func (s *scanner) expected(p int, sentence, what string) bool {
	switch {
	case p >= s.w, !s.eof && !utf8.FullRune(s.buf[p:s.w]):
		_ = s.short(what)
	case classes[s.buf[p]]&(clsText|clsSpace) == 0 && !has("<&]", s.buf[p]) && s.char(p) == 0:
		_ = s.badChar(p, what)
	default:
		r, _ := utf8.DecodeRune(s.buf[p:s.w])
		_ = s.malformed(p, "%s: found %s in %s", sentence, strconv.QuoteRune(r), what)
	}
	return false
}

// parseReference scans the reference at p. It returns what it stands for and
// where it ends, or -1. Only characters and the five predefined entities are
// known; a DTD, which could declare others, is never read.
func (s *scanner) parseReference(p int) (r rune, end int) {
	b := s.buf
	if b[p+1] == '#' {
		return s.characterReference(p)
	}
	end, _ = s.name(p+1, "a reference")
	if end < 0 {
		return 0, -1
	}
	name := b[p+1 : end]
	if len(name) == 0 || b[end] != ';' {
		_ = s.malformed(p, "\"&\" that begins no reference; write \"&amp;\"")
		return 0, -1
	}
	switch string(name) {
	case "amp":
		r = '&'
	case "lt":
		r = '<'
	case "gt":
		r = '>'
	case "quot":
		r = '"'
	case "apos":
		r = '\''
	default:
		_ = s.malformed(p, "the entity %s is not declared; only amp, lt, gt, quot and apos are", quote(name))
		return 0, -1
	}
	return r, end + 1
}

func (s *scanner) characterReference(p int) (r rune, end int) {
	b, at := s.buf, p
	base := rune(10)
	p += len("&#")
	if b[p] == 'x' {
		base = 16
		p++
	}
	first := p
	for ; r <= utf8.MaxRune; p++ {
		d := digit(b[p], base)
		if d < 0 {
			break
		}
		r = r*base + d
	}
	switch {
	case r > utf8.MaxRune, p > first && b[p] == ';' && !isChar(r):
		_ = s.malformed(at, "a character reference to a character that XML does not allow")
	case p == s.w:
		_ = s.short("a character reference")
	case p == first || b[p] != ';':
		_ = s.malformed(at, "a character reference must be \"&#\", decimal digits, or \"x\" and hexadecimal ones, and \";\"")
	default:
		return r, p + 1
	}
	return 0, -1
}

func digit(c byte, base rune) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case base == 16 && c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}
