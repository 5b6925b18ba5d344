package resourcesync

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// read reads a whole document.
func read(doc []byte, o ReadOptions) (written, error) {
	r := NewReader(bytes.NewReader(doc), o)
	var all []Entry
	for e, err := range r.Entries() {
		if err != nil {
			return written{}, err
		}
		all = append(all, e)
	}
	h, err := r.Head()
	return written{h, all}, err
}

// sameDocument compares what documents say, not where in the text they say it.
var sameDocument = cmp.Options{
	cmp.AllowUnexported(written{}),
	cmpopts.IgnoreFields(Head{}, "Line", "Column"),
	cmpopts.IgnoreFields(Entry{}, "Line", "Column"),
	cmpopts.EquateEmpty(),
}

// write(read(x)) = x, for documents of all kinds with whatever they can say: what
// is written is read strictly, unchanged, and written again to the byte; and so
// it is when its datetimes come in other forms of DOC-59.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		text := write(t, doc)
		for _, x := range [][]byte{text, otherForms(t, text)} {
			got, err := read(x, ReadOptions{Strict: true})
			if err != nil {
				t.Fatalf("%v in\n%s", err, x)
			}
			if diff := cmp.Diff(doc, got, sameDocument); diff != "" {
				t.Fatalf("read is not what was written (-, +):\n%s%s", diff, x)
			}
			if again := write(t, got); !bytes.Equal(again, text) {
				t.Fatalf("write(read(x)) is\n%s\nfor\n%s", again, x)
			}
		}
	})
}

var datetimes = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// otherForms writes the datetimes of a document in any of the forms that they
// may have.
func otherForms(t *rapid.T, doc []byte) []byte {
	return datetimes.ReplaceAllFunc(doc, func(b []byte) []byte {
		at, err := ParseDatetime(string(b))
		if err != nil {
			t.Fatal(err)
		}
		forms := []string{string(b)}
		for _, layout := range []string{"2006", "2006-01", "2006-01-02", "2006-01-02T15:04Z", "2006-01-02T15:04:05.000000000Z"} {
			if s := at.Format(layout); sameInstant(s, at) {
				forms = append(forms, s)
			}
		}
		for _, offset := range []int{-11*60 - 30, 60, 14 * 60} {
			s := at.In(time.FixedZone("", offset*60)).Format("2006-01-02T15:04:05.999999999-07:00")
			if sameInstant(s, at) {
				forms = append(forms, s)
			}
		}
		return []byte(rapid.SampledFrom(forms).Draw(t, "form"))
	})
}

func sameInstant(s string, at time.Time) bool {
	t, err := ParseDatetime(s)
	return err == nil && t.Equal(at)
}

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
		e.Change = rapid.SampledFrom([]string{Created, Updated, Deleted}).Draw(t, "change")
		e.Datetime = drawTime(t, last, h.Until)
	}
	switch {
	case h.Capability == Description && !h.Index:
		e.Capability = rapid.SampledFrom([]string{"", CapabilityList}).Draw(t, "capability")
	case h.Capability == CapabilityList:
		e.Capability = []string{ResourceList, ChangeList, ChangeNotification, ResourceDump, "ünknown"}[i]
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

// drawTime draws a time of any precision from since up to until, where they are
// set, or none at all.
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

// drawText draws a value of the characters that XML can hold, those that have to
// be escaped in particular.
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
	if s := "/" + strings.Trim(drawText(t), "/"); isPath([]byte(s)) {
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

// DOC-39, DOC-40, DOC-60: whatever the changes and the limits, the parts together
// are the whole, each within the limits, with intervals that follow upon each
// other and no instant in two of them; and the index says what they say.
func TestSplitIsRead_DOC40_DOC60(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := WriteOptions{
			MaxEntries: rapid.IntRange(1, 8).Draw(t, "most entries"), MaxBytes: int64(rapid.IntRange(800, 3000).Draw(t, "most bytes")),
			Gzip: rapid.Bool().Draw(t, "gzip"),
		}
		h := Head{Capability: ChangeList, From: hour(0), Links: upTo(site + "capabilitylist.xml")}
		if rapid.Bool().Draw(t, "closed") {
			h.Until = hour(99)
		}
		entries := resources(rapid.IntRange(0, 40).Draw(t, "entries"))
		at := 0
		for i := range entries {
			at += rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "later by")
			entries[i].Loc += strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length"))
			entries[i].Change = Updated
			if rapid.IntRange(0, 9).Draw(t, "no datetime") > 0 {
				entries[i].Datetime = hour(at)
			}
		}
		var d folder
		s, err := NewSplitter(h, &d, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err = s.Write(e); err != nil {
				break
			}
		}
		if err = s.Close(); err != nil {
			t.Skip(err) // too many of one instant; TestSplitterRefuses is about that
		}
		whole, parts := readFolder(t, &d, o)
		if len(parts) == 0 {
			if diff := cmp.Diff(written{h, entries}, whole, sameDocument); diff != "" {
				t.Fatal(diff)
			}
			return
		}
		checkParts(t, h, entries, whole, parts)
	})
}

// readFolder reads what was written, strictly and within the limits.
func readFolder(t *rapid.T, d *folder, o WriteOptions) (zero written, parts []written) {
	for part := range len(d.files) {
		l := Limits{Entries: o.MaxEntries, Bytes: o.MaxBytes}
		if part == 0 && len(d.files) > 1 {
			l = Limits{}
		}
		b := d.files[part].Bytes()
		if o.Gzip {
			l = Limits{} // those of bytes are of the compressed ones too
		}
		doc, err := read(b, ReadOptions{Strict: true, Limits: l, Gzip: o.Gzip})
		if err != nil {
			t.Fatalf("part %d: %v", part, err)
		}
		if part == 0 {
			zero = doc
		} else {
			parts = append(parts, doc)
		}
	}
	return zero, parts
}

func checkParts(t *rapid.T, h Head, entries []Entry, index written, parts []written) {
	want := h
	want.Index = true
	if diff := cmp.Diff(want, index.head, sameDocument); diff != "" {
		t.Fatal(diff)
	}
	from := h.From
	var all []Entry
	for i, p := range parts {
		until := h.Until
		if i+1 < len(parts) {
			until = parts[i+1].head.From
			if !until.After(from) {
				t.Fatalf("part %d ends at %v and begins at %v", i+1, until, from)
			}
		}
		if diff := cmp.Diff(with(h, from, until), p.head, sameDocument); diff != "" {
			t.Fatalf("part %d: %s", i+1, diff)
		}
		if diff := cmp.Diff(Entry{Loc: partURL(i + 1), From: from, Until: until}, index.entries[i], sameDocument); diff != "" {
			t.Fatal(diff)
		}
		for _, e := range p.entries {
			if !e.Datetime.IsZero() && (e.Datetime.Before(from) || i+1 < len(parts) && !e.Datetime.Before(until)) {
				t.Fatalf("part %d from %v until %v has a change of %v", i+1, from, until, e.Datetime)
			}
		}
		if len(p.entries) == 0 {
			t.Fatalf("part %d is empty", i+1)
		}
		from = until
		all = append(all, p.entries...)
	}
	if len(index.entries) != len(parts) {
		t.Fatalf("the index has %d members for %d parts", len(index.entries), len(parts))
	}
	if diff := cmp.Diff(entries, all, sameDocument); diff != "" {
		t.Fatal(diff)
	}
}

// DOC-50, DOC-60: none, and one more than fit.
func TestSplitIsReadAtTheLimits_DOC50_DOC60(t *testing.T) {
	for n, documents := range map[int]int{0: 1, 50_000: 1, 50_001: 3} {
		var d folder
		s, err := NewSplitter(goodHead(ResourceDump, false), &d, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := s.Write(Entry{Loc: fmt.Sprint(site, i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := 0
		for part := range documents {
			if documents > 1 && part == 0 {
				continue
			}
			r := NewReader(&d.files[part].Buffer, ReadOptions{Strict: true})
			for e, err := range r.Entries() {
				if err != nil || e.Loc != fmt.Sprint(site, next) {
					t.Fatalf("part %d, entry %d: %+v, %v", part, next, e, err)
				}
				next++
			}
		}
		if next != n || len(d.files) != documents {
			t.Errorf("%d entries: %d read from %d documents", n, next, len(d.files))
		}
	}
}
