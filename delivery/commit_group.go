package delivery

import (
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// results are a group, or what failed of some.
type commitGroup struct {
	commits []subscriptions.Commit
	counts  []int             // results in each
	latest  map[uuid.UUID]int // commit of each subscription
	n       int               // results in all commits
}

// add adds a result. It is joined with the latest commit of its subscription: the
// greater cursor, all attempts and gaps. Over another generation nothing is joined,
// since what comes with one cursor is not to take effect with another. An end is
// never joined: it has no effect where its lease is over, and the others still have.
func (r *commitGroup) add(c subscriptions.Commit) {
	i, ok := r.latest[c.ID]
	if !ok || r.commits[i].End != "" || c.End != "" || r.commits[i].Cursor.Generation != c.Cursor.Generation {
		r.push(c, 1)
		return
	}
	p := &r.commits[i]
	p.Cursor = journal.Merge(p.Cursor, c.Cursor)
	p.Attempts = append(p.Attempts, c.Attempts...)
	if over := len(p.Attempts) - subscriptions.MaxAttempts; over > 0 {
		p.Attempts = append(p.Attempts[:0], p.Attempts[over:]...)
	}
	for _, g := range c.Gaps {
		p.Gaps = journal.AddGap(p.Gaps, g)
	}
	r.counts[i]++
	r.n++
}

// push adds a commit of n results after all others. It is joined with none: the
// store may have that, and what is joined would count twice.
func (r *commitGroup) push(c subscriptions.Commit, n int) {
	if r.latest == nil {
		r.latest = make(map[uuid.UUID]int)
	}
	r.latest[c.ID] = len(r.commits)
	r.commits, r.counts = append(r.commits, c), append(r.counts, n)
	r.n += n
}

// pushAll adds later commits.
func (r *commitGroup) pushAll(later commitGroup) {
	for i, c := range later.commits {
		r.push(c, later.counts[i])
	}
}

// ahead returns s as it will be once what waits for it is stored.
func (r *commitGroup) ahead(s subscriptions.Subscription) subscriptions.Subscription {
	last, ok := r.latest[s.ID]
	if !ok {
		return s
	}
	for i := range r.commits[:last+1] {
		if r.commits[i].ID == s.ID {
			s.Apply(&r.commits[i])
		}
	}
	return s
}

// split returns the commits of some subscriptions and those of the others.
func (r *commitGroup) split(some func(uuid.UUID) bool) (in, out commitGroup) {
	for i, c := range r.commits {
		if some(c.ID) {
			in.push(c, r.counts[i])
		} else {
			out.push(c, r.counts[i])
		}
	}
	return in, out
}

// has reports whether there is a commit of a subscription.
func (r *commitGroup) has(id uuid.UUID) bool {
	_, ok := r.latest[id]
	return ok
}
