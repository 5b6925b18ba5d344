package redisstore

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/rshub/rshub/journal"
)

const (
	maxRetries   = 3
	maxRedirects = 8
	poolSize     = 64 // connections to each server
)

// conn is the connection to Redis, with the names of the keys there. It has no other
// state. All parts of a Store use it.
type conn struct {
	client   redis.UniversalClient
	cluster  bool
	key      keys
	location string        // where Redis is, without a password
	timeout  time.Duration // of one command
}

// connect makes the client, without dialing. Timeout limits each of its commands.
func connect(t target, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := t.options(timeout)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the client's errors say the same
	client := redis.NewUniversalClient(o)
	cluster, _ := client.(*redis.ClusterClient)
	client.AddHook(limits{timeout, cluster})
	return client, nil
}

// run runs a script by its hash, or by its source if the server does not know it yet.
func (c *conn) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	return script.Run(ctx, c.client, keys, args...)
}

// call is one call of a script.
type call struct {
	keys []string
	args []any
}

// pipelined is how many calls one round trip has at most, so that none of them waits
// longer for the others than a call may take.
const pipelined = 100

// runEach runs a script for each of some things, in as few round trips as possible, and
// yields each thing with its answer. Breaking the loop leaves out the round trips to come.
func runEach[T any](ctx context.Context, c *conn, script *redis.Script, things []T, describe func(T) call) iter.Seq2[T, *redis.Cmd] {
	return func(yield func(T, *redis.Cmd) bool) {
		for some := range slices.Chunk(things, pipelined) {
			pipe := c.client.Pipeline()
			cmds := make([]*redis.Cmd, len(some))
			for i, thing := range some {
				call := describe(thing)
				cmds[i] = pipe.EvalSha(ctx, script.Hash(), call.keys, call.args...)
			}
			_, _ = pipe.Exec(ctx) // each has its own error
			for i, thing := range some {
				if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
					call := describe(thing)
					cmds[i] = c.run(ctx, script, call.keys, call.args...)
				}
				if !yield(thing, cmds[i]) {
					return
				}
			}
		}
	}
}

// textOf is a value of an answer as a string. Nil is "".
func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// master returns the server that has a key.
func (c *conn) master(ctx context.Context, key string) (redis.UniversalClient, error) {
	if cluster, ok := c.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return c.client, nil
}

// masters returns the partitions by the master that has them.
func (c *conn) masters(ctx context.Context) (map[redis.UniversalClient][]int, error) {
	out := map[redis.UniversalClient][]int{}
	for n := range journal.Partitions {
		server, err := c.master(ctx, c.key.partition(n, nameHints))
		if err != nil {
			return nil, err
		}
		out[server] = append(out[server], n)
	}
	return out, nil
}

// askMasters asks all servers that the hub writes to, several at once, and returns their
// answers.
func askMasters[T any](ctx context.Context, c *conn, ask func(ctx context.Context, server redis.Cmdable, addr string) (T, error)) ([]T, error) {
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		answer, err := ask(ctx, c.client, c.location)
		return []T{answer}, err
	}
	var mu sync.Mutex
	var answers []T
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		answer, err := ask(ctx, master, master.Options().Addr)
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, answer)
		return err
	})
	return answers, limits{timeout: c.timeout}.explain(ctx, err) // the clients of single servers have no hooks
}

// hintCommand is the command that sends a hint.
func (c *conn) hintCommand() string {
	if c.cluster {
		return "SPUBLISH"
	}
	return "PUBLISH"
}
