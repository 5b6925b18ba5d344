package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules that a hub of this version answers for; there is no HUB-19, no HUB-31
// to 39, and no HUB-58 and 59. Each is a row of docs/conformance.md, or docs/departures.md says
// why it is not.
var rules = slices.Concat(
	numbered("HUB", 1, 18), numbered("HUB", 20, 30), numbered("HUB", 40, 57),
	numbered("HUB", 60, 61),
	numbered("DOC", 10, 20), numbered("DOC", 30, 46), numbered("DOC", 50, 61),
	numbered("SRC", 1, 17),
	numbered("DST", 1, 19),
	numbered("LNK", 1, 12),
	numbered("MEM", 1, 2),
)

// later are the rules that this version makes no claim about.
var later = numbered("HUB", 62, 62)

func numbered(area string, first, last int) []string {
	var ids []string
	for n := first; n <= last; n++ {
		ids = append(ids, fmt.Sprintf("%s-%02d", area, n))
	}
	return ids
}

// row is a rule as docs/conformance.md lists it.
type row struct {
	id    string
	tests []string // each a package's folder, a dot and a function
}

var (
	ruleID   = regexp.MustCompile(`\b(?:HUB|DOC|SRC|DST|LNK|MEM)-\d{2}\b`)
	testName = regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz|Example)\\w+)`")
	testFunc = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func ((?:Test|Fuzz|Example)\w+)\(`)
)

// conformance reads the rows of docs/conformance.md: ID, what the hub does,
// clause, tests. What is not of that form is in wrong.
func conformance(text string) (rows []row, wrong []string) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !ruleID.MatchString(cells[0]) {
			if strings.HasPrefix(line, "|") && cells[0] != "ID" && cells[0] != "---" {
				wrong = append(wrong, "a row without an ID: "+line)
			}
			continue
		}
		if !strings.HasPrefix(line, "|") {
			continue // prose that names a rule
		}
		if len(cells) != 4 || slices.Contains(cells, "") {
			wrong = append(wrong, fmt.Sprintf("%s: want four cells that are not empty", cells[0]))
			continue
		}
		r := row{id: cells[0]}
		for _, m := range testName.FindAllStringSubmatch(cells[3], -1) {
			r.tests = append(r.tests, m[1])
		}
		if want := strings.Count(cells[3], ",") + 1; len(r.tests) != want {
			wrong = append(wrong, fmt.Sprintf("%s: %d of its %d tests can be read", r.id, len(r.tests), want))
		}
		rows = append(rows, r)
	}
	return rows, wrong
}

// unclaimed returns what is wrong with the rows as a whole: a rule that is there
// twice, that is in neither document, or that is not one of this version's.
func unclaimed(rows []row, departures string) (wrong []string) {
	explained := ruleID.FindAllString(departures, -1)
	var listed []string
	for _, r := range rows {
		if slices.Contains(listed, r.id) {
			wrong = append(wrong, r.id+" is there twice")
		}
		listed = append(listed, r.id)
		if !slices.Contains(rules, r.id) {
			wrong = append(wrong, r.id+" is no rule that this version answers for")
		}
	}
	for _, id := range rules {
		if !slices.Contains(listed, id) && !slices.Contains(explained, id) {
			wrong = append(wrong, id+" is in neither document")
		}
	}
	for _, id := range later {
		if !slices.Contains(explained, id) {
			wrong = append(wrong, id+" comes later, and departures.md does not say so")
		}
	}
	for _, id := range explained {
		if !slices.Contains(rules, id) && !slices.Contains(later, id) {
			wrong = append(wrong, id+" is explained, and no rule of this version")
		}
	}
	return wrong
}

// tests are what the packages have to run, by folder, name and comment. A folder
// is read when it is asked for.
type tests map[string]map[string]string

// find returns the comment of a test, such as `websub.TestX`.
func (ts tests) find(test string) (comment string, ok bool, err error) {
	folder, name, _ := strings.Cut(test, ".")
	if ts[folder] == nil {
		if ts[folder], err = testsIn(folder); err != nil {
			return "", false, err
		}
	}
	comment, ok = ts[folder][name]
	return comment, ok, nil
}

// testsIn returns the tests, fuzz targets and examples of a package's folder,
// each with the comment above it.
func testsIn(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
			found[m[2]] = strings.ReplaceAll(m[1], "\n//", "")
		}
	}
	return found, nil
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/conformance.md names every rule once, in a separate row or in
// docs/departures.md, and tests that exist.
func TestConformance(t *testing.T) {
	atRoot(t)
	rows, wrong := conformance(readDoc(t, "docs/conformance.md"))
	wrong = append(wrong, unclaimed(rows, readDoc(t, "docs/departures.md"))...)
	for _, w := range wrong {
		t.Error(w)
	}
	all := make(tests)
	for _, r := range rows {
		for _, test := range r.tests {
			if _, ok, err := all.find(test); err != nil || !ok {
				t.Errorf("%s: there is no %s: %v", r.id, test, err)
			}
		}
	}
	if len(rows) < 50 {
		t.Errorf("%d rows were read only", len(rows))
	}
}

// The readers of the documents find each kind of mistake.
func TestConformanceIsChecked(t *testing.T) {
	atRoot(t)
	const good = "| HUB-00 | Does it. | W 5.1 | `websub.TestX`, `test/e2e.FuzzY` |\n"
	for text, want := range map[string]string{
		good: "",
		"| ID | what | clause | tests |\n|---|---|---|---|\n" + good + "HUB-00 is prose.\n": "",
		"| HUB-00 | Does it. | W 5.1 |\n":                         "four cells",
		"| HUB-00 |  | W 5.1 | `websub.TestX` |\n":                "four cells",
		"| HUB-00 | Does it. | W 5.1 | none |\n":                  "0 of its 1",
		"| HUB-00 | Does it. | W 5.1 | `websub.TestX`, TestY |\n": "1 of its 2",
		"| HUB-1 | Does it. | W 5.1 | `websub.TestX` |\n":         "without an ID",
	} {
		rows, wrong := conformance(text)
		if got := strings.Join(wrong, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if want == "" && (len(rows) != 1 || !slices.Equal(rows[0].tests, []string{"websub.TestX", "test/e2e.FuzzY"})) {
			t.Errorf("%q: %+v", text, rows)
		}
	}
	var all []row
	for _, id := range rules {
		all = append(all, row{id: id})
	}
	explained := strings.Join(later, ", ")
	for want, got := range map[string][]string{
		"":                             unclaimed(all, explained),
		rules[0] + " is in neither":    unclaimed(all[1:], explained),
		rules[0] + " is there twice":   unclaimed(append(all[:1:1], all...), explained),
		later[0] + " is no rule":       unclaimed(append(all[:len(all):len(all)], row{id: later[0]}), explained),
		later[0] + " comes later":      unclaimed(all, ""),
		"SRC-00 is explained, and no ": unclaimed(all, explained+" SRC-00"),
	} {
		if all := strings.Join(got, "\n"); (all == "") != (want == "") || !strings.Contains(all, want) {
			t.Errorf("%q, want %q", all, want)
		}
	}
	if wrong := unclaimed(all[1:], explained+" "+rules[0]); len(wrong) != 0 {
		t.Errorf("explained, and yet %q", wrong)
	}
}

// The invariants as docs/architecture.md counts them, and as comments name them.
const invariants = 12

var (
	invariant = regexp.MustCompile(`(?m)^(\d+)\. \*\*`)
	named     = regexp.MustCompile(`[Ii]nvariants? (\d+(?:(?:, | and )\d+)*)`)
	number    = regexp.MustCompile(`\d+`)
)

// guards reads which tests guard each invariant of docs/architecture.md,
// in the section about them.
func guards(text string) (map[string][]string, error) {
	_, section, ok := strings.Cut(text, "\n## What must never break\n")
	if !ok {
		return nil, errors.New("there is no section about what must never break")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	found := make(map[string][]string)
	starts := invariant.FindAllStringSubmatchIndex(section, -1)
	for i, at := range starts {
		end := len(section)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		n := section[at[2]:at[3]]
		for _, m := range testName.FindAllStringSubmatch(section[at[0]:end], -1) {
			found[n] = append(found[n], m[1])
		}
	}
	return found, nil
}

// names reports whether the comment of a test names an invariant.
func names(comment, n string) bool {
	for _, m := range named.FindAllStringSubmatch(comment, -1) {
		if slices.Contains(number.FindAllString(m[1], -1), n) {
			return true
		}
	}
	return false
}

// Each invariant of docs/architecture.md has a test that exists, and
// that says in its comment that it guards it.
func TestInvariants(t *testing.T) {
	atRoot(t)
	found, err := guards(readDoc(t, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(tests)
	for i := range invariants {
		n := strconv.Itoa(i + 1)
		if len(found[n]) == 0 {
			t.Errorf("no test guards invariant %s", n)
		}
		for _, test := range found[n] {
			comment, ok, err := all.find(test)
			if err != nil || !ok {
				t.Errorf("invariant %s: there is no %s: %v", n, test, err)
			} else if !names(comment, n) {
				t.Errorf("invariant %s: the comment of %s does not name it: %q", n, test, comment)
			}
		}
	}
	if len(found) != invariants {
		t.Errorf("%d invariants, want %d", len(found), invariants)
	}
}

func TestInvariantsAreChecked(t *testing.T) {
	atRoot(t)
	found, err := guards("1. **No.** `a.TestNo`\n## What must never break\n\n1. **A.** x\n   (`a.TestX`,\n   `b/c.TestY`)\n2. **B.**\n\n## Next\n3. **C** `a.TestZ`\n")
	if err != nil || len(found) != 1 || !slices.Equal(found["1"], []string{"a.TestX", "b/c.TestY"}) {
		t.Errorf("%v, %v", found, err)
	}
	for comment, want := range map[string]string{
		"// Invariant 7: x": "7", "// HUB-52, invariants 1 and 2: x": "1 2", "// x (invariants 3, 4 and 10)": "3 4 10", "// 7 HUB-07": "", "": "",
	} {
		var got []string
		for i := range invariants {
			if n := strconv.Itoa(i + 1); names(comment, n) {
				got = append(got, n)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q names %q, want %q", comment, s, want)
		}
	}
}

// A link in Markdown, and what a heading or an id is linked by.
var (
	mdLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors returns what the headings of a Markdown document are linked by.
func anchors(text string) map[string]bool {
	if known, ok := anchorsOf[text]; ok {
		return known
	}
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	anchorsOf[text] = found
	return found
}

// anchorsOf has what anchors found, by document: most pages link to the same few.
var anchorsOf = map[string]map[string]bool{}

// deadLinks returns the relative links of a Markdown document that lead
// nowhere in files.
func deadLinks(files fs.FS, name string) ([]string, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, m := range mdLink.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := name
		if file != "" {
			target = path.Join(path.Dir(name), file)
		}
		info, err := fs.Stat(files, target)
		if err != nil {
			dead = append(dead, m[1])
			continue
		}
		if anchor == "" || info.IsDir() {
			continue
		}
		if text, err = fs.ReadFile(files, target); err != nil {
			return nil, err
		}
		if !anchors(string(text))[anchor] {
			dead = append(dead, m[1])
		}
	}
	return dead, nil
}

// pages are all documents that people read.
func pages(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "helm/rshub/README.md"}
	if err := fs.WalkDir(os.DirFS("."), "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// Every relative link of the documents leads somewhere.
func TestLinks(t *testing.T) {
	atRoot(t)
	for _, name := range pages(t) {
		dead, err := deadLinks(os.DirFS("."), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range dead {
			t.Errorf("%s links to %s, which is not there", name, link)
		}
	}
}

// Pages that everyone reads first stay short.
func TestFirstPagesAreShort(t *testing.T) {
	atRoot(t)
	for page, most := range map[string]int{"docs/architecture.md": 150, "docs/glossary.md": 125} {
		if n := strings.Count(readDoc(t, page), "\n"); n > most {
			t.Errorf("%s has %d lines, at most %d", page, n, most)
		}
	}
}
