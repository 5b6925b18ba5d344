package resourcesync

import "fmt"

// Toleration is something that a Reader let pass, which in strict mode would
// have been its error.
type Toleration struct {
	// Rule, Line, Column and Msg are as in Error.
	Rule         string
	Line, Column int
	Msg          string
}

// String returns the position, the sentence and the rule.
func (t Toleration) String() string {
	return (&Error{Rule: t.Rule, Line: t.Line, Column: t.Column, Msg: t.Msg}).Error()
}

// mostPardons is how many tolerations are kept, so that a document in which
// every entry has one does not fill the memory.
const mostPardons = 100

// pardons are the tolerations of one document.
type pardons struct {
	kept  []Toleration
	count int
}

func (p *pardons) add(rule string, line, column int, format string, args ...any) {
	if p.count++; p.count <= mostPardons {
		p.kept = append(p.kept, Toleration{Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)})
	}
}
