package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promise is an item of docs/security.md's section about what is promised.
var promise = regexp.MustCompile(`(?m)^- (\*\*)?(.*)$`)

// promises returns the items of that section, by their first line, each with the
// tests that it names, and what is wrong with them.
func promises(text string) (found map[string][]string, wrong []string) {
	_, section, ok := strings.Cut(text, "\n## What is promised\n")
	if !ok {
		return nil, []string{"there is no section about what is promised"}
	}
	section, _, _ = strings.Cut(section, "\n## ")
	found = make(map[string][]string)
	starts := promise.FindAllStringSubmatchIndex(section, -1)
	for i, at := range starts {
		end := len(section)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := section[at[4]:at[5]]
		if at[2] < 0 {
			wrong = append(wrong, "it does not say in bold what is promised: "+name)
		}
		for _, m := range testName.FindAllStringSubmatch(section[at[0]:end], -1) {
			found[name] = append(found[name], m[1])
		}
		if len(found[name]) == 0 {
			wrong = append(wrong, "no test stands behind: "+name)
		}
	}
	return found, wrong
}

var (
	flagName    = regexp.MustCompile("`--([a-z-]+)")
	settingRow  = regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|")
	settingKey  = regexp.MustCompile(`(?m)^([a-z-]+): `)
	metricNamed = regexp.MustCompile("`(rshub_[a-z_]+)")
	yamlBlock   = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
)

// endFlag is where a flag of rspub or rssub is made.
var endFlag = regexp.MustCompile(`lags?(?:\(\))?\.[A-Za-z0-9]+\([^"\n]*"([a-z-]+)"`)

// endFlags returns the flags of rspub and rssub, by their sources.
func endFlags(t *testing.T) (flags []string) {
	t.Helper()
	for _, pattern := range []string{"cmd/rspub/*.go", "cmd/rssub/*.go", "internal/program/cli/flags.go", "internal/program/cli/server.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			for _, m := range endFlag.FindAllStringSubmatch(readDoc(t, name), -1) {
				flags = append(flags, m[1])
			}
		}
	}
	return flags
}

// unknownNames returns the settings and metrics that a document names and neither
// docs/operations.md nor others list.
func unknownNames(text, operations string, others ...string) []string {
	settings, unknown := others, []string(nil)
	for _, m := range settingRow.FindAllStringSubmatch(operations, -1) {
		settings = append(settings, m[1])
	}
	named := flagName.FindAllStringSubmatch(text, -1)
	for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
		named = append(named, settingKey.FindAllStringSubmatch(block[1], -1)...)
	}
	for _, m := range named {
		if !slices.Contains(settings, m[1]) {
			unknown = append(unknown, m[1])
		}
	}
	for _, m := range metricNamed.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(operations, "| `"+m[1]+"` |") {
			unknown = append(unknown, m[1])
		}
	}
	return unknown
}

// Each promise of docs/security.md has a test that exists, and every setting and metric that it names
// for an operator exists.
func TestSecurity(t *testing.T) {
	atRoot(t)
	text := readDoc(t, "docs/security.md")
	found, wrong := promises(text)
	for _, w := range wrong {
		t.Error(w)
	}
	if len(found) < 20 {
		t.Errorf("%d promises were read only", len(found))
	}
	all := make(tests)
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		if _, ok, err := all.find(m[1]); err != nil || !ok {
			t.Errorf("there is no %s: %v", m[1], err)
		}
	}
	for _, name := range unknownNames(text, readDoc(t, "docs/operations.md"), endFlags(t)...) {
		t.Errorf("%s is named, and is no setting or metric", name)
	}
}

func TestSecurityIsChecked(t *testing.T) {
	atRoot(t)
	const head = "# S\n- no promise\n\n## What is promised\n\nTo all:\n\n"
	for text, want := range map[string]string{
		head + "- **A,** x\n  (`a.TestX`,\n  `b/c.TestY`)\n\n## Next\n- x\n": "",
		head + "- **A,** x\n- **B** (`a.TestX`)\n":                           "no test stands behind: A,",
		head + "- A (`a.TestX`)\n":                                           "in bold",
		"# S\n":                                                              "no section",
	} {
		found, wrong := promises(text)
		if got := strings.Join(wrong, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if want == "" && !slices.Equal(found["A,** x"], []string{"a.TestX", "b/c.TestY"}) {
			t.Errorf("%v", found)
		}
	}
	const operations = "| `--a-b` | x |\n| `rshub_x` | x |\n"
	got := unknownNames("`--a-b`, `--a-b=1`, `--c` `rshub_x` `rshub_y`\n```yaml\na-b: 1\nd: 2 # x\n```\n", operations)
	if want := []string{"c", "d", "rshub_y"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
