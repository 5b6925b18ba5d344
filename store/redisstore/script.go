package redisstore

import "github.com/redis/go-redis/v9"

// side says what Redis does with a script while it holds more than its maxmemory.
// The package comment says which writes belong on which side.
type side string

// The sides. Each begins the script with the flags that make Redis keep to it.
// Redis looks before the script runs, so that a refused one wrote nothing.
const (
	// reads writes nothing, and always runs.
	reads side = "#!lua flags=no-writes,allow-oom"
	// bounded writes no more than what is stored already makes room for. It always
	// runs.
	bounded side = "#!lua flags=allow-oom"
	// grows stores something new, so Redis refuses it: the error wraps
	// journal.ErrFull.
	grows side = "#!lua"
)

// scripts are all scripts of this package, for the tests.
var scripts = map[*redis.Script]side{}

// newScript makes a script of its source. Each is one variable, with its KEYS,
// ARGV and results documented. All of its KEYS are in one slot.
//
// A script may run twice for one call, as the client sends it again where the
// answer got lost; it has to recognise that, or to do no harm.
func newScript(of side, source string) *redis.Script {
	script := redis.NewScript(string(of) + "\n" + source)
	scripts[script] = of
	return script
}

// The parts that scripts have in common. Each says once what it reads and returns; the
// scripts say what they add.

// ifHeadStands begins the scripts that replace the head record of a topic. They go on
// if the stored record is still the one that was read.
//
//	KEYS    1 heads
//	ARGV    1 topic, 2 revision that the stored record must have, empty: there must be
//	        none, 3 new head record
//	returns {1} it is stored, by this run or by one before whose answer was lost;
//	        {0, head record} the stored one is another
const ifHeadStands = `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local revision = string.sub(now, 2, 9)
if revision ~= '' and revision == string.sub(ARGV[3], 2, 9) then return {1} end
if revision ~= ARGV[2] then return {0, now} end
`

// announce ends the scripts after which the topic counts as changed, and gives other
// hubs a hint of it. watcher.announcing makes its KEYS and ARGV.
//
//	KEYS    2 changes, 3 latest change
//	ARGV    1 topic, 4 most changes, 5 hint, 6 its channel, 7 command that publishes it
//	returns {1}
//
// The score of a change is the time in microseconds, and always more than before. So a
// hub that asks with a value from before a failover gets what came after it, even if
// the changes lost their tail. The same number goes into latest, which Poll reads for
// many partitions at once. The channel is none of the KEYS: while Redis Cluster moves
// a slot, it delays commands that name keys that do not exist.
const announce = `
local time = redis.call('TIME')
local n = time[1] * 1000000 + time[2]
local last = redis.call('ZRANGE', KEYS[2], 0, 0, 'REV', 'WITHSCORES')
if last[2] and tonumber(last[2]) >= n then n = last[2] + 1 end
n = string.format('%.0f', n)
redis.call('SET', KEYS[3], n)
if redis.call('ZADD', KEYS[2], n, ARGV[1]) == 1 then
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[4])
end
redis.pcall(ARGV[7], ARGV[6], ARGV[5])
return {1}
`

// replacing returns the call of a script that begins with ifHeadStands.
func replacing(k topicKeys, was headRecord, next string) call {
	return call{[]string{k.heads}, []any{k.field, was.revision, next}}
}

// announcing is replacing for a script that also ends with announce.
func (w *watcher) announcing(k topicKeys, was headRecord, next string) call {
	return replacing(k, was, next).with([]string{k.changes, k.latest},
		maxTopicChanges, w.message(was.Topic), k.hints, w.conn.hintCommand())
}

// with returns c with more KEYS and ARGV at its end.
func (c call) with(keys []string, args ...any) call {
	return call{append(c.keys, keys...), append(c.args, args...)}
}

// swapped reads what a script returns that begins with ifHeadStands.
func swapped(cmd *redis.Cmd) (stored bool, now string, err error) {
	v, err := cmd.Slice()
	if err != nil {
		return false, "", err
	}
	if len(v) == 2 {
		now, _ = v[1].(string)
	}
	switch v[0] {
	case int64(1):
		return true, "", nil
	case int64(2):
		return false, "", errChunks
	case int64(3):
		return false, "", errUnreconciled
	default:
		return false, now, nil
	}
}
