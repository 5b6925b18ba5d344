package resourcesync

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// prolog looks at the first bytes: byte order mark, encoding, XML declaration.
func (s *scanner) prolog() error {
	s.started = true
	head := s.buf[s.p:s.w]
	for _, other := range []struct{ prefix, name string }{
		{"\xFE\xFF", "UTF-16"},
		{"\xFF\xFE", "UTF-16 or UTF-32"},
		{"\x00\x00", "UTF-32"},
		{"\x00<", "UTF-16"},
		{"<\x00", "UTF-16 or UTF-32"},
		{"\x4C\x6F\xA7\x94", "EBCDIC"},
	} {
		if bytes.HasPrefix(head, []byte(other.prefix)) {
			return s.fail(BadEncoding, "XML", s.p, "the document is in %s; send it in UTF-8", other.name)
		}
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		s.p += len("\uFEFF")
		s.mark.off = s.p // it takes no column
	}
	s.tok = s.p
	if bytes.HasPrefix(s.buf[s.p:s.w], []byte("<?xml")) && isSpace(s.buf[s.p+5]) {
		return s.xmlDecl()
	}
	return nil
}

// xmlDecl scans the XML declaration (production 23). Only version 1.0 is taken:
// although the fifth edition lets a processor read 1.1 as 1.0, many do not.
func (s *scanner) xmlDecl() error {
	const what = "the XML declaration"
	s.p += len("<?xml")
	step, encodingAt := 0, 0
	var encoding string
	for {
		start := s.p
		s.skipSpace()
		if bytes.HasPrefix(s.buf[s.p:s.w], []byte("?>")) {
			break
		}
		if s.p == s.w {
			return s.short(what)
		}
		if s.p == start {
			return s.malformed(s.p, "white space is missing in %s", what)
		}
		at := s.p
		name, value, ok := s.pseudoAttribute(what)
		if !ok {
			return s.err
		}
		switch {
		case name == "version" && step == 0:
			if value != "1.0" {
				return s.malformed(at, "the XML version is %s; only 1.0 is read", quote([]byte(value)))
			}
			step = 1
		case name == "encoding" && step == 1:
			if !isEncodingName(value) {
				return s.malformed(at, "%s is no name of an encoding", quote([]byte(value)))
			}
			encoding, encodingAt, step = value, at, 2
		case name == "standalone" && (step == 1 || step == 2):
			if value != "yes" && value != "no" {
				return s.malformed(at, "standalone must be \"yes\" or \"no\", not %s", quote([]byte(value)))
			}
			step = 3
		default:
			return s.malformed(at, "%s does not belong here: %s may have version, encoding and standalone, in this order", quote([]byte(name)), what)
		}
	}
	if step == 0 {
		return s.malformed(s.p, "%s lacks the version", what)
	}
	if encoding != "" && !strings.EqualFold(encoding, "UTF-8") {
		return s.fail(BadEncoding, "XML", encodingAt, "the document declares the encoding %s; only UTF-8 is read", quote([]byte(encoding)))
	}
	s.p += len("?>")
	return nil
}

// pseudoAttribute scans name="value" in the XML declaration.
func (s *scanner) pseudoAttribute(what string) (name, value string, ok bool) {
	start := s.p
	for classes[s.buf[s.p]]&clsName != 0 {
		s.p++
	}
	name = string(s.buf[start:s.p])
	s.skipSpace()
	if name == "" || s.buf[s.p] != '=' {
		s.expected(s.p, "name=\"value\" is missing", what)
		return "", "", false
	}
	s.p++
	s.skipSpace()
	q := s.buf[s.p]
	if q != '"' && q != '\'' {
		s.expected(s.p, "a value in quotes is missing", what)
		return "", "", false
	}
	s.p++
	n := bytes.IndexByte(s.buf[s.p:s.w], q)
	if n < 0 {
		_ = s.short("the XML declaration")
		return "", "", false
	}
	value = string(s.buf[s.p : s.p+n])
	s.p += n + 1
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
	for classes[s.buf[s.p]]&clsSpace != 0 {
		s.p++
	}
}

// comment scans a comment of any length.
func (s *scanner) comment() {
	s.p += len("<!--")
	s.opaque("a comment", func(p int) (end int, more bool) {
		switch {
		case s.buf[p] != '-' || s.buf[p+1] != '-':
			return p + 1, true
		case s.buf[p+2] != '>':
			s.refuse(p, "\"--\" within a comment")
			return p, false
		}
		return p + 3, false
	})
}

// instruction scans a processing instruction of any length.
func (s *scanner) instruction() {
	const what = "a processing instruction"
	nameEnd, colon := s.name(s.p+2, what)
	switch {
	case nameEnd < 0:
		return
	case nameEnd == s.p+2:
		s.unexpected(nameEnd, what)
		return
	case colon >= 0 && !s.noNamespaces:
		s.refuse(s.p+2, "the target of a processing instruction must not have a colon")
		return
	case strings.EqualFold(string(s.buf[s.p+2:nameEnd]), "xml"):
		s.refuse(s.p, "an XML declaration may only stand at the very beginning of the document, as \"<?xml\"")
		return
	}
	s.p = nameEnd
	if !bytes.HasPrefix(s.buf[s.p:s.w], []byte("?>")) && classes[s.buf[s.p]]&clsSpace == 0 {
		s.unexpected(s.p, what)
		return
	}
	s.opaque(what, func(p int) (end int, more bool) {
		if s.buf[p] == '?' && s.buf[p+1] == '>' {
			return p + 2, false
		}
		return p + 1, true
	})
}

// opaque passes over characters, window by window, and asks at each "-" and
// "?", with two more bytes to look at, whether the end is there.
func (s *scanner) opaque(what string, at func(p int) (end int, more bool)) {
	for {
		s.need(minToken)
		p := s.p
		for p+2 < s.w || s.eof && p < s.w {
			c := s.buf[p]
			if classes[c]&clsOpaque != 0 {
				p++
				continue
			}
			if c == '-' || c == '?' {
				var more bool
				if p, more = at(p); !more {
					s.p = p
					return
				}
				continue
			}
			n := s.chars(p)
			if n == 0 {
				if p > s.p && p+utf8.UTFMax > s.w && !s.eof {
					break
				}
				_ = s.badChar(p, what)
				return
			}
			p += n
		}
		s.p = p
		if s.eof && p == s.w {
			_ = s.short(what)
			return
		}
	}
}
