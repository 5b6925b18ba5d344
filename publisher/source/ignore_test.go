package source

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		patterns string // with spaces between; a path with "/" at the end is a folder
		yes, no  string
	}{
		{"*.tmp", "a.tmp a/b.tmp a.tmp/", "a.tmpx a"},
		{"/a", "a a/", "b/a"},
		{"a/b", "a/b", "b x/a/b a"},
		{"build/", "build/ x/build/", "build x/build"},
		{"/docs/**/draft-?.txt", "docs/draft-1.txt docs/a/b/draft-2.txt", "docs/draft-10.txt x/docs/draft-1.txt"},
		{"a/**", "a/b a/b/c", "a a/ b/a"},
		{"**/x", "x a/x a/b/x", "x.y"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a/x b"},
		{".*", ".a a/.b", "a.b"},
		{"*.log !keep.log", "a.log", "keep.log a/keep.log"},
		{"!a *", "a b", ""},
		{"[a-c].txt", "a.txt", "d.txt"},
		{`\!a \#b`, "!a #b", "a"},
		{"* !a/", "b a/b", "a/"},
		{"\xff*", "\xffa", "a"},
		{"", "", "a"},
	} {
		rs, err := parseRules(strings.Split(c.patterns, " "))
		if err != nil {
			t.Errorf("%s: %v", c.patterns, err)
			continue
		}
		for want, paths := range map[bool]string{true: c.yes, false: c.no} {
			for _, p := range strings.Fields(paths) {
				p, folder := strings.CutSuffix(p, "/")
				if rs.match(p, folder) != want {
					t.Errorf("%s: %q, folder %v, is ignored: %v", c.patterns, p, folder, !want)
				}
			}
		}
	}
	for _, bad := range []string{"a[", "a//b", "/", "!", "!/", `a\`} {
		if rs, err := parseRules([]string{bad}); err == nil {
			t.Errorf("%q is taken as %v", bad, rs)
		}
	}
	if rs, err := parseRules([]string{"", "# a comment", "#"}); err != nil || len(rs) != 0 {
		t.Errorf("comments are taken as %v, %v", rs, err)
	}
}

func TestDefaultIgnore(t *testing.T) {
	rs, err := parseRules(DefaultIgnore())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a~", ".a.swp", "x/.#a", ".~lock.a.odt#", "~$a.docx", ".DS_Store", "a/Thumbs.db", ".nfs000000000123456789abcdef"} {
		if !rs.match(p, false) {
			t.Errorf("%q is a resource", p)
		}
	}
	for _, p := range []string{".a", ".htaccess", "..data", ".well-known", "a.tmp", "a", "#a", "a#", ".nfs", ".git", "lost+found", ".swallow"} {
		if rs.match(p, false) {
			t.Errorf("%q is no resource", p)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("/docs/**/draft-?.txt", "docs/a/draft-1.txt")
	f.Add("**/**/**", "a/b/c")
	f.Add("!a[^b]/", "a/c")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		rs, err := parseRules([]string{pattern})
		if err != nil || !validPath(path) || strings.Count(pattern, "**") > 4 {
			return
		}
		// What ignores files ignores folders of that name.
		if rs.match(path, false) && !rs.match(path, true) {
			t.Errorf("%q ignores the file %q alone", pattern, path)
		}
	})
}

// Patterns with many "**" take no longer than others.
func TestManyStarsAreQuick(t *testing.T) {
	rs, err := parseRules([]string{strings.Repeat("**/a/", 30) + "b"})
	if err != nil {
		t.Fatal(err)
	}
	if rs.match(strings.Repeat("a/", 200)+"c", false) { // would take years
		t.Error("it matches")
	}
	if !rs.match(strings.Repeat("x/a/", 30)+"a/b", false) {
		t.Error("it does not match")
	}
}
