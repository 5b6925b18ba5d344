package validate

import (
	"bytes"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// MaxAhead is how far a notification's `until` may lie in the hub's future.
// Without a bound, one that ends in 2099 would make its topic refuse everything
// until then.
const MaxAhead = 5 * time.Minute

// capabilityFramework is the root capability of a framework notification
// (DOC-20); every other one that resourcesync accepts is about changes.
const capabilityFramework = "framework-notification"

// RuleEntries is the Rule of a DocumentError that is about too many entries.
const RuleEntries = "DOC-60"

// DocumentError is why a document was refused, with the rule, the line and the
// column. Its Kind is one of those below.
type DocumentError = resourcesync.Error

// The kinds of a DocumentError, by what a caller does about them.
const (
	NotWellFormed = resourcesync.NotWellFormed
	BadEncoding   = resourcesync.BadEncoding
	HasDTD        = resourcesync.HasDTD
	OverLimit     = resourcesync.OverLimit
	BadDocument   = resourcesync.BadDocument
)

// Doc is a notification that passed Document.
type Doc struct {
	resourcesync.Notification
	Kind journal.Kind
}

// Timed reports whether the notification has both instants.
func (d *Doc) Timed() bool { return !d.From.IsZero() && !d.Until.IsZero() }

// Document checks a notification: every rule of DOC-10 to DOC-20, and those of
// this hub. A change notification has both instants, one of the legacy kind
// too; `until` is not before `from` and at most MaxAhead after now. An error is
// a *DocumentError; where it has no line, it is about the whole. How long
// the body may be is for the caller to bound.
func Document(body []byte, now time.Time) (Doc, error) {
	limits := resourcesync.DefaultLimits
	limits.Bytes = max(limits.Bytes, int64(len(body)))
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), limits)
	if err != nil {
		return Doc{}, err
	}
	d := Doc{Notification: n, Kind: journal.KindChange}
	if n.Capability == capabilityFramework {
		d.Kind = journal.KindFramework
	}
	switch {
	case d.Kind == journal.KindChange && !d.Timed():
		return Doc{}, bad("DOC-12", "a change notification has to say from when until when it reports: the root rs:md lacks from or until")
	case d.Timed() && d.Until.Before(d.From):
		return Doc{}, bad("DOC-13", "until is before from")
	case d.Until.After(now.Add(MaxAhead)):
		return Doc{}, bad("HUB-55", "until is more than 5 minutes in the future by this hub's clock, which says "+
			resourcesync.FormatDatetime(now)+"; a notification reports what has happened")
	}
	return d, nil
}

func bad(rule, msg string) error {
	return &DocumentError{Kind: BadDocument, Rule: rule, Msg: msg}
}
