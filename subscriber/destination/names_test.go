package destination

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMapPath(t *testing.T) {
	for rest, want := range map[string]string{
		"a/b.txt":      "a/b.txt",
		"":             "%-",
		"a/":           "a/%-",
		"a//b":         "a/%-/b",
		"..":           "%2E%2E",
		"%2e%2e/x":     "%2E%2E/x",
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
		".rssub-other": "%2Erssub-other",

		".git/config":     "%2Egit/config",
		"x/.GIT/hooks/a":  "x/%2EGIT/hooks/a",
		"%E2%80%8C.git/x": "%E2%80%8C.git/x",
		".g%E2%80%8Cit/x": "%2Eg\u200cit/x",
		"%EF%BC%8Egit/x":  "%EF%BC%8Egit/x",
		"git~1/config":    "git%7E1/config",
		"GIT~12.TXT":      "GIT%7E12.TXT",
		"git%7E1":         "git%7E1",
		"git%257E1":       "git%257E1",
		"git~1.html":      "git~1.html", // no short name has four letters there
		"longer-name~1":   "longer-name~1",
		"~alice/":         "~alice/%-",
		"a~":              "a~",
		"HEAD":            "%48EAD",
		"header":          "header",
		"CVS/Root":        "%43VS/Root",
		"Meta-Inf/x.xml":  "%4Deta-Inf/x.xml",
		"Web.config":      "%57eb.config",
		"web.config.bak":  "web.config.bak",
		"web.config?v=1":  "%77eb.config%qv=1",
		"Desktop.ini":     "%44esktop.ini",
		"autorun.inf":     "%61utorun.inf",
		".well-known/x":   "%2Ewell-known/x",
		"a.b/c.d":         "a.b/c.d",
		".rssub/copy.db":  "%2Erssub/copy.db",
		".RSSub":          "%2ERSSub",
		"RSSUB~1/x":       "%52SSUB~1/x",
		".r%C5%BFsub/x":   "%2Erſsub/x",
		"x/.rssub/y":      "x/%2Erssub/y",
		"rssub/x":         "rssub/x",
		".rshub":          "%2Ershub",
		"%252Egit/config": "%252Egit/config",
	} {
		if got, err := (naming{}).path("http://h/", "http://h/"+rest); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", rest, got, err, want)
		}
	}
	for from, want := range map[string]string{"http://h": "%-", "http://h?a=1": "%-%qa=1"} { // as http://h/ and http://h/?a=1
		if got, err := (naming{}).path("http://h/", from); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", from, got, err, want)
		}
	}
	if got, err := (naming{}).path("http://h/a/", "http://h"); err == nil {
		t.Errorf("%q is not below the root", got)
	}
	allow := naming{[]string{".well-known", "*.config", ".r*"}}
	for rest, want := range map[string]string{
		".well-known/.x": ".well-known/%2Ex", "web.config": "web.config", "Web.Config": "%57eb.Config", ".rssub": "%2Erssub", ".rshub": "%2Ershub", ".rc": ".rc",
		"con.config": "%63on.config",
	} {
		if got, err := allow.path("http://h/", "http://h/"+rest); err != nil || got != want {
			t.Errorf("allowed, %q: %q, %v; want %q", rest, got, err, want)
		}
	}
}

// actsAs are the names for which a name of the copy may be taken: by file systems that
// fold case, drop what is not shown or what stands at the end, and by programs to which
// characters that look alike are one.
func actsAs(name string) []string {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("\u00ad\u034f\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u206a\ufeff\ufe0f", r) {
			return -1
		}
		return r
	}, name)
	alike := strings.NewReplacer("\uff0e", ".", "\u2024", ".", "\uff5e", "~", "\u017f", "s", "\u212a", "k", "\uff27", "g").Replace(plain)
	out := []string{name, plain, alike}
	for _, n := range out {
		out = append(out, strings.TrimRight(n, ". "), strings.ToLower(n), strings.ToLower(strings.TrimRight(n, ". ")))
	}
	return out
}

var shortName = regexp.MustCompile(`^[^.]{1,6}~[0-9]{1,6}(\.[^.]{0,3})?$`)

// harmful tells why a name must not be in a copy; empty: it may.
func harmful(name string) string {
	for _, as := range actsAs(name) {
		switch {
		case as == "" || strings.HasPrefix(as, "."):
			return "it is hidden as " + as
		case slices.Contains([]string{"head", "cvs", "_svn", "web.config", "desktop.ini", "autorun.inf", "web-inf"}, as):
			return "programs look for it as " + as
		case shortName.MatchString(as) && utf8.RuneCountInString(strings.SplitN(as, ".", 2)[0]) <= 8:
			return "it may be the short name of another: " + as
		case slices.Contains([]string{"con", "nul", "aux", "com1", "lpt9"}, strings.SplitN(as, ".", 2)[0]):
			return "it is a device as " + as
		case strings.ContainsAny(as, unsafe+"\x00") || len(name) > nameMax:
			return "no file system has it: " + as
		}
	}
	return ""
}

// hostile are names, and pieces of names, of which attacks are made.
var hostile = []string{
	"", ".", "..", "git", ".git", "GIT", "Git~1", "git~12", "~", "~1", "1", "HEAD", "head", "CVS", "web", ".config", "web.config", "desktop.ini", "con", "NUL.txt",
	"\u200c", "\ufeff", "\u00ad", "\uff0e", "\u2024", "\uff5e", "\u017f", "\u212a", "\u00e9", "e\u0301", "\u0301", "\xff", "\x00", "\x1b", "\n", "/", "\\", ":", "?", "*", "%", "%2E", "%-", "%q",
	"%~", "%7E", " ", "a", "A", "rssub", ".rssub", ".rshub", strings.Repeat("x", 250), "日本",
}

func hostileName(t *rapid.T, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, 4).Draw(t, label), "")
}

// Of any names: no two become one, each can be read back, and none is one that any
// program or file system takes for another.
func TestNamesAreSafeAndReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := hostileName(t, "a"), hostileName(t, "b")
		checkName(t, a, b)
	})
}

func checkName(t interface{ Fatalf(string, ...any) }, a, b string) {
	name, other := naming{}.escape(a), naming{}.escape(b)
	if a != b && name == other {
		t.Fatalf("%q and %q are both %q", a, b, name)
	}
	if back, ok := unmapped(name); !ok || back != a+"\x00" {
		t.Fatalf("%q became %q, which means %q", a, name, back)
	}
	short := shorten(name)
	for _, got := range []string{short, beside(short, a)} {
		if why := harmful(got); why != "" || !utf8.ValidString(got) || !filepath.IsLocal(got) {
			t.Fatalf("%q became %q: %s", a, got, why)
		}
	}
}

// Of any addresses: each gets a path of its own, on a file system that folds as on one
// that does not, which it keeps, and from which it can be read back.
func TestPathsAreSafeAndReversible(t *testing.T) {
	c, err := Open(Options{Source: "http://h/", Dir: t.TempDir(), Roots: []Root{{URL: "http://h/a/", Dir: "."}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	rapid.Check(t, func(t *rapid.T) {
		c.tree.folds = rapid.Bool().Draw(t, "folds")
		c.tree.placed, c.tree.above = map[string]string{}, map[string]int{}
		at := map[string]string{}
		for i := range rapid.IntRange(2, 12).Draw(t, "addresses") {
			var segments []string
			for range rapid.IntRange(1, 3).Draw(t, "depth") {
				segments = append(segments, hostileName(t, fmt.Sprint("name ", i)))
			}
			raw := "http://h/a/"
			for j, s := range segments {
				if segments[j] = url.PathEscape(s); j > 0 {
					raw += "/"
				}
				raw += segments[j]
			}
			if rapid.Bool().Draw(t, "query") {
				raw += "?" + url.QueryEscape(hostileName(t, "query"))
			}
			p, _, err := c.tree.assign(raw)
			if err != nil {
				continue // too long, or taken twice: it is reported, and nothing is written
			}
			if other, taken := at[c.tree.fold(p)]; taken && other != raw {
				t.Fatalf("%q and %q are both at %q", other, raw, p)
			}
			at[c.tree.fold(p)] = raw
			marked := false
			for j, name := range strings.Split(p, "/") {
				if why := harmful(name); why != "" {
					t.Fatalf("%q is at %q: %s", raw, p, why)
				}
				back, whole := unmapped(name)
				if marked = marked || !whole; marked {
					continue // its address is in the state
				}
				segment := back[:strings.LastIndexByte(back, 0)]
				if want, _ := url.PathUnescape(segments[j]); segment != want {
					t.Fatalf("%q is at %q, where %q stands for %q", raw, p, name, segment)
				}
			}
		}
	})
}

// unmapped reads a name as naming.path writes it, where it is not a shortened one.
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
	for _, s := range []string{"", ".", "..", "a b ", "con", "%41", "%", "%%3A", "%:", "%2:", "%-", "%~", "a/b", "\x00", "\xff", "é", "NUL.txt", strings.Repeat("x", 300), ".git", "git~1", "\u200c.git", "\uff0egit", "web.config."} {
		f.Add(s, "q")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		checkName(t, a, b)
	})
}

// FuzzMapPath maps any address to a path that does not leave the copy.
func FuzzMapPath(f *testing.F) {
	for _, s := range []string{"http://h/a", "http://h/../../x", "http://.rssub/x", "http://../x", "http://h:80/%2e%2e/", "http://[::1]/a?b", "x", "http://h/a#b", "http://h/\\..\\x", "http://" + strings.Repeat("h", 256) + "/a", strings.Repeat("s", 256) + "://h/a"} {
		f.Add(s)
	}
	c := &tree{roots: []Root{{URL: "http://h/a/", Dir: "."}}}
	f.Fuzz(func(t *testing.T, rawURL string) {
		p, err := c.preferredPath(rawURL)
		if err != nil {
			return
		}
		top, _, _ := strings.Cut(p, "/")
		if !filepath.IsLocal(p) || path.Clean(p) != p || isOwn(seen(top)) || p == "." {
			t.Fatalf("%q became %q", rawURL, p)
		}
		for name := range strings.SplitSeq(p, "/") {
			if why := harmful(name); why != "" {
				t.Fatalf("%q became %q: %s", rawURL, p, why)
			}
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
	c.tree.folds = true
	had := map[string]string{}
	for _, u := range []string{"http://h/a.txt", "http://h/A.txt", "http://h/A.TXT", "http://h/D/x", "http://h/d", "http://h/\u212aelvin", "http://h/kelvin", "http://h/\u00e9", "http://h/e\u0301", "http://h/x\u200cy", "http://h/xy"} {
		p, _, err := c.tree.assign(u)
		if err != nil {
			t.Fatal(err)
		}
		if other := had[c.tree.fold(p)]; other != "" {
			t.Errorf("%s and %s are both at %s", other, u, p)
		}
		had[c.tree.fold(p)] = u
	}
	if again, _, err := c.tree.assign("http://h/a.txt"); err != nil || again != "a.txt" {
		t.Error(again, err)
	}
}
