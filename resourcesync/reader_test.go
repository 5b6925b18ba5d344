package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reading is all that a Reader says of a document.
type reading struct {
	head      Head
	entries   []Entry
	tolerated []Toleration
	count     int
	err       error
}

// readDocument reads a document to its end.
func readDocument(r io.Reader, o ReadOptions) reading {
	var got reading
	rd := NewReader(r, o)
	for e, err := range rd.Entries() {
		if got.err = err; err == nil {
			got.entries = append(got.entries, e)
		}
	}
	head, err := rd.Head()
	if got.head = head; !errors.Is(err, got.err) {
		got.err = fmt.Errorf("entries end with %w, the head with %w", got.err, err)
	}
	got.tolerated, got.count = rd.Tolerated(), rd.TolerationCount()
	return got
}

// Some roots' rs:md, and an entry of each kind.
const (
	upLink     = `<rs:ln rel="up" href="https://example.org/cl.xml"/>` + "\n"
	listMD     = upLink + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>` + "\n"
	changesMD  = upLink + `<rs:md capability="changelist" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/>` + "\n"
	dumpMD     = upLink + `<rs:md capability="resourcedump" at="2026-01-01T00:00:00Z"/>` + "\n"
	manifestMD = upLink + `<rs:md capability="changedump-manifest" from="2026-01-01T00:00:00Z"/>` + "\n"
	listURL    = "<url><loc>https://example.org/a</loc></url>\n"
	sitemap    = "<sitemap><loc>https://example.org/a</loc></sitemap>\n"
)

// urlset and indexOf wrap what stands in the root; it begins on line 4.
func urlset(children ...string) string { return docHead + strings.Join(children, "") + tail }

func indexOf(children ...string) string {
	return strings.ReplaceAll(urlset(children...), "urlset", "sitemapindex")
}

// sitemapOf is one sitemap, with the given children after loc.
func sitemapOf(children ...string) string {
	return strings.ReplaceAll(urlOf(children...), "url>", "sitemap>")
}

// tolerable lists what a tolerant Reader accepts and a strict one refuses, with the place
// and a part of the message; and beside it what both accept, for which at is empty. Line
// 4 begins the root's children, line 6 most often the first entry.
var tolerable = []struct{ name, rule, doc, at, msg string }{
	{"the smallest list", "DOC-34", urlset(listMD), "", ""},
	{"a plain sitemap", "DOC-12", urlset(listURL), "2:1", "lacks an rs:md"},
	{"no capability", "DOC-12", urlset(`<rs:md at="2026"/>`), "4:1", "lacks capability"},
	{"unknown capability", "DOC-12", urlset(`<rs:md capability="wishlist"/>`), "4:1", `"wishlist" is not one`},
	{"index of notifications", "DOC-11", indexOf(`<rs:md capability="change-notification" from="2026" until="2027"/>`), "4:1", "no index"},
	{"index of manifests", "DOC-11", indexOf(`<rs:md capability="resourcedump-manifest" at="2026"/>`), "4:1", "no index"},

	{"attribute on the root", "DOC-10", strings.Replace(urlset(listMD), "<urlset", `<urlset version="1"`, 1), "2:9", "not known"},
	{"unknown attribute", "DOC-10", urlset(listMD, urlOf(`<rs:md sha="1"/>`)), "7:8", `"sha" is not known`},
	{"prefixed attribute", "DOC-10", urlset(listMD, urlOf(`<rs:md rs:length="1"/>`)), "7:8", `write "length"`},
	{"unknown element in the root", "DOC-10", urlset(listMD, "<page><url>x</url></page>"), "6:1", `"page"`},
	{"text in the root", "DOC-10", urlset(listMD, "text"), "6:1", "text stands in urlset"},
	{"text in an index", "DOC-10", indexOf(listMD, "text"), "6:1", "text stands in sitemapindex"},
	{"foreign elements and attributes", "DOC-10", urlset(listMD, urlOf(`<x:a xmlns:x="urn:x">text</x:a>`, `<rs:md xmlns:x="urn:x" x:a="1"/>`)), "", ""},
	{"attribute on url", "DOC-15", urlset(listMD, `<url id="1"><loc>urn:a</loc></url>`), "6:6", `url has the attribute "id"`},
	{"attribute on sitemap", "DOC-15", indexOf(listMD, `<sitemap id="1"><loc>urn:a</loc></sitemap>`), "6:10", `sitemap has the attribute "id"`},
	{"unknown element in url", "DOC-15", urlset(listMD, urlOf("<image>a</image>")), "7:1", `"image"`},
	{"priority in an index", "DOC-15", indexOf(listMD, sitemapOf("<priority>1</priority>")), "7:1", `"priority" does not belong in a sitemap`},
	{"text in url", "DOC-15", urlset(listMD, urlOf("text")), "7:1", "text stands in url"},
	{"space in loc", "DOC-16", urlset(listMD, "<url><loc>http://example.org/a b</loc></url>"), "6:11", "absolute URI"},
	{"link within loc", "DOC-16", urlset(listMD, `<url><loc>urn:a<rs:ln rel="a" href="b"/></loc></url>`), "6:16", "within loc"},
	{"two lastmod", "DOC-16", urlset(listMD, urlOf("<lastmod>2026</lastmod><lastmod>2025</lastmod>")), "7:24", "second lastmod"},
	{"two priority", "DOC-16", urlset(listMD, urlOf("<priority>1</priority><priority>2</priority>")), "7:23", "second priority"},
	{"year 1", "DOC-13", urlset(`<rs:md capability="framework-notification" until="0001"/>`), "4:1", "until must be later than 0001"},

	{"rs:md after the entries", "DOC-51", urlset(upLink, listURL, `<rs:md capability="resourcelist" at="2026"/>`), "6:1", "rs:md of the document stands after its first url"},
	{"rs:ln after the entries", "DOC-51", urlset(`<rs:md capability="resourcelist" at="2026"/>`, listURL, upLink), "5:1", "rs:ln of the document stands after"},
	{"loc after lastmod", "DOC-51", urlset(listMD, "<url><lastmod>2026</lastmod><loc>urn:a</loc></url>"), "6:29", "loc stands after"},
	{"lastmod after rs:md", "DOC-51", urlset(listMD, urlOf(`<rs:md length="1"/><lastmod>2026</lastmod>`)), "7:20", "lastmod stands after"},
	{"lastmod after rs:ln", "DOC-51", urlset(listMD, urlOf(`<rs:ln rel="a" href="b"/><lastmod>2026</lastmod>`)), "7:26", "lastmod stands after"},
	{"changefreq after priority", "DOC-51", urlset(listMD, urlOf(`<priority>1</priority><changefreq>daily</changefreq>`)), "7:23", "changefreq stands after"},
	{"rs:md after rs:ln", "DOC-51", urlset(listMD, urlOf(`<rs:ln rel="a" href="b"/><rs:md length="1"/>`)), "", ""},
	{"root rs:ln after rs:md", "DOC-51", urlset(`<rs:md capability="resourcelist" at="2026"/>`, upLink), "", ""},
	{"element within rs:md", "DOC-51", urlset(listMD, urlOf(`<rs:md><rs:ln rel="a" href="b"/></rs:md>`)), "7:8", "must be empty"},
	{"text within rs:ln", "DOC-51", urlset(listMD, urlOf(`<rs:ln rel="a" href="b">c</rs:ln>`)), "7:25", "text stands in rs:ln"},

	{"link without href", "DOC-52", urlset(listMD, urlOf(`<rs:ln rel="a"/>`)), "7:1", "lacks href"},
	{"link without rel", "DOC-52", urlset(listMD, urlOf(`<rs:ln href="a"/>`)), "7:1", "lacks rel"},
	{"root link with empty href", "DOC-52", urlset(listMD, `<rs:ln rel="a" href=""/>`), "6:16", "href of an rs:ln is empty"},
	{"pri 0", "DOC-52", urlset(listMD, urlOf(`<rs:ln rel="a" href="b" pri="0"/>`)), "7:25", "pri"},
	{"length with a unit", "DOC-56", urlset(listMD, urlOf(`<rs:md length="1k"/>`)), "7:8", "length"},
	{"length of a link", "DOC-56", urlset(listMD, urlOf(`<rs:ln rel="a" href="b" length="-1"/>`)), "7:25", "length"},
	{"path that climbs", "DOC-57", urlset(listMD, urlOf(`<rs:ln rel="a" href="b" path="/../etc/passwd"/>`)), "7:25", "path"},
	{"type beyond the schema's pattern", "DOC-58", urlset(listMD, urlOf(`<rs:md type="application/atom+xml; a=b"/>`)), "", ""},
	{"odd hashes", "DOC-55", urlset(listMD, urlOf(`<rs:md hash="sha-256:not-hex md5:x md5:y what"/>`)), "", ""},
	{"lastmod in words", "DOC-59", urlset(listMD, urlOf(`<lastmod>yesterday</lastmod>`)), "7:10", `"yesterday"`},
	{"lastmod without a zone", "DOC-59", urlset(listMD, urlOf(`<lastmod>2026-01-01T00:00:00</lastmod>`)), "7:10", "zone"},
	{"datetime without a zone", "DOC-59", urlset(changesMD, urlOf(at("2026-01-01T00:00:00"))), "7:25", "zone"},
	{"modified in words", "DOC-59", urlset(listMD, urlOf(`<rs:ln rel="a" href="b" modified="now"/>`)), "7:25", "modified"},

	{"description as 0.9 calls it", "DOC-30", urlset(`<rs:md capability="resourcesync"/>`), "4:1", `said for "description"`},
	{"description of Resource Lists", "DOC-30", urlset(`<rs:md capability="description"/>`, urlOf(`<rs:md capability="resourcelist"/>`)), "5:1", `"resourcelist"`},
	{"description with entries of no capability", "DOC-30", urlset(`<rs:md capability="description"/>`, listURL), "", ""},
	{"description with a time", "DOC-30", urlset(`<rs:md capability="description" at="2026"/>`), "4:1", "has at, which does not belong in a Source Description"},
	{"description index with an interval", "DOC-31", indexOf(`<rs:md capability="description" from="2026"/>`), "4:1", "has from"},
	{"Capability List without up", "DOC-32", urlset(`<rs:md capability="capabilitylist"/>`), "4:1", "its Source Description"},
	{"Capability List, entry without capability", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, listURL), "5:37", "lacks capability"},
	{"Capability List, empty capability", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability=""/>`)), "6:1", "lacks capability"},
	{"Capability List, one twice", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="changelist"/>`), urlOf(`<rs:md capability="changelist"/>`)), "8:1", "second entry"},
	{"Capability List, unknown capability", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="resource-list"/>`)), "6:1", `"resource-list" is not one`},
	{"Capability List of Capability Lists", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="capabilitylist"/>`)), "6:1", `"capabilitylist" is not one`},
	{"Capability List, channel without a hub", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="change-notification"/>`)), "6:1", `lacks an rs:ln rel="hub"`},
	{"Capability List, channel with a hub", "DOC-32", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="change-notification"/>`, `<rs:ln rel="hub" href="a"/>`)), "", ""},
	{"Capability List, channel of 1.0", "DOC-12", urlset(upLink, `<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="changelist-notification"/>`, `<rs:ln rel="hub" href="a"/>`)), "6:1", `said for "change-notification"`},
	{"Capability List Index", "DOC-33", indexOf(upLink, `<rs:md capability="capabilitylist"/>`, sitemap), "5:1", "no longer be written"},
	{"Resource List without at", "DOC-34", urlset(upLink, `<rs:md capability="resourcelist"/>`), "5:1", "lacks at"},
	{"Resource List without up", "DOC-34", urlset(`<rs:md capability="resourcelist" at="2026"/>`), "4:1", `lacks an rs:ln rel="up"`},
	{"Resource List of 0.9", "DOC-34", urlset(upLink, `<rs:md capability="resourcelist" from="2026"/>`), "5:1", "version 0.9"},
	{"Resource List with until", "DOC-34", urlset(upLink, `<rs:md capability="resourcelist" at="2026" until="2027"/>`), "5:1", "has until"},
	{"Resource List completed too early", "DOC-34", urlset(upLink, `<rs:md capability="resourcelist" at="2026" completed="2025"/>`), "5:1", "earlier than at"},
	{"Resource List with changes", "DOC-34", urlset(listMD, urlOf(`<rs:md change="created"/>`)), "7:1", "has change"},
	{"Resource List with times of entries", "DOC-34", urlset(listMD, urlOf(`<rs:md at="2026"/>`)), "7:1", "has at"},
	{"Resource List Index", "DOC-35", indexOf(listMD, sitemapOf(`<lastmod>2026</lastmod><rs:md at="2026" completed="2027"/>`)), "", ""},
	{"Resource List Index without at", "DOC-35", indexOf(upLink, `<rs:md capability="resourcelist"/>`), "5:1", "lacks at"},
	{"Resource List Index, member completed too early", "DOC-35", indexOf(listMD, sitemapOf(`<rs:md at="2026" completed="2025"/>`)), "7:1", "earlier than at"},
	{"Resource Dump", "DOC-36", urlset(dumpMD, urlOf(`<rs:md at="2026" completed="2027" type="application/zip" length="5"/><rs:ln rel="contents" href="a"/>`)), "", ""},
	{"Resource Dump without at", "DOC-36", urlset(upLink, `<rs:md capability="resourcedump" completed="2026"/>`), "5:1", "lacks at"},
	{"Resource Dump with path", "DOC-36", urlset(dumpMD, urlOf(`<rs:md path="/a"/>`)), "7:1", "has path"},
	{"Resource Dump Index with an interval", "DOC-37", indexOf(dumpMD, sitemapOf(`<rs:md from="2026"/>`)), "7:1", "has from"},
	{"manifest, no path", "DOC-38", urlset(upLink, `<rs:md capability="resourcedump-manifest" at="2026"/>`, listURL), "5:54", "lacks path"},
	{"manifest, path without the slash", "DOC-57", urlset(upLink, `<rs:md capability="resourcedump-manifest" at="2026"/>`, urlOf(`<rs:md path="a"/>`)), "6:8", "lacks the slash"},

	{"Change List without from", "DOC-39", urlset(upLink, `<rs:md capability="changelist"/>`), "5:1", "lacks from"},
	{"Change List, open", "DOC-39", urlset(upLink, `<rs:md capability="changelist" from="2026"/>`, urlOf(at("2030"))), "", ""},
	{"Change List with at", "DOC-39", urlset(upLink, `<rs:md capability="changelist" from="2026" at="2026"/>`), "5:1", "has at"},
	{"Change List, order", "DOC-39", urlset(changesMD, urlOf(at("2026-01-01T02:00:00Z")), urlOf(at("2026-01-01T01:00:00Z"))), "9:1", "in the order of time"},
	{"Change List, equal times", "DOC-39", urlset(changesMD, urlOf(at("2026-01-01T02:00:00Z")), urlOf(at("2026-01-01T02:00:00Z"))), "", ""},
	{"Change List, lastmod has no say", "DOC-39", urlset(changesMD, urlOf(`<lastmod>2026-01-01T05:00:00Z</lastmod>`, at("2026-01-01T02:00:00Z")), urlOf(`<lastmod>1999</lastmod><rs:md change="deleted"/>`)), "", ""},
	{"Change List, before the interval", "DOC-39", urlset(changesMD, urlOf(at("2025"))), "7:1", "earlier than from"},
	{"Change List, after the interval", "DOC-39", urlset(changesMD, urlOf(at("2026-01-02T00:00:00.1Z"))), "7:1", "datetime, 2026-01-02T00:00:00.1Z, is later than until"},
	{"Change List, at both ends", "DOC-39", urlset(changesMD, urlOf(at("2026-01-01T00:00:00Z")), urlOf(at("2026-01-02T00:00:00Z"))), "", ""},
	{"Change List, until before from", "DOC-39", urlset(upLink, `<rs:md capability="changelist" from="2026" until="2025"/>`), "5:1", "later than until"},
	{"Change List Index, order", "DOC-40", indexOf(changesMD, sitemapOf(`<rs:md from="2026-01-01T01:00:00Z"/>`), sitemapOf(`<rs:md from="2026-01-01T00:00:00Z"/>`)), "9:1", "in the order of time"},
	{"Change List Index, member beyond until", "DOC-40", indexOf(changesMD, sitemapOf(`<rs:md from="2026-01-01T01:00:00Z" until="2027"/>`)), "7:1", "until, 2027-01-01T00:00:00Z, is later"},
	{"Change List Index, member until before from", "DOC-40", indexOf(changesMD, sitemapOf(`<rs:md from="2026-01-01T01:00:00Z" until="2026-01-01T00:00:00Z"/>`)), "7:1", "later than until"},
	{"Change List Index with changes", "DOC-40", indexOf(changesMD, sitemapOf(`<rs:md change="created"/>`)), "7:1", "has change"},
	{"Change Dump, any order", "DOC-41", urlset(upLink, `<rs:md capability="changedump" from="2026"/>`, urlOf(`<rs:md from="2027"/>`), urlOf(`<rs:md from="2026"/>`)), "", ""},
	{"Change Dump, package beyond until", "DOC-41", urlset(upLink, `<rs:md capability="changedump" from="2026" until="2027"/>`, urlOf(`<rs:md from="2026" until="2028"/>`)), "6:1", "later than until of the document"},
	{"Change Dump with a patch", "DOC-54", urlset(upLink, `<rs:md capability="changedump" from="2026"/>`, urlOf(`<rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="b" type="a/b"/>`)), "", ""},
	{"Change Dump with at", "DOC-41", urlset(upLink, `<rs:md capability="changedump" from="2026"/>`, urlOf(`<rs:md at="2027"/>`)), "6:1", "has at"},
	{"Change Dump Index without from", "DOC-42", indexOf(upLink, `<rs:md capability="changedump"/>`), "5:1", "lacks from"},
	{"Change Dump Manifest, deleted without path", "DOC-43", urlset(manifestMD, urlOf(`<rs:md change="deleted"/>`)), "", ""},
	{"Change Dump Manifest, deleted with path", "DOC-43", urlset(manifestMD, urlOf(`<rs:md change="deleted" path="/a"/>`)), "", ""},
	{"Change Dump Manifest, created without path", "DOC-43", urlset(manifestMD, urlOf(`<rs:md change="created"/>`)), "7:1", "lacks path"},
	{"Change Dump Manifest, patch without path", "DOC-43", urlset(manifestMD, urlOf(`<rs:md change="updated" path="/a"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="b" type="a/b"/>`)), "7:1", "patch lacks path"},
	{"patch without type", "DOC-54", urlset(changesMD, urlOf(`<rs:md change="updated"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="b"/>`)), "7:1", "patch lacks type"},
	{"patch in a Resource List", "DOC-54", urlset(listMD, urlOf(`<rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="b" type="a/b"/>`)), "6:1", "does not belong in a Resource List"},
	{"unknown relation", "DOC-53", urlset(listMD, urlOf(`<rs:ln rel="no-such-relation" href="b"/>`)), "", ""},
	{"archive with a time", "DOC-44", urlset(upLink, `<rs:md capability="resourcelist-archive" from="2026"/>`), "5:1", "has from"},
	{"archive of dumps with an interval", "DOC-44", urlset(upLink, `<rs:md capability="resourcedump-archive"/>`, urlOf(`<rs:md from="2026"/>`)), "6:1", "has from"},
	{"archive of Change Lists, order", "DOC-45", urlset(upLink, `<rs:md capability="changelist-archive"/>`, urlOf(`<rs:md from="2027"/>`), urlOf(`<rs:md from="2026"/>`)), "8:1", "in the order of time"},
	{"archive of Change Dumps with at", "DOC-45", urlset(upLink, `<rs:md capability="changedump-archive"/>`, urlOf(`<rs:md at="2026"/>`)), "6:1", "has at"},
	{"archive index with times", "DOC-46", indexOf(upLink, `<rs:md capability="changelist-archive"/>`, sitemapOf(`<rs:md from="2026"/>`)), "6:1", "has from"},
	{"archive index without up", "DOC-46", indexOf(`<rs:md capability="resourcedump-archive"/>`), "4:1", "lacks an rs:ln"},

	{"notification of 1.0", "DOC-12", urlset(`<rs:md capability="changelist-notification" from="2026" until="2026"/>`), "4:1", `said for "change-notification"`},
	{"notification without until", "DOC-12", urlset(`<rs:md capability="change-notification" from="2026"/>`), "4:1", "lacks until"},
	{"notification, until before from", "DOC-13", urlset(`<rs:md capability="change-notification" from="2026" until="2025"/>`), "4:1", "later than until"},
	{"notification, order", "DOC-18", urlset(rootMD, urlOf(at("2026-01-01T02:00:00Z")), urlOf(at("2026-01-01T01:00:00Z"))), "8:1", "in the order of time"},
	{"notification, outside of the interval", "DOC-17", urlset(rootMD, urlOf(at("2025"))), "6:1", "earlier than from"},
	{"framework notification", "DOC-20", urlset(frameMD, urlOf(`<rs:md change="deleted" capability="resourcelist"/>`)), "6:1", "cannot be deleted"},
	{"framework notification of 0.9", "DOC-30", urlset(frameMD, urlOf(`<rs:md change="created" capability="resourcesync"/>`)), "6:1", `said for "description"`},
	{"up of 0.9", "DOC-54", urlset(`<rs:ln rel="resourcesync" href="a"/>`, `<rs:md capability="resourcelist" at="2026"/>`), "4:1", `said for "up"`},
}

// DOC-10 to DOC-59: what is tolerated, with its place, is what strict reading
// refuses, with the same.
func TestTolerated(t *testing.T) {
	for _, tc := range tolerable {
		t.Run(tc.rule+" "+tc.name, func(t *testing.T) {
			got := readDocument(iotest.OneByteReader(strings.NewReader(tc.doc)), ReadOptions{Limits: Limits{Token: 300}})
			strict := readDocument(strings.NewReader(tc.doc), ReadOptions{Strict: true})
			if got.err != nil || got.count != len(got.tolerated) || strict.count != 0 {
				t.Fatalf("%v; strict: %v, and tolerates %d", got.err, strict.err, strict.count)
			}
			if tc.at == "" {
				if got.count != 0 || strict.err != nil {
					t.Errorf("tolerated %v; strict: %v", got.tolerated, strict.err)
				}
				return
			}
			if got.count == 0 {
				t.Fatalf("nothing was tolerated; strict: %v", strict.err)
			}
			first := got.tolerated[0]
			if at := fmt.Sprintf("%d:%d", first.Line, first.Column); first.Rule != tc.rule || at != tc.at || !strings.Contains(first.Msg, tc.msg) {
				t.Errorf("tolerated %s at %s: %s\nwant %s at %s: %s", first.Rule, at, first.Msg, tc.rule, tc.at, tc.msg)
			}
			var e *Error
			if !errors.As(strict.err, &e) || e.Kind != BadDocument || e.Rule != first.Rule || fmt.Sprintf("%d:%d", e.Line, e.Column) != tc.at {
				t.Errorf("strict: %v\ntolerant: %v", strict.err, first)
			}
		})
	}
}

// A change that does not say what changed is refused even if the document says only after
// it that it lists changes.
func TestChangesBeforeALateHead_DOC39(t *testing.T) {
	for entry, bad := range map[string]bool{`<rs:md/>`: true, ``: true, `<rs:md change="created"/>`: false} {
		got := readDocument(strings.NewReader(urlset(upLink, urlOf(entry), changesMD[len(upLink):])), ReadOptions{})
		if bad {
			wantError(t, got.err, BadDocument, map[string]string{`<rs:md/>`: "6:1", ``: "5:1"}[entry], "lacks change")
		} else if got.err != nil {
			t.Error(got.err)
		}
	}
	if got := readDocument(strings.NewReader(urlset(listURL, listMD)), ReadOptions{}); got.err != nil {
		t.Error(got.err)
	}
}

// What leaves the meaning in doubt is refused, tolerant or not.
func TestNeverTolerated(t *testing.T) {
	for _, tc := range []struct {
		name, rule, doc string
		kind            ErrorKind
		at, msg         string
	}{
		{"other root", "DOC-10", "<html/>", BadDocument, "1:1", "urlset or sitemapindex"},
		{"no namespace", "DOC-10", "<urlset/>", BadDocument, "1:1", "in the namespace"},
		{"rs:md without a prefix", "DOC-10", urlset(`<md capability="resourcelist"/>`), BadDocument, "4:1", "as rs:md"},
		{"rs:md of https", "DOC-10", strings.Replace(urlset(listMD), "http://www.openarchives", "https://www.openarchives", 1), BadDocument, "4:1", "it must be in http://"},
		{"rs:md of https after an entry", "DOC-10", urlset(listURL, `<rs:md xmlns:rs="https://www.openarchives.org/rs/terms/" capability="changelist" from="2026"/>`), BadDocument, "5:1", "it must be in http://"},
		{"rs:ln without a prefix", "DOC-10", urlset(listMD, urlOf(`<ln rel="a" href="b"/>`)), BadDocument, "7:1", "as rs:ln"},
		{"attribute with and without a prefix", "DOC-10", urlset(listMD, urlOf(`<rs:md rs:length="1" length="2"/>`)), BadDocument, "7:8", "there twice"},
		{"sitemap in a urlset", "DOC-11", urlset(listMD, sitemap), BadDocument, "6:1", "belongs in an index"},
		{"url in an index", "DOC-11", indexOf(listMD, listURL), BadDocument, "6:1", "belongs in a urlset"},
		{"two rs:md of the root", "DOC-12", urlset(listMD, `<rs:md capability="changelist" from="2026"/>`), BadDocument, "6:1", "second rs:md"},
		{"two rs:md of an entry", "DOC-17", urlset(listMD, urlOf(`<rs:md length="1"/>`, `<rs:md length="2"/>`)), BadDocument, "8:1", "second rs:md in one url"},
		{"no loc", "DOC-16", indexOf(listMD, "<sitemap/>"), BadDocument, "6:1", "this sitemap lacks loc"},
		{"two loc", "DOC-16", urlset(listMD, "<url><loc>urn:a</loc><loc>urn:a</loc></url>"), BadDocument, "6:22", "second loc"},
		{"empty loc", "DOC-16", urlset(listMD, "<url><loc> </loc></url>"), BadDocument, "6:11", "loc is empty"},
		{"relative loc", "DOC-16", urlset(listMD, "<url><loc>/a b</loc></url>"), BadDocument, "6:11", "absolute URI"},
		{"change of no kind", "DOC-17", urlset(changesMD, urlOf(`<rs:md change="moved"/>`)), BadDocument, "7:8", `"moved"`},
		{"Change List, no change", "DOC-39", urlset(changesMD, urlOf(`<rs:md/>`)), BadDocument, "7:1", "lacks change"},
		{"Change List, no rs:md", "DOC-39", urlset(changesMD, listURL), BadDocument, "6:1", "lacks change"},
		{"Change Dump Manifest, no change", "DOC-43", urlset(manifestMD, urlOf(`<rs:md path="/a"/>`)), BadDocument, "7:1", "lacks change"},
		{"notification, no change", "DOC-17", urlset(rootMD, listURL), BadDocument, "5:1", "lacks change"},
		{"not well-formed", "XML", urlset(listMD, "<b xmlns=''></c>"), NotWellFormed, "6:13", "does not match"},
		{"DTD", "XML", "<!DOCTYPE urlset>" + urlset(listMD), HasDTD, "1:1", "DOCTYPE"},
		{"another encoding", "XML", "<?xml version='1.0' encoding='ISO-8859-1'?><urlset/>", BadEncoding, "1:21", "UTF-8"},
		{"entries", "DOC-60", indexOf(listMD, sitemap, sitemap, sitemap), OverLimit, "8:1", "more than 2 entries; split it, and list"},
		{"links of an entry", "XML", urlset(listMD, urlOf(strings.Repeat(`<rs:ln rel="a" href="b"/>`, 4))), OverLimit, "7:76", "more than 3 links"},
		{"links of the root", "XML", urlset(listMD, strings.Repeat(`<rs:ln rel="a" href="b"/>`, 4)), OverLimit, "6:51", "more than 3 links"},
		{"bytes", "DOC-60", urlset(listMD, "<!--", strings.Repeat("x", 1000), "-->"), OverLimit, "6:731", "longer than 1000 bytes; split it, and list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, strict := range []bool{false, true} {
				o := ReadOptions{Limits: Limits{Entries: 2, Links: 3, Bytes: 1000}, Strict: strict}
				got := readDocument(strings.NewReader(tc.doc), o)
				wantError(t, got.err, tc.kind, tc.at, tc.msg)
				var e *Error
				if errors.As(got.err, &e) && e.Rule != tc.rule {
					t.Errorf("the rule is %s, want %s", e.Rule, tc.rule)
				}
			}
		})
	}
}

// Spec 1.1 of what older documents say, and what is taken for not there.
func TestTermsOf11(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	links := func(pairs ...string) (ls []Link) {
		for i := 0; i < len(pairs); i += 2 {
			ls = append(ls, Link{Rel: pairs[i], Href: pairs[i+1]})
		}
		return ls
	}
	const description09 = `<rs:md capability="resourcesync"/>`
	for _, tc := range []struct {
		name, doc string
		want      Head
	}{
		{"description", urlset(description09), Head{Capability: Description}},
		{"description index", indexOf(description09), Head{Capability: Description, Index: true}},
		{"notification", urlset(`<rs:md capability="changelist-notification" from="2026-01-01" until="2026-01-02"/>`), Head{Capability: ChangeNotification, From: day(1), Until: day(2)}},
		{"at", urlset(`<rs:md capability="resourcedump-manifest" from="2026-01-01"/>`), Head{Capability: ResourceDumpManifest, At: day(1)}},
		{"at of an index", indexOf(`<rs:md capability="resourcelist" from="2026-01-01"/>`), Head{Capability: ResourceList, Index: true, At: day(1)}},
		{"from beside at stays", urlset(`<rs:md capability="resourcelist" from="2026-01-01" at="2026-01-02"/>`), Head{Capability: ResourceList, At: day(2), From: day(1)}},
		{"an interval stays", urlset(`<rs:md capability="resourcelist" from="2026-01-01" until="2026-01-02"/>`), Head{Capability: ResourceList, From: day(1), Until: day(2)}},
		{"from of a Change List stays", urlset(`<rs:md capability="changelist" from="2026-01-01"/>`), Head{Capability: ChangeList, From: day(1)}},
		{"up, then index", urlset(`<rs:ln rel="ResourceSync" href="a"/><rs:ln rel="up" href="b"/>`, listMD[len(upLink):]), Head{Capability: ResourceList, At: day(1), Links: links("up", "a", "index", "b")}},
		{"index, then up", urlset(`<rs:ln rel="Up" href="b"/><rs:ln rel="resourcesync" href="a"/><rs:ln rel="resourcesync" href="c"/>`, listMD[len(upLink):]), Head{Capability: ResourceList, At: day(1), Links: links("index", "b", "up", "a", "up", "c")}},
		{"up alone stays", urlset(listMD), Head{Capability: ResourceList, At: day(1), Links: links("up", "https://example.org/cl.xml")}},
		{"a link that is none", urlset(listMD, `<rs:ln rel="a"/><rs:ln rel="" href="a"/>`), Head{Capability: ResourceList, At: day(1), Links: links("up", "https://example.org/cl.xml")}},
		{"a time that is none", urlset(`<rs:md capability="resourcelist" at="soon" completed="2026-01-02T00:00:00"/>`), Head{Capability: ResourceList, Completed: day(2)}},
		{"no capability", urlset(`<rs:md at="2026-01-02"/>`), Head{At: day(2)}},
		{"nothing at all", urlset(listURL), Head{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := readDocument(strings.NewReader(tc.doc), ReadOptions{})
			got.head.Line, got.head.Column = 0, 0
			if diff := cmp.Diff(tc.want, got.head); diff != "" || got.err != nil {
				t.Errorf("%v\n%s", got.err, diff)
			}
		})
	}
	for doc, want := range map[string]string{
		framework(urlOf(`<rs:md change="created" capability="resourcesync"/>`)):                                Description,
		urlset(`<rs:md capability="capabilitylist"/>`, urlOf(`<rs:md capability="changelist-notification"/>`)): ChangeNotification,
	} {
		got := readDocument(strings.NewReader(doc), ReadOptions{})
		if got.err != nil || len(got.entries) != 1 || got.entries[0].Capability != want {
			t.Errorf("%v: %+v", got.err, got.entries)
		}
	}
	got := readDocument(strings.NewReader(urlset(changesMD,
		`<url><loc>http://example.org/a b</loc><lastmod>2026-01-02T00:00:00</lastmod><rs:md change="updated" datetime="2026-01-01T12:00"
			length="x" path="a/" rs:type="a/b" sha="1"/><rs:ln rel="x"/><rs:ln rel="a" href="b" pri="x" length="x" modified="x" path="../x"/></url>`)), ReadOptions{})
	want := []Entry{{
		Loc: "http://example.org/a%20b", Written: "http://example.org/a b", LastMod: day(2), Change: Updated, Datetime: day(1).Add(12 * time.Hour), Type: "a/b",
		Links: links("a", "b"), Line: 6, Column: 1,
	}}
	if diff := cmp.Diff(want, got.entries); diff != "" || got.err != nil || got.count != 12 {
		t.Errorf("%v, %d tolerated: %v\n%s", got.err, got.count, got.tolerated, diff)
	}
}

// What the Python library resync writes: a Change List without from and datetime,
// with the old lastmod on a deletion, and entries out of its order.
func TestPythonChangeList(t *testing.T) {
	const list = `<?xml version='1.0' encoding='UTF-8'?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist" /><url><loc>http://example.org/b</loc><lastmod>2026-01-03T10:00:00Z</lastmod><rs:md change="updated" hash="md5:Q2hlY2sgSW50ZWdyaXR5IQ==" length="9" /></url><url><loc>http://example.org/a</loc><lastmod>2025-05-05T05:05:05.123456Z</lastmod><rs:md change="deleted" /></url></urlset>`
	got := readDocument(strings.NewReader(list), ReadOptions{})
	if got.err != nil || len(got.entries) != 2 || got.entries[1].Change != Deleted || !got.entries[1].Datetime.IsZero() {
		t.Errorf("%v: %+v", got.err, got.entries)
	}
	var rules []string
	for _, x := range got.tolerated {
		rules = append(rules, x.Msg)
	}
	want := []string{
		"the rs:md of the document lacks from, which a Change List must have",
		`the document lacks an rs:ln rel="up" to its Capability List`,
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
}

// Head reads as far as the first entry; what comes late is there at the end.
func TestHeadComesFirst(t *testing.T) {
	read := 0
	counted := iotest.OneByteReader(readerFunc(func(p []byte) (int, error) {
		p[0] = ' '
		read++
		return 1, nil
	}))
	r := NewReader(io.MultiReader(strings.NewReader(strings.TrimSuffix(urlset(listMD, listURL), tail)), counted), ReadOptions{Limits: Limits{Token: 64, Bytes: 1 << 20}})
	h, err := r.Head()
	if h.Capability != ResourceList || len(h.Links) != 1 || err != nil || read > 1000 {
		t.Errorf("%+v, %v after %d bytes too many", h, err, read)
	}
	h.Links[0].Rel = "mine"
	if again, _ := r.Head(); again.Links[0].Rel != "up" {
		t.Error("a Head does not belong to the caller")
	}

	late := urlset(listURL, listURL, upLink, `<rs:md capability="resourcelist" at="2026" x:y="z" xmlns:x="urn:x"/>`)
	r = NewReader(strings.NewReader(late), ReadOptions{})
	if h, err := r.Head(); h.Capability != "" || h.Links != nil || err != nil {
		t.Errorf("%+v, %v before the entries", h, err)
	}
	n := 0
	for range 3 { // the second continues after the first
		for _, err := range r.Entries() {
			if err != nil {
				t.Error(err)
			}
			if n++; n == 1 {
				break
			}
		}
	}
	h, err = r.Head()
	if h.Capability != ResourceList || len(h.Links) != 1 || len(h.Attributes) != 1 || h.Line != 7 || err != nil || n != 2 {
		t.Errorf("%+v, %v after %d entries", h, err, n)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// An error of the document, and of the underlying reader, is the last thing that
// Entries gives, again and again.
func TestReaderErrorIsSticky(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, in := range map[string]io.Reader{
		"document": strings.NewReader(urlset(listMD, listURL, "<url/>")),
		"reader":   io.MultiReader(strings.NewReader(docHead+listMD+listURL), iotest.ErrReader(broken)),
	} {
		r := NewReader(in, ReadOptions{})
		for range 2 {
			var last error
			n := 0
			for _, err := range r.Entries() {
				n++
				last = err
			}
			h, err := r.Head()
			if last == nil || !errors.Is(err, last) || h.Capability != ResourceList || name == "reader" && !errors.Is(err, broken) {
				t.Errorf("%s: %d times, %v; head %+v, %v", name, n, last, h, err)
			}
		}
	}
}

// Only the first tolerations of a kind are kept, so that they don't hide others,
// and all are counted.
func TestTolerationsAreBounded(t *testing.T) {
	got := readDocument(strings.NewReader(urlset(`<rs:md capability="resourcelist" at="2026"/>`, strings.Repeat(urlOf("text"), 250))), ReadOptions{})
	if len(got.tolerated) != mostAlike+1 || got.count != 251 || got.err != nil {
		t.Fatalf("%d kept, %d counted, %v", len(got.tolerated), got.count, got.err)
	}
	if last := got.tolerated[mostAlike]; !strings.Contains(last.Msg, `lacks an rs:ln rel="up"`) {
		t.Errorf("the last is %v", last)
	}
}

// The memory of a Reader does not grow with the document, whatever its errors.
func TestReaderHoldsLittle(t *testing.T) {
	const most = 1 << 20
	entry := `<url id="1">text<loc>https://example.org/a b</loc><image><b/></image>` +
		`<rs:md sha="1" length="x" x:a="b" xmlns:x="urn:x"/><rs:ln rel="a" href="b"/><rs:ln rel="c"/></url>` + "\n"
	doc := urlset(listMD, strings.Repeat(entry, DefaultLimits.Entries))
	r := NewReader(strings.NewReader(doc), ReadOptions{})
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	if _, err := r.Head(); err != nil {
		t.Fatal(err)
	}
	before, n := held(), 0
	for _, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%10_000 == 0 {
			if now := held(); now > before+most {
				t.Errorf("%d bytes more after %d entries", now-before, n)
			}
		}
	}
	if n != DefaultLimits.Entries || r.TolerationCount() != 7*n {
		t.Errorf("%d entries, %d tolerations", n, r.TolerationCount())
	}
	runtime.KeepAlive(doc)
}

// The files of testdata, one of each kind of document: DOC-12, DOC-20, DOC-30 to
// DOC-46. They are strictly right, but that a Capability List Index should not
// be there at all (DOC-33). Nothing that they say gets lost: written again, they
// are the same to the byte.
func TestEveryKindOfDocument(t *testing.T) {
	check := func(t *testing.T, capability string, isIndex bool, k *kind) {
		name := capability
		if isIndex {
			name += "-index"
		}
		doc, err := os.ReadFile(filepath.Join("..", "testdata", "documents", name+".xml"))
		if err != nil {
			t.Fatal(err)
		}
		got := readDocument(bytes.NewReader(doc), ReadOptions{Strict: !k.inputOnly})
		if got.err != nil || got.head.Kind() != k.name || got.head.Index != isIndex || len(got.entries) < 2 {
			t.Errorf("%s is a %q with %d entries, %v; want a %s", name, got.head.Kind(), len(got.entries), got.err, k.name)
		}
		if k.inputOnly && (got.count != 1 || got.tolerated[0].Rule != k.rule) {
			t.Errorf("%s: tolerated %v", name, got.tolerated)
		}
		if k.inputOnly {
			return
		}
		for i := range got.entries {
			got.entries[i] = asWritten(got.entries[i])
		}
		if again := write(t, written{got.head, got.entries}); !bytes.Equal(again, doc) {
			t.Errorf("%s, written again, is\n%s", name, again)
		}
	}
	for capability, k := range documents {
		check(t, capability, false, k)
	}
	for capability, k := range indexes {
		check(t, capability, true, k)
	}
	if len(documents) != 14 || len(indexes) != 10 {
		t.Errorf("%d kinds of documents and %d of indexes", len(documents), len(indexes))
	}
}
