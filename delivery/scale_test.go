package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/lockshare"
	"github.com/rshub/rshub/test/scale"
)

// BenchmarkScale compares docs/scale.md with a simulation of all its hubs, one after the other: which
// hub owns which shards, and what the scheduler of each does with its lanes, in virtual time. A hub
// starts as many deliveries a second as its cores can make, and each takes as long as a callback to
// answer. One operation is 10,000,000 subscriptions, and two changes for each.
func BenchmarkScale(b *testing.B) {
	const all, changes = 10_000_000, 2
	byShard := make([][]int32, cluster.Shards)
	for i := range int32(all) {
		n := subscriptions.Shard(scaleID(i))
		byShard[n] = append(byShard[n], i)
	}
	for _, cores := range []int{16, 64} {
		b.Run(fmt.Sprintf("cores=%d", cores), func(b *testing.B) {
			t := scale.Measured
			plan := t.Plan(scale.Load{Subscriptions: all, Deliveries: changes * all}, cores)
			nodes := make([]string, plan.Hubs)
			for i := range nodes {
				nodes[i] = fmt.Sprint("hub-", i)
			}
			for b.Loop() {
				owners := cluster.Place(nodes, [cluster.Shards]string{})
				survivors := cluster.Place(nodes[1:], owners)
				moved, gets := 0, map[string]int{}
				for shard := range owners {
					if owners[shard] != survivors[shard] {
						moved++
						gets[survivors[shard]]++
					}
				}
				var last, most time.Duration
				var fullest, lanes int
				var bytes, delivered, held, busiest float64
				for _, node := range nodes {
					var mine []int32
					for shard, owner := range owners {
						if owner == node {
							mine = append(mine, byShard[shard]...)
						}
					}
					got := simulateHub(b, mine, changes, int(t.Rate)*cores, plan.Schedulers, int(2*plan.InFlight), t.AnswerTime)
					lanes += got.lanes
					fullest, last = max(fullest, got.lanes), max(last, got.last)
					bytes += got.heap
					delivered += got.delivered
					for _, worked := range got.worked {
						held += worked.Seconds()
						busiest = max(busiest, worked.Seconds()/got.delivered)
					}
				}
				if lanes != all || delivered != changes*all {
					b.Fatalf("%d lanes got %v deliveries", lanes, delivered)
				}
				for _, n := range gets {
					most = max(most, t.Lease+time.Duration(n*all/cluster.Shards)*t.Read)
				}
				onPaper := float64(all) / cluster.Shards * float64(plan.Shards)
				b.ReportMetric(float64(plan.Hubs), "hubs")
				b.ReportMetric(float64(fullest), "lanes-of-fullest")
				b.ReportMetric(float64(fullest)/onPaper, "x-lanes-on-paper")
				b.ReportMetric(last.Seconds()*1000, "ms-to-last")
				b.ReportMetric(last.Seconds()/(onPaper/(t.Rate*float64(cores))+t.AnswerTime.Seconds()), "x-ms-on-paper")
				b.ReportMetric(float64(moved), "shards-moved")
				b.ReportMetric(float64(moved)/float64(plan.Moved), "x-moved-on-paper")
				b.ReportMetric(most.Seconds(), "s-take-over")
				b.ReportMetric(most.Seconds()/plan.TakeOver.Seconds(), "x-take-over-on-paper")
				b.ReportMetric(bytes/all, "B/lane")
				b.ReportMetric(held*1e9/delivered, "ns-scheduler/delivery")
				b.ReportMetric(float64(plan.Schedulers), "schedulers")
				b.ReportMetric(100*busiest*plan.HubRate, "%-busiest-scheduler")
			}
		})
	}
}

// A hub has as many schedulers as docs/scale.md says.
func TestSchedulersAreAsOnPaper(t *testing.T) {
	if coresOfScheduler != scale.CoresOfScheduler {
		t.Errorf("a scheduler for every %d processors, and for every %d on paper", coresOfScheduler, scale.CoresOfScheduler)
	}
}

const (
	scaleTopics = 1000
	scaleHosts  = 20_000
)

func scaleTexts(i int32) (topic, host, callback string) {
	host = fmt.Sprintf("h%d.example:80", i%scaleHosts)
	return fmt.Sprint("http://topic.example/", i%scaleTopics), host, fmt.Sprintf("http://h%d.example/callback/%d", i%scaleHosts, i)
}

func scaleID(i int32) uuid.UUID {
	topic, _, callback := scaleTexts(i)
	return subscriptions.ID(topic, callback)
}

// simulated is what a hub did.
type simulated struct {
	lanes     int
	delivered float64
	last      time.Duration   // the longest from a change to the last delivery of it
	heap      float64         // bytes, without the texts of the callbacks that the simulation has anyway
	worked    []time.Duration // of the processor, by scheduler, with what the simulation adds
}

// simulateHub gives the schedulers of a hub some subscriptions, and then so many changes of all topics, one after the
// other. It starts rate deliveries a second, inFlight at a time, each of which lasts for a while.
func simulateHub(b *testing.B, subs []int32, changes, rate, schedulers, inFlight int, lasts time.Duration) (out simulated) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const begin, tick = int64(1_800_000_000e9), time.Millisecond
	var now int64
	ss := newSchedulers(
		&Options{Schedulers: schedulers, PerHost: 8, Policy: Policy{First: time.Second, Max: time.Minute, GiveUp: time.Hour}, Rand: rand.New(rand.NewPCG(1, 1)).Float64},
		clocks{mono: func() int64 { return now }, read: func() reading { return reading{now, begin + now, begin + now} }},
		newLimits(inFlight), &troubles{})
	for _, q := range ss.all {
		q.s.bulk = func(int64) int { return 0 }
		for i := range q.s.sets {
			q.s.sets[i] = &laneSet{ctx: context.Background()}
		}
	}
	out.worked = make([]time.Duration, schedulers)
	timed := func(of int, f func(*scheduler)) {
		start := lockshare.ThreadTime()
		f(&ss.all[of].s)
		out.worked[of] += lockshare.ThreadTime() - start
	}
	each := func(f func(*scheduler)) {
		for of := range ss.all {
			timed(of, f)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, i := range subs {
		topic, host, callback := scaleTexts(i)
		s := &ss.at(host).s
		s.add(&subscriptions.Subscription{
			ID: scaleID(i), Topic: topic, Callback: callback, Secret: "0123456789abcdef",
			ExpiresAt: time.Unix(0, begin).Add(time.Hour), Cursor: journal.Cursor{LastStatus: 204},
		}, host, s.read())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	out.lanes, out.heap = len(subs), float64(after.HeapAlloc)-float64(before.HeapAlloc)

	flights := make([][][]job, int(lasts/tick)+1) // by the tick in which they end, and the scheduler
	for i := range flights {
		flights[i] = make([][]job, schedulers)
	}
	running, at := 0, 0
	for n := range changes {
		entry := &body{anchor: anchor{position: journal.Position(n + 1), nonce: journal.Nonce(n + 1), seq: uint64(n + 1)}}
		published, left := now, len(subs)
		each(func(s *scheduler) {
			for _, t := range s.topics {
				s.setHead(t, entry.anchor)
			}
		})
		for left > 0 {
			each(func(s *scheduler) {
				for s.step() == 0 {
					continue
				}
			})
			for of := range ss.all {
				timed(of, func(s *scheduler) {
					for _, j := range flights[at][of] {
						d := delivery{job: j, body: entry, out: outcome{Result: Result{Status: 204}, duration: lasts, limit: time.Minute}}
						s.decide(&d, time.Unix(0, begin+now))
						s.finish(d.job, d.out)
					}
				})
				n := len(flights[at][of])
				left -= n
				running -= n
				out.delivered += float64(n)
				flights[at][of] = flights[at][of][:0]
			}
			ends := (at + int(lasts/tick)) % len(flights)
			free := min(rate/int(time.Second/tick), inFlight-running)
			turn := max(1, free/len(ss.all))
			for more := true; more; {
				more = false
				each(func(s *scheduler) {
					for range min(turn, free) {
						j, ok := s.pick()
						if !ok || !s.confirm(&j) {
							break
						}
						flights[ends][j.lane.host.scheduler] = append(flights[ends][j.lane.host.scheduler], j)
						running++
						free--
						more = true
					}
				})
			}
			if now += int64(tick); now-published > int64(time.Minute) {
				b.Fatalf("after a minute, %d of %d deliveries are left", left, len(subs))
			}
			at = (at + 1) % len(flights)
		}
		out.last = max(out.last, time.Duration(now-published)-tick)
	}
	return out
}
