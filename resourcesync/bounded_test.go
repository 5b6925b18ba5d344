package resourcesync

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A namespace is declared once and may be long; the attributes that are in it
// must not each have a copy of it. DOC-10.
func TestAttributesShareTheirNamespace_DOC10(t *testing.T) {
	links, attributes := 500, 29
	namespace := "urn:" + strings.Repeat("x", 16000)
	link := `<rs:ln rel="related" href="https://example.org/b"`
	for i := range attributes {
		link += fmt.Sprintf(` own:a%d=""`, i)
	}
	doc := fmt.Sprintf(`<urlset xmlns=%q xmlns:rs=%q xmlns:own=%q><url><loc>https://example.org/a</loc>%s</url></urlset>`,
		sitemapURI, rsURI, namespace, strings.Repeat(link+"/>", links))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := entriesOf(t, doc)[0]
	runtime.ReadMemStats(&after)
	if last := e.Links[links-1].Attributes; len(last) != attributes || last[attributes-1].Space != namespace {
		t.Fatalf("%d attributes of the last link", len(last))
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64*uint64(len(doc)) {
		t.Errorf("%d bytes for a document of %d", took, len(doc))
	}
}

func entriesOf(t *testing.T, doc string) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range NewReader(strings.NewReader(doc), ReadOptions{}).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// White space and control characters are found wherever they stand. DOC-16.
func TestAbsoluteURIs_DOC16(t *testing.T) {
	const long = "https://example.org/dataset1/resource"
	for i := len("https:"); i < len(long); i++ {
		for c := range 256 {
			b := []byte(long)
			b[i] = byte(c)
			if got, want := isAbsoluteURI(b), c > ' ' && c != 0x7F; got != want {
				t.Fatalf("%q: %v", b, got)
			}
		}
	}
	for uri, want := range map[string]bool{
		"urn:x": true, "a+b-c.1:x": true, "": false, ":": false, "a:": false, ":x": false, "/a": false, "1a:x": false, "a_b:x": false, "é:x": false,
	} {
		if got := isAbsoluteURI([]byte(uri)); got != want {
			t.Errorf("%q: %v", uri, got)
		}
	}
}
