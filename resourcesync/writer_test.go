package resourcesync

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// goodHead is a head of a document of that capability that nothing is wrong with.
func goodHead(capability string, index bool) Head {
	name := capability
	if index {
		name += "-index"
	}
	return writtenDocuments[name].head
}

// wantRefusal checks that err is an *Error of that rule whose sentence contains text.
func wantRefusal(t *testing.T, err error, rule, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Rule != rule || e.Kind == 0 || !strings.Contains(e.Msg, text) {
		t.Errorf("%v; want a refusal by %s that says %q", err, rule, text)
	}
}

// DOC-12, DOC-13, DOC-30 to DOC-46: what a head must and must not say.
func TestNewWriterRefuses(t *testing.T) {
	tests := []struct {
		name       string
		capability string
		index      bool
		change     func(h *Head)
		rule, text string
	}{
		{"no capability", ResourceList, false, func(h *Head) { h.Capability = "" }, "DOC-12", "no capability"},
		{"legacy capability", ResourceList, false, func(h *Head) { h.Capability = "resourcesync" }, "DOC-12", "resourcesync"},
		{"legacy notification", ChangeNotification, false, func(h *Head) { h.Capability = ChangelistNotification }, "DOC-12", ChangelistNotification},
		{"index of notifications", ChangeNotification, false, func(h *Head) { h.Index = true }, "DOC-11", "no index"},
		{"index of manifests", ResourceDumpManifest, false, func(h *Head) { h.Index = true }, "DOC-11", "no index"},
		{"index of Capability Lists", CapabilityList, false, func(h *Head) { h.Index = true }, "DOC-33", "should not be written"},
		{"no up", ResourceList, false, func(h *Head) { h.Links = nil }, "DOC-34", "up"},
		{"no up in an index", ChangeList, true, func(h *Head) { h.Links = nil }, "DOC-40", "up"},
		{"no up in a Capability List", CapabilityList, false, func(h *Head) { h.Links = h.Links[1:] }, "DOC-32", "Source Description"},
		{"no at", ResourceList, false, func(h *Head) { h.At = time.Time{} }, "DOC-34", "lacks at"},
		{"no at in an index", ResourceList, true, func(h *Head) { h.At = time.Time{} }, "DOC-35", "lacks at"},
		{"from in a document about resources", ResourceDump, false, func(h *Head) { h.From = hour(1) }, "DOC-36", "has from"},
		{"completed before at", ResourceDumpManifest, false, func(h *Head) { h.Completed = h.At.Add(-1) }, "DOC-38", "completed"},
		{"no from", ChangeList, false, func(h *Head) { h.From = time.Time{} }, "DOC-39", "lacks from"},
		{"at in a document about changes", ChangeDump, false, func(h *Head) { h.At = hour(1) }, "DOC-41", "has at"},
		{"until before from", ChangeDumpManifest, false, func(h *Head) { h.Until = h.From.Add(-1) }, "DOC-43", "later than until"},
		{"from in an archive", ChangeListArchive, false, func(h *Head) { h.From = hour(1) }, "DOC-45", "has from"},
		{"at in an index of archives", ResourceListArchive, true, func(h *Head) { h.At = hour(1) }, "DOC-46", "has at"},
		{"at in a Source Description", Description, false, func(h *Head) { h.At = hour(1) }, "DOC-30", "has at"},
		{"notification without until", ChangeNotification, false, func(h *Head) { h.Until = time.Time{} }, "DOC-12", "lacks until"},
		{"notification that ends before it begins", ChangeNotification, false, func(h *Head) { h.Until = h.From.Add(-1) }, "DOC-13", "later"},
		{"a year of five digits", ResourceList, false, func(h *Head) { h.Completed = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "DOC-59", "10000"},
		{"a link without rel", ResourceList, false, func(h *Head) { h.Links = append(h.Links, Link{Href: site}) }, "DOC-53", "rel"},
		{"a foreign attribute of ours", ResourceList, false, func(h *Head) { h.Attributes = []Attribute{{Space: rsURI, Name: "a"}} }, "DOC-10", "of your own"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := goodHead(tc.capability, tc.index)
			tc.change(&h)
			_, err := NewWriter(io.Discard, h, WriteOptions{})
			wantRefusal(t, err, tc.rule, tc.text)
			_, err = NewSplitter(h, &folder{}, WriteOptions{})
			if !h.Index {
				if _, part := h.Link("index"); !part {
					wantRefusal(t, err, tc.rule, tc.text)
				}
			}
		})
	}
}

// refusedEntries are changes to an entry of that document that break a rule.
var refusedEntries = []struct {
	name       string
	capability string
	index      bool
	change     func(e *Entry)
	rule, text string
}{
	{"no loc", ResourceList, false, func(e *Entry) { e.Loc = "" }, "DOC-16", "loc is empty"},
	{"relative loc", ResourceList, false, func(e *Entry) { e.Loc = "/books/number/1" }, "DOC-16", "scheme"},
	{"a space in loc", ResourceList, false, func(e *Entry) { e.Loc += " " }, "DOC-16", "space"},
	{"a line feed in loc", ResourceList, false, func(e *Entry) { e.Loc += "\n" }, "DOC-16", "control character"},
	{"a % in loc", ResourceList, false, func(e *Entry) { e.Loc += "%4" }, "DOC-16", "%25"},
	{"a bracket in a path", ResourceList, false, func(e *Entry) { e.Loc += "[1]" }, "DOC-16", "percent-encode the ["},
	{"two fragments", ResourceList, false, func(e *Entry) { e.Loc += "#a#b" }, "DOC-16", "percent-encode the #"},
	{"a short loc", ResourceList, false, func(e *Entry) { e.Loc = "http://a.b/" }, "DOC-60", "11 characters"},
	{"a long loc", ResourceList, false, func(e *Entry) { e.Loc = site + strings.Repeat("é", 2049-len(site)) }, "DOC-60", "2049 characters"},
	{"changefreq", ResourceList, false, func(e *Entry) { e.ChangeFreq = "often" }, "DOC-51", "often"},
	{"priority", ResourceList, false, func(e *Entry) { e.Priority = "1.1" }, "DOC-51", "1.1"},
	{"changefreq in an index", ResourceList, true, func(e *Entry) { e.ChangeFreq = "daily" }, "DOC-15", "changefreq"},
	{"a change in a Resource List", ResourceList, false, func(e *Entry) { e.Change = Created }, "DOC-34", "has change"},
	{"no change", ChangeList, false, func(e *Entry) { e.Change = "" }, "DOC-39", "lacks change"},
	{"unknown change", ChangeList, false, func(e *Entry) { e.Change = "removed" }, "DOC-17", "removed"},
	{"unknown change in a notification", ChangeNotification, false, func(e *Entry) { e.Change = "removed" }, "DOC-17", "removed"},
	{"path in a list", ChangeList, false, func(e *Entry) { e.Path = "/a" }, "DOC-39", "has path"},
	{"before the interval", ChangeList, false, func(e *Entry) { e.Datetime = hour(1).Add(-1) }, "DOC-39", "earlier than from"},
	{"after the interval", ChangeNotification, false, func(e *Entry) { e.Datetime = hour(2).Add(1) }, "DOC-17", "later than until"},
	{"no path", ResourceDumpManifest, false, func(e *Entry) { e.Path = "" }, "DOC-38", "lacks path"},
	{"no path of a change", ChangeDumpManifest, false, func(e *Entry) { e.Path = "" }, "DOC-43", "lacks path"},
	{"a patch without a path", ChangeDumpManifest, false, func(e *Entry) { e.Links[0].Path = "" }, "DOC-43", "path"},
	{"a patch without a type", ChangeList, false, func(e *Entry) { e.Links = []Link{{Rel: patchRel, Href: site}} }, "DOC-54", "type"},
	{"a patch of a resource", ResourceList, false, func(e *Entry) { e.Links = []Link{{Rel: patchRel, Href: site, Type: "a/b"}} }, "DOC-54", "patch"},
	{"a path that climbs", ResourceDumpManifest, false, func(e *Entry) { e.Path = "/a/../../b" }, "DOC-57", "path"},
	{"a line feed in a path", ResourceDumpManifest, false, func(e *Entry) { e.Path = "/a\nb" }, "DOC-57", "control"},
	{"a folder as path", ResourceDumpManifest, false, func(e *Entry) { e.Path = "/a/" }, "DOC-57", "path"},
	{"from in a member of a Resource List Index", ResourceList, true, func(e *Entry) { e.From = hour(1) }, "DOC-35", "has from"},
	{"at in a member of a Change List Index", ChangeList, true, func(e *Entry) { e.At = hour(1) }, "DOC-40", "has at"},
	{"until before from", ChangeDump, false, func(e *Entry) { e.Until = hour(0) }, "DOC-41", "later than until"},
	{"times in an index of archives", ChangeListArchive, true, func(e *Entry) { e.From = hour(1) }, "DOC-46", "has from"},
	{"no capability", CapabilityList, false, func(e *Entry) { e.Capability = "" }, "DOC-32", "lacks capability"},
	{"another capability", Description, false, func(e *Entry) { e.Capability = ResourceList }, "DOC-30", ResourceList},
	{"no kind of capability", CapabilityList, false, func(e *Entry) { e.Capability = "change-list" }, "DOC-32", "change-list"},
	{"a channel without a hub", CapabilityList, false, func(e *Entry) { e.Capability = FrameworkNotification }, "DOC-32", "hub"},
	{"no capability of what changed", FrameworkNotification, false, func(e *Entry) { e.Capability = "" }, "DOC-20", "lacks capability"},
	{"a change that cannot be", FrameworkNotification, false, func(e *Entry) { e.Change = Deleted }, "DOC-20", "cannot be deleted"},
	{"a negative length", ResourceList, false, func(e *Entry) { e.Length, e.HasLength = -1, true }, "DOC-56", "-1"},
	{"no hash list", ResourceList, false, func(e *Entry) { e.Hash = "md5" }, "DOC-55", "md5"},
	{"no media type", ResourceList, false, func(e *Entry) { e.Type = "html" }, "DOC-58", "html"},
	{"no registered relation", ResourceList, false, func(e *Entry) { e.Links = []Link{{Rel: "self hub", Href: site}} }, "DOC-53", "self hub"},
	{"a link without href", ResourceList, false, func(e *Entry) { e.Links = []Link{{Rel: "via"}} }, "DOC-52", "href"},
	{"pri", ResourceList, false, func(e *Entry) { e.Links = []Link{{Rel: "via", Href: site, Pri: 1_000_000}} }, "DOC-52", "1000000"},
	{"profile", ResourceList, false, func(e *Entry) { e.Links = []Link{{Rel: "via", Href: site, Profile: "x"}} }, "DOC-61", "profile"},
	{"a year before 0", ResourceList, false, func(e *Entry) { e.LastMod = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }, "DOC-59", "year -1"},
	{"NUL", ResourceList, false, func(e *Entry) { e.Encoding = "a\x00" }, "XML", "U+0000"},
	{"a character that XML has not", ResourceList, false, func(e *Entry) { e.Hash = "md5:\uFFFE" }, "XML", "U+FFFE"},
	{"not UTF-8", ResourceList, false, func(e *Entry) { e.Hash = "md5:\xFF" }, "XML", "UTF-8"},
	{"no namespace", ResourceList, false, func(e *Entry) { e.Attributes = []Attribute{{Name: "a"}} }, "DOC-10", "namespace"},
	{"no name", ResourceList, false, func(e *Entry) { e.Attributes = []Attribute{{Space: "urn:x", Name: "a:b"}} }, "XML", "a:b"},
	{"an attribute twice", ResourceList, false, func(e *Entry) { e.Attributes = []Attribute{{"urn:x", "a", "1"}, {"urn:x", "a", "2"}} }, "XML", "twice"},
	{"a long tag", ResourceList, false, func(e *Entry) { e.Hash = "md5:" + strings.Repeat("0", 16<<10) }, "XML", "16384"},
	{"many links", ResourceList, false, func(e *Entry) {
		for range 1001 {
			e.Links = append(e.Links, Link{Rel: "via", Href: site})
		}
	}, "XML", "1001 links"},
	{"many attributes", ResourceList, false, func(e *Entry) {
		for i := range 16 {
			e.Attributes = append(e.Attributes, Attribute{"urn:x:" + string(rune('a'+i)), "a", ""})
		}
	}, "XML", "32 attributes"},
}

// DOC-16 to DOC-20, DOC-30 to DOC-61: an entry that breaks a rule is refused and
// leaves nothing behind.
func TestWriteRefuses(t *testing.T) {
	for _, tc := range refusedEntries {
		t.Run(tc.name, func(t *testing.T) {
			name := tc.capability
			if tc.index {
				name += "-index"
			}
			d := writtenDocuments[name]
			bad := d.entries[0]
			bad.Links = append([]Link(nil), bad.Links...)
			tc.change(&bad)

			var b bytes.Buffer
			w, err := NewWriter(&b, d.head, WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Write(bad)
			wantRefusal(t, err, tc.rule, tc.text)
			if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Entry != fmt.Sprint("entry 1, ", quote(bad.Loc)) {
				t.Errorf("%v does not say which entry it is about", err)
			}
			for _, e := range d.entries {
				if err := w.Write(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Write(bad); err == nil {
				t.Error("it is taken after others")
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if want := write(t, d); !bytes.Equal(b.Bytes(), want) {
				t.Errorf("a refusal left its traces:\n%s", b.Bytes())
			}
		})
	}
}

// DOC-18, DOC-32, DOC-39, DOC-40, DOC-45: what only two entries together break.
func TestWriteRefusesTheSecond(t *testing.T) {
	tests := []struct {
		name       string
		capability string
		index      bool
		first      Entry
		second     Entry
		rule, text string
	}{
		{"changes", ChangeList, false, Entry{Change: Created, Datetime: hour(3)}, Entry{Change: Created, Datetime: hour(3).Add(-1)}, "DOC-39", "order"},
		{"notified changes", ChangeNotification, false, Entry{Change: Created, Datetime: hour(2)}, Entry{Change: Created, Datetime: hour(1)}, "DOC-18", "order"},
		{"members", ChangeList, true, Entry{From: hour(3)}, Entry{From: hour(2)}, "DOC-40", "order"},
		{"archived lists", ChangeListArchive, false, Entry{From: hour(3)}, Entry{From: hour(2)}, "DOC-45", "order"},
		{"capabilities", CapabilityList, false, Entry{Capability: ChangeDump}, Entry{Capability: ChangeDump}, "DOC-32", "second"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, err := NewWriter(io.Discard, goodHead(tc.capability, tc.index), WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tc.first.Loc, tc.second.Loc = site+"1", site+"2"
			if err := w.Write(tc.first); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a refused entry counts for nothing
				wantRefusal(t, w.Write(tc.second), tc.rule, tc.text)
			}
		})
	}
}

// DOC-60: the limits are exact to the entry and to the byte, and a full document is still
// a good one.
func TestWriterIsFull_DOC60(t *testing.T) {
	d := writtenDocuments["changelist"]
	whole := write(t, d)
	for name, tc := range map[string]struct {
		options WriteOptions
		full    bool
	}{
		"room for all":        {WriteOptions{MaxEntries: len(d.entries), MaxBytes: int64(len(whole))}, false},
		"one entry less":      {WriteOptions{MaxEntries: len(d.entries) - 1}, true},
		"one byte less":       {WriteOptions{MaxBytes: int64(len(whole)) - 1}, true},
		"gzip, room for all":  {WriteOptions{Gzip: true, MaxBytes: int64(len(whole))}, false},
		"gzip, one byte less": {WriteOptions{Gzip: true, MaxBytes: int64(len(whole)) - 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w, err := NewWriter(&b, d.head, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			last := len(d.entries) - 1
			for _, e := range d.entries[:last] {
				if err := w.Write(e); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := w.Write(d.entries[last]); errors.Is(err, ErrFull) != tc.full || err != nil && !tc.full {
					t.Fatal(err)
				} else if err == nil {
					break
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			want := whole
			if tc.full {
				want = write(t, written{d.head, d.entries[:last]})
			}
			if got := unzipped(t, b.Bytes(), tc.options.Gzip); !bytes.Equal(got, want) {
				t.Errorf("got\n%s", got)
			}
		})
	}
	_, err := NewWriter(io.Discard, d.head, WriteOptions{MaxBytes: 100})
	wantRefusal(t, err, "DOC-60", "100 bytes")
}

func unzipped(t *testing.T, b []byte, zipped bool) []byte {
	t.Helper()
	if !zipped {
		return b
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// DOC-60: limits above those of the specification are those of the
// specification.
func TestWriterLimitsAreTheSpecifications_DOC60(t *testing.T) {
	w, err := NewWriter(io.Discard, goodHead(ResourceList, false), WriteOptions{MaxEntries: 1 << 30, MaxBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	for range 50_000 {
		if err := w.Write(Entry{Loc: site + "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(Entry{Loc: site + "1"}); !errors.Is(err, ErrFull) {
		t.Errorf("50,001 entries: %v", err)
	}
	if got := (WriteOptions{MaxBytes: 1 << 40}).withDefaults().MaxBytes; got != 52_428_800 {
		t.Errorf("%d bytes", got)
	}
}

// DOC-59: whatever the zone of a time, it is written in UTC with Z.
func TestWriterWritesUTC_DOC59(t *testing.T) {
	doc := writtenDocuments["resourcelist"]
	want := write(t, doc)
	cet := time.FixedZone("CET", 60*60)
	doc.head.At, doc.head.Completed = doc.head.At.In(cet), doc.head.Completed.In(cet)
	doc.entries = slices.Clone(doc.entries)
	for i := range doc.entries {
		e := &doc.entries[i]
		if !e.LastMod.IsZero() {
			e.LastMod, e.Modified = e.LastMod.In(cet), e.Modified.In(cet)
		}
	}
	if got := write(t, doc); !bytes.Equal(got, want) {
		t.Errorf("got\n%s", got)
	}
}

// DOC-59: lastmod has three digits of a second at most, cut off and not rounded, and
// the times that order changes keep all of theirs.
func TestWriterCutsLastmod_DOC59(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for fraction, want := range map[time.Duration]string{
		0: "09:00:00Z", 999_999: "09:00:00Z", 1_000_000: "09:00:00.001Z", 123_999_999: "09:00:00.123Z", 999_999_999: "09:00:00.999Z", 500_000_001: "09:00:00.5Z",
	} {
		modified := at.Add(fraction)
		doc := written{goodHead(ChangeList, false), []Entry{{Loc: "https://example.org/a", Change: Created, LastMod: modified, Datetime: modified}}}
		doc.head.From, doc.head.Until = modified.Add(-time.Nanosecond), modified.Add(time.Nanosecond)
		text := write(t, doc)
		if !bytes.Contains(text, []byte("<lastmod>2026-11-21T"+want+"</lastmod>")) {
			t.Errorf("%v after nine: lastmod is not %s in\n%s", fraction, want, text)
		}
		got, err := read(text, ReadOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if e := got.entries[0]; !e.Datetime.Equal(modified) || !got.head.From.Equal(doc.head.From) || !got.head.Until.Equal(doc.head.Until) {
			t.Errorf("datetime, from or until lost digits in\n%s", text)
		}
	}
}

// A Writer passes the errors of its underlying writer on, and keeps the first.
func TestWriterPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, zip := range []bool{false, true} {
		w, err := NewWriter(deafWriter{broken}, goodHead(ResourceList, false), WriteOptions{Gzip: zip})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = w.Write(Entry{Loc: site + "1"})
		}
		if !errors.Is(err, broken) {
			t.Errorf("Write: %v", err)
		}
		if err := w.Write(Entry{Loc: site + "1"}); !errors.Is(err, broken) {
			t.Errorf("Write after that: %v", err)
		}
		for range 2 {
			if err := w.Close(); !errors.Is(err, broken) {
				t.Errorf("Close: %v", err)
			}
		}
	}
}

type deafWriter struct{ err error }

func (f deafWriter) Write([]byte) (int, error) { return 0, f.err }

func TestWriterIsClosed(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(iotest.TruncateWriter(&b, 1<<20), goodHead(ResourceList, false), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	size := b.Len()
	if err := w.Write(Entry{Loc: site + "1"}); err == nil {
		t.Error("an entry after the end")
	}
	if err := w.Close(); err != nil || b.Len() != size {
		t.Errorf("%v, %d bytes more", err, b.Len()-size)
	}
}

// A Writer keeps only a buffer in memory, however long the document.
func TestWriterHoldsLittle(t *testing.T) {
	w, err := NewWriter(io.Discard, goodHead(ResourceList, false), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := writtenDocuments["resourcelist"].entries[1]
	for range 2_000 {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(w.composer.buf); n > 2*flushSize {
		t.Errorf("a buffer of %d bytes", n)
	}
}
