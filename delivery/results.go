package delivery

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// results stores the results of attempts. A hub of up to 16 processors has one group commit, and a larger one has several,
// since all its senders would wait for one lock (docs/scale.md). Each has the subscriptions of its own shards, and an equal
// part of the results that may wait.
type results []*groupCommit

// schedulersOfGroup is for how many schedulers a hub has a group commit.
const schedulersOfGroup = 8

func newResults(o *Options) results {
	all := make(results, (o.Schedulers+schedulersOfGroup-1)/schedulersOfGroup)
	for i := range all {
		all[i] = newGroupCommit(o.Subscriptions, o.CommitWindow, max(1, o.CommitEvery/len(all)), o.Log)
	}
	return all
}

// ofShard has the results of a shard.
func (r results) ofShard(n int) *groupCommit { return r[n%len(r)] }

// of has the results of a subscription.
func (r results) of(id uuid.UUID) *groupCommit { return r.ofShard(subscriptions.Shard(id)) }

// add is groupCommit.add.
func (r results) add(all ...subscriptions.Commit) {
	for _, c := range all {
		r.of(c.ID).add(c)
	}
}

// ahead is groupCommit.ahead.
func (r results) ahead(s subscriptions.Subscription) subscriptions.Subscription {
	return r.of(s.ID).ahead(s)
}

// run is groupCommit.run of all.
func (r results) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, gc := range r {
		all.Go(func() { gc.run(ctx) })
	}
	all.Wait()
}

// giveWay is groupCommit.giveWay of all.
func (r results) giveWay() {
	for _, gc := range r {
		gc.giveWay()
	}
}

// close is groupCommit.close of all.
func (r results) close() {
	for _, gc := range r {
		gc.close()
	}
}

// uncommitted is how many results the store has not acknowledged.
func (r results) uncommitted() (n int) {
	for _, gc := range r {
		n += gc.uncommitted()
	}
	return n
}
