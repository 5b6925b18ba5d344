package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/draws"
)

// paced is a transport to hosts that each read a number of bytes a second. It checks the bodies in
// memory whenever an exchange begins or ends.
type paced struct {
	mu    sync.Mutex
	speed map[string]float64     // by host; none: it answers after 10 ms
	began map[string][]time.Time // by URL
	taken int64                  // bytes of bodies over 64 KiB, before until
	until time.Time
	look  func()
}

func newPaced() *paced {
	return &paced{speed: make(map[string]float64), began: make(map[string][]time.Time), look: func() {}}
}

func (p *paced) Do(r *http.Request) (*http.Response, error) {
	p.look()
	defer p.look()
	p.mu.Lock()
	begun := time.Now()
	to := r.URL.String()
	p.began[to] = append(p.began[to], begun)
	speed := p.speed[r.URL.Host]
	until := p.until
	p.mu.Unlock()
	took := 10 * time.Millisecond
	if speed > 0 {
		took = time.Duration(float64(r.ContentLength) / speed * float64(time.Second))
	}
	var err error
	// Its side of the connection reads all the time.
	for err == nil && time.Since(begun) < took {
		if r.Body != nil {
			_, _ = r.Body.Read(make([]byte, 1))
		}
		select {
		case <-time.After(min(5*time.Second, took-time.Since(begun))):
		case <-r.Context().Done():
			err = r.Context().Err()
		}
	}
	if r.ContentLength > smallBody {
		part := 1.0
		if now := time.Now(); now.After(until) && now.After(begun) {
			part = max(0, float64(until.Sub(begun))/float64(now.Sub(begun)))
		}
		p.mu.Lock()
		p.taken += int64(part * float64(r.ContentLength))
		p.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return status(http.StatusOK), nil
}

// pace sets how many bytes a second the host of a URL reads.
func (p *paced) pace(to string, speed float64) string {
	u, _ := url.Parse(to)
	p.speed[u.Host] = speed
	return to
}

// at returns when exchanges with a callback began.
func (p *paced) at(url string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began[url]
}

// pacedBed is a bed with a paced transport and watched bodies. The bodies in use and in memory stay
// within limit. Only the largest may exceed it, beside the room that others keep.
func pacedBed(t *testing.T, limit, largest int64, inFlight int) (*bed, *paced) {
	t.Helper()
	p := newPaced()
	b := newBed(t, func(o *Options) { o.Client, o.MaxInflightBytes, o.MaxInflight = over(p), limit, inFlight })
	room := &b.d.bodies.room
	bound := max(limit, largest+limit/8+int64(ranks-1)*room.section)
	p.look = func() {
		if st := b.d.Stats(); st.BytesInFlight > bound || st.BytesCached > bound {
			t.Errorf("%d bytes of bodies in use, %d in memory, want at most %d", st.BytesInFlight, st.BytesCached, bound)
		}
	}
	return b, p
}

// nothingHeld complains if something is counted though all is over.
func nothingHeld(t *testing.T, b *bed) {
	t.Helper()
	d := b.d
	st := d.Stats()
	d.bodies.mu.Lock()
	defer d.bodies.mu.Unlock()
	if st.BytesInFlight != 0 || st.InFlight != 0 || d.sched.limits.large.Load() != 0 || d.sched.limits.unproven.Load() != 0 {
		t.Errorf("all is over, and held are %+v, %d heavy, %d unproven", st, d.sched.limits.large.Load(), d.sched.limits.unproven.Load())
	}
	q := &d.bodies.queue
	for k := range ranks {
		if l := &q.lines[k]; q.waits(k) {
			t.Errorf("%d bytes wait at rank %d", l.first.body.entry.Size, k)
		}
	}
	for h, a := range q.accounts {
		if len(a.loans) > 0 {
			t.Errorf("%s has %d loans", h.name, len(a.loans))
		}
	}
}

// However many hosts read large bodies slowly, a body of 64 KiB or less at a prompt host waits for
// none of them. Neither does a somewhat larger one. The slow hosts still fill the memory. The
// limits are sixteenths of the defaults, and then so small that a body of 64 KiB is not read at
// once.
func TestSmallBodiesPassLargeOnes(t *testing.T) {
	for _, c := range []struct {
		limit    int64
		inFlight int
		slow     []int // sizes
		held     int   // bodies of the first size at once
		prompt   []int
	}{
		{16 << 20, 32, []int{50 << 16}, 4, []int{1 << 10, 64 << 10, 66 << 10, 128 << 10, 200 << 10}},
		{16 << 20, 32, []int{50 << 16, 66 << 10, 300 << 10, 1 << 20}, 0, []int{1 << 10, 64 << 10, 66 << 10, 200 << 10}},
		{4 << 20, 512, []int{800 << 10}, 4, []int{1 << 10, 10 << 10, 64 << 10, 66 << 10}},
		{4 << 20, 512, []int{4 << 20, 100 << 10, 66 << 10}, 0, []int{1 << 10, 10 << 10, 64 << 10}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, p := pacedBed(t, c.limit, int64(c.slow[0]), c.inFlight)
			for n := range 40 {
				b.subscribe(fmt.Sprint("http://slow/", n), p.pace(cb(100+n), 140<<10))
			}
			for n := range c.prompt {
				b.subscribe(fmt.Sprint("http://prompt/", n), cb(n), served)
			}
			b.run()
			defer b.end()
			for n := range 40 {
				body := make([]byte, c.slow[n%len(c.slow)])
				for range 3 {
					b.publish(t, fmt.Sprint("http://slow/", n), body)
				}
			}
			pass(time.Second)
			if n := b.d.Stats().BytesInFlight; c.held > 0 && n != int64(c.held*c.slow[0]) {
				t.Errorf("slow hosts hold %d bytes, want %d bodies of %d", n, c.held, c.slow[0])
			}
			for range 20 {
				at := time.Now()
				for n, size := range c.prompt {
					b.publish(t, fmt.Sprint("http://prompt/", n), make([]byte, size))
				}
				pass(2 * time.Second)
				for n, size := range c.prompt {
					if got := p.at(cb(n)); len(got) == 0 || got[len(got)-1].Sub(at) > time.Second || got[len(got)-1].Before(at) {
						t.Fatalf("limit %d, slow ones of %v: %d bytes to a prompt callback wait", c.limit, c.slow, size)
					}
				}
			}
			pass(2 * time.Hour)
			nothingHeld(t, b)
		})
	}
}

// A host may read a large body slowly and still be quick. If there are more such hosts than
// senders, they leave one sender to a small body elsewhere.
func TestLargeBodiesLeaveSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := pacedBed(t, 16<<20, 2<<20, 32)
		for n := range 200 {
			b.subscribe(topicA, p.pace(cb(100+n), 1<<20), served)
		}
		b.subscribe(topicB, cb(0), served)
		b.run()
		defer b.end()
		for range 5 {
			b.publish(t, topicA, make([]byte, 2<<20))
		}
		pass(time.Second)
		if st := b.d.Stats(); st.InFlight != 28 {
			t.Errorf("%d of 32 senders are busy with large bodies, want all but a tenth, and one for hosts that are not quick", st.InFlight)
		}
		for range 60 {
			at := time.Now()
			b.publish(t, topicB, []byte("small"))
			pass(1100 * time.Millisecond)
			if got := p.at(cb(0)); len(got) == 0 || got[len(got)-1].Before(at) || got[len(got)-1].Sub(at) > time.Second {
				t.Fatalf("a small body waits for large ones at %d hosts", 200)
			}
		}
		pass(5 * time.Minute)
		if st := b.d.Stats(); st.Delivered != 1060 {
			t.Errorf("%+v", st)
		}
		nothingHeld(t, b)
	})
}

// However many large bodies wait for quick hosts, hosts of unknown health get their first
// notification soon.
func TestLargeBodiesLeaveSendersToNewHosts(t *testing.T) {
	for _, c := range []struct{ inFlight, size int }{ // of the middle size, and larger
		{3, 100 << 10}, {3, 1 << 20}, {20, 100 << 10}, {20, 1 << 20}, {60, 100 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			inFlight, size := c.inFlight, c.size
			const newcomers, waves = 5, 10
			large := 2 * inFlight
			b, p := pacedBed(t, 32<<20, int64(size), inFlight)
			for n := range large {
				b.subscribe(fmt.Sprint("http://large/", n), p.pace(cb(100+n), float64(size)), served)
			}
			for n := range newcomers {
				b.subscribe(topicB, cb(n))
			}
			b.run()
			defer b.end()
			body := make([]byte, size)
			for range waves {
				for n := range large {
					b.publish(t, fmt.Sprint("http://large/", n), body)
				}
			}
			pass(5 * time.Second)
			b.publish(t, topicB, []byte("small"))
			pass(time.Second)
			for n := range newcomers {
				if len(p.at(cb(n))) == 0 {
					t.Errorf("%d senders: a new host waits for over a second behind bodies of %d bytes", inFlight, size)
				}
			}
			done := 0
			for n := range large {
				done += len(p.at(cb(100 + n)))
			}
			if done > large*waves*3/4 {
				t.Errorf("%d senders: %d of %d large bodies were sent or begun, so too few wait", inFlight, done, large*waves)
			}
			pass(10 * time.Minute)
			nothingHeld(t, b)
		})
	}
}

// If senders are scarce rather than memory, a body is read when a sender can be spared for it, and
// only once. Slow hosts of unknown health do not get more senders because their bodies are in
// memory.
func TestLargeBodiesWaitForSenders(t *testing.T) {
	for _, as := range []func(*subscriptions.Subscription){served, func(*subscriptions.Subscription) {}} {
		synctest.Test(t, func(t *testing.T) {
			const topics, each = 60, 3
			b, p := pacedBed(t, 64<<20, 1<<20, 20)
			for n := range topics {
				topic := fmt.Sprint("http://large/", n)
				b.subscribe(topic, p.pace(cb(100+n), 1<<20), as)
				b.subscribe(topic, p.pace(cb(200+n), 250<<10), as)
			}
			b.subscribe(topicB, cb(0), served)
			b.run()
			defer b.end()
			body := make([]byte, 1<<20)
			for range each {
				for n := range topics {
					b.publish(t, fmt.Sprint("http://large/", n), body)
				}
			}
			for range 20 {
				pass(1100 * time.Millisecond)
				// A body of this length may use half of the tenth that large ones leave, and
				// quick hosts leave one sender of that to others.
				if n := b.d.Stats().InFlight; n > 19 {
					t.Errorf("%d of 20 senders are busy with large bodies", n)
				}
				at := time.Now()
				b.publish(t, topicB, []byte("small"))
				pass(time.Second)
				if got := p.at(cb(0)); len(got) == 0 || got[len(got)-1].Before(at) {
					t.Fatal("a small body waits for large ones")
				}
			}
			pass(10 * time.Minute)
			b.memory.mu.Lock()
			defer b.memory.mu.Unlock()
			if n := b.memory.bodies; n > 2*topics*each*11/10 {
				t.Errorf("%d bodies were read %d times for two callbacks each", topics*each, n)
			}
			nothingHeld(t, b)
		})
	}
}

// mixture is random topics and hosts with large bodies, and prompt hosts with others.
type mixture struct {
	limit    int64
	inFlight int
	topics   []flow // large
	light    []int  // sizes for prompt hosts
}

type flow struct {
	size   int
	served bool
	hosts  []int
}

func randomMixture(r *rand.Rand) (m mixture, speeds []float64) {
	m.limit = []int64{1 << 20, 4 << 20, 16 << 20}[r.IntN(3)]
	m.inFlight = []int{16, 64, 300}[r.IntN(3)]
	for range 4 + r.IntN(24) {
		speeds = append(speeds, []float64{130 << 10, 300 << 10, 2 << 20, 20 << 20}[r.IntN(4)])
	}
	for range 3 + r.IntN(24) {
		f := flow{size: smallBody + 1 + r.IntN(int(m.limit/(1<<r.IntN(5)))), served: r.IntN(2) == 0}
		for range 1 + r.IntN(3) {
			f.hosts = append(f.hosts, r.IntN(len(speeds)))
		}
		m.topics = append(m.topics, f)
	}
	for range 12 {
		m.light = append(m.light, 1+r.IntN(smallBody))
	}
	return m, speeds
}

// run delivers a mixture for some time. It returns the bytes of large bodies that the hosts read,
// and the longest wait of a light body.
func (m mixture) run(t *testing.T, speeds []float64, lights bool) (taken int64, waited time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const span = 4 * time.Minute
		largest := 0
		for _, f := range m.topics {
			largest = max(largest, f.size)
		}
		b, p := pacedBed(t, m.limit, int64(largest), m.inFlight)
		for n, s := range speeds {
			p.speed[fmt.Sprintf("large%d.example", n)] = s
		}
		for n, f := range m.topics {
			for k, h := range f.hosts {
				var as []func(*subscriptions.Subscription)
				if f.served {
					as = append(as, served)
				}
				b.subscribe(fmt.Sprint("http://large/", n), fmt.Sprintf("http://large%d.example/%d/%d", h, n, k), as...)
			}
		}
		for n := range m.light {
			b.subscribe(fmt.Sprint("http://light/", n), cb(n), served)
		}
		p.until = time.Now().Add(span)
		b.run()
		defer b.end()
		body := make([]byte, largest)
		for n, f := range m.topics {
			for range 5 {
				b.publish(t, fmt.Sprint("http://large/", n), body[:f.size])
			}
		}
		for end := p.until; time.Now().Before(end); {
			at := time.Now()
			for n, size := range m.light {
				if lights {
					b.publish(t, fmt.Sprint("http://light/", n), body[:size])
				}
			}
			pass(2 * time.Second)
			for n := range m.light {
				wait := 2 * time.Second
				if got := p.at(cb(n)); len(got) > 0 && !got[len(got)-1].Before(at) {
					wait = got[len(got)-1].Sub(at)
				}
				if lights {
					waited = max(waited, wait)
				}
			}
		}
		pass(3 * time.Hour)
		nothingHeld(t, b)
		taken = p.taken
	})
	return taken, waited
}

// For all sizes, hosts and speeds: a body of 64 KiB or less at a prompt host waits for at most a
// second, and the bytes in memory stay within their bound. The large ones keep nine tenths of their
// rate, on average over all mixtures. In a single mixture the order of two of them may change more
// than that.
func TestAnyMixtureOfBodies(t *testing.T) {
	var alone, together int64
	for seed := range draws.Seeds(2) {
		r := rand.New(rand.NewPCG(seed, 15))
		m, speeds := randomMixture(r)
		taken, _ := m.run(t, speeds, false)
		alone += taken
		taken, waited := m.run(t, speeds, true)
		together += taken
		if waited > time.Second {
			t.Errorf("seed %d: a light body waited for %v", seed, waited)
		}
	}
	if float64(together) < 0.9*float64(alone) {
		t.Errorf("%d bytes of large bodies went out, and %d alone", together, alone)
	}
}

// Prompt hosts that want more memory than there is leave large bodies nine tenths of
// their rate, and these leave the prompt ones theirs.
func TestLargeBodiesKeepTheirRate(t *testing.T) {
	const slow, prompt = 12, 120
	var rates [2]int64
	for n, crowd := range []int{0, prompt} {
		synctest.Test(t, func(t *testing.T) {
			b, p := pacedBed(t, 4<<20, 800<<10, 512)
			for n := range slow {
				b.subscribe(fmt.Sprint("http://slow/", n), p.pace(cb(1000+n), 140<<10))
			}
			for n := range crowd {
				b.subscribe(fmt.Sprint("http://prompt/", n), p.pace(cb(n), 128<<10), served)
			}
			p.until = time.Now().Add(2 * time.Minute)
			b.run()
			defer b.end()
			large, light := make([]byte, 800<<10), make([]byte, 64<<10)
			for range 40 {
				for n := range crowd {
					b.publish(t, fmt.Sprint("http://prompt/", n), light)
				}
			}
			pass(10 * time.Second) // of the light ones, as many as fit are under way
			for range 10 {
				for n := range slow {
					b.publish(t, fmt.Sprint("http://slow/", n), large)
				}
			}
			pass(2 * time.Hour)
			rates[n] = p.taken
			if st := b.d.Stats(); st.Delivered != uint64(10*slow+40*crowd) {
				t.Errorf("%+v", st)
			}
			nothingHeld(t, b)
		})
	}
	if float64(rates[1]) < 0.9*float64(rates[0]) {
		t.Errorf("%d bytes of large bodies went out beside small ones, and %d alone", rates[1], rates[0])
	}
}

// A body counts for the hosts that still read it. If each of many bodies goes to a quick host and
// to a slow one, the slow hosts together occupy what slow hosts may, and the quick ones wait for
// none of them.
func TestBodiesCountForThoseThatStillReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const topics, size = 60, 400 << 10
		b, p := pacedBed(t, 16<<20, size, 64)
		for n := range topics {
			topic := fmt.Sprint("http://large/", n)
			b.subscribe(topic, p.pace(cb(n), 20<<20), served)
			b.subscribe(topic, p.pace(cb(100+n), 25<<10)) // 16 s
		}
		b.run()
		defer b.end()
		for n := range topics {
			b.publish(t, fmt.Sprint("http://large/", n), make([]byte, size))
		}
		pass(4 * time.Second)
		for n := range topics {
			if len(p.at(cb(n))) == 0 {
				t.Fatalf("quick host %d waits for slow ones", n)
			}
		}
		room := roomOf(b)
		if held := room.bytes[bulkySlow]; room.lent() != held || held > room.limit(bulkySlow) || held < room.limit(bulkySlow)-size {
			t.Errorf("slow hosts hold %d of %d bytes in use, want nearly %d", held, room.lent(), room.limit(bulkySlow))
		}
		pass(5 * time.Minute)
		nothingHeld(t, b)
	})
}

func roomOf(b *bed) room {
	b.d.bodies.mu.Lock()
	defer b.d.bodies.mu.Unlock()
	return b.d.bodies.room
}

// sized is a journal of bodies of one size.
type sized struct {
	journal.Reader
	size int64
}

func (r sized) Read(context.Context, string, journal.Anchor, int, int64) ([]journal.Entry, error) {
	return []journal.Entry{{Size: r.size}}, nil
}

func (r sized) Body(context.Context, string, journal.Entry) ([]byte, error) {
	return make([]byte, r.size), nil
}

// A slow host does not join the reading of a quick host's body while slow hosts occupy all that
// they may. It has its turn when one of them is done.
func TestSlowHostsDoNotJoinBeyondTheirPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, fit = 320 << 10, 20
		var called []*lane
		b := newBodies(sized{size: size}, "https://hub.example/", "rshub", 8<<20, newLimits(1), func(lanes []*lane, read bool) {
			if read {
				called = append(called, lanes...)
			}
		}, func(bodyKey, error) {})
		slow, fast := &lane{host: &host{name: "slow"}}, &lane{host: &host{name: "quick"}}
		use := func(n int, l *lane, s health) (*body, error) {
			t.Helper()
			tp := &topic{url: fmt.Sprint(n)}
			for old := range b.byKey {
				if old.topic.url == tp.url {
					tp = old.topic
				}
			}
			e, err := b.get(t.Context(), tp, anchor{}, l.host, s)
			if errors.Is(err, errNoRoom) && b.wait(e, l, s) {
				synctest.Wait()
				return b.get(t.Context(), tp, anchor{}, l.host, s)
			}
			return e, err
		}
		var held [fit]*body
		for n := range held {
			var err error
			if held[n], err = use(n, slow, unproven); err != nil {
				t.Fatal(err)
			}
		}
		one, err := use(fit, fast, quick)
		if err != nil {
			t.Fatalf("a quick host gets no body: %v", err)
		}
		if _, err := use(fit, slow, unproven); !errors.Is(err, errNoRoom) {
			t.Errorf("slow hosts hold %d bytes, and join in another body: %v", b.room.bytes[bulkySlow], err)
		}
		b.put(held[0], slow.host, unproven)
		if len(called) == 0 || called[len(called)-1] != slow {
			t.Error("the slow host is not called back")
		}
		if _, err := use(fit, slow, unproven); err != nil {
			t.Error(err)
		}
		b.put(one, fast.host, quick)
		if n := b.room.bytes; n != [ranks]int64{bulkySlow: fit * size} {
			t.Errorf("held are %v, and only slow hosts still read", n)
		}
		b.put(one, slow.host, unproven)
		for _, e := range held[1:] {
			b.put(e, slow.host, unproven)
		}
		if b.room.lent() != 0 || len(b.queue.accounts) != 0 {
			t.Errorf("%d bytes are in use, %d accounts left", b.room.lent(), len(b.queue.accounts))
		}
		pass(time.Minute)
	})
}

// Large bodies of quick hosts do not wait for all those of slow hosts, nor the other way round: the
// side that occupies less goes first.
func TestQuickAndSlowHostsShareTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 512 << 10
		b, p := pacedBed(t, 4<<20, size, 64)
		for n := range 20 {
			b.subscribe(fmt.Sprint("http://slow/", n), p.pace(cb(100+n), 35<<10))
			b.subscribe(fmt.Sprint("http://quick/", n), p.pace(cb(n), 256<<10), served)
		}
		b.run()
		defer b.end()
		body := make([]byte, size)
		for range 6 {
			for n := range 20 {
				b.publish(t, fmt.Sprint("http://slow/", n), body)
			}
		}
		pass(time.Second)
		for range 26 {
			for n := range 20 {
				b.publish(t, fmt.Sprint("http://quick/", n), body)
			}
		}
		pass(time.Minute)
		began := func(first int) (n int) {
			for k := range 20 {
				n += len(p.at(cb(first + k)))
			}
			return n
		}
		for range 3 {
			wasQuick, wasSlow := began(0), began(100)
			pass(time.Minute)
			// With half of the room each: three bodies at once, for 2 s and for 15 s.
			if q, s := began(0)-wasQuick, began(100)-wasSlow; q < 75 || s < 10 {
				t.Errorf("in a minute %d bodies went to quick hosts and %d to slow ones", q, s)
			}
		}
		pass(2 * time.Hour)
		nothingHeld(t, b)
	})
}

// A host that wants many large bodies and reads them slowly gets one at a time, as long as hosts
// without any wait.
func TestHostsTakeTurnsForTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, others, each = 512 << 10, 10, 30
		b, p := pacedBed(t, 4<<20, size, 64)
		for n := range 60 {
			b.subscribe(fmt.Sprint("http://one/", n), p.pace(fmt.Sprint("http://slow.example/", n), 35<<10))
		}
		for n := range others {
			b.subscribe(fmt.Sprint("http://other/", n), p.pace(cb(n), 125<<10)) // 4.1 s, so not quick
		}
		b.run()
		defer b.end()
		body := make([]byte, size)
		for n := range 60 {
			b.publish(t, fmt.Sprint("http://one/", n), body)
		}
		pass(time.Second)
		for range each {
			for n := range others {
				b.publish(t, fmt.Sprint("http://other/", n), body)
			}
		}
		// Six bodies have room, of which it has one.
		pass(15*time.Second + others*each/5*4100*time.Millisecond)
		for n := range others {
			if got := len(p.at(cb(n))); got < each*9/10 {
				t.Errorf("host %d got %d of %d beside a slow one", n, got, each)
			}
		}
		pass(time.Hour)
		nothingHeld(t, b)
	})
}

// Bodies that fit pass one that does not, of as many bytes as it has itself.
func TestBodiesThatFitPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 12 << 20
		b, p := pacedBed(t, 16<<20, large, 64)
		b.subscribe("http://first/", p.pace(cb(0), 300<<10))
		b.subscribe("http://large/", p.pace(cb(1), 4<<20))
		for n := range 30 {
			b.subscribe(fmt.Sprint("http://small/", n), p.pace(cb(100+n), 300<<10))
		}
		b.run()
		defer b.end()
		body := make([]byte, large)
		b.publish(t, "http://first/", body[:4<<20])
		pass(time.Second)
		at := time.Now()
		b.publish(t, "http://large/", body)
		pass(time.Second)
		for range 10 {
			for n := range 30 {
				b.publish(t, fmt.Sprint("http://small/", n), body[:1<<20])
			}
		}
		pass(time.Second)
		if st := b.d.Stats(); st.BytesInFlight < 12<<20 {
			t.Errorf("only %d bytes are in use while a large body waits", st.BytesInFlight)
		}
		pass(time.Minute)
		if got := p.at(cb(1)); len(got) == 0 || got[0].Sub(at) > 30*time.Second {
			t.Errorf("a large body waits behind smaller ones, %v", got)
		}
		pass(2 * time.Hour)
		nothingHeld(t, b)
	})
}

// ailing is a journal that cannot read some of its large bodies.
type ailing struct {
	Journal
	fail func(ctx context.Context, topic string) error
}

func (a ailing) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	if err := a.fail(ctx, topic); err != nil {
		return nil, err
	}
	return a.Journal.Body(ctx, topic, e)
}

// Bodies that cannot be read, or whose reading does not end, delay no others.
func TestUnreadableBodiesHoldBackNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := pacedBed(t, 16<<20, 6<<20, 64)
		journal := ailing{b.memory, func(ctx context.Context, topic string) error {
			switch topic {
			case "http://fails/":
				return errStore
			case "http://hangs/":
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		b.readFrom(journal)
		for n := range 5 {
			b.subscribe("http://fails/", cb(200+n))
			b.subscribe("http://hangs/", cb(300+n))
			b.subscribe(fmt.Sprint("http://large/", n), p.pace(cb(n), 4<<20))
		}
		b.run()
		defer b.end()
		b.publish(t, "http://hangs/", make([]byte, 6<<20))
		for range 3 {
			b.publish(t, "http://fails/", make([]byte, 6<<20))
			for n := range 5 {
				b.publish(t, fmt.Sprint("http://large/", n), make([]byte, 6<<20))
			}
		}
		pass(time.Minute)
		for n := range 5 {
			if got := len(p.at(cb(n))); got != 3 {
				t.Errorf("callback %d got %d of 3", n, got)
			}
		}
	})
}
