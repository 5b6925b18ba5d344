package validate

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Result is what Continuity finds about an entry.
type Result int

// The results.
const (
	// Append: it is the topic's next entry.
	Append Result = iota
	// Duplicate: it was accepted before, with the same bytes.
	Duplicate
	// Conflict: its interval was accepted before, with other bytes.
	Conflict
	// OtherKind: the topic carries notifications, and of another kind.
	OtherKind
	// Gap: it starts after the topic's end, and that is not allowed.
	Gap
	// Overlap: it starts before the topic's end.
	Overlap
)

var resultNames = [...]string{
	Append: "append", Duplicate: "duplicate", Conflict: "conflict", OtherKind: "other_kind", Gap: "gap", Overlap: "overlap",
}

func (v Result) String() string {
	if v < 0 || int(v) >= len(resultNames) {
		return "unknown"
	}
	return resultNames[v]
}

// Decision is the outcome of Continuity.
type Decision struct {
	Result Result
	// ID and Position are those of the entry that was accepted first, if the result is
	// Duplicate or Conflict.
	ID       uuid.UUID
	Position journal.Position
	// ExpectedFrom is where the topic's next interval has to start; zero if it may start
	// anywhere.
	ExpectedFrom time.Time
	// Kind is the topic's, if it has one.
	Kind journal.Kind
	// Gap is what the entry leaves out after the topic's end: with Append the gap that is
	// accepted with it and belongs in Entry.Gap, with Gap the one that was refused. The
	// caller sets its At when it records it.
	Gap *journal.Gap
}

// Follows reports whether an entry starts where its topic ends.
func Follows(head journal.Head, e journal.Entry) bool {
	return !head.Until.IsZero() && e.From.Equal(head.Until) && e.Until.After(e.From)
}

// Continuity decides whether e may follow the head of its topic. It is the one
// place where this is decided (invariant 2 of docs/architecture.md): stores only
// check that the head is still the one that was looked at.
//
// Known is what the journal remembers of e's interval, nil if it is not remembered or e
// has none. Flag says that a Source may leave out intervals (`--continuity=flag`). The
// rule, in this order; instants are compared, never their spelling:
//
//   - an interval that Follows is new, whatever is known: a topic that was reset may come by it again;
//   - the same interval with the same bytes is a Duplicate; an entry without an interval
//     is one if it has the bytes of the head. Plain content never is: the ping says
//     that it is new (HUB-60);
//   - the same interval with other bytes is a Conflict;
//   - on a topic of notifications every other kind is OtherKind (HUB-57); plain content
//     fixes no kind, so a notification may follow it and, since content has no
//     interval, start anywhere;
//   - without an interval, or as the topic's first with one, it is an Append;
//   - starting where the topic ends it is an Append;
//   - starting later it is a Gap, or with flag an Append that records one;
//   - starting earlier it is an Overlap.
//
// A topic that was reset accepts the next interval wherever it starts and whatever its
// kind, and records a gap if that is later than its end.
func Continuity(head journal.Head, known *journal.Interval, e journal.Entry, flag bool) Decision {
	d := Decision{Kind: head.Kind}
	if !head.Reset {
		d.ExpectedFrom = head.Until
	}
	switch {
	case e.Timed() && known != nil && !Follows(head, e):
		d.ID, d.Position, d.Result = known.ID, known.Position, Conflict
		if known.SHA256 == e.SHA256 {
			d.Result = Duplicate
		}
		return d
	case !e.Timed() && e.Kind != journal.KindContent && head.Kind == e.Kind && head.SHA256 == e.SHA256:
		d.ID, d.Position, d.Result = head.ID, head.Last.Position, Duplicate
		return d
	case head.Kind.Then(e.Kind) != e.Kind:
		d.Result = OtherKind
		return d
	case !e.Timed() || head.Until.IsZero():
		return d
	}

	missing := &journal.Gap{From: head.Until, Until: e.From, Reason: journal.GapSource}
	switch order := e.From.Compare(head.Until); {
	case order == 0:
	case head.Reset && order > 0:
		missing.Reason = journal.GapReset
		d.Gap = missing
	case head.Reset:
	case order > 0 && flag:
		d.Gap = missing
	case order > 0:
		d.Result, d.Gap = Gap, missing
	default:
		d.Result = Overlap
	}
	return d
}
