package egress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// begin takes a place of a host at a time.
func begin(b *Budget, now time.Time, host string) (*place, time.Duration) {
	ctx, _, wait := b.Begin(context.Background(), now, host)
	return placeOf(ctx), wait
}

// had reports whether there was a place.
func had(b *Budget, now time.Time, host string) bool {
	_, wait := begin(b, now, host)
	return wait == 0
}

func TestBudgetBoundsUnconfirmedRequests(t *testing.T) { synctest.Test(t, boundsUnconfirmed) }

func boundsUnconfirmed(t *testing.T) {
	b := NewBudget(40) // of which strangers get half
	for i := range 20 {
		if !had(b, noon.Add(time.Duration(i)*time.Second), "a:80") {
			t.Fatalf("request %d had to wait", i+1)
		}
	}
	now := noon.Add(20 * time.Second)
	pl, wait := begin(b, now, "a:80")
	if pl != nil || wait != 40*time.Second {
		t.Fatalf("the 21st: wait %v, want what is left of the first one's minute", wait)
	}
	if !had(b, now, "b:80") {
		t.Error("another host had to wait")
	}
	if had(b, noon.Add(-time.Hour), "a:80") {
		t.Error("a clock that went back made a place")
	}
	if had(b, now.Add(wait-1), "a:80") {
		t.Error("there was a place before the wait was over")
	}
	if !had(b, now.Add(wait), "a:80") {
		t.Error("there was no place after the wait")
	}
	if had(b, now.Add(wait), "a:80") {
		t.Error("there were two places after the wait for one")
	}
	// Places do not pile up.
	n := 0
	for n < 100 && had(b, noon.Add(time.Hour), "a:80") {
		n++
	}
	if n != 20 {
		t.Errorf("%d places after an hour, want 20", n)
	}
}

func TestConfirmGivesThePlaceBack(t *testing.T) { synctest.Test(t, givesBack) }

func givesBack(t *testing.T) {
	b := NewBudget(2)
	for range 100 {
		pl, _ := begin(b, noon, "a:80")
		if pl == nil {
			t.Fatal("a confirmed request cost a place")
		}
		for range 3 { // more often than taken
			pl.confirm()
		}
	}
	late, _ := begin(b, noon, "a:80")
	n := 0
	for n < 10 && had(b, noon.Add(time.Minute), "a:80") {
		n++
	}
	if n != 2 {
		t.Errorf("%d places, want 2", n)
	}
	late.confirm() // whose place came back by itself
	if had(b, noon.Add(time.Minute), "a:80") {
		t.Error("a place came back twice")
	}
}

func TestBudgetWithoutLimits(t *testing.T) {
	for name, b := range map[string]*Budget{"zero": NewBudget(0), "nil": nil} {
		for range 1000 {
			if !had(b, noon, "a:80") {
				t.Fatalf("%s: had to wait", name)
			}
		}
		ctx, confirm, wait := b.Begin(context.Background(), noon, "a:80")
		if wait != 0 || placeOf(ctx).acquire("addr 192.0.2.1") != 0 {
			t.Errorf("%s: an address had to wait", name)
		}
		confirm()
	}
}

// Many names of one address share what the address has; each gives back what
// it took itself.
func TestBudgetOfAnAddress(t *testing.T) {
	b := NewBudget(2)
	v4, mapped := addrTarget(netip.MustParseAddr("192.0.2.1")), addrTarget(netip.MustParseAddr("::ffff:192.0.2.1"))
	var places []*place
	for i, addr := range []string{v4, mapped, v4} {
		pl, wait := begin(b, noon, fmt.Sprintf("name%d:80", i))
		if wait > 0 {
			t.Fatal("a new name had to wait")
		}
		if wait := pl.acquire(addr); (wait > 0) != (i == 2) {
			t.Fatalf("dialling %d: wait %v", i, wait)
		}
		places = append(places, pl)
	}
	places[2].confirm() // dialled nothing: gives back its name only
	if places[2].acquire(v4) == 0 {
		t.Error("who dialled nothing gave back a place of the address")
	}
	places[0].confirm()
	places[0].confirm()
	if places[2].acquire(v4) != 0 {
		t.Error("the confirmed place did not come back")
	}
	if places[2].acquire(v4) == 0 {
		t.Error("a place came back twice")
	}
}

// Invariant 12: the memory is bounded, however many hosts and however long
// their names, and the newest are remembered.
func TestBudgetIsBounded(t *testing.T) {
	b := NewBudget(1)
	long := strings.Repeat("x", 1000)
	for i := range maxBuckets + 1000 {
		begin(b, noon, fmt.Sprintf("%s%d:80", long, i))
		if i%1000 == 0 {
			begin(b, noon, "in-use:80")
		}
	}
	if b.buckets.Len() != maxBuckets {
		t.Fatalf("%d buckets, want %d", b.buckets.Len(), maxBuckets)
	}
	if had(b, noon, fmt.Sprintf("%s%d:80", long, maxBuckets+999)) {
		t.Error("the newest was forgotten")
	}
	if had(b, noon, "in-use:80") {
		t.Error("one that was in use was forgotten")
	}
	if !had(b, noon, long+"0:80") {
		t.Error("the oldest was not forgotten")
	}
}

func TestBudgetIsSharedBetweenGoroutines(t *testing.T) {
	b := NewBudget(100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 200 {
		wg.Go(func() {
			if had(b, noon, "a:80") {
				mu.Lock()
				got++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got != 50 {
		t.Errorf("%d places given, want 50", got)
	}
}

// No minute sees more requests than the budget says, whenever they come, and
// waiting as long as it says is enough, every time.
func TestBudgetOfAnyMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute = 7
		b := NewBudget(2 * perMinute)
		rnd := rand.New(rand.NewPCG(1, 2))
		var made []time.Time
		for start := time.Now(); time.Since(start) < 20*time.Minute; {
			_, wait := begin(b, time.Now(), "a:80")
			if wait > 0 {
				time.Sleep(wait)
				if !had(b, time.Now(), "a:80") {
					t.Fatalf("no place after waiting %v", wait)
				}
			}
			made = append(made, time.Now())
			if rnd.IntN(5) == 0 {
				time.Sleep(time.Duration(rnd.IntN(30)) * time.Second)
			}
		}
		for i := perMinute; i < len(made); i++ {
			if d := made[i].Sub(made[i-perMinute]); d < time.Minute {
				t.Fatalf("%d requests within %v", perMinute+1, d)
			}
		}
		if len(made) < 100 {
			t.Errorf("%d requests in 20 minutes, want nearly 7 a minute", len(made))
		}
	})
}

// A place counts from when it is taken: a name server that is slow does not move
// requests of one minute into the next.
func TestPlaceCountsFromWhenItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1)
		slow, _ := begin(b, time.Now(), "a:80")
		time.Sleep(5 * time.Second) // of looking the name up
		if wait := slow.acquire("addr 192.0.2.1"); wait != 0 {
			t.Fatalf("wait %v", wait)
		}
		time.Sleep(56 * time.Second)
		next, _ := begin(b, time.Now(), "b:80")
		if wait := next.acquire("addr 192.0.2.1"); wait != 4*time.Second {
			t.Errorf("wait %v, want 4 s", wait)
		}
	})
}

// Each of several hubs has its part of the budget, from the moment on when there
// are more or fewer.
func TestBudgetIsSharedByHubs(t *testing.T) {
	live := 1
	b := NewBudget(10)
	b.Live = func() int { return live }
	now := noon
	for _, tc := range []struct{ hubs, want int }{{1, 5}, {4, 2}, {20, 1}, {0, 5}} {
		live = tc.hubs
		n := 0
		for had(b, now, "a:80") {
			n++
		}
		if n != tc.want {
			t.Errorf("%d places of 10 for strangers at one of %d hubs, want %d", n, tc.hubs, tc.want)
		}
		now = now.Add(time.Hour)
	}
	// More hubs come while places are taken.
	live = 1
	for range 5 {
		had(b, now, "a:80")
		now = now.Add(time.Second)
	}
	live = 5
	if pl, wait := begin(b, now, "a:80"); pl != nil || wait.Round(time.Millisecond) != 58*time.Second {
		t.Errorf("wait %v, want until no more than one of its 2 places is taken", wait)
	}
}

// places is how many requests of one kind a target gets at once.
func places(b *Budget, now time.Time, host string, asker func(i int) Asker) (n int) {
	for n < 1000 {
		if _, _, wait := b.Begin(WithAsker(context.Background(), asker(n)), now, host); wait > 0 {
			break
		}
		n++
	}
	return n
}

func reserved(i int) Asker { return Asker{Reserve: fmt.Sprint("topic ", i), Established: true} }

// However many strangers there are, what is established finds places at a target,
// under its name and at its address, and the target gets no more than its budget.
func TestReserveIsNotForStrangers(t *testing.T) {
	for _, tc := range []struct{ perMinute, open, reserve int }{{20, 10, 10}, {7, 4, 3}, {3, 2, 1}, {2, 2, 0}, {1, 1, 0}} {
		b := NewBudget(tc.perMinute)
		if n := places(b, noon, "a:80", func(i int) Asker { return Asker{Requester: uint64(i + 1)} }); n != tc.open {
			t.Errorf("of %d places strangers get %d, want %d", tc.perMinute, n, tc.open)
		}
		if n := places(b, noon, "a:80", reserved); n != tc.reserve {
			t.Errorf("of %d places %d are left for what is established, want %d", tc.perMinute, n, tc.reserve)
		}
		// Without strangers it has them all, and they get nothing on top.
		now := noon.Add(time.Hour)
		if n := places(b, now, "a:80", reserved); n != tc.perMinute {
			t.Errorf("of %d places what is established gets %d", tc.perMinute, n)
		}
		if had(b, now, "a:80") {
			t.Errorf("a stranger got a place on top of %d", tc.perMinute)
		}
	}
}

// One name has one place of the reserve at a time: what is established and fails
// keeps nothing else from it. After the first it is counted as a stranger.
func TestOneNameHasOnePlaceOfTheReserve(t *testing.T) {
	b := NewBudget(20)
	one := func(int) Asker { return reserved(0) }
	if n := places(b, noon, "a:80", one); n != 1+10 {
		t.Errorf("one name got %d places, want one of the reserve and those of strangers", n)
	}
	if n := places(b, noon, "a:80", func(i int) Asker { return reserved(1 + i) }); n != 9 {
		t.Errorf("%d places of the reserve are left, want 9", n)
	}
	// A place that was confirmed is free again.
	ctx := WithAsker(context.Background(), reserved(0))
	for range 50 {
		_, confirm, _ := b.Begin(ctx, noon, "b:80")
		confirm()
	}
	if n := places(b, noon, "b:80", reserved); n != 20 {
		t.Errorf("%d places after all were confirmed, want 20", n)
	}
}

// One requester gets a part of what strangers get, at a host and at an address; enough
// for one topic check at least.
func TestBudgetCountsRequesters(t *testing.T) {
	for perMinute, want := range map[int]int{20: 5, 100: 25, 4: 2, 1: 1} {
		b := NewBudget(perMinute)
		one := func(int) Asker { return Asker{Requester: RequesterID("192.0.2.1")} }
		if n := places(b, noon, "a:80", one); n != want {
			t.Errorf("of %d places one requester gets %d, want %d", perMinute, n, want)
		}
		if perMinute < 10 {
			continue
		}
		ctx, _, wait := b.Begin(WithAsker(context.Background(), Asker{Requester: 7}), noon, "a:80")
		pl := placeOf(ctx)
		if wait > 0 {
			t.Fatalf("another requester has to wait %v", wait)
		}
		for range want {
			pl.acquire("addr 192.0.2.1")
		}
		if wait := pl.acquire("addr 192.0.2.1"); wait <= 0 || wait > time.Minute {
			t.Errorf("at an address it waits %v", wait)
		}
	}
}
