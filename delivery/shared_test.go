package delivery

import "testing"

// While the scheduler is locked, its time stands still, and from one lock to the next it does not go
// back: a goroutine that read the clocks earlier may get the lock later.
func TestTimeOfTheScheduler(t *testing.T) {
	const begin = int64(1_800_000_000e9)
	var now int64
	c := clocks{
		mono: func() int64 { return now },
		read: func() reading { return reading{now, begin + now, begin + now - 1} },
	}
	q := newSharedScheduler(newScheduler(&Options{}, c, newLimits(1), &troubles{}, newTopics(), 0))
	for _, at := range []int64{0, 5, 7} {
		now = at
		q.do(func(s *scheduler) {
			now += 100
			if got := s.read(); got != (reading{at, begin + at, begin + at - 1}) || s.turns.now() != at || s.hosts.mono() != at {
				t.Errorf("at %d, the time is %+v, %d of the turns and %d of the hosts", at, got, s.turns.now(), s.hosts.mono())
			}
		})
		now = at
	}
	early := q.clocks.read()
	now = 9
	q.do(func(*scheduler) {})
	q.mu.Lock()
	q.begin(early)
	if got := q.s.read().mono; got != 9 {
		t.Errorf("the time went back from 9 to %d", got)
	}
	q.unlock()
	if now = 11; q.s.read().mono != 11 {
		t.Error("the time stands still without the lock")
	}
}
