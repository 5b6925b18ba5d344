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
		return fmt.Errorf("%q is not a topic", l.Topic)
	case l.Position == 0 || l.Seq == 0 || l.ReceivedAt.IsZero():
		return errors.New("position, seq or received_at is missing")
	case journal.IDPartition(l.ID) != journal.Partition(journal.TopicID(l.Topic)):
		return fmt.Errorf("%v is not the id of a notification of this topic", l.ID)
	case !slices.Contains([]journal.Kind{journal.KindChange, journal.KindFramework, journal.KindContent}, e.Kind):
		return fmt.Errorf("%q is not a kind of notification", l.Kind)
	case l.Until.Before(l.From):
		return errors.New("its from and until do not form an interval")
	}
	if e.Check(e.Body) != nil {
		return errors.New("its body does not have the SHA-256 that the line says")
	}
	return nil
}

// check is an error unless the line makes sense by itself.
func (l *topicLine) check() error {
	if r := l.Retained; r != nil && (r.Trimmed.Seq >= l.Last.Seq || r.Trimmed.Position >= l.Last.Position || r.Bytes < 0 || l.Removed) {
		return errors.New("its retained notifications contradict each other")
	}
	if l.Removed && (l.Kind != "" || l.ID != uuid.Nil || !l.Until.IsZero() || len(l.Intervals) > 0) {
		return errors.New("it is removed and has a state, which exclude each other")
	}
	kinds := []journal.Kind{"", journal.KindChange, journal.KindFramework, journal.KindContent} // empty: it was reset
	switch {
	case !isURL(l.Topic):
		return fmt.Errorf("%q is not a topic", l.Topic)
	case !l.Removed && !slices.Contains(kinds, journal.Kind(l.Kind)):
		return fmt.Errorf("%q is not a kind of topic", l.Kind)
	case l.Last.Position == 0 || l.Last.Seq == 0:
		return errors.New("a topic without an entry has no state")
	case !l.Removed && (l.ID == uuid.Nil || l.ReceivedAt.IsZero()):
		return errors.New("the id or the time of the last entry is missing")
	case l.From.IsZero() != l.Until.IsZero() || l.Until.Before(l.From):
		return errors.New("its from and until do not form an interval")
	case len(l.Intervals) > journal.Remembered:
		return fmt.Errorf("it has more than %d intervals", journal.Remembered)
	}
	var before uint64
	for _, i := range l.Intervals {
		if i.Position <= before || i.Position > l.Last.Position || i.ID == uuid.Nil || i.From.IsZero() || i.Until.Before(i.From) {
			return errors.New("its intervals contradict each other")
		}
		before = i.Position
	}
	return checkGaps(l.Gaps)
}

func (l *pingLine) check() error {
	if !isURL(l.Topic) || l.PingedAt.IsZero() {
		return errors.New("its topic or time is missing")
	}
	return nil
}

func (l *subscriptionLine) check() error {
	switch {
	case !isURL(l.Topic) || !isURL(l.Callback):
		return errors.New("its topic or callback is missing")
	case l.ID != subscriptions.ID(l.Topic, l.Callback):
		return errors.New("its id is not that of its topic and callback")
	case l.InForce == nil && l.Request == nil:
		return errors.New("it has neither a subscription nor a request")
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
		return errors.New("created_at, verified_at or expires_at is missing")
	case l.EndedAt.IsZero() != (l.EndReason == ""):
		return errors.New("it has only one of ended_at and end_reason")
	case l.EndReason != "" && !slices.Contains(ends, l.EndReason):
		return fmt.Errorf("%q is not an end_reason", l.EndReason)
	case l.Cursor.Generation == 0:
		return errors.New("its cursor has no generation")
	case l.Cursor.LastStatus < journal.StatusError || l.Cursor.LastStatus > 999:
		return fmt.Errorf("%d is not an HTTP status", l.Cursor.LastStatus)
	}
	return errors.Join(l.Start.check(), l.Cursor.check(), checkGaps(l.Gaps))
}

// maxLease is the longest lease that a request may have.
const maxLease = 100 * 365 * 24 * time.Hour

func (l *requestLine) check() error {
	switch {
	case l.ID == uuid.Nil || l.AcceptedAt.IsZero():
		return errors.New("the id or accepted_at of its request is missing")
	case !slices.Contains([]string{"subscribe", "unsubscribe", "denied"}, l.Mode):
		return fmt.Errorf("%q is not a mode of a request", l.Mode)
	case l.LeaseSeconds < 0 || l.LeaseSeconds > int64(maxLease/time.Second):
		return fmt.Errorf("%d is not a lease", l.LeaseSeconds)
	case l.Tries < 0:
		return fmt.Errorf("%d is not a number of tries", l.Tries)
	}
	return l.Start.check()
}

// check returns an error if only a part of an anchor is there.
func (l *anchorLine) check() error {
	if (l.Position == 0) != (l.Seq == 0) {
		return errors.New("it has only one of position and seq")
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
		if err := g.After.check(); err != nil {
			return fmt.Errorf("the end of a gap: %w", err)
		}
	}
	return nil
}

// isURL reports whether text can be a topic or a callback.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
