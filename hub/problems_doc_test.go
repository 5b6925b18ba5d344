package hub

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The type of each problem leads to a heading that exists.
func TestEveryProblemIsDocumented(t *testing.T) {
	source, err := os.ReadFile("problems.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	slugs := regexp.MustCompile(`kind\{http\.Status\w+, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(slugs) < 30 {
		t.Fatalf("%d kinds of problems were found in problems.go", len(slugs))
	}
	for _, m := range slugs {
		if !strings.Contains(string(page), "\n### "+m[1]+"\n") {
			t.Errorf("docs/problems.md has no heading %q", m[1])
		}
	}
}
