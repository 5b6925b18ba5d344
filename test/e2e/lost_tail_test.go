package e2e

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// Invariants 5 and 10: hubs notice what Redis lost even if no cursor points to it: if the lost tail has
// the head of the topic, if the whole partition came back empty, and if nobody publishes after that.
func TestLostHead_Invariant10(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	m := &nemesis{world: newWorld(t, 9*time.Second)}
	m.addRedisHubs(2, redis.URL(), "--give-up=1h", "--retry-max=1s") // callbacks are held for as long as the machine needs
	m.awaitReady()
	m.c.grace, m.c.perFault, m.c.faults, m.c.losses, m.c.lossy = time.Minute, 0, 3, 3, true
	m.c.explained = map[string][]span{journal.GapRolledBack: {{0, time.Hour}}}
	var sources []*stubbornSource
	for n := range 3 {
		sources = append(sources, m.addTopic())
		m.stayAll(n, 1)
	}
	inTail, emptied, quiet := sources[0], sources[1], sources[2]
	for range 3 {
		must(t, emptied.publish(t.Context()))
		must(t, quiet.publish(t.Context()))
	}
	eventually(t, time.Minute, m.allArrived)

	m.hold() // from here on, all subscriptions lag
	redis.LoseTail(t, func() {
		for range 2 {
			must(t, inTail.publish(t.Context()))
			must(t, quiet.publish(t.Context()))
		}
	})
	// Nobody publishes, and yet it is known.
	eventually(t, time.Minute, func() error {
		for _, s := range []*stubbornSource{inTail, quiet} {
			if err := m.lostOf(s); err != nil {
				return err
			}
		}
		for _, h := range m.hubs {
			if regexp.MustCompile(`"event":"tail_lost"`).MatchString(h.log.String()) {
				return nil
			}
		}
		return fmt.Errorf("no hub has a line of it in its log")
	})
	must(t, inTail.publish(t.Context()))
	must(t, quiet.publish(t.Context()))

	// The same server goes on, with nothing in one partition.
	must(t, emptied.publish(t.Context()))
	partition := shardOf(uuid.NewSHA1(uuid.NameSpaceURL, []byte(emptied.story.url)))
	redis.Do(t, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', ARGV[1])))", "0", fmt.Sprintf("%s:{p:%d}:*", nemesisPrefix, partition))
	must(t, emptied.publish(t.Context()))
	for n, s := range sources {
		if s.story.rewinds == 0 {
			t.Errorf("the Source of topic %d was not told to send again", n)
		}
		must(t, m.lostOf(s))
	}
	m.release()
	m.converge()
}

// allArrived is nil when each callee has all that was published to its topic.
func (w *world) allArrived() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := map[[2]int]bool{}
	for _, a := range w.c.arrived {
		got[[2]int{a.callee, a.n}] = true
	}
	for _, c := range w.c.callees {
		for n := range w.c.topics[c.topic].intervals {
			if !got[[2]int{c.n, n}] {
				return fmt.Errorf("%s has not got interval %d", c.path, n)
			}
		}
	}
	return nil
}

// lostOf is nil when the topic of a Source says that the store lost something of it.
func (w *world) lostOf(s *stubbornSource) error {
	var topic struct{ Gaps []struct{ Reason string } }
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(s.story.url)).String()
	if err := w.look(w.t.Context(), w.hubs[0], "/api/v1/topics/"+id, &topic); err != nil {
		return err
	}
	for _, g := range topic.Gaps {
		if g.Reason == "rolled_back" {
			return nil
		}
	}
	return fmt.Errorf("%s has the gaps %v, none of them rolled_back", s.story.url, topic.Gaps)
}
