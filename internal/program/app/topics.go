package app

import (
	"context"
	"errors"

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
