package docs

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/operations.md anew, but what is written by hand in them")

// operationsDoc is for people who run a hub.
const operationsDoc = "docs/operations.md"

// sheet is a table of docs/operations.md that is made from the sources. The last
// columns are written by hand, and are kept, row by row, when it is made anew;
// the first column names the row.
type sheet struct {
	name    string
	columns []string
	byHand  int
	rows    [][]string // without what is written by hand
}

// sheets are all tables, in the order of the document.
func sheets(t *testing.T) []sheet {
	t.Helper()
	h := runHub(t)
	return []sheet{
		{"settings", []string{"setting", "variable", "default", "meaning"}, 0, settingRows(t)},
		{"metrics", []string{"metric", "type", "labels", "what it is", "what to do about it"}, 1, metricRows(t, "rshub", h.metrics)},
		{"source-metrics", []string{"metric", "type", "labels", "what it is", "what to do about it"}, 1, metricRows(t, "rspub", runSource(t))},
		{"destination-metrics", []string{"metric", "type", "labels", "what it is", "what to do about it"}, 1, metricRows(t, "rssub", runDestination(t))},
		{"events", []string{"event", "level", "from", "what it means", "what to do"}, 2, eventRows(t)},
		{"problems", []string{"problem", "status", "what the operator can do"}, 1, problemRows(t)},
		{"routes", []string{"call", "answer"}, 0, routeRows(h.index)},
		{"statuses", []string{"status", "when, and what to do"}, 1, statusRows(t)},
		{"readiness", []string{"check", "what to do when it fails"}, 1, readinessRows(t, h.ready)},
		{"gaps", []string{"reason", "what it is", "what to do about it"}, 1, constRows(t, "journal", "Gap")},
		{"exits", []string{"code", "what it is"}, 0, exitRows(t)},
	}
}

// markers returns the lines around the table.
func (s *sheet) markers() (begin, end string) {
	return fmt.Sprintf("<!-- table: %s -->\n", s.name), "<!-- end of the table -->\n"
}

// find returns the table that is in the document.
func (s *sheet) find(doc string) (before, table, after string, err error) {
	begin, end := s.markers()
	before, rest, ok := strings.Cut(doc, begin)
	table, after, ended := strings.Cut(rest, end)
	if !ok || !ended || strings.Contains(table, "<!--") {
		return "", "", "", fmt.Errorf("%s has no lines %q and %q around a table", operationsDoc, begin, end)
	}
	return before + begin, table, end + after, nil
}

// cells splits a row. A bar within a cell is written \|.
func cells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	all := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(strings.ReplaceAll(all[i], "\x00", `\|`))
	}
	return all
}

// handwritten returns what is written by hand in a table, by the first cell of
// each row.
func (s *sheet) handwritten(table string) map[string][]string {
	kept := map[string][]string{}
	for line := range strings.Lines(table) {
		if c := cells(line); s.byHand > 0 && len(c) == len(s.columns) {
			kept[c[0]] = c[len(c)-s.byHand:]
		}
	}
	return kept
}

// render writes the table with what was written by hand before.
func (s *sheet) render(kept map[string][]string) string {
	var b strings.Builder
	row := func(c []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(c, " | ")) }
	row(s.columns)
	b.WriteString(strings.Repeat("|---", len(s.columns)) + "|\n")
	for _, r := range s.rows {
		hand := kept[r[0]]
		if hand == nil {
			hand = make([]string, s.byHand)
		}
		row(slices.Concat(r, hand))
	}
	return b.String()
}

// empty returns the rows in which something was left to write by hand.
func (s *sheet) empty(kept map[string][]string) []string {
	var names []string
	for _, r := range s.rows {
		if s.byHand > 0 && (kept[r[0]] == nil || slices.Contains(kept[r[0]], "")) {
			names = append(names, r[0])
		}
	}
	return names
}

// docs/operations.md lists every setting, metric, log event, status and exit code
// that there is, none that there is not, and says of each what to do.
func TestOperations(t *testing.T) {
	atRoot(t)
	text := readDoc(t, operationsDoc)
	for _, s := range sheets(t) {
		if len(s.rows) < 3 {
			t.Errorf("%d rows were found for the table %s", len(s.rows), s.name)
		}
		before, table, after, err := s.find(text)
		if err != nil {
			t.Error(err)
			continue
		}
		kept := s.handwritten(table)
		want := s.render(kept)
		if *update {
			text = before + want + after
		} else if table != want {
			t.Errorf("the table %s is out of date (-is +should be); `go test ./test/docs -run TestOperations -update` writes it anew:\n%s", s.name, cmp.Diff(strings.Split(table, "\n"), strings.Split(want, "\n")))
		}
		if names := s.empty(kept); len(names) > 0 {
			t.Errorf("in the table %s somebody has to write what to do about %s", s.name, strings.Join(names, ", "))
		}
	}
	if *update {
		if err := os.WriteFile(operationsDoc, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The check of a table finds what is missing, what is too much, what has changed
// and what nobody wrote.
func TestOperationsAreChecked(t *testing.T) {
	atRoot(t)
	s := sheet{"things", []string{"thing", "size", "what to do"}, 1, [][]string{{"`a`", "1"}, {"`b`", `x \| y`}, {"`c`", "3"}}}
	const doc = "before\n<!-- table: things -->\n| thing | size | what to do |\n|---|---|---|\n| `a` | 1 | eat \\| drink |\n| `c` | 2 |  |\n| `gone` | 4 | nothing |\n<!-- end of the table -->\nafter\n"
	before, table, after, err := s.find(doc)
	if err != nil || before+table+after != doc {
		t.Fatalf("%q %q %q %v", before, table, after, err)
	}
	kept := s.handwritten(table)
	if want := "| thing | size | what to do |\n|---|---|---|\n| `a` | 1 | eat \\| drink |\n| `b` | x \\| y |  |\n| `c` | 3 |  |\n"; s.render(kept) != want {
		t.Errorf("%s, want %s", s.render(kept), want)
	}
	if names := s.empty(kept); !slices.Equal(names, []string{"`b`", "`c`"}) {
		t.Errorf("%q", names)
	}
	for _, bad := range []string{"", "<!-- table: things -->\n", "<!-- table: things -->\n<!-- table: more -->\n<!-- end of the table -->\n"} {
		if _, _, _, err := s.find(bad); err == nil {
			t.Errorf("%q has a table", bad)
		}
	}
}
