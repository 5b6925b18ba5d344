package resourcesync

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// encoder appends XML to a buffer, in the form that every reader understands. It keeps
// the first error: a value that has no such form. Its callers decide on elements and
// attributes.
type encoder struct {
	asRead bool // broken rules and limits are no fault
	buf    []byte
	fault  *Error // nil while all is well

	tag   int // where the current start tag begins in buf
	count int // how many attributes it has, namespace declarations among them
}

// references replace the characters that don't stand for themselves, in text and in
// attribute values alike. In sitemaps both quotes must be escaped everywhere; ">" is for
// "]]>" in text, and white space for attribute values, where a parser would make it a
// space (XML 1.0, 2.4 and 3.3.3).
var references = [utf8.RuneSelf]string{
	'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;", '\'': "&apos;",
	'\t': "&#9;", '\n': "&#10;", '\r': "&#13;",
}

// plain marks the ASCII characters that stand for themselves.
var plain = func() (t [256]bool) {
	for c := range references {
		t[c] = c >= ' ' && references[c] == ""
	}
	return t
}()

// plainPrefix returns how much of s stands for itself, by eight bytes at a time.
func plainPrefix(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		v := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// "&" and "'" differ in the lowest bit only, "<" and ">" in the one above.
		if (v|below(v, ' ')|zeros((v|2*ones)^'>'*ones)|zeros(v^'"'*ones)|zeros((v|ones)^'\''*ones))&highs != 0 {
			break
		}
	}
	return i
}

// refuse keeps the fault, unless there is one already.
func (x *encoder) refuse(kind ErrorKind, rule, format string, args ...any) {
	if x.fault == nil {
		x.fault = &Error{Kind: kind, Rule: rule, Msg: fmt.Sprintf(format, args...)}
	}
}

// escaped appends s, the value of what.
func (x *encoder) escaped(what, s string) {
	from := 0
	for i := plainPrefix(s); i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case n == 1:
				x.refuse(BadEncoding, "XML", "%s is %s, which is not UTF-8", what, quote(s))
				return
			case !isChar(r):
				x.refuse(NotWellFormed, "XML", "%s has the character %U, which XML does not allow", what, r)
				return
			}
			i += n
			continue
		}
		if references[c] == "" {
			x.refuse(NotWellFormed, "XML", "%s has the character %U, which XML does not allow", what, c)
			return
		}
		x.buf = append(append(x.buf, s[from:i]...), references[c]...)
		from = i + 1
		i = from + plainPrefix(s[from:])
	}
	x.buf = append(x.buf, s[from:]...)
}

func (x *encoder) raw(s string) { x.buf = append(x.buf, s...) }

// text appends an element that contains text alone, on a line of its own.
func (x *encoder) text(name, s string) {
	x.openText(name)
	x.escaped(name, s)
	x.closeText(name)
}

// when appends an element that contains a datetime.
func (x *encoder) when(name string, t time.Time) {
	x.openText(name)
	x.datetime(name, t)
	x.closeText(name)
}

func (x *encoder) openText(name string) {
	x.buf = append(append(append(x.buf, "    <"...), name...), '>')
}

func (x *encoder) closeText(name string) {
	x.buf = append(append(append(x.buf, '<', '/'), name...), '>', '\n')
}

func (x *encoder) datetime(what string, t time.Time) {
	if s := t.Unix(); s < minSeconds || s > maxSeconds {
		x.refuse(BadDocument, "DOC-59", "%s is in the year %d; a W3C datetime has four digits for it", what, t.UTC().Year())
		return
	}
	x.buf = t.UTC().AppendFormat(x.buf, time.RFC3339Nano)
}

// open begins an element that has attributes alone.
func (x *encoder) open(indent, name string) {
	x.raw(indent)
	x.tag, x.count = len(x.buf), 0
	x.raw("<")
	x.raw(name)
}

// close ends it. Tags stay within the limits that readers have by default.
func (x *encoder) close(name string) {
	x.raw("/>\n")
	if x.asRead {
		return
	}
	if n := len(x.buf) - x.tag; n > DefaultLimits.Token {
		x.refuse(OverLimit, "XML", "an %s has %d bytes; readers accept up to %d", name, n, DefaultLimits.Token)
	}
	// The root's own declarations are in scope too.
	if most := DefaultLimits.Attributes - 2; x.count > most {
		x.refuse(OverLimit, "XML", "an %s has %d attributes and namespaces; readers accept up to %d", name, x.count, most)
	}
}

func (x *encoder) attrName(name string) {
	x.count++
	x.buf = append(append(append(x.buf, ' '), name...), '=', '"')
}

// attr appends an attribute, unless it is empty.
func (x *encoder) attr(name, value string) {
	if value != "" {
		x.attrName(name)
		x.escaped(name, value)
		x.buf = append(x.buf, '"')
	}
}

// attrTime appends an attribute, unless t is zero.
func (x *encoder) attrTime(name string, t time.Time) {
	if !t.IsZero() {
		x.attrName(name)
		x.datetime(name, t)
		x.buf = append(x.buf, '"')
	}
}

func (x *encoder) attrInt(name string, n int64) {
	x.attrName(name)
	x.buf = strconv.AppendInt(x.buf, n, 10)
	x.buf = append(x.buf, '"')
}

// foreign appends attributes of other namespaces, and declares a prefix for each
// of these on the element itself (DOC-10).
func (x *encoder) foreign(attrs []Attribute) {
	for i, a := range attrs {
		switch {
		case a.Space == "" || a.Space == rsURI || a.Space == sitemapURI || a.Space == xmlnsURI:
			x.refuse(BadDocument, "DOC-10", "the attribute %s is in the namespace %s; it must be in one of your own", quote(a.Name), quote(a.Space))
		case !isNCName(a.Name):
			x.refuse(NotWellFormed, "XML", "%s is no name of an attribute; leave the prefix to the writer", quote(a.Name))
		}
		first := i // which attribute is the first of this namespace
		for j := range i {
			if attrs[j].Space != a.Space {
				continue
			}
			if attrs[j].Name == a.Name {
				x.refuse(NotWellFormed, "XML", "the attribute %s of the namespace %s is there twice", quote(a.Name), quote(a.Space))
			}
			first = min(first, j)
		}
		prefix := "xml" // which needs no declaration
		if a.Space != xmlURI {
			prefix = "x" + strconv.Itoa(first+1)
			if first == i {
				x.attr("xmlns:"+prefix, a.Space)
			}
		}
		x.attrName(prefix + ":" + a.Name)
		x.escaped(a.Name, a.Value)
		x.buf = append(x.buf, '"')
	}
}

// isNCName reports whether s is a name without a colon.
func isNCName(s string) bool {
	if !startsNCName([]byte(s)) {
		return false
	}
	for _, r := range s {
		if r < utf8.RuneSelf {
			if classes[r]&clsName == 0 {
				return false
			}
		} else if r == utf8.RuneError || !isName(r) {
			return false
		}
	}
	return true
}
