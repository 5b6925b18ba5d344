package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

// Nodes is a Redis Cluster of three masters, and their replicas.
type Nodes struct {
	Access
	all []*Server
}

const slots = 16384

// Cluster starts a Cluster of three masters with a third of the slots each, and [Replicas]
// of each master. A node counts as dead after [Dead]. While a slot has no master, the
// Cluster answers nothing.
func Cluster(t testing.TB, opts ...Option) *Nodes {
	t.Helper()
	return lend(t, "cluster", opts, startCluster)
}

func startCluster(g *group) (*Nodes, error) {
	c := &Nodes{Access: g.Access}
	for range 3 * (1 + g.replicas) {
		bus := ports.Free()
		more := [][2]string{
			{"cluster-enabled", "yes"},
			{"cluster-config-file", "nodes.conf"},
			{"cluster-node-timeout", fmt.Sprint(g.dead().Milliseconds())},
			{"cluster-require-full-coverage", "yes"},
			{"cluster-replica-validity-factor", "0"},
			{"cluster-allow-replica-migration", "no"},
			{"cluster-port", fmt.Sprint(bus)},
		}
		if g.encrypted {
			more = append(more, [2]string{"tls-cluster", "yes"})
		}
		server, err := g.data(more...)
		if err != nil {
			return nil, err
		}
		server.bus = bus
		c.all = append(c.all, server)
	}
	return c, errors.Join(c.join(), c.replicate(), await("the Cluster", c.ready))
}

// join gives the first three nodes the slots and makes all know each other.
func (c *Nodes) join() error {
	for i, s := range c.all {
		if i < 3 {
			if _, err := s.Try("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1); err != nil {
				return err
			}
		}
		// With distinct epochs from the start, the nodes need not resolve collisions.
		if _, err := s.Try("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
	}
	for _, s := range c.all[1:] {
		if _, err := c.all[0].Try("CLUSTER", "MEET", "127.0.0.1", s.port, s.bus); err != nil {
			return err
		}
	}
	return await("the nodes to meet", func() error {
		for _, s := range c.all {
			nodes, err := c.view(s)
			if err != nil {
				return err
			}
			if len(nodes) != len(c.all) {
				return fmt.Errorf("%s knows %d nodes", s.name, len(nodes))
			}
		}
		return nil
	})
}

// replicate makes the nodes after the third replicas of the first three.
func (c *Nodes) replicate() error {
	for i, s := range c.all[3:] {
		id, err := c.all[i%3].Try("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := s.Try("CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return nil
}

// ready returns nil if every node sees a complete Cluster, all agree which node replicates
// which, and every replica has a link to its master.
func (c *Nodes) ready() error {
	masters := map[*Server]string{}
	views := map[*Server]map[*Server]node{}
	for _, s := range c.all {
		info, err := s.Try("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if text := fmt.Sprint(info); !strings.Contains(text, "cluster_state:ok") {
			return fmt.Errorf("%s says that the Cluster is down: %s", s.name, strings.Join(strings.Fields(text), " "))
		}
		if views[s], err = c.view(s); err != nil {
			return err
		}
		masters[s] = views[s][s].master
	}
	for _, s := range c.all {
		for other, n := range views[s] {
			if n.failing || n.master != masters[other] {
				return fmt.Errorf("%s believes that %s is dead, or replicates another master", s.name, other.name)
			}
		}
	}
	return linked(c.all, func(s *Server) *Server { return byID(views[s], masters[s]) })
}

// node is what one node knows of another.
type node struct {
	id      string
	master  string // the id; "-" of a master
	failing bool
	slots   [][2]int
}

// has reports whether the node has a slot.
func (n node) has(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return slot >= r[0] && slot <= r[1] })
}

// view returns what a node knows of all nodes.
func (c *Nodes) view(s *Server) (map[*Server]node, error) {
	text, err := s.Try("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	all := map[*Server]node{}
	for line := range strings.Lines(fmt.Sprint(text)) {
		f := strings.Fields(line)
		if len(f) < 8 || strings.Contains(f[2], "handshake") {
			continue
		}
		n := node{id: f[0], master: f[3], failing: strings.Contains(f[2], "fail")}
		for _, r := range f[8:] {
			var from, to int
			switch count, _ := fmt.Sscanf(r, "%d-%d", &from, &to); count {
			case 1:
				to = from
			case 0:
				continue // a slot that is moving
			}
			n.slots = append(n.slots, [2]int{from, to})
		}
		for _, server := range c.all {
			if strings.HasPrefix(f[1], server.Addr()+"@") {
				all[server] = n
			}
		}
	}
	return all, nil
}

// byID returns the server with an id. It returns nil for "-", which a master has as its
// master's id.
func byID(view map[*Server]node, id string) *Server {
	for s, n := range view {
		if n.id == id {
			return s
		}
	}
	return nil
}

// URL names the nodes as --redis-url accepts them.
func (c *Nodes) URL() string { return c.url("redis+cluster", "", c.all...) }

// Servers returns all nodes. At the start, the first three are the masters.
func (c *Nodes) Servers() []*Server { return c.all }

// Slot returns the slot of a key.
func (c *Nodes) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, _ := c.all[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Owner returns the master that has a slot now, and its replicas. It asks the first node
// that answers.
func (c *Nodes) Owner(t testing.TB, slot int) (master *Server, replicas []*Server) {
	t.Helper()
	mustAwait(t, "an owner of the slot", func() (err error) { master, replicas, err = c.owner(slot); return err })
	return master, replicas
}

func (c *Nodes) owner(slot int) (master *Server, replicas []*Server, err error) {
	for _, asked := range c.all {
		var view map[*Server]node
		if view, err = c.view(asked); err != nil {
			continue
		}
		for s, n := range view {
			if n.has(slot) && !n.failing {
				master = s
			}
		}
		if master == nil {
			return nil, nil, errors.New("no node has it")
		}
		for s, n := range view {
			if n.master == view[master].id {
				replicas = append(replicas, s)
			}
		}
		return master, replicas, nil
	}
	return nil, nil, err
}

// moved returns nil if the slot has another master than the old one.
func (c *Nodes) moved(slot int, old *Server) error {
	now, _, err := c.owner(slot)
	if err == nil && now == old {
		err = errors.New("the slot's master is still the old one")
	}
	return err
}

// Failover promotes a replica of the master that has the slot, which must have
// one, and waits until all nodes know.
func (c *Nodes) Failover(t testing.TB, slot int) {
	t.Helper()
	old, replicas := c.Owner(t, slot)
	if len(replicas) == 0 {
		t.Fatal("redistest: a failover needs redistest.Replicas(1)")
	}
	replicas[0].Do(t, "CLUSTER", "FAILOVER")
	c.awaitFailover(t, old, slot)
}

// AwaitCalm waits until a failover that may have begun is over.
func (c *Nodes) AwaitCalm(t testing.TB) {
	t.Helper()
	calm(t, c.ready)
}

// awaitFailover waits until another master than the old one has the slot and the Cluster is
// ready.
func (c *Nodes) awaitFailover(t testing.TB, old *Server, slot int) {
	t.Helper()
	mustAwait(t, "the failover", func() error { return cmp.Or(c.ready(), c.moved(slot, old)) })
}

// LoseTail disconnects the replicas of the slot's master, lets write change the data, and
// kills the master. A replica is promoted without those changes, and the old master comes
// back as its replica.
func (c *Nodes) LoseTail(t testing.TB, slot int, write func()) {
	t.Helper()
	old, replicas := c.Owner(t, slot)
	if len(replicas) == 0 {
		t.Fatal("redistest: losing a tail needs redistest.Replicas(1)")
	}
	loseTail(t, old, replicas, write)
	mustAwait(t, "a promotion", func() error { return c.moved(slot, old) })
	old.Restart(t)
	c.awaitFailover(t, old, slot)
}

// MigrateSlot moves a slot with its keys to another master, as redis-cli
// --cluster reshard does, and returns when all masters know.
func (c *Nodes) MigrateSlot(t testing.TB, slot int, to *Server) {
	t.Helper()
	from, _ := c.Owner(t, slot)
	if from == to {
		return
	}
	fromID, toID := from.Do(t, "CLUSTER", "MYID"), to.Do(t, "CLUSTER", "MYID")
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	migrate := []any{"MIGRATE", "127.0.0.1", to.port, "", 0, 60000, "KEYS"}
	if c.User != "" {
		migrate = slices.Insert(migrate, 6, any("AUTH2"), ownUser, ownPassword)
	}
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(t, slices.Concat(migrate, keys)...)
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	mustAwait(t, "all nodes to know of the slot", func() error {
		for _, s := range c.all {
			view, err := c.view(s)
			if err != nil {
				return err
			}
			if !view[to].has(slot) {
				return fmt.Errorf("%s does not", s.name)
			}
		}
		return nil
	})
}
