package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// embedded are the packages from which others can put a hub together, beside imported.
var embedded = []string{"hub", "delivery", "journal", "cluster", "store/seal", "store/embedstore", "store/redisstore", "admin", "subscriptions", "validate"}

// imported are the packages that other modules may import.
var imported = []string{"publisher", "publisher/source", "resourcesync", "subscriber", "subscriber/destination", "websub"}

// Nobody outside of this module can name a type of an internal package, so that none
// is in what the packages export: in a function, a field, a method, a variable.
func TestPublicPackagesShowNoInternalTypes(t *testing.T) {
	atRoot(t)
	args := []string{"-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	shown := slices.Concat(imported, embedded)
	for _, p := range shown {
		args = append(args, "./"+p)
	}
	out, err := goAsHere(t.Context(), "list", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	export := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		export[path] = file
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		b, err := os.ReadFile(export[path])
		return io.NopCloser(bytes.NewReader(b)), err
	})
	for _, p := range shown {
		pkg, err := from.Import(module + "/" + p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			for _, found := range internals(pkg.Scope().Lookup(name)) {
				t.Errorf("%s.%s shows %s, which no other module can name", p, name, found)
			}
		}
	}
}

// internals are the types of internal packages that an exported object shows.
func internals(o types.Object) (found []string) {
	if !o.Exported() {
		return nil
	}
	seen := map[types.Type]bool{}
	var look func(t types.Type)
	tuple := func(t *types.Tuple) {
		for v := range t.Variables() {
			look(v.Type())
		}
	}
	look = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			own := t.Obj().Pkg() == o.Pkg()
			if path := t.Obj().Pkg(); path != nil && slices.Contains(strings.Split(path.Path(), "/"), "internal") && strings.HasPrefix(path.Path(), module) {
				found = append(found, t.String())
			}
			for arg := range t.TypeArgs().Types() {
				look(arg)
			}
			if !own {
				return // what others show is their matter
			}
			for m := range t.Methods() {
				if m.Exported() {
					look(m.Type())
				}
			}
			look(t.Underlying())
		case *types.Alias:
			look(types.Unalias(t))
		case *types.Pointer:
			look(t.Elem())
		case *types.Slice:
			look(t.Elem())
		case *types.Array:
			look(t.Elem())
		case *types.Chan:
			look(t.Elem())
		case *types.Map:
			look(t.Key())
			look(t.Elem())
		case *types.Signature:
			tuple(t.Params())
			tuple(t.Results())
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					look(f.Type())
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				if m.Exported() {
					look(m.Type())
				}
			}
		case *types.TypeParam:
			look(t.Constraint())
		}
	}
	look(o.Type())
	return found
}

// The examples of the documents and of the packages compile in a module of its own, as
// those do that people begin with.
func TestExamplesCompileElsewhere(t *testing.T) {
	atRoot(t)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	mod = bytes.Replace(mod, []byte("module "+module+"\n"), []byte("module example.org/app\n"), 1)
	mod = append(mod, fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, root)...)
	write(t, filepath.Join(dir, "go.mod"), mod)
	write(t, filepath.Join(dir, "go.sum"), sum)

	n := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range goBlocks(string(text)) {
			n++
			write(t, filepath.Join(dir, fmt.Sprintf("doc%d", n), "main.go"), asProgram(block))
		}
	}
	if n < 3 {
		t.Errorf("%d examples were found in the documents", n)
	}
	for _, p := range imported {
		files, err := filepath.Glob(p + "/*example_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, file), text)
		}
		if len(files) == 0 {
			t.Errorf("%s has no example", p)
		}
	}
	vet := goAsHere(t.Context(), "vet", "-assign", "./...") // which compiles, tests too, and links nothing
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// goBlocks are the Go examples of a page.
func goBlocks(page string) (blocks []string) {
	for {
		_, rest, ok := strings.Cut(page, "\n```go\n")
		if !ok {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "\n```")
		blocks, page = append(blocks, block), after
	}
}

// asProgram is an example as a file: itself where it is one, else in a function that
// has what an application has.
func asProgram(block string) []byte {
	if strings.Contains(block, "package ") {
		return []byte(block)
	}
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\n\t\"" + module + "/subscriber\"\n")
	for _, p := range imported {
		if p != "subscriber" && regexp.MustCompile(`\b`+path.Base(p)+`\.[A-Z]`).MatchString(block) {
			b.WriteString("\t\"" + module + "/" + p + "\"\n")
		}
	}
	b.WriteString(")\n\nfunc example(ctx context.Context, mux *http.ServeMux, token, url string, apply func(subscriber.Change)) (err error) {\n")
	b.WriteString(block + "\n\treturn err\n}\n\nfunc main() { _ = example }\n")
	return []byte(b.String())
}

// What the packages say names their own options. The commands put their flags in place
// of these. A flag of the hub, or a whole command line, says whose it is.
func TestPublicPackagesNameNoFlags(t *testing.T) {
	atRoot(t)
	flag := regexp.MustCompile(`(?:^|[ (])--[a-z]`)
	command := regexp.MustCompile(`\brs(hub|pub|sub) [a-z]+ `)
	n := 0
	for _, p := range imported {
		files, err := filepath.Glob(p + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				text, ok := node.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				n++
				if flag.MatchString(strings.Trim(text.Value, "\"`")) && !command.MatchString(text.Value) {
					t.Errorf("%s names a flag: %s", set.Position(text.Pos()), text.Value)
				}
				return true
			})
		}
	}
	if n < 1000 {
		t.Errorf("%d texts were found", n)
	}
}
