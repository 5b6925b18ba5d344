package draws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSeeds(t *testing.T) {
	for _, tc := range []struct {
		times, first string
		want         []uint64
	}{
		{"", "", []uint64{0, 1}},
		{"2", "", []uint64{0, 1, 2, 3}},
		{"1", "7", []uint64{7, 8}},
	} {
		t.Setenv(times, tc.times)
		t.Setenv(first, tc.first)
		if got := slices.Collect(Seeds(2)); !slices.Equal(got, tc.want) {
			t.Errorf("%q, %q: %v", tc.times, tc.first, got)
		}
	}
	t.Setenv(times, "many")
	defer func() {
		if recover() == nil {
			t.Error("many is a number")
		}
	}()
	Times()
}

var (
	ofHistories = regexp.MustCompile(`(?m)^HISTORIES *= (.+)$`)
	tests       = regexp.MustCompile(`(?m)^func (Test\w+)`)
	uses        = regexp.MustCompile(`draws\.(Seeds|Times)\(`)
)

// make histories runs every test that uses this package.
func TestMakeRunsThemAll(t *testing.T) {
	root, own := filepath.Join("..", ".."), "draws_test.go"
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	runs := regexp.MustCompile(string(ofHistories.FindSubmatch(makefile)[1]))
	seen := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || d.Name() == own {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		src := string(b)
		starts := tests.FindAllStringSubmatchIndex(src, -1)
		for i, at := range starts {
			name, body := src[at[2]:at[3]], src[at[0]:]
			if i+1 < len(starts) {
				body = src[at[0]:starts[i+1][0]]
			}
			if !uses.MatchString(body) {
				continue
			}
			if seen++; !runs.MatchString(name) {
				t.Errorf("%s: make histories does not run %s", path, name)
			}
		}
		return nil
	})
	if err != nil || seen < 13 {
		t.Errorf("%d tests were seen, %v", seen, err)
	}
}
