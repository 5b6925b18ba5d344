package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/config"
)

// answers are what the operator's listener of a running hub says of itself.
type answers struct{ metrics, index, ready string }

func runHub(t *testing.T) (a answers) {
	t.Helper()
	withHub(t, func(_ string, get func(path string) string) {
		a = answers{get("/metrics"), get("/"), get("/readyz?verbose")}
	})
	return a
}

// withHub calls do with the address of the operator's listener of a running hub, and with
// what asks it.
func withHub(t *testing.T, do func(addr string, get func(path string) string)) {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("token-of-the-operator"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load([]string{
		"--dev", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "data"), "--pprof", "--admin-token-file=" + token,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := app.New(cfg, nil, "v0")
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hub.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	do(hub.AdminAddr(), func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+hub.AdminAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer token-of-the-operator")
		return body(t, r)
	})
}

func code(s string) string { return "`" + s + "`" }

// cell is a text in the form for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// settingRows are the settings as `rshub serve --help` describes them.
func settingRows(t *testing.T) (rows [][]string) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(flags)
	_, plain, err := config.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, dev, err := config.Load([]string{"--dev"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range plain {
		def := o.Auto
		if o.Text() != "" {
			def = code(o.Text())
		}
		if d := dev.Get(o.Name); d.From == "default of --dev" {
			def += "; with `--dev` " + code(strings.Join(d.Value, ", "))
		}
		help, _, _ := strings.Cut(flags.Lookup(o.Name).Usage, " (default ")
		if o.List {
			help += "; may be given several times"
		}
		variable := "RSHUB_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
		rows = append(rows, []string{code("--" + o.Name), code(variable), cell(def), cell(help)})
	}
	return rows
}

var (
	sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)
	label  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// metricRows are the families of a scrape of a program. Those of the Go runtime and of the
// process, which every Go program has, are a row each.
func metricRows(t *testing.T, program, scrape string) (rows [][]string) {
	t.Helper()
	type family struct {
		help, kind string
		values     map[string][]string
		labels     []string
	}
	families := map[string]*family{}
	var names []string
	for line := range strings.Lines(scrape) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			families[name] = &family{help: help, values: map[string][]string{}}
			names = append(names, name)
		} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			families[name].kind = kind
		} else if m := sample.FindStringSubmatch(line); m != nil {
			f := families[names[len(names)-1]]
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[1] == "le" || slices.Contains(f.values[l[1]], l[2]) {
					continue
				}
				if f.values[l[1]] == nil {
					f.labels = append(f.labels, l[1])
				}
				f.values[l[1]] = append(f.values[l[1]], l[2])
			}
		}
	}
	general := map[string][]string{}
	for _, name := range names {
		f := families[name]
		if prefix, _, _ := strings.Cut(name, "_"); prefix != program {
			general[prefix] = append(general[prefix], code(name))
			continue
		}
		var labels []string
		for _, l := range f.labels {
			if strings.HasSuffix(name, "_build_info") || l == "hub" {
				labels = append(labels, code(l)) // its values are of this build, or of the command line
				continue
			}
			slices.Sort(f.values[l])
			labels = append(labels, code(l)+": "+strings.Join(f.values[l], ", "))
		}
		rows = append(rows, []string{code(name), f.kind, cell(strings.Join(labels, "; ")), cell(f.help)})
	}
	for _, prefix := range []string{"go", "process"} {
		if len(general[prefix]) > 0 {
			rows = append(rows, []string{code(prefix + "_*"), "several", "", strings.Join(general[prefix], ", ")})
		}
	}
	return rows
}

// routeRows are the calls that the index of the operator's listener lists.
func routeRows(index string) (rows [][]string) {
	columns := regexp.MustCompile(`\s{2,}`)
	for line := range strings.Lines(index) {
		c := columns.Split(strings.TrimSpace(line), 3)
		if len(c) != 3 {
			return nil
		}
		rows = append(rows, []string{code(c[0] + " " + c[1]), cell(c[2])})
	}
	return rows
}

// readinessRows are the checks of a running hub, and those that the sources name
// besides.
func readinessRows(t *testing.T, ready string) (rows [][]string) {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\[[+-]\] ([a-z ]+)`).FindAllStringSubmatch(ready, -1) {
		names = append(names, strings.TrimSpace(m[1]))
	}
	for _, m := range regexp.MustCompile(`admin\.Check\{(?:Name: )?"([^"]+)"`).FindAllStringSubmatch(readDoc(t, "internal/program/app/app.go"), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		rows = append(rows, []string{code(name)})
	}
	return rows
}

// problemRows are the ways to be refused at the hub URI, as docs/problems.md has
// them.
func problemRows(t *testing.T) (rows [][]string) {
	t.Helper()
	status := ""
	for _, m := range regexp.MustCompile(`(?m)^(##|###) (.+)$`).FindAllStringSubmatch(readDoc(t, "docs/problems.md"), -1) {
		if m[1] == "##" {
			status = m[2]
			continue
		}
		rows = append(rows, []string{fmt.Sprintf("[%s](problems.md#%s)", m[2], m[2]), status})
	}
	return rows
}

// statusRows are the statuses of errors that package admin answers with.
func statusRows(t *testing.T) (rows [][]string) {
	t.Helper()
	var found []string
	parsed(t, "admin", func(_ string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr: // a status that is compared with is not answered
				return false
			case *ast.SelectorExpr:
				found = append(found, n.Sel.Name)
			}
			return true
		})
	})
	for status := http.StatusBadRequest; status < 600; status++ {
		name := "Status" + regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(http.StatusText(status), "")
		if http.StatusText(status) != "" && slices.Contains(found, name) {
			rows = append(rows, []string{strconv.Itoa(status) + " " + http.StatusText(status)})
		}
	}
	return rows
}

// constRows are the constants of a package whose names begin with a prefix: value
// and comment.
func constRows(t *testing.T, folder, prefix string) (rows [][]string) {
	t.Helper()
	parsed(t, folder, func(_ string, f *ast.File) {
		eachConst(f, func(name, value, comment string) {
			if strings.HasPrefix(name, prefix) {
				rows = append(rows, []string{code(value), cell(comment)})
			}
		})
	})
	return rows
}

// exitRows are the exit codes of the commands.
func exitRows(t *testing.T) (rows [][]string) {
	t.Helper()
	words := regexp.MustCompile(`([a-z])([A-Z])`)
	parsed(t, "internal/program/cli", func(_ string, f *ast.File) {
		eachConst(f, func(name, value, comment string) {
			what, ok := strings.CutPrefix(name, "Exit")
			if !ok {
				return
			}
			if comment == "" {
				comment = strings.ToLower(words.ReplaceAllString(what, "$1 $2"))
			}
			rows = append(rows, []string{value, cell(comment)})
		})
	})
	return rows
}

// eachConst calls do with each constant that has a literal value.
func eachConst(f *ast.File, do func(name, value, comment string)) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				continue
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				do(v.Names[0].Name, strings.Trim(lit.Value, `"`), strings.TrimSpace(v.Comment.Text()))
			}
		}
	}
}

// parsed calls do with each source file below a folder that is no test.
func parsed(t *testing.T, folder string, do func(pkg string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "tools", "test", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		do(filepath.ToSlash(filepath.Dir(path)), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// body is the answer to a request.
func body(t *testing.T, r *http.Request) string {
	t.Helper()
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	// A hub that has just started may still say what it lacks to be ready.
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%s: %s %v", r.URL.Path, resp.Status, err)
	}
	return string(text)
}
