package interop

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/programs"
)

var (
	interop      = flag.Bool("interop", false, "run the programs of other makes")
	update       = flag.Bool("update", false, "write the results into docs/interoperability.md")
	resyncDir    = flag.String("resync", "", "`FOLDER` with a checkout of the Python library resync; its rows are skipped without it")
	simulatorDir = flag.String("simulator", "", "`FOLDER` with a checkout of resync-simulator; its row is skipped without it")
)

const document = "../../docs/interoperability.md"

// row is a line of the document's table: another program, and what is done with it. run does it, by
// checks, and returns the program's version.
type row struct {
	name, does string
	run        func(t *testing.T, c *checks) (version string)
}

var rows = slices.Concat(resyncRows, museumRows, nodeRows, relayRows, streamRows, proxyRows)

// checks counts the checks of a row that passed.
type checks struct {
	t *testing.T
	n int
}

// ok records a check that passed. One that fails ends the row before.
func (c *checks) ok(format string, args ...any) {
	c.n++
	c.t.Logf("ok: "+format, args...)
}

// bin is the folder of the three commands under test.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if !*interop {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "interop-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin = dir
		if err := programs.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// TestInterop runs each row, prints the table at the end and, with -update, writes it into the
// document. A row that did not run keeps its text in the document.
func TestInterop(t *testing.T) {
	if !*interop {
		t.Skip("make interop runs the programs of other makes")
	}
	old := documented(t)
	var lines []string
	for _, r := range rows {
		c := &checks{}
		version, skipped := "", true // -run may leave it out
		passed := t.Run(r.name, func(t *testing.T) {
			c.t = t
			t.Cleanup(func() { skipped = t.Skipped() })
			version = r.run(t, c)
		})
		line := fmt.Sprintf("| %s | %s | %s | passed, %d checks |", r.name, version, r.does, c.n)
		switch {
		case skipped:
			fmt.Printf("NOT RUN: %s\n", r.name)
			line = old[r.name]
		case !passed:
			line = fmt.Sprintf("| %s | %s | %s | **failed** after %d checks |", r.name, version, r.does, c.n)
			fmt.Println(line)
		default:
			fmt.Println(line)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	if *update && len(lines) == len(rows) {
		writeDocument(t, lines)
	}
}

// The document has the rows of the program, in the same order and words, and each of them passed.
func TestDocument(t *testing.T) {
	have := documented(t)
	for _, r := range rows {
		line, ok := have[r.name]
		if !ok {
			t.Errorf("%s has no row %q; `make interop UPDATE=1` writes the table", document, r.name)
			continue
		}
		if cells := strings.Split(line, " | "); len(cells) != 4 || cells[1] == "" || cells[2] != r.does || !strings.HasPrefix(cells[3], "passed, ") {
			t.Errorf("%s has the row %q; it has to say what is done (%q), with which version, and that it passed", document, line, r.does)
		}
		delete(have, r.name)
	}
	for name := range have {
		t.Errorf("%s has the row %q, which no program makes", document, name)
	}
}

const begin, end = "<!-- the table is written by make interop UPDATE=1 -->\n", "<!-- end of the table -->\n"

// documented returns the lines of the document's table by their names.
func documented(t *testing.T) map[string]string {
	t.Helper()
	_, table, _ := splitDocument(t)
	lines := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| .*\|$`).FindAllStringSubmatch(table, -1) {
		if m[1] != "program" {
			lines[m[1]] = m[0]
		}
	}
	return lines
}

func splitDocument(t *testing.T) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines around its table", document)
	}
	return before, table, after
}

func writeDocument(t *testing.T, lines []string) {
	t.Helper()
	before, _, after := splitDocument(t)
	system := "an unknown system"
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		if m := regexp.MustCompile(`(?m)^PRETTY_NAME="?(.*?)"?$`).FindSubmatch(b); m != nil {
			system = string(m[1])
		}
	}
	table := fmt.Sprintf("The last full run was on %s, %s/%s, with %s.\n\n| program | version | what is done | result |\n|---|---|---|---|\n%s\n",
		system, runtime.GOOS, runtime.GOARCH, strings.Replace(runtime.Version(), "go", "Go ", 1), strings.Join(lines, "\n"))
	must(t, os.WriteFile(document, []byte(before+begin+table+end+after), 0o644))
}

// needs skips the row if a program is not installed, unless make interop has installed it.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("there is no %s on this machine", program)
	}
	return path
}

// command is the path of a command under test.
func command(name string) string { return filepath.Join(bin, name) }
