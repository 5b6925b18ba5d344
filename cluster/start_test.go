package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// started waits until a hub's start is over, and returns how long that took.
func (b *bed) started(h *hub) time.Duration {
	b.t.Helper()
	began := time.Now()
	for h.Starting() != nil {
		if b.after(100 * time.Millisecond); time.Since(began) > time.Hour {
			b.t.Fatalf("after an hour: %v", h.Starting())
		}
	}
	return time.Since(began)
}

// If a hub starts after another one was killed, its start lasts until the leases of the dead hub
// are over and it has the first shard.
func TestStartsUntilTheLeasesOfTheDeadAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		dead := reach{b.store, "dead"}
		for shard := range Shards {
			if _, err := dead.Acquire(t.Context(), "dead", []int{shard}, lease); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := dead.Heartbeat(t.Context(), Node{ID: "dead", Name: "dead"}, lease); err != nil {
			t.Fatal(err)
		}
		h := b.start("a", nil)
		defer h.stop()
		if took := b.started(h); took < lease || took > lease+2*time.Second || h.part.count() == 0 {
			t.Errorf("it had started after %v, and works on %d shards", took, h.part.count())
		}
	})
}

// A hub has started as soon as it has the first shard that others hand back. It waits for them no
// longer than the time of a lease.
func TestStartsBesideOthers(t *testing.T) {
	for finishFor, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 12 * time.Second: 14 * time.Second, 5 * time.Minute: lease + startGrace + time.Second,
	} {
		t.Run(fmt.Sprint(finishFor), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				other := b.start("b", func(o *Options, p *part) { o.Drain, p.finishFor = finishFor, finishFor })
				defer other.stop()
				b.started(other)
				h := b.start("a", nil)
				defer h.stop()
				if took := b.started(h); took < finishFor && took < lease+startGrace || took > want || (h.part.count() > 0) != (finishFor < lease) {
					t.Errorf("it had started after %v, and works on %d shards", took, h.part.count())
				}
			})
		})
	}
}

// A hub has started at once if no shard is due to it, because there are more hubs than shards.
func TestStartsWithNothingDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for shard := range Shards {
			id := fmt.Sprint("other", shard)
			other := reach{b.store, id}
			if _, err := other.Acquire(t.Context(), id, []int{shard}, time.Hour); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Heartbeat(t.Context(), Node{ID: id, Name: id}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		h := b.start("a", nil)
		defer h.stop()
		b.after(time.Millisecond)
		if err := h.Starting(); err != nil {
			t.Error(err)
		}
	})
}

// A hub that cannot reach the store does not know what is due to it, and is still starting.
func TestStartsWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.away("a", true, false)
		h := b.start("a", nil)
		defer h.stop()
		b.after(10 * lease)
		if h.Starting() == nil {
			t.Error("it has started without an answer of the store")
		}
		b.away("a", false, false)
		if took := b.started(h); took > 2*time.Second || h.part.count() == 0 {
			t.Errorf("it had started after %v, and works on %d shards", took, h.part.count())
		}
	})
}

// New refuses options that Run cannot do without.
func TestNewNeedsItsOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"Store":  {Worker: &part{}, Self: Node{ID: "a"}},
		"Worker": {Store: Alone, Self: Node{ID: "a"}},
		"Self":   {Store: Alone, Worker: &part{}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
