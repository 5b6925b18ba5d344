package fairqueue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type job struct {
	Item[*job]
	party string
	pool  int
	n     int
}

func newJob(pool int, party string, n int, due time.Time) *job {
	j := &job{party: party, pool: pool, n: n}
	j.Job, j.Due = j, due
	return j
}

// The rule of the package's comment, for parties that come and go at random, whose jobs take
// any time, in virtual time: limits hold, nobody idles, no party waits for the backlog of
// another, a party's jobs start in the order of their times, and nothing is lost or left.
func TestRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perParty := rapid.IntRange(1, 4).Draw(t, "jobs of a party")
		workers := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3).Draw(t, "workers")
		q := New[string, *job](perParty, workers...)
		now := t0
		paused := map[[2]any]time.Time{} // by pool and party
		var rest time.Time
		var waiting, running []*job
		startedSince := map[*job]map[string]int{} // of other parties, since the job may start
		count := func(of []*job, pool int, party string) (n int) {
			for _, j := range of {
				if j.pool == pool && (party == "" || j.party == party) {
					n++
				}
			}
			return n
		}
		may := func(j *job) bool { // as far as its own party goes
			return !j.Due.After(now) && !paused[[2]any{j.pool, j.party}].After(now) && !rest.After(now) && count(running, j.pool, j.party) < perParty
		}
		remove := func(of []*job, j *job) []*job {
			for i := range of {
				if of[i] == j {
					return append(of[:i:i], of[i+1:]...)
				}
			}
			t.Fatalf("job %d of %s is not there", j.n, j.party)
			return nil
		}
		pick := func(of []*job, what string) *job { return of[rapid.IntRange(0, len(of)-1).Draw(t, what)] }
		start := func() {
			for {
				j, wait, ok := q.Next(now)
				if !ok {
					for _, j := range waiting {
						if may(j) && count(running, j.pool, "") < workers[j.pool] {
							t.Fatalf("job %d of %s may start and does not; wait %v", j.n, j.party, wait)
						}
					}
					return
				}
				if !may(j) || count(running, j.pool, "") >= workers[j.pool] {
					t.Fatalf("job %d of %s starts, and may not", j.n, j.party)
				}
				waiting = remove(waiting, j)
				for _, other := range waiting {
					if other.pool == j.pool && other.party == j.party && other.Due.Before(j.Due) {
						t.Fatalf("job %d of %s starts before job %d, which was due first", j.n, j.party, other.n)
					}
					if other.pool != j.pool || other.party == j.party || !may(other) {
						delete(startedSince, other)
						continue
					}
					if startedSince[other] == nil {
						startedSince[other] = map[string]int{}
					}
					// Its own party may have other jobs that are due: then this one is not next.
					first := true
					for _, o := range waiting {
						first = first && (o.pool != other.pool || o.party != other.party || !o.Due.Before(other.Due))
					}
					if startedSince[other][j.party]++; first && startedSince[other][j.party] > 1+1 {
						t.Fatalf("%d jobs of %s start while job %d of %s waits", startedSince[other][j.party], j.party, other.n, other.party)
					}
				}
				for o := range startedSince { // a job of its party started: it waits anew
					if o.party == j.party && o.pool == j.pool {
						delete(startedSince, o)
					}
				}
				running = append(running, j)
			}
		}
		for n := range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 4:
				j := newJob(rapid.IntRange(0, len(workers)-1).Draw(t, "pool"), rapid.StringMatching(`[a-e]`).Draw(t, "party"), n,
					now.Add(time.Duration(rapid.IntRange(-2, 10).Draw(t, "due"))*time.Second))
				q.Put(j.pool, j.party, &j.Item)
				waiting = append(waiting, j)
			case step == 4 && len(running) > 0:
				j := pick(running, "paused")
				until := now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pause")) * time.Second)
				j.PauseParty(until)
				paused[[2]any{j.pool, j.party}] = until
			case step < 7 && len(running) > 0:
				j := pick(running, "finished")
				running = remove(running, j)
				if again := rapid.Bool().Draw(t, "again"); again {
					q.Finish(&j.Item, func() {
						j.Due = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "pause")) * time.Second)
						q.Put(j.pool, j.party, &j.Item)
					})
					waiting = append(waiting, j)
				} else {
					q.Finish(&j.Item, nil)
					if count(waiting, j.pool, j.party)+count(running, j.pool, j.party) == 0 {
						delete(paused, [2]any{j.pool, j.party}) // forgotten with its last job
					}
				}
			case step == 7 && len(waiting) > 0:
				j := pick(waiting, "moved")
				if rapid.Bool().Draw(t, "removed") {
					waiting = remove(waiting, j)
					j.Remove()
					if count(waiting, j.pool, j.party)+count(running, j.pool, j.party) == 0 {
						delete(paused, [2]any{j.pool, j.party})
					}
				} else {
					j.Due = now.Add(time.Duration(rapid.IntRange(-2, 5).Draw(t, "to")) * time.Second)
					j.Moved()
				}
			case step == 8:
				if until := now.Add(time.Second); q.PauseUntil(now, until) {
					rest = until
				}
			default:
				now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "time")) * time.Millisecond)
			}
			start()
		}
		for range 10_000 { // all jobs end
			if len(waiting)+len(running) == 0 {
				break
			}
			for _, j := range running {
				q.Finish(&j.Item, nil)
			}
			running = nil
			clear(paused) // which may have been forgotten
			j, wait, ok := q.Next(now)
			if !ok {
				now = now.Add(wait)
				continue
			}
			waiting, running = remove(waiting, j), append(running, j)
		}
		if len(waiting)+len(running) > 0 || q.Parties() > 0 {
			t.Fatalf("%d jobs never start, and %d parties are left", len(waiting)+len(running), q.Parties())
		}
	})
}

// A party with one job waits for one job of each other party, however many they have.
func TestBacklogDelaysNobody(t *testing.T) {
	q := New[string, *job](2, 1)
	for party := range 5 {
		for n := range 100 {
			j := newJob(0, fmt.Sprint(party), n, t0)
			q.Put(0, j.party, &j.Item)
		}
	}
	now := t0
	run := func() *job {
		j, _, ok := q.Next(now)
		if !ok {
			t.Fatal("nothing starts")
		}
		q.Finish(&j.Item, nil)
		now = now.Add(time.Second)
		return j
	}
	for range 7 {
		run()
	}
	small := newJob(0, "small", 0, now)
	q.Put(0, small.party, &small.Item)
	for n := 0; run() != small; n++ {
		if n > 5 {
			t.Fatal("a small party waits for more than one job of each other")
		}
	}
}

// Wake says when Next has something new.
func TestWake(t *testing.T) {
	q := New[string, *job](1, 1)
	woken := func(why string) {
		t.Helper()
		select {
		case <-q.Wake:
		default:
			t.Errorf("%s: nothing woke", why)
		}
	}
	j := newJob(0, "a", 0, t0.Add(time.Hour))
	q.Put(0, j.party, &j.Item)
	woken("Put")
	if _, wait, ok := q.Next(t0); ok || wait != time.Hour {
		t.Errorf("%v, %t", wait, ok)
	}
	j.Due = t0
	j.Moved()
	woken("Moved")
	j.PauseParty(t0.Add(time.Minute))
	woken("PauseParty")
	if _, wait, ok := q.Next(t0); ok || wait != time.Minute {
		t.Errorf("paused: %v, %t", wait, ok)
	}
	q.ResumeParty("a")
	woken("ResumeParty")
	if !q.PauseUntil(t0, t0.Add(time.Second)) || q.PauseUntil(t0, t0.Add(time.Hour)) {
		t.Error("PauseUntil says the wrong thing")
	}
	if _, wait, ok := q.Next(t0); ok || wait != time.Second {
		t.Errorf("resting: %v, %t", wait, ok)
	}
	if got, _, ok := q.Next(t0.Add(time.Second)); !ok || got != j || !j.Running() {
		t.Error("it does not start")
	}
	q.Finish(&j.Item, nil)
	woken("Finish")
}
