package websub

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseLinks(t *testing.T) {
	hub := Link{Target: "http://h/", Rels: []string{"hub"}}
	self := Link{Target: "http://t/", Rels: []string{"self"}}
	link := func(target string, rels ...string) Link { return Link{Target: target, Rels: rels} }
	for _, test := range []struct {
		name   string
		values []string
		want   []Link
	}{
		{"as ResourceSync has it (HUB-51)", []string{`<http://t/>; rel="self", <http://h/>; rel="hub"`}, []Link{self, hub}},
		{"as the old push implementation sends it (HUB-51)", []string{`<http://t/>;rel=self, <http://h/>;rel=hub`}, []Link{self, hub}},
		{"several headers", []string{`<http://t/>; rel="self"`, ``, `<http://h/>; rel="hub"`}, []Link{self, hub}},
		{"several relation types", []string{`<http://h/>; rel=" self  hub "`}, []Link{link("http://h/", "self", "hub")}},
		{"names in any case", []string{`<http://h/>; REL="hub"`}, []Link{hub}},
		{"relation types as they are written", []string{`<http://h/>; rel=HuB`}, []Link{link("http://h/", "HuB")}},
		{"commas and semicolons in a target", []string{`<http://h/?a,b;c="d">; rel=hub,<http://t/>;rel=self`}, []Link{link(`http://h/?a,b;c="d"`, "hub"), self}},
		{
			"commas and semicolons in quotes",
			[]string{`<http://h/>; title="a, <b>; rel=\"self\""; rel=hub`},
			[]Link{{Target: "http://h/", Rels: []string{"hub"}, Params: []Param{{"title", `a, <b>; rel="self"`}}}},
		},
		{"space everywhere", []string{"\t <  http://h/\t>\t;\trel \t=\t \"hub\" \t,, , <http://t/> ; rel = self "}, []Link{hub, self}},
		{"no space at all", []string{`<http://h/>;rel=hub,<http://t/>;rel="self"`}, []Link{hub, self}},
		{"empty elements and parameters", []string{`,, ,<http://h/>;;; rel=hub;;,,<http://t/>; rel=self;,`}, []Link{hub, self}},
		{"no semicolon before rel", []string{`<http://h/> rel="hub", <http://t/>rel=self`}, []Link{hub, self}},
		{"no comma between links", []string{`<http://h/>; rel="hub" <http://t/>; rel="self"`}, []Link{hub, self}},
		{"a value without quotes that is a URL", []string{`<http://h/>; rel=http://r/a?b=c`}, []Link{link("http://h/", "http://r/a?b=c")}},
		{"only the first rel counts", []string{`<http://h/>; rel=hub; rel=self`}, []Link{hub}},
		{"only the first rel counts, though it is empty", []string{`<http://h/>; rel=""; rel=hub`}, nil},
		{"only the first anchor counts", []string{`<http://h/>; anchor="#a"; rel=hub; anchor=""`}, []Link{{Target: "http://h/", Rels: []string{"hub"}, Anchor: "#a"}}},
		{"no rel", []string{`<http://h/>, <http://t/>; title=x; rel, <http://t/>; rel=self`}, []Link{self}},
		{"rev is not rel", []string{`<http://h/>; rev=hub`}, nil},
		{
			"other parameters",
			[]string{`<http://h/>; Type=a/b; rel=hub; title*=UTF-8''x; flag; flag; n=`},
			[]Link{{Target: "http://h/", Rels: []string{"hub"}, Params: []Param{{"type", "a/b"}, {"title*", "UTF-8''x"}, {"flag", ""}, {"flag", ""}, {"n", ""}}}},
		},
		{"an empty target is one", []string{`<>; rel=self`}, []Link{link("", "self")}},
		{"a relative target", []string{`<../x>; rel=self`}, []Link{link("../x", "self")}},
		{"what is no link is passed over", []string{`http://x/; rel=hub, "<http://y/>; rel=hub, ", <http://h/>; rel=hub`}, []Link{hub}},
		{"what is no link ends with its comma", []string{`x <http://y/>; rel=hub, <http://h/>; rel=hub`}, []Link{hub}},
		{"a target without an end", []string{`<http://h/>; rel=hub, <http://t/; rel=self`, `<http://t/>; rel=self`}, []Link{hub, self}},
		{"quotes without an end", []string{`<http://h/>; rel="hub`, `<http://h/>; rel="hub\`, `<http://h/>; rel="h\ub`}, []Link{hub, hub, hub}},
		{"stray quotes and signs", []string{`<http://h/>; "a, b"; = x; =; x"y" rel=hub`}, []Link{{Target: "http://h/", Rels: []string{"hub"}, Params: []Param{{"x", ""}}}}},
		{"names that are no tokens", []string{`<http://h/>; ü=1; (x)=2; rel=hub`}, []Link{hub}},
		{"nothing", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ParseLinks(test.values)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%q\n got %+v\nwant %+v", test.values, got, test.want)
			}
			checkRoundTrip(t, got)
		})
	}
}

func TestTargets(t *testing.T) {
	links := ParseLinks([]string{
		`<http://a/>; rel="HUB"`, `<http://b/>; rel="self hub"`, `<http://c/>; rel=hub; anchor="http://other/"`, `<http://a/>; rel=hub`,
		"<http://d/>; rel=\u017felf", // a long s, which folds to s
	})
	if got := Targets(links, "hub"); !slices.Equal(got, []string{"http://a/", "http://b/", "http://a/"}) {
		t.Error(got)
	}
	if got := Targets(links, "Self"); !slices.Equal(got, []string{"http://b/"}) {
		t.Error(got)
	}
	if got := Targets(links, "hu"); got != nil {
		t.Error(got)
	}
}

// HUB-43: one header, self and hub, as everybody writes it.
func TestFormatLinks_HUB43(t *testing.T) {
	got := FormatLinks(
		Link{Target: "http://example.org/t?a=b,c;d", Rels: []string{RelSelf}},
		Link{Target: "https://hub.example/", Rels: []string{RelHub}},
		Link{Target: "http://example.org/c", Rels: []string{"a", "b"}, Anchor: "/x", Params: []Param{{"title", `a "b" \c`}}},
	)
	want := `<http://example.org/t?a=b,c;d>; rel="self", <https://hub.example/>; rel="hub", ` +
		`<http://example.org/c>; rel="a b"; anchor="/x"; title="a \"b\" \\c"`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// What has a field of its own is not written a second time.
	l := Link{Target: "/", Rels: []string{"self"}, Params: []Param{{"REL", "hub"}, {"Anchor", "/x"}}}
	if got := l.String(); got != `</>; rel="self"` {
		t.Error(got)
	}
	if got := FormatLinks(); got != "" {
		t.Error(got)
	}
}

// HUB-43: nothing in a link adds another link, parameter or header line.
func TestWrittenLinkCannotBreakOut_HUB43(t *testing.T) {
	l := Link{
		Target: "http://t/>; rel=\"hub\", <http://evil/\r\nX: y\x00 \\ü\x7f",
		Rels:   []string{"self\", <http://evil/>; rel=\"hub\r\n"},
		Anchor: "a\", <http://evil/>; rel=hub\n",
		Params: []Param{{"rel", "hub"}, {"Anchor", "x"}, {"a b", "x"}, {"", "x"}, {"x=y", "z"}, {"ü", "x"}, {"ok", "\", <\r\n\t>\x7f\\"}},
	}
	s := l.String()
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			t.Fatalf("byte %#x in %q", c, s)
		}
	}
	links := ParseLinks([]string{s})
	if len(links) != 1 || len(Targets(links, RelHub)) != 0 || links[0].Anchor == "" || len(links[0].Params) != 1 {
		t.Fatalf("%q reads as %+v", s, links)
	}
	if want := "http://t/%3E;%20rel=%22hub%22,%20%3Chttp://evil/%0D%0AX:%20y%00%20%5C%C3%BC%7F"; links[0].Target != want {
		t.Errorf("target %q", links[0].Target)
	}
}

// Invariant 12: the result is bounded, and the first of everything is kept.
func TestParseLinksIsBounded(t *testing.T) {
	many := strings.Repeat("<x>; rel=a,", 100_000)
	if got := ParseLinks([]string{many, many}); len(got) != MaxLinks {
		t.Error(len(got))
	}
	fat := "<x>; rel=\"" + strings.Repeat("a ", 100_000) + "\"" + strings.Repeat("; p=1", 100_000) + ", <y>; rel=b"
	got := ParseLinks([]string{fat})
	if len(got) != 2 || len(got[0].Rels) != MaxLinkRels || len(got[0].Params) != MaxLinkParams || got[1].Target != "y" {
		t.Errorf("%d links", len(got))
	}
}

// Every hostile shape of a header is read in one pass. Nothing is asserted: a
// reader that looks at the rest again for every link shows by being slow here.
func TestParseLinksIsLinear(*testing.T) {
	for _, s := range []string{"<", ">", "<x>", "<x>;", `<x>;"`, `<x>;"\`, "<x>;rel", "<x>;=", ",", `"`, `\`, `<x>;a="\\`, "x<", "; ", "<x> x=<"} {
		long := strings.Repeat(s, 1<<20/len(s))
		ParseLinks([]string{long, "<x>;rel=\"" + long, "<" + long})
	}
}

func FuzzParseLinks(f *testing.F) {
	for _, s := range []string{
		`<http://t/>; rel="self", <http://h/>; rel="hub"`, `<a>;rel=self hub,,<b> rel=x;anchor="#y";title*=UTF-8''z`,
		`<a,b;c>; title="x\"y, <z>"; REL=hub; rel=self`, `<a`, `<a>; rel="b\`, `<a>"b"=c;=,"<d>"`, "<\x00ü>; rel=\"\x01\xff\u2028\"; p=\"\t\r\"",
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		links := ParseLinks([]string{a, b})
		if len(links) > MaxLinks {
			t.Fatal(len(links))
		}
		checkRoundTrip(t, links)
	})
}

// checkRoundTrip checks that what is written of parsed links reads back as the
// same links, and is written alike again.
func checkRoundTrip(t *testing.T, links []Link) {
	t.Helper()
	first := FormatLinks(links...)
	again := ParseLinks([]string{first})
	if len(again) != len(links) {
		t.Fatalf("%d links became %d: %q", len(links), len(again), first)
	}
	for i, l := range again {
		if len(l.Rels) != len(links[i].Rels) || len(l.Params) != len(links[i].Params) || (l.Anchor == "") != (links[i].Anchor == "") {
			t.Fatalf("%+v became %+v", links[i], l)
		}
	}
	if second := FormatLinks(again...); second != first {
		t.Fatalf("not stable:\n%q\n%q", first, second)
	}
}

func BenchmarkParseLinks(b *testing.B) {
	values := []string{`<http://example.org/t>; rel="self", <https://hub.example/>; rel="hub"`}
	b.ReportAllocs()
	for b.Loop() {
		ParseLinks(values)
	}
}
