package resourcesync

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// loc is 12 to 2,048 characters long, as the schema of sitemaps has it (DOC-60).
const (
	minLoc = 12
	maxLoc = 2048
)

// fitsLoc reports whether s is neither too short nor too long for a loc.
func fitsLoc(s string) bool {
	if n := len(s); n >= utf8.UTFMax*minLoc && n <= maxLoc {
		return true // however many bytes a character takes
	}
	n := utf8.RuneCountInString(s)
	return n >= minLoc && n <= maxLoc
}

// composer turns the head and the entries of one document into XML, and holds
// them against the rules of its kind. A Writer sends on what it composes, a
// Splitter keeps it until it knows which part it belongs to.
type composer struct {
	encoder
	rules      rules
	index      bool
	begin, end string // the tags of an entry
	entries    int    // how many have been composed
}

// newComposer checks the head of a document.
func newComposer(h *Head) (composer, error) {
	c := composer{index: h.Index, begin: "  <url>\n", end: "  </url>\n"}
	if c.index {
		c.begin, c.end = "  <sitemap>\n", "  </sitemap>\n"
	}
	k := kindOf(h.Capability, h.Index)
	switch {
	case k == nil && h.Index && kindOf(h.Capability, false) != nil:
		return c, badAt("DOC-11", 0, 0, "there is no index of documents of the capability %s", quote([]byte(h.Capability)))
	case k == nil:
		return c, badAt("DOC-12", 0, 0, "%s is no capability of version 1.1", quote([]byte(h.Capability)))
	case k.inputOnly:
		return c, badAt(k.rule, 0, 0, "a %s should not be written; name several in a Source Description", k.name)
	}
	c.rules = rules{kind: k, fault: func(rule, format string, args ...any) error {
		return badAt(rule, 0, 0, format, args...)
	}}
	if err := c.rules.checkHead(h, h.set()); err != nil {
		return c, err
	}
	if err := c.rules.checkUp(h); err != nil {
		return c, err
	}
	c.head(h) // for what is wrong with it
	c.buf = c.buf[:0]
	if c.fault != nil {
		return c, c.fault
	}
	return c, nil
}

// head appends all that comes before the first entry: links first, as the
// schema and the examples have it (DOC-51).
func (c *composer) head(h *Head) {
	c.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<")
	c.raw(rootOf(h))
	c.raw(" xmlns=\"" + sitemapURI + "\" xmlns:rs=\"" + rsURI + "\">\n")
	c.links("  ", h.Links)
	c.open("  ", "rs:md")
	c.attr("capability", h.Capability)
	c.attrTime("at", h.At)
	c.attrTime("completed", h.Completed)
	c.attrTime("from", h.From)
	c.attrTime("until", h.Until)
	c.foreign(h.Attributes)
	c.close("rs:md")
}

func rootOf(h *Head) string {
	if h.Index {
		return "sitemapindex"
	}
	return "urlset"
}

// foot is all that comes after the last entry.
func foot(h *Head) string { return "</" + rootOf(h) + ">\n" }

// entry appends e, or nothing if something is wrong with it.
func (c *composer) entry(e *Entry) error {
	before := c.now()
	set := e.set()
	err := c.rules.checkEntry(e, set)
	if err == nil {
		c.compose(e, set)
		if c.fault != nil {
			err, c.fault = c.fault, nil
		}
	}
	if err != nil {
		c.undo(before)
		return c.inEntry(e, err)
	}
	c.entries++
	return nil
}

// state is what an entry changes, and a refusal restores.
type state struct {
	size, entries int
	rules         rules
}

func (c *composer) now() state { return state{len(c.buf), c.entries, c.rules} }

func (c *composer) undo(s state) { c.buf, c.entries, c.rules = c.buf[:s.size], s.entries, s.rules }

// inEntry says which entry an error is about.
func (c *composer) inEntry(e *Entry, err error) error {
	if e2, ok := err.(*Error); ok { //nolint:errorlint // the rules and the encoder return it as it is
		e2.Msg = fmt.Sprintf("entry %d, %s: %s", c.entries+1, quote([]byte(e.Loc)), e2.Msg)
	}
	return err
}

// compose appends e in the order of the schema (DOC-51).
func (c *composer) compose(e *Entry, set field) {
	c.checkValues(e)
	c.raw(c.begin)
	c.text("loc", e.Loc)
	if !e.LastMod.IsZero() {
		// Readers of sitemaps lose what has more digits.
		c.when("lastmod", e.LastMod.Truncate(time.Millisecond))
	}
	if e.ChangeFreq != "" {
		c.text("changefreq", e.ChangeFreq)
	}
	if e.Priority != "" {
		c.text("priority", e.Priority)
	}
	if set != 0 || len(e.Attributes) > 0 {
		c.metadata(e)
	}
	c.links("    ", e.Links)
	c.raw(c.end)
}

func (c *composer) metadata(e *Entry) {
	c.open("    ", "rs:md")
	c.attr("capability", e.Capability)
	c.attr("change", string(e.Change))
	c.attrTime("datetime", e.Datetime)
	c.attrTime("at", e.At)
	c.attrTime("completed", e.Completed)
	c.attrTime("from", e.From)
	c.attrTime("until", e.Until)
	c.attrTime("modified", e.Modified)
	c.attr("hash", e.Hash)
	if e.HasLength {
		c.attrInt("length", e.Length)
	}
	c.attr("type", e.Type)
	c.attr("encoding", e.Encoding)
	c.attr("path", e.Path)
	c.foreign(e.Attributes)
	c.close("rs:md")
}

func (c *composer) links(indent string, all []Link) {
	if n := len(all); n > DefaultLimits.Links {
		c.refuse(OverLimit, "XML", "there are %d links in one place; readers take up to %d", n, DefaultLimits.Links)
		return
	}
	for i := range all {
		c.link(indent, &all[i])
	}
}

func (c *composer) link(indent string, l *Link) {
	c.checkLink(l)
	c.open(indent, "rs:ln")
	c.attr("rel", l.Rel)
	c.attr("href", l.Href)
	if l.Pri != 0 {
		c.attrInt("pri", int64(l.Pri))
	}
	c.attrTime("modified", l.Modified)
	c.attr("hash", l.Hash)
	if l.HasLength {
		c.attrInt("length", l.Length)
	}
	c.attr("type", l.Type)
	c.attr("encoding", l.Encoding)
	c.attr("path", l.Path)
	c.attr("profile", l.Profile)
	c.foreign(l.Attributes)
	c.close("rs:ln")
}

// checkValues refuses values that have not the form of what they are.
func (c *composer) checkValues(e *Entry) {
	bad := func(rule, format string, args ...any) { c.refuse(BadDocument, rule, format, args...) }
	if e.Loc == "" {
		bad("DOC-16", "loc is empty; it must be the address of the resource")
	} else if fault := uriFault(e.Loc); fault != "" {
		bad("DOC-16", "loc is not a URI: %s", fault)
	} else if !fitsLoc(e.Loc) {
		bad("DOC-60", "loc has %d characters; the schema of sitemaps wants %d to %d", utf8.RuneCountInString(e.Loc), minLoc, maxLoc)
	}
	switch {
	case c.index && (e.ChangeFreq != "" || e.Priority != ""):
		bad("DOC-15", "changefreq and priority do not belong in a sitemap")
	case e.ChangeFreq != "" && !isChangeFreq(e.ChangeFreq):
		bad("DOC-51", "changefreq is %s; it must be always, hourly, daily, weekly, monthly, yearly or never", quote([]byte(e.ChangeFreq)))
	case e.Priority != "" && !isPriority(e.Priority):
		bad("DOC-51", "priority is %s; it must be a number from 0.0 to 1.0", quote([]byte(e.Priority)))
	}
	if e.Change != "" && !e.Change.Known() {
		bad("DOC-17", "change is %s; it must be %s", quote([]byte(e.Change)), changeWords)
	}
	c.checkRepresentation("this rs:md", e.Hash, e.Type, e.Path, e.Length)
}

func (c *composer) checkLink(l *Link) {
	bad := func(rule, format string, args ...any) { c.refuse(BadDocument, rule, format, args...) }
	if !isRelation(l.Rel) {
		bad("DOC-53", "rel is %s; it must be the name of one registered relation, in lower case, or a URI", quote([]byte(l.Rel)))
	}
	if fault := uriFault(l.Href); fault != "" {
		bad("DOC-52", "href of an rs:ln is %s, which is not a URI: %s", quote([]byte(l.Href)), fault)
	}
	if l.Pri < 0 || l.Pri > 999_999 {
		bad("DOC-52", "pri is %d; it must be a number from 1 to 999999", l.Pri)
	}
	if l.Profile != "" && uriFault(l.Profile) != "" {
		bad("DOC-61", "profile is %s; it must be a URI", quote([]byte(l.Profile)))
	}
	c.checkRepresentation("this rs:ln", l.Hash, l.Type, l.Path, l.Length)
}

// checkRepresentation checks the values that rs:md and rs:ln have in common.
func (c *composer) checkRepresentation(what, hash, mediaType, path string, length int64) {
	bad := func(rule, format string, args ...any) { c.refuse(BadDocument, rule, format, args...) }
	if length < 0 {
		bad("DOC-56", "length of %s is %d; it must be a number of bytes, 0 or more", what, length)
	}
	if hash != "" && !isHashList(hash) {
		bad("DOC-55", "hash of %s is %s; it must be a list of algorithm:digest", what, quote([]byte(hash)))
	}
	if mediaType != "" && !isMediaType(mediaType) {
		bad("DOC-58", "type of %s is %s; it must be a media type such as text/html", what, quote([]byte(mediaType)))
	}
	if path != "" && (!isPath([]byte(path)) || strings.ContainsFunc(path, unicode.IsControl)) {
		bad("DOC-57", "path of %s is %s; it must begin with a slash, not end with one, and have no \"..\" and no control character in it", what, quote([]byte(path)))
	}
}
