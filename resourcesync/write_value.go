package resourcesync

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The form of single values. The writer is stricter than the reader, which has to accept
// what others write.

// Classes of bytes in values.
const (
	isURIByte   = 1 << iota // may stand in a URI, except for % [ ] and #
	isIRIByte               // the same for an IRI
	isTokenByte             // may stand in a token of HTTP, as in a media type
	isRelByte               // may stand in the name of a relation
	isHexByte
)

var valueClasses = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c >= utf8.RuneSelf:
			t[c] = isIRIByte
		case c >= '0' && c <= '9':
			t[c] = isURIByte | isIRIByte | isTokenByte | isRelByte | isHexByte
		case c >= 'a' && c <= 'z':
			t[c] = isURIByte | isIRIByte | isTokenByte | isRelByte
		case c >= 'A' && c <= 'Z':
			t[c] = isURIByte | isIRIByte | isTokenByte
		case strings.IndexByte("-._~!$&'()*+,;=:@/?", byte(c)) >= 0:
			t[c] = isURIByte | isIRIByte
		}
		if strings.IndexByte("abcdefABCDEF", byte(c)) >= 0 {
			t[c] |= isHexByte
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= isTokenByte
		}
	}
	t['-'] |= isRelByte
	t['.'] |= isRelByte
	return t
}()

// uriFault returns why s is no URI or IRI with a scheme (RFC 3986, RFC 3987); empty if it
// is one.
func uriFault(s string) string {
	at := behindScheme(s)
	if at == 0 || at == len(s) {
		return "it must begin with a scheme, as https://example.org/a does"
	}
	host, fragment := behindHost(s, at), false // square brackets may stand in the host
	for at = misfit(s, at, isIRIByte, &fragment); at < len(s); at = misfit(s, at+1, isIRIByte, &fragment) {
		switch c := s[at]; {
		case c == '%':
			return "a % that no two hexadecimal digits follow; write %25"
		case c != '[' && c != ']' || at >= host:
			return "percent-encode the " + describe(c) + " in it"
		}
	}
	return ""
}

func describe(c byte) string {
	switch {
	case c == ' ':
		return "space"
	case c < ' ' || c == 0x7F:
		return "control character"
	}
	return string(rune(c))
}

// isWord reports whether s begins with an ASCII letter, and has only letters, digits
// and others after it.
func isWord(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !has(others, c) && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// isRelation reports whether s is the name of a relation as they are registered,
// or a URI (DOC-53).
func isRelation(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && all(s, isRelByte) || uriFault(s) == ""
}

// isMediaType reports whether s is a type and a subtype, whatever parameters
// follow (DOC-58).
func isMediaType(s string) bool {
	bare, _, parameters := strings.Cut(s, ";")
	if parameters {
		bare = strings.TrimRight(bare, " \t")
	}
	kind, sub, _ := strings.Cut(bare, "/")
	return kind != "" && sub != "" && all(kind, isTokenByte) && all(sub, isTokenByte)
}

// isHashList reports whether s is a list of algorithm:digest (DOC-55).
func isHashList(s string) bool {
	elements := 0
	for {
		for s != "" && isSpace(s[0]) {
			s = s[1:]
		}
		if s == "" {
			return elements > 0
		}
		end := len(s)
		for _, space := range []byte(" \t\r\n") {
			if i := strings.IndexByte(s[:end], space); i >= 0 {
				end = i
			}
		}
		if colon := strings.IndexByte(s[:end], ':'); colon < 1 || colon == end-1 {
			return false
		}
		s = s[end:]
		elements++
	}
}

// isChangeFreq and isPriority check values by the schema of sitemaps.
func isChangeFreq(s string) bool {
	return slices.Contains([]string{"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}, s)
}

func isPriority(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(s) > 32 || whole+fraction == "" || strings.Trim(fraction, "0123456789") != "" {
		return false
	}
	whole = strings.TrimLeft(whole, "0")
	return whole == "" || whole == "1" && strings.Trim(fraction, "0") == ""
}

func all(s string, class uint8) bool {
	for i := range len(s) {
		if valueClasses[s[i]]&class == 0 {
			return false
		}
	}
	return true
}
