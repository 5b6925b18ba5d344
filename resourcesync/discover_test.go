package resourcesync

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// targets writes links as "rel href".
func targets(links []Link) []string {
	var all []string
	for _, l := range links {
		all = append(all, l.Rel+" "+l.Href)
	}
	return all
}

// SRC-13, DST-01: links in the head of a page, and nowhere else.
func TestLinksFromHTML(t *testing.T) {
	const link = `<link rel="resourcesync" href="/cl.xml">`
	found := []string{"resourcesync https://example.org/cl.xml"}
	for _, tc := range []struct {
		name, page string
		want       []string
	}{
		{"as in the specification", "<html>\n<head>\n" + link + "\n...\n</head><body>...</body></html>", found},
		{"head and html left out", "<!DOCTYPE html><title>a</title>" + link + "<p>", found},
		{"after a byte order mark", "\ufeff<!DOCTYPE html>" + link, found},
		{"all the head may hold", `<meta charset=utf-8><style>p{}</style><script>1<2</script><noscript><img></noscript><template><p></template>` + link, found},
		{"upper case, no quotes, self-closed", `<HEAD><LINK REL=RESOURCESYNC HREF=/cl.xml /></HEAD>`, []string{"RESOURCESYNC https://example.org/cl.xml"}},
		{"several relations", `<link rel=" self  hub" href="https://h.example/?a=b&amp;c">`, []string{"self https://h.example/?a=b&c", "hub https://h.example/?a=b&c"}},
		{
			"relative to the page", `<link rel=self href="../x"><link rel=self href="?q"><link rel=self href="//other.example/y">`,
			[]string{"self https://example.org/x", "self https://example.org/a/b?q", "self https://other.example/y"},
		},
		{"base after the link", link + `<base href="https://base.example/d/"><base href="https://second.example/">`, []string{"resourcesync https://base.example/cl.xml"}},
		{"user and password", `<base href="https://me:secret@example.org/"><link rel=x href=f><link rel=y href="https://me:secret@other.example/g">`, []string{"x https://example.org/f", "y https://other.example/g"}},
		{"relative base", `<base href="/d/e">` + `<link rel=x href=f>`, []string{"x https://example.org/d/f"}},
		{"base without href", `<base target=_top>` + link, found},
		{"base of a scheme that is none", `<base href="data:text/html,">` + link, found},

		{"in the body", "<head></head><body>" + link, nil},
		{"after the head", "<head></head>" + link, nil},
		{"after an element of the body", "<head><div>" + link, nil},
		{"after text", "<head>hello" + link, nil},
		{"in an image", "<svg>" + link, nil},
		{"in a comment", "<!-- " + link + " -->", nil},
		{"in a script", "<script>" + link + "</script>", nil},
		{"in a style", "<style>" + link + "</style>", nil},
		{"in a title", "<title>" + link + "</title>", nil},
		{"in noscript", "<noscript>" + link + "</noscript>", nil},
		{"in templates", "<template><template></template>" + link + "</template>", nil},
		{"in a template beside one that looks closed", "<template><template/></template>" + link + "</template>", nil},
		{"after the end of the page", "<title>a</title></body>" + link, nil},
		{"after the end of all", "<title>a</title></html>" + link, nil},
		{"after a line break that is none", "<title>a</title></br>" + link, nil},
		{"an end of nothing", "<title>a</title></p>" + link, found},
		{"attributes twice", `<link rel=resourcesync rel=hub href=/cl.xml href=/other>`, found},
		{"in an attribute", `<meta content='` + link + `'>`, nil},
		{"no relation", `<link href="/cl.xml">`, nil},
		{"no target", `<link rel=self><link rel=self href=" ">`, nil},
		{"other schemes", `<link rel=self href="mailto:a@b"><link rel=self href="javascript:1"><link rel=self href="file:///etc/passwd"><link rel=self href="http:///x">`, nil},
		{"no URL", `<link rel=self href="http://[">` + "<link rel=self href=\"/\xff\">", nil},
		{"broken off", `<link rel=self href="/cl.xm`, nil},
		{"empty", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			links, err := LinksFromHTML(iotest.OneByteReader(strings.NewReader(tc.page)), "https://example.org/a/b?q=1#f")
			if got := targets(links); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
	links, err := LinksFromHTML(strings.NewReader(`<link rel=self href=a><link rel=hub href=https://h.example/ type="text/html ">`), "")
	if err != nil || !slices.Equal(targets(links), []string{"hub https://h.example/"}) || links[0].Type != "text/html" {
		t.Errorf("without a base: %+v, %v", links, err)
	}
}

func TestLinksFromHTMLOfTheSpecification(t *testing.T) {
	file := shared(t, "spec-examples", "1.1", "examples", "resourcesync_ex_9.xml")[0]
	page, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Close() }()
	links, err := LinksFromHTML(page, "http://www.example.com/")
	if got := targets(links); err != nil || !slices.Equal(got, []string{"resourcesync http://www.example.com/dataset1/capabilitylist.xml"}) {
		t.Errorf("%q, %v", got, err)
	}
}

const (
	atomFeed = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>`
	rssFeed  = `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>https://example.org/</link>`
)

// DST-01: links of the feed, not of its entries.
func TestLinksFromFeed(t *testing.T) {
	const self, hub = `<link rel="self" href="/feed"/>`, `<atom:link rel="hub" href="https://hub.example/" type="text/html"/>`
	for _, tc := range []struct {
		name, feed string
		want       []string
	}{
		{
			"Atom", atomFeed + self + `<entry><link rel="hub" href="https://evil.example/"/></entry><link href="late"/></feed>`,
			[]string{"self https://example.org/feed", "alternate https://example.org/a/late"},
		},
		{"Atom with a prefix", `<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:link rel='hub' href='https://hub.example/?a&amp;b'></a:link></a:feed>`, []string{"hub https://hub.example/?a&b"}},
		{"RSS 2.0", rssFeed + hub + `<item>` + hub + `</item><atom:link rel="self" href="f"/></channel></rss>`, []string{"hub https://hub.example/", "self https://example.org/a/f"}},
		{
			"RSS 1.0", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:atom="http://www.w3.org/2005/Atom"><channel>` + hub + `</channel><item>` + hub + `</item></rdf:RDF>`,
			[]string{"hub https://hub.example/"},
		},
		{"xml:base", strings.Replace(atomFeed, "<feed", `<feed xml:base="https://base.example/d/"`, 1) + `<link rel="self" xml:base="e/" href="f"/>` + self, []string{"self https://base.example/d/e/f", "self https://base.example/feed"}},
		{"xml:base of a channel", strings.Replace(rssFeed, "<channel", `<channel xml:base="/d/"`, 1) + `<atom:link rel="self" href="f"/>`, []string{"self https://example.org/d/f"}},
		{"user and password", atomFeed + `<link rel="self" href="https://me:secret@example.org/feed"/>`, []string{"self https://example.org/feed"}},
		{"not well-formed", atomFeed + `<b>&nbsp;&unknown; <i></b>` + self, []string{"self https://example.org/feed"}},
		{"broken after the link", atomFeed + self + "<", []string{"self https://example.org/feed"}},
		{"not ended", rssFeed + hub, []string{"hub https://hub.example/"}},
		{"unknown entity and unquoted attribute", atomFeed + `<title a=b>&nbsp;&unknown; & </title>` + self, []string{"self https://example.org/feed"}},
		{"with a DTD", `<!DOCTYPE rss [<!ENTITY x "y">]>` + rssFeed + hub, []string{"hub https://hub.example/"}},
		{"in another encoding", `<?xml version="1.0" encoding="ISO-8859-1"?>` + rssFeed + "<title>\xe9</title>" + hub + "<atom:link rel='self' href='/\xe9'/>", []string{"hub https://hub.example/", "self https://example.org/%C3%A9"}},
		{"in another encoding, said twice", `<?xml version="1.0" encoding="ISO-8859-1"?><?xml encoding="x"?>` + rssFeed + "<atom:link rel='self' href='/\xe9'/>", []string{"self https://example.org/%C3%A9"}},
		{"relation and target in another namespace", atomFeed + `<link xmlns:x="urn:x" x:rel="hub" x:href="https://hub.example/"/>`, nil},

		{"other namespace", rssFeed + `<link rel="hub" href="https://hub.example/"/>`, nil},
		{"outside of the channel", `<rss xmlns:atom="http://www.w3.org/2005/Atom"><x>` + hub + `</x>` + hub, nil},
		{"deeper", atomFeed + `<x><y>` + self + `</y></x>`, nil},
		{"other root", `<html xmlns="http://www.w3.org/2005/Atom">` + self, nil},
		{"feed of no namespace", `<feed>` + self, nil},
		{"other schemes", atomFeed + `<link rel="self" href="javascript:1"/><link rel="self"/>`, nil},
		{"empty", "", nil},
		{"no XML", "hello", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			links, err := LinksFromFeed(iotest.OneByteReader(strings.NewReader(tc.feed)), "https://example.org/a/b")
			if got := targets(links); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// SRC-14: the Sitemap lines of a robots.txt.
func TestSitemaps(t *testing.T) {
	for _, tc := range []struct {
		name, robots string
		want         []string
	}{
		{"as in the specification", "User-agent: *\nDisallow: /cgi-bin/\nSitemap: http://www.example.com/resourcelist.xml\n", []string{"http://www.example.com/resourcelist.xml"}},
		{"several, each once, anywhere", "Sitemap: https://a.example/1\nUser-agent: x\nSitemap: https://a.example/2\nSitemap: https://a.example/1", []string{"https://a.example/1", "https://a.example/2"}},
		{"of any case, spaces, no space, any end of line", "\ufeffSITEMAP:https://a.example/1\r\n \tsitemap : https://a.example/2 # ours\rsiteMap: https://a.example/3", []string{"https://a.example/1", "https://a.example/2", "https://a.example/3"}},
		{"user and password", "Sitemap: https://me:secret@a.example/1\nSitemap: https://a.example/1", []string{"https://a.example/1"}},
		{"relative", "Sitemap: /rl.xml", []string{"https://example.org/rl.xml"}},
		{"a comment", "# Sitemap: https://a.example/1\nSitemap:# https://a.example/2", nil},
		{"other lines", "Sitemaps: https://a.example/1\nhttps://a.example/1\nsitemap\n:\nSitemap: ftp://a.example/1\nSitemap: http://[", nil},
		{"a line too long, then another", "Sitemap: https://a.example/" + strings.Repeat("x", 2*maxMarkup) + "\nSitemap: https://a.example/2", []string{"https://a.example/2"}},
		{"empty", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Sitemaps(iotest.HalfReader(strings.NewReader(tc.robots)), "https://example.org/robots.txt")
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// endless gives the same text again and again.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[(e.read+i)%len(e.text)]
	}
	e.read += len(p)
	return len(p), nil
}

// What never ends is not read for ever, and what was found before an error of
// the reader comes with it.
func TestDiscoveryIsBounded(t *testing.T) {
	const html, feed, robots = "<link rel=self href=/a>", `<link rel="self" href="/a"/>`, "Sitemap: /"
	kinds := map[string]struct {
		find  func(io.Reader) (int, error)
		start string
		one   string
	}{
		"HTML": {func(r io.Reader) (int, error) {
			links, err := LinksFromHTML(r, "https://example.org/")
			return len(links), err
		}, "", html},
		"feed": {func(r io.Reader) (int, error) {
			links, err := LinksFromFeed(r, "https://example.org/")
			return len(links), err
		}, atomFeed, feed},
		"robots": {func(r io.Reader) (int, error) {
			urls, err := Sitemaps(r, "https://example.org/")
			return len(urls), err
		}, "", robots + "\n"},
	}
	broken := errors.New("broken")
	for name, kind := range kinds {
		for _, text := range []string{kind.one, " ", "<", "<a", "<a><link>", "<a b='", "<!-- ", "<title>", "<template>", "x", "&", "a:\n", "Sitemap: /\n"} {
			source := &endless{text: text}
			n, err := kind.find(io.MultiReader(strings.NewReader(kind.start), source))
			if err != nil || n > maxDiscovered || source.read > maxDiscovery+maxMarkup {
				t.Errorf("%s, %q for ever: %d found, %v, %d bytes read", name, text, n, err, source.read)
			}
			if name != "robots" && text == kind.one && n != maxDiscovered {
				t.Errorf("%s: %d of endless links, want %d", name, n, maxDiscovered)
			}
		}
		n, err := kind.find(io.MultiReader(strings.NewReader(kind.start+kind.one), iotest.ErrReader(broken)))
		if n != 1 || !errors.Is(err, broken) {
			t.Errorf("%s, broken off: %d found, %v", name, n, err)
		}
	}
}

// An encoding counts once: a feed that names one again and again needs no more memory,
// and hence no more time, than its length.
func TestEncodingsAreNotStacked(t *testing.T) {
	doc := strings.Repeat("<?xml encoding='x'?>", 64<<10/20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	links, err := LinksFromFeed(strings.NewReader(doc), "https://example.org/")
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d bytes of a feed took %d KiB and %v", len(doc), took>>10, time.Since(start))
	if limit := 1<<20 + 128*uint64(len(doc)); len(links) != 0 || err != nil || took > limit {
		t.Errorf("%d links, %v, %d bytes were allocated, want %d at most", len(links), err, took, limit)
	}
}

// FuzzDiscovery: whatever the document is, links are absolute http and https
// URLs, and do not change when they are resolved again.
func FuzzDiscovery(f *testing.F) {
	for _, s := range []string{
		`<head><base href="b/"><link rel="a b" href="c"><template></template></head>`, `<!-- <title></title><noscript><link rel=a href=//b>`,
		atomFeed + `<link xml:base="x" href="y"/></feed>`, rssFeed + `<atom:link href="?"/>`, "Sitemap: /a\r\nsitemap:b#c\n",
	} {
		f.Add(s, "https://example.org/a/b?c#d")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, doc, base string) {
		links, err := LinksFromHTML(strings.NewReader(doc), base)
		more, err2 := LinksFromFeed(strings.NewReader(doc), base)
		maps, err3 := Sitemaps(strings.NewReader(doc), base)
		if err != nil || err2 != nil || err3 != nil {
			t.Fatalf("%q: %v, %v, %v", doc, err, err2, err3)
		}
		links = append(links, more...)
		for _, l := range links {
			if l.Rel == "" {
				t.Fatalf("%q, %q: a link without a relation: %+v", doc, base, l)
			}
		}
		for _, u := range maps {
			links = append(links, Link{Href: u})
		}
		for _, l := range links {
			u := target(nil, l.Href)
			if u == nil || u.String() != l.Href {
				t.Fatalf("%q, %q: %q is not absolute: %v", doc, base, l.Href, u)
			}
		}
	})
}
