package redisstore

import "github.com/redis/go-redis/v9"

// side says what Redis does with a script while it is over its maxmemory. The package
// comment says which writes belong to which side.
type side string

// The sides. Each is the first line of a script, with flags for Redis. Redis checks them
// before the script runs, so a refused script has written nothing.
const (
	// reads writes nothing, and always runs.
	reads side = "#!lua flags=no-writes,allow-oom"
	// bounded writes an amount that is bounded by what is stored already. It always runs.
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
// A script may run twice for one call, because the client sends it again if the answer was
// lost. It has to recognise that, or do no harm.
func newScript(of side, source string) *redis.Script {
	script := redis.NewScript(string(of) + "\n" + source)
	scripts[script] = of
	return script
}

// The parts that scripts share. Each documents what it reads and returns. The scripts
// document what they add.

// ifHeadStands begins the scripts that replace the head record of a topic. They go on
// if the stored record is still the one that was read.
//
//	KEYS    1 heads
//	ARGV    1 topic, 2 revision that the stored record must have, empty: there must be
//	        none, 3 new head record
//	returns {1} it is stored, by this run or by an earlier one with a lost answer;
//	        {0, head record} the stored one is different
const ifHeadStands = `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local revision = string.sub(now, 2, 9)
if revision ~= '' and revision == string.sub(ARGV[3], 2, 9) then return {1} end
if revision ~= ARGV[2] then return {0, now} end
`

// theTime is the part of a script that puts the time by the clock of the server into the variable us, in microseconds: that
// of the beginning of the script.
const theTime = `
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
`

// announce ends the scripts after which the topic counts as changed, and gives other
// hubs a hint of it. It comes after theTime. watcher.announcing makes its KEYS and ARGV.
//
//	KEYS    2 changes, 3 latest change
//	ARGV    1 topic, 4 most changes, 5 hint, 6 its channel, 7 command that publishes it
//	returns {1, time}
//
// The score of a change is the time in microseconds, and always more than before. So a
// hub that asks with a value from before a failover gets all later changes, even if the
// latest ones before it were lost. The same number goes into latest, which Poll reads for
// many partitions at once. The channel is not one of the KEYS, because Redis Cluster
// delays commands with missing keys while it moves their slot.
const announce = `
local n = us
local last = redis.call('ZRANGE', KEYS[2], 0, 0, 'REV', 'WITHSCORES')
if last[2] and tonumber(last[2]) >= n then n = last[2] + 1 end
n = string.format('%.0f', n)
redis.call('SET', KEYS[3], n)
if redis.call('ZADD', KEYS[2], n, ARGV[1]) == 1 then
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[4])
end
redis.pcall(ARGV[7], ARGV[6], ARGV[5])
return {1, us}
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

// swapped is the answer of a script that begins with ifHeadStands.
type swapped struct {
	stored bool
	other  string // the stored record, if it is different
	at     int64  // when the script ran, in microseconds by the clock of its server; 0: the answer does not say
}

// readSwapped reads the answer. One with an error may say at.
func readSwapped(cmd *redis.Cmd) (swapped, error) {
	v, err := cmd.Slice()
	if err != nil {
		return swapped{}, err
	}
	s := swapped{stored: v[0] == int64(1)}
	if len(v) == 2 {
		s.other = textOf(v[1])
		s.at, _ = v[1].(int64)
	}
	return s, refusals[v[0]]
}

// refusals are the errors for the other answers of appendScript.
var refusals = map[any]error{int64(2): errChunks, int64(3): errUnreconciled, int64(4): errLate}
