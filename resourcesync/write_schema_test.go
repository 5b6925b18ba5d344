package resourcesync

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// narrower are the documents that the text of the specification allows and the
// schemas do not, by the rule that says so.
var narrower = map[string]string{
	"changelist-empty":   "DOC-50", // the schema of sitemaps wants an entry
	"resourcelist-types": "DOC-58", // that of ResourceSync knows no dots and no parameters
}

// What is written is valid by the schemas of sitemaps and of ResourceSync 1.1
// (DOC-51, DOC-61), but where these are narrower than the text.
func TestWrittenIsValid_DOC51_DOC61(t *testing.T) {
	for name, d := range writtenDocuments {
		t.Run(name, func(t *testing.T) {
			schema := filepath.Join("..", "..", "shared", "spec-examples", rootOf(&d.head)+".xsd")
			said, err := xmllint(t, schema, write(t, d))
			switch rule := narrower[name]; {
			case rule == "" && err != nil:
				t.Errorf("%v: %s", err, said)
			case rule != "" && err == nil:
				t.Errorf("the schema takes it, so %s is no exception any more", rule)
			}
		})
	}
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
