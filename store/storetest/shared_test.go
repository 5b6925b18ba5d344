package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
)

// leases is the reference for RunLeases, with one defect if any.
type leases struct {
	mu     sync.Mutex
	nodes  map[string]cluster.Node
	alive  map[string]time.Time
	owners [cluster.Shards]string
	until  [cluster.Shards]time.Time
	defect string
}

func newLeases() *leases {
	return &leases{nodes: map[string]cluster.Node{}, alive: map[string]time.Time{}}
}

func (l *leases) Heartbeat(_ context.Context, self cluster.Node, ttl time.Duration) (nodes []cluster.Node, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	self.SeenAt = now
	if old, ok := l.nodes[self.ID]; ok && l.defect == "a node is stored once" {
		self = old
	}
	if l.defect == "a heartbeat of zero keeps a hub" && ttl == 0 {
		ttl = time.Hour
	}
	l.nodes[self.ID], l.alive[self.ID] = self, now.Add(ttl)
	for id, n := range l.nodes {
		if l.alive[id].After(now) {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

func (l *leases) owner(shard int) string {
	if l.until[shard].After(time.Now()) || l.defect == "leases do not end" {
		return l.owners[shard]
	}
	return ""
}

func (l *leases) Owners(_ context.Context, shards []int) (out []string, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shards {
		out = append(out, l.owner(s))
	}
	return out, nil
}

func (l *leases) Acquire(_ context.Context, owner string, shards []int, ttl time.Duration) (got []int, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shards {
		if o := l.owner(s); o == "" || o == owner || l.defect == "acquire takes any shard" {
			l.owners[s], l.until[s] = owner, time.Now().Add(ttl)
			got = append(got, s)
		}
	}
	return got, nil
}

func (l *leases) Renew(_ context.Context, owner string, shards []int, ttl time.Duration) (kept, lost []int, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shards {
		if l.owner(s) != owner && l.defect != "renew revives a lease" {
			lost = append(lost, s)
			continue
		}
		l.owners[s], l.until[s] = owner, time.Now().Add(ttl)
		kept = append(kept, s)
	}
	return kept, lost, nil
}

func (l *leases) Release(_ context.Context, owner string, shards []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shards {
		if l.owner(s) == owner || l.defect == "release ends leases of others" {
			l.owners[s] = ""
		}
	}
	return nil
}

// fails runs a check and returns why it failed; empty: it passed.
func fails(ctx context.Context, run func(t T)) string {
	return failure(ctx, Check{run: func(k *kit) { run(k.T) }}, nil)
}

func TestLeaseChecks(t *testing.T) {
	RunLeases(t, newLeases())
	for _, defect := range []string{
		"a node is stored once", "a heartbeat of zero keeps a hub", "acquire takes any shard", "renew revives a lease", "release ends leases of others",
	} {
		l := newLeases()
		l.defect = defect
		if fails(t.Context(), func(t T) { RunLeases(t, l) }) == "" {
			t.Errorf("the check passes where %s", defect)
		}
	}
}

// poll is the reference for RunPoll.
func (m *Memory) poll(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, _ error) {
	for n := range journal.Partitions {
		if since, ok := partitions[n]; ok {
			if topics, _, err := m.Changes(ctx, n, since); err != nil || len(topics) > 0 {
				moved = append(moved, n)
			}
		}
		if since, ok := shards[n]; ok {
			if ids, _, err := m.Changed(ctx, n, since); err != nil || len(ids) > 0 {
				changed = append(changed, n)
			}
		}
	}
	return moved, changed, nil
}

func TestPollChecks(t *testing.T) {
	m := NewMemory()
	RunPoll(t, m, m.poll)
	for defect, wrong := range map[string]func(moved, changed []int) ([]int, []int){
		"a partition is left out":  func(moved, changed []int) ([]int, []int) { return moved[:max(len(moved)-1, 0)], changed },
		"a shard is left out":      func(moved, changed []int) ([]int, []int) { return moved, changed[:max(len(changed)-1, 0)] },
		"all partitions are named": func(_, changed []int) ([]int, []int) { return []int{1, 2, 3}, changed },
	} {
		m := NewMemory()
		if fails(t.Context(), func(t T) {
			RunPoll(t, m, func(ctx context.Context, partitions, shards map[int]uint64) ([]int, []int, error) {
				moved, changed, err := m.poll(ctx, partitions, shards)
				moved, changed = wrong(slices.Clone(moved), slices.Clone(changed))
				return moved, changed, err
			})
		}) == "" {
			t.Errorf("the check passes where %s", defect)
		}
	}
}

// A store that is never full does not pass, nor one that cannot be filled.
func TestFullChecks(t *testing.T) {
	for _, err := range []error{nil, errors.New("it cannot be filled")} {
		if fails(t.Context(), func(t T) {
			RunFull(t, NewMemory(), func() error { return err }, func() error { return nil })
		}) == "" {
			t.Error("the check passes")
		}
	}
}
