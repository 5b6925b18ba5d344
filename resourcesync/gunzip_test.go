package resourcesync

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// packed compresses a document, in one part or more.
func packed(t *testing.T, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, part := range parts {
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, part); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// DOC-60: a compressed document is read as if it were not.
func TestGzip_DOC60(t *testing.T) {
	doc := urlset(listMD, strings.Repeat(urlOf(`<rs:md length="1"/>`), 100))
	want := readDocument(strings.NewReader(doc), ReadOptions{Strict: true})
	for name, z := range map[string][]byte{
		"one part": packed(t, doc), "two parts": packed(t, doc[:700], doc[700:]), "empty parts": packed(t, "", doc, "", ""),
	} {
		got := readDocument(iotest.HalfReader(bytes.NewReader(z)), ReadOptions{Strict: true, Gzip: true})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reading{}), cmp.Comparer(sameError)); diff != "" || got.err != nil {
			t.Errorf("%s: %v\n%s", name, got.err, diff)
		}
	}
}

func TestBrokenGzip(t *testing.T) {
	z := packed(t, urlset(listMD, listURL))
	damaged := bytes.Clone(z)
	damaged[len(damaged)-6] ^= 1 // the checksum
	for name, tc := range map[string]struct {
		z    []byte
		want error
	}{
		"not compressed": {[]byte(urlset(listMD)), gzip.ErrHeader},
		"cut short":      {z[:len(z)-9], io.ErrUnexpectedEOF},
		"damaged":        {damaged, gzip.ErrChecksum},
		"more after it":  {append(bytes.Clone(z), "more"...), io.ErrUnexpectedEOF},
	} {
		got := readDocument(bytes.NewReader(tc.z), ReadOptions{Gzip: true})
		if !errors.Is(got.err, tc.want) || !strings.Contains(got.err.Error(), "gzip") || strings.Contains(got.err.Error(), "unexpected EOF") {
			t.Errorf("%s: %v, want %v", name, got.err, tc.want)
		}
	}
	var e *Error
	twice := packed(t, string(z))
	if got := readDocument(bytes.NewReader(twice), ReadOptions{Gzip: true}); !errors.As(got.err, &e) || !strings.Contains(e.Msg, "more than once") {
		t.Errorf("compressed twice: %v", got.err)
	}
	cut := io.MultiReader(bytes.NewReader(z[:len(z)-9]), iotest.ErrReader(fmt.Errorf("the answer ended: %w", io.ErrUnexpectedEOF)))
	if got := readDocument(cut, ReadOptions{Gzip: true}); !strings.Contains(got.err.Error(), "the answer ended") {
		t.Errorf("an answer that ended: %v", got.err)
	}
}

// Limits.Bytes bounds both the output and the input, and neither fills the memory before
// it is noticed.
func TestGzipIsBounded_DOC60(t *testing.T) {
	const limit = 1 << 20
	huge := urlset(listMD, strings.Repeat(" ", 16<<20))
	empty := bytes.Repeat(packed(t, ""), limit/16)
	for name, tc := range map[string]struct {
		z   []byte
		msg string
	}{
		"out": {packed(t, huge), "longer than 1048576 bytes"},
		"in":  {append(empty, packed(t, urlset(listMD))...), "the compressed document is longer"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := readDocument(bytes.NewReader(tc.z), ReadOptions{Limits: Limits{Bytes: limit}, Gzip: true})
		runtime.ReadMemStats(&after)
		var e *Error
		if !errors.As(got.err, &e) || e.Kind != OverLimit || e.Rule != "DOC-60" || !strings.Contains(e.Msg, tc.msg) {
			t.Errorf("%s: %v", name, got.err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > limit {
			t.Errorf("%s: %d bytes allocated", name, took)
		}
	}
}
