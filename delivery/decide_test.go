package delivery

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// HUB-46, HUB-47, HUB-48: what follows from each answer, without jitter.
func TestDecide_HUB46_HUB47_HUB48(t *testing.T) {
	p := Policy{} // its zero fields are the defaults
	in := func(d time.Duration) time.Time { return testNow.Add(d) }
	ago := func(d time.Duration) time.Time { return testNow.Add(-d) }
	for name, tc := range map[string]struct {
		r    Result
		s    State
		want Decision
	}{
		"200":                          {Result{Status: 200}, State{Attempt: 3, Step: 4}, Decision{Action: Deliver}},
		"299":                          {Result{Status: 299}, State{}, Decision{Action: Deliver}},
		"410":                          {Result{Status: 410}, State{Step: 2}, Decision{Action: End, Step: 2}},
		"500, first":                   {Result{Status: 500}, State{}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"500, second":                  {Result{Status: 500}, State{Attempt: 1, Step: 1}, Decision{Action: Retry, At: in(30 * time.Second), Step: 2}},
		"500, kept step":               {Result{Status: 500}, State{Step: 5}, Decision{Action: Retry, At: in(time.Hour), Step: 6}},
		"300":                          {Result{Status: 300}, State{}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"307":                          {Result{Status: 307}, State{Attempt: 9}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"404, often":                   {Result{Status: 404}, State{Attempt: 9}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"timeout":                      {Result{Status: journal.StatusTimeout}, State{}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"address refused":              {Result{Status: journal.StatusRefused}, State{Attempt: 9}, Decision{Action: Retry, At: in(5 * time.Second), Step: 1}},
		"400, fourth":                  {Result{Status: 400}, State{Attempt: 3, Step: 3}, Decision{Action: Retry, At: in(10 * time.Minute), Step: 4}},
		"400, fifth":                   {Result{Status: 400}, State{Attempt: 4, Step: 4}, Decision{Action: PassOver, Step: 5}},
		"413, fifth":                   {Result{Status: 413}, State{Attempt: 4, Step: 4}, Decision{Action: PassOver, Step: 5}},
		"415, fifth":                   {Result{Status: 415}, State{Attempt: 4, Step: 4}, Decision{Action: PassOver, Step: 5}},
		"422, sixth after other kinds": {Result{Status: 422}, State{Attempt: 5, Step: 4}, Decision{Action: PassOver, Step: 5}},
		"503, Retry-After": {
			Result{Status: 503, RetryAfter: time.Minute},
			State{},
			Decision{Action: Retry, At: in(time.Minute), Step: 1, RetryAfter: true},
		},
		"429, Retry-After under the step": {
			Result{Status: 429, RetryAfter: time.Second},
			State{Step: 1},
			Decision{Action: Retry, At: in(30 * time.Second), Step: 2},
		},
		"429, Retry-After over the maximum": {
			Result{Status: 429, RetryAfter: 48 * time.Hour},
			State{},
			Decision{Action: Retry, At: in(6 * time.Hour), Step: 1, RetryAfter: true},
		},
		"500, Retry-After": {
			Result{Status: 500, RetryAfter: time.Hour},
			State{},
			Decision{Action: Retry, At: in(5 * time.Second), Step: 1},
		},
		"given up": {
			Result{Status: 500},
			State{Attempt: 30, Step: 8, FirstAttemptAt: ago(72 * time.Hour)},
			Decision{Action: PassOver, At: in(5*time.Hour + 24*time.Minute), Step: 8},
		},
		"the last attempt is when the time is over": {
			Result{Status: 500},
			State{Attempt: 30, Step: 8, FirstAttemptAt: ago(71 * time.Hour)},
			Decision{Action: Retry, At: in(time.Hour), Step: 8},
		},
		"but not before Retry-After": {
			Result{Status: 503, RetryAfter: 2 * time.Hour},
			State{Attempt: 30, Step: 8, FirstAttemptAt: ago(71 * time.Hour)},
			Decision{Action: Retry, At: in(2 * time.Hour), Step: 8, RetryAfter: true},
		},
	} {
		if got := Decide(tc.r, tc.s, p, testNow, 0.5); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// The ladder in full, scaled by First, capped by Max.
func TestLadder(t *testing.T) {
	want := "5s 30s 2m0s 10m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 6h0m0s 6h0m0s"
	if got := steps(Policy{}.withDefaults(), 10); got != want {
		t.Errorf("default: %s", got)
	}
	if got := steps(Policy{First: 500 * time.Millisecond, Max: 2 * time.Minute}, 6); got != "500ms 3s 12s 1m0s 2m0s 2m0s" {
		t.Errorf("scaled: %s", got)
	}
}

func steps(p Policy, n uint32) string {
	out := ""
	for i := range n {
		if i > 0 {
			out += " "
		}
		out += p.step(i).String()
	}
	return out
}

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string, low, high time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(t, name))
		}
		p := Policy{
			First: duration("first", time.Millisecond, time.Minute), Max: duration("max", time.Second, 12*time.Hour),
			GiveUp: duration("give up", time.Second, 100*time.Hour),
		}
		r := Result{
			Status:     rapid.OneOf(rapid.IntRange(-4, -1), rapid.IntRange(200, 599)).Draw(t, "status"),
			RetryAfter: duration("retry after", 0, 200*time.Hour),
		}
		s := State{
			Attempt: rapid.Uint32Range(0, 10).Draw(t, "attempt"), Step: rapid.Uint32Range(0, 20).Draw(t, "step"),
			FirstAttemptAt: testNow.Add(-duration("first attempt", 0, 120*time.Hour)),
		}
		rnd := rapid.Float64Range(0, 0.999999).Draw(t, "rnd")
		d := Decide(r, s, p, testNow, rnd)
		if d != Decide(r, s, p, testNow, rnd) {
			t.Fatal("not pure")
		}
		if (d.Action == Deliver) != (r.Status/100 == 2) {
			t.Fatal("delivered if and only if the answer was 2xx")
		}
		if (d.Action == End) != (r.Status == 410) {
			t.Fatal("ended if and only if the answer was 410")
		}
		if (d.Step == 0) != (d.Action == Deliver || d.Action == End && s.Step == 0) {
			t.Fatalf("step %d after %v", d.Step, d.Action)
		}
		if d.Action != Retry {
			return
		}
		wait, left := d.At.Sub(testNow), s.FirstAttemptAt.Add(p.GiveUp).Sub(testNow)
		if wait <= 0 || wait > p.Max {
			t.Fatalf("waits %v, maximum %v", wait, p.Max)
		}
		if wait < min(p.step(s.Step)*79/100, left) {
			t.Fatalf("waits %v, under its step %v and the time that is left %v", wait, p.step(s.Step), left)
		}
		asked := r.RetryAfter > 0 && (r.Status == 429 || r.Status == 503)
		if asked && wait < min(r.RetryAfter, p.Max) {
			t.Fatalf("waits %v, Retry-After is %v", wait, r.RetryAfter)
		}
		if !asked && (wait > p.step(s.Step)*121/100 || d.RetryAfter || wait > left) {
			t.Fatalf("waits %v, over its step %v or the time that is left %v", wait, p.step(s.Step), left)
		}
	})
}
