package resourcesync

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/corpus"
)

// shared returns the files below a folder that lies beside the module, and skips the test
// if it does not.
func shared(t *testing.T, pattern ...string) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skip("no go.mod above this folder")
		}
		dir = parent
	}
	files, err := filepath.Glob(filepath.Join(append([]string{dir, "..", "shared"}, pattern...)...))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("%s is not beside the module", filepath.Join(pattern...))
	}
	return files
}

// The scanner by itself refuses every document of the W3C conformance suite that
// is not well-formed. The same errors are in TestMalformedAndTheirTwins.
func TestNotWellFormedSuite(t *testing.T) {
	files := shared(t, "xml-not-wf", "*.xml")
	// Their XML declaration is wrong, and comes before the DTD.
	declarationFirst := map[string]bool{"oasis-p39fail5.xml": true, "sun-sgml02.xml": true}
	withoutDTD := 0
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		_, err = scan(strings.NewReader(withoutNamespaces(string(doc))), Limits{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v, want an *Error", name, err)
			continue
		}
		utf16 := bytes.HasPrefix(doc, []byte("\xff\xfe")) || bytes.HasPrefix(doc, []byte("\xfe\xff"))
		if !utf16 && !bytes.Contains(doc, []byte("<!DOCTYPE")) {
			withoutDTD++
			if e.Kind != NotWellFormed && e.Kind != BadEncoding {
				t.Errorf("%s: %v: %v", name, e.Kind, e)
			}
			continue
		}
		if e.Kind != HasDTD && e.Kind != BadEncoding && !declarationFirst[name] {
			t.Errorf("%s: %v: %v, want its encoding or its DTD", name, e.Kind, e)
		}
	}
	if withoutDTD != 192 || len(files) != 474 {
		t.Errorf("%d documents, %d of them UTF-8 without a DTD; want 474 and 192", len(files), withoutDTD)
	}
}

// specExamples returns the example documents of the specifications, by file.
func specExamples(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, file := range append(shared(t, "spec-examples", "1.1", "examples", "*.xml"), shared(t, "spec-examples", "0.9*", "examples", "*.xml")...) {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs[file] = string(doc)
	}
	return docs
}

// closedChangeList is what the root's rs:md of a closed Change List looks like.
var closedChangeList = regexp.MustCompile(`<rs:md capability="changelist"\s+from="[^"]*"\s+until=`)

// The example documents of the specifications are well-formed. None of them is a
// notification, but a closed Change List says all that one does (DOC-12).
func TestSpecExamples_DOC12(t *testing.T) {
	lists := 0
	for file, doc := range specExamples(t) {
		if _, err := scan(strings.NewReader(doc), Limits{}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		n, err := CheckNotification(strings.NewReader(doc), Limits{})
		if strings.Contains(doc, "<urlset") && closedChangeList.MatchString(doc) {
			if lists++; err != nil || !n.Legacy || n.Entries == 0 {
				t.Errorf("%s: %+v, %v", file, n, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != BadDocument {
			t.Errorf("%s: got %+v, %v; want that it is no notification", file, n, err)
		}
	}
	if lists == 0 {
		t.Error("no closed Change List among them")
	}
}

// The Change Lists of the specifications are good once they are called
// notifications and closed, whatever links and hashes they have (DOC-19,
// DOC-54, DOC-55).
func TestSpecExamplesAsNotifications(t *testing.T) {
	open := regexp.MustCompile(`<rs:md capability="changelist"`)
	good := 0
	for file, doc := range specExamples(t) {
		at := open.FindStringIndex(doc)
		if at == nil || !strings.Contains(doc, "<urlset") || strings.Contains(doc[:at[0]], "<url>") {
			continue
		}
		until := ""
		if !closedChangeList.MatchString(doc) {
			until = ` until="2100-01-01T00:00:00Z"`
		}
		doc = doc[:at[0]] + `<rs:md capability="change-notification"` + until + doc[at[1]:]
		n, err := CheckNotification(strings.NewReader(doc), Limits{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		good++
		entries, _, err := readAll(strings.NewReader(doc), Limits{})
		if err != nil || len(entries) != n.Entries || n.Entries == 0 {
			t.Errorf("%s: %+v, %d entries read, %v", file, n, len(entries), err)
		}
	}
	if good < 5 {
		t.Errorf("only %d examples were tried", good)
	}
}

// No reader accepts a document of ours that is not well-formed, has a DTD or another
// encoding (DOC-10).
func TestMalformedDocuments(t *testing.T) {
	for name, doc := range corpus.Read(t, corpus.Malformed) {
		_, notification := CheckNotification(bytes.NewReader(doc), Limits{})
		readers := map[string]error{
			"CheckNotification": notification,
			"Reader":            readDocument(bytes.NewReader(doc), ReadOptions{}).err,
			"strict Reader":     readDocument(bytes.NewReader(doc), ReadOptions{Strict: true}).err,
		}
		for reader, err := range readers {
			var e *Error
			switch {
			case !errors.As(err, &e):
				t.Errorf("%s: %s: %v, want an *Error", name, reader, err)
			case (e.Kind == HasDTD) != strings.HasPrefix(name, "dtd"), (e.Kind == BadEncoding) != strings.HasPrefix(name, "encoding"):
				t.Errorf("%s: %s: %v: %v", name, reader, e.Kind, e)
			}
		}
	}
}
