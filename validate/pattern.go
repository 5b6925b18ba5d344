package validate

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

// Pattern matches URLs, of topics for example `https://example.org/*`. The zero
// Pattern matches nothing. It may be shared between goroutines.
//
// A `*` in the path stands for any run of characters, slashes and the query included;
// `*.` before the host stands for any of its subdomains; `*` alone matches every URL.
// URLs are compared by what they mean: scheme and host without regard to case, an address
// and a port as numbers, no port as the scheme's own, the path decoded and without dot segments. So
// another spelling does not get around a pattern.
//
// For some servers an encoded slash or a backslash is a character of a segment, for
// others it ends the segment. A Pattern knows both readings. To let a URL in
// ([Pattern.Match]) both must match; to keep it out ([Pattern.Touches]) one is enough.
type Pattern struct {
	raw        string
	all        bool
	scheme     string
	host       string
	subdomains bool
	parts      readings[[]string] // of the path and query, around the stars
}

// readings is one thing by the two readings of a path.
type readings[T any] struct {
	strict T // %2F and \ are characters like others
	loose  T // they are slashes
}

// ParsePattern reads a pattern: `*`, or an http or https URL with a path. The path is
// required because `https://example.org*` looks right and would also match
// `https://example.org.evil.example/`.
func ParsePattern(s string) (Pattern, error) {
	if s == "*" {
		return Pattern{raw: s, all: true}, nil
	}
	bad := func(why string) (Pattern, error) {
		return Pattern{}, fmt.Errorf("pattern %q: %s; write it like https://example.org/*", s, why)
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return bad("it has no scheme")
	}
	host, _, ok := strings.Cut(rest, "/")
	if !ok {
		return bad("it has no path after the host")
	}
	p := Pattern{raw: s}
	if sub, ok := strings.CutPrefix(host, "*."); ok {
		p.subdomains, host = true, sub
	}
	if strings.Contains(host, "*") {
		return bad("a star in the host may only stand first, as in https://*.example.org/*")
	}
	u, err := canonical(scheme + "://" + host + rest[strings.Index(rest, "/"):])
	if err != nil {
		return bad(err.Error())
	}
	p.scheme, p.host = u.scheme, u.host
	p.parts = readings[[]string]{strings.Split(u.path.strict, "*"), strings.Split(u.path.loose, "*")}
	return p, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.raw }

// Match reports whether the pattern matches rawURL, however a server reads its path.
// Anything but an http or https URL matches only the pattern `*`.
func (p Pattern) Match(rawURL string) bool {
	if p.all {
		return true
	}
	path, ok := p.pathOf(rawURL)
	return ok && glob(p.parts.strict, path.strict) && glob(p.parts.loose, path.loose)
}

// Touches reports whether the pattern matches rawURL as some server may read it. It is
// Match for patterns that keep something out.
func (p Pattern) Touches(rawURL string) bool {
	if p.all {
		return true
	}
	path, ok := p.pathOf(rawURL)
	return ok && (glob(p.parts.strict, path.strict) || glob(p.parts.loose, path.loose))
}

// pathOf is the path of rawURL. Ok says whether scheme and host match the pattern.
func (p Pattern) pathOf(rawURL string) (path readings[string], ok bool) {
	if p.host == "" {
		return path, false
	}
	u, err := canonical(rawURL)
	if err != nil || u.scheme != p.scheme {
		return path, false
	}
	if p.subdomains {
		ok = strings.HasSuffix(u.host, "."+p.host)
	} else {
		ok = u.host == p.host
	}
	// A star in a URL is not that of a pattern.
	star := strings.NewReplacer("*", "%2A")
	return readings[string]{star.Replace(u.path.strict), star.Replace(u.path.loose)}, ok
}

// MatchAny reports whether one of the patterns matches rawURL.
func MatchAny(patterns []Pattern, rawURL string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(rawURL) })
}

// TouchesAny reports whether one of the patterns touches rawURL.
func TouchesAny(patterns []Pattern, rawURL string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Touches(rawURL) })
}

// glob reports whether s is parts with anything between them.
func glob(parts []string, s string) bool {
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok || len(parts) == 1 {
		return ok && s == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, parts[last])
}

type canonicalURL struct {
	scheme, host string
	path         readings[string] // with the query behind it
}

// canonical splits a URL so that two spellings of it are equal.
func canonical(raw string) (canonicalURL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return canonicalURL{}, errors.New("it is not a URL")
	}
	c := canonicalURL{scheme: strings.ToLower(u.Scheme)}
	switch {
	case c.scheme != "http" && c.scheme != "https":
		return c, errors.New("the scheme is not http or https")
	case u.User != nil:
		return c, errors.New("it has a user name")
	}
	if strings.Trim(u.Hostname(), ".") == "" {
		return c, errors.New("it has no host")
	}
	c.host = egress.HostPort(u)
	decoded := decode(u.EscapedPath())
	c.path.strict = clean(decoded)
	c.path.loose = clean(strings.NewReplacer("%2F", "/", `\`, "/").Replace(decoded))
	if u.RawQuery != "" {
		c.path.strict += "?" + u.RawQuery
		c.path.loose += "?" + u.RawQuery
	}
	return c, nil
}

// decode decodes an escaped path, except for characters with another meaning: a slash,
// the start of a query, a star of a pattern, or another escape.
func decode(escaped string) string {
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '%' || i+2 >= len(escaped) {
			b.WriteByte(escaped[i])
			continue
		}
		code := strings.ToUpper(escaped[i : i+3])
		i += 2
		switch code {
		case "%2F", "%3F", "%2A", "%25":
			b.WriteString(code)
		default:
			char, _ := url.PathUnescape(code) // url.Parse found it right
			b.WriteString(char)
		}
	}
	return b.String()
}

// clean removes dot segments.
func clean(decoded string) string {
	out := path.Clean("/" + decoded)
	// Clean drops the slash at the end. A dot segment at the end means a slash, too.
	switch _, last := path.Split(decoded); {
	case out == "/":
	case last == "", last == ".", last == "..":
		out += "/"
	}
	return out
}
