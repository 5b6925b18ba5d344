package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// A Redis server generates a new replication id whenever it begins a new history: when it
// starts, and when it is promoted. If the server of a partition still has the
// id that its hubs saw last, it lost nothing that it acknowledged. If it has another
// one, the partition may have lost its tail, or everything. The key "history" of a
// partition holds
//
//	epoch, a colon, and the replication id with which the partition was reconciled
//
// It is reconciled when every live hub has compared what it remembers with what is
// there (compare.go), and repaired the differences. Until then nothing is appended:
//
//	                  another replication id,
//	┌────────────┐    or the key is gone           ┌──────────────┐
//	│ reconciled │ ──────────────────────────────> │ unreconciled │ appends are refused
//	└────────────┘                                 └──────────────┘
//	       ^      epoch + 1: the last live hub            │ each hub compares, and says so
//	       └───────────────────────────────────────────── ┘ in the key "confirmed"
//
// Each hub knows which histories it compared with, and appends to no other. A hub that was
// away while the others reconciled compares before it continues.

// theReplicationID is the part of a script that puts the replication id into a variable. It is
// empty if the ACL forbids INFO. This costs about 3 microseconds.
const theReplicationID = `
local info = redis.pcall('INFO', 'replication')
local replid = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
`

// historyScript returns the history of a partition.
//
//	KEYS    1 history
//	returns {replication id, history or ''}
var historyScript = newScript(reads, theReplicationID+`
return {replid, redis.call('GET', KEYS[1]) or ''}
`)

// confirmScript stores that a hub begins to compare, and then that it has compared.
// The first is missing if the partition was emptied again in between.
//
//	KEYS    1 confirmed
//	ARGV    1 replication id of the comparison, 2 id of the hub, 3 '1': it begins
//	returns 1; 0: the server has another replication id by now, or lost the record that
//	        the hub began
var confirmScript = newScript(bounded, theReplicationID+`
if replid ~= ARGV[1] then return 0 end
if ARGV[3] == '1' then
  redis.call('HSET', KEYS[1], ARGV[2], 'compares')
  return 1
end
local said = redis.call('HGET', KEYS[1], ARGV[2])
if said ~= 'compares' and said ~= replid then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], replid)
return 1
`)

// reconciledScript begins a new history of a partition, if all hubs have compared.
//
//	KEYS    1 history, 2 confirmed
//	ARGV    1 replication id, 2 the greatest epoch that this hub knows; then the ids of
//	        the live hubs
//	returns the history; '': the server has another replication id, or a hub has not
//	        compared yet
var reconciledScript = newScript(bounded, theReplicationID+`
if replid ~= ARGV[1] then return '' end
local history = redis.call('GET', KEYS[1]) or ''
local epoch, of = string.match(history, '^(%d+):(%x*)$')
if of == replid then return history end
for i = 3, #ARGV do
  if redis.call('HGET', KEYS[2], ARGV[i]) ~= replid then return '' end
end
epoch = math.max(tonumber(epoch or 0), tonumber(ARGV[2])) + 1
history = string.format('%.0f:', epoch) .. replid
redis.call('SET', KEYS[1], history)
redis.call('DEL', KEYS[2])
return history
`)

// alertScript asks the other hubs to check partitions.
//
//	KEYS    1 alerts
//	ARGV    1 how long it is kept in milliseconds; then partition, random text of the alert
//	returns nil
var alertScript = newScript(bounded, `
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
`)

// errUnreconciled is returned by Append, and by reads of what may be lost, while a partition is not reconciled.
var errUnreconciled = errors.New("the Redis server was restarted or replaced and may have lost its latest writes. Publishes, and deliveries that need to know what it lost, wait until all hubs have compared what they remember with what is stored; try again in a moment")

const (
	// reconcileWait is how long an Append waits for its partition to be reconciled.
	reconcileWait = time.Second
	// reconcileEvery is how often this hub checks a partition again that other hubs have
	// not compared yet.
	reconcileEvery = 100 * time.Millisecond
	// comparing is how many partitions a hub compares at once.
	comparing = 8
)

// histories are the histories of all partitions, as far as this hub knows them.
type histories struct {
	of [journal.Partitions]history
	// poke wakes the reconciler. It closes passed, and makes a new one, after each pass.
	poke   chan struct{}
	mu     sync.Mutex
	passed chan struct{}
}

// history is that of one partition.
type history struct {
	// current is the history with which this hub appends; nil: the reconciler has to check
	// first.
	current atomic.Pointer[string]
	// suspect says that a head seems to have gone back.
	suspect atomic.Bool
	// heard is the latest alert of another hub that this hub acted on.
	heard atomic.Pointer[string]

	// Only the reconciler uses the rest: what it compared with last, since when the
	// partition is unreconciled on a server with this replication id (zero: it is
	// reconciled), and the epoch of the last history that was reconciled.
	compared pair
	replid   string
	since    time.Time
	epoch    uint64
	alerted  time.Time // when this hub last alerted the others to it
}

// pair is what historyScript returns.
type pair struct{ replid, history string }

func readPair(answer *redis.Cmd) (pair, error) {
	v, err := answer.StringSlice()
	if err == nil && len(v) != 2 {
		err = fmt.Errorf("%w: the history of a partition", journal.ErrPacked)
	}
	if err != nil {
		return pair{}, err
	}
	return pair{v[0], v[1]}, nil
}

// reconciled reports whether all hubs have compared.
func (p pair) reconciled() bool {
	_, replid, ok := strings.Cut(p.history, ":")
	return ok && replid == p.replid
}

// epoch is the number of the history; 0: there is none.
func (p pair) epoch() uint64 {
	epoch, _, _ := strings.Cut(p.history, ":")
	n, _ := strconv.ParseUint(epoch, 10, 64)
	return n
}

func newHistories() *histories {
	return &histories{poke: make(chan struct{}, 1), passed: make(chan struct{})}
}

// invalidate makes the reconciler check the history of a partition before this hub appends
// with it again.
func (h *histories) invalidate(partition int, current *string) {
	if h.of[partition].current.CompareAndSwap(current, nil) {
		h.look()
	}
}

// outdated invalidates the history of a partition if this hub appends with one for which is
// returns true.
func (h *histories) outdated(partition int, is func(history string) bool) {
	if current := h.of[partition].current.Load(); current != nil && is(*current) {
		h.invalidate(partition, current)
	}
}

// suspect makes the reconciler compare the heads of a partition in its next pass.
func (h *histories) suspect(partition int) { h.of[partition].suspect.Store(true) }

func (h *histories) look() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

// pass wakes all callers that wait for the reconciler.
func (h *histories) pass() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.passed)
	h.passed = make(chan struct{})
}

// next returns a channel that is closed at the end of the reconciler's next pass.
func (h *histories) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passed
}

// unreconciled counts the partitions that this hub cannot append to now.
func (h *histories) unreconciled() (n int) {
	for i := range h.of {
		if h.of[i].current.Load() == nil {
			n++
		}
	}
	return n
}

// current returns the history with which to append to a partition. It waits for
// reconcileWait at most.
func (h *histories) current(ctx context.Context, partition int) (*string, error) {
	for limit := time.Now().Add(reconcileWait); ; {
		passed := h.next()
		if h := h.of[partition].current.Load(); h != nil {
			return h, nil
		}
		if time.Now().After(limit) {
			return nil, errUnreconciled
		}
		h.look()
		if !clock.Wait(ctx, time.Until(limit), passed) {
			return nil, ctx.Err()
		}
	}
}

// check returns nil if this hub can append to every partition.
func (h *histories) check() error {
	if n := h.unreconciled(); n > 0 {
		return fmt.Errorf("%w (partitions: %d of %d)", errUnreconciled, n, journal.Partitions)
	}
	return nil
}
