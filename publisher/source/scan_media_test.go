package source

import (
	"mime"
	"strings"
	"testing"
)

// DOC-58
func TestMediaType_DOC58(t *testing.T) {
	for _, c := range []struct{ name, first, want string }{
		{"a.html", "", "text/html"},
		{"a/b.PDF", "no PDF", "application/pdf"},
		{"a.tar.gz", "", "application/gzip"},
		{"a.xml", "<html>", "application/xml"},
		{"page", "<!DOCTYPE html>", "text/html"},
		{"a.unknown", "\x89PNG\x0d\x0a\x1a\x0a", "image/png"},
		{"text", "words", "text/plain"},
		{"bytes", "\x00\x01\x02", "application/octet-stream"},
		{"empty", "", "application/octet-stream"},
		{".html", "", "text/html"},
		{"a.", "words", "text/plain"},
		{"a.d/b", "words", "text/plain"},
	} {
		if got := MediaType(c.name, []byte(c.first)); got != c.want {
			t.Errorf("%q with %q: got %s, want %s", c.name, c.first, got, c.want)
		}
	}
	for ext, name := range mediaTypes {
		if parsed, params, err := mime.ParseMediaType(name); err != nil || parsed != name || len(params) > 0 || ext != strings.ToLower(ext) {
			t.Errorf("%s: %s is no media type: %v", ext, name, err)
		}
	}
}
