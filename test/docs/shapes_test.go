package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostMethods is how many methods a type may have, with those of the types that it embeds.
const mostMethods = 40

// listed is a package as go list has it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// No type of the module has more than mostMethods methods: one that does more than one thing is
// split along what it does.
func TestTypesAreSmall(t *testing.T) {
	atRoot(t)
	out, err := goAsHere(t.Context(), "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,Module", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ours []listed
	export := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if export[p.ImportPath] = p.Export; p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	from := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	seen := 0
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		conf := types.Config{Importer: from, IgnoreFuncBodies: true}
		pkg, err := conf.Check(p.ImportPath, files, parsed, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range methods(pkg) {
			if seen++; n > mostMethods {
				t.Errorf("%s.%s has %d methods, and may have %d", strings.TrimPrefix(p.ImportPath, module+"/"), name, n, mostMethods)
			}
		}
	}
	if seen < 500 {
		t.Errorf("only %d types were seen", seen)
	}
}

// methods counts the methods of each type of a package, and of its pointer.
func methods(pkg *types.Package) map[string]int {
	all := map[string]int{}
	for _, name := range pkg.Scope().Names() {
		if o, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !o.IsAlias() {
			all[name] = max(types.NewMethodSet(o.Type()).Len(), types.NewMethodSet(types.NewPointer(o.Type())).Len())
		}
	}
	return all
}

// Methods of embedded types count, and those of a pointer.
func TestMethodsAreCounted(t *testing.T) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "a.go", `package a
		type base struct{}
		func (base) A() {}
		func (*base) b() {}
		type doer interface{ Do() }
		type all struct { *base; doer }
		func (*all) C() {}
		type none int`, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("a", files, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := methods(pkg)
	for name, want := range map[string]int{"base": 2, "doer": 1, "all": 4, "none": 0} {
		if got[name] != want {
			t.Errorf("%s: %d methods, want %d", name, got[name], want)
		}
	}
}
