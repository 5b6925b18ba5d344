package resourcesync

import (
	"encoding/xml"
	"io"
	neturl "net/url"
	"strings"
	"unicode/utf8"
)

const (
	atomURI = "http://www.w3.org/2005/Atom"
	rdfURI  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
)

// LinksFromFeed returns the links of an Atom or RSS feed as a whole, such as
// the self and hub of WebSub (DST-01): the link elements of an Atom feed, and
// those of Atom's namespace in the channel of RSS 0.9x, 1.0 or 2.0. Links of
// entries and items don't count. A link without rel has the relation
// "alternate" (RFC 4287).
//
// Targets are resolved against xml:base, if the feed has it, and against base, the URL
// that the feed came from. The rest is as for LinksFromHTML. Feeds need not be
// well-formed XML. A DTD is skipped, and entities other than those of HTML stay as they
// are.
func LinksFromFeed(r io.Reader, base string) ([]Link, error) {
	source := &failing{r: io.LimitReader(r, maxDiscovery)}
	d := xml.NewDecoder(source)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	// Tags and URLs are ASCII in nearly all encodings that are not UTF-8.
	var recoded bool // a feed may name an encoding again and again, and has one
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) {
		if recoded {
			return in, nil
		}
		recoded = true
		return latin1{in}, nil
	}
	f := feed{base: parseBase(base)}
	for len(f.found) < maxDiscovered {
		tok, err := d.Token()
		if err != nil {
			break // the end, or nothing that can be read on
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if !f.start(tok) {
				return nil, source.err
			}
		case xml.EndElement:
			f.depth--
		}
	}
	return f.found, source.err
}

// feed goes through a feed.
type feed struct {
	found []Link
	base  *neturl.URL // as the elements say that are open, outside of links
	depth int         // of elements, the root being at 0
	// links is the depth of the links of the feed as a whole, and inChannel says that the
	// element above that depth is a channel, if the format has one.
	links     int
	inChannel bool
}

// start handles a start tag. It returns false if this is no feed.
func (f *feed) start(tag xml.StartElement) bool {
	depth := f.depth
	f.depth++
	switch {
	case depth == 0:
		switch {
		case tag.Name == xml.Name{Space: atomURI, Local: "feed"}:
			f.links, f.inChannel = 1, true
		case tag.Name.Local == "rss", tag.Name == xml.Name{Space: rdfURI, Local: "RDF"}:
			f.links = 2
		default:
			return false
		}
		f.base = xmlBase(f.base, tag)
	case depth == 1 && f.links == 2:
		if f.inChannel = tag.Name.Local == "channel"; f.inChannel {
			f.base = xmlBase(f.base, tag)
		}
	case depth == f.links && f.inChannel && tag.Name == xml.Name{Space: atomURI, Local: "link"}:
		f.link(tag)
	}
	return true
}

// link adds a link of the feed.
func (f *feed) link(tag xml.StartElement) {
	l := Link{Rel: "alternate"}
	for _, a := range tag.Attr {
		value := strings.TrimSpace(a.Value)
		switch {
		case a.Name.Space != "" || value == "":
		case a.Name.Local == "rel":
			l.Rel = value
		case a.Name.Local == "href":
			l.Href = value
		case a.Name.Local == "type":
			l.Type = value
		}
	}
	f.found = append(f.found, resolveAll([]Link{l}, xmlBase(f.base, tag))...)
}

// xmlBase returns the URL to which the URLs within an element are relative.
func xmlBase(outside *neturl.URL, tag xml.StartElement) *neturl.URL {
	for _, a := range tag.Attr {
		if a.Name.Local == "base" && a.Name.Space == xmlURI {
			return resolve(outside, strings.TrimSpace(a.Value))
		}
	}
	return outside
}

// latin1 makes UTF-8 of ISO 8859-1.
type latin1 struct{ r io.Reader }

// Read needs room for two bytes, which a buffered reader gives.
func (l latin1) Read(p []byte) (int, error) {
	raw := make([]byte, len(p)/2)
	n, err := l.r.Read(raw)
	out := p[:0]
	for _, c := range raw[:n] {
		out = utf8.AppendRune(out, rune(c))
	}
	return len(out), err
}
