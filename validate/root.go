package validate

import "bytes"

// maxProlog is how far into a document its root is looked for.
const maxProlog = 64 << 10

// IsSitemap reports whether a document of application/xml must follow the rules of
// ResourceSync: its root is urlset or sitemapindex, of whatever namespace, or no root is
// found in its first 64 KiB. Others, such as feeds, are plain content.
//
// It skips comments, instructions and a document type declaration, and does not resolve
// entities.
func IsSitemap(doc []byte) bool {
	switch string(rootName(doc)) {
	case "urlset", "sitemapindex", "":
		return true
	}
	return false
}

// rootName returns the local name of doc's root element; nil if it finds none.
func rootName(doc []byte) []byte {
	doc = narrowed(doc[:min(len(doc), maxProlog)])
	for {
		doc = bytes.TrimLeft(doc, " \t\r\n")
		switch {
		case bytes.HasPrefix(doc, []byte("<!--")):
			doc = after(doc[len("<!--"):], "-->")
		case bytes.HasPrefix(doc, []byte("<?")):
			doc = after(doc, "?>")
		case bytes.HasPrefix(doc, []byte("<!DOCTYPE")):
			doc = afterDoctype(doc)
		case bytes.HasPrefix(doc, []byte("<")):
			return localName(doc[1:])
		default:
			return nil
		}
	}
}

// narrowed returns doc without a byte order mark, and one byte for each character of
// UTF-16, which is enough to find names in ASCII.
func narrowed(doc []byte) []byte {
	var low int // which byte of each pair
	switch {
	case bytes.HasPrefix(doc, []byte("\ufeff")):
		return doc[len("\ufeff"):]
	case bytes.HasPrefix(doc, []byte("\xfe\xff")):
		doc, low = doc[2:], 1
	case bytes.HasPrefix(doc, []byte("\xff\xfe")):
		doc, low = doc[2:], 0
	case bytes.HasPrefix(doc, []byte("\x00<")):
		low = 1
	case bytes.HasPrefix(doc, []byte("<\x00")):
		low = 0
	default:
		return doc
	}
	out := make([]byte, 0, len(doc)/2)
	for ; len(doc) >= 2; doc = doc[2:] {
		c := doc[low]
		if doc[1-low] != 0 {
			c = 0x80 // any letter beyond ASCII
		}
		out = append(out, c)
	}
	return out
}

// after returns what comes after the first end in doc; nil if there is none.
func after(doc []byte, end string) []byte {
	_, rest, _ := bytes.Cut(doc, []byte(end))
	return rest
}

// afterDoctype skips a document type declaration and the declarations in it, whose
// literals, comments and instructions may contain anything.
func afterDoctype(doc []byte) []byte {
	for depth := 0; len(doc) > 0; {
		switch c := doc[0]; {
		case c == '"' || c == '\'':
			doc = after(doc[1:], string(c))
			continue
		case bytes.HasPrefix(doc, []byte("<!--")):
			doc = after(doc[len("<!--"):], "-->")
			continue
		case bytes.HasPrefix(doc, []byte("<?")):
			doc = after(doc, "?>")
			continue
		case c == '<':
			depth++
		case c == '>':
			depth--
		}
		if doc = doc[1:]; depth == 0 {
			return doc
		}
	}
	return nil
}

// localName returns the name that begins a start tag, without its prefix; nil if it does
// not end, or is no name.
func localName(tag []byte) []byte {
	end := bytes.IndexAny(tag, " \t\r\n/>")
	if end <= 0 || !startsName(tag[0]) {
		return nil
	}
	if i := bytes.IndexByte(tag[:end], ':'); i >= 0 {
		return tag[i+1 : end]
	}
	return tag[:end]
}

// startsName reports whether c may begin a name of XML, or a letter beyond ASCII.
func startsName(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':' || c >= 0x80
}
