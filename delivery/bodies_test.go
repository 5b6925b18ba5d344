package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// The bodies in memory stay within --max-inflight-bytes. A body that many deliveries share counts
// once. Large bodies that wait for room delay no small ones, and do not block each other for ever
// (invariant 12).
func TestBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, size = 8 << 20, 3 << 20 // two of them fit
		b := newBed(t, func(o *Options) { o.MaxInflightBytes, o.MaxInflight = limit, 16 })
		var mu sync.Mutex
		var most int64
		slow := func(r *http.Request, body []byte) (*http.Response, error) {
			mu.Lock()
			most = max(most, b.d.Stats().BytesCached)
			mu.Unlock()
			return takes(10*time.Second)(r, body)
		}
		for topic := range 6 {
			for n := range 10 {
				url := fmt.Sprintf("http://h%d.example/%d", n, topic)
				b.subscribe(fmt.Sprint("http://large/", topic), url)
				b.set(url, slow)
			}
		}
		b.subscribe(topicB, cb(0))
		b.run()
		defer b.end()
		synctest.Wait()
		for topic := range 6 {
			b.publish(t, fmt.Sprint("http://large/", topic), bytes.Repeat([]byte{byte('a' + topic)}, size))
		}
		for range 10 {
			pass(time.Second)
			b.publish(t, topicB, []byte("small"))
		}
		pass(10 * time.Minute)
		if st := b.d.Stats(); st.Delivered != 70 || st.BytesInFlight != 0 {
			t.Fatalf("%+v", st)
		}
		if most > limit || most < 2*size {
			t.Errorf("up to %d bytes of bodies in memory, limit %d", most, limit)
		}
		for _, r := range b.delivered() {
			if len(r.body) == size && r.body[0] != r.url[len(r.url)-1]-'0'+'a' {
				t.Fatalf("%s got the body of another topic", r.url)
			}
		}
		if b.bodies > 12 {
			t.Errorf("6 bodies were read %d times", b.bodies)
		}
	})
}

// linkedReader is a journal in which each entry has links as long as a publisher may send them.
type linkedReader struct{ journal.Reader }

func (linkedReader) Read(_ context.Context, _ string, after journal.Anchor, _ int, _ int64) ([]journal.Entry, error) {
	e := journal.Entry{Position: after.Position + 1, Nonce: 1, Seq: after.Seq + 1, MediaType: "text/plain", Body: []byte("b"), Size: 1}
	for i := range 4 {
		e.Links = append(e.Links, fmt.Sprintf(`<https://links.example/%d/%s>; rel="via"`, i, bytes.Repeat([]byte("l"), 2000)))
	}
	return []journal.Entry{e}, nil
}

// What is kept of small bodies stays within the limit with their links, of which each body has several copies.
func TestLinksOfBodiesAreBounded(t *testing.T) {
	const limit = 8 << 20
	bed := newBed(t, func(o *Options) { single(o); o.MaxInflightBytes = limit })
	bed.take()
	bed.d.Apply(subscriptionOf(topicA, "http://h.example/"))
	l := bed.d.only().s.topics[topicA].lanes[0]
	bed.d.bodies.reader = linkedReader{}
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var n runtime.MemStats
		runtime.ReadMemStats(&n)
		return int(n.HeapAlloc)
	}
	before := heap()
	for n := range 2 * cachedBodies {
		at := anchor{position: journal.Position(n + 1), nonce: 1, seq: uint64(n)}
		e, err := bed.d.bodies.get(t.Context(), l.topic.topic, at, l.host, quick)
		if err != nil {
			t.Fatal(err)
		}
		bed.d.bodies.put(e, l.host, quick)
	}
	if kept := heap() - before; kept < limit/2 || kept > limit+limit/8 {
		t.Errorf("%d KiB are kept, and may be %d", kept>>10, limit>>10)
	}
	runtime.KeepAlive(bed)
}

// A body that is larger than the whole room is delivered when no other is in memory.
func TestBodyOverTheLimit(t *testing.T) {
	const callbacks = 8
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflightBytes = 1 << 20 })
		for n := range callbacks {
			b.subscribe(topicA, cb(n))
			b.set(cb(n), takes(time.Second))
		}
		b.run()
		defer b.end()
		one := b.publish(t, topicA, make([]byte, 2<<20))
		two := b.publish(t, topicA, make([]byte, 3<<20))
		pass(time.Minute)
		for n := range callbacks {
			b.wantOrder(cb(n), one, two)
		}
	})
}

// Small bodies that are not used any more do not accumulate.
func TestIdleBodiesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflightBytes, o.MaxInflight = 1<<20, 8 })
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		for range 300 {
			b.publish(t, topicA, make([]byte, 10<<10))
			pass(time.Millisecond)
		}
		pass(time.Second)
		if st := b.d.Stats(); st.Delivered != 300 || st.BytesCached > 1<<20 || len(b.d.bodies.byKey) > 103 {
			t.Errorf("%+v, %d bodies", st, len(b.d.bodies.byKey))
		}
	})
}

// A large body that cannot be read is read again later; one that was trimmed
// meanwhile is a gap.
func TestLargeBodyCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		fails := 3
		b.failBody = func() error {
			if fails--; fails >= 0 {
				return errStore
			}
			return nil
		}
		b.run()
		defer b.end()
		one := b.publish(t, topicA, make([]byte, 1<<20))
		pass(time.Minute)
		b.wantOrder(cb(0), one)
		fails = 3
		two := b.publish(t, topicA, make([]byte, 1<<20))
		pass(time.Second)
		b.trim(topicA, two.Seq)
		pass(time.Minute)
		b.wantOrder(cb(0), one)
		b.wantGaps(sub, journal.Gap{From: one.Until, Until: two.Until, Count: 1, Reason: journal.GapRetention})
		if n := len(b.attempts(cb(0))); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// An empty body is a body.
func TestEmptyBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		e := b.publish(t, topicA, nil)
		pass(time.Second)
		b.wantOrder(cb(0), e)
	})
}

// slowBodies is a journal that needs a second to read a large body.
type slowBodies struct {
	journal.Reader
	read atomic.Int64
}

func (r *slowBodies) Read(context.Context, string, journal.Anchor, int, int64) ([]journal.Entry, error) {
	return []journal.Entry{{Size: 1 << 20}}, nil
}

func (r *slowBodies) Body(context.Context, string, journal.Entry) ([]byte, error) {
	r.read.Add(1)
	time.Sleep(time.Second)
	return make([]byte, 1<<20), nil
}

// A large body that waits for room when the hub ends is not read any more.
func TestNoBodyIsReadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reader slowBodies
		b := newBodies(&reader, "https://hub.example/", "rshub", 1<<20, newLimits(1), func([]*lane, bool) {}, func(bodyKey, error) {})
		for _, url := range []string{topicA, topicB} {
			l := &lane{host: &host{name: url}}
			e, err := b.get(t.Context(), &topic{url: url}, anchor{}, l.host, quick)
			if !errors.Is(err, errNoRoom) || !b.wait(e, l, quick) {
				t.Fatal(err)
			}
		}
		b.close()
		pass(time.Minute)
		if n := reader.read.Load(); n != 1 {
			t.Errorf("%d bodies were read, and there was room for one", n)
		}
	})
}

// While a delivery has a small body, others get it and give it back without the lock. The last one gives it back for
// all, also where the store lost it meanwhile; after that, nobody gets what was lost.
func TestSmallBodyIsSharedWithoutLock(t *testing.T) {
	m := newMemory()
	bed := &bed{memory: m, t: t}
	bed.publish(t, topicA, []byte("small"))
	b := newBodies(m, "https://hub.example/", "rshub", 1<<20, newLimits(4), func([]*lane, bool) {}, func(bodyKey, error) {})
	h, on := &host{name: "h.example"}, &topic{url: topicA}
	get := func(s health) *body {
		e, err := b.get(t.Context(), on, anchor{}, h, s)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := get(unproven)
	b.mu.Lock() // who needs it now, waits for ever
	for range 3 {
		one, other := get(quick), get(unproven)
		b.put(one, h, unproven) // a host's health may change meanwhile
		b.put(other, h, quick)
	}
	b.mu.Unlock()
	if pinned, cached, reads := b.stats(); pinned != 5 || cached != first.bytes() || reads != 1 {
		t.Errorf("%d bytes in use, %d in memory, read %d times", pinned, cached, reads)
	}

	b.forget(on)
	second := get(quick)
	if second == first {
		t.Error("what was lost is delivered again")
	}
	b.put(first, h, quick)
	b.put(second, h, quick)
	if pinned, cached, reads := b.stats(); pinned != 0 || cached != second.bytes() || reads != 2 {
		t.Errorf("%d bytes in use, %d in memory, read %d times, want the second one in memory", pinned, cached, reads)
	}
	b.mu.Lock()
	b.evict(0)
	b.mu.Unlock()
	if _, cached, _ := b.stats(); cached != 0 || on.latest.Load() != nil {
		t.Errorf("%d bytes are in memory, and %v is kept", cached, on.latest.Load())
	}
}

// An entry of this hub is in memory before anybody asks for it: small ones with a copy of their body, large ones not at all.
func TestOfferedBodyIsNotRead(t *testing.T) {
	m := newMemory()
	b := newBodies(m, "https://hub.example/", "rshub", 1<<20, newLimits(4), func([]*lane, bool) {}, func(bodyKey, error) {})
	h, on := &host{name: "h.example"}, &topic{url: topicA}
	var at anchor
	offer := func(body []byte) *body {
		e := journal.Entry{Position: at.position + 1, Nonce: 7, Seq: at.seq + 1, MediaType: "text/plain", Size: int64(len(body)), Body: bytes.Clone(body)}
		offered := b.prepare(on, at, &e)
		clear(e.Body) // the publisher's memory is used again
		b.offer(offered)
		b.offer(offered)
		at = packAnchor(e.Anchor())
		return offered
	}
	for _, size := range []int{0, 1, int(b.atOnce)} {
		before, want := at, bytes.Repeat([]byte("x"), size)
		offered := offer(want)
		got, err := b.get(t.Context(), on, before, h, unproven)
		if err != nil || got != offered || !bytes.Equal(got.entry.Body, want) || !got.anchor.same(at) {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
			continue
		}
		b.put(got, h, unproven)
		if _, err := b.get(t.Context(), &topic{url: topicB}, before, h, quick); err == nil {
			t.Error("another topic gets it")
		}
	}
	_, cached, reads := b.stats()
	if offered := offer(make([]byte, b.atOnce+1)); offered != nil {
		t.Error("a large body takes memory that nobody has given it")
	}
	if _, after, _ := b.stats(); cached != after || reads != 3 {
		t.Errorf("%d bytes in memory, and then %d; read %d times", cached, after, reads)
	}
	var last *body
	for range 100 { // nobody asks for these
		last = offer(make([]byte, b.atOnce))
	}
	if _, after, _ := b.stats(); after != cached+last.bytes() {
		t.Errorf("%d bytes are in memory, want %d and those of the last one, %d", after, cached, last.bytes())
	}
	b.forget(on)
	if _, cached, _ := b.stats(); cached != 0 || len(b.byKey) != 0 || on.offered != nil {
		t.Errorf("%d bytes in memory of a topic that lost its tail", cached)
	}
}

// What was forgotten is not offered again by the next scheduler of its topic: it may be in use, and would count twice.
func TestForgottenIsNotOfferedAgain(t *testing.T) {
	b := newBodies(newMemory(), "https://hub.example/", "rshub", 1<<20, newLimits(4), func([]*lane, bool) {}, func(bodyKey, error) {})
	h, on := &host{name: "h.example"}, &topic{url: topicA}
	offered := b.prepare(on, anchor{}, &journal.Entry{Position: 1, Nonce: 7, Seq: 1, Size: 4, Body: []byte("lost")})
	b.offer(offered)
	first, err := b.get(t.Context(), on, anchor{}, h, quick)
	if err != nil {
		t.Fatal(err)
	}
	b.forget(on)
	b.offer(offered)
	if second, err := b.get(t.Context(), on, anchor{}, h, quick); !errors.Is(err, errHead) {
		t.Errorf("%+v, %v, and the journal has nothing", second, err)
	}
	b.put(first, h, quick)
	if pinned, cached, _ := b.stats(); pinned != 0 || cached != 0 || b.idle.Len() != 0 || len(b.byKey) != 0 {
		t.Errorf("%d bytes in use, %d in memory, %d bodies without uses, %d named", pinned, cached, b.idle.Len(), len(b.byKey))
	}
}

// A lane that does not get an entry of this hub at once reads it later, if the journal still has it then.
func TestOfferStandsForAMoment(t *testing.T) {
	for name, late := range map[string]bool{"in time": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicA, cb(0))
				b.run()
				defer b.end()
				synctest.Wait()
				one, two := b.publish(t, topicA, []byte("one")), b.publish(t, topicA, []byte("two"))
				pass(time.Second)
				if _, err := b.operator().Pause(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				three := b.publish(t, topicA, []byte("three")) // it comes with its hint
				b.trim(topicA, 3)
				if late {
					pass(2 * offerStands)
				}
				if _, err := b.operator().Resume(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if late {
					b.wantOrder(cb(0), one, two)
				} else {
					b.wantOrder(cb(0), one, two, three)
				}
				if s, _ := b.stored(sub); late != (len(s.Gaps) == 1) {
					t.Errorf("the gaps are %+v", s.Gaps)
				}
			})
		})
	}
}

// lateReads answers with what the journal had some time ago.
type lateReads struct {
	*memory
	asked, free chan struct{}
}

func (l lateReads) Read(ctx context.Context, url string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	entries, err := l.memory.Read(ctx, url, after, limit, maxBytes)
	l.asked <- struct{}{}
	<-l.free
	return entries, err
}

// What the store loses while it is read goes to the delivery that read it, and to no later one.
func TestLostWhileItIsRead(t *testing.T) {
	for name, size := range map[string]int{"read at once": 10, "for the room": 1 << 19} {
		t.Run(name, func(t *testing.T) {
			m := lateReads{newMemory(), make(chan struct{}, 1), make(chan struct{})}
			bed := &bed{memory: m.memory, t: t}
			bed.publish(t, topicA, bytes.Repeat([]byte("a"), size))
			b := newBodies(m, "https://hub.example/", "rshub", 1<<20, newLimits(4), func([]*lane, bool) {}, func(bodyKey, error) {})
			h, on := &host{name: "h.example"}, &topic{url: topicA}
			got := make(chan *body)
			go func() {
				e, _ := b.get(t.Context(), on, anchor{}, h, quick)
				got <- e
			}()
			<-m.asked
			bed.rollback(topicA, 1)
			next := bed.publish(t, topicA, []byte("next"))
			b.forget(on)
			close(m.free)
			lost := <-got
			if e, err := b.get(t.Context(), on, anchor{}, h, quick); err != nil || e.entry.ID != next.ID {
				t.Errorf("%v, and %v instead of the next entry", err, e.entry.ID)
			} else {
				b.put(e, h, quick)
			}
			if !lost.inRoom {
				b.put(lost, h, quick)
			}
			b.forget(on)
			if pinned, cached, _ := b.stats(); pinned != 0 || cached != 0 || len(b.byKey) != 0 {
				t.Errorf("%d bytes are in use, and %d in memory", pinned, cached)
			}
		})
	}
}

// Deliveries of several entries, by many goroutines at the same time, while entries are forgotten and dropped: no
// body is given back before its last delivery has it no more, and none is kept for ever.
func TestBodiesAreSharedAtRandom(t *testing.T) {
	const goroutines, rounds, entries = 8, 3000, 3
	m := newMemory()
	bed := &bed{memory: m, t: t}
	at := []anchor{{}}
	for range entries {
		e := bed.publish(t, topicA, []byte("small"))
		at = append(at, packAnchor(e.Anchor()))
	}
	b := newBodies(m, "https://hub.example/", "rshub", 4096, newLimits(goroutines), func([]*lane, bool) {}, func(bodyKey, error) {})
	h, on := &host{name: "h.example"}, &topic{url: topicA}
	var all sync.WaitGroup
	for n := range goroutines {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(n)))
			for range rounds {
				e, err := b.get(t.Context(), on, at[rnd.IntN(entries)], h, health(rnd.IntN(2)))
				if errors.Is(err, errAgain) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if rnd.IntN(4) == 0 {
					runtime.Gosched()
				}
				if string(e.entry.Body) != "small" || e.sharing.Load() < 1 {
					t.Errorf("a delivery has %q, which %d share", e.entry.Body, e.sharing.Load())
				}
				switch rnd.IntN(50) {
				case 0:
					b.forget(on)
				case 1:
					b.mu.Lock()
					b.evict(0)
					b.mu.Unlock()
				}
				b.put(e, h, health(rnd.IntN(2)))
			}
		})
	}
	all.Wait()
	if pinned, _, reads := b.stats(); pinned != 0 || reads < 2 {
		t.Errorf("%d bytes are in use, after %d reads", pinned, reads)
	}
	b.forget(on)
	if _, cached, _ := b.stats(); cached != 0 || len(b.byKey) != 0 || b.idle.Len() != 0 {
		t.Errorf("%d bytes of %d bodies are in memory", cached, len(b.byKey))
	}
}
