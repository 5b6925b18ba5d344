package docs

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Levels of the events that are not logged at one level alone.
var levelsOf = map[string]string{
	"publish": byFault, "subscribe": byFault, "unsubscribe": byFault, "ping": byFault, "fetch": byFault, "post": byFault, "read": byFault,
	"http_error":       "info",
	"delivery_attempt": "debug when it succeeds at first, else info",
	"operator_action":  byFailure, "subscriber_action": byFailure,
}

const (
	byFault   = "info, warn when the hub is at fault"
	byFailure = "info, warn when it failed"
)

// logged is an event: the levels that it is logged at, and the packages.
type logged struct{ levels, from []string }

func (l *logged) add(level, from string) {
	if level != "" && !slices.Contains(l.levels, level) {
		l.levels = append(l.levels, level)
	}
	if !slices.Contains(l.from, from) {
		l.from = append(l.from, from)
	}
}

// events finds in the sources what the key "event" of a log line can be: what
// stands in the call, and the constants Event... of the packages that are told of
// events and log them in one place.
func events(t *testing.T) map[string]*logged {
	t.Helper()
	found := map[string]*logged{}
	add := func(name, level, from string) {
		if found[name] == nil {
			found[name] = &logged{}
		}
		found[name].add(level, from)
	}
	named := map[string]string{} // constants
	parsed(t, ".", func(pkg string, f *ast.File) {
		if !ofHub(pkg) {
			return
		}
		eachConst(f, func(name, value, _ string) {
			if strings.HasPrefix(name, "Event") {
				named[name] = value
				add(value, levelsOf[value], pkg)
			}
		})
	})
	parsed(t, ".", func(pkg string, f *ast.File) {
		if !ofHub(pkg) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				for _, arg := range n.Args {
					if name := eventOf(arg, named); name != "" {
						add(name, cmp.Or(levelsOf[name], levelOf(n)), pkg)
					}
				}
			case *ast.CompositeLit: // fields that are gathered first
				for _, field := range n.Elts {
					if name := eventOf(field, named); name != "" {
						add(name, levelsOf[name], pkg)
					}
				}
			case *ast.KeyValueExpr: // a table from events to levels
				row, ok := n.Value.(*ast.CompositeLit)
				if key, isName := n.Key.(*ast.SelectorExpr); isName && ok && len(row.Elts) > 0 && named[key.Sel.Name] != "" {
					add(named[key.Sel.Name], levelOf(row.Elts[0]), pkg)
				}
			}
			return true
		})
	})
	return found
}

// ofHub reports whether a package is part of a hub, and not of the Source or the Destination, which log
// other events.
func ofHub(pkg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(pkg, "cmd/"), "/")
	return !slices.Contains([]string{"publisher", "subscriber", "rspub", "rssub"}, name)
}

// eventOf is the event that an argument of a log call names, if it is that
// argument.
func eventOf(arg ast.Expr, named map[string]string) string {
	call, ok := arg.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return ""
	}
	if key, ok := call.Args[0].(*ast.BasicLit); !ok || key.Value != `"event"` {
		return ""
	}
	return constant(call.Args[1], named)
}

// constant returns the string that an expression is, if the sources show it.
func constant(x ast.Expr, named map[string]string) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			return strings.Trim(x.Value, `"`)
		}
	case *ast.Ident:
		return named[x.Name]
	case *ast.SelectorExpr:
		return named[x.Sel.Name]
	}
	return ""
}

// levelOf is the level that a call logs at, or that a constant of zap is.
func levelOf(n ast.Node) string {
	if call, ok := n.(*ast.CallExpr); ok {
		n = call.Fun
	}
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	level := strings.ToLower(strings.TrimSuffix(s.Sel.Name, "Level"))
	if slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		return level
	}
	return ""
}

// eventRows are the events of the log.
func eventRows(t *testing.T) (rows [][]string) {
	t.Helper()
	found := events(t)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		l := found[name]
		if len(l.levels) == 0 {
			t.Errorf("at which level the event %s is logged is not clear from the sources; add it to levelsOf", name)
		}
		rows = append(rows, []string{code(name), strings.Join(l.levels, ", "), code(strings.Join(l.from, ", "))})
	}
	return rows
}
