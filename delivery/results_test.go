package delivery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rshub/rshub/subscriptions"
)

// slowGroup is a store that does not return from storing what one group commit of several gives it.
type slowGroup struct {
	*memory
	t       *testing.T
	groups  int
	slow    int
	release chan struct{}
}

func (s *slowGroup) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	of := subscriptions.Shard(commits[0].ID) % s.groups
	for _, c := range commits {
		if n := subscriptions.Shard(c.ID) % s.groups; n != of {
			s.t.Errorf("a commit of group %d is beside one of group %d", n, of)
		}
	}
	if of == s.slow {
		<-s.release
	}
	return s.memory.Commit(ctx, commits)
}

// A hub with many processors has several group commits. One that the store keeps waiting keeps no other waiting,
// and nor does a shard that moves away wait for it. At the end all results are stored.
func TestGroupCommitsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups, subs, entries = 3, 30, 20
		b := newBed(t, func(o *Options) {
			o.Schedulers, o.MaxInflight, o.CommitEvery = groups*schedulersOfGroup, 2*subs, groups
		})
		if len(b.d.commits) != groups {
			t.Fatalf("%d group commits, want %d", len(b.d.commits), groups)
		}
		store := &slowGroup{memory: b.memory, t: t, groups: groups, slow: 1, release: make(chan struct{})}
		for _, gc := range b.d.commits {
			gc.store = store
		}
		var all []subscriptions.Subscription
		for n := range subs {
			all = append(all, b.subscribe(topicA, cb(n)))
		}
		b.run()
		for range entries {
			b.publish(t, topicA, []byte("x"))
		}
		pass(b.d.o.Sweep)
		shards, slow := map[int]bool{}, 0
		for n, s := range all {
			shard := subscriptions.Shard(s.ID)
			if shard%groups != store.slow {
				shards[shard] = true
				if got := len(b.at(cb(n))); got != entries {
					t.Errorf("%d deliveries to %s, want %d", got, cb(n), entries)
				}
				if stored, _ := b.stored(s); stored.Cursor.Seq != entries {
					t.Errorf("of %s is stored %d, want %d", cb(n), stored.Cursor.Seq, entries)
				}
				continue
			}
			slow++
			if stored, _ := b.stored(s); stored.Cursor.Seq != 0 {
				t.Errorf("of %s is stored %d, want nothing", cb(n), stored.Cursor.Seq)
			}
		}
		if len(shards) == 0 || slow == 0 {
			t.Fatalf("%d shards, and %d subscriptions of the slow one: the test shows nothing", len(shards), slow)
		}
		for shard := range shards {
			b.d.Finish(t.Context(), shard) // in no time, or the bubble deadlocks
		}
		if n := b.d.commits.uncommitted(); n < 2 {
			t.Errorf("%d results wait, want those of the slow group", n)
		}
		close(store.release)
		pass(b.d.o.Sweep)
		for n, s := range all {
			if stored, _ := b.stored(s); stored.Cursor.Seq != entries {
				t.Errorf("of %s is stored %d at the end, want %d", cb(n), stored.Cursor.Seq, entries)
			}
		}
		if n := b.d.commits.uncommitted(); n > 0 {
			t.Errorf("%d results wait at the end", n)
		}
		b.end()
	})
}
