package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// commitScript merges cursors (invariant 3). A greater one replaces the stored one, and its
// attempts are added. Any other is dropped, and so is one without a stored cursor. The
// script may run late, twice, or for a hub that lost its lease.
//
// It compares bytes, because Lua would order strings by the locale of the server. The
// first 18 are three numbers of six bytes, which Lua represents exactly. The first byte of
// a cursor is its version, and the next 32 decide.
//
//	KEYS    1 cursors; then, for each commit with attempts, the list of its attempts
//	ARGV    1 how many attempts are kept; then for each commit: id, cursor, count of its attempts, the attempts
//	returns two lists: the ids whose stored cursor cannot be read; and those whose
//	        attempts cannot be stored, each with the error
var commitScript = newScript(bounded, `
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
local won, unread, failed, list = {}, {}, {}, 1
for n, id in ipairs(ids) do
  local new, old, tries = ARGV[at[n]], now[id], ARGV[at[n] + 1]
  if tries ~= '0' then list = list + 1 end
  if old and (#old < 33 or byte(old) ~= byte(new)) then
    unread[#unread + 1] = id
  elseif old and greater(new, old) then
    local pushed = 0
    if tries ~= '0' then
      pushed = redis.pcall('RPUSH', KEYS[list], unpack(ARGV, at[n] + 2, at[n] + 1 + tries))
    end
    if type(pushed) == 'table' then
      failed[#failed + 1], failed[#failed + 2] = id, pushed.err
    else
      now[id] = new
      won[#won + 1], won[#won + 2] = id, new
      if pushed > tonumber(ARGV[1]) then redis.call('LTRIM', KEYS[list], -ARGV[1], -1) end
    end
  end
end
if won[1] then redis.call('HSET', KEYS[1], unpack(won)) end
return {unread, failed}
`)

// Commit implements subscriptions.Committer. It runs one script for each of the eight slots
// that the commits touch, all in one round trip. Commits that change more than a cursor and
// attempts take two round trips. The slots, and the commits in a slot, are stored or fail
// independently.
func (r *records) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	if err := ctx.Err(); err != nil || len(commits) == 0 {
		return err
	}
	if err := r.checks.writable(); err != nil {
		return err
	}
	// commitWhole stores commits that change a subscription, and several commits for one
	// subscription: all of them or none are stored, so that their order stays.
	apart := make(map[uuid.UUID]bool, len(commits))
	for i := range commits {
		_, again := apart[commits[i].ID]
		apart[commits[i].ID] = again || !commits[i].CursorOnly()
	}
	whole := make(map[uuid.UUID][]*subscriptions.Commit)
	var b batches
	for i := range commits {
		if c := &commits[i]; apart[c.ID] {
			whole[c.ID] = append(whole[c.ID], c)
		} else {
			b.add(r.conn.key, c)
		}
	}
	failed := make(failures)
	r.commitCursors(ctx, b.end(), failed)
	r.commitWhole(ctx, whole, failed)
	if len(failed) == 0 {
		return nil
	}
	// In a Cluster the servers of other subscriptions may answer, and the caller must not wait with theirs.
	if err := failed.away(len(apart)); err != nil && !r.conn.cluster {
		return fmt.Errorf("storing cursors: %w", err)
	}
	return fmt.Errorf("storing cursors: %w", &subscriptions.CommitError{Failed: failed})
}

// failures are the errors of commits that were not stored, by subscription.
type failures map[uuid.UUID]error

// all records the same error for several subscriptions.
func (f failures) all(ids []uuid.UUID, why error) {
	for _, id := range ids {
		f[id] = why
	}
}

// away returns an error if Redis answered for none of n subscriptions. Then the caller need
// not report each of them.
func (f failures) away(n int) (why error) {
	if len(f) < n {
		return nil
	}
	for _, why = range f {
		if !errors.Is(why, ErrAway) {
			return nil
		}
	}
	return why
}

// batches gathers commits into calls of commitScript.
type batches struct {
	filling [recordSlots]batch
	full    []batch
}

// batch is a call and the subscriptions that it is for.
type batch struct {
	call
	ids []uuid.UUID
}

// maxArgs is roughly the greatest number of arguments of a call of commitScript.
const maxArgs = 4000

func (b *batches) add(k keys, c *subscriptions.Commit) {
	shard := subscriptions.Shard(c.ID)
	f := &b.filling[shard%recordSlots]
	keys := k.records(shard)
	if len(f.ids) == 0 {
		f.keys, f.args = []string{keys.cursors}, append(make([]any, 0, 64), subscriptions.MaxAttempts)
	}
	attempts := c.Attempts[max(0, len(c.Attempts)-subscriptions.MaxAttempts):]
	if len(attempts) > 0 {
		f.keys = append(f.keys, keys.attempts(c.ID))
	}
	f.args = appendAttempts(append(f.args, c.ID[:], journal.PackCursor(c.Cursor), len(attempts)), attempts)
	if f.ids = append(f.ids, c.ID); len(f.ids) >= readMax || len(f.args) >= maxArgs {
		b.full, *f = append(b.full, *f), batch{}
	}
}

// end returns all calls.
func (b *batches) end() []batch {
	for _, f := range b.filling {
		if len(f.ids) > 0 {
			b.full = append(b.full, f)
		}
	}
	return b.full
}

// errCursor says that a stored cursor cannot be read.
var errCursor = fmt.Errorf("%w: a cursor: it is damaged, or a newer version wrote it", journal.ErrPacked)

// commitCursors runs commitScript, and adds to failed what was not stored.
func (r *records) commitCursors(ctx context.Context, of []batch, failed failures) {
	for b, cmd := range runEach(ctx, r.conn, commitScript, of, func(b batch) call { return b.call }) {
		lists, err := cmd.Slice()
		if err != nil {
			failed.all(b.ids, err)
			continue
		}
		unread, _ := lists[0].([]any)
		for _, id := range unread {
			failed[idOf(id)] = errCursor
		}
		refused, _ := lists[1].([]any)
		for pair := range slices.Chunk(refused, 2) {
			failed[idOf(pair[0])] = fmt.Errorf("storing its attempts: %v", pair[1])
		}
	}
}

// idOf is an id as scripts return it.
func idOf(v any) (id uuid.UUID) {
	copy(id[:], textOf(v))
	return id
}
