package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0: draw one and print it")
	rounds   = flag.Int("kills", 20, "how often the history tests stop the hub")
)

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -args -seed=%d)", seed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// history is what was promised and what came: the ids that were answered 200,
// in publish order, and every delivery.
type history struct {
	accepted  []string
	bodies    map[string][]byte // by id, as published
	callbacks []string          // the request URIs that are subscribed
	secrets   map[string]string
}

// missing tells which accepted notification a callback has not got.
func (h *history) missing(got []delivery) error {
	seen := make(map[string]map[string]bool, len(h.callbacks))
	for _, d := range got {
		if seen[d.callback] == nil {
			seen[d.callback] = map[string]bool{}
		}
		seen[d.callback][d.id] = true
	}
	for _, callback := range h.callbacks {
		for n, id := range h.accepted {
			if !seen[callback][id] {
				return fmt.Errorf("%s has not got notification %d of %d (%s)", callback, n+1, len(h.accepted), id)
			}
		}
	}
	return nil
}

// judge holds the deliveries against the promises and returns how many were
// duplicates: every accepted notification everywhere, first deliveries in
// publish order, nothing that was not accepted, every body as it was published
// (invariant 11, HUB-41), every signature right.
func (h *history) judge(t *testing.T, got []delivery) (duplicates int) {
	t.Helper()
	if err := h.missing(got); err != nil {
		t.Error(err)
	}
	order := make(map[string]int, len(h.accepted))
	for n, id := range h.accepted {
		order[id] = n
	}
	next, attempts := map[string]int{}, map[string]int{}
	for _, d := range got {
		n, known := order[d.id]
		switch {
		case !known:
			t.Errorf("%s got %s, which was never accepted", d.callback, d.id)
		case n < next[d.callback]:
			duplicates++
			attempts[d.attempt]++
		case n > next[d.callback]:
			t.Errorf("%s got notification %d first when %d was due", d.callback, n+1, next[d.callback]+1)
			next[d.callback] = n + 1
		default:
			next[d.callback]++
		}
		if known && !bytes.Equal(d.body, h.bodies[d.id]) {
			t.Errorf("%s got %s with another body than was published", d.callback, d.id)
		}
		if want := sign(h.secrets[d.callback], d.body); d.signature != want {
			t.Errorf("%s got %s signed %q, want %q", d.callback, d.id, d.signature, want)
		}
	}
	t.Logf("%d duplicates, by their RSHub-Attempt: %v", duplicates, attempts)
	return duplicates
}

// The promise of contract section 3 and invariants 1 and 7: whatever is killed
// when, a notification that was answered 200 reaches every subscription, first
// deliveries are in order, and duplicates are bounded by what was in flight
// plus two commit groups for each kill.
func TestNothingIsLostWhenKilled(t *testing.T) {
	t.Parallel()
	const inFlight, group = 200, 1024
	stops := *rounds
	duplicates := historyUnder(t, func(h *hub) { h.kill() })
	if bound := stops * (inFlight + 2*group); duplicates > bound {
		t.Errorf("%d duplicates after %d kills, at most %d are promised", duplicates, stops, bound)
	}
}

// SIGTERM drains: what is in flight is finished and committed, so that nothing
// comes twice.
func TestNothingComesTwiceWhenTerminated(t *testing.T) {
	duplicates := historyUnder(t, func(h *hub) {
		if code := h.terminate(); code != 0 {
			h.t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, h.log)
		}
	})
	if duplicates != 0 {
		t.Errorf("%d duplicates although every drain had time to finish", duplicates)
	}
}

// historyUnder publishes 200 notifications to 200 callbacks while stop ends the
// hub at random moments, judges the history and returns the duplicates.
func historyUnder(t *testing.T, stop func(*hub)) int {
	const notifications, callbacks, hosts = 200, 200, 25
	rnd := newRand(t)
	subscriber := newReceiver(t, hosts)
	h := startHub(t, "--retry-first=200ms", "--drain=30s")
	src := newSource("http://" + h.addr + "/nowhere") // publish-auth is open and the topic check only warns with --dev

	told := &history{secrets: map[string]string{}, bodies: map[string][]byte{}}
	for i := range callbacks {
		path := "/cb/" + strconv.Itoa(i) + "?n=" + strconv.Itoa(i)
		secret := "secret of " + strconv.Itoa(i)
		told.callbacks = append(told.callbacks, path)
		told.secrets[path] = secret
		h.subscribe(src.topic, subscriber.url(i, path), "hub.secret", secret).want(t, http.StatusAccepted)
	}
	h.active(callbacks)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	published := make(chan error, 1) // hands told over when it is sent
	go func() {
		for range notifications {
			body := src.next(200)
			r, err := h.publishUntilAccepted(ctx, src.topic, body)
			if err != nil {
				published <- err
				return
			}
			told.accepted = append(told.accepted, r.ID)
			told.bodies[r.ID] = body
		}
		published <- nil
	}()
	// The moments are drawn over the number of deliveries, so that they fall
	// into the work on a slow machine as on a fast one.
	for n := range *rounds {
		target := (n*notifications*callbacks + rnd.IntN(notifications*callbacks)) / (*rounds + 1)
		eventually(t, 2*time.Minute, func() error {
			subscriber.mu.Lock()
			defer subscriber.mu.Unlock()
			if len(subscriber.deliveries) < target {
				return fmt.Errorf("%d deliveries, waiting for %d", len(subscriber.deliveries), target)
			}
			return nil
		})
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
		stop(h)
		h.start()
	}
	if err := <-published; err != nil {
		t.Fatalf("%v\n%s", err, h.log)
	}
	eventually(t, 2*time.Minute, func() error { return told.missing(subscriber.got()) })
	got := subscriber.got()
	duplicates := told.judge(t, got)
	t.Logf("%d stops, %d notifications, %d callbacks: %d deliveries, %d of them duplicates",
		*rounds, notifications, callbacks, len(got), duplicates)
	return duplicates
}
