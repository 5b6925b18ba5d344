package delivery

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A host with three timeouts in a row gets one probe for each step of the ladder, however many
// lanes wait there. Its first 2xx readies those that could not reach it.
func TestSuspectHostIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		const host = "tar.example"
		b.set(host, hangs)
		for n := range 300 {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n))
		}
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("x"))
		pass(31 * time.Second)
		// Eight took its slots, and a few those that got free before the third
		// timeout was seen; then came the first probe.
		n := len(b.everything()) - 1
		if st := b.d.Stats(); st.Suspects != 1 || st.InFlight != 1 || n < 8 || n > 12 {
			t.Fatalf("%d attempts before the first probe, %+v", n, st)
		}
		start := b.everything()[0].at
		at := b.everything()[n].at.Sub(start)
		for i, step := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute} {
			at += 15*time.Second + step // a probe takes 15 s
			pass(time.Until(start.Add(at)) + 20*time.Second)
			if got := len(b.everything()); got != n+i+2 {
				t.Fatalf("%d attempts after probe %d, want %d", got, i+2, n+i+2)
			}
			if got := b.everything()[n+i+1].at.Sub(start); got != at {
				t.Errorf("probe %d after %v, want %v", i+2, got, at)
			}
		}
		b.set(host, nil)
		pass(time.Until(start.Add(at)) + time.Hour + 16*time.Second)
		if st := b.d.Stats(); st.Suspects != 0 {
			t.Errorf("%+v", st)
		}
		pass(30 * time.Second)
		if st := b.d.Stats(); st.Delivered != 300 {
			t.Errorf("after the host was back for half a minute: %+v", st)
		}
	})
}

// The first 2xx from a host that was suspect readies those of its lanes that
// could not reach it, soon and spread out.
func TestHostThatIsBackIsServedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		b := newBed(t, func(o *Options) { o.Rand = random.Float64 })
		const host, lanes = "h.example", 50
		for n := range lanes {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n), func(s *subscriptions.Subscription) {
				c := &s.Cursor
				c.Attempt, c.Step, c.LastStatus = 6, 6, journal.StatusConnect
				c.FirstAttemptAt, c.NextAttemptAt = time.Now(), time.Now().Add(2*time.Hour)
			})
		}
		b.subscribe(topicB, "http://h.example/canary")
		b.publish(t, topicA, []byte("x"))
		b.set(host, down)
		b.run()
		defer b.end()
		b.publish(t, topicB, []byte("x"))
		pass(3 * time.Minute)
		if st := b.d.Stats(); st.Suspects != 1 || st.Waiting != lanes+1 {
			t.Fatalf("%+v", st)
		}
		b.set(host, nil)
		for b.d.Stats().Delivered == 0 {
			pass(100 * time.Millisecond)
		}
		pass(time.Second)
		if st := b.d.Stats(); st.Delivered != lanes+1 {
			t.Errorf("a second after the host was back: %+v", st)
		}
		instants := make(map[time.Time]bool)
		for _, r := range b.delivered() {
			instants[r.at] = true
		}
		if len(instants) < lanes/2 {
			t.Errorf("%d lanes were served in %d instants", lanes, len(instants))
		}
	})
}

// All suspects together get a fifth of the senders, so that many tar pits do not
// starve the healthy.
func TestSuspectsGetAFifth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflight = 50 })
		const pits = 200
		probing, most, counting := 0, 0, false
		for n := range pits {
			b.set(fmt.Sprintf("tar%d.example", n), func(r *http.Request, _ []byte) (*http.Response, error) {
				b.wire.mu.Lock()
				probing++
				if counting {
					most = max(most, probing)
				}
				b.wire.mu.Unlock()
				resp, err := hangs(r, nil)
				b.wire.mu.Lock()
				defer b.wire.mu.Unlock()
				probing--
				return resp, err
			})
			for m := range 3 {
				b.subscribe(topicA, fmt.Sprintf("http://tar%d.example/%d", n, m))
			}
		}
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("x"))
		pass(15 * time.Minute)
		if st := b.d.Stats(); st.Suspects != pits {
			t.Fatalf("%+v", st)
		}
		counting = true
		b.d.Apply(b.subscribe(topicB, cb(0)))
		for range 60 {
			now := time.Now()
			b.publish(t, topicB, []byte("y"))
			pass(17 * time.Second)
			if got := b.at(cb(0)); got[len(got)-1].at != now {
				t.Fatal("a healthy callback had to wait for tar pits")
			}
		}
		if most != 10 {
			t.Errorf("%d probes at once, want 10 of 50 senders", most)
		}
	})
}

// Any answer ends the suspicion.
func TestAnswerEndsSuspicion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		const host = "h.example"
		for n := range 20 {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n))
		}
		b.set(host, down)
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("x"))
		pass(time.Second)
		if st := b.d.Stats(); st.Suspects != 1 {
			t.Fatalf("%+v", st)
		}
		b.set(host, answers(500))
		pass(5 * time.Second)
		if st := b.d.Stats(); st.Suspects != 0 {
			t.Errorf("%+v", st)
		}
		b.set(host, nil)
		pass(time.Minute)
		if st := b.d.Stats(); st.Delivered != 20 {
			t.Errorf("%+v", st)
		}
	})
}

// One that is published to during a probe of its host waits for the end of that
// and the short step, not for the ladder's.
func TestTenantWhileItsHostIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		const host, good = "shared.example", "http://shared.example/good"
		b.set(host, hangs)
		b.set(good, answers(200))
		for n := range 20 {
			b.subscribe(topicB, fmt.Sprintf("http://%s/%d", host, n))
		}
		b.subscribe(topicA, good, served)
		b.run()
		defer b.end()
		b.publish(t, topicB, []byte("x"))
		pass(time.Minute)
		for began := time.Now(); time.Since(began) < time.Hour || b.d.Stats().InFlight == 0; {
			pass(time.Second)
		}
		if st := b.d.Stats(); st.Suspects != 1 || st.InFlight != 1 {
			t.Fatalf("%+v", st)
		}
		now := time.Now()
		b.publish(t, topicA, []byte("x"))
		pass(time.Minute)
		if got := b.at(good); len(got) != 1 || got[0].at.Sub(now) > 45*time.Second {
			t.Errorf("a minute later: %v", got)
		}
	})
}

// Tenants share a host. Callbacks of one that hang delay those of another for at most a step of the
// ladder and the probe under way, however many they are and although they make the host suspect
// again and again. A tenant may find no free slot once the host has answered another. Then it also
// waits for the exchanges in flight, and for those that get a slot between the first of its
// timeouts and the third: 30 s and three times 15 s.
func TestTenantsOfASuspectHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		const host, tenants = "shared.example", 5
		evil := func(n int) string { return fmt.Sprintf("http://%s/evil/%d", host, n) }
		good := func(n int) string { return fmt.Sprintf("http://%s/good/%d", host, n) }
		for n := range 100 {
			b.subscribe([]string{topicA, topicB}[n%2], evil(n))
			b.set(evil(n), hangs)
		}
		for n := range tenants {
			b.subscribe(topicA, good(n), served)
		}
		b.run()
		defer b.end()
		suspects := 0
		for k := range 12 {
			now := time.Now()
			b.publish(t, topicB, []byte("x"))
			b.publish(t, topicA, []byte("x"))
			pass(7 * time.Minute)
			for n := range tenants {
				got := b.at(good(n))
				if len(got) != k+1 {
					t.Fatalf("publish %d: tenant %d got %d", k, n, len(got))
				}
				if late := got[k].at.Sub(now); late > 75*time.Second {
					t.Fatalf("publish %d: tenant %d had to wait %v", k, n, late)
				}
			}
			suspects += b.d.Stats().Suspects
		}
		if suspects < 6 {
			t.Errorf("the host was suspect %d times of 12", suspects)
		}
	})
}
