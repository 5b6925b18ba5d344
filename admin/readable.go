package admin

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Readable returns bytes from elsewhere as text that shows what they are and does nothing:
// what is not UTF-8, or no visible character, is replaced by U+FFFD. Line ends and tabs stay.
func Readable(b []byte) string {
	text := strings.ToValidUTF8(string(b), string(utf8.RuneError))
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		if r == '\r' {
			return -1
		}
		return utf8.RuneError
	}, text)
}
