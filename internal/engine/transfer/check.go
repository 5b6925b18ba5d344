package transfer

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// check is an error unless the line makes sense by itself.
func (l *notificationLine) check() error {
	e := l.entry()
	switch {
	case !isURL(l.Topic):
		return fmt.Errorf("%q is no topic", l.Topic)
	case l.Position == 0 || l.Seq == 0 || l.ReceivedAt.IsZero():
		return errors.New("it lacks one of position, seq and received_at")
	case journal.IDPartition(l.ID) != journal.Partition(journal.TopicID(l.Topic)):
		return fmt.Errorf("%v is no id of a notification of this topic", l.ID)
	case !slices.Contains([]journal.Kind{journal.KindChange, journal.KindFramework, journal.KindContent}, e.Kind):
		return fmt.Errorf("%q is no kind of notification", l.Kind)
	case l.Until.Before(l.From):
		return errors.New("its from and until are no interval")
	}
	if e.Check(e.Body) != nil {
		return errors.New("its body has another SHA-256 than it says")
	}
	return nil
}

// check is an error unless the line makes sense by itself.
func (l *topicLine) check() error {
	if r := l.Retained; r != nil && (r.Trimmed.Seq >= l.Last.Seq || r.Trimmed.Position >= l.Last.Position || r.Bytes < 0 || l.Removed) {
		return errors.New("its retained notifications make no sense")
	}
	if l.Removed && (l.Kind != "" || l.ID != uuid.Nil || !l.Until.IsZero() || len(l.Intervals) > 0) {
		return errors.New("it was removed, and still has a state")
	}
	kinds := []journal.Kind{"", journal.KindChange, journal.KindFramework, journal.KindContent} // none: it was reset
	switch {
	case !isURL(l.Topic):
		return fmt.Errorf("%q is no topic", l.Topic)
	case !l.Removed && !slices.Contains(kinds, journal.Kind(l.Kind)):
		return fmt.Errorf("%q is no kind of topic", l.Kind)
	case l.Last.Position == 0 || l.Last.Seq == 0:
		return errors.New("a topic without an entry has no state")
	case !l.Removed && (l.ID == uuid.Nil || l.ReceivedAt.IsZero()):
		return errors.New("it lacks the id or the time of the last entry")
	case l.From.IsZero() != l.Until.IsZero() || l.Until.Before(l.From):
		return errors.New("its from and until are no interval")
	case len(l.Intervals) > journal.Remembered:
		return fmt.Errorf("it has more than %d intervals", journal.Remembered)
	}
	var before uint64
	for _, i := range l.Intervals {
		if i.Position <= before || i.Position > l.Last.Position || i.ID == uuid.Nil || i.From.IsZero() || i.Until.Before(i.From) {
			return errors.New("its intervals make no sense")
		}
		before = i.Position
	}
	return checkGaps(l.Gaps)
}

func (l *pingLine) check() error {
	if !isURL(l.Topic) || l.PingedAt.IsZero() {
		return errors.New("it lacks a topic or a time")
	}
	return nil
}

func (l *subscriptionLine) check() error {
	switch {
	case !isURL(l.Topic) || !isURL(l.Callback):
		return errors.New("it lacks a topic or a callback")
	case l.ID != subscriptions.ID(l.Topic, l.Callback):
		return errors.New("its id is not that of its topic and callback")
	case l.InForce == nil && l.Request == nil:
		return errors.New("there is neither a subscription nor a request in it")
	}
	if l.InForce != nil {
		if err := l.InForce.check(); err != nil {
			return err
		}
	}
	if l.Request != nil {
		if err := l.Request.check(); err != nil {
			return err
		}
	}
	return l.read()
}

func (l *inForceLine) check() error {
	ends := []string{subscriptions.EndUnsubscribed, subscriptions.EndGone, subscriptions.EndExpired, subscriptions.EndRemoved}
	switch {
	case l.CreatedAt.IsZero() || l.VerifiedAt.IsZero() || l.ExpiresAt.IsZero():
		return errors.New("it lacks one of created_at, verified_at and expires_at")
	case l.EndedAt.IsZero() != (l.EndReason == ""):
		return errors.New("it has one of ended_at and end_reason without the other")
	case l.EndReason != "" && !slices.Contains(ends, l.EndReason):
		return fmt.Errorf("%q is no reason of an end", l.EndReason)
	case l.Cursor.Generation == 0:
		return errors.New("its cursor has no generation")
	case l.Cursor.LastStatus < journal.StatusError || l.Cursor.LastStatus > 999:
		return fmt.Errorf("%d is no status", l.Cursor.LastStatus)
	}
	return errors.Join(l.Start.check(), l.Cursor.check(), checkGaps(l.Gaps))
}

// maxLease bounds what a request can have been granted.
const maxLease = 100 * 365 * 24 * time.Hour

func (l *requestLine) check() error {
	switch {
	case l.ID == uuid.Nil || l.AcceptedAt.IsZero():
		return errors.New("its request lacks an id or accepted_at")
	case !slices.Contains([]string{"subscribe", "unsubscribe", "denied"}, l.Mode):
		return fmt.Errorf("%q is no mode of a request", l.Mode)
	case l.LeaseSeconds < 0 || l.LeaseSeconds > int64(maxLease/time.Second):
		return fmt.Errorf("%d is no lease", l.LeaseSeconds)
	case l.Tries < 0:
		return fmt.Errorf("%d is no number of tries", l.Tries)
	}
	return l.Start.check()
}

// check is an error where only a part of an anchor is there.
func (l *anchorLine) check() error {
	if (l.Position == 0) != (l.Seq == 0) {
		return errors.New("it has one of position and seq without the other")
	}
	return nil
}

func checkGaps(gaps []gapLine) error {
	if len(gaps) > journal.MaxGaps {
		return fmt.Errorf("it has more than %d gaps", journal.MaxGaps)
	}
	for _, g := range gaps {
		if g.Reason == "" {
			return errors.New("a gap has no reason")
		}
	}
	return nil
}

// isURL reports whether text can be a topic or a callback.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
