package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/draws"
)

// Invariants 5 and 7, at random: a journal loses its tail again and again, also while it is read. Callbacks lag, large
// bodies wait for memory, hubs restart and forget what they saw, and old entries are trimmed. In the end each callback has all
// that the journal has, in order, and got nothing more often than there were losses and restarts.
func TestLossesAtRandom_Invariant5(t *testing.T) {
	for seed := range draws.Seeds(12) {
		synctest.Test(t, func(t *testing.T) { newLosses(t, seed).run() })
	}
}

// losses is a topic, one hub after the other, and callbacks.
type losses struct {
	*bed
	hubs int
	rnd  *rand.Rand
	away [5]atomic.Bool // callbacks

	lock    sync.Mutex
	got     [5][]string // by callback, the notifications in the order in which they came
	reads   *rand.Rand
	ends    bool // no tail is lost any more
	happens int  // losses and restarts
	trace   []string
}

func newLosses(t *testing.T, seed uint64) *losses {
	l := &losses{rnd: rand.New(rand.NewPCG(seed, 1)), reads: rand.New(rand.NewPCG(seed, 2)), bed: newBed(t, tight)}
	l.did("seed %d", seed)
	for n := range l.got {
		l.subscribe(topicA, cb(n))
	}
	l.begin()
	return l
}

// tight has a hub try again soon, and gives it memory for three of the larger bodies.
func tight(o *Options) { o.Policy.Max, o.MaxInflight, o.MaxInflightBytes = time.Second, 8, 64<<10 }

// begin starts a hub on the store, which has seen nothing.
func (l *losses) begin() {
	m := l.memory
	if l.hubs++; l.hubs > 1 {
		l.bed = newBed(l.t, tight)
		l.goOn(m)
	}
	l.readFrom(lossyReads{m, l})
	for n := range l.got {
		l.set(cb(n), func(r *http.Request, _ []byte) (*http.Response, error) {
			time.Sleep(time.Millisecond)
			if l.away[n].Load() {
				return status(http.StatusServiceUnavailable), nil
			}
			l.lock.Lock()
			defer l.lock.Unlock()
			l.got[n] = append(l.got[n], r.Header.Get("Webhook-Id"))
			return nil, nil
		})
	}
	l.bed.run()
}

func (l *losses) run() {
	defer func() { l.end() }()
	for range 40 {
		l.step()
	}
	l.lock.Lock()
	l.ends = true
	l.lock.Unlock()
	for n := range l.away {
		l.away[n].Store(false)
	}
	l.publish(l.t, topicA, []byte("the last"))
	pass(2 * time.Minute)
	l.judge()
	if n := l.d.Stats().BytesInFlight; n > 0 {
		l.fail("%d bytes are still in use", n)
	}
}

func (l *losses) step() {
	switch n := l.rnd.IntN(11); {
	case n < 4:
		some := 1 + l.rnd.IntN(40)
		l.did("%d are published", some)
		for range some {
			l.publish(l.t, topicA, fmt.Append(make([]byte, l.rnd.IntN(4)/3*16<<10), l.rnd.Uint64()))
			if l.rnd.IntN(3) == 0 {
				pass(time.Duration(l.rnd.IntN(5)) * time.Millisecond)
			}
		}
	case n < 6:
		l.loseTail(l.rnd.Float64())
	case n < 7:
		if l.rnd.IntN(3) == 0 {
			head, _ := l.Head(l.t.Context(), topicA)
			seq := uint64(float64(head.Last.Seq) * l.rnd.Float64())
			l.did("all to %d are trimmed", seq)
			l.trim(topicA, seq)
		}
	case n < 8:
		l.did("another hub")
		l.end()
		l.begin()
		l.lock.Lock()
		l.happens++
		l.lock.Unlock()
	default:
		who, away := l.rnd.IntN(len(l.away)), l.rnd.IntN(2) == 0
		l.did("%d is away: %t", who, away)
		l.away[who].Store(away)
	}
	pass(time.Duration(l.rnd.IntN(200)) * time.Millisecond)
}

// loseTail drops a share of the entries without a trace.
func (l *losses) loseTail(share float64) {
	l.memory.mu.Lock()
	mt := l.topic(topicA)
	n := len(mt.entries)
	some := int(share*float64(n)) + min(1, n)
	mt.entries, mt.seq = mt.entries[:n-some:n-some], mt.seq-uint64(some)
	l.memory.mu.Unlock()
	l.did("the last %d of %d are lost", some, n)
	l.lock.Lock()
	defer l.lock.Unlock()
	l.happens++
}

// lossyReads may lose the tail between the journal's answer and the reader.
type lossyReads struct {
	*memory
	of *losses
}

func (r lossyReads) Read(ctx context.Context, url string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	entries, err := r.memory.Read(ctx, url, after, limit, maxBytes)
	r.of.lock.Lock()
	loses, share, takes := !r.of.ends && r.of.reads.IntN(60) == 0, r.of.reads.Float64(), r.of.reads.IntN(100)
	r.of.lock.Unlock()
	if loses {
		r.of.loseTail(share)
	}
	for range takes { // others go on; no time passes, since some of them wait with a lock
		runtime.Gosched()
	}
	return entries, err
}

func (l *losses) judge() {
	l.lock.Lock()
	defer l.lock.Unlock()
	has := map[string]int{}
	for n, e := range l.topic(topicA).entries {
		has[e.ID.String()] = n
	}
	for n, got := range l.got {
		times, next := map[string]int{}, 0
		for _, id := range got {
			if times[id]++; times[id] > 1+l.happens {
				l.fail("callback %d got %s more than %d times", n, id, l.happens)
			}
			if at, kept := has[id]; kept && times[id] == 1 {
				if at != next {
					l.fail("callback %d got entry %d of those that are kept, and the next was %d", n, at, next)
				}
				next = at + 1
			}
		}
		if next < len(has) {
			l.fail("callback %d lacks the last %d of %d", n, len(has)-next, len(has))
		}
	}
}

func (l *losses) did(format string, args ...any) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

func (l *losses) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(l.trace, "\n"))
}
