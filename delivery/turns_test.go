package delivery

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/test/draws"
)

// bound is how long a lane waits for its turn at most, as docs/delivery.md says,
// with a sender for each place: an exchange of its host, and so many of its kind there.
func (w *simWait) bound(places int, host, own time.Duration) time.Duration {
	n := 0
	for _, wanted := range w.kinds {
		if wanted {
			n++
		}
	}
	share := [...]int{1: places, 2: places / 2, 3: places / 4}[n]
	if w.kind == retry {
		share = min(share, (places+1)/2)
	}
	if share == 0 { // kinds take turns
		return host * time.Duration(1+w.k*w.topics*n)
	}
	return host + own*time.Duration((w.k*w.topics+share-1)/share)
}

// Over random topics, hosts, speeds and kinds, with a sender for each place: a lane
// waits for no more exchanges of its host than docs/delivery.md says.
func TestTurnsAreBounded(t *testing.T) {
	waits, tight := 0, 0
	for seed := range draws.Seeds(24) {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, seed, func(o *Options) { o.PerHost = 1 + int(seed%12) })
			hosts := 1 + s.rnd.IntN(8)
			s.d.o.MaxInflight = hosts * s.d.o.PerHost
			type speedKey struct {
				*host
				kind
			}
			speed, slowest := make(map[speedKey]time.Duration), make(map[*host]time.Duration)
			for topic := range 1 + s.rnd.IntN(30) {
				for range 1 + s.rnd.IntN(1+s.rnd.IntN(100)) {
					l := s.lane(fmt.Sprint(topic), fmt.Sprint("h", s.rnd.IntN(hosts)), kind(s.rnd.IntN(int(kinds))))
					k := speedKey{l.host, l.kind()}
					if speed[k] == 0 {
						speed[k] = time.Second >> s.rnd.IntN(8)
						slowest[l.host] = max(slowest[l.host], speed[k])
					}
					s.at(time.Duration(s.rnd.IntN(10))*time.Second/2, func() { s.makeReady(l, false) })
				}
			}
			s.after = func(r *simRun) {
				if s.rnd.IntN(10) > 0 { // it is behind, and goes on
					r.lane.state = idle
					s.makeReady(r.lane, false)
				}
			}
			s.run(20*time.Second, func(l *lane) time.Duration {
				longest := speed[speedKey{l.host, l.kind()}]
				return longest/4 + time.Duration(s.rnd.Int64N(int64(longest)))*3/4
			}, func(w *simWait) {
				bound, waited := w.bound(s.d.o.PerHost, slowest[w.lane.host], speed[speedKey{w.lane.host, w.kind}]), time.Since(w.since)
				if waited > bound {
					t.Fatalf("lane %d of its topic, of %d topics and kind %d, at a host of %d places that takes up to %v waited for %v, which are over %v",
						w.k, w.topics, w.kind, s.d.o.PerHost, slowest[w.lane.host], waited, bound)
				}
				if waits++; waited > bound/2 {
					tight++
				}
				before := s.hosts[w.lane.host].at[w.kind].starts - w.starts
				if before >= w.k*w.topics {
					t.Fatalf("%d others of kind %d went before lane %d of one of %d topics", before, w.kind, w.k, w.topics)
				}
			})
		})
	}
	t.Logf("%d of %d waits were over half of their bound", tight, waits)
}

// One host has callbacks of a small topic and of 16 large ones. The large ones have many other
// hosts besides, and all senders are busy with them. The small topic waits for no more exchanges of
// its host than if the large ones had only that host.
func TestSharedHostServesSmallTopic(t *testing.T) {
	const large, takes = 16, 100 * time.Millisecond
	for _, fanOut := range []int{1, 2000, 10_000} {
		if testing.Short() && fanOut > 2000 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, 1)
			s.large = fanOut > 1
			var lanes []*lane
			for topic := range large {
				for n := range fanOut - 1 {
					lanes = append(lanes, s.lane(fmt.Sprint(topic), fmt.Sprint("h", n), first))
				}
				lanes = append(lanes, s.lane(fmt.Sprint(topic), "shared", first))
			}
			s.quick()
			var small []*lane
			for range 8 {
				small = append(small, s.lane("small", "shared", first))
			}
			for _, l := range lanes {
				s.makeReady(l, false)
			}
			s.after = func(r *simRun) {
				if r.lane.host.name == "shared" && r.lane.topic.url != "small" {
					s.makeReady(r.lane, false) // they are far behind
				}
			}
			s.at(takes/2, func() {
				for _, l := range small {
					s.makeReady(l, false)
				}
			})
			s.run(2*time.Second, func(*lane) time.Duration { return takes }, func(w *simWait) {
				if w.lane.topic.url != "small" {
					return
				}
				small = small[1:]
				if bound, waited := w.bound(s.d.o.PerHost, takes, takes), time.Since(w.since); waited > bound {
					t.Errorf("%d hosts: lane %d of the small topic waited %v, over %v", fanOut, w.k, waited, bound)
				}
			})
			if len(small) > 0 {
				t.Errorf("%d hosts: %d lanes of the small topic did not start", fanOut, len(small))
			}
		})
	}
}

// All senders are busy. A topic that has all its callbacks at a host with many topics gets, for
// each of its turns among the topics of the hub, as much there as a sender for each place would
// give it. The large topics there have their own turns elsewhere, and do not count against it.
func TestTurnsWithoutIdleSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, others, takes, senders = 16, 100, 100 * time.Millisecond, 20
		s := newSim(t, 1, func(o *Options) { o.MaxInflight = senders })
		var lanes []*lane
		for topic := range large {
			for n := range 100 {
				lanes = append(lanes, s.lane(fmt.Sprint("large", topic), fmt.Sprint("h", n), first))
			}
			lanes = append(lanes, s.lane(fmt.Sprint("large", topic), "shared", first))
		}
		for n := range 3 * others { // one of each is always ready
			lanes = append(lanes, s.lane(fmt.Sprint("other", n%others), fmt.Sprint("other", n%others), first))
		}
		small := []*lane{s.lane("small", "shared", first), s.lane("small", "shared", first)}
		s.quick()
		for _, l := range lanes {
			s.makeReady(l, false)
		}
		for _, l := range small {
			s.makeReady(l, false)
		}
		s.after = func(r *simRun) { s.makeReady(r.lane, false) } // all are far behind
		turns, started := make(map[string]int), 0
		// In a round each topic has its turn, which starts at most what a host has places for.
		const round = (large + others + 1) * takes / senders
		s.run(time.Minute, func(*lane) time.Duration { return takes }, func(w *simWait) {
			turns[w.lane.host.name]++
			if w.lane.topic.url != "small" {
				return
			}
			started++
			exchanges := w.bound(s.d.o.PerHost, takes, takes) / takes
			if waited := time.Since(w.since); waited > exchanges*(takes+2*round) {
				t.Errorf("lane %d of the small topic waited %v, over %d exchanges and rounds of %v", w.k, waited, exchanges, round)
			}
		})
		if started < 10 {
			t.Errorf("the small topic got %d deliveries", started)
		}
		for n := 1; n < others; n++ {
			if a, b := turns["other0"], turns[fmt.Sprint("other", n)]; a-b > 1 || b-a > 1 {
				t.Errorf("topics with a host of their own got %d and %d deliveries", a, b)
			}
		}
	})
}

// The hosts of a topic take turns. While all senders are busy, topics that share a host have as
// many turns as topics with a host of their own, as long as the host has places for them.
func TestHostsAndTopicsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1, func(o *Options) { o.MaxInflight = 3 })
		var lanes []*lane
		for n := range 4 {
			for range 10 {
				lanes = append(lanes, s.lane("a", fmt.Sprint("of a", n), first), s.lane(fmt.Sprint("b", n), "of b", first))
			}
		}
		s.quick()
		for _, l := range lanes {
			s.makeReady(l, false)
		}
		s.after = func(r *simRun) { s.makeReady(r.lane, false) }
		got := make(map[string]int)
		s.run(100*time.Second, func(*lane) time.Duration { return time.Second }, func(w *simWait) {
			got[w.lane.host.name]++
			got[w.lane.topic.url]++
		})
		for n := range 4 {
			if a := got[fmt.Sprint("of a", n)]; a < got["a"]/4 || a > (got["a"]+3)/4 {
				t.Errorf("host %d of topic a got %d of %d", n, a, got["a"])
			}
			if b := got[fmt.Sprint("b", n)]; b < got["a"]-2 || b > got["a"]+2 {
				t.Errorf("topic b%d got %d, and a %d", n, b, got["a"])
			}
		}
	})
}

// A turn ends also where a topic has nothing that may start, at a host that is never full: its retries have no place
// there, and callbacks of another topic are quicker than the one sender that is left.
func TestTurnEnds(t *testing.T) {
	for _, reserved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, 1, func(o *Options) { o.MaxInflight, o.PerHost = 3, 4 })
			hang := []*lane{s.lane("hangs", "shared", retry), s.lane("hangs", "shared", retry)}
			lanes := []*lane{s.lane("a", "shared", retry), s.lane("a", "of a", first), s.lane("b", "of b", first)}
			for range 5 {
				lanes = append(lanes, s.lane("quick", "shared", trusted))
			}
			s.quick()
			for _, l := range hang {
				s.makeReady(l, false)
			}
			s.at(time.Millisecond, func() {
				for _, l := range lanes {
					s.makeReady(l, reserved && l == lanes[0])
				}
			})
			s.after = func(r *simRun) { s.makeReady(r.lane, false) }
			got := make(map[string]int)
			s.run(time.Second, func(l *lane) time.Duration {
				if l.kind() == retry {
					return time.Hour
				}
				return time.Millisecond
			}, func(w *simWait) { got[w.lane.host.name]++ })
			if a, b, shared := got["of a"], got["of b"], got["shared"]; a < shared/10 || b < shared/10 {
				t.Errorf("%d deliveries at the host of a, %d at that of b, and %d at the shared one", a, b, shared)
			}
		})
	}
}

// A lane whose large body has been read goes before all turns and kinds, as soon as its host has a
// place.
func TestReturnedGoesFirst(t *testing.T) {
	for _, place := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, 1, func(o *Options) { o.MaxInflight, o.PerHost = 2, 2 })
			var lanes []*lane
			for n := range 50 {
				lanes = append(lanes, s.lane(fmt.Sprint(n), fmt.Sprint("h", n), first))
			}
			for n := range 50 {
				lanes = append(lanes, s.lane(fmt.Sprint("shared", n), "shared", trusted))
			}
			if !place { // the first to start are there
				slices.Reverse(lanes)
			}
			reserved := s.lane("reserved", "shared", first)
			s.quick()
			lanes = append([]*lane{s.lane("hangs", "shared", first)}, lanes...)
			for _, l := range lanes {
				s.makeReady(l, false)
			}
			s.at(time.Second/2, func() { s.makeReady(reserved, true) })
			var order []*lane
			s.run(3*time.Second, func(l *lane) time.Duration {
				if l == lanes[0] {
					return time.Hour
				}
				return time.Second
			}, func(w *simWait) { order = append(order, w.lane) })
			if order[0] != lanes[0] || order[1] != lanes[1] || order[2] != reserved {
				t.Errorf("%s, %s and %s went first", order[0].topic.url, order[1].topic.url, order[2].topic.url)
			}
		})
	}
}

// A host gets as few senders as it has places, however many topics wait there: the cost of a
// delivery does not grow with them.
func TestManyTopicsAtAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const topics, takes = 2000, time.Second
		s := newSim(t, 1, func(o *Options) { o.MaxInflight = 4 }) // fewer than the host has places
		s.large = true
		var lanes []*lane
		for n := range topics {
			lanes = append(lanes, s.lane(fmt.Sprint(n), "shared", first))
		}
		s.quick()
		for _, l := range lanes {
			s.makeReady(l, false)
		}
		served := 0
		s.run((topics+4)/4*takes, func(*lane) time.Duration { return takes }, func(w *simWait) {
			served++
			h, listed := w.lane.host, 0
			for b := range s.d.only().s.turns.rotation {
				listed += s.d.only().s.turns.rotation[b].len()
			}
			if listed > s.d.o.PerHost || int(h.leads) > s.d.o.PerHost {
				t.Fatalf("%d topics lead to a host of %d places", listed, s.d.o.PerHost)
			}
		})
		if served != topics {
			t.Errorf("%d of %d were served", served, topics)
		}
	})
}
