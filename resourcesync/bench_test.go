package resourcesync

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"testing"
	"time"
)

// bigNotification makes a notification of n entries, about 500 bytes each, as a
// Source writes it.
func bigNotification(n int) []byte {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://example.org/dataset1/capabilitylist.xml"/>
  <rs:md capability="change-notification" from="%s" until="%s"/>
`, FormatDatetime(from), FormatDatetime(from.Add(time.Duration(n)*time.Second)))
	for i := range n {
		at := FormatDatetime(from.Add(time.Duration(i)*time.Second + time.Duration(i%1000)*time.Millisecond))
		fmt.Fprintf(&b, `  <url>
      <loc>https://example.org/dataset1/collection/%07d/resource.html?version=2&amp;lang=en</loc>
      <lastmod>%s</lastmod>
      <rs:md change="%s" datetime="%s"
             hash="md5:1e0d5cb8ef6ba40c99b14c0237be735e
                   sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"
             length="%d" type="text/html"/>
      <rs:ln rel="collection" href="https://example.org/dataset1/collection/%07d/index.html"/>
  </url>
`, i, at, ChangeTypes()[i%3], at, 1000+i, i)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

// bigResourceList makes a Resource List of n entries, about 400 bytes each.
func bigResourceList(n int) []byte {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://example.org/dataset1/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>
`)
	for i := range n {
		fmt.Fprintf(&b, `  <url>
      <loc>https://example.org/dataset1/collection/%07d/resource.html?version=2&amp;lang=en</loc>
      <lastmod>%s</lastmod>
      <rs:md hash="md5:1e0d5cb8ef6ba40c99b14c0237be735e
                   sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"
             length="%d" type="text/html"/>
  </url>
`, i, FormatDatetime(from.Add(time.Duration(i)*time.Second)), 1000+i)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

// xmlURLSet is what a program that uses encoding/xml would read it into.
type xmlURLSet struct {
	XMLName xml.Name `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	MD      xmlMD    `xml:"http://www.openarchives.org/rs/terms/ md"`
	LN      []xmlLN  `xml:"http://www.openarchives.org/rs/terms/ ln"`
	URL     []struct {
		Loc     string  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
		Lastmod string  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 lastmod"`
		MD      xmlMD   `xml:"http://www.openarchives.org/rs/terms/ md"`
		LN      []xmlLN `xml:"http://www.openarchives.org/rs/terms/ ln"`
	} `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url"`
}

type xmlMD struct {
	Capability string `xml:"capability,attr"`
	From       string `xml:"from,attr"`
	Until      string `xml:"until,attr"`
	Change     string `xml:"change,attr"`
	Datetime   string `xml:"datetime,attr"`
	Hash       string `xml:"hash,attr"`
	Length     int64  `xml:"length,attr"`
	Type       string `xml:"type,attr"`
}

type xmlLN struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

const benchEntries = 50_000

func BenchmarkCheckNotification(b *testing.B) {
	doc := bigNotification(benchEntries)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		check(b, doc)
	}
}

func BenchmarkCheckNotificationSmall(b *testing.B) {
	doc := bigNotification(2)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		check(b, doc)
	}
}

func BenchmarkNotificationReader(b *testing.B) {
	doc := bigNotification(benchEntries)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewNotificationReader(bytes.NewReader(doc), Limits{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}

// BenchmarkReader reads a Resource List, entry by entry.
func BenchmarkReader(b *testing.B) {
	doc := bigResourceList(benchEntries)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		readAllEntries(b, doc)
	}
}

// BenchmarkAgainstUnmarshal validates a notification and unmarshals the same
// bytes. The ratio must stay above 8.
func BenchmarkAgainstUnmarshal(b *testing.B) {
	againstUnmarshal(b, bigNotification(benchEntries), check)
}

// BenchmarkReaderAgainstUnmarshal reads all entries of a Resource List and
// unmarshals the same bytes. The ratio must stay above 8.
func BenchmarkReaderAgainstUnmarshal(b *testing.B) {
	againstUnmarshal(b, bigResourceList(benchEntries), readAllEntries)
}

// againstUnmarshal does the one and the other by turns, so that what else the
// machine does falls on both, and reports the ratio of the medians.
func againstUnmarshal(b *testing.B, doc []byte, read func(*testing.B, []byte)) {
	b.Helper()
	b.SetBytes(int64(len(doc)))
	ours := func() { read(b, doc) }
	theirs := func() {
		var v xmlURLSet
		if err := xml.Unmarshal(doc, &v); err != nil || len(v.URL) != benchEntries {
			b.Fatalf("%d entries, %v", len(v.URL), err)
		}
	}
	pairs := 0
	var a, t []time.Duration
	for b.Loop() {
		a, t = append(a, timed(ours)), append(t, timed(theirs))
		pairs++
	}
	b.ReportMetric(float64(median(t))/float64(median(a)), "x-faster")
	b.ReportMetric(float64(median(a).Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(pairs), "pairs")
}

func readAllEntries(b *testing.B, doc []byte) {
	n := 0
	for _, err := range NewReader(bytes.NewReader(doc), ReadOptions{}).Entries() {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != benchEntries {
		b.Fatal(n, "entries")
	}
}

func check(b *testing.B, doc []byte) {
	n, err := CheckNotification(bytes.NewReader(doc), Limits{})
	if err != nil || n.Entries == 0 {
		b.Fatal(n, err)
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
