package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

var (
	nemesisFlag = flag.Duration("nemesis", 4*time.Second, "how long each nemesis rages")
	pauseFlag   = flag.Duration("pause", 50*time.Millisecond, "how long each of the three Sources of a nemesis pauses between two publishes")
)

const (
	nemesisLease = 2 * time.Second
	nemesisDrain = 3 * time.Second
	// nemesisGiveUp is when a hub passes over an entry that is damaged, or that a callback does
	// not accept.
	nemesisGiveUp = 10 * time.Second
	// patience is how long a Source or a subscriber waits to be accepted, and how long
	// the judge waits for another delivery. A full Redis alone takes two minutes of it.
	patience = 5 * time.Minute
	// How many duplicates a fault may cause: the deliveries in flight, and two commit groups
	// (invariant 7).
	nemesisInFlight = 512
	commitGroup     = 1024
)

// The promises of design section 9 under random faults, with the store of a
// single hub. It keeps little, so whoever is away misses some, and topics are reset.
func TestNemesisEmbedded(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	m.addHub("--retention-bytes=6KiB") // a dozen intervals; a short run on a busy machine has no more than the fifty of 24 KiB
	m.c.trims = true
	m.run(append(m.hubFaults(), m.resetFault()))
}

// The same with two hubs on a single Redis that keeps an append-only file.
func TestNemesisStandalone(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	redis := redistest.Standalone(t)
	p := newProxy(t, redis.Addr())
	m.addRedisHubs(2, "redis://"+p.addr())
	m.run(append(m.hubFaults(), m.standaloneFaults(redis, p)...))
}

// The same with two hubs on a Redis with replicas that Sentinels watch.
func TestNemesisSentinel(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	redis := redistest.Sentinel(t)
	m.addRedisHubs(2, redis.URL())
	m.run(append(m.hubFaults(), m.sentinelFaults(redis)...))
}

// The same with three hubs on a Redis Cluster with replicas.
func TestNemesisCluster(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	redis := redistest.Cluster(t, redistest.Replicas(1))
	m.addRedisHubs(3, redis.URL())
	m.run(append(m.hubFaults(), m.clusterFaults(redis, nemesisPrefix)...))
}

const nemesisPrefix = "nemesis"

func newNemesis(t *testing.T) *nemesis {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	replay(t, seed)
	name := fnv.New64()
	_, _ = name.Write([]byte(t.Name())) // never fails
	return &nemesis{world: newWorld(t, nemesisLease), rnd: rand.New(rand.NewPCG(seed, name.Sum64())), rages: *nemesisFlag, tally: tally{}}
}

func (m *nemesis) addRedisHubs(n int, url string, more ...string) {
	m.t.Helper()
	for range n {
		args := []string{"--redis-url", url, "--redis-prefix", nemesisPrefix, "--owner-lease", m.lease.String(), "--drain", nemesisDrain.String(), "--give-up", nemesisGiveUp.String()}
		h := m.prepareHub(append(args, more...)...)
		h.supervised = true // a Redis that was killed a moment ago may be too slow for a start on a busy machine
		h.start()
	}
}

// run publishes to callbacks that stay, come and go, or expire, while faults
// happen; then it waits until all is delivered, and judges.
func (m *nemesis) run(faults []fault) {
	const topics = 3
	stay := max(10, *readersFlag/topics)
	m.t.Helper()
	m.awaitReady()
	m.c.grace = m.lease + 20*time.Second // a hub that takes over, and a sweep of it
	m.c.perFault = nemesisInFlight + 2*commitGroup
	failed := make(chan error, 100)
	publishers, changers := newGroup(m.t, failed), newGroup(m.t, failed)
	var sources []*stubbornSource
	for range topics {
		s := m.addTopic()
		sources = append(sources, s)
		m.must(s.publish(m.t.Context())) // the topic is there before anything is lost
	}
	for n := range topics {
		m.stayAll(n, stay)
	}
	defer m.read(topics)() // until all is judged
	for n, s := range sources {
		publishers.do(func(ctx context.Context) error { return s.run(ctx, *pauseFlag) })
		for range 2 {
			comes, rnd := m.addCallee(n), rand.New(rand.NewPCG(m.rnd.Uint64(), 0))
			pause := func() time.Duration { return time.Duration(rnd.Int64N(int64(3 * time.Second))) }
			changers.do(func(ctx context.Context) error { return m.comeAndGo(ctx, comes, pause) })
		}
		quits, rnd := m.addCallee(n), rand.New(rand.NewPCG(m.rnd.Uint64(), 0))
		changers.do(func(ctx context.Context) error {
			return m.quit(ctx, quits, func() time.Duration { return time.Duration(rnd.Int64N(int64(3 * time.Second))) })
		})
		expires := m.addCallee(n)
		changers.do(func(ctx context.Context) error { return m.expire(ctx, expires, 3*time.Second) })
	}
	if m.calm != nil {
		m.calm()
	}
	began := time.Now()
	m.rage(faults, m.rages)
	raged := time.Since(began)
	if m.calm != nil {
		m.calm()
	}
	if m.c.trims {
		m.outgrow(failed)
	}
	changers.end() // first: one that answers 410 needs a delivery for that
	publishers.end()
	close(failed)
	for err := range failed {
		m.t.Error(err)
	}
	published := 0
	for _, s := range sources {
		published += len(s.bodies)
	}
	m.t.Logf("%d notifications in %v, with faults: %.0f a minute", published, raged.Round(time.Second), float64(published)/raged.Minutes())
	m.converge()
}

// group is what runs in the background of a nemesis until it is ended.
type group struct {
	ctx     context.Context //nolint:containedctx // end cancels it
	cancel  context.CancelFunc
	failed  chan<- error
	running sync.WaitGroup
}

func newGroup(t *testing.T, failed chan<- error) *group {
	t.Helper()
	g := &group{failed: failed}
	g.ctx, g.cancel = context.WithCancel(t.Context())
	t.Cleanup(g.cancel)
	return g
}

func (g *group) do(what func(ctx context.Context) error) {
	g.running.Go(func() {
		if err := what(g.ctx); err != nil {
			g.failed <- err
		}
	})
}

// end asks all of the group to end, and waits for them.
func (g *group) end() {
	g.cancel()
	g.running.Wait()
}

// outgrow waits until each Source has published more than hubs keep that trim, however slow the machine is, or has
// failed.
func (m *nemesis) outgrow(failed <-chan error) {
	m.t.Helper()
	const enough = 30
	eventually(m.t, patience, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, t := range m.c.topics {
			if len(t.intervals) < enough && len(failed) == 0 {
				return fmt.Errorf("%s has %d notifications, and the run needs %d", t.url, len(t.intervals), enough)
			}
		}
		return nil
	})
}

func (m *nemesis) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.tails())
	}
}

// converge waits until no promise is broken any more, and reports those that are
// in the end.
func (m *nemesis) converge() {
	m.t.Helper()
	ctx := context.WithoutCancel(m.t.Context())
	var c *chronicle
	var complaints []string
	end, ends := m.t.Deadline() // what is wrong has to be said before that
	arrived, deadline := 0, time.Now().Add(patience)
	for {
		var err error
		if c, err = m.collect(ctx); err == nil {
			if len(c.arrived) > arrived {
				arrived, deadline = len(c.arrived), time.Now().Add(patience)
			}
			if complaints = c.judge(); len(complaints) == 0 {
				break
			}
		} else {
			complaints = []string{err.Error()}
		}
		if time.Now().After(deadline) || ends && time.Until(end) < 20*time.Second {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	for _, text := range complaints {
		m.t.Error(text)
	}
	if len(complaints) > 0 {
		m.t.Log(m.tails())
	}
	if c == nil {
		m.t.Fatal(errors.New("the hubs could not be asked"))
	}
	m.final = c
	m.t.Log(c.summary())
}

// summary says how much happened.
func (c *chronicle) summary() string {
	intervals, rewinds, duplicates := 0, 0, 0
	for _, t := range c.topics {
		intervals += len(t.intervals)
		rewinds += t.rewinds
	}
	readers, read, gaps := 0, 0, 0
	for _, who := range c.callees {
		if who.reads {
			readers, gaps = readers+1, gaps+len(who.gaps)
		}
	}
	seen, most := map[string]int{}, 0
	for _, a := range c.arrived {
		key := fmt.Sprint(a.callee, a.id)
		if seen[key] > 0 {
			duplicates++
		}
		seen[key]++
		most = max(most, seen[key])
		if c.callees[a.callee].reads {
			read++
		}
	}
	return fmt.Sprintf("%d faults (%d lost tails, %d freezes of hubs): %d intervals, of which %d were trimmed, %d rewinds of Sources, %d callbacks, %d deliveries, %d readers of streams, %d events, %d gaps told, %d duplicates, none more than %d times",
		c.faults, c.losses, c.freezes, intervals, c.trimmed(), rewinds, len(c.callees)-readers, len(c.arrived)-read, readers, read, gaps, duplicates, most)
}
