package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// begin starts the process and does not wait until it listens.
func (p *process) begin() {
	p.t.Helper()
	p.mu.Lock()
	p.wanted = true
	before := p.starts
	p.mu.Unlock()
	go func() { _ = p.launch() }() // it may be killed before; watch tells if it ends by itself
	eventually(p.t, time.Minute, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.starts == before {
			return fmt.Errorf("%s has not been started", p.name)
		}
		return nil
	})
}

// moments are when rspub is killed: each returns a channel that has something when
// the moment has come, or is near. All is undone at the next.
var moments = []struct {
	name string
	wait func(b *pushBed, rnd *rand.Rand) <-chan struct{}
}{
	{"while it starts", func(_ *pushBed, rnd *rand.Rand) <-chan struct{} {
		return in(time.Duration(rnd.IntN(400)) * time.Millisecond)
	}},
	{"while it records", func(b *pushBed, rnd *rand.Rand) <-chan struct{} {
		return then(b.listening, 1, time.Duration(rnd.IntN(300))*time.Millisecond)
	}},
	{"between record and cut", func(b *pushBed, rnd *rand.Rand) <-chan struct{} {
		return then(b.recorded, 1+rnd.IntN(3), time.Duration(rnd.IntN(120))*time.Millisecond)
	}},
	{"while it posts", func(b *pushBed, rnd *rand.Rand) <-chan struct{} {
		return b.passed(false, 1+rnd.IntN(3), 0, time.Duration(rnd.IntN(10_000))*time.Microsecond)
	}},
	{"before it hears the 200", func(b *pushBed, rnd *rand.Rand) <-chan struct{} {
		return b.passed(true, 1+rnd.IntN(3), 100*time.Millisecond, 0)
	}},
	{"when it has heard the 200", func(b *pushBed, rnd *rand.Rand) <-chan struct{} {
		return b.passed(true, 1+rnd.IntN(3), 0, time.Duration(rnd.IntN(5_000))*time.Microsecond)
	}},
}

func in(d time.Duration) <-chan struct{} {
	c := make(chan struct{}, 1)
	time.AfterFunc(d, func() { token(c) })
	return c
}

// then waits until an event has come so many times, and a while longer.
func then(event <-chan struct{}, times int, more time.Duration) <-chan struct{} {
	select {
	case <-event: // of a life before
	default:
	}
	c := make(chan struct{}, 1)
	go func() {
		defer token(c)
		limit := time.After(momentLimit)
		for range times {
			select {
			case <-event:
			case <-limit:
				return
			}
		}
		time.Sleep(more)
	}()
	return c
}

// passed waits until so many POSTs were at the gate, or their 200s, each of which is
// held there for a time, and then a while longer.
func (b *pushBed) passed(answered bool, times int, hold, more time.Duration) <-chan struct{} {
	event := make(chan struct{}, 1)
	c := then(event, times, more)
	b.hubs[0].onPass(func(is bool) {
		if is == answered {
			token(event)
			time.Sleep(hold)
		}
	})
	return c
}

// momentLimit is how long a moment is waited for.
const momentLimit = 10 * time.Second

// SRC-08, SRC-09: rspub serve is killed at random moments, and its hub at times,
// while files change. The journal of the hub has every change exactly once, in
// intervals that each begin where the one before ended.
func TestRspubKilled_SRC08_SRC09(t *testing.T) {
	t.Parallel()
	b := newPushBed(t, 1)
	end := b.changing()
	rnd, did := b.rnd(3), map[string]int{}
	hub := b.hubs[0]
	b.publisher.kill()
	for n := range *killsFlag {
		m := moments[(n+rnd.IntN(2))%len(moments)]
		moment := m.wait(b, rnd)
		b.publisher.begin()
		if n%5 == 3 {
			time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
			hub.kill()
			time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
			hub.start()
			did["the hub"]++
		}
		begun := time.Now()
		<-moment
		b.publisher.kill()
		hub.onPass(nil)
		if time.Since(begun) < momentLimit {
			did[m.name]++
		} else {
			did["at another moment"]++
		}
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
	}
	b.publisher.start()
	end()
	b.finish(2 * time.Minute)
	t.Logf("killed: %v", did)
	b.judge()
}

// A hub that is restored from an older copy of its folder has lost its tail. It gets the tail again,
// even if rspub is killed at the same time, and then its journal is as if nothing had happened.
func TestRspubHubLosesTail_SRC09(t *testing.T) {
	t.Parallel()
	b := newPushBed(t, 1)
	end := b.changing()
	rnd, hub := b.rnd(3), b.hubs[0]
	older := filepath.Join(t.TempDir(), "older")
	lost := 0
	// A hub that has nothing of a topic accepts it from any time on, and cannot know that it
	// lost something.
	eventually(t, time.Minute, func() error {
		if b.intervals(hub) == 0 {
			return errors.New("the hub has no interval yet")
		}
		return nil
	})
	for range max(2, *killsFlag/8) {
		hub.kill()
		must(t, os.RemoveAll(older))
		must(t, os.CopyFS(older, os.DirFS(hub.dir)))
		hub.start()
		before := b.intervals(hub)
		eventually(t, time.Minute, func() error {
			if n := b.intervals(hub) - before; n < 3 {
				return fmt.Errorf("the hub took %d intervals since it was copied", n)
			}
			return nil
		})
		b.publisher.kill()
		lost += b.intervals(hub) - before
		hub.kill()
		must(t, os.RemoveAll(hub.dir))
		must(t, os.CopyFS(hub.dir, os.DirFS(older)))
		hub.start()
		moment := moments[3+rnd.IntN(3)].wait(b, rnd)
		b.publisher.begin()
		<-moment
		b.publisher.kill()
		hub.onPass(nil)
		b.publisher.start()
	}
	end()
	b.finish(2 * time.Minute)
	if lost == 0 || b.rewinds() == 0 {
		t.Errorf("%d intervals were lost, and rspub was told so %d times", lost, b.rewinds())
	}
	t.Logf("%d intervals were lost; rspub was told so %d times", lost, b.rewinds())
	b.judge()
}

func (b *pushBed) intervals(h *pushHub) int {
	b.t.Helper()
	all, err := h.journal(b.t, b.topic())
	must(b.t, err)
	return len(all)
}

// While one hub is down, another gets everything at once. What the first one lacks stays on disk, even
// when rspub ends, and arrives in order when the hub is back.
func TestRspubHubAway_SRC08(t *testing.T) {
	t.Parallel()
	b := newPushBed(t, 2)
	b.begin()
	must(t, b.writeOnce())
	away, up := b.hubs[0], b.hubs[1]
	b.await(away, time.Minute)
	b.await(up, time.Minute)
	away.kill()
	begun, changes := time.Now(), 40**killsFlag
	for n := range changes {
		must(t, b.writeOnce())
		if n == changes/2 {
			b.publisher.kill()
			b.publisher.start()
		}
		time.Sleep(15 * time.Millisecond)
	}
	b.await(up, time.Minute)
	size := b.stored()
	b.publisher.kill()
	b.publisher.start()
	away.start()
	gone := time.Since(begun)
	b.finish(2 * time.Minute)
	t.Logf("%d changes in %v; the outbox took %d KiB", changes, gone.Round(time.Millisecond), size>>10)
	b.judge()
}

// stored is how much rspub has on its disk for hubs.
func (b *pushBed) stored() (size int64) {
	b.t.Helper()
	must(b.t, filepath.WalkDir(b.state, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was just replaced
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	}))
	return size
}
