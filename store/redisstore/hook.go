package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// limits is a hook of the client. It limits the time of every command, and turns errors
// into ones that say what to do.
type limits struct {
	timeout time.Duration
	cluster *redis.ClusterClient // nil: there is one server
}

// DialHook implements redis.Hook.
func (limits) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (l limits) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		err := next(limited, cmd)
		if !ofHandshake(cmd) {
			err = l.explain(ctx, err)
		}
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (l limits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		parts := l.byServer(limited, cmds)
		errs := make([]error, len(parts))
		var others sync.WaitGroup
		for i := 1; i < len(parts); i++ {
			others.Go(func() { errs[i] = l.explainEach(ctx, parts[i], next(limited, parts[i])) })
		}
		errs[0] = l.explainEach(ctx, parts[0], next(limited, parts[0]))
		others.Wait()
		return cmp.Or(errs...)
	}
}

// byServer splits a pipeline by the servers that get its commands. If one server of a Cluster does not answer in time, the
// client fails all commands of the pipeline, also those that other servers have answered.
func (l limits) byServer(ctx context.Context, cmds []redis.Cmder) (parts [][]redis.Cmder) {
	if l.cluster == nil {
		return [][]redis.Cmder{cmds}
	}
	part := map[*redis.Client]int{}
	for _, cmd := range cmds {
		server, err := l.cluster.MasterForKey(ctx, firstKey(cmd))
		if err != nil {
			return [][]redis.Cmder{cmds} // the client finds the same error
		}
		i, ok := part[server]
		if !ok {
			i, parts = len(parts), append(parts, nil)
			part[server] = i
		}
		parts[i] = append(parts[i], cmd)
	}
	return parts
}

// firstKey returns the first key of a command that pipelines of this package have.
func firstKey(cmd redis.Cmder) string {
	args, at := cmd.Args(), 1
	switch cmd.Name() {
	case "evalsha":
		at = 3
	case "xread":
		at = slices.Index(args, any("streams")) + 1
	}
	return fmt.Sprint(args[at])
}

// explainEach explains the errors of commands, and that of their pipeline.
func (l limits) explainEach(ctx context.Context, cmds []redis.Cmder, err error) error {
	if ofHandshake(cmds[0]) {
		return err
	}
	// If Redis refuses a new connection with an answer, as for a wrong password, the client says so in err alone,
	// and the commands, which were not sent, look as if they had succeeded.
	unsent := err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil })
	for _, cmd := range cmds {
		if unsent {
			cmd.SetErr(err)
		}
		if cmd.Err() != nil {
			cmd.SetErr(l.explain(ctx, cmd.Err()))
		}
	}
	return l.explain(ctx, err)
}

// ofHandshake reports whether the client sends a command by itself, over a new connection. The client decides by the error
// whether to try another connection, and returns the error from the command of the hub if not.
func ofHandshake(cmd redis.Cmder) bool {
	name := cmd.Name()
	return name == "hello" || name == "auth" || name == "select"
}

// explain turns an error of the client into one that says what to do. Ctx is that of the
// caller, without the limit.
func (l limits) explain(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrAway) || err == redis.Nil: //nolint:errorlint // a wrapped one is no answer, see answered
		return err
	case errors.Is(err, redis.ErrClosed):
		return ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w in time: %w", ErrAway, ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return awayError(fmt.Sprintf(" within %v", l.timeout))
	case outOfMemory(err):
		return fmt.Errorf("%w: Redis has reached its maxmemory; give it more memory, or keep notifications for a shorter time", journal.ErrFull)
	}
	switch {
	case answered(err) && redis.IsAuthError(err): // Redis refuses the connection, and so all that is sent over it
		return awayError(": " + advise(err).Error())
	case answered(err):
		return advise(err)
	}
	return awayError(": " + withoutAnswers(err) + whyClosed(err))
}

// closedIt begins the text of whyClosed.
const closedIt = "it closed the connection"

// whyClosed says what to do if the server closed the connection. Redis answers the connection over its maxclients and closes
// it at once, so the client often does not get to read the answer.
func whyClosed(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return " (" + closedIt + ": if it did not end, it may have reached its maxclients)"
	}
	return ""
}

// awayError is ErrAway with more text. It has no Unwrap: of an error about a new connection the client returns only what that
// wraps.
type awayError string

func (e awayError) Error() string { return ErrAway.Error() + string(e) }

// Is implements what errors.Is asks for.
func (awayError) Is(target error) bool { return target == ErrAway }

// withoutAnswers returns the text of an error that is no answer of the Redis that was asked. The error may wrap answers of
// Sentinels, and callers must not take these for answers of Redis: a Sentinel that does not know the master
// answers Nil, with which Redis says that there is no such key.
func withoutAnswers(err error) string {
	const failed = "redis: all sentinels specified in configuration are unreachable"
	text, ok := strings.CutPrefix(err.Error(), failed)
	switch {
	case !ok:
		return err.Error()
	case errors.Is(err, redis.Nil):
		return "the Sentinels know no master of the name in the Redis URL"
	}
	return "no Sentinel says which server is the master (a password for the Sentinels is sentinel-password in the Redis URL)" +
		strings.ReplaceAll(text, "\n", "; ")
}

// advice says what to do about answers that do not say it, by their beginnings. They concern a server as a whole.
var advice = []struct{ answer, do string }{
	{"NOAUTH ", wrongUser},
	{"WRONGPASS ", wrongUser},
	{"READONLY ", isReplica},
	{"MASTERDOWN ", isReplica},
	{"NOREPLICAS ", "fewer replicas follow it than its min-replicas-to-write says; start or repair a replica"},
	{"CLUSTERDOWN ", "look at CLUSTER INFO and CLUSTER NODES, and start the server whose slots have no master"},
	{"ERR This instance has cluster support disabled", "begin the Redis URL with redis://, or rediss:// for TLS"},
	{"ERR max number of clients reached", "raise its maxclients, or find out who uses its connections"},
}

const (
	wrongUser = "the Redis URL needs the user and the password, as in user:password@, before the first host"
	isReplica = "it is a replica; if this does not pass with a failover, name the master in the Redis URL, or its Sentinels with redis+sentinel://"
)

// advise adds advice to an answer.
func advise(answer error) error {
	for _, a := range advice {
		if strings.HasPrefix(answer.Error(), a.answer) {
			return fmt.Errorf("%w (%s)", answer, a.do)
		}
	}
	return answer
}

// answered reports whether an error is an answer of Redis. The client returns an answer as it is. Answers of other
// servers are wrapped in the error that says why it reached no Redis.
func answered(err error) bool {
	_, ok := err.(redis.Error) //nolint:errorlint // see above
	return ok
}

// outOfMemory reports whether Redis refused to store more. The error of a script says so in
// its middle.
func outOfMemory(err error) bool {
	return answered(err) &&
		(strings.HasPrefix(err.Error(), "OOM ") || strings.Contains(err.Error(), "command not allowed when used memory > 'maxmemory'"))
}
