package web

import (
	"net/url"
	"strings"
)

// HasDotSegment reports whether a name in the path of u is "." or "..", also percent-encoded. A
// server resolves these, so the resource need not be below an address that u begins with. Some servers
// decode a slash first, and some take a backslash for one; so both separate names.
func HasDotSegment(u *url.URL) bool {
	for name := range strings.FieldsFuncSeq(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}
