package quiet

import (
	"sync"
	"testing"
	"time"
)

// The first lines of each kind pass, then one each while, which says how many did not.
func TestLimit(t *testing.T) {
	l, now := New(time.Second, 3), time.Unix(1, 0)
	ask := func(name string, n, passed, leftOut int) {
		t.Helper()
		got, left := 0, 0
		for range n {
			if out, ok := l.Line(now, name); ok {
				got, left = got+1, left+out
			}
		}
		if got != passed || left != leftOut {
			t.Errorf("%s: %d of %d lines passed and told of %d left out, want %d and %d", name, got, n, left, passed, leftOut)
		}
	}
	ask("a", 10, 3, 0)
	ask("b", 2, 2, 0)
	now = now.Add(time.Second)
	ask("a", 5, 1, 7)
	now = now.Add(time.Hour)
	ask("a", 5, 3, 4)
	ask("b", 1, 1, 0)
}

// Nothing is lost where goroutines share it.
func TestLimitIsShared(t *testing.T) {
	l, now := New(time.Second, 1), time.Unix(1, 0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				l.Line(now, "a")
			}
		})
	}
	group.Wait()
	if left, ok := l.Line(now.Add(time.Second), "a"); !ok || left != 799 {
		t.Errorf("%d were left out of 800 (%t), want 799", left, ok)
	}
}
