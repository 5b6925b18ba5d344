package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// A credential follows its file; what is no credential changes nothing.
func TestCredentialFollowsItsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	if _, err := ReadCredential("--token-file", name); err == nil {
		t.Error("a file that is not there passes")
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	c, err := ReadCredential("--token-file", name)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	c.refused = func(err error) {
		if refused++; err == nil {
			t.Error("it is refused without an error")
		}
	}
	want := func(what, want string) {
		t.Helper()
		before := refused
		for range 3 {
			if got := c.Get(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		bad := map[string]int{"two lines": 1, "empty": 1, "gone": 1}
		if refused-before != bad[what] {
			t.Errorf("%s: refused %d times, want %d", what, refused-before, bad[what])
		}
	}
	want("at first", "first")
	write("other")
	want("replaced", "other")
	write("two\nlines")
	want("two lines", "other")
	write("")
	want("empty", "other")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	want("gone", "other")
	write("third")
	want("back", "third")
	if none, err := ReadCredential("--token-file", ""); err != nil || none.Get() != "" {
		t.Errorf("no file: %q, %v", none.Get(), err)
	}
}
