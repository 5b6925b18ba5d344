package resourcesync

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzReader: the tolerant and the strict Reader agree on every document, in whatever
// chunks it comes, and with CheckNotification on those that it accepts; and none needs
// memory beyond its size.
func FuzzReader(f *testing.F) {
	for _, tc := range tolerable {
		f.Add(tc.doc)
	}
	for _, tc := range notificationRules {
		f.Add(tc.doc)
	}
	files, err := filepath.Glob("../testdata/documents/*.xml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(doc))
	}
	f.Fuzz(func(t *testing.T, doc string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := readDocument(strings.NewReader(doc), ReadOptions{})
		runtime.ReadMemStats(&after)
		// An empty entry is the least that a document can say and the most that it
		// makes of that.
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20+128*uint64(len(doc)) {
			t.Fatalf("%d bytes allocated for %d of document: %q", took, len(doc), doc)
		}
		again := readDocument(iotest.HalfReader(strings.NewReader(doc)), ReadOptions{})
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(reading{}), cmp.Comparer(sameError)); diff != "" {
			t.Fatalf("%q: in other chunks\n%s", doc, diff)
		}
		checkReading(t, doc, got)
		checkStrict(t, doc, got)
		if n, err := CheckNotification(strings.NewReader(doc), Limits{}); err == nil {
			var e *Error
			if errors.As(got.err, &e) && e.Kind == OverLimit {
				return // of links, which are kept here
			}
			if got.err != nil || len(got.entries) != n.Entries || !got.head.From.Equal(n.From) || !got.head.Until.Equal(n.Until) {
				t.Fatalf("%q: CheckNotification takes %+v; read %+v", doc, n, got)
			}
		}
	})
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// checkReading checks what is true of everything that is read.
func checkReading(t *testing.T, doc string, got reading) {
	t.Helper()
	var e *Error
	if got.err != nil && (!errors.As(got.err, &e) || e.Line < 1 || e.Column < 1 || e.Msg == "" || !utf8.ValidString(e.Msg)) {
		t.Fatalf("%q: %v", doc, got.err)
	}
	if len(got.tolerated) > got.count || got.count <= mostAlike && len(got.tolerated) < got.count {
		t.Fatalf("%q: %d tolerations, %d kept", doc, got.count, len(got.tolerated))
	}
	for _, x := range got.tolerated {
		if x.Line < 1 || x.Column < 1 || x.Msg == "" || !utf8.ValidString(x.Msg) || !strings.HasPrefix(x.Rule, "DOC-") {
			t.Fatalf("%q: tolerated %+v", doc, x)
		}
	}
	for _, e := range got.entries {
		if e.Loc == "" || e.Line < 1 || e.Column < 1 || e.Length < 0 || e.Path != "" && !isPath(e.Path) {
			t.Fatalf("%q: %+v", doc, e)
		}
		for _, l := range e.Links {
			if l.Rel == "" || l.Href == "" || l.Pri < 0 || l.Pri > 999_999 {
				t.Fatalf("%q: %+v", doc, l)
			}
		}
	}
}

// checkStrict reads a document strictly: it gets the same if nothing had to be tolerated,
// and otherwise the first toleration as its error.
func checkStrict(t *testing.T, doc string, got reading) {
	t.Helper()
	strict := readDocument(strings.NewReader(doc), ReadOptions{Strict: true})
	if got.count == 0 {
		if diff := cmp.Diff(got, strict, cmp.AllowUnexported(reading{}), cmp.Comparer(sameError)); diff != "" {
			t.Fatalf("%q: strictly\n%s", doc, diff)
		}
		return
	}
	first := got.tolerated[0]
	var e *Error
	if !errors.As(strict.err, &e) || e.Rule != first.Rule || e.Line != first.Line || e.Column != first.Column {
		t.Fatalf("%q: strictly %v, tolerated %v", doc, strict.err, first)
	}
}
