package docs

import (
	"go/ast"
	"slices"
	"testing"
)

// Nothing writes to the streams of the process past the Screen that cli.Execute puts
// before them: only the function main of a command names them, to hand them on.
func TestStreamsAreNamedInMainAlone(t *testing.T) {
	atRoot(t)
	mains := 0
	parsed(t, ".", func(pkg string, f *ast.File) {
		for _, d := range f.Decls {
			fn, _ := d.(*ast.FuncDecl)
			isMain := fn != nil && fn.Name.Name == "main" && f.Name.Name == "main"
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, _ := s.X.(*ast.Ident)
				switch {
				case of == nil:
				case of.Name == "os" && (s.Sel.Name == "Stdout" || s.Sel.Name == "Stderr"):
					if mains++; !isMain {
						t.Errorf("%s: os.%s is for main alone; a command has cmd.OutOrStdout() and cmd.ErrOrStderr()", pkg, s.Sel.Name)
					}
				case of.Name == "fmt" && slices.Contains([]string{"Print", "Printf", "Println"}, s.Sel.Name),
					of.Name == "zap" && slices.Contains([]string{"NewDevelopment", "NewProduction"}, s.Sel.Name):
					t.Errorf("%s: %s.%s writes to the streams of the process; use those of the command", pkg, of.Name, s.Sel.Name)
				}
				return true
			})
		}
	})
	if mains < 3 {
		t.Errorf("only %d places name a stream: the test finds nothing", mains)
	}
}
