package subscriptions

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// queued returns a queue with n jobs for each host, due at t0 in that order.
func queued(workers, n int, hosts ...string) *queue {
	q := newQueue(workers, 0, 0, func() int { return 1 })
	for _, host := range hosts {
		for i := range n {
			j := newJob(ID(host, fmt.Sprint(i)), host)
			j.Due = t0
			q.add(j)
		}
	}
	return q
}

// Hosts take turns, however many jobs one of them has and however quickly they
// end: one that came late waits for one job of each of the others at most.
func TestHostsTakeTurns(t *testing.T) {
	q := queued(2, 1000, "a", "b", "c")
	now := t0
	start := func() *job {
		now = now.Add(time.Second)
		j, _ := q.next(now)
		if j == nil {
			t.Fatal("no job although a worker is free")
		}
		return j
	}
	for range 30 {
		q.finish(start(), false)
	}
	late := newJob(uuid.New(), "late")
	late.Due = now
	q.add(late)
	served := map[string]int{}
	for served["late"] == 0 {
		j := start()
		if served[j.host]++; served[j.host] > 1 {
			t.Fatalf("%s came twice before the late one: %v", j.host, served)
		}
		q.finish(j, false)
	}
}

// The workers of each class, and the jobs of one host, are bounded.
func TestRunningJobsAreBounded(t *testing.T) {
	q := queued(2*perHost+2, 100, "a", "b")
	running := map[string]int{}
	for {
		j, _ := q.next(t0)
		if j == nil {
			break
		}
		running[j.host]++
	}
	if running["a"]+running["b"] != perHost+1 || max(running["a"], running["b"]) > perHost {
		t.Errorf("%v run with half of %d workers", running, 2*perHost+2)
	}
}

// A request that comes in between a worker's last look at the record and the end
// of its job is not forgotten.
func TestRequestThatComesWhileItsJobEndsIsKept(t *testing.T) {
	q := queued(2, 1, "a")
	j, _ := q.next(t0)
	fresh := newJob(j.id, "a")
	fresh.Due = t0.Add(time.Second)
	q.add(fresh)
	if again, _ := q.next(t0.Add(time.Minute)); again != nil {
		t.Fatal("two workers have the same job")
	}
	q.finish(j, false)
	if got, wait := q.next(t0); got != nil || wait != time.Second {
		t.Errorf("job %v, wait %v", got, wait)
	}
	if got, _ := q.next(fresh.Due); got != fresh {
		t.Errorf("got %+v, want the newer one", got)
	}
}

// A newer request takes the place of a waiting one, with its own time.
func TestNewerJobReplacesTheOneThatWaits(t *testing.T) {
	q := queued(2, 3, "a")
	id := ID("a", "1")
	fresh := newJob(id, "a")
	fresh.Due = t0.Add(-time.Second)
	q.add(fresh)
	if got, _ := q.next(t0); got != fresh {
		t.Errorf("got %+v, want the one that is due first", got)
	}
	if n := q.pend["a"]; n != 3 {
		t.Errorf("%d jobs, want 3", n)
	}
}

// Invariant 12: what is done leaves nothing behind.
func TestQueueForgetsWhatIsDone(t *testing.T) {
	q := queued(8, 10, "a", "b", "c")
	for now := t0; ; now = now.Add(time.Second) {
		j, _ := q.next(now)
		if j == nil {
			break
		}
		keep := !j.slow
		j.slow = true
		q.pauseParty(j, now.Add(-time.Second))
		q.finish(j, keep)
	}
	checkEmpty(t, q)
}

func checkEmpty(t *testing.T, q *queue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs)+len(q.pend) > 0 {
		t.Errorf("%d jobs of %d hosts are left", len(q.jobs), len(q.pend))
	}
	if n := q.fair.Parties(); n > 0 {
		t.Errorf("%d parties are left", n)
	}
}

// What a request that waits costs in time and memory.
func BenchmarkQueue(b *testing.B) {
	b.ReportAllocs()
	q := newQueue(512, 0, 0, func() int { return 1 })
	now := t0
	for i := range b.N {
		host := fmt.Sprintf("host%d.example:443", i%10_000)
		j := newJob(uuid.New(), host)
		j.Due = now
		q.add(j)
	}
	for {
		now = now.Add(time.Microsecond)
		j, _ := q.next(now)
		if j == nil {
			break
		}
		q.finish(j, false)
	}
}
