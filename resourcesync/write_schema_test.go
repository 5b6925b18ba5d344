package resourcesync

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// narrower are the documents that the text of the specification allows and the
// schemas do not, by the rule that says so.
var narrower = map[string]string{
	"changelist-empty":   "DOC-50", // the schema of sitemaps wants an entry
	"resourcelist-types": "DOC-58", // that of ResourceSync knows no dots and no parameters
}

// What is written is valid by the schemas of sitemaps and of ResourceSync 1.1 (DOC-51,
// DOC-61), except where these are narrower than the text.
func TestWrittenIsValid_DOC51_DOC61(t *testing.T) {
	for name, d := range writtenDocuments {
		t.Run(name, func(t *testing.T) {
			said, err := xmllint(t, schemaOf(&d.head), write(t, d))
			switch rule := narrower[name]; {
			case rule == "" && err != nil:
				t.Errorf("%v: %s", err, said)
			case rule != "" && err == nil:
				t.Errorf("the schema takes it, so %s is no exception any more", rule)
			}
		})
	}
}

// So are documents with whatever else they can say.
func TestDrawnIsValid_DOC51_DOC61(t *testing.T) {
	draw := rapid.Custom(drawDocument)
	for seed := range 50 {
		d := draw.Example(seed)
		if len(d.entries) == 0 {
			continue // DOC-50
		}
		// DOC-58
		for i := range d.entries {
			d.entries[i].Type = strings.ReplaceAll(d.entries[i].Type, "; charset=\"utf-8\"", "")
		}
		for _, links := range append([][]Link{d.head.Links}, linksOf(d.entries)...) {
			for i := range links {
				links[i].Type = strings.ReplaceAll(links[i].Type, "; charset=\"utf-8\"", "")
			}
		}
		text := write(t, d)
		if said, err := xmllint(t, schemaOf(&d.head), text); err != nil {
			t.Errorf("%v: %s\n%s", err, said, text)
		}
	}
}

func linksOf(entries []Entry) [][]Link {
	var all [][]Link
	for _, e := range entries {
		all = append(all, e.Links)
	}
	return all
}

func schemaOf(h *Head) string {
	root, _ := elementNames(h.Index)
	return filepath.Join("..", "..", "shared", "spec-examples", root+".xsd")
}

// xmllint checks a document with a schema.
func xmllint(t *testing.T, schema string, doc []byte) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("there is no xmllint on this machine; make test installs it")
	}
	if _, err := os.Stat(schema); err != nil {
		t.Skipf("there are no schemas beside the project: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "--nonet", "--noout", "--schema", schema, "-")
	cmd.Stdin = bytes.NewReader(doc)
	said, err := cmd.CombinedOutput()
	return string(said), err
}
