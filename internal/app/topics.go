package app

import (
	"context"
	"errors"

	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

// topicCheck lets subscriptions ask the topic check, in its own words.
type topicCheck struct{ topics *validate.TopicChecker }

func (c topicCheck) Check(ctx context.Context, topic string) error {
	err := c.topics.Check(ctx, topic)
	var denied *validate.DeniedError
	var wait *validate.WaitError
	switch {
	case errors.As(err, &denied):
		return &subscriptions.DeniedError{Reason: denied.Reason}
	case errors.As(err, &wait):
		return &subscriptions.WaitError{After: wait.After}
	default:
		return err
	}
}
