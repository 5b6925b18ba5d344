package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong in a file of rules is named with its line, and all of it at once.
func TestBadRules(t *testing.T) {
	for text, want := range map[string]string{
		"resource: []": `r:1: there is no setting "resource"; did you mean resources?`,
		"resources:\n- {for: '*', describdby: x}":                                                      `r:2: there is no setting "describdby"; did you mean describedby?`,
		"resources:\n- {for: '*', license: 'https://x/'}":                                              `r:2: there is no setting "license"`,
		"resources:\n- {for: 'a//b'}":                                                                  `r:2: for: "a//b" is not a pattern of names`,
		"resources:\n- {for: '['}":                                                                     `r:2: for: "[" is not a pattern of names`,
		"resources:\n\n- type: text/html":                                                              "r:3: the rule lacks `for:`",
		"resources:\n\n- for: '*'":                                                                     "r:3: the rule gives nothing",
		"resources: {for: x}":                                                                          "r:1: resources has to be a list",
		"resources:\n- {for: '*', type: html}":                                                         `r:2: this cannot be published: type of the entry is "html"`,
		"resources:\n- {for: '*', encoding: gzp}":                                                      `r:2: encoding: "gzp" is not a content coding that files are stored in; did you mean gzip?`,
		"resources:\n- {for: '*', via: '{pth}.x'}":                                                     `r:2: via: "{pth}.x": there is no placeholder {pth}; did you mean path?`,
		"resources:\n- {for: '*', via: '{url}.x'}":                                                     `r:2: via: "{url}.x" is the path of a resource, in which {url} has no meaning`,
		"resources:\n- {for: '*', via: 'https://x/{path'}":                                             `has a { without a }`,
		"resources:\n- {for: '*', via: 'https://x/path}'}":                                             `has a } without a {`,
		"resources:\n- {for: '*', via: 'https://x y/'}":                                                "r:2: ",
		"resources:\n- {for: '*', via: ''}":                                                            "r:2: via: ",
		"resources:\n- {for: '*', alternate: '{path}'}":                                                "r:2: alternate leads nowhere",
		"resources:\n- {for: '*', alternate: '{path-.a}{path-.b}'}":                                    "r:2: alternate leads nowhere",
		"resources:\n- {for: '*', duplicate: {href: 'https://x/{path}', pri: 0}}":                      "r:2: pri: it must be a number from 1, the best, to 999999",
		"resources:\n- {for: '*', via: {href: 'https://x/', modified: now}}":                           "modified: it can only be lastmod",
		"resources:\n- {for: '*', via: {url: 'https://x/'}}":                                           `r:2: there is no setting "url"`,
		"resources:\n- {for: '*', patch: '{path}.diff'}\n- {for: '*', patch: 'https://x/{path}.diff'}": "r:3: ",
		"resources:\n- {for: '*', sidecar: a/b}":                                                       `r:2: sidecar: "a/b" is not the end of a name`,
		"set: {describedby: 'https://x/{path}'}":                                                       "r:1: describedby: placeholders are for rules of resources",
		"set: {collection: 'https://x/'}":                                                              `r:1: there is no setting "collection"`,
		"address: {drop: html}":                                                                        `r:1: drop: "html" is not an extension, such as .html`,
		"address: {index: a/index.html}":                                                               `r:1: index: "a/index.html" is not the name of a file`,
		"address: [x]":                                                                                 "r:1: write keys and values here",
		"resources:\n- {for: '*'}\n-\n":                                                                "r:3: ",
		"a: {":                                                                                         "r: it is not YAML",
	} {
		rs, err := ParseRules("r", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v\nwant %s", text, rs, err, want)
		}
	}
	for _, text := range []string{"resources:\n- {for: '*', duplicate: {href: 'https://x/', pri: 0}}", "set: {describedby: {href: 'https://x/', url: y}}"} {
		if _, err := ParseRules("r", []byte(text)); err == nil || strings.Count(err.Error(), "r:") != 1 {
			t.Errorf("%q: the place is not named once: %v", text, err)
		}
	}
	_, err := ParseRules("r", []byte("set: {x: y}\nresources:\n- {for: '*', a: b}\n- {for: '*', c: d}"))
	if err == nil || strings.Count(err.Error(), "r:") != 3 {
		t.Errorf("not everything is named: %v", err)
	}
	var many strings.Builder
	many.WriteString("resources:\n")
	for range mostLinks + 1 {
		many.WriteString("- {for: '*', via: 'https://x.example/'}\n")
	}
	if _, err := ParseRules("r", []byte(many.String())); err == nil || !strings.Contains(err.Error(), "500 links") {
		t.Errorf("too many links: %v", err)
	}
	if _, err := ReadRules(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) && err == nil {
		t.Error("a file that is not there was read")
	}
}

// An empty file, and one with comments only, adds nothing.
func TestEmptyRules(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if rs, err := ParseRules("r", []byte(text)); err != nil || len(rs.resources) > 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Where a path leads, and what leads to it, are inverse to each other.
func TestTargets(t *testing.T) {
	for _, c := range []struct{ target, from, to string }{
		{"{path}.xml", "a/b", "a/b.xml"},
		{"{path-.html}.pdf", "a/b.html", "a/b.pdf"},
		{"meta/{path}.xml", "a/b", "meta/a/b.xml"},
		{"{path-.dc.xml}", "a.dc.xml", "a"},
	} {
		x, err := parseTarget(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if to, ok := x.expand(&Resource{Path: c.from}, ""); !ok || to != c.to {
			t.Errorf("%s: %s leads to %s", c.target, c.from, to)
		}
		if from, ok := x.origin(c.to); !ok || from != c.from {
			t.Errorf("%s: %s is led to by %s", c.target, c.to, from)
		}
	}
	for _, s := range []string{"{path}/{path}", "x/{sha256}", "about.html", "https://x.example/{path}"} {
		x, err := parseTarget(s)
		if err != nil {
			t.Fatal(err)
		}
		if from, ok := x.origin("x/about.html"); ok {
			t.Errorf("%s is led to by %s", s, from)
		}
	}
}

func FuzzParseRules(f *testing.F) {
	example, err := os.ReadFile("testdata/rules/rules.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example), "works/12.pdf")
	f.Add("resources: [{for: '*', via: '{path}{path}'}]", "a")
	f.Add("address: {drop: [.html], index: [index.html]}", "..html")
	f.Add("resources: [{for: ['**', '!a'], sidecar: .x, patch: {href: '{path-b}{sha256}', type: a/b}}]", "ab")
	f.Fuzz(func(t *testing.T, text, path string) {
		rs, err := ParseRules("r", []byte(text))
		if err != nil || !validPath(path) || newEntryCheck().check(&Given{Resource: Resource{Path: path}}) != nil {
			return // a path that cannot be published, such as a very long one
		}
		// Whatever is accepted can be written.
		a := address{Prefix: "https://x.example/", Index: rs.index, Drop: rs.drop}
		short := a.short(path)
		if a.short(path) != path && !strings.HasPrefix(path, short) {
			t.Errorf("%q is shortened to %q", path, short)
		}
		for _, p := range a.rivals(path) {
			if a.short(p) != short {
				t.Errorf("%q and %q do not have one URL", path, p)
			}
		}
		near := neighbours{
			get: func(path string) (*Resource, error) { return &Resource{Path: path, MediaType: "text/plain"}, nil },
			url: func(r *Resource) string { return a.below("", r.Path) },
		}
		r := Resource{Path: path}
		links, err := rs.linksOf(&r, near.url(&r), near)
		if err != nil {
			t.Fatal(err)
		}
		r.Links, r.MediaType, r.Encoding = links, rs.mediaType(&r), rs.encoding(&r)
		if err := newEntryCheck().check(&Given{Resource: r}); err != nil {
			t.Errorf("%q: %v", path, err)
		}
		for _, p := range rs.related(path) {
			if p == "" {
				t.Errorf("%q is related to nothing", path)
			}
		}
	})
}
