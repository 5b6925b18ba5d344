package validate

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// The difference between a notification, which must be valid, and a feed.
func TestIsSitemap(t *testing.T) {
	const decl = `<?xml version="1.0" encoding="ISO-8859-1"?>`
	for _, tc := range []struct {
		doc  string
		want bool
	}{
		{`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`, true},
		{"\ufeff" + decl + "\r\n<!-- <rss> --> <?pi <rss> ?>\t<sm:urlset\nx='y'>", true},
		{"<sitemapindex/>", true},
		{`<!DOCTYPE urlset><urlset>`, true}, // which is refused
		{`<!DOCTYPE rss><urlset>`, true},
		{`<!DOCTYPE rss [<!ENTITY a "]><rss>"><!-- ']><rss>' --><?x ']><rss> ?><!ATTLIST x y CDATA '>'>]><urlset>`, true},
		{"", true},
		{"  ", true},
		{"no XML", true},
		{"<", true},
		{"<rss", true},
		{"<!-- <rss>", true},
		{"<!DOCTYPE rss [<!ENTITY a '>", true},
		{"<![CDATA[x]]><rss>", true},
		{"<<rss>", true},
		{"</rss>", true},
		{"<!doctype html><html>", true},
		{strings.Repeat(" ", maxProlog) + "<rss>", true},

		{decl + `<rss version="2.0">`, false},
		{"<feed>", false},
		{"<rdf:RDF>", false},
		{"<urlsets>", false},
		{"<URLSET>", false},
		{"<urlset:x>", false},
		{"<_/>", false},
		{"<é>", false},
		{`<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd"><rss>`, false},
		{`<!DOCTYPE urlset [<!ENTITY urlset "<urlset>">]><rss>`, false},
		{"<rss>\xff\x00 and no XML at all", false},
	} {
		if got := IsSitemap([]byte(tc.doc)); got != tc.want {
			t.Errorf("%.80q: %t", tc.doc, got)
		}
		var le, be strings.Builder
		for _, c := range utf16.Encode([]rune(tc.doc)) {
			le.WriteString(string([]byte{byte(c), byte(c >> 8)}))
			be.WriteString(string([]byte{byte(c >> 8), byte(c)}))
		}
		for _, doc := range []string{"\xff\xfe" + le.String(), "\xfe\xff" + be.String(), le.String(), be.String()} {
			if got := IsSitemap([]byte(doc)); got != tc.want && len(doc) <= maxProlog && strings.HasPrefix(tc.doc, "<") {
				t.Errorf("%.80q in UTF-16: %t", tc.doc, got)
			}
		}
	}
}
