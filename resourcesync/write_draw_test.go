package resourcesync

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

// sortedKinds are the kinds of documents that are written, index or not.
func sortedKinds(all map[string]*kind) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !all[name].inputOnly {
			names = append(names, name)
		}
	}
	return names
}

// drawDocument draws a document that breaks no rule.
func drawDocument(t *rapid.T) written {
	var h Head
	h.Index = rapid.Bool().Draw(t, "index")
	if h.Index {
		h.Capability = rapid.SampledFrom(sortedKinds(indexes)).Draw(t, "capability")
	} else {
		h.Capability = rapid.SampledFrom(sortedKinds(documents)).Draw(t, "capability")
	}
	k := kindOf(h.Capability, h.Index)
	h.At, h.Completed, h.From, h.Until = drawPeriod(t, k.head, time.Time{}, time.Time{})
	h.Attributes = drawForeign(t)
	h.Links = drawLinks(t)
	if k.up {
		h.Links = append(h.Links, Link{Rel: "up", Href: drawURL(t)})
	}
	doc := written{head: h}
	last := h.From
	for i := range rapid.IntRange(0, 5).Draw(t, "entries") {
		e := drawEntry(t, &h, k, last, i)
		doc.entries = append(doc.entries, e)
		if at := e.Datetime; k.order == fldDatetime && !at.IsZero() {
			last = at
		} else if at := e.From; k.order == fldFrom && !at.IsZero() {
			last = at
		}
	}
	return doc
}

func drawEntry(t *rapid.T, h *Head, k *kind, last time.Time, i int) Entry {
	e := Entry{
		Loc: drawURL(t), LastMod: drawTime(t, time.Time{}, time.Time{}), Modified: drawTime(t, time.Time{}, time.Time{}),
		Links: drawLinks(t), Attributes: drawForeign(t),
	}
	e.Hash, e.Type, e.Encoding, e.Length, e.HasLength = drawRepresentation(t)
	if !h.Index {
		e.ChangeFreq = rapid.SampledFrom([]string{"", "always", "never"}).Draw(t, "changefreq")
		e.Priority = rapid.SampledFrom([]string{"", "0.5", "1.0", "1", ".25"}).Draw(t, "priority")
	}
	if k.entry.must&fldChange != 0 {
		e.Change = rapid.SampledFrom(ChangeTypes()).Draw(t, "change")
		e.Datetime = drawTime(t, last, h.Until)
	}
	switch {
	case h.Capability == Description && !h.Index:
		e.Capability = rapid.SampledFrom([]string{"", CapabilityList}).Draw(t, "capability")
	case h.Capability == CapabilityList:
		e.Capability = []string{ResourceList, ChangeList, ChangeNotification, ResourceDump, ChangeDump}[i]
		e.Links = append(e.Links, Link{Rel: "hub", Href: drawURL(t)})
	case h.Capability == FrameworkNotification:
		e.Capability = CapabilityList // which can change in all three ways
	}
	if k.entry.known()&fldPath != 0 && e.Change != Deleted {
		e.Path = drawPath(t)
	}
	from := last
	if from.IsZero() {
		from = h.From
	}
	e.At, e.Completed, e.From, e.Until = drawPeriod(t, k.entry, from, h.Until)
	return e
}

// drawPeriod draws the times that a document or a package may have.
func drawPeriod(t *rapid.T, a attributes, from, until time.Time) (at, completed, begin, end time.Time) {
	some := func(f field, since time.Time) time.Time {
		for a.known()&f != 0 {
			at := drawTime(t, since, until)
			if !at.IsZero() || a.must&f == 0 {
				return at
			}
		}
		return time.Time{}
	}
	at = some(fldAt, time.Time{})
	if !at.IsZero() {
		completed = some(fldCompleted, at)
	}
	begin = some(fldFrom, from)
	if !begin.IsZero() {
		end = some(fldUntil, begin)
	}
	return at, completed, begin, end
}

// drawTime draws a time of any precision from since up to until, if they are set, or none
// at all.
func drawTime(t *rapid.T, since, until time.Time) time.Time {
	if rapid.IntRange(0, 3).Draw(t, "no time") == 0 {
		return time.Time{}
	}
	first, last := int64(minSeconds+2*366*secondsPerDay), int64(maxSeconds)
	if !since.IsZero() {
		first = since.Unix()
	}
	if !until.IsZero() {
		last = until.Unix()
	}
	at := time.Unix(rapid.Int64Range(first, last).Draw(t, "seconds"), 0).UTC()
	switch y, m, d := at.Date(); rapid.IntRange(0, 4).Draw(t, "precision") {
	case 0:
		at = time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	case 1:
		at = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case 2:
		at = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	case 3:
		at = at.Add(time.Duration(rapid.IntRange(0, 999_999_999).Draw(t, "nanoseconds")))
	}
	if at.Before(since) {
		return since
	}
	if !until.IsZero() && at.After(until) {
		return until
	}
	return at.UTC()
}

// drawText draws a value of the characters that XML allows, those that have to be escaped
// in particular.
func drawText(t *rapid.T) string {
	return strings.Map(func(r rune) rune {
		if !isChar(r) {
			return -1
		}
		return r
	}, rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.SampledFrom([]rune("&<>\"' \t\n\r]a;é\U0001F600")), 0, 20, -1),
	).Draw(t, "text"))
}

// drawURL draws URLs of up to 2,048 characters.
func drawURL(t *rapid.T) string {
	tail := rapid.StringOfN(rapid.SampledFrom([]rune("abcXYZ019-._~!$&'()*+,;=:@/?éüあ\U0001F600")), 0, 40, -1).Draw(t, "URL")
	u := rapid.SampledFrom([]string{"https://example.org/", "http://[2001:db8::1]:8080/a%20b?", "urn:isbn:9780000000000?", "ftp://user@example.org/"}).Draw(t, "site") + tail
	if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
		u += strings.Repeat("あ", maxLoc-len([]rune(u)))
	}
	return u
}

func drawPath(t *rapid.T) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, drawText(t))
	if s := "/" + strings.Trim(text, "/"); isPath(s) {
		return s
	}
	return "/resources/1"
}

func drawRepresentation(t *rapid.T) (hash, mediaType, encoding string, length int64, known bool) {
	hash = rapid.SampledFrom([]string{"", written1, "sha-256:f4OxZX_x_FO5LcGBSKHWXfwtSx-j1ncoSt3SABJtkGk", "md5:00\n  sha-1:11"}).Draw(t, "hash")
	mediaType = rapid.SampledFrom([]string{"", "text/html", "application/atom+xml", "text/plain; charset=\"utf-8\""}).Draw(t, "type")
	encoding = strings.TrimFunc(drawText(t), func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
	if known = rapid.Bool().Draw(t, "length is known"); known {
		length = rapid.Int64Min(0).Draw(t, "length")
	}
	return hash, mediaType, encoding, length, known
}

func drawLinks(t *rapid.T) []Link {
	var all []Link
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		l := Link{
			Rel:  rapid.SampledFrom([]string{"duplicate", "describedby", "memento", "https://example.org/rel?a&b", "x.y-z1"}).Draw(t, "rel"),
			Href: drawURL(t), Pri: rapid.SampledFrom([]int{0, 1, 999_999}).Draw(t, "pri"), Modified: drawTime(t, time.Time{}, time.Time{}),
			Attributes: drawForeign(t),
		}
		l.Hash, l.Type, l.Encoding, l.Length, l.HasLength = drawRepresentation(t)
		if rapid.Bool().Draw(t, "more") {
			l.Path, l.Profile = drawPath(t), drawURL(t)
		}
		all = append(all, l)
	}
	return all
}

func drawForeign(t *rapid.T) []Attribute {
	name := rapid.SampledFrom([]Attribute{
		{Space: "urn:x:1", Name: "a"},
		{Space: "urn:x:1", Name: "b"},
		{Space: "https://example.org/?a&b", Name: "a"},
		{Space: "urn:x:2", Name: "été"},
		{Space: xmlURI, Name: "lang"},
	})
	all := rapid.SliceOfNDistinct(name, 0, 3, rapid.ID[Attribute]).Draw(t, "foreign")
	for i := range all {
		all[i].Value = drawText(t)
	}
	return all
}
