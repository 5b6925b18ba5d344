package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll reads a notification entry by entry.
func readAll(r io.Reader, l Limits) ([]Entry, Notification, error) {
	n := NewNotificationReader(r, l)
	var entries []Entry
	for {
		e, err := n.Next()
		if errors.Is(err, io.EOF) {
			return entries, n.Notification(), nil
		}
		if err != nil {
			return entries, n.Notification(), err
		}
		entries = append(entries, e)
	}
}

const (
	docHead = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
`
	rootMD  = `<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/>` + "\n"
	frameMD = `<rs:md capability="framework-notification"/>` + "\n"
	entryOK = `<url><loc>https://example.org/a</loc><rs:md change="created"/></url>` + "\n"
	tail    = "</urlset>\n"
)

// doc wraps url elements into a change notification; they begin on line 5.
func doc(entries ...string) string {
	return docHead + rootMD + strings.Join(entries, "\n") + tail
}

// framework wraps url elements into a framework notification.
func framework(entries ...string) string {
	return docHead + frameMD + strings.Join(entries, "\n") + tail
}

// root wraps what stands in the root before one good entry.
func root(md string) string { return docHead + md + "\n" + entryOK + tail }

// url is one entry, with the given children after loc.
func urlOf(children ...string) string {
	return "<url><loc>https://example.org/a</loc>\n" + strings.Join(children, "\n") + "</url>\n"
}

func at(datetime string) string { return `<rs:md change="updated" datetime="` + datetime + `"/>` }

// notificationRules has for each rule documents that break it and, beside them, documents
// that do not.
var notificationRules = []struct {
	name, rule, doc string
	at, msg         string // both empty if doc is good
}{
	{"the smallest", "DOC-10", doc(entryOK), "", ""},
	{"no namespace", "DOC-10", strings.ReplaceAll(doc(entryOK), ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`, ""), "2:1", `in the namespace ""`},
	{"other namespace", "DOC-10", strings.Replace(doc(), "sitemap/0.9", "sitemap/0.84", 1), "2:1", "0.84"},
	{"other root", "DOC-10", "<html/>", "1:1", `"html"`},
	{"other prefixes", "DOC-10", `<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><md xmlns="http://www.openarchives.org/rs/terms/"
		capability="change-notification" from="2026" until="2026-02"/><s:url><s:loc>urn:a</s:loc><x:md xmlns:x="http://www.openarchives.org/rs/terms/" change="deleted"/></s:url></s:urlset>`, "", ""},
	{"prefixed attribute", "DOC-10", doc(urlOf(`<rs:md rs:change="created"/>`)), "6:8", "write \"change\""},
	{"attribute of the sitemap namespace", "DOC-10", doc(urlOf(`<rs:md xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9" s:change="created"/>`)), "6:62", "has a prefix"},
	{"unknown attribute", "DOC-10", doc(urlOf(`<rs:md change="created" sha="1"/>`)), "6:25", `"sha" is not known`},
	{"attribute of rs:ln on rs:md", "DOC-10", doc(urlOf(`<rs:md change="created" href="urn:a"/>`)), "6:25", `"href" is not known`},
	{"foreign attributes", "DOC-10", doc(urlOf(`<rs:md change="created" xml:lang="en" x:sha="1" xmlns:x="urn:x"/>`)), "", ""},
	{"attribute on urlset", "DOC-10", strings.Replace(doc(), "<urlset", `<urlset version="1"`, 1), "2:9", "not known"},
	{"schema location on urlset", "DOC-10", strings.Replace(doc(), "<urlset", `<urlset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b"`, 1), "", ""},
	{"rs:md without a prefix", "DOC-10", root(`<md capability="change-notification"/>`), "4:1", "as rs:md"},
	{"md in an entry without a prefix", "DOC-10", doc(urlOf(`<md change="created"/>`)), "6:1", "as rs:md"},
	{"rs:md of https", "DOC-10", root(`<a:md xmlns:a="https://www.openarchives.org/rs/terms/" capability="change-notification"/>`), "4:1", `"https://www.openarchives.org/rs/terms/"; it must be in http://`},
	{"rs:md of a namespace without its slash", "DOC-10", doc(urlOf(`<a:md xmlns:a="http://www.openarchives.org/rs/terms" change="created"/>`)), "6:1", `"http://www.openarchives.org/rs/terms"; it must be in http://`},
	{"rs:ln of a namespace in capitals", "DOC-10", doc(urlOf(`<rs:md change="created"/><a:ln xmlns:a="http://openarchives.org/RS/terms/" rel="a" href="b"/>`)), "6:26", "it must be in http://"},
	{"unknown element", "DOC-10", doc("<page/>"), "5:1", `"page"`},
	{"text between entries", "DOC-10", doc("  x"), "5:3", "text stands in urlset"},
	{"foreign elements", "DOC-10", doc(`<x:a xmlns:x="urn:x" b="c">text<url>no entry</url><x:md rs:change="x"/></x:a>`, urlOf(`<rs:md change="created"/><a xmlns="">text</a>`)), "", ""},

	{"index", "DOC-11", strings.ReplaceAll(doc(), "urlset", "sitemapindex"), "2:1", "sitemapindex"},
	{"sitemap", "DOC-11", doc("<sitemap><loc>urn:a</loc></sitemap>"), "5:1", "sitemap"},

	{"no rs:md", "DOC-12", docHead + entryOK + tail, "2:1", "lacks an rs:md"},
	{"rs:md of another namespace", "DOC-12", strings.Replace(doc(), "www.openarchives.org", "openarchives.example", 1), "2:1", rsURI},
	{"two rs:md", "DOC-12", root(rootMD + rootMD), "5:1", "second rs:md"},
	{"no capability", "DOC-12", root(`<rs:md from="2026" until="2026"/>`), "4:1", "lacks capability"},
	{"no from", "DOC-12", root(`<rs:md capability="change-notification" until="2026"/>`), "4:1", "lacks from"},
	{"no until", "DOC-12", root(`<rs:md capability="change-notification" from="2026"/>`), "4:1", "lacks until"},
	{"other capability", "DOC-12", root(`<rs:md capability="resourcelist" from="2026" until="2026"/>`), "4:1", `"resourcelist"`},
	{"capability of another case", "DOC-12", root(`<rs:md capability="Change-Notification" from="2026" until="2026"/>`), "4:1", "Change-Notification"},
	{"legacy", "DOC-12", root(`<rs:md capability="changelist-notification" from="2026" until="2026"/>`), "", ""},
	{"legacy without until", "DOC-12", root(`<rs:md capability="changelist-notification" from="2026"/>`), "4:1", "lacks until"},
	{"closed Change List", "DOC-12", root(`<rs:md capability="changelist" from="2026" until="2026"/>`), "", ""},
	{"open Change List", "DOC-12", root(`<rs:md capability="changelist" from="2026"/>`), "4:1", "lacks until"},
	{"rs:md after the entries", "DOC-51", docHead + entryOK + rootMD + tail, "", ""},

	{"from after until", "DOC-13", root(`<rs:md capability="change-notification" from="2026-01-02T00:00:00.000000001Z" until="2026-01-02T00:00:00Z"/>`), "4:1", "later than until"},
	{"from after until as a string only", "DOC-13", root(`<rs:md capability="change-notification" from="2026-01-02T01:00:00+02:00" until="2026-01-01T23:00:00Z"/>`), "", ""},
	{"from equal to until", "DOC-13", root(`<rs:md capability="change-notification" from="2026-01-02T00:00:00Z" until="2026-01-02T00:00:00Z"/>`), "", ""},
	{"framework from after until", "DOC-13", root(`<rs:md capability="framework-notification" from="2027" until="2026"/>`), "4:1", "later than until"},
	{"the zero time", "DOC-13", root(`<rs:md capability="change-notification" from="0001" until="2026"/>`), "4:1", "later than 0001"},
	{"empty interval", "DOC-50", doc(), "", ""},

	{"attribute on url", "DOC-15", doc(`<url id="1"><loc>urn:a</loc><rs:md change="created"/></url>`), "5:6", `"id"`},
	{"foreign attribute on url", "DOC-15", doc(`<url xmlns:x="urn:x" x:id="1"><loc>urn:a</loc><rs:md change="created"/></url>`), "5:22", `"x:id"`},
	{"declaration on url", "DOC-15", doc(`<url xmlns:x="urn:x"><loc>urn:a</loc><rs:md change="created"/></url>`), "", ""},
	{"text in url", "DOC-15", doc("<url><loc>urn:a</loc>\n  and<rs:md change=\"created\"/></url>"), "6:3", "text stands in url"},
	{"unknown element in url", "DOC-15", doc(urlOf(`<rs:md change="created"/><title>a</title>`)), "6:26", `"title"`},
	{"one resource twice", "DOC-15", doc(entryOK, entryOK), "", ""},

	{"no loc", "DOC-16", doc(entryOK, `<url><rs:md change="created"/></url>`), "7:1", "lacks loc"},
	{"two loc", "DOC-16", doc(urlOf(`<loc>urn:b</loc><rs:md change="created"/>`)), "6:1", "second loc"},
	{"empty loc", "DOC-16", doc("<url><loc> </loc><rs:md change='created'/></url>"), "5:11", "loc is empty"},
	{"self-closed loc", "DOC-16", doc("<url><loc/><rs:md change='created'/></url>"), "5:12", "loc is empty"},
	{"relative loc", "DOC-16", doc("<url><loc>/a</loc><rs:md change='created'/></url>"), "5:11", "absolute"},
	{"loc with a space", "DOC-16", doc("<url><loc>http://a/b c</loc><rs:md change='created'/></url>"), "5:11", "absolute"},
	{"element in loc", "DOC-16", doc(`<url><loc>urn:a<rs:ln rel="a" href="b"/></loc><rs:md change="created"/></url>`), "5:16", "within loc"},
	{"loc in pieces", "DOC-16", doc("<url><loc>\n ur<!-- -->n:<![CDATA[a&]]>&amp;b\n</loc><rs:md change='created'/></url>"), "", ""},
	{"lastmod outside of the interval", "DOC-16", doc(urlOf(`<lastmod>1999</lastmod><rs:md change="created"/>`)), "", ""},
	{"two lastmod", "DOC-16", doc(urlOf("<lastmod>1999</lastmod>\n<lastmod>1999</lastmod>")), "7:1", "second lastmod"},
	{"bad lastmod", "DOC-59", doc(urlOf(`<lastmod> yesterday </lastmod>`)), "6:10", `"yesterday"`},
	{"changefreq and priority", "DOC-16", doc(urlOf(`<changefreq>daily</changefreq><priority>0.5</priority><rs:md change="created"/>`)), "", ""},

	{"no rs:md in url", "DOC-17", doc(urlOf()), "5:1", "lacks rs:md"},
	{"two rs:md in url", "DOC-17", doc(urlOf(`<rs:md change="created"/>`, `<rs:md change="created"/>`)), "7:1", "second rs:md"},
	{"no change", "DOC-17", doc(urlOf(`<rs:md/>`)), "6:1", "lacks change"},
	{"other change", "DOC-17", doc(urlOf(`<rs:md change="modified"/>`)), "6:8", `"modified"`},
	{"all optional attributes", "DOC-17", doc(urlOf(`<rs:md change="updated" datetime="2026-01-01T12:00Z" hash="md5:0" length="0" type="application/atom+xml" encoding="gzip"/>`)), "", ""},
	{"deleted with hash", "DOC-17", doc(urlOf(`<rs:md change="deleted" hash="md5:0" length="1" type="a/b"/>`)), "", ""},
	{"datetime at from", "DOC-17", doc(urlOf(at("2026-01-01T00:00:00Z"))), "", ""},
	{"datetime at until", "DOC-17", doc(urlOf(at("2026-01-02T00:00:00Z"))), "", ""},
	{"datetime before from", "DOC-17", doc(urlOf(at("2025-12-31T23:59:59.999999999Z"))), "6:1", "earlier than from"},
	{"datetime after until", "DOC-17", doc(urlOf(at("2026-01-02T00:00:00.000000001Z"))), "6:1", "later than until"},
	{"datetime in another zone", "DOC-17", doc(urlOf(at("2026-01-02T01:00:00+02:00"))), "", ""},
	{"datetime before from, told later", "DOC-17", docHead + entryOK + urlOf(at("2025-12-31T23:59:59Z")) + urlOf(at("2026-01-01T00:00:00Z")) + rootMD + tail, "6:1", "earlier than from"},
	{"datetime after until, told later", "DOC-17", docHead + urlOf(at("2026-01-01T00:00:00Z")) + urlOf(at("2026-01-03")) + entryOK + rootMD + tail, "7:1", "later than until"},
	{"bad datetime", "DOC-59", doc(urlOf(at("2026-01-01T00:00:00"))), "6:25", "zone"},
	{"datetime with white space", "DOC-59", doc(urlOf(at("\n 2026-01-01T00:00:00Z "))), "", ""},
	{"framework datetime before from", "DOC-17", docHead + `<rs:md capability="framework-notification" from="2026"/>` + urlOf(`<rs:md change="created" capability="changelist" datetime="2025"/>`) + tail, "5:1", "earlier than from"},

	{"order", "DOC-18", doc(urlOf(at("2026-01-01T10:00:00Z")), entryOK, urlOf(at("2026-01-01T09:59:59Z"))), "11:1", "(line 6)"},
	{"order of instants", "DOC-18", doc(urlOf(at("2026-01-01T10:00:00+05:00")), urlOf(at("2026-01-01T06:00:00Z"))), "", ""},
	{"order broken by a zone", "DOC-18", doc(urlOf(at("2026-01-01T06:00:00Z")), urlOf(at("2026-01-01T10:00:00+05:00"))), "9:1", "earlier than"},
	{"equal datetimes", "DOC-18", doc(urlOf(at("2026-01-01T06:00:00Z")), urlOf(at("2026-01-01T06:00:00Z"))), "", ""},
	{"order of lastmod does not count", "DOC-18", doc(urlOf(`<lastmod>2026</lastmod>`, at("2026-01-01")), urlOf(`<lastmod>2025</lastmod>`, at("2026-01-01"))), "", ""},

	{"link", "DOC-19", doc(urlOf(`<rs:md change="created"/><rs:ln rel="duplicate" href="urn:b" pri="1"/><rs:ln rel="patch" href="urn:c"/>`)), "", ""},
	{"link before loc", "DOC-51", doc(`<url><rs:ln rel="a" href="b"/><rs:md change="created"/><lastmod>2026</lastmod><loc>urn:a</loc></url>`), "", ""},
	{"link without href", "DOC-52", doc(urlOf(`<rs:ln rel="a"/>`)), "6:1", "lacks href"},
	{"link without rel", "DOC-52", doc(urlOf(`<rs:ln href="a"/>`)), "6:1", "lacks rel"},
	{"root link without rel", "DOC-52", root(rootMD + `<rs:ln href="a"/>`), "5:1", "lacks rel"},
	{"empty href", "DOC-52", doc(urlOf(`<rs:ln rel="a" href=" "/>`)), "6:16", "href of an rs:ln is empty"},
	{"pri 0", "DOC-52", doc(urlOf(`<rs:ln rel="a" href="b" pri="0"/>`)), "6:25", "pri"},
	{"pri 999999", "DOC-52", doc(urlOf(`<rs:md change="created"/><rs:ln rel="a" href="b" pri="999999"/>`)), "", ""},
	{"pri 1000000", "DOC-52", doc(urlOf(`<rs:ln rel="a" href="b" pri="1000000"/>`)), "6:25", "pri"},
	{"pri 1.5", "DOC-52", doc(urlOf(`<rs:ln rel="a" href="b" pri="1.5"/>`)), "6:25", "pri"},
	{"attribute of rs:md on rs:ln", "DOC-10", doc(urlOf(`<rs:ln rel="a" href="b" change="created"/>`)), "6:25", "not known"},
	{"unknown relation", "DOC-53", doc(urlOf(`<rs:md change="created"/><rs:ln rel="no-such-relation" href="b"/>`)), "", ""},
	{"all attributes of a link", "DOC-52", doc(urlOf(`<rs:md change="created"/><rs:ln rel="memento" href="urn:b" hash="md5:x" length="+7" modified="2020" path="/a/b" type="a/b" encoding="gzip" profile="urn:p"/>`)), "", ""},
	{"bad modified", "DOC-59", doc(urlOf(`<rs:ln rel="a" href="b" modified="2020-13"/>`)), "6:25", "modified"},
	{"element within rs:md", "DOC-51", doc(urlOf(`<rs:md change="created"><rs:ln rel="a" href="b"/></rs:md>`)), "6:25", "must be empty"},
	{"text within rs:ln", "DOC-51", doc(urlOf(`<rs:ln rel="a" href="b">text</rs:ln>`)), "6:25", "text stands in rs:ln"},
	{"rs:md that is closed apart", "DOC-51", doc(urlOf(`<rs:md change="created">` + "\n" + `</rs:md>`)), "", ""},

	{"odd hashes", "DOC-55", doc(urlOf(`<rs:md change="created" hash="sha-256:f4OxZX_x_DFGF md5:x md5:y whatever"/>`)), "", ""},
	{"negative length", "DOC-56", doc(urlOf(`<rs:md change="created" length="-1"/>`)), "6:25", "length"},
	{"length with a unit", "DOC-56", doc(urlOf(`<rs:md change="created" length="1k"/>`)), "6:25", "length"},
	{"empty length", "DOC-56", doc(urlOf(`<rs:md change="created" length=""/>`)), "6:25", "length"},
	{"largest length", "DOC-56", doc(urlOf(`<rs:md change="created" length="9223372036854775807"/>`)), "", ""},
	{"length over that", "DOC-56", doc(urlOf(`<rs:md change="created" length="9223372036854775808"/>`)), "6:25", "length"},
	{"path", "DOC-57", doc(urlOf(`<rs:md change="created" path="/a/..b/c"/>`)), "", ""},
	{"relative path", "DOC-57", doc(urlOf(`<rs:md change="created" path="a"/>`)), "6:25", "path"},
	{"path of a folder", "DOC-57", doc(urlOf(`<rs:md change="created" path="/a/"/>`)), "6:25", "path"},
	{"path that climbs", "DOC-57", doc(urlOf(`<rs:md change="created" path="/a/../../b"/>`)), "6:25", "path"},
	{"type beyond the schema's pattern", "DOC-58", doc(urlOf(`<rs:md change="created" type="application/vnd.api+json; charset=utf-8"/>`)), "", ""},

	{"framework", "DOC-20", framework(urlOf(`<rs:md change="created" capability="resourcedump"/><rs:ln rel="index" href="urn:i"/>`), urlOf(`<rs:md change="deleted" capability="description" datetime="2020"/>`), urlOf(`<rs:md change="updated" capability="changedump-archive"/>`)), "", ""},
	{"framework, description as 0.9 called it", "DOC-20", framework(urlOf(`<rs:md change="updated" capability="resourcesync"/>`)), "", ""},
	{"framework with an interval", "DOC-20", docHead + `<rs:md capability="framework-notification" from="2026" until="2026"/>` + tail, "", ""},
	{"framework without capability", "DOC-20", framework(entryOK), "5:38", "lacks capability"},
	{"framework, unknown capability", "DOC-20", framework(urlOf(`<rs:md change="created" capability="resourcelist-index"/>`)), "6:1", "no kind of document"},
	{"framework, a Resource Dump updated", "DOC-20", framework(urlOf(`<rs:md change="updated" capability="resourcedump"/>`)), "6:1", "cannot be updated"},
	{"framework, a Change List deleted", "DOC-20", framework(urlOf(`<rs:md change="deleted" capability="changelist"/>`)), "6:1", "cannot be deleted"},
	{"framework, told later", "DOC-20", docHead + entryOK + frameMD + tail, "4:38", "lacks capability"},
	{"framework, told later, good", "DOC-20", docHead + urlOf(`<rs:md change="deleted" capability="capabilitylist"/>`) + frameMD + tail, "", ""},
	{"capability in a change notification", "DOC-20", doc(urlOf(`<rs:md change="created" capability="x"/>`)), "", ""},
}

// DOC-10 to DOC-20 and DOC-50 to DOC-59, as the rows of the table say.
func TestRules(t *testing.T) {
	for _, tc := range notificationRules {
		t.Run(tc.rule+" "+tc.name, func(t *testing.T) {
			for name, l := range map[string]Limits{"window": {}, "small window": {Token: 300}} {
				r := func() io.Reader { return iotest.OneByteReader(strings.NewReader(tc.doc)) }
				n, err := CheckNotification(r(), l)
				entries, n2, err2 := readAll(r(), l)
				if fmt.Sprint(err) != fmt.Sprint(err2) {
					t.Errorf("%s: CheckNotification says %v, NotificationReader %v", name, err, err2)
				}
				if tc.at != "" {
					wantError(t, err, BadDocument, tc.at, tc.msg)
					var e *Error
					if errors.As(err, &e) && e.Rule != tc.rule {
						t.Errorf("the rule is %s, want %s", e.Rule, tc.rule)
					}
					if n != (Notification{}) {
						t.Errorf("%+v came with an error", n)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if n != n2 || len(entries) != n.Entries {
					t.Errorf("%s: CheckNotification found %+v, NotificationReader %+v with %d entries", name, n, n2, len(entries))
				}
			}
		})
	}
}

func TestNotificationFields_DOC12_DOC14(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	good := docHead + `<rs:ln rel="describedby" href="urn:d"/><rs:ln rel="UP" href=" https://example.org/cl.xml "/><rs:ln rel="up" href="urn:other"/>` + rootMD +
		urlOf(`<rs:md change="created"/>`) + urlOf(`<rs:md change="updated"/>`) + urlOf(`<rs:md change="deleted"/>`) + urlOf(`<rs:md change="deleted"/>`) + tail
	want := Notification{
		Capability: ChangeNotification, From: day(1), Until: day(2), Up: "https://example.org/cl.xml",
		Counts: Counts{Created: 1, Updated: 1, Deleted: 2}, Entries: 4, Line: 4, Column: 127,
	}
	if n, err := CheckNotification(strings.NewReader(good), Limits{}); n != want || err != nil {
		t.Errorf("got %+v, %v\nwant %+v", n, err, want)
	}
	legacy := strings.Replace(good, "change-notification", "changelist-notification", 1)
	want.Legacy = true
	if n, err := CheckNotification(strings.NewReader(legacy), Limits{}); n != want || err != nil {
		t.Errorf("legacy: got %+v, %v\nwant %+v", n, err, want)
	}
	want = Notification{Capability: FrameworkNotification, Line: 4, Column: 1}
	if n, err := CheckNotification(strings.NewReader(framework()), Limits{}); n != want || err != nil {
		t.Errorf("framework: got %+v, %v\nwant %+v", n, err, want)
	}
}

// DOC-16, DOC-17, DOC-19, DOC-52: every field comes through.
func TestEntryFields(t *testing.T) {
	in := doc(`<url>
  <lastmod>2025-12-31</lastmod> <loc> https://example.org/a?b=1&amp;c=é </loc>
  <rs:ln rel="duplicate" href="https://mirror.example.org/a" pri="2" modified="2025" path="/a/b"
         hash="md5:1" length="5" type="text/html" encoding="gzip" profile="urn:p"/>
  <rs:md change="updated" datetime="2026-01-01T01:02:03.000000004+01:00" hash="md5:1
         sha-256:2" length="0" type="text/html; charset=utf-8" encoding="br" path="/c" capability="x"/>
  <rs:ln rel="via" href="../relative"/>
</url>`, entryOK)
	want := []Entry{{
		Loc: "https://example.org/a?b=1&c=%C3%A9", Written: "https://example.org/a?b=1&c=é", LastMod: time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC),
		Change: Updated, Datetime: time.Date(2026, 1, 1, 0, 2, 3, 4, time.UTC), Capability: "x",
		HasLength: true, Hash: "md5:1          sha-256:2", Type: "text/html; charset=utf-8", Encoding: "br", Path: "/c",
		Links: []Link{
			{
				Rel: "duplicate", Href: "https://mirror.example.org/a", Pri: 2, Length: 5, HasLength: true,
				Modified: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
				Hash:     "md5:1", Path: "/a/b", Type: "text/html", Encoding: "gzip", Profile: "urn:p",
			},
			{Rel: "via", Href: "../relative"},
		},
		Line: 5, Column: 1,
	}, {Loc: "https://example.org/a", Change: Created, Line: 13, Column: 1}}
	got, _, err := readAll(strings.NewReader(in), Limits{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

// A document that breaks a rule and is not well-formed either is not well-
// formed: BadDocument says that it is XML.
func TestWellFormednessComesFirst(t *testing.T) {
	in := doc(`<url id="1"/>`, "<b></c>")
	_, err := CheckNotification(strings.NewReader(in), Limits{})
	wantError(t, err, NotWellFormed, "6:4", "does not match")
	_, _, err = readAll(strings.NewReader(in), Limits{})
	wantError(t, err, BadDocument, "5:6", "id")
	broken := errors.New("broken pipe")
	_, err = CheckNotification(io.MultiReader(strings.NewReader(in[:len(in)-20]), iotest.ErrReader(broken)), Limits{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// DOC-60: 50,000 entries and 50 MiB by default, and not one more.
func TestLimits_DOC60(t *testing.T) {
	if DefaultLimits.Entries != 50_000 || DefaultLimits.Bytes != 52_428_800 {
		t.Errorf("%+v", DefaultLimits)
	}
	n := strings.Repeat(entryOK, 50_000)
	if got, err := CheckNotification(strings.NewReader(doc(n)), Limits{}); err != nil || got.Entries != 50_000 {
		t.Errorf("50,000 entries: %+v, %v", got, err)
	}
	_, err := CheckNotification(strings.NewReader(doc(n, entryOK)), Limits{})
	wantError(t, err, OverLimit, "50006:1", "more than 50000 entries")
	_, err = CheckNotification(strings.NewReader(doc(entryOK)), Limits{Bytes: 100})
	wantError(t, err, OverLimit, "3:2", "longer than 100 bytes")
	long := doc("<url><loc>urn:" + strings.Repeat("<!-- -->x", 20<<10) + "</loc></url>")
	_, err = CheckNotification(strings.NewReader(long), Limits{})
	wantError(t, err, OverLimit, "5:147443", "text of loc")
}

// The sticky error of a reader.
func TestReaderStaysAtItsEnd(t *testing.T) {
	for _, in := range []string{doc(entryOK), doc(`<url id="1"/>`), "<"} {
		n := NewNotificationReader(strings.NewReader(in), Limits{})
		var first error
		for first == nil {
			_, first = n.Next()
		}
		if _, again := n.Next(); again != first { //nolint:errorlint // the very same
			t.Errorf("first %v, then %v", first, again)
		}
	}
}

// Neither the number of allocations nor their size grows with the document.
func TestAllocationsDoNotGrow(t *testing.T) {
	allocs := func(entries int) float64 {
		doc := bytes.ReplaceAll(bigNotification(entries), []byte("</url>"),
			[]byte("<changefreq>daily</changefreq><priority>1</priority><!-- c --><?p i?><x:y xmlns:x='u' x:z='&amp;'>&#65;<![CDATA[t]]></x:y></url>"))
		least := math.Inf(1)
		for range 5 { // what the runtime allocates meanwhile only adds
			least = min(least, testing.AllocsPerRun(5, func() {
				if n, err := CheckNotification(&chunks{doc}, Limits{}); err != nil || n.Entries != entries {
					t.Fatal(n, err)
				}
			}))
		}
		return least
	}
	if few, many := allocs(100), allocs(2_000); many > few {
		t.Errorf("%v allocations for 100 entries, %v for 2,000", few, many)
	}
}

// chunks is a reader that allocates nothing.
type chunks struct{ rest []byte }

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
