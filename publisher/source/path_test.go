package source

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// oddPaths are names that files really have.
var oddPaths = []string{
	"a", "a/b.txt", "a b", "100%", "%41", "a&b", "a#b", "a?b=c", ".hidden", "..data", "...", "a/.b/..c", "~x", "a+b", "a;b", "a:b",
	"caf\u00e9", "cafe\u0301", "日本/語.txt", "line\nfeed", "tab\t", "quote\"'<>", `back\slash`, "a=b,c@d!$*()", "latin1-\xe9", "\xff\xfe",
	"[v1]{2}|^`", strings.Repeat("n", 255), strings.Repeat("\xe9", 255), "a%2Fb", "con", "x.",
}

func TestEscapePath(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.txt": "a/b.txt", "a b": "a%20b", "100%": "100%25", "a&b#c?d": "a%26b%23c%3Fd", "caf\u00e9": "caf%C3%A9", "cafe\u0301": "cafe%CC%81",
		"\xe9": "%E9", ".hidden": ".hidden", "a\nb": "a%0Ab", "~a+": "~a%2B",
	} {
		if got := EscapePath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	seen := map[string]string{}
	for _, path := range oddPaths {
		escaped := EscapePath(path)
		if other, ok := seen[escaped]; ok {
			t.Errorf("%q and %q are both %q", path, other, escaped)
		}
		seen[escaped] = path
		checkRoundTrip(t, path)
	}
}

// checkRoundTrip sends a path through a URL as clients and servers do.
func checkRoundTrip(t *testing.T, path string) {
	t.Helper()
	u, err := url.Parse("http://h.example/data/" + EscapePath(path))
	if err != nil {
		t.Fatalf("%q: %v", path, err)
	}
	escaped, ok := strings.CutPrefix(u.EscapedPath(), "/data/")
	if !ok || u.RawQuery != "" || u.Fragment != "" {
		t.Fatalf("%q became %v", path, u)
	}
	if got, err := UnescapePath(escaped); err != nil || got != path {
		t.Errorf("%q came back as %q: %v", path, got, err)
	}
}

func TestUnescapePathOfOtherClients(t *testing.T) {
	for escaped, want := range map[string]string{"a%7eb": "a~b", "a+b": "a+b", "%61": "a", "a%c3%A9": "a\u00e9", "a&b": "a&b"} {
		if got, err := UnescapePath(escaped); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", escaped, got, err, want)
		}
	}
	for _, escaped := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "%2e%2E", "a/%2e%2e/b", "a%00", "%", "a%4", "a%zz", "a%2Fb", "%2f", "a%2f..%2fb",
	} {
		if got, err := UnescapePath(escaped); !errors.Is(err, ErrPath) {
			t.Errorf("%q: got %q, %v", escaped, got, err)
		}
	}
}

func FuzzEscapePath(f *testing.F) {
	for _, path := range oddPaths {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if validPath(path) {
			checkRoundTrip(t, path)
		}
	})
}

func FuzzUnescapePath(f *testing.F) {
	for _, path := range oddPaths {
		f.Add(EscapePath(path))
	}
	for _, s := range []string{"a%2e", "..%2f", "%00", "a//b", "%%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		path, err := UnescapePath(escaped)
		if err != nil {
			return
		}
		if !validPath(path) {
			t.Errorf("%q gives %q", escaped, path)
		}
		if again, err := UnescapePath(EscapePath(path)); err != nil || again != path {
			t.Errorf("%q gives %q, then %q: %v", escaped, path, again, err)
		}
	})
}
