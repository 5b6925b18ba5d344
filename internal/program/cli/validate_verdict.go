package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// verdict is what `rshub validate` says of one document, and its JSON.
type verdict struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`

	Capability string    `json:"capability,omitempty"`
	Index      bool      `json:"index,omitempty"`
	Legacy     bool      `json:"legacy,omitempty"`
	At         time.Time `json:"at,omitzero"`
	Completed  time.Time `json:"completed,omitzero"`
	From       time.Time `json:"from,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Up         string    `json:"up,omitempty"`
	Entries    int       `json:"entries"`
	Created    int       `json:"created"`
	Updated    int       `json:"updated"`
	Deleted    int       `json:"deleted"`
	// InParts is how many entries the parts of an index have that were looked at.
	InParts int `json:"entries_in_parts,omitempty"`

	// What failed first.
	Kind    string `json:"kind,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message,omitempty"`

	Findings []finding `json:"findings,omitempty"`
	// Untold is how many more findings there are.
	Untold int `json:"findings_untold,omitempty"`
}

// The levels of a finding.
const (
	levelWarn = "WARN"
	levelFail = "FAIL"
)

// finding is one thing that is wrong. Line and Column are 0 where it has no place
// in the document.
type finding struct {
	Level   string `json:"level"`
	Kind    string `json:"kind,omitempty"`
	Rule    string `json:"rule"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// maxFindings is how many findings of one document are told.
const maxFindings = 100

// add takes a finding down. The first failure is told even if it comes late.
func (v *verdict) add(f finding) {
	switch {
	case f.Level == levelFail && v.Valid:
		v.Valid = false
		v.Kind, v.Rule, v.Line, v.Column, v.Message = f.Kind, f.Rule, f.Line, f.Column, f.Message
	case len(v.Findings) >= maxFindings:
		v.Untold++
		return
	}
	v.Findings = append(v.Findings, f)
}

// fail takes an error of a document down.
func (v *verdict) fail(e *resourcesync.Error) {
	v.add(finding{levelFail, e.Kind.String(), e.Rule, e.Line, e.Column, e.Msg})
}

// print writes the verdict for a person, all of it in lines.
func (v *verdict) print(w io.Writer) error {
	for _, f := range v.Findings {
		if err := line(w, v.tell(f)); err != nil {
			return err
		}
	}
	if v.Untold > 0 {
		if err := line(w, fmt.Sprintf("%s %s: %d more are not told", levelWarn, v.File, v.Untold)); err != nil {
			return err
		}
	}
	if !v.Valid {
		return nil
	}
	return line(w, fmt.Sprintf("PASS %s: %s", v.File, v.what()))
}

func line(w io.Writer, s string) error {
	_, err := fmt.Fprintln(w, Line(s))
	return err
}

// tell is a finding in a line.
func (v *verdict) tell(f finding) string {
	place, rule := v.File, f.Rule
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", v.File, f.Line, f.Column)
	}
	if f.Kind != "" {
		rule = f.Kind + ": " + rule
	}
	return fmt.Sprintf("%s %s: %s (%s)", f.Level, place, f.Message, rule)
}

// what says what a document is.
func (v *verdict) what() string {
	s := v.Capability
	if s == "" {
		s = "a sitemap without ResourceSync"
	}
	if v.Index {
		s += " index"
	}
	if v.Legacy {
		s += " (by a former name)"
	}
	if !v.At.IsZero() {
		s += " at " + instant(v.At)
	}
	if !v.Completed.IsZero() {
		s += " completed " + instant(v.Completed)
	}
	switch isChange := !v.From.IsZero() || !v.Until.IsZero(); {
	case isChange && v.Until.IsZero():
		s += fmt.Sprintf(" from %s, open", instant(v.From))
	case isChange:
		s += fmt.Sprintf(" from %s until %s", instant(v.From), instant(v.Until))
	}
	s += ", " + Count(v.Entries, "entry", "entries")
	switch {
	case v.Created+v.Updated+v.Deleted > 0 || isNotification(v.Capability):
		s += fmt.Sprintf(": %d created, %d updated, %d deleted", v.Created, v.Updated, v.Deleted)
	case v.InParts > 0:
		s += fmt.Sprintf(" with %d in them", v.InParts)
	}
	if n := len(v.Findings) + v.Untold; n > 0 {
		s += ", " + Count(n, "warning", "warnings")
	}
	return s
}

func isNotification(capability string) bool {
	return capability == resourcesync.ChangeNotification || capability == resourcesync.FrameworkNotification
}
