package delivery

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// No sender sleeps while a lane may start, whichever scheduler has it: hosts answer, are slow, fail and hang, at random.
func TestSchedulersLeaveNoSenderAsleep(t *testing.T) {
	asleep := 0
	for seed := range uint64(60) {
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
				for i, q := range b.d.sched.all {
					q.do(func(s *scheduler) {
						if g := s.turns.lead(); g != nil {
							t.Errorf("seed %d: %d of %d senders are busy, and scheduler %d of %d may start a delivery to %s", seed, busy, b.d.o.MaxInflight, i, len(b.d.sched.all), g.host.name)
						}
					})
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
		b.publish(t, topicA, []byte("x"))
		pass(time.Second)
		if st := b.d.Stats(); st.Topics != 1 || st.Lanes != len(subs) || st.Hosts != len(subs) || st.Reads != 1 || st.Delivered != uint64(len(subs)) {
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
