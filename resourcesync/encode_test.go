package resourcesync

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// DOC-16: an address that is written without all of its percent-encoding becomes the
// URI that it means, and everything else stays as it is, byte by byte.
func TestEncodeURI_DOC16(t *testing.T) {
	long := "https://example.org/" + strings.Repeat("é", 3000)
	for in, want := range map[string]string{
		"https://example.org/with spaces.txt":    "https://example.org/with%20spaces.txt",
		"https://example.org/a|b":                "https://example.org/a%7Cb",
		"https://example.org/100%":               "https://example.org/100%25",
		"https://example.org/100%.txt":           "https://example.org/100%25.txt",
		"https://example.org/100%2":              "https://example.org/100%252",
		"https://example.org/100%25.txt":         "https://example.org/100%25.txt",
		"https://example.org/%c3%A9%2F%zz":       "https://example.org/%c3%A9%2F%25zz",
		"https://example.org/é":                  "https://example.org/%C3%A9",
		"https://example.org/a[1]{2}\"<>\\^`|":   "https://example.org/a%5B1%5D%7B2%7D%22%3C%3E%5C%5E%60%7C",
		"https://example.org/a\tb\nc\x7f":        "https://example.org/a%09b%0Ac%7F",
		"https://example.org/!$&'()*+,;=:@-._~":  "https://example.org/!$&'()*+,;=:@-._~",
		"https://example.org/?q=a b&r[]=é?/#f#g": "https://example.org/?q=a%20b&r%5B%5D=%C3%A9?/#f%23g",
		"https://[::1]:80/[":                     "https://[::1]:80/%5B",
		"https://bücher.example/é":               "https://bücher.example/%C3%A9",
		"https://bücher.example":                 "https://bücher.example",
		"https://a b.example/c d":                "https://a b.example/c%20d",
		"urn:isbn:é 1":                           "urn:isbn:%C3%A9%201",
		"a b|c":                                  "a%20b%7Cc",
		"../a b":                                 "../a%20b",
		"//bücher.example/é":                     "//bücher.example/%C3%A9",
		"ftp://example.org/a b":                  "ftp://example.org/a%20b",
		"":                                       "",
		long:                                     long, // it would have 18,020 bytes
	} {
		if got := EncodeURI(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The password of an address is for its owner, and not for anyone who reads the document.
func TestLocHasNoUser_DOC16(t *testing.T) {
	for written, want := range map[string][2]string{
		"https://me:secret@example.org/a@b":  {"https://example.org/a@b", ""},
		"HTTP://me@example.org:81?a@b":       {"HTTP://example.org:81?a@b", ""},
		"https://me:sec@ret@example.org/a b": {"https://example.org/a%20b", "https://example.org/a b"},
		"https://example.org/?me:secret@a":   {"https://example.org/?me:secret@a", ""},
		"sftp://me@example.org/a":            {"sftp://me@example.org/a", ""},
		"urn:me@example.org":                 {"urn:me@example.org", ""},
		"https://@example.org":               {"https://example.org", ""},
		"sftp://me:secret@example.org/a":     {"sftp://me@example.org/a", ""},
		"//me:secret@example.org/a":          {"//example.org/a", ""},
	} {
		r := NewReader(strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+written+`</loc></url></urlset>`), ReadOptions{AnyLoc: true})
		for e, err := range r.Entries() {
			if err != nil || e.Loc != want[0] || e.Written != want[1] {
				t.Errorf("%s: %q and %q, %v; want %q", written, e.Loc, e.Written, err, want)
			}
		}
	}
}

func TestLinksHaveNoUser_DOC52(t *testing.T) {
	for written, want := range map[string]string{
		"https://me:secret@example.org/a@b": "https://example.org/a@b", "//me:secret@example.org/a b": "//example.org/a b", "/a@b": "/a@b", "me:secret@b": "me:secret@b",
		"sftp://me:secret@example.org/a": "sftp://me@example.org/a",
	} {
		link := `<rs:ln rel="up" href="` + written + `"/>`
		r := NewReader(strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+link+
			`<rs:md capability="resourcelist" at="2013-01-03T09:00:00Z"/><url><loc>https://example.org/</loc>`+link+`</url></urlset>`), ReadOptions{})
		h, err := r.Head()
		if up, _ := h.Link("up"); err != nil || up.Href != want {
			t.Errorf("%s: %q, %v; want %q", written, up.Href, err, want)
		}
		for e, err := range r.Entries() {
			if err != nil || len(e.Links) != 1 || e.Links[0].Href != want {
				t.Errorf("%s: %+v, %v; want %q", written, e.Links, err, want)
			}
		}
	}
}

// What is wrong with an address is said without its password.
func TestErrorsHaveNoPassword_DOC16(t *testing.T) {
	for _, loc := range []string{"https://me:hunter2@example.org/a b", "https://me:hunter2@example.org/[", "//me:hunter2@example.org/", "https://me:hunter2@example.org/" + strings.Repeat("x", maxLoc)} {
		for _, o := range []ReadOptions{{}, {AnyLoc: true}, {Strict: true}} {
			r := NewReader(strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+loc+`</loc></url></urlset>`), o)
			var said []any
			for e, err := range r.Entries() {
				said = append(said, e, err)
			}
			if all := fmt.Sprint(append(said, r.Tolerated())...); strings.Contains(all, "hunter2") || !strings.Contains(all, "loc") {
				t.Errorf("%.50s, %+v: %s", loc, o, all)
			}
		}
	}
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// Whatever stands behind a host, a URI comes of it, which stays as it is. RFC 3986.
func FuzzEncodeURI(f *testing.F) {
	for _, s := range []string{"", "a b", "100%", "%", "%2", "%2é", "#a#b", "?[", "/\x00\xff", "//a b", ":/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, behind string) {
		in := "https://example.org/" + behind
		got := EncodeURI(in)
		if len(got) > DefaultLimits.Token || got == in && len(in)+2*len(in) > DefaultLimits.Token {
			return
		}
		if fault := uriFault(got); fault != "" || !ascii(got) {
			t.Fatalf("%q: %q: %s", in, got, fault)
		}
		if again := EncodeURI(got); again != got {
			t.Fatalf("%q: %q, and then %q", in, got, again)
		}
		if uriFault(in) == "" && ascii(in) && got != in {
			t.Fatalf("%q is a URI and became %q", in, got)
		}
		u, err := url.Parse(got)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if !strings.ContainsAny(behind, "%?#") && u.Path != "/"+behind {
			t.Fatalf("%q has the path %q", in, u.Path)
		}
		_ = EncodeURI(behind) // a reference
	})
}

// DOC-16, DOC-60: a reader percent-encodes what should have been, says so, and has it
// as it was written, too. A strict one refuses it.
func TestLocIsEncoded_DOC16_DOC60(t *testing.T) {
	long := "https://example.org/" + strings.Repeat("a", maxLoc)
	for _, c := range []struct{ loc, want, rule, says string }{
		{"https://example.org/a b", "https://example.org/a%20b", "DOC-16", "absolute URI"},
		{"https://example.org/a|b", "https://example.org/a%7Cb", "DOC-16", "percent-encode the |"},
		{"https://example.org/100%.txt", "https://example.org/100%25.txt", "DOC-16", "write %25"},
		{"https://example.org/é", "https://example.org/%C3%A9", "", ""}, // an IRI is no fault
		{long, long, "DOC-60", "2068 characters"},
		{"https://example.org/a", "https://example.org/a", "", ""},
	} {
		in := []byte(urlset(listMD, "<url><loc>"+c.loc+"</loc></url>"))
		r := NewReader(strings.NewReader(string(in)), ReadOptions{})
		var got []Entry
		for e, err := range r.Entries() {
			if err != nil {
				t.Fatalf("%s: %v", c.loc, err)
			}
			got = append(got, e)
		}
		if len(got) != 1 || got[0].Loc != c.want || (got[0].Written != "") != (c.want != c.loc) || asWritten(got[0]).Loc != c.loc {
			t.Errorf("%s: %+v", c.loc, got)
		}
		_, strictly := read(in, ReadOptions{Strict: true})
		switch all := r.Tolerated(); {
		case c.rule == "" && (len(all) > 0 || strictly != nil):
			t.Errorf("%s: %v, strictly %v", c.loc, all, strictly)
		case c.rule == "":
		case len(all) != 1 || all[0].Rule != c.rule || !strings.Contains(all[0].Msg, c.says):
			t.Errorf("%s: %v", c.loc, all)
		default:
			wantError(t, strictly, BadDocument, "6:11", c.says)
		}
	}
}

// A loc that is not absolute ends the document, unless the caller checks each one by
// itself. One that is empty says nothing at all, and ends it in any case. DOC-16.
func TestAnyLoc_DOC16(t *testing.T) {
	for loc, want := range map[string]string{"a": "a", "../a b": "../a%20b", "/100%": "/100%25", "see below": "see%20below", "": ""} {
		in := []byte(urlset(listMD, "<url><loc>"+loc+"</loc></url>"))
		_, err := read(in, ReadOptions{})
		wantError(t, err, BadDocument, "6:11", "loc")
		_, err = read(in, ReadOptions{Strict: true, AnyLoc: true})
		wantError(t, err, BadDocument, "6:11", "loc")
		if _, err = read(in, ReadOptions{AnyLoc: true}); (err == nil) != (loc != "") {
			t.Errorf("%q: %v", loc, err)
		}
		r := NewReader(strings.NewReader(string(in)), ReadOptions{AnyLoc: true})
		for e, err := range r.Entries() {
			if err == nil && e.Loc != want {
				t.Errorf("%q came as %q", loc, e.Loc)
			}
		}
		if loc != "" && r.TolerationCount() != 1 {
			t.Errorf("%q: %v", loc, r.Tolerated())
		}
	}
}
