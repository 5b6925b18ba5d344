package resourcesync

import "fmt"

// Toleration is something that a tolerant Reader accepted, and that is an error in strict
// mode.
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

// mostAlike is how many tolerations of one kind are kept. So a document in which every
// entry has one neither fills the memory nor hides other kinds.
const mostAlike = 20

// tolerations are the tolerations of one document.
type tolerations struct {
	kept  []Toleration
	count int
	alike map[string]int // how many there were of each kind, by its format
}

func (p *tolerations) add(rule string, line, column int, format string, args ...any) {
	p.count++
	if p.alike == nil {
		p.alike = make(map[string]int)
	}
	if p.alike[format]++; p.alike[format] <= mostAlike {
		p.kept = append(p.kept, Toleration{Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)})
	}
}
