package resourcesync

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	neturl "net/url" // the tests of this package have a function url
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// How much the discovery of links reads of one page, feed or robots.txt, and how much it
// returns. It ignores the rest.
const (
	maxDiscovery  = 1 << 20 // bytes of a document
	maxDiscovered = 256     // links
	maxMarkup     = 64 << 10
)

// LinkReader returns the function that reads the links within content of a media type:
// LinksFromHTML for pages, LinksFromFeed for every other type that ends with "xml", and
// nil for other content, which has none. ContentType is the header's value.
func LinkReader(contentType string) func(r io.Reader, base string) ([]Link, error) {
	switch media, _, _ := mime.ParseMediaType(contentType); {
	case media == "text/html" || media == "application/xhtml+xml":
		return LinksFromHTML
	case strings.HasSuffix(media, "xml"):
		return LinksFromFeed
	}
	return nil
}

// LinksFromHTML returns the link elements in the head of an HTML page, such as the
// rel="resourcesync" that leads to a Capability List (SRC-13) and the self and hub of
// WebSub. There is one Link for each relation of an element, with Rel, Href and Type
// alone. Relations are as the page writes them; compare them without regard to case.
//
// Links in the body don't count, since readers of a page may be able to write there
// (WebSub 8.1). Nor do links in comments, scripts, templates and noscript. The head ends
// as it does for a browser, at the first thing that can't be in it.
//
// Targets are resolved against the page's base element, if it has one, and against base,
// the URL that the page came from. It returns only http and https URLs, and without a
// base no relative ones. A user and a password are left out.
//
// It is lenient: the worst page has no links. It reads a mebibyte at most and returns 256
// links at most. Its error is that of r, and comes with the links that were found before
// it.
func LinksFromHTML(r io.Reader, base string) ([]Link, error) {
	source := &failing{r: io.LimitReader(r, maxDiscovery)}
	h := htmlHead{tokens: html.NewTokenizer(withoutMark(source))}
	h.tokens.SetMaxBuf(maxMarkup)
	for h.next() {
	}
	return resolveAll(h.found, resolve(parseBase(base), h.base)), source.err
}

const byteOrderMark = "\ufeff"

// withoutMark skips a byte order mark, which is no text of a page.
func withoutMark(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // an error comes again
		_, _ = b.Discard(len(mark)) // they are there
	}
	return b
}

// failing remembers an error of its reader, which a parser may hide.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// htmlHead goes through the head of an HTML page.
type htmlHead struct {
	tokens *html.Tokenizer
	found  []Link
	base   string // href of the first base element that has one
}

// next reads one token, and returns false after the end of the head.
func (h *htmlHead) next() bool {
	switch h.tokens.Next() {
	case html.ErrorToken:
		return false
	case html.TextToken:
		return len(bytes.TrimSpace(h.tokens.Text())) == 0 // other text is the body's
	case html.EndTagToken:
		switch name, _ := h.tokens.TagName(); atom.Lookup(name) {
		case atom.Head, atom.Body, atom.Html, atom.Br: // other end tags are ignored
			return false
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		name, more := h.tokens.TagName()
		return h.element(atom.Lookup(name), more)
	}
	return true // a comment or the doctype
}

// element handles a start tag. A head may contain the elements that the parser of the
// HTML standard knows in its mode "in head".
func (h *htmlHead) element(tag atom.Atom, more bool) bool {
	switch tag {
	case atom.Html, atom.Head, atom.Meta, atom.Basefont, atom.Bgsound:
	case atom.Base, atom.Link:
		h.link(tag, more)
		return len(h.found) < maxDiscovered
	case atom.Title, atom.Style, atom.Script, atom.Noframes, atom.Noscript, atom.Template:
		return h.skip(tag)
	default:
		return false
	}
	return true
}

// skip skips an element and those of its name within.
func (h *htmlHead) skip(tag atom.Atom) bool {
	for depth := 1; depth > 0; {
		kind := h.tokens.Next()
		if kind == html.ErrorToken {
			return false
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken && kind != html.EndTagToken {
			continue // in HTML a slash at the end of a start tag closes nothing
		}
		if name, _ := h.tokens.TagName(); atom.Lookup(name) != tag {
			continue
		}
		if kind == html.EndTagToken {
			depth--
		} else {
			depth++
		}
	}
	return true
}

// link reads the attributes of a link or base element.
func (h *htmlHead) link(tag atom.Atom, more bool) {
	var rel string
	var l Link
	for more {
		var key, value []byte
		key, value, more = h.tokens.TagAttr()
		switch string(key) {
		case "rel":
			rel = string(value)
		case "href":
			l.Href = strings.TrimSpace(string(value))
		case "type":
			l.Type = strings.TrimSpace(string(value))
		}
	}
	switch {
	case l.Href == "":
	case tag == atom.Base:
		if h.base == "" {
			h.base = l.Href
		}
	default:
		for l.Rel = range strings.FieldsSeq(rel) {
			if len(h.found) < maxDiscovered {
				h.found = append(h.found, l)
			}
		}
	}
}

// Sitemaps returns the URLs that the Sitemap lines of a robots.txt name, which may be
// Resource Lists (SRC-14), in order and each once. Relative ones, which the format does
// not allow, are resolved against base, the URL of the robots.txt. It is as lenient and
// has the same bounds as LinksFromHTML.
func Sitemaps(r io.Reader, base string) ([]string, error) {
	source := &failing{r: io.LimitReader(r, maxDiscovery)}
	lines := bufio.NewScanner(source)
	lines.Buffer(nil, maxMarkup)
	lines.Split(splitLines)
	var found []Link
	for lines.Scan() && len(found) < maxDiscovered {
		line, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), byteOrderMark), "#")
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); ok && value != "" && strings.EqualFold(strings.TrimSpace(name), "sitemap") {
			found = append(found, Link{Href: value})
		}
	}
	var all []string
	for _, l := range resolveAll(found, parseBase(base)) {
		if !slices.Contains(all, l.Href) {
			all = append(all, l.Href)
		}
	}
	return all, source.err
}

// splitLines is a bufio.SplitFunc for lines that end with LF, CR or both. A line that
// does not fit the buffer is ignored.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	switch {
	case len(data) >= maxMarkup/2:
		return len(data), nil, nil
	case atEOF && len(data) > 0:
		return len(data), data, nil
	}
	return 0, nil, nil
}

// parseBase returns nil if base is no URL that others can be relative to.
func parseBase(base string) *neturl.URL {
	return resolve(nil, base)
}

// resolve returns where ref leads from base, or base if that is no http or https URL.
func resolve(base *neturl.URL, ref string) *neturl.URL {
	if u := target(base, ref); u != nil {
		return u
	}
	return base
}

// target returns where ref leads from base, which may be nil, without a user and a password. It
// returns nil if that is no http or https URL.
func target(base *neturl.URL, ref string) *neturl.URL {
	if ref == "" || !utf8.ValidString(ref) {
		return nil
	}
	u, err := neturl.Parse(ref)
	if err != nil {
		return nil
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	u.User = nil
	return u
}

// resolveAll makes the targets of links absolute, and drops the links whose targets
// cannot be.
func resolveAll(links []Link, base *neturl.URL) []Link {
	var good []Link
	for _, l := range links {
		if u := target(base, l.Href); u != nil {
			l.Href = u.String()
			good = append(good, l)
		}
	}
	return good
}
