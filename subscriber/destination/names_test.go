package destination

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMapPath(t *testing.T) {
	for rest, want := range map[string]string{
		"a/b.txt":      "a/b.txt",
		"":             "%-",
		"a/":           "a/%-",
		"a//b":         "a/%-/b",
		"..":           ".%2E",
		"%2e%2e/x":     ".%2E/x",
		"a%2Fb":        "a%2Fb",
		`a\b`:          "a%5Cb",
		"a?b=c/d":      "a%qb=c%2Fd",
		"a?":           "a%q%-",
		"100%25":       "100%",
		"%2541":        "%2541",
		"%25-":         "%25-",
		"caf%C3%A9":    "café",
		"%FF":          "%FF",
		"con.txt":      "%63on.txt",
		"LPT%C2%B9":    "%4CPT¹",
		"trailing.":    "trailing%2E",
		"trailing%20":  "trailing%20",
		"a:b":          "a%3Ab",
		".rssub-other": ".rssub-other",
	} {
		if got, err := mapPath("http://h/", "http://h/"+rest); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", rest, got, err, want)
		}
	}
	for p, want := range map[string]string{
		".rssub/copy.db": "%2Erssub/copy.db", ".RSSub": "%2ERSSub", "RSSUB~1/x": "%52SSUB~1/x", ".rs\u200csub/x": "%2Ers\u200csub/x",
		".rſsub/x": "%2Erſsub/x", "x/.rssub/y": "x/.rssub/y", "rssub/x": "rssub/x",
	} {
		if got := apart(p); got != want {
			t.Errorf("%q: %q; want %q", p, got, want)
		}
	}
}

// unmapped reads a name as mapPath writes it, where it is not a shortened one.
func unmapped(name string) (string, bool) {
	name, query, _ := strings.Cut(name, "%q")
	if name == "%-" {
		name = ""
	}
	var out strings.Builder
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(name); i++ {
		if name[i] == '%' && i+2 < len(name) {
			hi, lo := strings.IndexByte(hex, name[i+1]), strings.IndexByte(hex, name[i+2])
			if hi >= 0 && lo >= 0 {
				out.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		out.WriteByte(name[i])
	}
	return out.String() + "\x00" + query, !strings.Contains(name, "%~")
}

// Two names are one only if they are the same; and each is one that any file system
// takes.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a b ", "con", "%41", "%", "%%3A", "%:", "%2:", "%-", "%~", "a/b", "\x00", "\xff", "é", "NUL.txt", strings.Repeat("x", 300)} {
		f.Add(s, "q")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		name, other := escape(a), escape(b)
		if a != b && name == other {
			t.Fatalf("%q and %q are both %q", a, b, name)
		}
		if back, ok := unmapped(name); !ok || back != a+"\x00" {
			t.Fatalf("%q became %q, which means %q", a, name, back)
		}
		short := shorten(name)
		if !filepath.IsLocal(short) || strings.ContainsAny(short, unsafe+"/\x00") || !utf8.ValidString(short) || len(short) > nameMax ||
			short == "." || short == ".." || strings.HasSuffix(short, ".") || strings.HasSuffix(short, " ") || reserved(short) {
			t.Fatalf("%q became %q", a, short)
		}
		beside := beside(short, a)
		if len(beside) > nameMax || !utf8.ValidString(beside) {
			t.Fatalf("beside %q: %q", short, beside)
		}
	})
}

// FuzzMapPath maps any address to a path that does not leave the copy.
func FuzzMapPath(f *testing.F) {
	for _, s := range []string{"http://h/a", "http://h/../../x", "http://.rssub/x", "http://../x", "http://h:80/%2e%2e/", "http://[::1]/a?b", "x", "http://h/a#b", "http://h/\\..\\x"} {
		f.Add(s)
	}
	c := &Copy{o: Options{Roots: []Root{{URL: "http://h/a/", Dir: "."}}}}
	f.Fuzz(func(t *testing.T, rawURL string) {
		p, err := c.wish(rawURL)
		if err != nil {
			return
		}
		top, _, _ := strings.Cut(p, "/")
		if !filepath.IsLocal(p) || path.Clean(p) != p || isStateName(top) || p == "." {
			t.Fatalf("%q became %q", rawURL, p)
		}
	})
}

// On a file system that folds case, names that differ in that only are kept apart.
func TestFoldedNames(t *testing.T) {
	dir := t.TempDir()
	c, err := Open(Options{Source: "http://h/", Dir: dir, Roots: []Root{{URL: "http://h/", Dir: "."}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	c.folds = true
	had := map[string]string{}
	for _, u := range []string{"http://h/a.txt", "http://h/A.txt", "http://h/A.TXT", "http://h/D/x", "http://h/d", "http://h/\u212aelvin", "http://h/kelvin"} {
		p, err := c.place(u)
		if err != nil {
			t.Fatal(err)
		}
		if other := had[c.fold(p)]; other != "" {
			t.Errorf("%s and %s are both at %s", other, u, p)
		}
		had[c.fold(p)] = u
	}
	if again, err := c.place("http://h/a.txt"); err != nil || again != "a.txt" {
		t.Error(again, err)
	}
}
