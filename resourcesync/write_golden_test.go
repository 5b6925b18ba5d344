package resourcesync

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// written is one document as a program has it.
type written struct {
	head    Head
	entries []Entry
}

// hour is that hour of a day in 2026.
func hour(h int) time.Time { return time.Date(2026, 11, 20, h, 0, 0, 0, time.UTC) }

const (
	written1 = "md5:1584abdf8ebdc9802ac0c6a7402c03b6 sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"
	site     = "https://example.org/books/"
)

func upTo(href string) []Link { return []Link{{Rel: "up", Href: href}} }

// writtenDocuments has one document of each kind that is written, by the name of
// its file below testdata/written. Together they have everything that a
// document can say.
var writtenDocuments = map[string]written{
	"description": { // DOC-30
		Head{Capability: Description, Links: []Link{{Rel: "describedby", Href: site + "about.xml", Type: "application/rdf+xml"}}},
		[]Entry{{
			Loc: site + "capabilitylist.xml", Capability: CapabilityList,
			Links: []Link{{Rel: "describedby", Href: site + "books.xml"}},
		}},
	},
	"description-index": { // DOC-31
		Head{Capability: Description, Index: true},
		[]Entry{{Loc: site + "description-1.xml"}, {Loc: site + "description-2.xml", LastMod: hour(3)}},
	},
	"capabilitylist": { // DOC-32
		Head{Capability: CapabilityList, Links: append(upTo("https://example.org/.well-known/resourcesync"), Link{Rel: "describedby", Href: site + "books.xml"})},
		[]Entry{
			{Loc: site + "resourcelist.xml", Capability: ResourceList},
			{Loc: site + "changelist.xml", Capability: ChangeList},
			{
				Loc: site + "changes/", Capability: ChangeNotification,
				Links: []Link{{Rel: "hub", Href: "https://hub.example.net/"}, {Rel: "hub", Href: "https://hub.example.com/"}},
			},
		},
	},
	"resourcelist": { // DOC-34
		Head{
			Capability: ResourceList, At: hour(3), Completed: hour(4).Add(250 * time.Millisecond),
			Links:      append(upTo(site+"capabilitylist.xml"), Link{Rel: "index", Href: site + "resourcelist.xml"}, Link{Rel: "archives", Href: site + "resourcelist-archive.xml"}),
			Attributes: []Attribute{{Space: "https://example.org/terms/", Name: "run", Value: "17"}},
		},
		[]Entry{
			{Loc: site + "1"},
			{
				Loc: site + "2?a=1&b='c'", LastMod: hour(2), ChangeFreq: "daily", Priority: "0.8",
				Hash: written1, Length: 8876, HasLength: true, Type: "text/html", Encoding: "gzip", Modified: hour(1),
				Attributes: []Attribute{
					{Space: "https://example.org/terms/", Name: "shelf", Value: "\tA & <B> ]]>\r\n"},
					{Space: "urn:x-example:other", Name: "shelf", Value: "\"déjà\" 'vu' 😀"},
					{Space: "https://example.org/terms/", Name: "row", Value: ""},
					{Space: "http://www.w3.org/XML/1998/namespace", Name: "lang", Value: "fr"},
				},
				Links: []Link{
					{
						Rel: "duplicate", Href: "https://mirror.example.net/books/2", Pri: 1, Modified: hour(2), Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6",
						HasLength: true, Type: "text/html", Encoding: "br", Profile: "https://example.org/profile",
					},
					{Rel: "https://example.org/rel/cover", Href: "urn:isbn:9780000000000", Attributes: []Attribute{{Space: "urn:x-example:other", Name: "kind", Value: "x"}}},
				},
			},
			{Loc: "https://example.org/bücher/é?ü#あ", Length: 0, HasLength: true},
		},
	},
	"resourcelist-index": { // DOC-35
		Head{Capability: ResourceList, Index: true, At: hour(3), Completed: hour(4), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{
			{Loc: site + "resourcelist-1.xml", At: hour(3), Completed: hour(4)},
			{Loc: site + "resourcelist-2.xml", LastMod: hour(4), At: hour(3)},
		},
	},
	"resourcedump": { // DOC-36
		Head{Capability: ResourceDump, At: hour(3), Completed: hour(4), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{
			Loc: site + "dump-1.zip", LastMod: hour(4), At: hour(3), Completed: hour(4), Type: "application/zip", Length: 4765, HasLength: true,
			Links: []Link{{Rel: "contents", Href: site + "dump-1.xml", Type: "application/xml"}},
		}},
	},
	"resourcedump-index": { // DOC-37
		Head{Capability: ResourceDump, Index: true, At: hour(3), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "resourcedump-1.xml", At: hour(3)}},
	},
	"resourcedump-manifest": { // DOC-38
		Head{Capability: ResourceDumpManifest, At: hour(3), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "1", Path: "/books/1 & more", Type: "text/html", Hash: written1}},
	},
	"changelist": { // DOC-39
		Head{Capability: ChangeList, From: hour(1), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{
			{Loc: site + "1", Change: Created, Datetime: hour(1), LastMod: hour(1)},
			{
				Loc: site + "2", Change: Updated, Datetime: hour(1),
				Links: []Link{{Rel: patchRel, Href: site + "2.patch", Type: "application/json-patch", Length: 73, HasLength: true}},
			},
			{Loc: site + "1", Change: Deleted},
			{Loc: site + "3", Change: Updated, Datetime: hour(2).Add(time.Nanosecond)},
		},
	},
	"changelist-index": { // DOC-40
		Head{Capability: ChangeList, Index: true, From: hour(1), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{
			{Loc: site + "changelist-1.xml", From: hour(1), Until: hour(2)},
			{Loc: site + "changelist-2.xml", From: hour(2)},
		},
	},
	"changedump": { // DOC-41
		Head{Capability: ChangeDump, From: hour(1), Until: hour(3), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{
			Loc: site + "changes-1.zip", From: hour(1), Until: hour(2), Type: "application/zip", Length: 3109, HasLength: true,
			Links: []Link{{Rel: "contents", Href: site + "changes-1.xml"}},
		}},
	},
	"changedump-index": { // DOC-42
		Head{Capability: ChangeDump, Index: true, From: hour(1), Until: hour(3), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "changedump-1.xml", From: hour(1), Until: hour(3)}},
	},
	"changedump-manifest": { // DOC-43
		Head{Capability: ChangeDumpManifest, From: hour(1), Until: hour(2), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{
			{
				Loc: site + "1", Change: Updated, Datetime: hour(1), Path: "/1",
				Links: []Link{{Rel: patchRel, Href: site + "1.patch", Type: "application/json-patch", Path: "/1.patch"}},
			},
			{Loc: site + "2", Change: Deleted, Datetime: hour(2)},
		},
	},
	"resourcelist-archive": { // DOC-44
		Head{Capability: ResourceListArchive, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "old/resourcelist.xml", At: hour(1), Completed: hour(2)}, {Loc: site + "resourcelist.xml"}},
	},
	"resourcedump-archive": { // DOC-44
		Head{Capability: ResourceDumpArchive, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "old/resourcedump.xml", At: hour(1)}},
	},
	"changelist-archive": { // DOC-45
		Head{Capability: ChangeListArchive, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "old/changelist.xml", From: hour(1), Until: hour(2)}, {Loc: site + "changelist.xml", LastMod: hour(3)}},
	},
	"changedump-archive": { // DOC-45
		Head{Capability: ChangeDumpArchive, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "old/changedump.xml", From: hour(1), Until: hour(2)}},
	},
	"resourcelist-archive-index": { // DOC-46
		Head{Capability: ResourceListArchive, Index: true, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "resourcelist-archive-1.xml"}},
	},
	"resourcedump-archive-index": { // DOC-46
		Head{Capability: ResourceDumpArchive, Index: true, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "resourcedump-archive-1.xml"}},
	},
	"changelist-archive-index": { // DOC-46
		Head{Capability: ChangeListArchive, Index: true, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "changelist-archive-1.xml", LastMod: hour(3)}},
	},
	"changedump-archive-index": { // DOC-46
		Head{Capability: ChangeDumpArchive, Index: true, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "changedump-archive-1.xml"}},
	},
	"change-notification": { // DOC-12
		Head{Capability: ChangeNotification, From: hour(1), Until: hour(2), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{Loc: site + "1", Change: Created, Datetime: hour(1), Hash: written1}, {Loc: site + "2", Change: Deleted, Datetime: hour(1)}},
	},
	"framework-notification": { // DOC-20
		Head{Capability: FrameworkNotification, Links: upTo(site + "capabilitylist.xml")},
		[]Entry{{
			Loc: site + "resourcelist-1.xml", Change: Updated, Capability: ResourceList, Datetime: hour(1),
			Links: []Link{{Rel: "index", Href: site + "resourcelist.xml"}},
		}},
	},
	"resourcelist-types": { // DOC-58
		Head{Capability: ResourceList, At: hour(3), Links: upTo(site + "capabilitylist.xml")},
		[]Entry{
			{Loc: site + "1", Type: "text/html; charset=\"utf-8\""},
			{Loc: site + "2", Type: "application/vnd.oasis.opendocument.text"},
		},
	},
	"changelist-empty": { // DOC-50
		Head{Capability: ChangeList, From: hour(1), Links: upTo(site + "capabilitylist.xml")}, nil,
	},
}

// write returns the text of a document.
func write(tb rapid.TB, d written) []byte {
	tb.Helper()
	text, err := d.write()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func (d written) write() ([]byte, error) {
	var b bytes.Buffer
	w, err := NewWriter(&b, d.head, WriteOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range d.entries {
		if err := w.Write(e); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// DOC-10, DOC-30 to DOC-51: every kind of document, to the byte.
func TestWritten(t *testing.T) {
	for name, d := range writtenDocuments {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "written", name+".xml")
			want, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			if got := write(t, d); !bytes.Equal(got, want) {
				t.Errorf("%s is\n%s\nand not\n%s", file, want, got)
			}
		})
	}
	for k := range documents {
		if _, ok := writtenDocuments[k]; !ok {
			t.Errorf("no document of the capability %s", k)
		}
	}
	for k, kind := range indexes {
		if _, ok := writtenDocuments[k+"-index"]; !ok && !kind.inputOnly {
			t.Errorf("no index of the capability %s", k)
		}
	}
}
