package ui

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/admin"
)

// maxDocument is how much of a document a page shows, in bytes of HTML.
const maxDocument = 64 << 10

// maxIndent is how deep elements are indented at most.
const maxIndent = 20

// readable returns the beginning of a document for a person: XML is indented, anything else
// is as it is. It reports whether something was left out.
func readable(document []byte) (text string, cut bool) {
	if cut = len(document) > maxDocument; cut {
		document = document[:maxDocument]
	}
	text, shorter := escapedWithin(admin.Readable(indented(document)), maxDocument)
	return text, cut || shorter
}

// escapedWithin cuts a text so that it has at most limit bytes once it is escaped for HTML, and
// reports whether it did.
func escapedWithin(text string, limit int) (string, bool) {
	const longest = 5 // bytes of &#34;
	for i, c := range text {
		switch size := utf8.RuneLen(c); c {
		case '<', '>', '&', '\'', '"', '+':
			limit -= longest
		default:
			limit -= max(size, 1)
		}
		if limit < 0 {
			return text[:i], true
		}
	}
	return text, false
}

// indented returns XML with each element on a line of its own. It reads the tokens alone, so
// prefixes stay as they are. What cannot be read as XML, such as the end of a document that
// was cut, follows unchanged.
func indented(document []byte) []byte {
	d := xml.NewDecoder(bytes.NewReader(document))
	d.Strict = false
	var out bytes.Buffer
	depth, open := 0, false // open: nothing has followed the last start tag
	line := func() {
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(strings.Repeat("  ", min(max(depth, 0), maxIndent)))
	}
	for {
		begin := d.InputOffset()
		token, err := d.RawToken()
		raw := document[begin:d.InputOffset()]
		if err != nil {
			if !errors.Is(err, io.EOF) {
				line()
				out.Write(document[begin:])
			}
			return out.Bytes()
		}
		switch token.(type) {
		case xml.StartElement:
			line()
			if open = !bytes.HasSuffix(raw, []byte("/>")); open {
				depth++
			}
		case xml.EndElement:
			if len(raw) == 0 { // of an empty element, which has one tag
				continue
			}
			if depth--; !open {
				line()
			}
			open = false
		case xml.CharData:
			if raw = bytes.Trim(raw, " \t\r\n"); len(raw) == 0 {
				continue
			}
		default:
			line()
		}
		out.Write(raw)
	}
}
