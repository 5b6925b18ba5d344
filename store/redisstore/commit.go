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
//	KEYS    the hashes of cursors; then, for each commit with attempts, the list of its attempts
//	ARGV    1 how many attempts are kept, 2 how many hashes; then for each hash: count of its commits,
//	        and for each of these: id, cursor, count of its attempts, the attempts
//	returns two lists: the ids whose stored cursor cannot be read; and those whose
//	        commit cannot be stored, each with the error
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
local unread, failed = {}, {}
local i, list = 3, tonumber(ARGV[2])
for h = 1, tonumber(ARGV[2]) do
  local ids, at, now, won = {}, {}, {}, {}
  local count = tonumber(ARGV[i])
  i = i + 1
  for n = 1, count do
    ids[n], at[n] = ARGV[i], i + 1
    i = i + 3 + ARGV[i + 2]
  end
  local cursors = redis.pcall('HMGET', KEYS[h], unpack(ids))
  for n, id in ipairs(ids) do
    if cursors.err then failed[#failed + 1], failed[#failed + 2] = id, cursors.err else now[id] = cursors[n] end
  end
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
  if won[1] then redis.call('HSET', KEYS[h], unpack(won)) end
end
return {unread, failed}
`)

// Commit implements subscriptions.Committer. It runs one script for up to some 1,300 commits, and in a Cluster one for
// each of the eight slots that they touch, all in one round trip. Commits that change more than a
// cursor and attempts take two round trips. Each commit is stored or fails by itself.
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
	var plain parts
	for i := range commits {
		if c := &commits[i]; apart[c.ID] {
			whole[c.ID] = append(whole[c.ID], c)
		} else {
			plain.add(r.conn.key, c)
		}
	}
	failed := make(failures)
	r.commitCursors(ctx, plain.batches(r.conn.cluster), failed)
	r.commitWhole(ctx, whole, failed)
	if len(failed) == 0 {
		return nil
	}
	if err := failed.away(len(apart)); err != nil {
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

// part is commits whose cursors are in one hash.
type part struct {
	cursors string
	lists   []string // of attempts
	args    []any
	ids     []uuid.UUID
}

// maxArgs is roughly the greatest number of arguments of a call of commitScript.
const maxArgs = 4000

// parts are commits, by the slot of their hash. One that is full goes to the end.
type parts struct {
	filling [recordSlots]part
	full    []part
}

func (ps *parts) add(k keys, c *subscriptions.Commit) {
	shard := subscriptions.Shard(c.ID)
	p := &ps.filling[shard%recordSlots]
	keys := k.records(shard)
	p.cursors = keys.cursors
	attempts := c.Attempts[max(0, len(c.Attempts)-subscriptions.MaxAttempts):]
	if len(attempts) > 0 {
		p.lists = append(p.lists, keys.attempts(c.ID))
	}
	p.args = appendAttempts(append(p.args, c.ID[:], journal.PackCursor(c.Cursor), len(attempts)), attempts)
	if p.ids = append(p.ids, c.ID); len(p.ids) >= readMax || len(p.args) >= maxArgs {
		ps.full, *p = append(ps.full, *p), part{}
	}
}

// batch is a call of commitScript, and the subscriptions that it is for.
type batch struct {
	call
	ids []uuid.UUID
}

// batches returns the calls. In a Cluster each has one part, since a script has keys of one slot there.
func (ps *parts) batches(cluster bool) (all []batch) {
	left := slices.DeleteFunc(append(ps.full, ps.filling[:]...), func(p part) bool { return len(p.ids) == 0 })
	for len(left) > 0 {
		n, size := 1, len(left[0].args)
		for ; n < len(left) && !cluster && size+len(left[n].args) <= maxArgs; n++ {
			size += len(left[n].args)
		}
		b := batch{call: call{args: append(make([]any, 0, 2+n+size), subscriptions.MaxAttempts, n)}}
		for _, p := range left[:n] {
			b.ids = append(b.ids, p.ids...)
			b.call = b.with([]string{p.cursors}, len(p.ids)).with(nil, p.args...)
		}
		for _, p := range left[:n] {
			b.keys = append(b.keys, p.lists...)
		}
		all, left = append(all, b), left[n:]
	}
	return all
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
			failed[idOf(pair[0])] = fmt.Errorf("storing its cursor or attempts: %v", pair[1])
		}
	}
}

// idOf is an id as scripts return it.
func idOf(v any) (id uuid.UUID) {
	copy(id[:], textOf(v))
	return id
}
