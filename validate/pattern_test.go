package validate

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		yes, no []string
	}{
		{
			pattern: "https://example.org/*",
			yes: []string{
				"https://example.org/", "https://example.org/a/b?c=d", "HTTPS://EXAMPLE.org/a",
				"https://example.org:443/a", "https://example.org./a", "https://example.org",
				"https://example.org:0443/a", "https://example.org:/a",
			},
			no: []string{
				"http://example.org/", "https://example.org.evil.example/", "https://example.org@evil.example/",
				"https://user@example.org/", "https://example.org:8443/", "https://www.example.org/", "ftp://example.org/",
				"", "not a url", "https://evil.example/https://example.org/",
			},
		},
		{
			pattern: "https://example.org/alice/*",
			yes: []string{
				"https://example.org/alice/", "https://example.org/alice/x", "https://example.org/%61lice/x", "https://example.org/bob/../alice/x",
				"https://example.org/alice/.", "https://example.org/alice/%2e", "https://example.org/alice/x/..",
			},
			no: []string{
				"https://example.org/alice", "https://example.org/bob/", "https://example.org/alice/../bob/",
				"https://example.org/alice/%2e%2e/bob/", "https://example.org/alice/..%2fbob/", "https://example.org/alicex/",
			},
		},
		{pattern: "https://example.org/changes/", yes: []string{"https://example.org/changes/"}, no: []string{"https://example.org/changes", "https://example.org/changes/x", "https://example.org/changes/?x"}},
		{pattern: "http://*.example.org:8080/*/changes*", yes: []string{"http://a.b.example.org:8080/x/y/changes.xml"}, no: []string{"http://example.org:8080/x/changes", "http://evilexample.org:8080/x/changes", "http://a.example.org/x/changes"}},
		{pattern: "https://example.org/t?set=*", yes: []string{"https://example.org/t?set=1"}, no: []string{"https://example.org/t", "https://example.org/t?other=1"}},
		{
			pattern: "https://example.org/lib/*",
			yes: []string{
				"https://example.org/lib/", "https://example.org/lib/a%2fb", `https://example.org/lib/a\b`, "https://example.org/lib/%3f", "https://example.org/lib/%2a",
				"https://example.org/l%69b/a%252fb",
			},
			no: []string{
				"https://example.org/lib%2ft/", "https://example.org/lib%2Ft", "https://example.org/lib%2f", "https://example.org/lib%252ft/", `https://example.org/lib\t/`,
				"https://example.org/lib%5ct/", "https://example.org/lib/..%2fbob/", `https://example.org/lib/..\bob/`, "https://example.org/lib/..%5cbob/",
				"https://example.org/lib/a%2f..%2f..%2fbob/",
			},
		},
		{
			pattern: "https://example.org/lib%2Ft/*",
			yes:     []string{"https://example.org/lib%2ft/x", "https://example.org/lib%2Ft/"},
			no:      []string{"https://example.org/lib/t/x", "https://example.org/lib%252Ft/x", "https://example.org/lib%2Ft%2Fx"},
		},
		{
			pattern: "https://example.org/t%3Fset=*", yes: []string{"https://example.org/t%3fset=1"}, no: []string{"https://example.org/t?set=1"},
		},
		{
			pattern: "https://example.org/t?set=1", yes: []string{"https://example.org/t?set=1"}, no: []string{"https://example.org/t%3Fset=1", "https://example.org/t%3fset=1"},
		},
		{
			pattern: "https://example.org/a%2Ab", yes: []string{"https://example.org/a%2ab", "https://example.org/a*b"}, no: []string{"https://example.org/aXb", "https://example.org/a/b"},
		},
		{pattern: "https://example.org/a%25/*", yes: []string{"https://example.org/a%25/x"}, no: []string{"https://example.org/a%2525/x"}},
		{pattern: "*", yes: []string{"https://example.org/", "http://[::1]:80/x"}},
		{pattern: "http://[2001:db8::1]/*", yes: []string{"http://[2001:DB8::1]:80/x", "http://[2001:0db8:0::0001]:080/x"}, no: []string{"http://[2001:db8::2]/x"}},
		{pattern: "http://192.0.2.1:8080/*", yes: []string{"http://[::ffff:192.0.2.1]:08080/x", "http://[::FFFF:c000:201]:8080/x"}, no: []string{"http://192.0.2.1/x", "http://[::192.0.2.1]:8080/x"}},
	} {
		p, err := ParsePattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != tc.pattern {
			t.Errorf("%q reads %q", tc.pattern, p)
		}
		for _, u := range tc.yes {
			if !p.Match(u) {
				t.Errorf("%s does not match %s", p, u)
			}
		}
		for _, u := range tc.no {
			if p.Match(u) {
				t.Errorf("%s matches %s", p, u)
			}
		}
	}
	if (Pattern{}).Match("https://example.org/") {
		t.Error("the zero Pattern matches")
	}
}

// What a pattern keeps out is kept out however a server reads its URL.
func TestPatternTouches(t *testing.T) {
	for pattern, tc := range map[string]struct{ yes, no []string }{
		"https://example.org/private/*": {
			yes: []string{
				"https://example.org/private/x", "https://example.org/private%2fx", `https://example.org/private\x`, "https://example.org/private%5Cx",
				"https://example.org/open/..%2fprivate/x", "https://example.org/%70rivate/", "https://example.org/private/..%2fopen/x", "https://example.org:00443/private/x",
			},
			no: []string{"https://example.org/open/x", "https://example.org/private%252fx", "https://example.com/private/x", "https://example.org/private*/x"},
		},
		"https://example.org/a%2Fb/*": {
			yes: []string{"https://example.org/a%2fb/x", "https://example.org/a/b/x"},
			no:  []string{"https://example.org/a%252fb/x"},
		},
		"*": {yes: []string{"https://example.org/", "x"}},
	} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range tc.yes {
			if !p.Touches(u) || !TouchesAny([]Pattern{{}, p}, u) {
				t.Errorf("%s does not touch %s", p, u)
			}
		}
		for _, u := range tc.no {
			if p.Touches(u) {
				t.Errorf("%s touches %s", p, u)
			}
		}
	}
	if (Pattern{}).Touches("https://example.org/") {
		t.Error("the zero Pattern touches something")
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for _, s := range []string{
		"", "example.org/*", "https://example.org", "https://example.org*", "https://exam*ple.org/*",
		"https://*/x", "ftp://example.org/*", "https://user@example.org/*", "https:///x", "https://example.org/%zz", "**",
	} {
		_, err := ParsePattern(s)
		if err == nil {
			t.Errorf("%q was read", s)
		} else if !strings.Contains(err.Error(), "https://example.org/*") {
			t.Errorf("%q: %v does not say how to write one", s, err)
		}
	}
}

// Whatever matches a pattern of one host is a URL of that host.
func FuzzPatternStaysWithItsHost(f *testing.F) {
	p, err := ParsePattern("https://example.org/alice/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"https://example.org/alice/", "https://example.org/alice/../bob", "https://example.org%2f.evil/alice/",
		"https://example.org\\@evil/alice/", "https://EXAMPLE.ORG:443/%61lice/%2e%2e/", "//example.org/alice/x",
		"https://example.org/alice%2fx", "https://example.org/alice/..%2fbob", `https://example.org/alice/..\bob`, "https://example.org/alice/%252e%2f*?x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !p.Match(s) {
			return
		}
		u, err := canonical(s)
		if err != nil || u.host != "example.org:443" || u.scheme != "https" {
			t.Errorf("%q matches and is %+v, %v", s, u, err)
		}
		if !p.Touches(s) {
			t.Errorf("%q matches and touches nothing", s)
		}
		for _, read := range []string{u.path.strict, u.path.loose} {
			if !strings.HasPrefix(read, "/alice/") {
				t.Errorf("%q matches and is read as %s", s, read)
			}
			for segment := range strings.SplitSeq(strings.SplitN(read, "?", 2)[0], "/") {
				if segment == ".." {
					t.Errorf("%q matches with a dot segment left", s)
				}
			}
		}
	})
}
