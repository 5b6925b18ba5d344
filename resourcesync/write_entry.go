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

// composer turns the head and the entries of one document into XML, and checks them
// against the rules of its kind. A Writer passes on what it composes, a Splitter keeps
// it until it knows which part it belongs to.
type composer struct {
	encoder
	rules       rules
	root, child string // the names of the root and of an entry
	begin, end  string // the tags of an entry
	entries     int    // how many have been composed
}

// newComposer checks the head of a document.
func newComposer(h *Head) (*composer, error) {
	c := &composer{rules: rules{kind: kindOf(h.Capability, h.Index)}}
	c.rules.fault = c.broken
	switch k := c.rules.kind; {
	case k == nil && h.Index && kindOf(h.Capability, false) != nil:
		c.broken("DOC-11", "there is no index of documents of the capability %s", quote(h.Capability))
	case k == nil:
		c.broken("DOC-12", "%s is no capability of version 1.1", quote(h.Capability))
	case k.inputOnly:
		c.broken(k.rule, "a %s should not be written; name several in a Source Description", k.name)
	default:
		c.rules.checkHead(h, h.set())
		c.rules.checkUp(h)
		c.head(h) // finds what is wrong with it
		c.buf = c.buf[:0]
	}
	if c.fault != nil {
		return nil, c.fault
	}
	return c, nil
}

// broken refuses what breaks a rule of ResourceSync.
func (c *composer) broken(rule, format string, args ...any) {
	if c.asRead {
		return
	}
	c.refuse(BadDocument, rule, format, args...)
}

// head appends all that comes before the first entry: links first, as the
// schema and the examples have it (DOC-51).
func (c *composer) head(h *Head) {
	c.root, c.child = elementNames(h.Index)
	c.begin, c.end = "  <"+c.child+">\n", "  </"+c.child+">\n"
	c.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<")
	c.raw(c.root)
	c.raw(" xmlns=\"" + sitemapURI + "\" xmlns:rs=\"" + rsURI + "\">\n")
	c.links("  ", h.Links)
	e := h.metadata()
	c.metadata("  ", &e)
}

// foot is all that comes after the last entry.
func (c *composer) foot() string { return "</" + c.root + ">\n" }

// entry appends e, or nothing if something is wrong with it.
func (c *composer) entry(e *Entry) error {
	before := c.now()
	set := e.set()
	c.rules.checkEntry(e, set)
	c.compose(e, set)
	if fault := c.fault; fault != nil {
		c.fault = nil
		c.undo(before)
		return c.inEntry(e, fault)
	}
	c.entries++
	return nil
}

// state is what composing an entry changes, and a refusal restores.
type state struct {
	size, entries int
	rules         rules
}

func (c *composer) now() state { return state{len(c.buf), c.entries, c.rules} }

func (c *composer) undo(s state) { c.buf, c.entries, c.rules = c.buf[:s.size], s.entries, s.rules }

// inEntry adds to an error which entry it is about.
func (c *composer) inEntry(e *Entry, err *Error) error {
	err.Entry = fmt.Sprintf("entry %d, %s", c.entries+1, quote(e.Loc))
	return err
}

// compose appends e in the order of the schema (DOC-51).
func (c *composer) compose(e *Entry, set field) {
	c.checkValues(e)
	c.raw(c.begin)
	c.text("loc", e.Loc)
	if !e.LastMod.IsZero() {
		// Readers of sitemaps do not understand more digits.
		c.when("lastmod", e.LastMod.Truncate(time.Millisecond))
	}
	if e.ChangeFreq != "" {
		c.text("changefreq", e.ChangeFreq)
	}
	if e.Priority != "" {
		c.text("priority", e.Priority)
	}
	if set != 0 || len(e.Attributes) > 0 {
		c.metadata("    ", e)
	}
	c.links("    ", e.Links)
	c.raw(c.end)
}

// metadata appends an rs:md: that of e, or of a root.
func (c *composer) metadata(indent string, e *Entry) {
	c.open(indent, "rs:md")
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
	if n := len(all); n > DefaultLimits.Links && !c.asRead {
		c.refuse(OverLimit, "XML", "there are %d links in one place; readers accept up to %d", n, DefaultLimits.Links)
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

// checkValues refuses values of the wrong form.
func (c *composer) checkValues(e *Entry) {
	if e.Loc == "" {
		c.broken("DOC-16", "loc is empty; it must be the address of the resource")
	} else if fault := uriFault(e.Loc); fault != "" {
		c.broken("DOC-16", "loc is not a URI: %s", fault)
	} else if !fitsLoc(e.Loc) {
		c.broken("DOC-60", "loc has %d characters; the schema of sitemaps allows %d to %d", utf8.RuneCountInString(e.Loc), minLoc, maxLoc)
	}
	switch {
	case c.child == "sitemap" && (e.ChangeFreq != "" || e.Priority != ""):
		c.broken("DOC-15", "changefreq and priority do not belong in a sitemap")
	case e.ChangeFreq != "" && !isChangeFreq(e.ChangeFreq):
		c.broken("DOC-51", "changefreq is %s; it must be always, hourly, daily, weekly, monthly, yearly or never", quote(e.ChangeFreq))
	case e.Priority != "" && !isPriority(e.Priority):
		c.broken("DOC-51", "priority is %s; it must be a number from 0.0 to 1.0", quote(e.Priority))
	}
	if e.Change != "" && !e.Change.Known() {
		c.broken("DOC-17", "change is %s; it must be %s", quote(e.Change), changeWords)
	}
	c.checkRepresentation("the entry", e.Hash, e.Type, e.Path, e.Length)
}

// CheckPri returns an error if a link cannot have n as its Pri (DOC-52).
func CheckPri(n int64) error {
	if n < 1 || n > 999_999 {
		return fmt.Errorf("pri is %d; it must be a number from 1, the best, to 999999", n)
	}
	return nil
}

func (c *composer) checkLink(l *Link) {
	if !isRelation(l.Rel) {
		c.broken("DOC-53", "rel is %s; it must be the name of one registered relation, in lower case, or a URI", quote(l.Rel))
	}
	if fault := uriFault(l.Href); fault != "" {
		c.broken("DOC-52", "href of a link is %s, which is not a URI: %s", quote(l.Href), fault)
	}
	if err := CheckPri(int64(l.Pri)); err != nil && l.Pri != 0 {
		c.broken("DOC-52", "%v", err)
	}
	if l.Profile != "" && uriFault(l.Profile) != "" {
		c.broken("DOC-61", "profile is %s; it must be a URI", quote(l.Profile))
	}
	c.checkRepresentation("a link", l.Hash, l.Type, l.Path, l.Length)
}

// checkRepresentation checks the values that rs:md and rs:ln have in common.
func (c *composer) checkRepresentation(what, hash, mediaType, path string, length int64) {
	if length < 0 {
		c.broken("DOC-56", "length of %s is %d; it must be a number of bytes, 0 or more", what, length)
	}
	if hash != "" && !isHashList(hash) {
		c.broken("DOC-55", "hash of %s is %s; it must be a list of algorithm:digest", what, quote(hash))
	}
	if mediaType != "" && !isMediaType(mediaType) {
		c.broken("DOC-58", "type of %s is %s; it must be a media type such as text/html", what, quote(mediaType))
	}
	if path != "" && (!isPath(path) || strings.ContainsFunc(path, unicode.IsControl)) {
		c.broken("DOC-57", "path of %s is %s; it must begin with a slash, not end with one, and have no \"..\" and no control character in it", what, quote(path))
	}
}
