package validate

import (
	"bytes"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// MaxAhead is how far a notification's `until` may lie in the hub's future. Without a
// bound, a notification that ends in 2099 would make its topic refuse everything until
// then.
const MaxAhead = 5 * time.Minute

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

// Timed reports whether the notification has both instants. A change notification always
// has.
func (d *Doc) Timed() bool { return !d.From.IsZero() && !d.Until.IsZero() }

// Document checks a notification: every rule of DOC-10 to DOC-20, and that its `until` is
// at most MaxAhead after now. An error is a *DocumentError; without a line, it is about
// the whole. The caller bounds the length of the body.
func Document(body []byte, now time.Time) (Doc, error) {
	limits := resourcesync.DefaultLimits
	limits.Bytes = max(limits.Bytes, int64(len(body)))
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), limits)
	if err != nil {
		return Doc{}, err
	}
	if n.Until.After(now.Add(MaxAhead)) {
		return Doc{}, &DocumentError{
			Kind: BadDocument, Rule: "HUB-55",
			Msg: "until, " + resourcesync.FormatDatetime(n.Until) + ", is more than 5 minutes after the time of this hub, " +
				resourcesync.FormatDatetime(now) + "; a notification reports what has happened",
		}
	}
	d := Doc{Notification: n, Kind: journal.KindChange}
	if n.Capability == resourcesync.FrameworkNotification {
		d.Kind = journal.KindFramework
	}
	return d, nil
}
