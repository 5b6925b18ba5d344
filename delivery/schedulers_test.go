package delivery

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/draws"
)

// No sender sleeps while a lane may start, whichever scheduler has it: hosts answer, are slow, fail and hang, at random.
func TestSchedulersLeaveNoSenderAsleep(t *testing.T) {
	asleep := 0
	for seed := range draws.Seeds(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			b := newBed(t, func(o *Options) {
				o.Schedulers, o.MaxInflight, o.PerHost = 1+rnd.IntN(5), 1+rnd.IntN(12), 1+rnd.IntN(4)
			})
			hosts := 1 + rnd.IntN(8)
			var mu sync.Mutex // of callbackRnd
			callbackRnd := rand.New(rand.NewPCG(seed, 2))
			for n := range hosts {
				b.set(fmt.Sprintf("h%d.example", n), func(r *http.Request, _ []byte) (*http.Response, error) {
					mu.Lock()
					kind, took := callbackRnd.IntN(10), time.Duration(callbackRnd.IntN(3000))*time.Millisecond
					mu.Unlock()
					switch kind {
					case 0:
						return hangs(r, nil)
					case 1:
						return answers(http.StatusInternalServerError)(r, nil)
					default:
						return takes(took)(r, nil)
					}
				})
			}
			for n := range 40 {
				b.subscribe(fmt.Sprint(topicA, rnd.IntN(4)), fmt.Sprintf("http://h%d.example/%d", rnd.IntN(hosts), n))
			}
			b.run()
			defer b.end()
			for range 30 {
				pass(time.Duration(rnd.IntN(2000)) * time.Millisecond)
				if rnd.IntN(3) == 0 {
					b.publish(t, fmt.Sprint(topicA, rnd.IntN(4)), []byte("x"))
					synctest.Wait()
				}
				busy := b.d.Stats().InFlight
				if busy == b.d.o.MaxInflight {
					continue
				}
				asleep++
				if b.nobodySleeps(t); t.Failed() {
					t.Fatalf("seed %d: %d of %d senders are busy", seed, busy, b.d.o.MaxInflight)
				}
			}
		})
	}
	if asleep == 0 {
		t.Error("all senders were busy all the time")
	}
}

// A host that is always ready in one scheduler does not keep senders from the hosts of another.
func TestSchedulersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.PerHost = 2, 1, 1 })
		hosts := b.hostOfEach()
		for n, host := range hosts {
			b.set(host, takes(time.Second))
			for i := range 30 {
				b.subscribe(fmt.Sprint(topicA, n), fmt.Sprintf("http://%s/%d", host, i))
			}
		}
		b.run()
		defer b.end()
		synctest.Wait()
		for n := range hosts {
			b.publish(t, fmt.Sprint(topicA, n), []byte("x"))
		}
		pass(20*time.Second + time.Millisecond)
		for n, host := range hosts {
			got := 0
			for _, r := range b.everything() {
				if r.header.Get("Link") != "" && r.url[:len("http://")+len(host)] == "http://"+host {
					got++
				}
			}
			if got < 9 || got > 11 {
				t.Errorf("after 20 exchanges, host %d of 2 had %d", n, got)
			}
		}
	})
}

// Schedulers with nothing to do give their turns to no other one.
func TestSchedulersWithNothingToDo(t *testing.T) {
	for _, senders := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.PerHost = 5, senders, 8 })
			all := b.hostOfEach()
			got := map[string]int{}
			for n, host := range []string{all[0], all[4]} {
				b.set(host, takes(time.Second))
				for i := range 400 {
					b.subscribe(fmt.Sprint(topicA, n), fmt.Sprintf("http://%s/%d", host, i), served)
				}
				got[host] = 0
			}
			b.run()
			defer b.end()
			synctest.Wait()
			for n := range 2 {
				b.publish(t, fmt.Sprint(topicA, n), []byte("x"))
			}
			pass(40*time.Second + time.Millisecond)
			for _, r := range b.everything() {
				for host := range got {
					if strings.HasPrefix(r.url, "http://"+host+"/") && r.header.Get("Link") != "" {
						got[host]++
					}
				}
			}
			if first, last := got[all[0]], got[all[4]]; 10*first < 9*last || 10*last < 9*first {
				t.Errorf("%d senders: the first scheduler had %d exchanges, and the last one %d", senders, first, last)
			}
		})
	}
}

// The answer that ends the suspicion of a host frees the slots of suspects that its other exchanges had. So many deliveries
// to suspects of other schedulers begin.
func TestTrustWakesOtherSchedulers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.PerHost, o.Drain = 3, 15, 8, 0 })
		h := b.hostOfEach()
		for _, host := range h[1:] {
			b.set(host, down)
			for i := range 3 {
				b.subscribe(topicB, fmt.Sprintf("http://%s/%d", host, i), served)
			}
		}
		for i := range 6 {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", h[0], i), served)
		}
		b.run()
		defer b.end()
		synctest.Wait()
		b.publish(t, topicB, []byte("x"))
		pass(time.Second)
		if st := b.d.Stats(); st.Suspects != 2 {
			t.Fatalf("%+v", st)
		}
		due := time.Hour // until the first probe
		for i, q := range b.d.sched.all[1:] {
			q.do(func(s *scheduler) {
				for _, x := range s.hosts.byName {
					due = min(due, time.Duration(x.probe-s.read().mono))
				}
			})
			b.set(h[1+i], hangs)
		}
		pass(due - 100*time.Millisecond)
		for i := range 6 { // three fail as soon as all have begun, so that the host is suspect, and three take their time
			took, answer := takes(10*time.Millisecond), down
			if i >= 3 {
				took, answer = takes(time.Duration(5*i-11)*time.Second), answers(http.StatusInternalServerError) // after 4, 9 and 14 s
			}
			b.set(fmt.Sprintf("http://%s/%d", h[0], i), func(r *http.Request, body []byte) (*http.Response, error) {
				_, _ = took(r, body)
				return answer(r, body)
			})
		}
		b.publish(t, topicA, []byte("x"))
		pass(3 * time.Second)
		if got, most := b.d.sched.limits.suspect.Load(), b.d.sched.limits.suspectMax; got != most {
			t.Fatalf("%d exchanges with suspects, want all %d that may be", got, most)
		}
		pass(time.Second + time.Millisecond) // one answers
		b.nobodySleeps(t)
	})
}

// A host that is no longer suspect has all its slots at once. Only one thing happened, and several senders begin.
func TestAnswerStartsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.PerHost, o.Drain = 2, 20, 12, 0 })
		const host = "h.example"
		b.set(host, down)
		for n := range 40 {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n), served)
		}
		b.run()
		defer b.end()
		synctest.Wait()
		b.publish(t, topicA, []byte("x"))
		pass(time.Second)
		if st := b.d.Stats(); st.Suspects != 1 {
			t.Fatalf("%+v", st)
		}
		var answered atomic.Bool
		b.set(host, func(r *http.Request, body []byte) (*http.Response, error) {
			if answered.CompareAndSwap(false, true) {
				return status(http.StatusInternalServerError), nil // which revives nobody
			}
			return hangs(r, body)
		})
		for i := 0; i < 20 && !answered.Load(); i++ {
			pass(time.Second)
		}
		if st := b.d.Stats(); st.InFlight != 12 {
			t.Errorf("%d of 12 slots are used: %+v", st.InFlight, st)
		}
	})
}

// nobodySleeps complains if a lane may start now.
func (b *bed) nobodySleeps(t *testing.T) {
	t.Helper()
	for i, q := range b.d.sched.all {
		q.do(func(s *scheduler) {
			if g := s.turns.lead(); g != nil {
				t.Errorf("senders sleep, and scheduler %d of %d may start a delivery to %s", i, len(b.d.sched.all), g.host.name)
			}
		})
	}
}

// bareSchedulers has two schedulers without their goroutines.
func bareSchedulers(t *testing.T, perHost int) *schedulers {
	t.Helper()
	b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.PerHost = 2, 2, perHost })
	for _, q := range b.d.sched.all {
		for i := range q.s.sets {
			q.s.sets[i] = &laneSet{ctx: t.Context()}
		}
		q.s.bulk = b.d.bodies.room.bulk
	}
	return b.d.sched
}

// bareLane adds a lane of a host to a scheduler, whichever that host would have.
func bareLane(q *sharedScheduler, host, path string) (l *lane) {
	q.do(func(s *scheduler) {
		id := subscriptions.ID(topicA, "http://"+host+path)
		s.add(&subscriptions.Subscription{ID: id, Topic: topicA, ExpiresAt: time.Now().Add(time.Hour)}, host, s.read())
		l = s.lane(id)
		l.host.health = quick
		s.relist(l.host)
	})
	return l
}

// Lanes that are gone take no slot of the hub, which another scheduler would miss meanwhile.
func TestGoneLanesTakeNoSlot(t *testing.T) {
	ss := bareSchedulers(t, 1)
	x := ss.all[0]
	gone := bareLane(x, "x:80", "/0")
	x.do(func(s *scheduler) {
		gone.host.health = unproven
		s.relist(gone.host)
		s.enqueue(gone, false)
		s.remove(gone)
	})
	ss.limits.taking.Lock() // whoever takes a slot waits
	defer ss.limits.taking.Unlock()
	picked := make(chan bool)
	go func() {
		_, _, ok := x.pick()
		picked <- ok
	}()
	select {
	case ok := <-picked:
		if ok {
			t.Error("a lane that is gone was started")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("a slot was taken for a lane that is gone")
	}
}

// A sender frees a slot of a host, and takes something at another scheduler. A second one, which has just been at the first
// scheduler in vain and is about to sleep, is woken for what the slot is for.
func TestFreedSlotOfAHostWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := bareSchedulers(t, 1)
		x, y := ss.all[0], ss.all[1]
		first, second, other := bareLane(x, "x:80", "/0"), bareLane(x, "x:80", "/1"), bareLane(y, "y:80", "/0")
		begin := func(q *sharedScheduler, want *lane) (j job) {
			t.Helper()
			if j, _, _ = q.pick(); j.lane != want {
				t.Fatalf("a sender has %+v", j.lane)
			}
			return j
		}
		x.do(func(s *scheduler) { s.enqueue(first, false) })
		j := begin(x, first) // the first sender has the one slot of the host
		x.do(func(s *scheduler) { s.enqueue(second, false) })
		y.do(func(s *scheduler) { s.enqueue(other, false) })

		heard := ss.bell.listen() // the second sender looks once more before it sleeps (schedulers.next)
		begin(x, nil)
		x.do(func(s *scheduler) { j.lane.state = idle; s.release(j) })
		begin(y, other)
		begin(y, nil)
		ss.bell.wait(heard) // else everything in this bubble sleeps
		begin(x, second)
	})
}

// A lane with a large body does not stay parked if the slot that it waits for comes free while another sender looks.
func TestStarvedLaneIsSeen(t *testing.T) {
	ss := bareSchedulers(t, 2)
	x, y := ss.all[0], ss.all[1]
	l := bareLane(x, "x:80", "/0")
	for n := range 20_000 {
		ss.limits.large.Store(1)
		x.do(func(s *scheduler) {
			l.state = parked
			s.largeLanes[1] = ring[*lane]{}
			s.largeLanes[1].push(l)
		})
		ss.limits.starved.Store(true)
		var start atomic.Int32
		together := func() {
			for start.Add(1); start.Load() < 2; {
				runtime.Gosched()
			}
		}
		var both sync.WaitGroup
		both.Go(func() { together(); ss.resume() }) // a sender whose small delivery is over
		both.Go(func() {                            // one whose large delivery is over
			for together(); start.Load() < int32(n%200); {
				start.Add(1)
			}
			y.do(func(s *scheduler) { s.limits.large.Add(-1); s.resumeLarge() })
			ss.resume()
		})
		both.Wait()
		if l.state == parked {
			t.Fatalf("try %d: the lane is parked, and %d more large bodies may be sent", n, ss.limits.free(quick, 2))
		}
	}
}

// A lane whose large body has been read goes before the turns of the other schedulers too.
func TestReservedGoesFirstAtAllSchedulers(t *testing.T) {
	ss := bareSchedulers(t, 10)
	for i, q := range ss.all {
		for n := range 3 {
			l := bareLane(q, fmt.Sprintf("h%d:80", i), fmt.Sprint("/", n))
			q.do(func(s *scheduler) { s.enqueue(l, false) })
		}
	}
	for n := range 4 {
		i := n % len(ss.all)
		l := bareLane(ss.all[i], fmt.Sprintf("r%d:80", n), "/")
		ss.all[i].do(func(s *scheduler) { s.enqueue(l, true) })
		if j, ok := ss.pick(); !ok || j.lane != l {
			t.Errorf("at scheduler %d: another lane goes first", i)
		}
	}
}

// A lane that cannot start uses up no reservation of those at another scheduler.
func TestReservationOfALaneThatWaits(t *testing.T) {
	ss := bareSchedulers(t, 1)
	var lanes []*lane
	for i, q := range ss.all {
		l := bareLane(q, fmt.Sprintf("h%d:80", i), "/0")
		q.do(func(*scheduler) {
			l.topic.known, l.topic.head = true, anchor{position: 5}
			l.state = parked
		})
		lanes = append(lanes, l)
	}
	lanes[0].paused = true
	ss.unpark(lanes, true)
	if g := ss.all[1].s.turns.lead(); g == nil || !g.reserved {
		t.Error("the lane that may start does not go before the turns of all others")
	}
}

// A ring between listen and wait counts.
func TestBellIsHeardBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var b bell
		heard := b.listen()
		b.ring()
		b.wait(heard)
	})
}

// A ring wakes the sender that fell asleep last, and the one before it with the next ring.
func TestBellWakesTheLastToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bell
		var woken []int
		for n := range 3 {
			go func() {
				b.wait(b.listen())
				woken = append(woken, n)
			}()
			synctest.Wait()
		}
		for range 3 {
			b.ring()
			synctest.Wait()
		}
		if want := []int{2, 1, 0}; !slices.Equal(woken, want) {
			t.Errorf("woken in the order %v, want %v", woken, want)
		}
		if b.listening.Load() != 0 {
			t.Error("somebody still listens")
		}
	})
}

// A large body that waits for a sender at one scheduler is sent when the exchange that held it, at another, is over.
func TestSchedulersShareSendersForLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight = 2, 3 })
		hosts := b.hostOfEach()
		for n, host := range hosts {
			b.set(host, takes(3*time.Second))
			for i := range 4 {
				b.subscribe(fmt.Sprint(topicA, n), fmt.Sprintf("http://%s/%d", host, i), served)
			}
		}
		b.run()
		defer b.end()
		synctest.Wait()
		for n := range hosts {
			b.publish(t, fmt.Sprint(topicA, n), make([]byte, 1<<20))
		}
		pass(time.Minute)
		if got := len(b.everything()); got != 8 {
			t.Errorf("%d of 8 were sent", got)
		}
		nothingHeld(t, b)
	})
}

// hostOfEach returns a host of each scheduler.
func (b *bed) hostOfEach() []string {
	hosts := make([]string, len(b.d.sched.all))
	for n, left := 0, len(hosts); left > 0; n++ {
		host := fmt.Sprintf("h%d.example", n)
		for i, q := range b.d.sched.all {
			if hosts[i] == "" && b.d.sched.at(host+":80") == q {
				hosts[i] = host
				left--
			}
		}
	}
	return hosts
}

// A topic has its lanes at several schedulers. It is one all the same: its entries are read once, and it goes with its
// last lane.
func TestTopicOfSeveralSchedulers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var subs []subscriptions.Subscription
		for _, host := range b.hostOfEach() {
			subs = append(subs, b.subscribe(topicA, "http://"+host+"/"))
		}
		b.run()
		defer b.end()
		synctest.Wait()
		for range 2 { // one of this hub, and one of another one
			b.publish(t, topicA, []byte("x"))
			pass(time.Second)
		}
		if st := b.d.Stats(); st.Topics != 1 || st.Lanes != len(subs) || st.Hosts != len(subs) || st.Reads != 1 || st.Delivered != 2*uint64(len(subs)) {
			t.Errorf("%+v", st)
		}
		if n := b.d.Subscribers(topicA); n != len(subs) {
			t.Errorf("%d subscribers", n)
		}
		for i, sub := range subs {
			if st := b.d.Stats(); st.Topics != 1 {
				t.Errorf("with %d lanes left: %+v", len(subs)-i, st)
			}
			sub.EndedAt = time.Now()
			b.d.Apply(sub)
		}
		if st := b.d.Stats(); st.Topics != 0 || st.Lanes != 0 || st.Hosts != 0 || b.d.sched.topics.has() != [len(b.d.shards.all)]bool{} {
			t.Errorf("at the end: %+v", st)
		}
	})
}
