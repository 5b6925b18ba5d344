package resourcesync

import (
	"strconv"
	"unicode/utf8"
)

// name scans a name at p, within what. It returns where the name ends: p itself if none
// begins there, and -1 after an error. Colon is the place of its first colon, or -1. A
// name must not end the document.
func (s *scanner) name(p int, what string) (end, colon int) {
	b, start := s.in.buf, p
	colon = -1
	if classes[b[p]]&clsNameStart == 0 && b[p] < utf8.RuneSelf {
		return p, -1
	}
	for s.in.err == nil {
		for classes[b[p]]&clsName != 0 {
			p++
		}
		switch c := b[p]; {
		case c == ':' && colon >= 0:
			s.in.refuse(p, "a name has two colons")
		case c == ':':
			colon = p - start
			p++
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(b[p:s.in.w])
			broken := r == utf8.RuneError && n <= 1
			switch {
			case broken && p+utf8.UTFMax > s.in.w && !s.in.eof:
				s.in.short(what)
			case broken:
				s.in.badChar(p, what)
			case p == start && !isNameStart(r), !isName(r):
				return p, colon
			}
			p += n
		case p == s.in.w:
			s.in.short(what)
		case colon >= 0 && !startsNCName(b[start+colon+1:p]):
			s.in.refuse(start+colon, "the colon in a name must be followed by a name")
		default:
			return p, colon
		}
	}
	return -1, -1
}

// unexpected fails on the character at p, which does not belong in what.
func (s *scanner) unexpected(p int, what string) bool {
	return s.expected(p, "unexpected character", what)
}

// expected fails at p with a sentence, or because the document ends there or has no valid
// character there.
func (s *scanner) expected(p int, sentence, what string) bool {
	switch {
	case p >= s.in.w, !s.in.eof && !utf8.FullRune(s.in.buf[p:s.in.w]):
		s.in.short(what)
	case classes[s.in.buf[p]]&(clsText|clsSpace) == 0 && !has("<&]", s.in.buf[p]) && s.in.chars(p) == 0:
		s.in.badChar(p, what)
	default:
		r, _ := utf8.DecodeRune(s.in.buf[p:s.in.w])
		s.in.refuse(p, "%s: found %s in %s", sentence, strconv.QuoteRune(r), what)
	}
	return false
}
