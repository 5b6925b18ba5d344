package resourcesync

import "unicode/utf8"

// Classes of ASCII bytes, one bit each, so that the inner loops of the scanner
// look at a byte once. No byte from 0x80 and no NUL is in any class: a loop
// over a class stops there, and so at the NUL behind the window's last byte.
const (
	clsSpace     = 1 << iota // S of XML: space, tab, line feed, carriage return
	clsNameStart             // may begin a name; the colon is not among them
	clsName                  // may stand in a name; the colon is not among them either
	clsText                  // stands for itself in text and CDATA, whatever follows
	clsValue                 // stands for itself in an attribute value
	clsOpaque                // may stand in a comment or a processing instruction
)

var classes = func() (t [256]uint8) {
	const specialText, specialValue = "<&]\r", "<&\"'\t\n\r"
	for c := range 0x80 {
		b := byte(c)
		if isSpace(b) {
			t[c] |= clsSpace
		}
		letter := b|0x20 >= 'a' && b|0x20 <= 'z' || b == '_'
		if letter {
			t[c] |= clsNameStart
		}
		if letter || b >= '0' && b <= '9' || b == '-' || b == '.' {
			t[c] |= clsName
		}
		if !isChar(rune(c)) {
			continue
		}
		t[c] |= clsOpaque
		if !has(specialText, b) {
			t[c] |= clsText
		}
		if !has(specialValue, b) {
			t[c] |= clsValue
		}
	}
	return t
}()

func has(set string, b byte) bool {
	for i := range len(set) {
		if set[i] == b {
			return true
		}
	}
	return false
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// isChar is production 2 of XML 1.0.
func isChar(r rune) bool {
	return r >= 0x20 && r <= 0xD7FF || r == '\t' || r == '\n' || r == '\r' ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

// isNameStart is production 4 of XML 1.0, fifth edition, from U+0080.
func isNameStart(r rune) bool {
	switch {
	case r < 0x300:
		return r >= 0xC0 && r != 0xD7 && r != 0xF7
	case r < 0x2000:
		return r >= 0x370 && r != 0x37E
	default:
		return r == 0x200C || r == 0x200D || r >= 0x2070 && r <= 0x218F ||
			r >= 0x2C00 && r <= 0x2FEF || r >= 0x3001 && r <= 0xD7FF ||
			r >= 0xF900 && r <= 0xFDCF || r >= 0xFDF0 && r <= 0xFFFD ||
			r >= 0x10000 && r <= 0xEFFFF
	}
}

// isName is production 4a, from U+0080.
func isName(r rune) bool {
	return isNameStart(r) || r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040
}

// startsNCName reports whether b begins as a name without a colon does.
func startsNCName(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	if b[0] < utf8.RuneSelf {
		return classes[b[0]]&clsNameStart != 0
	}
	r, n := utf8.DecodeRune(b)
	return n > 1 && isNameStart(r)
}

// trimSpace cuts the white space of XML, which is less than that of Unicode,
// from both ends of b.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(b []byte) bool { return len(trimSpace(b)) == 0 }
