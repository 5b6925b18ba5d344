package examine

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
)

// Level is how good or bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "PASS" // as it should be
	Warn Level = "WARN" // some readers will have trouble with it
	Fail Level = "FAIL" // it breaks a rule, or something does not work
)

// Finding is one thing that was found.
type Finding struct {
	Level Level `json:"level"`
	// Check is what was checked: discovery, document, dump, resource, topic or hub. It
	// and URL are empty for a finding in Document.Findings.
	Check string `json:"check,omitempty"`
	// URL is what the finding is about.
	URL string `json:"url,omitempty"`
	// Kind is a resourcesync.ErrorKind in words, or "inconsistent"; for failures of
	// documents.
	Kind string `json:"kind,omitempty"`
	// Rule is the ID of the rule, as docs/conformance.md lists them; empty if there is
	// none.
	Rule string `json:"rule,omitempty"`
	// Line and Column are the place in the document; 0 if there is none.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String is a finding in a line: level, check, place, message and rule.
func (f Finding) String() string {
	s := string(f.Level) + " "
	if f.Check != "" {
		s += f.Check + " "
	}
	s += f.URL
	if f.Line > 0 {
		s += fmt.Sprintf(":%d:%d", f.Line, f.Column)
	}
	s += ": " + f.Message
	switch {
	case f.Kind != "":
		s += " (" + f.Kind + ": " + f.Rule + ")"
	case f.Rule != "":
		s += " (" + f.Rule + ")"
	}
	return s
}

// Document is the result of checking one document. Its JSON is that of
// `rshub validate --json`.
type Document struct {
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
	resourcesync.Counts
	// InParts is how many entries the parts of an index have that were checked.
	InParts int `json:"entries_in_parts,omitempty"`

	// The first failure.
	Kind    string `json:"kind,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message,omitempty"`

	Findings []Finding `json:"findings,omitempty"`
	// Untold is how many more findings there are.
	Untold int `json:"findings_untold,omitempty"`

	head   resourcesync.Head
	broken bool // it could not be read to its end
	// listed are the entries of a document that lists others, if they are followed.
	listed []resourcesync.Entry
	// requested and final are its URL before and after redirects; empty if it came from
	// elsewhere.
	requested, final string
	content          body // of a package

	sample  []resourcesync.Entry // of resources, for CheckSource
	shortOf [len(shortcomings)]shortOf
}

// maxFindings is how many findings of one document are reported.
const maxFindings = 100

// add records a finding. The first failure is reported even if it comes late.
func (d *Document) add(f Finding) {
	switch {
	case f.Level == Fail && d.Valid:
		d.Valid = false
		d.Kind, d.Rule, d.Line, d.Column, d.Message = f.Kind, f.Rule, f.Line, f.Column, f.Message
	case len(d.Findings) >= maxFindings:
		d.Untold++
		return
	}
	d.Findings = append(d.Findings, f)
}

// All returns the findings for printing: with the document as their URL, and with the
// number of those not reported and, for a valid document, a description as further
// findings.
func (d *Document) All(check string) []Finding {
	all := make([]Finding, 0, len(d.Findings)+2)
	for _, f := range d.Findings {
		f.Check, f.URL = check, d.File
		all = append(all, f)
	}
	if d.Untold > 0 {
		all = append(all, Finding{Level: Warn, Check: check, URL: d.File, Message: fmt.Sprintf("%d more are not shown", d.Untold)})
	}
	if d.Valid {
		all = append(all, Finding{Level: Pass, Check: check, URL: d.File, Message: d.what()})
	}
	return all
}

// what describes a document in words.
func (d *Document) what() string {
	s := d.Capability
	if s == "" {
		s = "a sitemap without ResourceSync"
	}
	if d.Index {
		s += " index"
	}
	if d.Legacy {
		s += " (by a former name)"
	}
	if !d.At.IsZero() {
		s += " at " + instant(d.At)
	}
	if !d.Completed.IsZero() {
		s += " completed " + instant(d.Completed)
	}
	switch isChange := !d.From.IsZero() || !d.Until.IsZero(); {
	case isChange && d.Until.IsZero():
		s += fmt.Sprintf(" from %s, open", instant(d.From))
	case isChange:
		s += fmt.Sprintf(" from %s until %s", instant(d.From), instant(d.Until))
	}
	s += ", " + quantity.Count(d.Entries, "entry", "entries")
	switch {
	case d.Counts != resourcesync.Counts{} || isNotification(d.Capability):
		s += ": " + d.Counts.Words()
	case d.InParts > 0:
		s += fmt.Sprintf(" with %d in them", d.InParts)
	}
	if n := len(d.Findings) + d.Untold; n > 0 {
		s += ", " + quantity.Count(n, "warning", "warnings")
	}
	return s
}

// instant writes a time as ResourceSync does; a dash if there is none.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return resourcesync.FormatDatetime(t)
}

func isNotification(capability string) bool {
	return capability == resourcesync.ChangeNotification || capability == resourcesync.FrameworkNotification
}
