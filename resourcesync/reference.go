package resourcesync

import "unicode/utf8"

// parseReference scans the reference at p. It returns the character and where the
// reference ends, or -1. Only characters and the five predefined entities are known; a
// DTD, which could declare others, is never read.
func (s *scanner) parseReference(p int) (r rune, end int) {
	b := s.in.buf
	if b[p+1] == '#' {
		return s.characterReference(p)
	}
	end, _ = s.name(p+1, "a reference")
	if end < 0 {
		return 0, -1
	}
	name := b[p+1 : end]
	if len(name) == 0 || b[end] != ';' {
		s.in.refuse(p, "\"&\" that begins no reference; write \"&amp;\"")
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
		s.in.refuse(p, "the entity %s is not declared; only amp, lt, gt, quot and apos are", quote(name))
		return 0, -1
	}
	return r, end + 1
}

func (s *scanner) characterReference(p int) (r rune, end int) {
	b, at := s.in.buf, p
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
		s.in.refuse(at, "a character reference to a character that XML does not allow")
	case p == s.in.w:
		s.in.short("a character reference")
	case p == first || b[p] != ';':
		s.in.refuse(at, "a character reference must be \"&#\", decimal digits, or \"x\" and hexadecimal ones, and \";\"")
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
