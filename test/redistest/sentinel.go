package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// masterName is the name under which the sentinels know the master.
const masterName = "rshub"

// Sentinels is a master with two replicas, and three sentinels that watch it.
type Sentinels struct {
	Access
	Data     []*Server // at the start the first is the master
	Monitors []*Server
}

// Sentinel starts a master, two replicas and three sentinels, for which the
// master counts as dead after [Dead].
func Sentinel(t testing.TB, opts ...Option) *Sentinels {
	t.Helper()
	return lend(t, "sentinel", opts, startSentinels)
}

func startSentinels(g *group) (*Sentinels, error) {
	s := &Sentinels{Access: g.Access}
	for i := range 3 {
		var more [][2]string
		if i > 0 {
			more = append(more, [2]string{"replicaof", fmt.Sprintf("127.0.0.1 %d", s.Data[0].port)})
		}
		server, err := g.data(more...)
		if err != nil {
			return nil, err
		}
		s.Data = append(s.Data, server)
	}
	if err := await("the replicas", func() error { return s.synced(s.Data[0]) }); err != nil {
		return nil, err
	}
	open := s.Access
	open.User = "" // the sentinels themselves have no ACL
	for range 3 {
		monitor, err := g.server(open, s.monitorConfig(g), "--sentinel")
		if err != nil {
			return nil, err
		}
		s.Monitors = append(s.Monitors, monitor)
	}
	return s, await("the sentinels to know each other", func() error {
		for _, m := range s.Monitors {
			for _, what := range []string{"REPLICAS", "SENTINELS"} {
				reply, err := m.Try("SENTINEL", what, masterName)
				if known, _ := reply.([]any); err != nil || len(known) != 2 {
					return cmp.Or(err, fmt.Errorf("%s knows %d %s", m.name, len(known), what))
				}
			}
		}
		return nil
	})
}

func (s *Sentinels) monitorConfig(g *group) [][2]string {
	c := [][2]string{
		{"sentinel", fmt.Sprintf("monitor %s 127.0.0.1 %d 2", masterName, s.Data[0].port)},
		{"sentinel", fmt.Sprintf("down-after-milliseconds %s %d", masterName, g.dead().Milliseconds())},
		{"sentinel", "failover-timeout " + masterName + " 3000"},
	}
	if g.user != "" {
		c = append(c,
			[2]string{"sentinel", "auth-user " + masterName + " " + ownUser},
			[2]string{"sentinel", "auth-pass " + masterName + " " + ownPassword})
	}
	return c
}

// URL names the sentinels as --redis-url accepts them.
func (s *Sentinels) URL() string { return s.url("redis+sentinel", "/"+masterName, s.Monitors...) }

// Servers returns the servers that store data.
func (s *Sentinels) Servers() []*Server { return s.Data }

// Master returns the server that is the master now.
func (s *Sentinels) Master(t testing.TB) *Server {
	t.Helper()
	var master *Server
	mustAwait(t, "a master", func() (err error) { master, err = s.master(); return err })
	return master
}

// master returns the server that all sentinels name and that has the role of a master.
func (s *Sentinels) master() (*Server, error) {
	var found *Server
	for _, m := range s.Monitors {
		addr, err := m.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return nil, err
		}
		at, _ := addr.([]any)
		for _, d := range s.Data {
			if len(at) == 2 && at[1] == fmt.Sprint(d.port) {
				if found != nil && found != d {
					return nil, errors.New("the sentinels do not agree")
				}
				found = d
			}
		}
	}
	if found == nil {
		return nil, errors.New("the sentinels name no master")
	}
	role, err := found.Try("ROLE")
	if items, _ := role.([]any); err == nil && items[0] != "master" {
		err = errors.New("it is not the master yet")
	}
	return found, err
}

// synced returns nil if every other server is a replica with a link to the master.
func (s *Sentinels) synced(master *Server) error {
	return linked(s.Data, func(d *Server) *Server {
		if d == master {
			return nil
		}
		return master
	})
}

// Failover makes the sentinels promote a replica while all is well, and waits
// until the others follow it.
func (s *Sentinels) Failover(t testing.TB) {
	t.Helper()
	old := s.Master(t)
	// The sentinel refuses while no replica is fit, and shortly after another failover.
	s.mustAwait(t, "a failover to begin", func() error {
		_, err := s.Monitors[0].Try("SENTINEL", "FAILOVER", masterName)
		return err
	})
	s.mustAwait(t, "the failover", func() error { return s.replaced(old) })
}

// AwaitCalm waits until a failover that may have begun is over.
func (s *Sentinels) AwaitCalm(t testing.TB) {
	t.Helper()
	calm(t, func() error { return s.replaced(nil) })
}

// mustAwait is the function of the same name. Its failure shows the log of a sentinel.
func (s *Sentinels) mustAwait(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := await(what, check); err != nil {
		t.Fatalf("%v; the sentinel's log ends:\n%s", err, s.Monitors[0].LogTail())
	}
}

// successor returns the master, which must be another server than the old one.
func (s *Sentinels) successor(old *Server) (*Server, error) {
	now, err := s.master()
	if err == nil && now == old {
		err = errors.New("the master is still the old one")
	}
	return now, err
}

// replaced returns nil if another server than the old one is the master and all others
// replicate it.
func (s *Sentinels) replaced(old *Server) error {
	now, err := s.successor(old)
	if err != nil {
		return err
	}
	return s.synced(now)
}

// LoseTail disconnects the replicas, lets write change the data, and kills the master. A
// replica is promoted without those changes, and the old master comes back as its replica.
func (s *Sentinels) LoseTail(t testing.TB, write func()) {
	t.Helper()
	old := s.Master(t)
	replicas := slices.DeleteFunc(slices.Clone(s.Data), func(d *Server) bool { return d == old })
	loseTail(t, old, replicas, write)
	s.mustAwait(t, "a promotion", func() error { _, err := s.successor(old); return err })
	old.Restart(t)
	s.mustAwait(t, "the old master to follow", func() error { return s.replaced(old) })
}

// loseTail disconnects the replicas, lets write change the data, and kills the master.
func loseTail(t testing.TB, master *Server, replicas []*Server, write func()) {
	t.Helper()
	for _, r := range replicas {
		r.Freeze(t)
	}
	// A frozen replica reads what was sent before when it wakes. Close its connection, so
	// that it gets nothing of what follows.
	master.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	write()
	master.Kill(t)
	for _, r := range replicas {
		r.Continue(t)
	}
}
