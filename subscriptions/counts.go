package subscriptions

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

// quotaDivisor: one callback site, and one requester, may have one in so many of all
// places. So nobody keeps all others from subscribing.
const quotaDivisor = 4

// faintDivisor: a shard remembers no site and no requester that has fewer than one in so
// many of its subscriptions.
const faintDivisor = 64

// Counts is what a Service knows of the subscriptions of the shards that this hub owns.
// It follows at once what the Service itself does to them. It follows all else, such as a
// lease that runs out or an end by a 410, at the next sweep, some four minutes later at
// most.
type Counts struct {
	Pending int // asked for, and nothing in force
	Ended   int // ended or expired, and kept to be read
	Stored  int // in all, those that ended included
	Most    int // that may be stored, by this hub's fraction of Options.MaxTotal; 0: any number
	Waiting int // requests and denials that are being worked on or wait for their turn, or for the hub that owns them
}

// Counts returns it as of now. It adds up counts and reads no records.
func (s *Service) Counts() Counts {
	c := s.counts.sum()
	c.Waiting = s.queue.waiting()
	return c
}

// counts counts the records of the shards that this hub owns, as a sweep finds them and
// as this process changes them until the next one. It admits new subscriptions as long as
// fewer than Options.MaxTotal are stored, those that ended included. What is stored
// already needs no place.
//
// A hub has the same fraction of the limit as of the shards, and asks no other hub. It
// refuses nobody until all its shards are counted.
//
// After a sweep a shard remembers only those sites and requesters that have a 64th of its
// subscriptions or more: 64 at most of each. So a site that spreads thinly over the shards
// can get a 64th more than its quarter. It also remembers each host with a live
// subscription, if hosts are limited.
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

// tenant is who has a place: a callback site and a requester. Zero: unknown.
type tenant struct{ site, requester uint64 }

// counted is what one record counts as.
type counted struct {
	state  State
	stored bool
	host   string // of a live subscription; empty: there is none, or hosts are not limited
	tenant
}

// shardCounts are the counts of one shard.
type shardCounts struct {
	swept                  bool // since the shard is this hub's
	pending, ended, stored int
	sites, requesters      map[uint64]int
	hosts                  map[string]int // live subscriptions
}

func newCounts(most int, perHost bool, owns func(int) bool) *counts {
	return &counts{most: most, perHost: perHost, owns: owns, seed: maphash.MakeSeed(), reserved: make(map[uuid.UUID]tenant)}
}

// tenant is who has the place of a subscription, where places are limited.
func (c *counts) tenant(callback string, requester uint64) tenant {
	if c.most == 0 {
		return tenant{}
	}
	return tenant{max(maphash.String(c.seed, siteOf(callback)), 1), requester}
}

// of is what a record counts as at now.
func (c *counts) of(rec Record, now time.Time) (is counted) {
	if rec.Subscription != nil || rec.Request != nil {
		is.state = rec.State(now)
	}
	if s := rec.Subscription; s != nil {
		is.stored, is.tenant = true, c.tenant(s.Callback, s.Requester)
		if c.perHost && s.Live(now) {
			is.host = egress.HostPortOf(s.Callback)
		}
	}
	return is
}

// add counts something n times. What a sweep saw before a change, and the change after
// that, may not add up until the next sweep. No count falls below zero.
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

// forgetFaint drops who has less than a 64th, into maps that are no larger than what
// is left.
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

// changed follows the change of a record at now.
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
}

// onHost is the number of live subscriptions of a callback host.
func (c *counts) onHost(host string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.shards {
		n += c.shards[i].hosts[host]
	}
	return n
}

// What a callback is told for which there is no place.
const (
	noPlace = "This hub has as many subscriptions as it takes. Ask again later."
	noQuota = "This hub has as many subscriptions as it takes of one callback site, or of one network that asks for them. End some of them first."
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

// refusal says why there is no place for a new subscription; empty: there is one.
func (c *counts) refusal(t tenant) (reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses(t)
}

// reserve keeps a place for a new subscription while that is being stored, or says why
// there is none. Call release when the subscription is stored and counted, or is not
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

// limit is this hub's fraction of the limit, that of the shards which it owns, rounded up.
func (c *counts) limit() int {
	owned := 0
	for shard := range journal.Partitions {
		if c.owns(shard) {
			owned++
		}
	}
	return int((int64(c.most)*int64(owned) + journal.Partitions - 1) / journal.Partitions)
}

// sum is all counts but that of what waits.
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
