package app

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

// topicCheck translates the errors of the topic check to those of package subscriptions.
type topicCheck struct{ topics *validate.TopicChecker }

func (c topicCheck) Check(ctx context.Context, topic string) error {
	err := c.topics.Check(ctx, topic)
	if denied, ok := errors.AsType[*validate.DeniedError](err); ok {
		return &subscriptions.DeniedError{Reason: denied.Reason}
	}
	if wait, ok := errors.AsType[*validate.WaitError](err); ok {
		return &subscriptions.WaitError{After: wait.After}
	}
	return err
}

// pauses returns why the subscriptions of a topic wait, as far as this hub delivers to them.
func (a *App) pauses(topic string) (out []admin.Pause) {
	d := a.dispatcher.Load()
	if d == nil {
		return nil
	}
	for _, tr := range d.Troubles(topic) {
		p := admin.Pause{
			Reason: "store", Error: tr.Err.Error(), Since: tr.Since.UTC(), NextLookAt: tr.NextLook,
			Seq: tr.Seq, PassedOver: tr.PassedOver,
		}
		if tr.Damaged {
			p.Reason, p.PassedOverAt = "damaged", tr.PassedOverAt.UTC()
		}
		if tr.NotificationID != uuid.Nil {
			p.NotificationID = tr.NotificationID.String()
		}
		out = append(out, p)
	}
	return out
}
