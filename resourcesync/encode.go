package resourcesync

import "strings"

// EncodeURI adds the percent-encoding that an address lacks. Each byte behind the host
// that cannot stand in a URI (RFC 3986) becomes %XX: a space, a |, a byte that is not
// ASCII, or a % that no two hexadecimal digits follow. All else stays as it is written,
// existing encodings included, so a URI is returned unchanged. An IRI becomes the URI
// that it stands for (RFC 3987, 3.1), except for its host, which HTTP clients encode in
// another way. Relative references are encoded likewise.
//
// If the result would be longer than any loc may be, 16 KiB, s is returned unchanged.
//
// Reader and NotificationReader apply it to every loc, so that two documents that
// write one address differently mean the same resource.
func EncodeURI(s string) string {
	const digits = "0123456789ABCDEF"
	var out []byte
	done, fragment := 0, false
	for at := misfit(s, behindHost(s, behindScheme(s)), isURIByte, &fragment); at < len(s); at = misfit(s, at+1, isURIByte, &fragment) {
		out = append(append(out, s[done:at]...), '%', digits[s[at]>>4], digits[s[at]&15])
		done = at + 1
	}
	if done == 0 || len(out)+len(s)-done > DefaultLimits.Token {
		return s
	}
	return string(append(out, s[done:]...))
}

// withoutUser returns an address, which may be relative, without the user and the password before its host. A document should
// have none (RFC 9110, 4.2.4): anyone who reads it would send and show a password that is not theirs. If the scheme is neither
// http nor https, the user may be part of the name, so only the password is left out.
func withoutUser(s string) string {
	from := behindScheme(s)
	to := behindHost(s, from)
	at := strings.LastIndexByte(s[from:to], '@')
	if at < 0 {
		return s
	}
	user := ""
	if scheme := s[:from]; scheme != "" && !strings.EqualFold(scheme, "http:") && !strings.EqualFold(scheme, "https:") {
		user, _, _ = strings.Cut(s[from+len("//"):from+at], ":")
		user += "@"
	}
	return s[:from] + "//" + user + s[from+at+1:]
}

// behindScheme returns where the scheme of s and its colon end; 0 if s has no scheme.
func behindScheme(s string) int {
	if colon := strings.IndexByte(s, ':'); colon > 0 && isWord(s[:colon], "+-.") {
		return colon + 1
	}
	return 0
}

// behindHost returns where the host ends, if the scheme ends at at.
func behindHost(s string, at int) int {
	if !strings.HasPrefix(s[at:], "//") {
		return at
	}
	for at += len("//"); at < len(s) && s[at] != '/' && s[at] != '?' && s[at] != '#'; {
		at++
	}
	return at
}

// misfit returns the first place from i, behind the host, of a byte that cannot stand
// there as it is, and len(s) if there is none. Bytes of class stand for themselves.
// Fragment is whether there was a # before i, and is updated.
func misfit(s string, i int, class uint8, fragment *bool) int {
	for ; i < len(s); i++ {
		if valueClasses[s[i]]&class != 0 {
			continue
		}
		switch c := s[i]; {
		case c == '%' && i+2 < len(s) && all(s[i+1:i+3], isHexByte):
		case c == '#' && !*fragment:
			*fragment = true
		default:
			return i
		}
	}
	return i
}
