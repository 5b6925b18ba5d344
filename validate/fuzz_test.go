package validate

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/corpus"
)

// Whatever a topic's URL answers, it is one of the outcomes that there are, and
// good only with both links (HUB-53, HUB-54).
func FuzzTopicAnswer(f *testing.F) {
	f.Add(200, links(fakeTopic, hubURL), "")
	f.Add(204, `</changes/>;rel=self`, "1")
	f.Add(299, `<//hub.example/websub/>; rel="hub self"`, "")
	f.Add(429, "<", "99999999999999999999")
	f.Add(503, "", "-1")
	f.Add(503, "", "3601")
	f.Add(200, `</changes/>;rel=self, <https://other.example/>;rel=hub`, "")
	f.Add(301, links(fakeTopic, hubURL), "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add(0, ",;,", " 7")
	c, err := NewTopicChecker(TopicOptions{HubURL: hubURL, Client: goodDoer()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, status int, link, after string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Link": {link}, "Retry-After": {after}}, Body: http.NoBody}
		_, named, err := c.inspect(resp, fakeTopic, resp.Body)
		err = cmp.Or(err, named)
		var unsure *UnsureError
		switch outcome(err) {
		case "good":
			if status < 200 || status > 299 || !strings.Contains(link, "hub.example") || !strings.Contains(strings.ToLower(link), "self") {
				t.Errorf("%d with %q is good", status, link)
			}
		case "denied":
		case "unsure":
			if !errors.As(err, &unsure) || unsure.After < 0 || unsure.After > time.Hour {
				t.Errorf("%d with Retry-After %q: %+v", status, after, err)
			}
		default:
			t.Errorf("%d with %q: %v", status, link, err)
		}
	})
}

// Whatever a page or feed without Link headers says, it is good only with both links in
// what is read of it, and all of it is passed on (DST-01).
func FuzzPage(f *testing.F) {
	page := `<link rel=self href="` + fakeTopic + `"><link rel="x HUB" href="` + hubURL + `">`
	f.Add("text/html", page)
	f.Add("application/xhtml+xml;", "<head><base href='/x/'>"+page)
	f.Add("text/xml", `<rss xmlns:a="http://www.w3.org/2005/Atom"><channel><a:link rel="self" href="./"/><a:link rel="hub" href="//hub.example/websub/"/>`)
	f.Add("a/xml", `<!DOCTYPE feed [<!ENTITY h "https://hub.example/websub/">]><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="&h;"/>`)
	c, err := NewTopicChecker(TopicOptions{HubURL: hubURL, Client: goodDoer()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, media, page string) {
		body := strings.NewReader(page)
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body)}
		_, read, err := linksOf(resp, fakeTopic, body)
		rest, _ := io.ReadAll(body)
		if err != nil || len(read) > maxPage || string(read)+string(rest) != page {
			t.Fatalf("%q: %d bytes, %v", page, len(read), err)
		}
		resp.Body = io.NopCloser(strings.NewReader(page))
		_, named, err := c.inspect(resp, fakeTopic, resp.Body)
		switch outcome(cmp.Or(err, named)) {
		case "good":
			if low := strings.ToLower(page); !strings.Contains(low, "self") || !strings.Contains(low, "hub") || !strings.Contains(low, "href") {
				t.Errorf("%q is good", page)
			}
		case "denied":
		default:
			t.Errorf("%q: %v", page, err)
		}
	})
}

// FuzzRoot: if encoding/xml finds a root, rootName finds the same.
func FuzzRoot(f *testing.F) {
	for _, doc := range []string{
		"<urlset>", "\ufeff<?xml version='1.0'?><!-- - --><a:b/>", "<!DOCTYPE x [<!ENTITY a '>'><!-- ' -->]> <rss >", "<!DOCTYPE x \"'<\"><x/>", "<:>", "<a:>",
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		got := rootName([]byte(doc))
		want, ok := theirRoot(strings.TrimPrefix(doc, "\ufeff"))
		_, dtd, _ := strings.Cut(doc, "<!DOCTYPE") // whose instructions they don't know
		if ok && len(doc) <= maxProlog && !strings.Contains(dtd, "<?") && string(got) != want {
			t.Errorf("%q: %q, and encoding/xml finds %q", doc, got, want)
		}
	})
}

// theirRoot is the local name of the first start tag, if nothing but a prolog is
// before it.
func theirRoot(doc string) (string, bool) {
	d := xml.NewDecoder(strings.NewReader(doc))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		tok, err := d.RawToken()
		if err != nil || strings.Contains(doc[:d.InputOffset()], "<![CDATA[") {
			return "", false
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			return tok.Name.Local, !strings.Contains(tok.Name.Local, ":") // it is left in a name without a prefix or a local name
		case xml.CharData:
			if strings.Trim(string(tok), " \t\r\n") != "" || strings.Contains(doc[:d.InputOffset()], "&") {
				return "", false
			}
		case xml.Directive:
			if !strings.HasPrefix(string(tok), "DOCTYPE") {
				return "", false
			}
		}
	}
}

// What Document accepts can be placed in a topic (HUB-55), and what it refuses it gives a
// reason for.
func FuzzDocument(f *testing.F) {
	f.Add(string(notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:05:00Z"`, oneChange)))
	f.Add(string(notification(`capability="framework-notification" until="2026-01-01T12:05:00.000000001Z"`)))
	f.Add(string(notification(`capability="changelist" from="2026" until="9999-12-31T23:59:59-14:00"`)))
	f.Add("<urlset>")
	for _, folder := range []string{corpus.Documents, corpus.Malformed} {
		for _, doc := range corpus.Read(f, folder) {
			f.Add(string(doc))
		}
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Document([]byte(body), now)
		var e *DocumentError
		switch {
		case err != nil:
			if !errors.As(err, &e) || e.Rule == "" || e.Msg == "" || d != (Doc{}) {
				t.Errorf("%q: %+v, %v", body, d, err)
			}
		case d.Until.After(now.Add(MaxAhead)), d.Timed() && d.Until.Before(d.From):
			t.Errorf("%q: from %v until %v", body, d.From, d.Until)
		case d.Kind != journal.KindFramework && (d.Kind != journal.KindChange || !d.Timed()):
			t.Errorf("%q: kind %q, timed %t", body, d.Kind, d.Timed())
		}
	})
}
