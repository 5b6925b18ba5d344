package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/test/redistest"
)

// fault is something that goes wrong. begin makes it so, and returns what heals
// it; nil: it heals by itself.
type fault struct {
	name string
	// kind groups faults that are drawn and counted together; empty: the name.
	kind  string
	begin func() (heal func())
	// gaps are the reasons of gaps that the fault may cause.
	gaps []string
	// loses says that acknowledged writes may be lost. The test changes no subscriptions during such
	// a fault, because nobody would repeat these requests. tail says that writes are certainly lost.
	loses, tail bool
	// ofHub is a fault of a hub, which can come together with one of the store.
	ofHub bool
}

// nemesis draws faults and makes them happen.
type nemesis struct {
	*world
	rnd *rand.Rand
	// rages is how long faults happen. calm runs before the first and after the last of them, while
	// the Sources publish; nil: nothing does.
	rages time.Duration
	calm  func()
	tally tally
	final *chronicle // what converge judged
	// last happens after all others; nil: nothing does.
	last *fault
}

// between draws a time.
func (m *nemesis) between(from, to time.Duration) time.Duration {
	return from + time.Duration(m.rnd.Int64N(int64(to-from)))
}

// someHub draws a hub that no other fault has stopped.
func (m *nemesis) someHub() *hub {
	up := slices.DeleteFunc(slices.Clone(m.hubs), func(h *hub) bool { return h.down })
	return up[m.rnd.IntN(len(up))]
}

// hubFaults are those of the hubs' processes.
func (m *nemesis) hubFaults() []fault {
	return []fault{
		{name: "hub killed", kind: killed, ofHub: true, begin: func() func() {
			h := m.someHub()
			h.kill()
			return h.start
		}},
		{name: "hub frozen past its lease", kind: frozen, ofHub: true, begin: func() func() {
			h := m.someHub()
			m.signal(h, syscall.SIGSTOP)
			m.c.freezes++
			time.Sleep(m.lease + m.between(0, time.Second))
			return func() { m.signal(h, syscall.SIGCONT) }
		}},
		{name: "hub frozen for a moment", kind: frozen, ofHub: true, begin: func() func() {
			h := m.someHub()
			m.signal(h, syscall.SIGSTOP)
			m.c.freezes++
			return func() { m.signal(h, syscall.SIGCONT) }
		}},
	}
}

func (m *nemesis) signal(h *hub, s syscall.Signal) {
	m.t.Helper()
	h.signal(s)
	h.down = s == syscall.SIGSTOP
}

// serverFaults are those of the Redis server that has the role now. If other servers may consider it
// dead while it is frozen, settle waits until they have finished. Then writes may be lost.
func (m *nemesis) serverFaults(server func() *redistest.Server, settle func(testing.TB)) []fault {
	return []fault{
		{name: "Redis frozen", kind: frozen, loses: settle != nil, begin: func() func() {
			s := server()
			s.Freeze(m.t)
			if settle != nil {
				time.Sleep(m.between(0, 3*redistest.Dead/2))
			}
			return func() {
				s.Continue(m.t)
				if settle != nil {
					settle(m.t)
				}
			}
		}},
		{name: "hub asked to end while Redis is frozen", loses: settle != nil, begin: func() func() {
			s, h := server(), m.someHub()
			s.Freeze(m.t)
			time.Sleep(m.between(0, time.Second))
			m.ends(h)
			return func() {
				s.Continue(m.t)
				if settle != nil {
					settle(m.t)
				}
				h.start()
			}
		}},
		{name: "connections killed", begin: func() func() {
			_, _ = server().Try("CLIENT", "KILL", "TYPE", "normal") // our own connection may be among them
			return nil
		}},
	}
}

// ends asks a hub to end, which it does within nemesisDrain and two seconds, with 0,
// whatever the store does. The rest of the time is the machine's.
func (m *nemesis) ends(h *hub) {
	m.t.Helper()
	begun := time.Now()
	code := h.terminate()
	if took := time.Since(begun); code != 0 || took > nemesisDrain+2*time.Second+10*time.Second {
		m.t.Errorf("asked to end while the store was away, a hub ended with %d after %v\n%s", code, took, h.log)
	}
}

// standaloneFaults are those of a single Redis, which hubs reach by a proxy.
func (m *nemesis) standaloneFaults(s *redistest.Server, p *proxy) []fault {
	return append(m.serverFaults(func() *redistest.Server { return s }, nil),
		m.fullFault(s.Servers), m.damageFault(s.Servers, nemesisPrefix), m.emptiedFault(s.Servers, nemesisPrefix),
		fault{name: "Redis killed", kind: redisKilled, begin: func() func() {
			s.Kill(m.t)
			return func() { s.Restart(m.t) }
		}},
		fault{name: "network cut", kind: networkCut, begin: func() func() {
			p.setCut(true)
			return func() { p.setCut(false) }
		}},
		fault{name: "network slow", begin: func() func() {
			p.delay.Store(int64(m.between(10*time.Millisecond, 300*time.Millisecond)))
			return func() { p.delay.Store(0) }
		}},
		fault{name: "connections broken", begin: func() func() {
			p.setCut(true)
			p.setCut(false)
			return nil
		}},
		fault{name: "tail lost", kind: tailLost, loses: true, tail: true, begin: func() func() {
			s.LoseTail(m.t, func() { time.Sleep(m.between(100*time.Millisecond, time.Second)) })
			return nil
		}},
	)
}

// sentinelFaults are those of a master with replicas.
func (m *nemesis) sentinelFaults(s *redistest.Sentinels) []fault {
	return append(m.serverFaults(func() *redistest.Server { return s.Master(m.t) }, s.AwaitCalm),
		m.fullFault(s.Servers), m.damageFault(s.Servers, nemesisPrefix), m.emptiedFault(s.Servers, nemesisPrefix),
		fault{name: "failover by Sentinel", kind: failedOver, loses: true, begin: func() func() {
			s.Failover(m.t)
			return nil
		}},
		fault{name: "promotion of a replica without the tail", kind: tailLost, loses: true, tail: true, begin: func() func() {
			s.LoseTail(m.t, func() { time.Sleep(m.between(100*time.Millisecond, time.Second)) })
			return nil
		}},
	)
}

// clusterFaults are those of a Cluster. They hit the slot of some topic.
func (m *nemesis) clusterFaults(c *redistest.Nodes, prefix string) []fault {
	slot := func() int {
		topic := m.c.topics[m.rnd.IntN(len(m.c.topics))].url
		return c.Slot(m.t, fmt.Sprintf("%s:{p:%d}:heads", prefix, shardOf(uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)))))
	}
	return append(m.serverFaults(func() *redistest.Server { master, _ := c.Owner(m.t, slot()); return master }, c.AwaitCalm),
		m.fullFault(c.Servers), m.damageFault(c.Servers, prefix), m.emptiedFault(c.Servers, prefix),
		fault{name: "master killed", kind: redisKilled, loses: true, begin: func() func() {
			s, _ := c.Owner(m.t, slot())
			s.Kill(m.t)
			time.Sleep(m.between(0, 3*redistest.Dead/2))
			return func() { s.Restart(m.t); c.AwaitCalm(m.t) }
		}},
		fault{name: "failover in the Cluster", kind: failedOver, loses: true, begin: func() func() {
			c.Failover(m.t, slot())
			return nil
		}},
		fault{name: "slot moved", begin: func() func() {
			n := slot()
			to, _ := c.Owner(m.t, m.rnd.IntN(16384))
			c.MigrateSlot(m.t, n, to)
			return nil
		}},
		fault{name: "promotion of a replica without the tail", kind: tailLost, loses: true, tail: true, begin: func() func() {
			c.LoseTail(m.t, slot(), func() { time.Sleep(m.between(100*time.Millisecond, time.Second)) })
			return nil
		}},
	)
}

// rage makes faults happen for a time, one after another or one of a hub together
// with one of the store.
func (m *nemesis) rage(faults []fault, duration time.Duration) {
	m.t.Helper()
	end := time.Now().Add(duration)
	draw := deck(m.rnd, faults)
	for time.Now().Before(end) {
		time.Sleep(m.between(200*time.Millisecond, 1500*time.Millisecond))
		first := draw()
		if second := faults[m.rnd.IntN(len(faults))]; m.rnd.IntN(4) == 0 && second.ofHub && !first.ofHub {
			m.happen(second, func() { m.happen(first, func() {}) })
			continue
		}
		m.happen(first, func() {})
	}
	if m.last != nil {
		m.happen(*m.last, func() {})
	}
	close(m.healed)
}

// happen makes a fault happen, and something more before it is healed.
func (m *nemesis) happen(f fault, meanwhile func()) {
	m.t.Helper()
	if f.loses {
		m.changing.Lock()
		defer m.changing.Unlock()
		time.Sleep(300 * time.Millisecond) // replicas have what was changed before
	}
	m.t.Logf("%8v %s", m.now().Round(time.Millisecond), f.name)
	m.mu.Lock()
	m.c.faults++
	if f.tail {
		m.c.losses++
	}
	m.c.lossy = m.c.lossy || f.loses
	m.mu.Unlock()
	begun := m.now()
	heal := f.begin()
	m.tally.caused(f)
	time.Sleep(m.between(100*time.Millisecond, 2*time.Second))
	meanwhile()
	if heal != nil {
		heal()
	}
	m.tally.healed(f)
	m.explain(f, begun)
	m.t.Logf("%8v %s: healed", m.now().Round(time.Millisecond), f.name)
}

// replay says how to have the same schedule again.
func replay(t *testing.T, seed uint64) {
	t.Helper()
	if *soakFlag == 0 { // a soak says it itself
		t.Logf("seed %d (repeat with -args -seed=%d -nemesis=%v)", seed, seed, *nemesisFlag)
	}
}
