package resourcesync

import (
	"strings"
	"testing"
)

// Each character that has to be escaped is, wherever it stands; nothing else is.
func TestEscaped(t *testing.T) {
	for c := range 0x80 {
		for before := range 10 {
			s := strings.Repeat("a", before) + string(rune(c)) + strings.Repeat("b", 9-before)
			var x encoder
			x.escaped("a value", s)
			want, ok := map[rune]string{
				'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;", '\'': "&apos;",
				'\t': "&#9;", '\n': "&#10;", '\r': "&#13;",
			}[rune(c)]
			if !ok {
				want = string(rune(c))
			}
			switch {
			case c < ' ' && !ok && x.fault == nil:
				t.Errorf("%q is written", s)
			case c < ' ' && !ok:
			case x.fault != nil || string(x.buf) != strings.Repeat("a", before)+want+strings.Repeat("b", 9-before):
				t.Errorf("%q becomes %q, %v", s, x.buf, x.fault)
			}
		}
	}
}

// DOC-16, DOC-52: what a writer accepts as a URI.
func TestURIFault_DOC16_DOC52(t *testing.T) {
	for s, ok := range map[string]bool{
		"https://example.org/a?b=c&d='e'#f": true,
		"https://example.org/é/あ":           true,
		"https://example.org/%C3%A9":        true,
		"http://[2001:db8::1]:8080/a":       true,
		"urn:isbn:9780000000000":            true,
		"gsiftp://gridftp.example.com/res1": true,
		"x+y-z.1:a":                         true,
		"":                                  false,
		":a":                                false,
		"1a:b":                              false,
		"a_b:c":                             false,
		"https:":                            false,
		"//example.org/a":                   false,
		"a/b:c":                             false,
		"https://example.org/%":             false,
		"https://example.org/%4":            false,
		"https://example.org/%G0":           false,
		"https://example.org/[a]":           false,
		"https://example.org?[a]":           false,
		"urn:[a]":                           false,
		"https://example.org/#a#b":          false,
		"https://example.org/a b":           false,
		"https://example.org/<a>":           false,
		"https://example.org/{a}":           false,
		"https://example.org/\"a\"":         false,
		"https://example.org/a\\b":          false,
		"https://example.org/\x7f":          false,
	} {
		if fault := uriFault(s); (fault == "") != ok {
			t.Errorf("%q: %q", s, fault)
		}
	}
}

// DOC-51, DOC-53, DOC-55, DOC-58: the forms of other values.
func TestValues_DOC53_DOC55_DOC58(t *testing.T) {
	for name, tc := range map[string]struct {
		is       func(string) bool
		yes, not []string
	}{
		"relation": {isRelation, []string{"up", "x-1.y", patchRel}, []string{"", "Up", "1a", "self hub", "a_b", "é"}},
		"media type": {
			isMediaType,
			[]string{"text/html", "application/atom+xml", "a/b; c=\"d e\"", "a/b ;c=d"},
			[]string{"", "html", "/html", "text/", "text/ html", "te xt/html", "a/b/c", "text/html ", "é/a"},
		},
		"hash list": {
			isHashList,
			[]string{"md5:00", "md5:00 sha-1:11", "a:b:c", "md5:00\n\t sha-256:f4OxZX_x"},
			[]string{"", " ", "md5", "md5:", ":00", "md5:00 x", "md5: 00"},
		},
		"priority":   {isPriority, []string{"0", "0.0", "1.0", "1", ".5", "0.75", "1.", "00.5"}, []string{"", ".", "1.1", "2", "-0", "0,5", "1e0", "10", "0.5.5"}},
		"changefreq": {isChangeFreq, []string{"always", "never"}, []string{"", "Daily", "often"}},
	} {
		for _, s := range tc.yes {
			if !tc.is(s) {
				t.Errorf("%q is no %s", s, name)
			}
		}
		for _, s := range tc.not {
			if tc.is(s) {
				t.Errorf("%q is a %s", s, name)
			}
		}
	}
}
