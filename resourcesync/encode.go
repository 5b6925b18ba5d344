package resourcesync

import "strings"

// EncodeURI returns the URI that an address means which is written without all of
// its percent-encoding: each byte behind the host that cannot stand in a URI (RFC
// 3986) becomes %XX, such as a space, a |, what is not ASCII, and a % that no two
// hexadecimal digits follow. All else stays as it is written, existing encodings
// included; so a URI comes back as it is, and what came back does, too. An IRI
// becomes the URI that it stands for (RFC 3987, 3.1), except for its host, which
// HTTP clients write in a way of its own. A relative reference is encoded likewise.
//
// What would become longer than any loc may be, 16 KiB, comes back as it is.
//
// Reader and NotificationReader apply it to every loc, so that two documents that
// write one address differently mean the same resource.
func EncodeURI(s string) string {
	at := behindHost(s)
	extra, fragment := 0, false
	for i := at; i < len(s); i++ {
		if valueClasses[s[i]]&isURIByte != 0 && s[i] < 0x80 || staysInURI(s, i, &fragment) {
			continue
		}
		extra += 2
	}
	if extra == 0 || len(s)+extra > DefaultLimits.Token {
		return s
	}
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	out.Grow(len(s) + extra)
	out.WriteString(s[:at])
	fragment = false
	for i := at; i < len(s); i++ {
		if c := s[i]; staysInURI(s, i, &fragment) {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(digits[c>>4])
			out.WriteByte(digits[c&15])
		}
	}
	return out.String()
}

// behindHost is where in a URI or reference the path begins, or what comes in
// place of one.
func behindHost(s string) int {
	at := 0
	if colon := strings.IndexByte(s, ':'); colon > 0 && isScheme(s[:colon]) {
		at = colon + 1
	}
	if !strings.HasPrefix(s[at:], "//") {
		return at
	}
	at += len("//")
	if end := strings.IndexAny(s[at:], "/?#"); end >= 0 {
		return at + end
	}
	return len(s)
}

// staysInURI reports whether the byte at i, behind the host, may stand where it is.
// Fragment says, and is told, whether there was a # before.
func staysInURI(s string, i int, fragment *bool) bool {
	c := s[i]
	switch {
	case valueClasses[c]&isURIByte != 0:
		return c < 0x80
	case c == '%':
		return i+2 < len(s) && valueClasses[s[i+1]]&isHexByte != 0 && valueClasses[s[i+2]]&isHexByte != 0
	case c == '#' && !*fragment:
		*fragment = true
		return true
	}
	return false
}
