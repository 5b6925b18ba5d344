package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

var readersFlag = flag.Int("readers", 6, "how many readers of streams each nemesis has; it has at least as many callbacks that stay")

// read starts the readers of streams, and returns what ends them. Each reads from one hub after
// another, and goes on at the next one where it was.
func (m *nemesis) read(topics int) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	var reading sync.WaitGroup
	for n := range *readersFlag {
		c, rnd := m.addCallee(n%topics), rand.New(rand.NewPCG(m.rnd.Uint64(), 0))
		c.reads, c.sessions = true, []session{{accepted: never}}
		reading.Go(func() {
			last, from := "", "?hub.topic="+url.QueryEscape(m.c.topics[c.topic].url)+"&after=earliest"
			upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
			for hub := n; ctx.Err() == nil; hub++ {
				limited, cancel := context.WithTimeout(ctx, time.Second+upTo(9*time.Second))
				last = readStream(limited, m.hubs[hub%len(m.hubs)].url()+from, last, func(event, data string) { m.hear(c, event, data) })
				cancel()
				pause := upTo(200 * time.Millisecond)
				if rnd.IntN(5) == 0 {
					pause = upTo(5 * time.Second)
				}
				wait(ctx, pause)
			}
		})
	}
	return func() { cancel(); reading.Wait() }
}

// hear notes an event that a reader got.
func (w *world) hear(c *callee, event, data string) {
	var e struct {
		ID, Topic, Document, Reason string
		From, Until                 time.Time
	}
	err := json.Unmarshal([]byte(data), &e)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.begun = cmp.Or(c.begun, w.now())
	which, known := w.bodies[sha256.Sum256([]byte(e.Document))]
	switch {
	case err != nil || e.Topic != w.c.topics[c.topic].url:
		w.t.Errorf("reader %d got %s %.200q: %v", c.n, event, data, err)
	case event == "gap":
		c.told = append(c.told, lostSpan{max(number(e.From), 0), number(e.Until) - 1, e.Reason})
	case !known || which[0] != c.topic:
		w.t.Errorf("reader %d got what was never published to its topic: %.200q", c.n, data)
	default:
		w.c.arrived = append(w.c.arrived, arrival{c.n, which[1], e.ID, w.now()})
	}
}

// resetFault has an operator reset a topic. Its Source goes on where it was.
func (m *nemesis) resetFault() fault {
	return fault{name: "topic reset", ofHub: true, gaps: []string{journal.GapReset}, begin: func() func() {
		topic := m.c.topics[m.rnd.IntN(len(m.c.topics))].url
		id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)).String()
		header := http.Header{"Content-Type": {"application/json"}}
		maps.Copy(header, m.operator)
		if a, err := try(m.t.Context(), http.MethodPost, "http://"+m.someHub().admin+"/api/v1/topics/"+id+"/reset", header, []byte("{}")); err != nil || a.status != http.StatusOK {
			m.t.Errorf("a reset of %s: %v %v", topic, a, err)
		}
		return nil
	}}
}
