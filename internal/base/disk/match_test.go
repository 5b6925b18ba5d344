package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, name := range []string{"plain", "[", "a [1]", "*", "?", `back\slash`} {
		dir := filepath.Join(t.TempDir(), name)
		var want []string
		for _, file := range []string{"set-1/want", "set-2/want", "set-3/other", "other-1/want"} {
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if match, _ := filepath.Match("set-?/want", file); match {
				want = append(want, path)
			}
		}
		if got := Match(dir, "set-*/want"); len(got) != 2 || !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Match(filepath.Join(t.TempDir(), "none"), "*"); got != nil {
		t.Errorf("of a folder that is not there: %q", got)
	}
}
