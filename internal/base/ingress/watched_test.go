package ingress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is being written is not read before it is left alone.
func TestFilesThatAreBeingWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("")
	var w Watched
	w.Take(name)
	for i := range 5 {
		put(strings.Repeat("x", i+1))
		if w.Changed() {
			t.Errorf("look %d: it is to be read, though it has just changed", i)
		}
	}
	for look := range 2 {
		if !w.Changed() {
			t.Errorf("look %d: it is not to be read, though it is left alone", look)
		}
	}
	if w.Take(name); w.Changed() {
		t.Error("it is to be read again")
	}
}
