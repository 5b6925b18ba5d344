package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// newScript makes a script of its source. Each is one variable, with its KEYS,
// ARGV and results documented. All of its KEYS are in one slot.
//
// A script may run twice for one call, as the client sends it again where the
// answer got lost; it has to recognise that, or to do no harm.
func newScript(source string) *redis.Script { return redis.NewScript(source) }

// run runs a script by its hash, and by its source where the server does not
// know it yet.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	return script.Run(ctx, s.client, keys, args...)
}
