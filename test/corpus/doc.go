// Package corpus gives tests the documents of testdata/ at the top of the repository.
package corpus

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The folders of testdata/. Its README says what is in each.
const (
	Documents = "documents"
	Malformed = "malformed"
)

// Read returns the XML files of a folder by name, without `.xml`. The test fails if there
// are none.
func Read(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := os.DirFS(filepath.Join(filepath.Dir(here), "..", "..", "testdata", folder))
	files, err := fs.Glob(root, "*.xml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/%s has %d documents: %v", folder, len(files), err)
	}
	all := make(map[string][]byte, len(files))
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(file, ".xml")] = text
	}
	return all
}
