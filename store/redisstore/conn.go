package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rshub/rshub/journal"
)

const (
	maxRetries   = 3
	maxRedirects = 8
	poolSize     = 64 // connections to each server
)

// conn is the connection to Redis, with the names of the keys there. It has no state
// of its own, and all parts of a Store work through it.
type conn struct {
	client   redis.UniversalClient
	cluster  bool
	key      keys
	location string // for people, without a password
}

// connect makes the client, whose commands take no longer than timeout. It dials
// nothing yet.
func connect(t target, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	// All that the client has to say it says in errors as well.
	logging.Disable()
	o.MaxRetries, o.MaxRedirects = maxRetries, maxRedirects
	o.MinRetryBackoff, o.MaxRetryBackoff = 20*time.Millisecond, 200*time.Millisecond
	o.DialTimeout, o.DialerRetries = timeout/3, 1 // so that another try is left
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.PoolSize = poolSize
	// An ACL user need not be allowed what nothing depends on.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Reads go to masters alone: ReadOnly and the Route options stay as they are.
	client := redis.NewUniversalClient(o)
	client.AddHook(limits{timeout: timeout})
	return client, nil
}

// run runs a script by its hash, and by its source where the server does not
// know it yet.
func (c *conn) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	return script.Run(ctx, c.client, keys, args...)
}

// call is one call of a script.
type call struct {
	keys []string
	args []any
}

// pipelined is how many calls go into one round trip, so that none of them waits
// longer for the others than a call may take.
const pipelined = 100

// runAll runs a script several times, in as few round trips as may be.
func (c *conn) runAll(ctx context.Context, script *redis.Script, calls []call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, 0, len(calls))
	for some := range slices.Chunk(calls, pipelined) {
		pipe := c.client.Pipeline()
		for _, call := range some {
			cmds = append(cmds, pipe.EvalSha(ctx, script.Hash(), call.keys, call.args...))
		}
		_, _ = pipe.Exec(ctx) // each has its own error
	}
	for i, call := range calls {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = c.run(ctx, script, call.keys, call.args...)
		}
	}
	return cmds
}

// masters returns the partitions by the server that has them.
func (c *conn) masters(ctx context.Context) (map[redis.UniversalClient][]int, error) {
	out := map[redis.UniversalClient][]int{}
	cluster, ok := c.client.(*redis.ClusterClient)
	for n := range journal.Partitions {
		server := c.client
		if ok {
			master, err := cluster.MasterForKey(ctx, c.key.partition(n, nameHints))
			if err != nil {
				return nil, err
			}
			server = master
		}
		out[server] = append(out[server], n)
	}
	return out, nil
}

// eachMaster asks all servers that are written to, several at once.
func (c *conn) eachMaster(ctx context.Context, ask func(ctx context.Context, server redis.Cmdable, addr string) error) error {
	if cluster, ok := c.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return ask(ctx, master, master.Options().Addr) })
	}
	return ask(ctx, c.client, c.location)
}

// hintCommand is the command that sends a hint.
func (c *conn) hintCommand() string {
	if c.cluster {
		return "SPUBLISH"
	}
	return "PUBLISH"
}
