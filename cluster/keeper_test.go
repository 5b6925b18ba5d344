package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/test/draws"
)

// TestMain lets one goroutine run at a time. If several timers of a bubble are due at the same
// instant, and two goroutines run some of them, the race detector confuses the two and ends the
// process ("ThreadSanitizer: CHECK failed", https://go.dev/issue/78156). Hubs with the same
// heartbeat have many such instants. The race detector still chooses at random which goroutine
// runs first.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

const lease = 30 * time.Second

var errAway = errors.New("the store is away")

// fake is a Store in memory, whose clock is the bubble's.
type fake struct {
	mu     sync.Mutex
	nodes  map[string]Node
	alive  map[string]time.Time
	owners [Shards]string
	until  [Shards]time.Time
	calls  map[string]int // questions, and shards in them

	away  map[string]bool // hubs that do not reach it
	hangs bool            // they wait for their context instead of an error
}

func newFake() *fake {
	return &fake{nodes: map[string]Node{}, alive: map[string]time.Time{}, calls: map[string]int{}, away: map[string]bool{}}
}

// reach is the connection of a hub to the store.
type reach struct {
	*fake
	id string
}

func (r reach) ask(ctx context.Context, what string, n int) error {
	r.mu.Lock()
	away, hangs := r.away[r.id], r.hangs
	r.calls[what] += n
	r.mu.Unlock()
	if away && hangs {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if away {
		return errAway
	}
	return nil
}

func (r reach) Heartbeat(ctx context.Context, self Node, ttl time.Duration) (nodes []Node, err error) {
	if err := r.ask(ctx, "heartbeat", 1); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[self.ID], r.alive[self.ID] = self, time.Now().Add(ttl)
	for id, n := range r.nodes {
		if r.alive[id].After(time.Now()) {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// owner is who has a shard now.
func (f *fake) owner(shard int) string {
	if f.until[shard].After(time.Now()) {
		return f.owners[shard]
	}
	return ""
}

func (r reach) Owners(ctx context.Context, shards []int) (owners []string, err error) {
	if err := r.ask(ctx, "owners", len(shards)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range shards {
		owners = append(owners, r.owner(s))
	}
	return owners, nil
}

func (r reach) Acquire(ctx context.Context, owner string, shards []int, ttl time.Duration) (got []int, err error) {
	if err := r.ask(ctx, "acquire", len(shards)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range shards {
		if o := r.owner(s); o == "" || o == owner {
			r.owners[s], r.until[s] = owner, time.Now().Add(ttl)
			got = append(got, s)
		}
	}
	return got, nil
}

func (r reach) Renew(ctx context.Context, owner string, shards []int, ttl time.Duration) (kept, gone []int, err error) {
	if err := r.ask(ctx, "renew", len(shards)); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range shards {
		if r.owner(s) != owner {
			gone = append(gone, s)
			continue
		}
		r.until[s] = time.Now().Add(ttl)
		kept = append(kept, s)
	}
	return kept, gone, nil
}

func (r reach) Release(ctx context.Context, owner string, shards []int) error {
	if err := r.ask(ctx, "release", len(shards)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range shards {
		if r.owner(s) == owner {
			r.owners[s] = ""
		}
	}
	return nil
}

// floor is shared by the workers of all hubs. It notices when two work on one shard.
type floor struct {
	mu      sync.Mutex
	working [Shards]map[string]bool
	both    []string // what should not have happened
}

// part is a Worker that records what it works on.
type part struct {
	floor *floor
	id    string
	owns  func(int) bool

	mu        sync.Mutex
	begun     map[int]bool // and neither started nor aborted since
	working   map[int]bool
	busy      map[int]bool
	starts    map[int]int
	cuts      int
	fails     int           // Starts that fail first
	startTime time.Duration // how long a Start takes
	finishFor time.Duration
	finished  map[int]time.Duration
}

func (p *part) enter(shard int) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[shard] {
		p.wrong("two calls for shard %d at once", shard)
	}
	p.busy[shard] = true
	return func() { p.mu.Lock(); defer p.mu.Unlock(); delete(p.busy, shard) }
}

func (p *part) wrong(format string, args ...any) {
	p.floor.mu.Lock()
	defer p.floor.mu.Unlock()
	p.floor.both = append(p.floor.both, p.id+": "+fmt.Sprintf(format, args...))
}

func (p *part) work(shard int, on bool) {
	p.floor.mu.Lock()
	defer p.floor.mu.Unlock()
	if !on {
		delete(p.floor.working[shard], p.id)
		return
	}
	if p.floor.working[shard] == nil {
		p.floor.working[shard] = map[string]bool{}
	}
	p.floor.working[shard][p.id] = true
	if len(p.floor.working[shard]) > 1 {
		p.floor.both = append(p.floor.both, fmt.Sprintf("shard %d is worked on by %v", shard, p.floor.working[shard]))
	}
}

func (p *part) Start(ctx context.Context, shard int) error {
	defer p.enter(shard)()
	if !p.owns(shard) {
		p.wrong("starts shard %d, which it does not own", shard)
	}
	p.mu.Lock()
	p.starts[shard]++
	p.begun[shard] = true
	fail := p.starts[shard] <= p.fails
	p.mu.Unlock()
	if fail {
		return errAway
	}
	clock.Sleep(ctx, p.startTime)
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.begun, shard)
	p.working[shard] = true
	p.work(shard, true)
	return nil
}

func (p *part) Finish(ctx context.Context, shard int) {
	defer p.enter(shard)()
	began := time.Now()
	clock.Sleep(ctx, p.finishFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.working[shard] && ctx.Err() == nil {
		p.wrong("finishes shard %d, which it did not start", shard)
	}
	delete(p.working, shard)
	p.finished[shard] = time.Since(began)
	p.work(shard, false)
}

func (p *part) Abort(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	delete(p.begun, shard)
	delete(p.working, shard)
	p.work(shard, false)
}

func (p *part) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.working)
}

// hub is a Keeper that runs.
type hub struct {
	*Keeper
	part *part
	stop func()
}

// bed is some hubs on one store.
type bed struct {
	t     *testing.T
	store *fake
	floor *floor

	mu     sync.Mutex
	events []Event
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, store: newFake(), floor: &floor{}}
	t.Cleanup(func() {
		b.floor.mu.Lock()
		defer b.floor.mu.Unlock()
		for _, what := range b.floor.both {
			t.Error(what)
		}
	})
	return b
}

// start runs a hub until its stop is called. Change, if not nil, is called first.
func (b *bed) start(id string, change func(*Options, *part)) *hub {
	p := &part{
		floor: b.floor, id: id, begun: map[int]bool{}, working: map[int]bool{}, busy: map[int]bool{}, starts: map[int]int{}, finished: map[int]time.Duration{},
	}
	o := Options{Store: reach{b.store, id}, Worker: p, Self: Node{ID: id, Name: id}, Lease: lease, Drain: 15 * time.Second, Event: func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}}
	if change != nil {
		change(&o, p)
	}
	k, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	p.owns = k.Owns
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	return &hub{Keeper: k, part: p, stop: stop}
}

func (b *bed) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// away cuts a hub off from the store, or connects it again.
func (b *bed) away(id string, away, hangs bool) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.away[id], b.store.hangs = away, hangs
}

// heard is how many events of a name there were.
func (b *bed) heard(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Name == name {
			n++
		}
	}
	return n
}

// shares fails unless the hubs own this many shards, and work on them.
func (b *bed) shares(hubs []*hub, want ...int) {
	b.t.Helper()
	var got, works []int
	for _, h := range hubs {
		got = append(got, h.Owned())
		works = append(works, h.part.count())
	}
	if !slices.Equal(got, want) || !slices.Equal(works, want) {
		b.t.Errorf("%s: owned %v, worked on %v, want %v", time.Now().Format("15:04:05"), got, works, want)
	}
}

func TestOneHubOwnsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", func(_ *Options, p *part) { p.startTime = time.Second })
		b.after(time.Millisecond)
		if h.Starting() == nil || h.Owned() != Shards || h.part.count() != 0 {
			t.Errorf("starting: %v, owns %d, works on %d before anything was started", h.Starting(), h.Owned(), h.part.count())
		}
		b.after(Shards / startsAtOnce * time.Second)
		if h.Starting() != nil || h.Live() != 1 || h.Check() != nil {
			t.Errorf("starting: %v, live %d, %v", h.Starting(), h.Live(), h.Check())
		}
		b.shares([]*hub{h}, Shards)
		b.after(10 * lease)
		b.shares([]*hub{h}, Shards)
		h.stop()
		b.shares([]*hub{h}, 0)
	})
}

// An idle hub asks the store nothing but this: it renews each lease once in a third of its time,
// and reads the live hubs once a second.
func TestIdleCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", nil)
		other := b.start("b", nil)
		b.after(5 * time.Minute)
		b.store.mu.Lock()
		clear(b.store.calls)
		b.store.mu.Unlock()
		b.after(lease)
		b.store.mu.Lock()
		c := maps.Clone(b.store.calls)
		b.store.mu.Unlock()
		if c["renew"] != 3*Shards || c["heartbeat"] > 62 || c["owners"] > Shards || c["acquire"]+c["release"] > 0 {
			t.Errorf("in the time of a lease: %v", c)
		}
		h.stop()
		other.stop()
	})
}

// A third hub gets its shards from the others, and no other shard moves. If it dies, the others
// own its shards within the time of a lease; if it shuts down, at once.
func TestHubsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		a := b.start("a", nil)
		b.after(time.Minute)
		c := b.start("b", nil)
		b.after(10 * time.Second)
		b.shares([]*hub{a, c}, 128, 128)
		d := b.start("c", func(_ *Options, p *part) { p.finishFor = time.Second })
		b.after(10 * time.Second)
		b.shares([]*hub{a, c, d}, a.Owned(), c.Owned(), 256-a.Owned()-c.Owned())
		if d.Owned() < 85 || a.Owned() < 85 || c.Owned() < 85 || a.Live() != 3 {
			t.Errorf("%d, %d and %d shards of %d live", a.Owned(), c.Owned(), d.Owned(), a.Live())
		}
		if n := a.part.cuts + c.part.cuts + d.part.cuts; n != 0 {
			t.Errorf("%d shards were aborted instead of finished", n)
		}

		// A shutdown: the others own everything 3 s later.
		ended := time.Now()
		d.stop()
		if took := time.Since(ended); took > 1500*time.Millisecond {
			t.Errorf("finishing took %s", took)
		}
		b.after(2 * time.Second)
		b.shares([]*hub{a, c, d}, 128, 128, 0)

		// A dead hub: it no longer reaches the store.
		b.away("b", true, false)
		b.after(lease + 3*time.Second)
		b.shares([]*hub{a, c}, 256, 0)
		if a.Live() != 1 || b.heard(EventLost) == 0 || c.Check() == nil {
			t.Errorf("live %d, check %v", a.Live(), c.Check())
		}
		// Back again, it gets its shards without any help.
		b.away("b", false, false)
		b.after(5 * time.Second)
		b.shares([]*hub{a, c}, 128, 128)
		if c.Check() != nil || b.heard(EventClusterRecovered) != 1 {
			t.Errorf("check %v, recovered %d times", c.Check(), b.heard(EventClusterRecovered))
		}
		a.stop()
		c.stop()
	})
}

// If the store does not answer, a hub stops by its own clock before the lease is over in the
// store. A store that hangs instead of failing makes no difference.
func TestStopsByItsOwnClock(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			h := b.start("a", nil)
			b.after(time.Minute)
			b.away("a", true, hangs)
			b.after(lease - lease/3 - lease/10 - 2*time.Second) // renewed up to a third ago
			b.shares([]*hub{h}, Shards)
			b.after(lease/3 + 2*time.Second)
			for shard := range Shards {
				if h.Owns(shard) || b.store.until[shard].Before(time.Now()) && h.part.count() > 0 {
					t.Fatalf("shard %d: owned %t, worked on %d", shard, h.Owns(shard), h.part.count())
				}
			}
			if h.part.cuts != Shards {
				t.Errorf("%d shards were aborted", h.part.cuts)
			}
			h.stop()
		})
	}
}

// A hub that was frozen owns nothing when it wakes up, even before anything in it
// could notice.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := New(Options{Store: Alone, Worker: &part{}, Self: Node{ID: "a"}, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		k.until[7].Store(k.end(k.now()))
		if !k.Owns(7) || k.Owns(8) {
			t.Error("a lease is not one")
		}
		time.Sleep(lease - lease/10 + 1) // nothing of k runs meanwhile
		if k.Owns(7) {
			t.Error("the lease is over, and the hub believes that it owns the shard")
		}
	})
}

// A lease that the store gave late counts from before it was asked.
func TestLeaseCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		slow := &slowStore{Store: reach{b.store, "a"}, acquires: 4 * time.Second, renewals: 4 * time.Second}
		h := b.start("a", func(o *Options, _ *part) { o.Store = slow })
		for _, wait := range []time.Duration{5 * time.Second, 23 * time.Second} { // acquired; renewed
			b.after(wait)
			now := h.now()
			for shard := range Shards {
				b.store.mu.Lock()
				mine, stores := h.until[shard].Load()-now, time.Until(b.store.until[shard])
				b.store.mu.Unlock()
				if mine > int64(stores-lease/10) || mine < 0 {
					t.Fatalf("the lease of shard %d ends in %s here, in %s in the store", shard, time.Duration(mine), stores)
				}
			}
		}
		h.stop()
	})
}

// A shard that is handed back during a renewal is not owned again when the renewal is answered.
func TestRenewalOfWhatIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		a := b.start("a", func(o *Options, p *part) {
			o.Store, p.finishFor = &slowStore{Store: o.Store, renewals: 4 * time.Second, releases: 4 * time.Second}, 3*time.Second
		})
		b.after(8500 * time.Millisecond)
		c := b.start("b", nil)
		b.after(6 * time.Second) // finishes from 9 s to 12 s, renewal from 10 s to 14 s, release from 12 s to 16 s
		b.shares([]*hub{a, c}, 128, 128)
		two(t, b, map[string]*hub{"a": a, "b": c})
		a.stop()
		c.stop()
	})
}

// A lease that the store has lost ends here at its renewal. The hub acquires the shard again when
// it is free.
func TestLostInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", nil)
		b.after(15500 * time.Millisecond) // renewed at 10 s
		b.store.mu.Lock()
		b.store.owners[3], b.store.until[3] = "thief", time.Now().Add(20*time.Second)
		b.store.owners[4] = ""
		b.store.mu.Unlock()
		b.after(6 * time.Second)
		h.part.mu.Lock()
		cuts, starts := h.part.cuts, h.part.starts[4]
		h.part.mu.Unlock()
		if h.Owns(3) || !h.Owns(4) || cuts != 2 || starts != 2 {
			t.Errorf("owns the lost one: %t, the free one: %t, %d cuts, started %d times", h.Owns(3), h.Owns(4), cuts, starts)
		}
		b.after(2 * lease)
		b.shares([]*hub{h}, Shards)
		h.stop()
	})
}

// slowStore executes a request at once, and answers late.
type slowStore struct {
	Store
	acquires, renewals, releases time.Duration
}

func (s *slowStore) Acquire(ctx context.Context, owner string, shards []int, ttl time.Duration) ([]int, error) {
	got, err := s.Store.Acquire(ctx, owner, shards, ttl)
	time.Sleep(s.acquires)
	return got, err
}

func (s *slowStore) Renew(ctx context.Context, owner string, shards []int, ttl time.Duration) (kept, gone []int, err error) {
	kept, gone, err = s.Store.Renew(ctx, owner, shards, ttl)
	time.Sleep(s.renewals)
	return kept, gone, err
}

// A Start that fails is repeated. A Start that is still running when its shard is lost is ended
// and aborted, and so is one that runs for long when its shard is due to another hub.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", func(_ *Options, p *part) { p.fails = 2 })
		b.after(500 * time.Millisecond)
		if h.Starting() == nil {
			t.Error("begun, while every Start fails")
		}
		b.after(5 * time.Second)
		b.shares([]*hub{h}, Shards)
		if b.heard(EventTakeFailed) == 0 {
			t.Error("no event")
		}
		other := b.start("b", func(_ *Options, p *part) { p.startTime = time.Hour })
		b.after(5 * time.Second)
		if h.Owned() != 128 || other.Owned() != 128 || other.part.count() != 0 {
			t.Errorf("%d and %d owned, %d working", h.Owned(), other.Owned(), other.part.count())
		}
		third := b.start("c", nil)
		b.after(5 * time.Second)
		b.shares([]*hub{third}, third.Owned())
		if third.Owned() < 85 || other.Owned() < 85 || len(other.part.begun) != startsAtOnce {
			t.Errorf("%d and %d owned, %d begun", other.Owned(), third.Owned(), len(other.part.begun))
		}
		other.stop()
		b.after(3 * time.Second)
		b.shares([]*hub{h, third}, 128, 128)
		h.stop()
		third.stop()
	})
}

// A hub that is stopped during its start finishes the shards that it has begun, and does not
// abort them. It begins no other shard.
func TestStopWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", func(_ *Options, p *part) { p.startTime, p.finishFor = time.Second, time.Second })
		b.after(500 * time.Millisecond)
		begun := len(h.part.begun)
		if begun != startsAtOnce {
			t.Fatalf("%d Starts have begun", begun)
		}
		h.stop()
		if len(h.part.finished) != begun || h.part.cuts != Shards-begun || h.Owned() != 0 {
			t.Errorf("%d finished, %d cuts, %d owned", len(h.part.finished), h.part.cuts, h.Owned())
		}
		for shard, took := range h.part.finished {
			if took != time.Second {
				t.Errorf("shard %d had %v to finish", shard, took)
			}
		}
	})
}

// A shutdown gives the Worker the time to drain and no more. It keeps the leases until then.
func TestFinishIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", func(o *Options, p *part) { o.Drain, p.finishFor = 2*lease, time.Hour })
		b.after(time.Minute)
		began := time.Now()
		done := make(chan struct{})
		go func() { h.stop(); close(done) }()
		b.after(2*lease - time.Second)
		if h.Owned() != Shards {
			t.Errorf("%d shards are owned while all are finished", h.Owned())
		}
		<-done
		if took := time.Since(began); took != 2*lease {
			t.Errorf("it took %s", took)
		}
		for shard := range Shards {
			if b.store.owner(shard) != "" {
				t.Fatalf("shard %d was not released", shard)
			}
		}
	})
}

// At a shutdown the hub waits for a store that fails or hangs, for the Worker's time to drain and
// a moment longer. It reports no shard as handed back that was not.
func TestEndWhileTheStoreIsAway(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for _, finishFor := range []time.Duration{0, time.Second, time.Hour} {
			t.Run(fmt.Sprint("hangs ", hangs, ", finishes for ", finishFor), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { endWhileAway(t, hangs, finishFor) })
			})
		}
	}
}

func endWhileAway(t *testing.T, hangs bool, finishFor time.Duration) {
	b := newBed(t)
	h := b.start("a", func(_ *Options, p *part) { p.finishFor = finishFor })
	b.after(time.Minute)
	b.away("a", true, hangs)
	b.after(time.Second)
	began := time.Now()
	h.stop()
	if took := time.Since(began); took > 15*time.Second+farewell {
		t.Errorf("it took %v", took)
	}
	synctest.Wait()
	if finished := b.heard(EventYielded); finished != 0 {
		t.Errorf("%d lines say that shards were handed back", finished)
	}
	var kept []int
	for _, e := range b.events {
		if e.Name == EventKept {
			kept = append(kept, e.Shards...)
		}
	}
	slices.Sort(kept)
	if len(slices.Compact(kept)) != Shards {
		t.Errorf("%d shards are said not to be handed back", len(kept))
	}
}

// If the store comes back during the shutdown, the hub releases everything.
func TestEndWhileTheStoreComesBack(t *testing.T) {
	t.Run("it hung", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { endWhileComesBack(t, true, 10*time.Second) })
	})
	t.Run("it failed", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { endWhileComesBack(t, false, 0) }) })
}

func endWhileComesBack(t *testing.T, hangs bool, finishFor time.Duration) {
	b := newBed(t)
	h := b.start("a", func(_ *Options, p *part) { p.finishFor = finishFor })
	other := b.start("b", nil)
	defer other.stop()
	b.after(time.Minute)
	b.away("a", true, hangs)
	ended := make(chan struct{})
	go func() { h.stop(); close(ended) }()
	b.after(5 * time.Second)
	b.away("a", false, false)
	<-ended
	b.after(2 * time.Second)
	if other.Owned() != Shards || b.heard(EventKept) != 0 {
		t.Errorf("the other hub owns %d shards; %d were not handed back", other.Owned(), b.heard(EventKept))
	}
}

// A store that fails once does not keep the shards that a hub hands back from their next owner until the lease ends.
func TestHandBackThatFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var failing *failingReleases
		h := b.start("a", func(o *Options, _ *part) {
			failing = &failingReleases{Store: o.Store}
			o.Store = failing
		})
		defer h.stop()
		b.after(time.Minute)
		other := b.start("b", nil)
		defer other.stop()
		b.after(5 * time.Second)
		if failing.failed.Load() == 0 || other.Owned() != Shards/2 || b.heard(EventKept) != 0 {
			t.Errorf("%d releases failed; the other hub owns %d shards; %d were not handed back",
				failing.failed.Load(), other.Owned(), b.heard(EventKept))
		}
	})
}

// failingReleases is a Store in which the first Release of each shard fails.
type failingReleases struct {
	Store
	tried  sync.Map
	failed atomic.Int64
}

func (f *failingReleases) Release(ctx context.Context, owner string, shards []int) error {
	if _, again := f.tried.LoadOrStore(shards[0], true); !again {
		f.failed.Add(1)
		return errAway
	}
	return f.Store.Release(ctx, owner, shards)
}

// With Alone a hub owns everything for ever, frozen or not.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.start("a", func(o *Options, _ *part) { o.Store, o.Lease = Alone, 0 })
		b.after(time.Millisecond)
		b.shares([]*hub{h}, Shards)
		time.Sleep(time.Hour)
		b.shares([]*hub{h}, Shards)
		if h.part.cuts != 0 || h.Live() != 1 || h.Starting() != nil || len(h.Nodes()) != 1 || h.Nodes()[0].ID != "a" {
			t.Errorf("%d cuts, %d live, starting: %v, %v", h.part.cuts, h.Live(), h.Starting(), h.Nodes())
		}
		h.stop()
		b.shares([]*hub{h}, 0)
	})
}

// Whatever happens, no two hubs work on one shard, and in the end the live hubs own everything.
func TestNeverTwo(t *testing.T) {
	for seed := range draws.Seeds(4) {
		synctest.Test(t, func(t *testing.T) { neverTwo(t, seed) })
	}
}

func (s *slowStore) Release(ctx context.Context, owner string, shards []int) error {
	err := s.Store.Release(ctx, owner, shards)
	time.Sleep(s.releases)
	return err
}
