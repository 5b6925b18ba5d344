package resourcesync

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withoutUp are the examples with which the specification opens: they leave out
// the link to the Capability List, which the sections on their kinds demand.
var withoutUp = map[string]string{
	"resourcesync_ex_1.xml": "DOC-34",
	"resourcesync_ex_2.xml": "DOC-34",
	"resourcesync_ex_3.xml": "DOC-39",
	"resourcesync_ex_4.xml": "DOC-36",
	"resourcesync_ex_5.xml": "DOC-38",
	"resourcesync_ex_8.xml": "DOC-35",
}

// The examples of version 1.1, read, written and read again, say what they said.
// Those without a link to the Capability List cannot be written until they have one.
func TestExamplesAreWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "shared", "spec-examples", "1.1", "examples", "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("there are no examples beside the project")
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "resourcesync_ex_9.xml" {
			continue // a page of HTML
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := read(text, ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if rule, ok := withoutUp[name]; ok {
				_, err := doc.write()
				wantRefusal(t, err, rule, "up")
				doc.head.Links = append(doc.head.Links, Link{Rel: "up", Href: site + "capabilitylist.xml"})
			}
			wantTheSame(t, doc)
		})
	}
}

// Our own examples too, except the one kind that is read and no longer written.
func TestTestdataIsWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "documents", "*.xml"))
	if err != nil || len(files) < len(documents)+len(indexes) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := read(text, ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(file), "capabilitylist-index") {
				_, err := doc.write()
				wantRefusal(t, err, "DOC-33", "should not be written")
				return
			}
			wantTheSame(t, doc)
		})
	}
}

// wantTheSame checks that a document is the same after it was written and read.
func wantTheSame(t *testing.T, doc written) {
	t.Helper()
	text := write(t, doc)
	again, err := read(text, ReadOptions{Strict: true})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(doc, again, sameDocument); diff != "" {
		t.Errorf("read again (-, +):\n%s", diff)
	}
	if last := write(t, again); !bytes.Equal(last, text) {
		t.Errorf("written again:\n%s\nand not\n%s", last, text)
	}
}
