package validate

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Pattern matches topic URLs, for example `https://example.org/*`. The zero
// Pattern matches nothing. It may be shared between goroutines.
//
// A `*` in the path stands for any run of characters, slashes and the query
// included; `*.` before the host stands for any of its subdomains; `*` alone
// matches every URL. URLs are compared by what they mean: scheme and host
// without regard to case, the port only where it is not the scheme's own, the
// path decoded and without dot segments. So nobody gets around a pattern by
// another spelling.
type Pattern struct {
	raw        string
	all        bool
	scheme     string
	host       string
	subdomains bool
	parts      []string // of the path and query, around the stars
}

// ParsePattern reads a pattern: `*`, or an http or https URL with a path. A
// path has to be there so that `https://example.org*`, which looks right and
// also matches `https://example.org.evil.example/`, can't be written.
func ParsePattern(s string) (Pattern, error) {
	if s == "*" {
		return Pattern{raw: s, all: true}, nil
	}
	bad := func(why string) (Pattern, error) {
		return Pattern{}, fmt.Errorf("topic pattern %q: %s; write it like https://example.org/*", s, why)
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
	p.scheme, p.host, p.parts = u.scheme, u.host, strings.Split(u.path, "*")
	return p, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.raw }

// Match reports whether rawURL is one that the pattern means. What is not an
// http or https URL matches no pattern but `*`.
func (p Pattern) Match(rawURL string) bool {
	if p.all {
		return true
	}
	if len(p.parts) == 0 {
		return false
	}
	u, err := canonical(rawURL)
	if err != nil || u.scheme != p.scheme {
		return false
	}
	if p.subdomains {
		if !strings.HasSuffix(u.host, "."+p.host) {
			return false
		}
	} else if u.host != p.host {
		return false
	}
	return glob(p.parts, u.path)
}

// MatchAny reports whether one of the patterns matches rawURL.
func MatchAny(patterns []Pattern, rawURL string) bool {
	for _, p := range patterns {
		if p.Match(rawURL) {
			return true
		}
	}
	return false
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

var defaultPorts = map[string]string{"http": "80", "https": "443"}

type canonicalURL struct{ scheme, host, path string }

// canonical takes a URL apart so that two spellings of one are equal. The path
// has the query behind it.
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
		return c, errors.New("it holds a user name")
	}
	c.host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if c.host == "" {
		return c, errors.New("it has no host")
	}
	port := u.Port()
	if port != "" && port != defaultPorts[c.scheme] {
		c.host += ":" + port
	}
	c.path = path.Clean("/" + u.Path)
	// Clean drops the slash at the end, which a dot segment stands for, too.
	switch _, last := path.Split(u.Path); {
	case c.path == "/":
	case last == "", last == ".", last == "..":
		c.path += "/"
	}
	if u.RawQuery != "" {
		c.path += "?" + u.RawQuery
	}
	return c, nil
}
