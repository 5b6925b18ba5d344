package resourcesync_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

const notification = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://example.org/books/capabilitylist.xml"/>
  <rs:md capability="change-notification"
         from="2026-11-21T09:00:00Z" until="2026-11-21T10:00:00Z"/>
  <url>
    <loc>https://example.org/books/1</loc>
    <rs:md change="updated" datetime="2026-11-21T09:12:30Z" length="5120" type="text/html"/>
    <rs:ln rel="canonical" href="https://example.org/books/one"/>
  </url>
  <url>
    <loc>https://example.org/books/2</loc>
    <rs:md change="deleted" datetime="2026-11-21T09:40:00Z"/>
  </url>
</urlset>
`

const resourceList = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="resourcesync" href="https://example.org/books/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2026-11-20T03:00:00Z"/>
  <url>
    <loc>https://example.org/books/1</loc>
    <lastmod>2026-11-19T08:30:00Z</lastmod>
    <rs:md length="8876" type="text/html"/>
  </url>
  <url>
    <loc>https://example.org/books/2</loc>
    <rs:ln rel="alternate" href="https://example.org/books/2.pdf" type="application/pdf"/>
  </url>
</urlset>
`

// A list of a Source that still says some things as version 0.9 did. The loop is
// the same for every kind of document, of any length.
func ExampleReader() {
	r := resourcesync.NewReader(strings.NewReader(resourceList), resourcesync.ReadOptions{})
	head, err := r.Head()
	if err != nil {
		fmt.Println(err)
		return
	}
	up, _ := head.Link("up")
	fmt.Println(head.Kind(), "of", resourcesync.FormatDatetime(head.At), "below", up.Href)
	for e, err := range r.Entries() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Loc, e.Length, len(e.Links))
	}
	for _, t := range r.Tolerated() {
		fmt.Println(t)
	}
	// Output:
	// Resource List of 2026-11-20T03:00:00Z below https://example.org/books/capabilitylist.xml
	// https://example.org/books/1 8876 0
	// https://example.org/books/2 0 1
	// line 4, column 3: the relation "resourcesync" is what version 0.9 said for "up" (DOC-54)
}

// Strict reading refuses what would be tolerated.
func ExampleReader_strict() {
	r := resourcesync.NewReader(strings.NewReader(resourceList), resourcesync.ReadOptions{Strict: true})
	_, err := r.Head()
	fmt.Println(err)
	// Output: line 4, column 3: the relation "resourcesync" is what version 0.9 said for "up" (DOC-54)
}

// A Change List that is still open: it has no Until.
func ExampleWriter() {
	var doc strings.Builder // a file, or an http.ResponseWriter
	w, err := resourcesync.NewWriter(&doc, resourcesync.Head{
		Capability: resourcesync.ChangeList,
		From:       time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		Links:      []resourcesync.Link{{Rel: "up", Href: "https://example.org/books/capabilitylist.xml"}},
	}, resourcesync.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range []resourcesync.Entry{
		{Loc: "https://example.org/books/1", Change: resourcesync.Updated, Datetime: time.Date(2026, 11, 21, 9, 12, 30, 0, time.UTC), Length: 5120, HasLength: true},
		{Loc: "https://example.org/books/2", Datetime: time.Date(2026, 11, 21, 9, 40, 0, 0, time.UTC)},
	} {
		if err := w.Write(e); err != nil {
			fmt.Println("not written:", err)
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Print(&doc)
	// Output:
	// not written: entry 2, "https://example.org/books/2": the entry lacks change, which a Change List must have (DOC-39)
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	//   <rs:ln rel="up" href="https://example.org/books/capabilitylist.xml"/>
	//   <rs:md capability="changelist" from="2026-11-21T00:00:00Z"/>
	//   <url>
	//     <loc>https://example.org/books/1</loc>
	//     <rs:md change="updated" datetime="2026-11-21T09:12:30Z" length="5120"/>
	//   </url>
	// </urlset>
}

// shelf is a Sink that keeps documents in memory. One of files would create them
// below the folder that is served.
type shelf map[string]*bytes.Buffer

func (s shelf) Create(part int) (w io.WriteCloser, url string, err error) {
	name := "resourcelist.xml"
	if part > 0 {
		name = fmt.Sprintf("resourcelist-%d.xml", part)
	}
	s[name] = new(bytes.Buffer)
	return nopCloser{s[name]}, "https://example.org/books/" + name, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// A list of any length: one document, or parts of at most 50,000 entries (here 2)
// and their index.
func ExampleSplitter() {
	docs := shelf{}
	s, err := resourcesync.NewSplitter(resourcesync.Head{
		Capability: resourcesync.ResourceList,
		At:         time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC),
		Links:      []resourcesync.Link{{Rel: "up", Href: "https://example.org/books/capabilitylist.xml"}},
	}, docs, resourcesync.WriteOptions{MaxEntries: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 5 {
		if err := s.Write(resourcesync.Entry{Loc: fmt.Sprintf("https://example.org/books/%d", i+1)}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(docs), "documents")
	fmt.Print(docs["resourcelist.xml"])
	// Output:
	// 4 documents
	// <?xml version="1.0" encoding="UTF-8"?>
	// <sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	//   <rs:ln rel="up" href="https://example.org/books/capabilitylist.xml"/>
	//   <rs:md capability="resourcelist" at="2026-11-20T03:00:00Z"/>
	//   <sitemap>
	//     <loc>https://example.org/books/resourcelist-1.xml</loc>
	//     <rs:md at="2026-11-20T03:00:00Z"/>
	//   </sitemap>
	//   <sitemap>
	//     <loc>https://example.org/books/resourcelist-2.xml</loc>
	//     <rs:md at="2026-11-20T03:00:00Z"/>
	//   </sitemap>
	//   <sitemap>
	//     <loc>https://example.org/books/resourcelist-3.xml</loc>
	//     <rs:md at="2026-11-20T03:00:00Z"/>
	//   </sitemap>
	// </sitemapindex>
}

// A package of a Resource Dump, as one writes it and reads it. Each bitstream is
// compared with its length and hashes while it is read.
func ExampleDumpReader() {
	var file bytes.Buffer
	w, err := resourcesync.NewDumpWriter(&file, resourcesync.Head{
		Capability: resourcesync.ResourceDumpManifest,
		At:         time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC),
		Links:      []resourcesync.Link{{Rel: "up", Href: "https://example.org/books/capabilitylist.xml"}},
	}, resourcesync.DumpWriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	book := resourcesync.Entry{Loc: "https://example.org/books/1", Path: "/books/1.txt", Type: "text/plain"}
	err = errors.Join(w.Write(book, strings.NewReader("Call me Ishmael.")), w.Close())
	if err != nil {
		fmt.Println(err)
		return
	}

	r, err := resourcesync.NewDumpReader(bytes.NewReader(file.Bytes()), int64(file.Len()), resourcesync.DumpReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range r.Entries() {
		if err != nil {
			fmt.Println(err)
			return
		}
		bitstream, err := r.Open(e)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, err := io.ReadAll(bitstream)
		_ = bitstream.Close() // only read
		fmt.Println(e.Loc, e.Path, string(text), err)
	}
	fmt.Println(len(r.Missing()), "missing,", len(r.Extra()), "too many")
	// Output:
	// https://example.org/books/1 /books/1.txt Call me Ishmael. <nil>
	// 0 missing, 0 too many
}

// Is a document a change notification, and which interval does it cover?
func ExampleCheckNotification() {
	n, err := resourcesync.CheckNotification(strings.NewReader(notification), resourcesync.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Capability, resourcesync.FormatDatetime(n.From), resourcesync.FormatDatetime(n.Until))
	fmt.Println(n.Entries, "entries:", n.Counts.Updated, "updated,", n.Counts.Deleted, "deleted")
	// Output:
	// change-notification 2026-11-21T09:00:00Z 2026-11-21T10:00:00Z
	// 2 entries: 1 updated, 1 deleted
}

// A refusal names the place, what is wrong there, and the rule.
func ExampleCheckNotification_refused() {
	broken := strings.Replace(notification, `change="deleted"`, `change="removed"`, 1)
	_, err := resourcesync.CheckNotification(strings.NewReader(broken), resourcesync.Limits{})
	fmt.Println(err)

	var refused *resourcesync.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Kind, refused.Rule, refused.Line, refused.Column)
	}
	// Output:
	// line 14, column 12: change is "removed"; it must be created, updated or deleted (DOC-17)
	// bad document DOC-17 14 12
}

// The changes one by one. The document may be long; only one is in memory.
func ExampleNotificationReader() {
	r := resourcesync.NewNotificationReader(strings.NewReader(notification), resourcesync.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Change, e.Loc, len(e.Links))
	}
	fmt.Println(r.Notification().Up)
	// Output:
	// updated https://example.org/books/1 1
	// deleted https://example.org/books/2 0
	// https://example.org/books/capabilitylist.xml
}

func ExampleParseDatetime() {
	for _, s := range []string{"2026-11", "2026-11-21T10:00+01:00", "2026-11-21T9:00:00Z"} {
		t, err := resourcesync.ParseDatetime(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(resourcesync.FormatDatetime(t))
	}
	// Output:
	// 2026-11-01T00:00:00Z
	// 2026-11-21T09:00:00Z
	// "2026-11-21T9:00:00Z" is not a W3C datetime: use YYYY-MM-DDThh:mm:ssZ
}

func ExampleFormatDatetime() {
	cet := time.FixedZone("CET", 60*60)
	fmt.Println(resourcesync.FormatDatetime(time.Date(2026, 11, 21, 10, 0, 0, 250_000_000, cet)))
	// Output: 2026-11-21T09:00:00.25Z
}
