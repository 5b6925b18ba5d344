package destination

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// begun has a copy want to send so many requests, and returns how to end those that may be sent.
func begun(ctx context.Context, p *party, to string, n int, sound bool) chan func() {
	leaves := make(chan func(), n)
	for range n {
		go func() {
			if leave, err := p.enter(ctx, to, func() bool { return sound }); err == nil {
				leaves <- leave
			}
		}()
	}
	synctest.Wait()
	return leaves
}

// Copies divide the requests of a host, and one that the host does not answer well has one.
func TestHostIsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(8, 100)
		a, b, c := s.join(), s.join(), s.join()
		ofC := begun(t.Context(), c, "h", 5, false)
		if len(ofC) != 1 {
			t.Errorf("a copy that is not answered has %d requests", len(ofC))
		}
		ofA := begun(t.Context(), a, "h", 20, true)
		if len(ofA) != 4 { // the half: c wants some as well
			t.Errorf("the second copy has %d requests", len(ofA))
		}
		ofB := begun(t.Context(), b, "h", 20, true)
		if len(ofB) != 2 {
			t.Errorf("the third copy has %d requests", len(ofB))
		}
		if s.hosts["h"].inUse > 8 {
			t.Errorf("the host has %d requests", s.hosts["h"].inUse)
		}
		for len(ofA)+len(ofB)+len(ofC) > 0 { // all get their turn
			for _, of := range []chan func(){ofA, ofB, ofC} {
				for range len(of) {
					leave := <-of
					leave()
					leave() // again: nothing happens
				}
			}
			synctest.Wait()
		}
		if len(s.hosts)+len(s.waiting)+s.lent+a.inUse+b.inUse+c.inUse != 0 {
			t.Errorf("something stays: %+v", s)
		}
	})
}

// Requests beyond the first of each copy have a bound. Slow ones do not use it up.
func TestSlowRequestsDelayNoOtherCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(8, 10)
		ctx, cancel := context.WithCancel(t.Context())
		for _, host := range []string{"slow", "slower"} {
			begun(ctx, s.join(), host, 10, true)
		}
		if s.lent != 10 {
			t.Fatalf("%d are lent", s.lent)
		}
		other := s.join()
		if got := begun(ctx, other, "h", 3, true); len(got) != 1 {
			t.Errorf("another copy has %d requests beside slow ones", len(got))
		}
		time.Sleep(lentFor)
		synctest.Wait()
		if other.inUse != 3 {
			t.Errorf("after a while it has %d", other.inUse)
		}
		cancel()
		synctest.Wait()
		if len(s.waiting) > 0 {
			t.Errorf("%d wait for nobody", len(s.waiting))
		}
	})
}

// A wait that ends with its context takes no place.
func TestEnterEnds(t *testing.T) {
	s := newShared(1, 1)
	leave, err := s.join().enter(t.Context(), "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.join().enter(ctx, "h", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	leave()
	if len(s.hosts)+len(s.waiting) != 0 {
		t.Errorf("something stays: %+v", s)
	}
}

// One that gets on keeps its turn, and one that does not gives it on.
func TestTurnOfASlowOneIsGivenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		turns := newTurns(1)
		var done int64
		end, err := turns.begin(ctx, func() int64 { done += turnLeast; return done })
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Hour, end)
		if _, err = turns.begin(ctx, nil); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v; the next one waited %v for one that gets on", err, time.Since(began))
		}
		if end, err = turns.begin(ctx, nil); err != nil || time.Since(began) != time.Hour+turnLook {
			t.Errorf("%v; the next one waited %v for one that does not", err, time.Since(began)-time.Hour)
		}
		end()
		end()
		if len(turns) != 0 {
			t.Errorf("%d turns are not given back", len(turns))
		}
	})
}
