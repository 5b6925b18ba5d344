package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// commitScript merges cursors (invariant 3): a greater one takes the place of
// the stored one, with the attempts that come with it; any other is dropped, and
// so is one for which nothing is stored. It may run late, twice, or for a hub
// that lost its lease.
//
// It compares bytes, six at a time at first, which a number of Lua holds exactly:
// Lua would order the strings by the locale of the server. The first byte of a
// cursor is its version, and the next 32 decide.
//
//	KEYS    1 cursors; then, for each commit with attempts, the list of these
//	ARGV    1 how many attempts are kept; then for each commit: id, cursor, count of its attempts, the attempts
//	returns the ids whose stored cursor cannot be read
var commitScript = newScript(`#!lua flags=allow-oom
local byte, number = string.byte, struct.unpack
local function greater(a, b)
  local a1, a2, a3 = number('>I6I6I6', a)
  local b1, b2, b3 = number('>I6I6I6', b)
  if a1 ~= b1 then return a1 > b1 end
  if a2 ~= b2 then return a2 > b2 end
  if a3 ~= b3 then return a3 > b3 end
  for i = 19, #a do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return not y or x > y end
  end
  return false
end
local ids, at, i = {}, {}, 2
while ARGV[i] do
  ids[#ids + 1], at[#at + 1] = ARGV[i], i + 1
  i = i + 3 + ARGV[i + 2]
end
local now = {}
for n, cursor in ipairs(redis.call('HMGET', KEYS[1], unpack(ids))) do now[ids[n]] = cursor end
local won, unread, list = {}, {}, 1
for n, id in ipairs(ids) do
  local new, old, tries = ARGV[at[n]], now[id], ARGV[at[n] + 1]
  if tries ~= '0' then list = list + 1 end
  if old and (#old < 33 or byte(old) ~= byte(new)) then
    unread[#unread + 1] = id
  elseif old and greater(new, old) then
    now[id] = new
    won[#won + 1], won[#won + 2] = id, new
    if tries ~= '0' then
      redis.call('RPUSH', KEYS[list], unpack(ARGV, at[n] + 2, at[n] + 1 + tries))
      redis.call('LTRIM', KEYS[list], -ARGV[1], -1)
    end
  end
end
if won[1] then redis.call('HSET', KEYS[1], unpack(won)) end
return unread
`)

// Commit implements subscriptions.Committer. It is one script for each of the
// eight slots that the commits touch, all in one round trip. What changes more
// than a cursor and attempts takes two of these. Slots are stored one by one: with
// an error, some may have been.
func (s *Store) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	if err := ctx.Err(); err != nil || len(commits) == 0 {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	// What changes a subscription goes its own way, with all commits for the
	// same one, so that their order stays.
	whole := make(map[uuid.UUID][]*subscriptions.Commit)
	for i := range commits {
		if c := &commits[i]; len(c.Gaps) > 0 || c.End != "" {
			whole[c.ID] = nil
		}
	}
	var b batches
	for i := range commits {
		c := &commits[i]
		if _, ok := whole[c.ID]; ok {
			whole[c.ID] = append(whole[c.ID], c)
			continue
		}
		b.add(s.key, c)
	}
	unread, err := s.commitCursors(ctx, b.end())
	if err == nil {
		var more error
		more, err = s.commitWhole(ctx, whole)
		unread = errors.Join(unread, more)
	}
	if err != nil { // without unread, which says that all others were stored
		return fmt.Errorf("storing cursors: %w", err)
	}
	return unread
}

// call is one call of a script.
type call struct {
	keys []string
	args []any
}

// batches gathers commits into calls of commitScript.
type batches struct {
	filling [recordSlots]struct {
		call
		commits int
	}
	full []call
}

// maxArgs is about how many arguments a call of commitScript has at most.
const maxArgs = 4000

func (b *batches) add(k keys, c *subscriptions.Commit) {
	shard := subscriptions.Shard(c.ID)
	f := &b.filling[shard%recordSlots]
	keys := k.records(shard)
	if f.commits == 0 {
		f.keys, f.args = []string{keys.cursors}, append(make([]any, 0, 64), subscriptions.MaxAttempts)
	}
	attempts := c.Attempts[max(0, len(c.Attempts)-subscriptions.MaxAttempts):]
	if len(attempts) > 0 {
		f.keys = append(f.keys, keys.attempts(c.ID))
	}
	f.args = appendAttempts(append(f.args, c.ID[:], packCursor(c.Cursor), len(attempts)), attempts)
	if f.commits++; f.commits >= readMax || len(f.args) >= maxArgs {
		b.full = append(b.full, f.call)
		f.call, f.commits = call{}, 0
	}
}

// end returns all calls.
func (b *batches) end() []call {
	for i := range b.filling {
		if f := &b.filling[i]; f.commits > 0 {
			b.full = append(b.full, f.call)
		}
	}
	return b.full
}

// commitCursors runs commitScript. Unread names what cannot be read; err says
// that some was not stored.
func (s *Store) commitCursors(ctx context.Context, calls []call) (unread, err error) {
	for _, cmd := range s.runAll(ctx, commitScript, calls) {
		ids, cmdErr := cmd.StringSlice()
		err = cmp.Or(err, cmdErr)
		for _, id := range ids {
			unread = errors.Join(unread, fmt.Errorf("subscription %v: %w: a cursor: it is damaged, or a newer version wrote it", uuid.UUID([]byte(id)), journal.ErrPacked))
		}
	}
	return unread, err
}

// pipelined is how many calls go into one round trip, so that none of them waits
// longer for the others than a call may take.
const pipelined = 100

// runAll runs a script several times, in as few round trips as may be.
func (s *Store) runAll(ctx context.Context, script *redis.Script, calls []call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, 0, len(calls))
	for some := range slices.Chunk(calls, pipelined) {
		pipe := s.client.Pipeline()
		for _, c := range some {
			cmds = append(cmds, pipe.EvalSha(ctx, script.Hash(), c.keys, c.args...))
		}
		_, _ = pipe.Exec(ctx) // each has its own error
	}
	for i, c := range calls {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = s.run(ctx, script, c.keys, c.args...)
		}
	}
	return cmds
}
