package redisstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// Attempts implements subscriptions.History. Each is one element of a list,
// packed as a list of one, so that a script can add some without reading the others.
func (r *records) Attempts(ctx context.Context, id uuid.UUID) ([]subscriptions.Attempt, error) {
	packed, err := r.conn.client.LRange(ctx, r.conn.key.recordsOf(id).attempts(id), -subscriptions.MaxAttempts, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %v: %w", id, err)
	}
	var attempts []subscriptions.Attempt
	for _, p := range packed {
		one, err := subscriptions.UnpackAttempts([]byte(p))
		if err != nil {
			return nil, fmt.Errorf("subscription %v: %w", id, err)
		}
		attempts = subscriptions.AddAttempts(attempts, one...)
	}
	return attempts, nil
}

// appendAttempts appends packed attempts to the arguments of a script.
func appendAttempts(args []any, attempts []subscriptions.Attempt) []any {
	for i := range attempts {
		args = append(args, subscriptions.PackAttempts(attempts[i:i+1]))
	}
	return args
}
