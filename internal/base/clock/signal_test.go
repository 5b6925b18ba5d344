package clock

import (
	"testing"
	"time"
)

// A broadcast wakes everybody that waits at the time, and nobody that begins to wait later.
func TestSignal(t *testing.T) {
	var s Signal
	s.Broadcast() // nobody waits
	first, second := s.Wait(), s.Wait()
	select {
	case <-first:
		t.Fatal("a waiter was woken by what happened before")
	default:
	}
	s.Broadcast()
	<-first
	<-second
	select {
	case <-s.Wait():
		t.Error("one that came later was woken")
	default:
	}
}

func TestLater(t *testing.T) {
	a := time.Unix(1, 0)
	b := a.Add(1)
	if !Later(a, b).Equal(b) || !Later(b, a).Equal(b) || !Later(time.Time{}, a).Equal(a) {
		t.Error("it is not the later one")
	}
}
