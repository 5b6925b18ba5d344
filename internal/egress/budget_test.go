package egress

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestBudgetBoundsUnconfirmedRequests(t *testing.T) {
	b := NewBudget(20)
	for i := range 20 {
		if _, ok := b.Take(noon, "a:80"); !ok {
			t.Fatalf("request %d had to wait", i+1)
		}
	}
	wait, ok := b.Take(noon, "a:80")
	if ok || wait < 3*time.Second || wait > 3*time.Second+time.Millisecond {
		t.Fatalf("the 21st: wait %v, %v, want 3 s", wait, ok)
	}
	if _, ok := b.Take(noon, "b:80"); !ok {
		t.Error("another host had to wait")
	}
	if _, ok := b.Take(noon.Add(-time.Hour), "a:80"); ok {
		t.Error("a clock that went back made a place")
	}
	if _, ok := b.Take(noon.Add(wait), "a:80"); !ok {
		t.Error("there was no place after the wait")
	}
	if _, ok := b.Take(noon.Add(wait), "a:80"); ok {
		t.Error("there were two places after the wait for one")
	}
	// Places do not pile up beyond a minute's.
	n := 0
	for ; n < 100; n++ {
		if _, ok := b.Take(noon.Add(time.Hour), "a:80"); !ok {
			break
		}
	}
	if n != 20 {
		t.Errorf("%d places after an hour, want 20", n)
	}
}

func TestConfirmGivesThePlaceBack(t *testing.T) {
	b := NewBudget(2)
	for range 100 {
		if _, ok := b.Take(noon, "a:80"); !ok {
			t.Fatal("a confirmed request cost a place")
		}
		b.Confirm("a:80")
	}
	for range 10 {
		b.Confirm("a:80") // more often than taken
		b.Confirm("never-seen:80")
	}
	n := 0
	for ; n < 10; n++ {
		if _, ok := b.Take(noon, "a:80"); !ok {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d places, want 2", n)
	}
}

func TestBudgetWithoutLimits(t *testing.T) {
	for name, b := range map[string]*Budget{"zero": NewBudget(0), "nil": nil} {
		for range 1000 {
			if _, ok := b.Take(noon, "a:80"); !ok {
				t.Fatalf("%s: had to wait", name)
			}
		}
		b.Confirm("a:80")
		ctx, pl, _, ok := b.Begin(context.Background(), noon, "a:80")
		if !ok || placeOf(ctx).dialling(netip.MustParseAddr("192.0.2.1")) != 0 {
			t.Errorf("%s: an address had to wait", name)
		}
		pl.Confirm()
	}
}

// Many names of one address share what the address has; each gives back what
// it took itself.
func TestBudgetOfAnAddress(t *testing.T) {
	b := NewBudget(2)
	v4, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	var places []*Place
	for i, addr := range []netip.Addr{v4, mapped, v4} {
		_, pl, _, ok := b.Begin(context.Background(), noon, fmt.Sprintf("name%d:80", i))
		if !ok {
			t.Fatal("a new name had to wait")
		}
		if wait := pl.dialling(addr); (wait > 0) != (i == 2) {
			t.Fatalf("dialling %d: wait %v", i, wait)
		}
		places = append(places, pl)
	}
	places[2].Confirm() // dialled nothing: gives back its name only
	if places[2].dialling(v4) == 0 {
		t.Error("who dialled nothing gave back a place of the address")
	}
	places[0].Confirm()
	places[0].Confirm()
	if places[2].dialling(v4) != 0 {
		t.Error("the confirmed place did not come back")
	}
	if places[2].dialling(v4) == 0 {
		t.Error("a place came back twice")
	}
	(*Place)(nil).Confirm()
}

// Invariant 12: the memory is bounded, however many hosts and however long
// their names, and the newest are remembered.
func TestBudgetIsBounded(t *testing.T) {
	b := NewBudget(1)
	long := strings.Repeat("x", 1000)
	for i := range maxBuckets + 1000 {
		b.Take(noon, fmt.Sprintf("%s%d:80", long, i))
		if i%1000 == 0 {
			b.Take(noon, "in-use:80")
		}
	}
	if len(b.buckets) != maxBuckets || b.recent.Len() != maxBuckets {
		t.Fatalf("%d buckets, %d in the list, want %d", len(b.buckets), b.recent.Len(), maxBuckets)
	}
	if _, ok := b.Take(noon, fmt.Sprintf("%s%d:80", long, maxBuckets+999)); ok {
		t.Error("the newest was forgotten")
	}
	if _, ok := b.Take(noon, "in-use:80"); ok {
		t.Error("one that was in use was forgotten")
	}
	if _, ok := b.Take(noon, long+"0:80"); !ok {
		t.Error("the oldest was not forgotten")
	}
}

func TestBudgetIsSharedBetweenGoroutines(t *testing.T) {
	b := NewBudget(50)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 200 {
		wg.Go(func() {
			if _, ok := b.Take(noon, "a:80"); ok {
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

// Waiting as long as Take says is enough, every time.
func TestBudgetRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(7)
		start, n := time.Now(), 0
		for time.Since(start) < 10*time.Minute {
			wait, ok := b.Take(time.Now(), "a:80")
			if ok {
				n++
				continue
			}
			time.Sleep(wait)
			if _, ok := b.Take(time.Now(), "a:80"); !ok {
				t.Fatalf("no place after waiting %v", wait)
			}
			n++
		}
		if n < 7*10 || n > 7*11 {
			t.Errorf("%d requests in 10 minutes, want 7 and then 7 a minute", n)
		}
	})
}
