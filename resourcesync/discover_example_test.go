package resourcesync_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// Which Capability List covers a page?
func ExampleLinksFromHTML() {
	const page = `<!DOCTYPE html>
<html><head><title>Books</title><link rel="resourcesync" href="/books/capabilitylist.xml"></head>
<body><link rel="resourcesync" href="https://elsewhere.example.net/"></body></html>`
	links, err := resourcesync.LinksFromHTML(strings.NewReader(page), "https://example.org/books/1")
	if err != nil {
		fmt.Println(err)
	}
	for _, l := range links {
		fmt.Println(l.Rel, l.Href)
	}
	// Output: resourcesync https://example.org/books/capabilitylist.xml
}

// Is a copy of a resource what its list says?
func ExampleHasher() {
	said := resourcesync.ParseHashes("md5:900150983cd24fb0d6963f7d28e17f72 crc32:352441c2")
	h := resourcesync.NewHasher(said.Algorithms()...)
	if _, err := io.Copy(h, strings.NewReader("abc")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(h.Length(), h.Digests(), said.Compare(h.Digests()))
	fmt.Println(said.Compare(resourcesync.Digests{}))
	// Output:
	// 3 md5:900150983cd24fb0d6963f7d28e17f72 equal
	// cannot tell
}
