package websub

import (
	"fmt"
	"slices"
	"strings"
)

// Link is one link of a Link header (RFC 8288).
type Link struct {
	// Target is the text between the angle brackets, a URL or a reference relative to the
	// URL of the answer with the header.
	Target string
	// Rels are the relation types: one link that says rel="self hub" is two.
	Rels []string
	// Anchor, if not empty, says that the link is about another resource.
	Anchor string
	// Params are the other parameters, names in lower case, in order.
	Params []Param
}

// Has reports whether the link has a relation type. Upper and lower case are
// the same (RFC 8288, 2.1).
func (l Link) Has(rel string) bool {
	return slices.ContainsFunc(l.Rels, func(r string) bool {
		// Equal lengths keep letters beyond ASCII out, some of which fold into it.
		return len(r) == len(rel) && strings.EqualFold(r, rel)
	})
}

// Targets returns the targets of those links that have a relation type, in order. Links
// with an anchor are about something else and are ignored.
func Targets(links []Link, rel string) []string {
	var targets []string
	for _, l := range links {
		if l.Anchor == "" && l.Has(rel) {
			targets = append(targets, l.Target)
		}
	}
	return targets
}

// String writes the link as a Link header has it: <target>; rel="...". Whatever its
// fields are, the text is one link and safe in a header: characters that could end the
// target are percent-encoded, quotes are escaped, control characters become underscores,
// and parameters without a valid name are omitted.
func (l Link) String() string { return FormatLinks(l) }

// FormatLinks writes links as the value of a single Link header (HUB-43).
func FormatLinks(links ...Link) string {
	var b strings.Builder
	for i, l := range links {
		if i > 0 {
			b.WriteString(", ")
		}
		l.write(&b)
	}
	return b.String()
}

func (l Link) write(b *strings.Builder) {
	b.WriteByte('<')
	for i := range len(l.Target) {
		if c := l.Target[i]; urlByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
	b.WriteByte('>')
	writeParam(b, "rel", strings.Join(l.Rels, " "))
	if l.Anchor != "" {
		writeParam(b, "anchor", l.Anchor)
	}
	for _, p := range l.Params {
		if isToken(p.Name) && !strings.EqualFold(p.Name, "rel") && !strings.EqualFold(p.Name, "anchor") {
			writeParam(b, p.Name, p.Value)
		}
	}
}

func writeParam(b *strings.Builder, name, value string) {
	b.WriteString("; " + name + `="`)
	for i := range len(value) {
		switch c := value[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' && c != '\t' || c == 0x7f:
			b.WriteByte('_')
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// isToken reports whether s is a token of RFC 9110, which names of parameters
// are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
