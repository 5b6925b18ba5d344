package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var printsWhole = regexp.MustCompile(`zap\.(Any|Reflect|Inline|Object)\(|%[+#]v`)

// wholePrints finds the lines that print all fields of a value, secrets among
// them.
func wholePrints(source string) (lines []string) {
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "//") && printsWhole.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Nothing prints a value as a whole: subscriptions, requests and settings hold
// secrets, so fields are logged one by one.
func TestNothingPrintsWholeValues(t *testing.T) {
	atRoot(t)
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "tools", "test", "testdata", "storetest"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, line := range wholePrints(string(source)) {
			t.Errorf("%s prints a whole value: %s", path, line)
		}
		seen++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d files were read", seen)
	}
	const source = `package p
	log.Info("x", zap.Any("request", r))
	return fmt.Errorf("https://example.org/ %+v", r)
	x := fmt.Sprintf("%#v", s)
	// GoString is for %#v.
	zap.String("a", b)
	fmt.Errorf("%v", err)
`
	if n := len(wholePrints(source)); n != 3 {
		t.Errorf("%d of 3 lines are found", n)
	}
}
