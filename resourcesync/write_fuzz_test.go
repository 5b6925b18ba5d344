package resourcesync

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Whatever the values, a Writer refuses them, or writes a document that a strict Reader
// and encoding/xml accept, with the same content.
func FuzzWriter(f *testing.F) {
	f.Add("https://example.org/a", "md5:00", "text/html", "/a", "up", "https://example.org/b", "urn:x", "a", "v", int64(0), int64(0))
	f.Add("https://example.org/a?b&c='d'", " md5:00\n\tsha-1:11 ", "a/b; c=\"<d>\"", "/a/../b", "a:b", "urn:x#y", "https://example.org/?a&b", "été", "\r\n\t <]]>&\"'", int64(-1), int64(1))
	f.Add("urn:isbn:97800000:%zz", "\x00", "\xFF", "/\uFFFE", "Up", "//a", xmlURI, "lang", "\u0085\u2028\U0010FFFF", int64(1e18), int64(-1))
	f.Fuzz(func(t *testing.T, loc, hash, mediaType, path, rel, href, space, name, value string, nanoseconds, length int64) {
		at := time.Unix(0, nanoseconds).UTC()
		foreign := []Attribute{{space, name, value}, {space, name + "2", value}}
		doc := written{
			Head{
				Capability: ResourceDumpManifest, At: at, Attributes: foreign,
				Links: []Link{{Rel: "up", Href: href}, {Rel: rel, Href: href, Type: mediaType, Hash: hash, Path: path, Attributes: foreign}},
			},
			[]Entry{{
				Loc: loc, LastMod: at, Hash: hash, Type: mediaType, Path: path, Encoding: value, Length: length, HasLength: true,
				Links: []Link{{Rel: rel, Href: href, Modified: at, Encoding: value, Profile: space, Attributes: foreign}}, Attributes: foreign,
			}},
		}
		text, err := doc.write()
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Rule == "" || e.Kind == 0 {
				t.Fatal(err)
			}
			return
		}
		got, err := read(text, ReadOptions{Strict: true})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		// The reader trims the white space around values that have none inside.
		trim := cmp.FilterPath(func(p cmp.Path) bool {
			last := p.Last().String()
			return last == ".Hash" || last == ".Type" || last == ".Encoding"
		}, cmp.Comparer(func(a, b string) bool {
			return strings.Trim(a, " \t\r\n") == strings.Trim(b, " \t\r\n")
		}))
		if diff := cmp.Diff(doc, got, sameDocument, trim); diff != "" {
			t.Fatalf("(-, +):\n%s%s", diff, text)
		}
		if err := xml.Unmarshal(text, new(xmlURLSet)); err != nil && isASCII(text) {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}

// Escaping loses nothing, whatever the text.
func FuzzEscape(f *testing.F) {
	f.Add("plain")
	f.Add("&<>\"'\t\r\n]]>\u00e9\U0001F600")
	f.Add("\x00\x1f\x7f\u0080\ufffd\ufffe\uffff\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, s string) {
		var x encoder
		x.raw(`<a b="`)
		x.escaped("b", s)
		x.raw(`">`)
		x.escaped("a", s)
		x.raw("</a>")
		var got struct {
			B    string `xml:"b,attr"`
			Text string `xml:",chardata"`
		}
		if err := xml.NewDecoder(bytes.NewReader(x.buf)).Decode(&got); (err == nil && got.B == s && got.Text == s) != (x.fault == nil) {
			t.Errorf("%q as %q: %v, %v", s, x.buf, err, x.fault)
		}
	})
}
