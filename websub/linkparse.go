package websub

import "strings"

// What ParseLinks keeps at most; anything beyond is ignored.
const (
	MaxLinks      = 256 // links of a message
	MaxLinkRels   = 16  // relation types of a link
	MaxLinkParams = 32  // other parameters of a link
)

const space = " \t"

// ParseLinks reads the values of all Link headers of a message, which mean the same in
// one header as in several (RFC 8288). It never fails, since those who read a header
// seldom control how it is written: it skips what it cannot read, up to the next comma.
// Commas and semicolons may stand in targets and in quotes, a value may lack its quotes
// and a parameter its semicolon, and elements may be empty. Of several rel or anchor
// parameters the first counts. A link without any relation type is ignored.
func ParseLinks(values []string) []Link {
	var links []Link
	for _, v := range values {
		s := linkScanner{v}
		for len(links) < MaxLinks && s.seek() {
			if l := s.link(); len(l.Rels) > 0 {
				links = append(links, l)
			}
		}
	}
	return links
}

// linkScanner consumes a header from the front. Each step consumes at least a byte and
// none reads a byte again, so the work is linear.
type linkScanner struct{ s string }

// seek skips everything before the next link. It reports whether there is a link with an
// end.
func (s *linkScanner) seek() bool {
	for {
		s.trim(space + ",")
		switch {
		case s.s == "":
			return false
		case s.s[0] == '<':
			return strings.Contains(s.s, ">")
		case s.s[0] == '"':
			s.quoted()
		default:
			s.until(`",`)
		}
	}
}

// link consumes the link at the front.
func (s *linkScanner) link() Link {
	s.s = s.s[1:]
	l := Link{Target: strings.Trim(s.until(">"), space)}
	s.s = s.s[1:]
	var hasRel, hasAnchor bool
	for {
		s.trim(space + ";")
		// A < begins the next link, without the comma between them.
		if s.s == "" || s.s[0] == ',' || s.s[0] == '<' {
			return l
		}
		name, value := s.param()
		switch {
		case name == "rel" && !hasRel:
			hasRel = true
			for rel := range strings.FieldsSeq(value) {
				if len(l.Rels) == MaxLinkRels {
					break
				}
				l.Rels = append(l.Rels, rel)
			}
		case name == "anchor" && !hasAnchor:
			hasAnchor = true
			l.Anchor = value
		case name == "rel" || name == "anchor" || !isToken(name) || len(l.Params) == MaxLinkParams:
		default:
			l.Params = append(l.Params, Param{name, value})
		}
	}
}

// param consumes a parameter: a name, and a value if there is one.
func (s *linkScanner) param() (name, value string) {
	name = strings.ToLower(s.until(space + `=;,<"`))
	s.trim(space)
	switch {
	case strings.HasPrefix(s.s, "="):
		s.s = s.s[1:]
		s.trim(space)
		if strings.HasPrefix(s.s, `"`) {
			return name, s.quoted()
		}
		return name, strings.TrimRight(s.until(";,"), space)
	case strings.HasPrefix(s.s, `"`):
		s.quoted() // a quote that belongs to nothing
	}
	return name, ""
}

func (s *linkScanner) trim(cutset string) { s.s = strings.TrimLeft(s.s, cutset) }

// until consumes everything before the first of some characters, or all.
func (s *linkScanner) until(chars string) string {
	i := strings.IndexAny(s.s, chars)
	if i < 0 {
		i = len(s.s)
	}
	before := s.s[:i]
	s.s = s.s[i:]
	return before
}

// quoted consumes the quoted string at the front and returns its value. A string without
// an end extends to the end of the header.
func (s *linkScanner) quoted() string {
	s.s = s.s[1:]
	value := s.until(`"\`)
	if strings.HasPrefix(s.s, `"`) { // the common case, without a copy
		s.s = s.s[1:]
		return value
	}
	var b strings.Builder
	b.WriteString(value)
	for s.s != "" && s.s[0] != '"' {
		if s.s[0] == '\\' && len(s.s) > 1 {
			b.WriteByte(s.s[1])
			s.s = s.s[2:]
		} else {
			s.s = s.s[1:] // a backslash at the very end
		}
		b.WriteString(s.until(`"\`))
	}
	s.s = strings.TrimPrefix(s.s, `"`)
	return b.String()
}
