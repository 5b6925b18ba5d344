package validate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/corpus"
)

// notification is a document with a root rs:md of these attributes.
func notification(md string, entries ...string) []byte {
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md %s/>
%s</urlset>
`, md, strings.Join(entries, "\n"))
}

const oneChange = `<url><loc>http://example.org/r</loc><rs:md change="created"/></url>`

func TestDocument(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		body []byte
		kind journal.Kind // empty: refused
		rule string
	}{
		{name: "changes", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:00:00Z"`, oneChange), kind: journal.KindChange},
		{name: "no changes", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:00:00Z"`), kind: journal.KindChange},
		{name: "the legacy capability", body: notification(`capability="changelist-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:00:00Z"`, oneChange), kind: journal.KindChange},
		{name: "a framework notification", body: notification(`capability="framework-notification"`), kind: journal.KindFramework},
		{name: "until five minutes ahead", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:05:00Z"`), kind: journal.KindChange},
		{name: "until more than five minutes ahead", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:05:00.000000001Z"`), rule: "HUB-55"},
		{name: "until in 2099", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2099-01-01T00:00:00Z"`), rule: "HUB-55"},
		{name: "a framework notification until 2099", body: notification(`capability="framework-notification" until="2099-01-01T00:00:00Z"`), rule: "HUB-55"},
		{name: "no until", body: notification(`capability="change-notification" from="2026-01-01T00:00:00Z"`), rule: "DOC-12"},
		{name: "no from", body: notification(`capability="changelist-notification" until="2026-01-01T00:00:00Z"`), rule: "DOC-12"},
		{name: "until before from", body: notification(`capability="change-notification" from="2026-01-01T00:00:01Z" until="2026-01-01T00:00:00Z"`), rule: "DOC-13"},
		{name: "another document", body: notification(`capability="resourcelist" at="2026-01-01T00:00:00Z"`), rule: "DOC-12"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := Document(tc.body, now)
			if tc.kind != "" {
				if err != nil || d.Kind != tc.kind || d.Kind == journal.KindChange && !d.Timed() {
					t.Errorf("%+v, %v", d, err)
				}
				return
			}
			var e *DocumentError
			if !errors.As(err, &e) || e.Kind != BadDocument || e.Rule != tc.rule {
				t.Errorf("%v, want rule %s", err, tc.rule)
			}
		})
	}
}

// What is no well-formed XML, has a DTD or another encoding is no notification, whatever it
// says (HUB-55).
func TestMalformedDocuments(t *testing.T) {
	for name, doc := range corpus.Read(t, corpus.Malformed) {
		d, err := Document(doc, time.Now())
		var e *DocumentError
		if !errors.As(err, &e) || e.Rule == "" || d != (Doc{}) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}
