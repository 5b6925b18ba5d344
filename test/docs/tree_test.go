package docs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// largest is the size of the largest file that may be in the repository, in bytes.
const largest = 256 << 10

// What is built is not in the repository.
func TestNothingBuiltIsTracked(t *testing.T) {
	atRoot(t)
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("this is no clone: ", err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(name); err == nil && info.Size() > largest {
			t.Errorf("%s has %d bytes: if a program made it, remove it and name it in .gitignore", name, info.Size())
		}
	}
}
