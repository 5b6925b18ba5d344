package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/test/draws"
)

// Any hosts, few senders or many, while lanes come, go, fail, and wait for large bodies: no sender
// is idle while a lane could start, the limits are kept, the counts are right, topics take turns at
// each host, and nothing is left over in the end.
func TestTurnsAreNeverLost(t *testing.T) {
	suspects, slow, removed := 0, 0, 0
	for seed := range draws.Seeds(150) {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, seed, func(o *Options) {
				o.MaxInflight, o.PerHost = 1+int(seed*7%40), 1+int(seed%9)
				o.Policy = Policy{First: time.Second, Max: time.Minute}
			})
			var lanes []*lane
			hosts := 1 + s.rnd.IntN(20)
			for topic := range 1 + s.rnd.IntN(20) {
				for range 1 + s.rnd.IntN(1+s.rnd.IntN(30)) {
					of := kind(s.rnd.IntN(int(kinds)))
					l := s.lane(fmt.Sprint(topic), fmt.Sprint("h", s.rnd.IntN(hosts)), of)
					lanes = append(lanes, l)
					s.at(time.Duration(s.rnd.IntN(60))*time.Second, func() {
						if l.state == idle {
							s.makeReady(l, s.rnd.IntN(20) == 0)
						}
					})
				}
			}
			for range s.rnd.IntN(20) {
				s.at(time.Duration(s.rnd.IntN(120))*time.Second, func() {
					l := s.lane(fmt.Sprint(s.rnd.IntN(20)), fmt.Sprint("h", s.rnd.IntN(hosts)), kind(s.rnd.IntN(int(kinds))))
					lanes = append(lanes, l)
					s.makeReady(l, false)
				})
			}
			for range len(lanes) / 4 {
				s.at(time.Duration(s.rnd.IntN(200))*time.Second, func() {
					if l := lanes[s.rnd.IntN(len(lanes))]; l.state != gone {
						removed++
						s.remove(l)
					}
				})
			}
			const bad = 3 * time.Minute // so long hosts mean no good
			start := time.Now()
			status := make(map[*lane]int)
			s.after = func(r *simRun) {
				out := outcome{Result: Result{Status: status[r.lane]}, duration: r.took, limit: s.d.o.Timeout}
				s.d.only().s.observe(r.job, out)
				c := &r.lane.cursor
				switch c.status = int16(out.Status); {
				case r.lane.state == gone:
				case !out.delivered():
					c.attempt++
					r.lane.state = idle
					s.at(time.Duration(s.rnd.IntN(20))*time.Second, func() {
						if r.lane.state == idle {
							s.makeReady(r.lane, false)
						}
					})
				default:
					c.attempt = 0
					if r.lane.state = idle; s.rnd.IntN(2) == 0 && time.Since(start) < bad {
						s.makeReady(r.lane, s.rnd.IntN(20) == 0)
					}
				}
			}
			took := func(l *lane) time.Duration {
				kind := int(l.host.name[len("h")]) % 4
				if time.Since(start) > bad {
					kind = 0
				}
				status[l] = 200
				switch s.rnd.IntN(4) * kind {
				case 2:
					status[l] = 500
				case 3, 6:
					status[l] = -1 // it takes as long as that may
					return s.d.o.Timeout
				case 4:
					status[l] = -2
					return time.Millisecond
				case 9:
					slow++
					return s.d.o.Timeout / 2
				}
				return time.Duration(1 + s.rnd.IntN(int(time.Second)))
			}
			s.run(30*time.Minute, took, func(w *simWait) {
				if before := s.hosts[w.lane.host].at[w.kind].starts - w.starts; !w.disturb && before >= w.k*w.topics {
					t.Fatalf("%d others of kind %d went before lane %d of one of %d topics", before, w.kind, w.k, w.topics)
				}
				suspects += s.d.only().s.hosts.suspects
			})
			if n := len(s.ready); n > 0 && !t.Failed() {
				t.Fatalf("%d lanes are ready still", n)
			}
			for h := range s.hosts {
				if h.waiting.first != nil || h.leads > 0 {
					t.Fatalf("backlogs of %s are left", h.name)
				}
			}
			if len(s.d.only().s.turns.backlogs) > 0 || s.d.only().s.limits.unproven.Load()+s.d.only().s.limits.suspect.Load() > 0 {
				t.Fatalf("%d backlogs, %d exchanges with unproven hosts and %d with suspects are left", len(s.d.only().s.turns.backlogs), s.d.only().s.limits.unproven.Load(), s.d.only().s.limits.suspect.Load())
			}
		})
	}
	if suspects == 0 || slow == 0 || removed == 0 {
		t.Errorf("%d starts while a host was suspect, %d slow ones, %d lanes removed", suspects, slow, removed)
	}
}
