package history

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
)

// sweepEvery is how often the store is asked which topics of streams changed, since hints may be
// lost.
const sweepEvery = 5 * time.Second

// alarm wakes streams whose topics may have changed. It may be shared between goroutines.
type alarm struct {
	writers *writers

	mu      sync.Mutex
	waiting map[string]*watched     // by topic
	topics  [journal.Partitions]int // how many topics of a partition have streams
	version uint64                  // the last one that was given to a topic
	streams map[uint64]*stream      // all of them, by id
	ids     uint64                  // the last one that was given to a stream
}

// watched is a topic that has streams.
type watched struct {
	// version names what the journal has of the topic: after a change it is another one.
	version uint64
	// streams are in the order in which they began, as far as none ended: what is written to one after the
	// other is near to each other in memory. A follower knows its place.
	streams []*stream
	// head is the last entry that a stream saw when it began. If the next one sees another entry, a hint
	// may be lost.
	head place
}

func newAlarm(w *writers) alarm {
	return alarm{writers: w, waiting: make(map[string]*watched), streams: make(map[uint64]*stream)}
}

// change gives a topic a version that none had.
func (a *alarm) change(topic string, w *watched) {
	a.version++
	w.version = a.version
	for _, st := range w.streams {
		st.wake(topic, w.version)
	}
	a.writers.ring(slices.Values(w.streams))
}

// add makes the alarm wake st from now on. What st saw of its topics is as good as a hint to the others.
func (a *alarm) add(st *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range st.topics {
		w := a.waiting[f.topic]
		if w == nil {
			w = &watched{head: f.head}
			a.change(f.topic, w)
			a.waiting[f.topic] = w
			a.topics[journal.Partition(journal.TopicID(f.topic))]++
		}
		if w.head != f.head {
			w.head = f.head
			a.change(f.topic, w)
		}
		f.index, w.streams = len(w.streams), append(w.streams, st)
		f.again(w.version)
	}
	a.ids++
	st.id = a.ids
	a.streams[st.id] = st
	st.ring()
}

// remove undoes add.
func (a *alarm) remove(st *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.streams, st.id)
	for _, f := range st.topics {
		w := a.waiting[f.topic]
		last := len(w.streams) - 1
		w.streams[f.index] = w.streams[last]
		w.streams[f.index].follower(f.topic).index = f.index
		w.streams[last], w.streams = nil, w.streams[:last]
		if last == 0 {
			delete(a.waiting, f.topic)
			a.topics[journal.Partition(journal.TopicID(f.topic))]--
		}
	}
}

// ring wakes the streams of a topic.
func (a *alarm) ring(topic string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.waiting[topic]; w != nil {
		a.change(topic, w)
	}
}

// partitions returns the partitions that have topics with streams.
func (a *alarm) partitions() (all []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range a.topics {
		if n > 0 {
			all = append(all, i)
		}
	}
	return all
}

// Run wakes streams when their topics change, until ctx ends. Streams stay open after that, until
// Drain ends them.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	hints := journal.HintedTopics(ctx, s.o.Watcher.Hints)
	all.Go(func() {
		for topic := range hints {
			s.alarm.ring(topic)
		}
	})
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var since [journal.Partitions]uint64
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := s.sweep(ctx, &since)
		if err != nil && !failing && ctx.Err() == nil {
			s.o.Log.Warn("the store could not be asked what changed for streams; it is asked again", zap.String("event", "streams_sweep_failed"), zap.Error(err))
		}
		failing = err != nil
	}
}

// sweep wakes the streams of topics that changed since the last one. After an error the next one
// finds the same.
func (s *Service) sweep(ctx context.Context, since *[journal.Partitions]uint64) (failed error) {
	for _, i := range s.alarm.partitions() {
		topics, next, err := s.o.Watcher.Changes(ctx, i, since[i])
		if err != nil {
			failed = err
			continue
		}
		since[i] = next
		for _, topic := range topics {
			s.alarm.ring(topic)
		}
	}
	return failed
}
