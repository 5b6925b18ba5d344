package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every line of the log names its event under the key "event". Each name is in one place of the sources,
// so it means one thing. docs/operations.md lists them.
func TestEveryLogLineNamesItsEvent(t *testing.T) {
	atRoot(t)
	var l lines
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "tools", "test", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		l.file(fset, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range l.faults {
		t.Error(fault)
	}
	if l.calls < 20 || len(l.places) < 25 {
		t.Errorf("only %d calls of a logger and %d events were found", l.calls, len(l.places))
	}
}

// The test finds what it is there for.
func TestLogLinesWithoutEventAreFound(t *testing.T) {
	atRoot(t)
	const source = `package p
func (x *X) f() {
	x.log.Info("a", zap.String("event", "one"))
	x.Log.Warn("b", zap.Error(err))
	log.Error("c", zap.String("event", name()))
	o.Log.Named("x").Info("d", zap.String("event", "one"))
	log.Info("e", zap.String("event", "Two Words"))
	log.Info("f", zap.String("event", pkg.EventThree))
	http.Error(w, "g", 500)
	s.log.Warn("h", "event", "one", "error", err)
	s.log.Warn("i", "error", err, "event")
	s.log.Warn("j", "event", "Two Words")
}
func (x *X) g() { if line := x.log.Check(level, "h"); line != nil { line.Write(fields...) } }
func (x *X) h() { if line := x.log.Check(level, "i"); line != nil { line.Write(zap.String("event", e.Name)) } }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var l lines
	l.file(fset, f)
	want := []string{"x.go:4:", "x.go:5:", "x.go:6:", "x.go:7:", "x.go:11:", "x.go:12:", "x.go:14:"}
	if !slices.EqualFunc(l.faults, want, strings.HasPrefix) || l.calls != 11 {
		t.Errorf("%d calls, faults %q", l.calls, l.faults)
	}
}

// lines gathers the calls of loggers.
type lines struct {
	calls  int
	places map[string]string // of each event
	faults []string
}

var (
	writes    = []string{"Debug", "Info", "Warn", "Error", "DPanic", "Panic", "Fatal", "Log", "Check"}
	eventName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
)

// file checks the calls in a file.
func (l *lines) file(fset *token.FileSet, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			l.constants(fset, d)
		case *ast.FuncDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && isWrite(call) {
					l.calls++
					l.line(fset, call, d)
				}
				return true
			})
		}
	}
}

// line checks one call. The fields of a line that was only checked follow in the
// same function.
func (l *lines) line(fset *token.FileSet, call *ast.CallExpr, in *ast.FuncDecl) {
	var where ast.Node = call
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Check" {
		where = in
	}
	named := l.slogLine(fset, call)
	ast.Inspect(where, func(n ast.Node) bool {
		field, ok := n.(*ast.CallExpr)
		if !ok || len(field.Args) != 2 {
			return true
		}
		if key, ok := field.Args[0].(*ast.BasicLit); !ok || key.Value != `"event"` {
			return true
		}
		switch value := field.Args[1].(type) {
		case *ast.BasicLit:
			name, _ := strconv.Unquote(value.Value)
			named = true
			l.name(fset, value, name)
		case *ast.SelectorExpr: // a constant of another package, or the name of an event that has one
			named = named || value.Sel.Name == "Name" || strings.HasPrefix(value.Sel.Name, "Event")
		}
		return true
	})
	if !named {
		l.fault(fset, call, `this line has no zap.String("event", ...) with a literal or a constant Event...`)
	}
}

// slogLine checks a call of a slog.Logger, which the packages of publisher and subscriber use: the
// fields are arguments, and several lines may have one event.
func (l *lines) slogLine(fset *token.FileSet, call *ast.CallExpr) bool {
	for i, arg := range call.Args[:max(0, len(call.Args)-1)] {
		if key, ok := arg.(*ast.BasicLit); !ok || key.Value != `"event"` {
			continue
		}
		value, ok := call.Args[i+1].(*ast.BasicLit)
		if !ok {
			return false
		}
		if name, _ := strconv.Unquote(value.Value); !eventName.MatchString(name) {
			l.fault(fset, value, "the event "+strconv.Quote(name)+" is not written like_this")
		}
		return true
	}
	return false
}

// constants records the events that have a constant.
func (l *lines) constants(fset *token.FileSet, d *ast.GenDecl) {
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || d.Tok != token.CONST || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Event") {
			continue
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, _ := strconv.Unquote(lit.Value)
			l.name(fset, lit, name)
		}
	}
}

// name records where an event is named.
func (l *lines) name(fset *token.FileSet, at ast.Node, name string) {
	if l.places == nil {
		l.places = make(map[string]string)
	}
	place := fset.Position(at.Pos()).String()
	switch first := l.places[name]; {
	case !eventName.MatchString(name):
		l.fault(fset, at, "the event "+strconv.Quote(name)+" is not written like_this")
	case first == "":
		l.places[name] = place
	case first != place:
		l.fault(fset, at, "the event "+name+" is named at "+first+" already: one line, one event")
	}
}

func (l *lines) fault(fset *token.FileSet, at ast.Node, what string) {
	l.faults = append(l.faults, fset.Position(at.Pos()).String()+": "+what)
}

// isWrite reports whether a call writes to a zap.Logger: those are called log.
func isWrite(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(writes, method.Sel.Name) {
		return false
	}
	x := method.X
	if named, ok := x.(*ast.CallExpr); ok { // of a logger with a name or with fields
		if sel, ok := named.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Named" || sel.Sel.Name == "With") {
			x = sel.X
		}
	}
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log")
	}
	return false
}
