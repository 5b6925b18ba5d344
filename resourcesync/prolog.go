package resourcesync

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// prolog checks the first bytes: byte order mark, encoding, XML declaration.
func (s *scanner) prolog() {
	s.started = true
	head := s.in.buf[s.in.p:s.in.w]
	for _, other := range []struct{ prefix, name string }{
		{"\xFE\xFF", "UTF-16"},
		{"\xFF\xFE", "UTF-16 or UTF-32"},
		{"\x00\x00", "UTF-32"},
		{"\x00<", "UTF-16"},
		{"<\x00", "UTF-16 or UTF-32"},
		{"\x4C\x6F\xA7\x94", "EBCDIC"},
	} {
		if bytes.HasPrefix(head, []byte(other.prefix)) {
			s.in.fail(BadEncoding, "XML", s.in.p, "the document is in %s; send it in UTF-8", other.name)
			return
		}
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		s.in.p += len("\uFEFF")
		s.in.known.off = s.in.p // it has no column
	}
	s.tok = s.in.p
	if bytes.HasPrefix(s.in.buf[s.in.p:s.in.w], []byte("<?xml")) && isSpace(s.in.buf[s.in.p+5]) {
		s.xmlDecl()
	}
}

// declared are what the XML declaration may have, in this order.
var declared = []string{"version", "encoding", "standalone"}

// xmlDecl scans the XML declaration (production 23). It accepts version 1.0 only:
// although the fifth edition lets a processor read 1.1 as 1.0, many do not.
func (s *scanner) xmlDecl() {
	const what = "the XML declaration"
	s.attrs, s.values = s.attrs[:0], s.values[:0]
	p := s.attributes(s.in.p+len("<?xml"), what)
	if p < 0 {
		return
	}
	if !bytes.HasPrefix(s.in.buf[p:s.in.w], []byte("?>")) {
		s.unexpected(p, what)
	} else if len(s.attrs) == 0 {
		s.in.refuse(p, "%s lacks the version", what)
	}
	first := 0 // in declared
	for i := range s.attrs {
		a := &s.attrs[i]
		value := string(s.value(a))
		which := slices.Index(declared, string(s.attrName(a)))
		switch {
		case s.in.err != nil:
			return
		case which < first, i == 0 && which > 0:
			s.in.refuse(a.off, "%s does not belong here: %s may have version, encoding and standalone, in this order", quote(s.attrName(a)), what)
		case a.moved:
			s.in.refuse(a.off, "the value of %s has a reference or white space, which %s must not have", quote(s.attrName(a)), what)
		case which == 0 && value != "1.0":
			s.in.refuse(a.off, "the XML version is %s; only 1.0 is read", quote(value))
		case which == 1 && !isWord(value, "._-"):
			s.in.refuse(a.off, "%s is no name of an encoding", quote(value))
		case which == 1 && !strings.EqualFold(value, "UTF-8"):
			s.in.fail(BadEncoding, "XML", a.off, "the document declares the encoding %s; only UTF-8 is read", quote(value))
		case which == 2 && value != "yes" && value != "no":
			s.in.refuse(a.off, "standalone must be \"yes\" or \"no\", not %s", quote(value))
		}
		first = which + 1
	}
	s.in.p = p + len("?>")
}

// comment scans a comment of any length.
func (s *scanner) comment() {
	s.in.p += len("<!--")
	if !s.opaque("a comment", "--") {
		return
	}
	if s.in.buf[s.in.p+2] != '>' {
		s.in.refuse(s.in.p, "\"--\" within a comment")
	}
	s.in.p += len("-->")
}

// instruction scans a processing instruction of any length.
func (s *scanner) instruction() {
	const what = "a processing instruction"
	nameEnd, colon := s.name(s.in.p+2, what)
	switch {
	case nameEnd < 0:
	case nameEnd == s.in.p+2, !bytes.HasPrefix(s.in.buf[nameEnd:s.in.w], []byte("?>")) && classes[s.in.buf[nameEnd]]&clsSpace == 0:
		s.unexpected(nameEnd, what)
	case colon >= 0:
		s.in.refuse(s.in.p+2, "the target of a processing instruction must not have a colon")
	case strings.EqualFold(string(s.in.buf[s.in.p+2:nameEnd]), "xml"):
		s.in.refuse(s.in.p, "an XML declaration may only stand at the very beginning of the document, as \"<?xml\"")
	default:
		s.in.p = nameEnd
		if s.opaque(what, "?>") {
			s.in.p += len("?>")
		}
	}
}

// opaque passes over characters, window by window, up to the two bytes of stop, behind
// which one more byte can be read. It returns false after an error.
func (s *scanner) opaque(what, stop string) bool {
	for {
		s.in.need(minToken)
		p := s.in.p
		for p+2 < s.in.w || s.in.eof && p < s.in.w {
			c := s.in.buf[p]
			if c == stop[0] && s.in.buf[p+1] == stop[1] {
				s.in.p = p
				return true
			}
			n := 1
			if classes[c]&clsOpaque == 0 {
				n = s.in.chars(p)
			}
			if n == 0 {
				if p > s.in.p && p+utf8.UTFMax > s.in.w && !s.in.eof {
					break
				}
				return s.in.badChar(p, what)
			}
			p += n
		}
		s.in.p = p
		if s.in.eof && p == s.in.w {
			return s.in.short(what)
		}
	}
}
