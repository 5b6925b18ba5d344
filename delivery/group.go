package delivery

import (
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// group is the results of a group commit, or what failed of some.
type group struct {
	commits []subscriptions.Commit
	counts  []int             // results in each
	latest  map[uuid.UUID]int // commit of each subscription
	n       int               // results in all commits
}

// newGroup returns a group with room for as many commits as the one before it had, since making room later
// would keep the senders waiting.
func newGroup(before int) group {
	return group{commits: make([]subscriptions.Commit, 0, before), counts: make([]int, 0, before), latest: make(map[uuid.UUID]int, before)}
}

// add adds a result. It is joined with the latest commit of its subscription: the
// greater cursor, all attempts and gaps. Results of two generations are not joined, because
// those of one cursor must not take effect with another. An end is never joined: it has no
// effect if its lease is over, and the other results still have.
func (g *group) add(c subscriptions.Commit) {
	i, ok := g.latest[c.ID]
	if !ok || g.commits[i].End != "" || c.End != "" || g.commits[i].Cursor.Generation != c.Cursor.Generation {
		g.push(c, 1)
		return
	}
	p := &g.commits[i]
	p.Cursor = journal.Merge(p.Cursor, c.Cursor)
	p.Attempts = append(p.Attempts, c.Attempts...)
	if over := len(p.Attempts) - subscriptions.MaxAttempts; over > 0 {
		p.Attempts = append(p.Attempts[:0], p.Attempts[over:]...)
	}
	for _, g := range c.Gaps {
		p.Gaps = journal.AddGap(p.Gaps, g)
	}
	g.counts[i]++
	g.n++
}

// push adds a commit of n results after all others. It joins it with none: the store may have
// stored the other one, and would count its results twice.
func (g *group) push(c subscriptions.Commit, n int) {
	if g.latest == nil {
		g.latest = make(map[uuid.UUID]int)
	}
	g.latest[c.ID] = len(g.commits)
	g.commits, g.counts = append(g.commits, c), append(g.counts, n)
	g.n += n
}

// pushAll adds later commits.
func (g *group) pushAll(later group) {
	for i, c := range later.commits {
		g.push(c, later.counts[i])
	}
}

// ahead returns s as it will be once the results that wait are stored.
func (g *group) ahead(s subscriptions.Subscription) subscriptions.Subscription {
	last, ok := g.latest[s.ID]
	if !ok {
		return s
	}
	for i := range g.commits[:last+1] {
		if g.commits[i].ID == s.ID {
			s.Apply(&g.commits[i])
		}
	}
	return s
}

// split returns the commits of some subscriptions and those of the others.
func (g *group) split(some func(uuid.UUID) bool) (in, out group) {
	for i, c := range g.commits {
		if some(c.ID) {
			in.push(c, g.counts[i])
		} else {
			out.push(c, g.counts[i])
		}
	}
	return in, out
}

// has reports whether there is a commit of a subscription.
func (g *group) has(id uuid.UUID) bool {
	_, ok := g.latest[id]
	return ok
}
