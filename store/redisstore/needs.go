package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// needsScript tries the commands that a store needs, on a key that exists only meanwhile.
//
//	KEYS    1 the key
//	returns the commands that failed: name, error, name, error ...
var needsScript = newScript(bounded, `
local k, failed = KEYS[1], {}
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    failed[#failed + 1] = (select(1, ...))
    failed[#failed + 1] = answer.err
  end
end
try('TIME')
try('HSET', k, 'f', 'v')
try('HGET', k, 'f')
try('HMGET', k, 'f')
try('HGETALL', k)
try('HKEYS', k)
try('HLEN', k)
try('HEXISTS', k, 'f')
try('HDEL', k, 'f')
try('SET', k, 'v')
try('GET', k)
try('MGET', k)
try('EXISTS', k)
try('PEXPIRE', k, 60000)
try('PERSIST', k)
try('DEL', k)
try('LPUSH', k, 'v')
try('RPUSH', k, 'v')
try('LRANGE', k, 0, -1)
try('LTRIM', k, 1, 0)
try('SADD', k, 'v')
try('SMEMBERS', k)
try('SREM', k, 'v')
try('XADD', k, '*', 'f', 'v')
try('XLEN', k)
try('XRANGE', k, '-', '+')
try('XREVRANGE', k, '+', '-')
try('XREAD', 'COUNT', 1, 'STREAMS', k, '0')
try('XTRIM', k, 'MAXLEN', 0)
try('UNLINK', k)
try('ZADD', k, 1, 'v')
try('ZCARD', k)
try('ZRANGE', k, 0, -1)
try('ZREMRANGEBYRANK', k, 0, -1)
redis.pcall('DEL', k)
return failed
`)

// needs returns an error that wraps ErrRefused and names the commands that a hub needs and
// Redis refuses.
func (c *conn) needs(ctx context.Context) error {
	answers, err := c.run(ctx, needsScript, []string{c.key.meta(nameProbe)}).StringSlice()
	if forbidden(err) {
		return c.lacks("EVALSHA and EVAL", err.Error())
	}
	if err != nil {
		return fmt.Errorf("trying the commands of the Redis at %s: %w", c.location, err)
	}
	var names []string
	why := ""
	for pair := range slices.Chunk(answers, 2) {
		if isForbidden(pair[1]) {
			names, why = append(names, pair[0]), pair[1]
		}
	}
	if len(names) == 0 {
		return nil
	}
	return c.lacks(strings.Join(names, ", "), why)
}

// hintScript publishes a hint that nobody waits for.
//
//	KEYS    1 the channel; it is in the slot of the key of that name
//	ARGV    1 the command
//	returns nothing
var hintScript = newScript(bounded, `return redis.call(ARGV[1], KEYS[1], '')`)

// hears returns an error if Redis does not let this user send or receive hints.
func (c *conn) hears(ctx context.Context) error {
	channel := c.key.meta(nameProbe)
	if err := c.run(ctx, hintScript, []string{channel}, c.hintCommand()).Err(); err != nil {
		return err
	}
	server, err := c.master(ctx, channel)
	if err != nil {
		return err
	}
	sub := server.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if err = c.subscribe(ctx, sub, channel); err == nil {
		_, err = sub.ReceiveTimeout(ctx, c.timeout)
	}
	return err
}

// deaf returns the warning that hints do not reach the other hubs.
func (c *conn) deaf(why error) string {
	return fmt.Sprintf("the Redis at %s passes no hints on for this user (%v), so other hubs deliver what this hub accepts up to 5 s late, and this hub what others accept: allow PUBLISH and SUBSCRIBE (SPUBLISH and SSUBSCRIBE in a Cluster) and the channels &%s:* in the ACL",
		c.location, why, string(c.key))
}

// lacks returns the error about commands that Redis refuses with an answer, or about the keys that they name.
func (c *conn) lacks(names, answer string) error {
	if strings.Contains(strings.ToLower(answer), "permissions to access") {
		return fmt.Errorf("%w: the Redis at %s does not allow this user the keys that begin with %q (it answers %q): allow ~%[3]s:* and &%[3]s:* in the ACL, or correct --redis-prefix",
			ErrRefused, c.location, string(c.key), answer)
	}
	return fmt.Errorf("%w: the Redis at %s does not allow this user to call %s, which a hub needs (it answers %q): allow them in the ACL or by rename-command, or use another Redis",
		ErrRefused, c.location, names, answer)
}

// forbidden reports whether Redis says that this user may not call a command, or that it
// does not have the command, as with some providers.
func forbidden(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && isForbidden(answer.Error())
}

// isForbidden is forbidden for the text of an answer. Servers and providers word it
// differently.
func isForbidden(answer string) bool {
	if code, _, _ := strings.Cut(answer, " "); code == strings.ToUpper(code) && code != "ERR" {
		return code == "NOPERM" // an OOM error also says that the command is "not allowed"
	}
	answer = strings.ToLower(answer)
	for _, words := range []string{
		"unknown command", "unknown subcommand", "unknown redis command",
		"not allowed", "not available", "not supported", "unsupported", "not permitted", "is disabled",
		"no permissions", "can't run this command",
	} {
		if strings.Contains(answer, words) {
			return true
		}
	}
	return false
}
