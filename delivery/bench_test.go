package delivery

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/lockshare"
)

// The cost of everything around an exchange that costs nothing: fan out, choose the turn, build the
// request, decide, commit. One operation is one delivery.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct{ topics, hosts, lanes int }{{1, 64, 1000}, {1, 1000, 1000}, {100, 64, 1000}} {
		b.Run(fmt.Sprintf("topics=%d/hosts=%d/lanes=%d", c.topics, c.hosts, c.lanes), func(b *testing.B) {
			bed := newBed(b, single)
			bed.d.shards.store, bed.d.commits[0].store = noCommits{bed.memory}, noCommits{bed.memory}
			var n atomic.Int64
			done := make(chan struct{}, 1)
			target := int64(0)
			bed.d.sender.client.poster = posterFunc(func() (post.Answer, error) {
				if n.Add(1) == atomic.LoadInt64(&target) {
					done <- struct{}{}
				}
				return post.Answer{Status: 204}, nil
			})
			for i := range c.lanes {
				bed.d.Apply(bed.subscribe(fmt.Sprint("http://topic/", i%c.topics), fmt.Sprintf("http://h%d.example/%d", i%c.hosts, i),
					func(s *subscriptions.Subscription) { s.Secret = "0123456789abcdef" }))
			}
			bed.run()
			defer bed.end()
			body := []byte(strings.Repeat("x", 1024))
			b.ReportAllocs()
			b.ResetTimer()
			for sent := 0; sent < b.N; sent += c.lanes {
				atomic.StoreInt64(&target, int64(sent+c.lanes))
				for i := range c.topics {
					bed.publish(b, fmt.Sprint("http://topic/", i), body)
				}
				<-done
			}
		})
	}
}

type posterFunc func() (post.Answer, error)

func (f posterFunc) Post(context.Context, *post.Request) (post.Answer, error) { return f() }

type noCommits struct{ *memory }

func (noCommits) Commit(context.Context, []subscriptions.Commit) error { return nil }

// The memory of a lane, and a garbage collection of all lanes.
func BenchmarkLanes(b *testing.B) {
	for _, hosts := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			for range b.N {
				const lanes = 100_000
				bed := newBed(b, single)
				subs := make([]subscriptions.Subscription, lanes)
				text := 0
				for i := range subs {
					callback := fmt.Sprintf("http://h%d.example/callback/%d", i%hosts, i)
					text += len(callback)
					subs[i] = subscriptions.Subscription{
						ID: subscriptions.ID(topicA, callback), Topic: topicA, Callback: callback,
						ExpiresAt: time.Now().Add(time.Hour),
					}
				}
				var before, after runtime.MemStats
				bed.take()
				runtime.GC()
				runtime.ReadMemStats(&before)
				for _, s := range subs {
					bed.d.Apply(s)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				start := time.Now()
				runtime.GC()
				b.ReportMetric(float64(time.Since(start).Microseconds()), "us/GC")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/lanes, "B/lane")
				runtime.KeepAlive(bed)
				runtime.KeepAlive(subs)
			}
		})
	}
}

// The cost of the order of deliveries: a sender is done, its lane is ready again, and the sender
// starts the next lane. One operation is one delivery.
func BenchmarkPick(b *testing.B) {
	for _, c := range []struct{ topics, hosts, lanes int }{
		{1, 1000, 100_000}, {100, 1000, 100_000}, {10_000, 1, 10_000}, {100_000, 1, 100_000}, {17, 10, 10_000},
	} {
		b.Run(fmt.Sprintf("topics=%d/hosts=%d/lanes=%d", c.topics, c.hosts, c.lanes), func(b *testing.B) {
			bed := newBed(b, single)
			bed.take()
			d := bed.d
			for i := range c.lanes {
				d.Apply(subscriptionOf(fmt.Sprint("http://topic/", i%c.topics), fmt.Sprintf("http://h%d.example/%d", i/c.topics%c.hosts, i), served))
			}
			var lanes []*lane
			for i := range d.only().s.sets {
				for _, l := range d.only().s.sets[i].lanes {
					lanes = append(lanes, l)
				}
			}
			for _, l := range lanes {
				d.only().s.enqueue(l, false)
			}
			inFlight := make([]job, 0, d.o.MaxInflight)
			next := 0
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for len(inFlight) < cap(inFlight) {
					j, ok := d.only().s.pick()
					if !ok {
						break
					}
					inFlight = append(inFlight, j)
				}
				j := &inFlight[next%len(inFlight)]
				next++
				d.only().s.enqueue(j.lane, false)
				d.only().s.release(*j)
				*j = inFlight[len(inFlight)-1]
				inFlight = inFlight[:len(inFlight)-1]
			}
		})
	}
}

// subscriptionOf is a live one that no store knows.
func subscriptionOf(topic, callback string, more ...func(*subscriptions.Subscription)) subscriptions.Subscription {
	return newMemory().subscribe(topic, callback, more...)
}

// How long the lock of a group commit is held for a delivery. One operation is one delivery of 1,000 lanes, and does no I/O.
// What comes before and after the lock counts as well.
func BenchmarkGroupCommit(b *testing.B) {
	const lanes = 1000
	memory := newMemory()
	subs := make([]subscriptions.Subscription, lanes)
	for i := range subs {
		subs[i] = memory.subscribe(topicA, fmt.Sprintf("http://h%d.example/%d", i%64, i))
	}
	commits := newGroupCommit(noCommits{memory}, time.Hour, 2*lanes, zap.NewNop())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent, done := time.Duration(0), 0
	for b.Loop() {
		if done++; done%lanes != 1 {
			continue
		}
		start := lockshare.ThreadTime()
		for i := range subs {
			if commits.blocks(subs[i].ID) {
				b.Fatal("it is blocked")
			}
			commits.add(subscriptions.Commit{ID: subs[i].ID, Cursor: subs[i].Cursor})
		}
		spent += lockshare.ThreadTime() - start
		commits.write(b.Context(), false)
	}
	lockshare.Report(b, "results", spent, (done+lanes-1)/lanes*lanes, schedulersOfGroup*coresOfScheduler)
}

// How long the lock of the scheduler is held for a delivery, and for what: the lane becomes ready, a
// sender starts it, the subscription is confirmed, the cursor moves, the lane is put back. One
// operation is one delivery, and does no I/O. It counts processor time, which other programs do not
// lengthen.
func BenchmarkLock(b *testing.B) {
	for _, c := range []struct{ topics, hosts, lanes int }{{1, 64, 1000}, {100, 1000, 100_000}, {1000, 10_000, 1_000_000}} {
		b.Run(fmt.Sprintf("topics=%d/hosts=%d/lanes=%d", c.topics, c.hosts, c.lanes), func(b *testing.B) {
			bed := newBed(b, single)
			bed.take()
			for i := range c.lanes {
				sub := subscriptions.Subscription{
					Topic: fmt.Sprint("http://topic/", i%c.topics), Callback: fmt.Sprintf("http://h%d.example/%d", i%c.hosts, i),
					ExpiresAt: time.Now().Add(time.Hour), Cursor: journal.Cursor{LastStatus: 204},
				}
				sub.ID = subscriptions.ID(sub.Topic, sub.Callback)
				bed.d.Apply(sub)
			}
			q := bed.d.only()
			topics := slices.Collect(maps.Values(q.s.topics))
			now := time.Now()
			var spent [5]time.Duration
			timed := func(of int, f func(*scheduler)) {
				q.do(func(s *scheduler) {
					start := lockshare.ThreadTime()
					f(s)
					spent[of] += lockshare.ThreadTime() - start
				})
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			jobs := make([]delivery, 0, bed.d.o.MaxInflight)
			n := uint64(0)
			b.ResetTimer()
			for done := 0; done < b.N; {
				n++
				timed(0, func(s *scheduler) {
					for _, t := range topics {
						s.setHead(t, anchor{position: journal.Position(n), nonce: journal.Nonce(n), seq: n})
					}
					for s.step() == 0 {
						continue // a hub releases the lock between two steps
					}
				})
				entry := &body{anchor: anchor{position: journal.Position(n), nonce: journal.Nonce(n), seq: n}}
				for {
					jobs = jobs[:0]
					timed(1, func(s *scheduler) {
						for len(jobs) < cap(jobs) {
							j, ok := s.pick()
							if !ok {
								break
							}
							jobs = append(jobs, delivery{job: j, body: entry, out: outcome{Result: Result{Status: 204}, limit: time.Minute}})
						}
					})
					if len(jobs) == 0 {
						break
					}
					each := func(f func(*scheduler, *delivery)) func(*scheduler) {
						return func(s *scheduler) {
							for i := range jobs {
								f(s, &jobs[i])
							}
						}
					}
					timed(2, each(func(s *scheduler, d *delivery) { s.confirm(&d.job) }))
					timed(3, each(func(s *scheduler, d *delivery) { s.decide(d, now) }))
					timed(4, each(func(s *scheduler, d *delivery) { s.finish(d.job, d.out) }))
					done += len(jobs)
				}
				if done >= b.N {
					b.StopTimer()
					var all time.Duration
					for i, name := range []string{"ready", "pick", "confirm", "decide", "finish"} {
						all += spent[i]
						b.ReportMetric(float64(spent[i])/float64(done), "ns-"+name)
					}
					lockshare.Report(b, "held", all, done, coresOfScheduler)
				}
			}
		})
	}
}
