package resourcesync

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// prolog looks at the first bytes: byte order mark, encoding, XML declaration.
func (s *scanner) prolog() error {
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
			return s.in.fail(BadEncoding, "XML", s.in.p, "the document is in %s; send it in UTF-8", other.name)
		}
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		s.in.p += len("\uFEFF")
		s.in.mark.off = s.in.p // it takes no column
	}
	s.tok = s.in.p
	if bytes.HasPrefix(s.in.buf[s.in.p:s.in.w], []byte("<?xml")) && isSpace(s.in.buf[s.in.p+5]) {
		return s.xmlDecl()
	}
	return nil
}

// xmlDecl scans the XML declaration (production 23). Only version 1.0 is taken:
// although the fifth edition lets a processor read 1.1 as 1.0, many do not.
func (s *scanner) xmlDecl() error {
	const what = "the XML declaration"
	s.in.p += len("<?xml")
	step, encodingAt := 0, 0
	var encoding string
	for {
		start := s.in.p
		s.skipSpace()
		if bytes.HasPrefix(s.in.buf[s.in.p:s.in.w], []byte("?>")) {
			break
		}
		if s.in.p == s.in.w {
			return s.in.short(what)
		}
		if s.in.p == start {
			return s.in.malformed(s.in.p, "white space is missing in %s", what)
		}
		at := s.in.p
		name, value, ok := s.pseudoAttribute(what)
		if !ok {
			return s.in.err
		}
		switch {
		case name == "version" && step == 0:
			if value != "1.0" {
				return s.in.malformed(at, "the XML version is %s; only 1.0 is read", quote([]byte(value)))
			}
			step = 1
		case name == "encoding" && step == 1:
			if !isEncodingName(value) {
				return s.in.malformed(at, "%s is no name of an encoding", quote([]byte(value)))
			}
			encoding, encodingAt, step = value, at, 2
		case name == "standalone" && (step == 1 || step == 2):
			if value != "yes" && value != "no" {
				return s.in.malformed(at, "standalone must be \"yes\" or \"no\", not %s", quote([]byte(value)))
			}
			step = 3
		default:
			return s.in.malformed(at, "%s does not belong here: %s may have version, encoding and standalone, in this order", quote([]byte(name)), what)
		}
	}
	if step == 0 {
		return s.in.malformed(s.in.p, "%s lacks the version", what)
	}
	if encoding != "" && !strings.EqualFold(encoding, "UTF-8") {
		return s.in.fail(BadEncoding, "XML", encodingAt, "the document declares the encoding %s; only UTF-8 is read", quote([]byte(encoding)))
	}
	s.in.p += len("?>")
	return nil
}

// pseudoAttribute scans name="value" in the XML declaration.
func (s *scanner) pseudoAttribute(what string) (name, value string, ok bool) {
	start := s.in.p
	for classes[s.in.buf[s.in.p]]&clsName != 0 {
		s.in.p++
	}
	name = string(s.in.buf[start:s.in.p])
	s.skipSpace()
	if name == "" || s.in.buf[s.in.p] != '=' {
		s.expected(s.in.p, "name=\"value\" is missing", what)
		return "", "", false
	}
	s.in.p++
	s.skipSpace()
	q := s.in.buf[s.in.p]
	if q != '"' && q != '\'' {
		s.expected(s.in.p, "a value in quotes is missing", what)
		return "", "", false
	}
	s.in.p++
	n := bytes.IndexByte(s.in.buf[s.in.p:s.in.w], q)
	if n < 0 {
		_ = s.in.short("the XML declaration")
		return "", "", false
	}
	value = string(s.in.buf[s.in.p : s.in.p+n])
	s.in.p += n + 1
	return name, value, true
}

func isEncodingName(v string) bool {
	for i := range len(v) {
		c := v[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		other := c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return v != ""
}

func (s *scanner) skipSpace() {
	for classes[s.in.buf[s.in.p]]&clsSpace != 0 {
		s.in.p++
	}
}

// comment scans a comment of any length.
func (s *scanner) comment() {
	s.in.p += len("<!--")
	s.opaque("a comment", func(p int) (end int, more bool) {
		switch {
		case s.in.buf[p] != '-' || s.in.buf[p+1] != '-':
			return p + 1, true
		case s.in.buf[p+2] != '>':
			s.in.refuse(p, "\"--\" within a comment")
			return p, false
		}
		return p + 3, false
	})
}

// instruction scans a processing instruction of any length.
func (s *scanner) instruction() {
	const what = "a processing instruction"
	nameEnd, colon := s.name(s.in.p+2, what)
	switch {
	case nameEnd < 0:
		return
	case nameEnd == s.in.p+2:
		s.unexpected(nameEnd, what)
		return
	case colon >= 0:
		s.in.refuse(s.in.p+2, "the target of a processing instruction must not have a colon")
		return
	case strings.EqualFold(string(s.in.buf[s.in.p+2:nameEnd]), "xml"):
		s.in.refuse(s.in.p, "an XML declaration may only stand at the very beginning of the document, as \"<?xml\"")
		return
	}
	s.in.p = nameEnd
	if !bytes.HasPrefix(s.in.buf[s.in.p:s.in.w], []byte("?>")) && classes[s.in.buf[s.in.p]]&clsSpace == 0 {
		s.unexpected(s.in.p, what)
		return
	}
	s.opaque(what, func(p int) (end int, more bool) {
		if s.in.buf[p] == '?' && s.in.buf[p+1] == '>' {
			return p + 2, false
		}
		return p + 1, true
	})
}

// opaque passes over characters, window by window, and asks at each "-" and
// "?", with two more bytes to look at, whether the end is there.
func (s *scanner) opaque(what string, at func(p int) (end int, more bool)) {
	for {
		s.in.need(minToken)
		p := s.in.p
		for p+2 < s.in.w || s.in.eof && p < s.in.w {
			c := s.in.buf[p]
			if classes[c]&clsOpaque != 0 {
				p++
				continue
			}
			if c == '-' || c == '?' {
				var more bool
				if p, more = at(p); !more {
					s.in.p = p
					return
				}
				continue
			}
			n := s.in.chars(p)
			if n == 0 {
				if p > s.in.p && p+utf8.UTFMax > s.in.w && !s.in.eof {
					break
				}
				_ = s.in.badChar(p, what)
				return
			}
			p += n
		}
		s.in.p = p
		if s.in.eof && p == s.in.w {
			_ = s.in.short(what)
			return
		}
	}
}
