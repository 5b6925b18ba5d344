package subscriptions

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// quotaDivisor limits each callback site and each requester to a quarter of all places, so
// that nobody can keep the others from subscribing.
const quotaDivisor = 4

// faintDivisor: a shard forgets the sites and requesters that have less than a 64th of its
// subscriptions.
const faintDivisor = 64

// Counts are the numbers of subscriptions in the shards that this hub owns. A change by the
// Service itself counts at once. Other changes, such as a lease that runs out or an end by a
// 410, count at the next sweep, after about four minutes at most.
type Counts struct {
	Pending int // requested, and not in force
	Ended   int // ended or expired, and still readable
	Stored  int // all, including the ended ones
	Most    int // this hub's fraction of Options.MaxTotal; 0: no limit
	Waiting int // requests and denials that a worker has, or that wait for one or for the hub that owns them
}

// Counts returns it as of now. It adds up counts and reads no records.
func (s *Service) Counts() Counts {
	c := s.counts.sum()
	c.Waiting = s.queue.waiting()
	return c
}

// counts counts the records of the shards that this hub owns: as the last sweep found them,
// with the changes by this process since. It admits new subscriptions as long as fewer than
// Options.MaxTotal are stored, including the ended ones. A stored subscription needs no
// further place.
//
// A hub has the same fraction of the limit as of the shards, and asks no other hub. It
// refuses nobody until all its shards are counted.
//
// After a sweep, a shard remembers only the sites and requesters that have at least a 64th
// of its subscriptions: at most 64 of each. So a site that spreads thinly over the shards
// can get a 64th more than its quarter. If hosts are limited, a shard also remembers each
// host with a subscription that is live or requested.
type counts struct {
	most    int // of all hubs together; 0: no limit
	perHost bool
	owns    func(shard int) bool
	seed    maphash.Seed

	mu     sync.Mutex
	shards [journal.Partitions]shardCounts
	// reserved are new subscriptions that are being stored.
	reserved map[uuid.UUID]tenant
}

// tenant is the callback site and the requester of a subscription. Zero: unknown.
type tenant struct{ site, requester uint64 }

// counted says in which counts one record is.
type counted struct {
	state  State
	stored bool
	host   string // of one that is live or requested; empty: it is neither, or hosts are not limited
	tenant
}

// shardCounts are the counts of one shard.
type shardCounts struct {
	swept                  bool // since this hub owns the shard
	pending, ended, stored int
	sites, requesters      map[uint64]int
	hosts                  map[string]int // subscriptions that are live or requested
}

func newCounts(most int, perHost bool, owns func(int) bool) *counts {
	return &counts{most: most, perHost: perHost, owns: owns, seed: maphash.MakeSeed(), reserved: make(map[uuid.UUID]tenant)}
}

// tenant returns the tenant of a subscription. It is zero if places are not limited.
func (c *counts) tenant(callback string, requester uint64) tenant {
	if c.most == 0 {
		return tenant{}
	}
	return tenant{max(maphash.String(c.seed, siteOf(callback)), 1), requester}
}

// of returns what a record counts as at now.
func (c *counts) of(rec Record, now time.Time) (is counted) {
	is.state = rec.State(now)
	if s := rec.Subscription; s != nil {
		is.stored, is.tenant = true, c.tenant(s.Callback, s.Requester)
	}
	if c.perHost && is.state != "" && is.state != StateEnded {
		is.host = rec.CallbackHost()
	}
	return is
}

// add counts a record n times; n may be -1. No count falls below zero: until the next
// sweep, a change may not fit what the last sweep saw.
func (t *shardCounts) add(is counted, n int) {
	switch is.state {
	case StatePending:
		t.pending = max(t.pending+n, 0)
	case StateEnded:
		t.ended = max(t.ended+n, 0)
	}
	if is.stored {
		t.stored = max(t.stored+n, 0)
	}
	t.sites, t.requesters, t.hosts = bump(t.sites, is.site, n), bump(t.requesters, is.requester, n), bump(t.hosts, is.host, n)
}

// bump adds n to the count of a key, except for the zero key.
func bump[K comparable](m map[K]int, key K, n int) map[K]int {
	var none K
	if key == none {
		return m
	}
	if m == nil {
		m = make(map[K]int)
	}
	if m[key] += n; m[key] <= 0 {
		delete(m, key)
	}
	return m
}

// forgetFaint forgets the sites and requesters with less than a 64th. The new maps are only
// as large as they need to be.
func (t *shardCounts) forgetFaint() {
	for _, m := range []*map[uint64]int{&t.sites, &t.requesters} {
		var kept map[uint64]int
		for key, n := range *m {
			if n*faintDivisor >= t.stored {
				kept = bump(kept, key, n)
			}
		}
		*m = kept
	}
}

// set replaces the counts of a shard by those of a sweep.
func (c *counts) set(shard int, t shardCounts) {
	t.forgetFaint()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shards[shard] = t
}

// changed counts the change of a record at now. A new subscription that is stored no longer
// needs its reservation; counting it twice for a moment would deny somebody else a place.
func (c *counts) changed(id uuid.UUID, before, after Record, now time.Time) {
	was, is := c.of(before, now), c.of(after, now)
	if was == is {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.shards[Shard(id)]
	t.add(was, -1)
	t.add(is, 1)
	if is.stored {
		delete(c.reserved, id)
	}
}

// onHost returns the number of subscriptions at a callback host that are live or requested.
func (c *counts) onHost(host string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.shards {
		n += c.shards[i].hosts[host]
	}
	return n
}

// The reasons of denials for lack of a place.
const (
	noPlace = "This hub has reached its limit of subscriptions. Ask again later."
	noQuota = "This hub has reached its limit of subscriptions for one callback site or for one requesting network. End some of them first."
)

// ready reports whether all shards of this hub are counted.
func (c *counts) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard := range c.shards {
		if c.most > 0 && !c.shards[shard].swept && c.owns(shard) {
			return false
		}
	}
	return true
}

// refusal returns why there is no place for a new subscription; empty: there is one.
func (c *counts) refusal(t tenant) (reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses(t)
}

// reserve reserves a place for a new subscription while it is being stored, or returns why
// there is none. Call release when the subscription is stored and counted, or could not be
// stored.
func (c *counts) reserve(id uuid.UUID, t tenant) (reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason = c.refuses(t); reason == "" {
		c.reserved[id] = t
	}
	return reason
}

func (c *counts) release(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reserved, id)
}

func (c *counts) refuses(t tenant) (reason string) {
	if c.most == 0 {
		return ""
	}
	most, all := max(c.limit(), 1), len(c.reserved)
	var site, requester int
	for i := range c.shards {
		s := &c.shards[i]
		all += s.stored
		site += s.sites[t.site]
		requester += s.requesters[t.requester]
	}
	for _, r := range c.reserved {
		if r.site == t.site {
			site++
		}
		if r.requester == t.requester && t.requester != 0 {
			requester++
		}
	}
	switch quota := max(1, most/quotaDivisor); {
	case all >= most:
		return noPlace
	case site >= quota || requester >= quota:
		return noQuota
	default:
		return ""
	}
}

// limit returns the limit times the fraction of the shards that this hub owns, rounded up.
func (c *counts) limit() int {
	owned := 0
	for shard := range journal.Partitions {
		if c.owns(shard) {
			owned++
		}
	}
	return int((int64(c.most)*int64(owned) + journal.Partitions - 1) / journal.Partitions)
}

// sum returns all counts except Waiting.
func (c *counts) sum() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := Counts{Most: c.limit()}
	for i := range c.shards {
		t := &c.shards[i]
		sum.Pending += t.pending
		sum.Ended += t.ended
		sum.Stored += t.stored
	}
	return sum
}
