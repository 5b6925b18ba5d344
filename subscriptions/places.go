package subscriptions

import (
	"hash/maphash"
	"sync"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// placeShare is which part of all places one callback site may have, and one
// requester: nobody is to keep all others from subscribing.
const placeShare = 4

// faintShare is the part of a shard's subscriptions under which what a site or a
// requester has there is not remembered.
const faintShare = 64

// places counts the stored subscriptions of the shards that this hub owns, those
// that ended and are kept to be read included, and lets new ones in as long as
// there are fewer than Options.MaxTotal. What is stored already needs no place.
//
// A hub has the part of the limit that it has of the shards, and asks no other hub.
// It judges nobody until all its shards are counted. Between two walks of the
// house-keeping it follows what this process changes.
//
// After a walk a shard remembers only those sites and requesters that have a 64th
// of it or more: 64 at most, however many subscriptions there are. So one that
// spreads itself thinly where it can have a 64th more than its quarter.
type places struct {
	most int // of all hubs together; 0: no limit
	owns func(shard int) bool
	seed maphash.Seed

	mu     sync.Mutex
	shards [journal.Partitions]tenants
	// coming are new ones that are being stored.
	coming map[uuid.UUID]tenant
}

// tenant is who has a place; a zero field is nobody.
type tenant struct{ site, requester uint64 }

// tenants are those of one shard.
type tenants struct {
	counted           bool // by a walk, since the shard is this hub's
	n                 int
	sites, requesters map[uint64]int
}

func newPlaces(most int, owns func(int) bool) *places {
	return &places{most: most, owns: owns, seed: maphash.MakeSeed(), coming: make(map[uuid.UUID]tenant)}
}

// tenant is who has the place of a subscription.
func (p *places) tenant(callback string, requester uint64) tenant {
	if p.most == 0 {
		return tenant{} // nobody asks
	}
	return tenant{max(maphash.String(p.seed, siteOf(callback)), 1), requester}
}

func (p *places) of(s *Subscription) tenant { return p.tenant(s.Callback, s.Requester) }

// add counts a tenant n times.
func (t *tenants) add(who tenant, n int) {
	t.n = max(t.n+n, 0)
	t.sites = bump(t.sites, who.site, n)
	t.requesters = bump(t.requesters, who.requester, n)
}

func bump(m map[uint64]int, key uint64, n int) map[uint64]int {
	if key == 0 {
		return m
	}
	if m == nil {
		m = make(map[uint64]int)
	}
	if m[key] += n; m[key] <= 0 {
		delete(m, key)
	}
	return m
}

// forgetFaint drops who has less than a 64th, into maps that are no larger than what
// is left.
func (t *tenants) forgetFaint() {
	for _, m := range []*map[uint64]int{&t.sites, &t.requesters} {
		var kept map[uint64]int
		for key, n := range *m {
			if n*faintShare >= t.n {
				kept = bump(kept, key, n)
			}
		}
		*m = kept
	}
}

// set replaces the counts of a shard by those of a walk over it.
func (p *places) set(shard int, t tenants) {
	t.forgetFaint()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shards[shard] = t
}

// changed follows a change from before to after, either of which may be nil.
func (p *places) changed(id uuid.UUID, before, after *Subscription) {
	var was, is tenant
	if before != nil {
		was = p.of(before)
	}
	if after != nil {
		is = p.of(after)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &p.shards[Shard(id)]
	if before != nil {
		t.add(was, -1)
	}
	if after != nil {
		t.add(is, 1)
	}
}

// What a callback is told for which there is no place.
const (
	noPlace      = "This hub has as many subscriptions as it takes. Ask again later."
	noPlaceShare = "This hub has as many subscriptions as it takes of one callback site, or of one network that asks for them. End some of them first."
)

// ready reports whether all shards of this hub are counted.
func (p *places) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard := range p.shards {
		if p.most > 0 && !p.shards[shard].counted && p.owns(shard) {
			return false
		}
	}
	return true
}

// lacking says why there is no place for a new subscription; empty: there is one.
func (p *places) lacking(who tenant) (reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lack(who)
}

// take takes a place for a new subscription while that is being stored, and says
// why not where there is none. Stored gives it back, once the subscription is counted.
func (p *places) take(id uuid.UUID, who tenant) (reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reason = p.lack(who); reason == "" {
		p.coming[id] = who
	}
	return reason
}

func (p *places) stored(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.coming, id)
}

func (p *places) lack(who tenant) (reason string) {
	if p.most == 0 {
		return ""
	}
	most, all := max(p.mine(), 1), len(p.coming)
	var site, requester int
	for i := range p.shards {
		t := &p.shards[i]
		all += t.n
		site += t.sites[who.site]
		requester += t.requesters[who.requester]
	}
	for _, t := range p.coming {
		if t.site == who.site {
			site++
		}
		if t.requester == who.requester && who.requester != 0 {
			requester++
		}
	}
	switch share := max(1, most/placeShare); {
	case all >= most:
		return noPlace
	case site >= share || requester >= share:
		return noPlaceShare
	default:
		return ""
	}
}

// mine is this hub's part of the limit: that of the shards which it owns, rounded up.
func (p *places) mine() int {
	owned := 0
	for shard := range journal.Partitions {
		if p.owns(shard) {
			owned++
		}
	}
	return int((int64(p.most)*int64(owned) + journal.Partitions - 1) / journal.Partitions)
}

// sum is how many are stored, and how many may be; 0: any number.
func (p *places) sum() (stored, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.shards {
		stored += p.shards[i].n
	}
	return stored, p.mine()
}
