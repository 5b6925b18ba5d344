package delivery

import (
	"sync"
	"sync/atomic"
)

// limits are the limits of the hub as a whole. They count exchanges that may take a while,
// so that these leave some senders to the others:
//
//   - exchanges with suspect hosts;
//   - exchanges with unproven hosts;
//   - exchanges of large bodies (over 64 KiB) with quick hosts: a host that uses an eighth
//     of the exchange's limit is still quick, and that limit grows with the body.
//
// Unproven hosts and large bodies together leave a tenth of the senders. Bodies up to half a
// section of the room may use half of that tenth. Unproven hosts leave a fifth of the senders, and
// large bodies leave a twentieth to the unproven hosts. So neither keeps the other from all
// senders, however much of it waits. A body is read only if a sender can be spared for it, and
// that slot is reserved until the first lane comes for it. So no body is read in vain.
//
// Limits may be read from any goroutine. Schedulers count exchanges, and bodies
// reservations, each under the lock of its owner.
type limits struct {
	senders, suspectMax, unprovenMax int64
	suspect, unproven, large         atomic.Int64
	// reserved are the slots that wait for a lane, by health.
	reserved [2]atomic.Int64
	// taking is locked while a scheduler takes a slot: another may want the last one at the same moment.
	taking sync.Mutex
	// starved: a lane with a large body may wait for a sender, at some scheduler.
	starved atomic.Bool
}

func newLimits(senders int) *limits {
	n, fifth := int64(senders), int64(max(1, senders/5))
	return &limits{senders: n, suspectMax: fifth, unprovenMax: max(1, n-fifth)}
}

// free is how many more exchanges of a body of this bulk (room.bulk) may begin with
// hosts of this health.
func (n *limits) free(s health, bulk int) int64 {
	most := max(1, n.senders-max(1, int64(bulk)*n.senders/20))
	reserve := min(max(1, n.senders/20), most-1)
	toUnproven := n.unproven.Load() + n.reserved[unproven].Load()
	large := n.large.Load() + n.reserved[quick].Load()
	if s == quick {
		return most - large - max(toUnproven, reserve)
	}
	return min(max(most-large-toUnproven, reserve-toUnproven), n.unprovenMax-toUnproven)
}

// mayStart reports whether one more delivery may start at hosts of a pool. With reserved, its
// sender is counted already.
func (n *limits) mayStart(p pool, reserved bool) bool {
	return (!p.suspect() || n.suspect.Load() < n.suspectMax) &&
		(reserved || p.health() == quick || n.free(unproven, 2) > 0)
}

// take counts one more delivery at hosts of a pool if mayStart allows it.
func (n *limits) take(p pool, reserved bool) bool {
	if p == pool(quick) {
		return true
	}
	n.taking.Lock()
	defer n.taking.Unlock()
	if !n.mayStart(p, reserved) {
		return false
	}
	if p.suspect() {
		n.suspect.Add(1)
	}
	if p.health() == unproven {
		n.unproven.Add(1)
	}
	return true
}

// takeLarge counts one more exchange of a body of this bulk with a quick host, if one may begin.
func (n *limits) takeLarge(bulk int) bool {
	n.taking.Lock()
	defer n.taking.Unlock()
	if n.free(quick, bulk) <= 0 {
		return false
	}
	n.large.Add(1)
	return true
}

// pool is the hosts with common limits of senders: those of either health, and the same for
// suspects. Each pool has a rotation of topics, so that a full limit delays nothing of
// another pool.
type pool int

const pools = 4

func (p pool) suspect() bool  { return p >= 2 }
func (p pool) health() health { return health(p % 2) }
