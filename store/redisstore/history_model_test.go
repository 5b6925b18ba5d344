package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/draws"
	"github.com/rshub/rshub/test/redistest"
	"github.com/rshub/rshub/validate"
)

// Invariants 5 and 10, on a real Redis and several hubs, at random: whatever Redis
// loses of the journal, and though no cursor stands on it, a Source gets a 409 with an
// instant that it has sent before, and no subscription misses anything without a gap.
func TestWhatRedisLosesIsNoticed_Invariant5(t *testing.T) {
	server := redistest.Standalone(t)
	losses := 0
	for round := range draws.Seeds(3) {
		f := newFleet(t, server, round)
		for range 60 {
			f.step()
		}
		f.reconcileAll()
		f.end()
		losses += f.losses
	}
	if losses < 10 {
		t.Errorf("only %d losses were drawn", losses)
	}
}

// fleet is some hubs on one Redis, with Sources and subscriptions.
type fleet struct {
	t      *testing.T
	rnd    *rand.Rand
	round  uint64
	url    string
	client redis.UniversalClient
	prefix string
	topics []*fleetTopic
	losses int
	trace  []string

	restore func(partition int) // nil: no snapshot was taken

	// once is held while hubs say that they live, or one that it does no more.
	once    sync.Mutex
	mu      sync.Mutex // over hubs
	hubs    []*fleetHub
	names   int
	beating context.CancelFunc
	beaten  sync.WaitGroup
}

type fleetHub struct {
	id    string
	s     *Store
	knows map[*fleetTopic]bool // has seen the head
}

// fleetTopic is a topic with its Source, and its subscriptions.
type fleetTopic struct {
	url  string
	at   int // the interval that the Source sends next
	most int // of those that were accepted, one more than the last
	subs []*fleetSub
	// reset: it was, at some time.
	reset bool
}

type fleetSub struct {
	mu     sync.Mutex
	hub    int // which of the hubs delivers
	cursor journal.Anchor
	has    map[int]bool // delivered
	gaps   []journal.Gap
}

func newFleet(t *testing.T, server *redistest.Server, round uint64) *fleet {
	f := &fleet{
		t: t, rnd: rand.New(rand.NewPCG(round, 5)), round: round, url: server.URL(), client: admin(t, server.URL()),
		prefix: freshPrefix(),
	}
	for range 2 + f.rnd.IntN(2) {
		f.addHub()
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.beating = cancel
	f.beaten.Go(func() {
		for ctx.Err() == nil {
			f.beat(ctx)
			time.Sleep(2 * time.Millisecond)
		}
	})
	for n := range 3 {
		topic := &fleetTopic{url: fmt.Sprintf("https://source.example/%d/%d/", round, n)}
		for range f.rnd.IntN(3) {
			topic.subs = append(topic.subs, &fleetSub{hub: f.rnd.IntN(3), has: map[int]bool{}})
		}
		f.topics = append(f.topics, topic)
	}
	return f
}

func (f *fleet) addHub() {
	f.t.Helper()
	f.names++
	h := &fleetHub{id: fmt.Sprint("hub ", f.names), knows: map[*fleetTopic]bool{}}
	var err error
	h.s, err = Open(context.WithoutCancel(f.t.Context()), Options{
		URL: f.url, Prefix: f.prefix, Timeout: patience, Lease: 30 * time.Millisecond, // two ticks of a millisecond are waited
		Reached: func([]int) ([]journal.Reached, bool) { return f.reached(h), true },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hubs = append(f.hubs, h)
}

// beat says that the hubs live.
func (f *fleet) beat(ctx context.Context) {
	f.once.Lock()
	defer f.once.Unlock()
	f.mu.Lock()
	hubs := slices.Clone(f.hubs)
	f.mu.Unlock()
	for _, h := range hubs {
		_, _ = h.s.Leases.Heartbeat(ctx, cluster.Node{ID: h.id}, time.Minute)
	}
}

// reached is what delivery would report.
func (f *fleet) reached(h *fleetHub) (all []journal.Reached) {
	f.mu.Lock()
	hubs := slices.Clone(f.hubs)
	f.mu.Unlock()
	for _, topic := range f.topics {
		r := journal.Reached{Topic: topic.url}
		n := 0
		for _, sub := range topic.subs {
			if hubs[sub.hub%len(hubs)] != h {
				continue
			}
			sub.mu.Lock()
			at := sub.cursor
			sub.mu.Unlock()
			if n == 0 || at.Position < r.Least.Position {
				r.Least = at
			}
			if n == 0 || at.Position > r.Greatest.Position {
				r.Greatest = at
			}
			n++
		}
		if n > 0 {
			all = append(all, r)
		}
	}
	return all
}

func (f *fleet) someHub() *fleetHub     { return f.hubs[f.rnd.IntN(len(f.hubs))] }
func (f *fleet) someTopic() *fleetTopic { return f.topics[f.rnd.IntN(len(f.topics))] }

func (f *fleet) fail(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("round %d: %s\n%s", f.round, fmt.Sprintf(format, args...), strings.Join(f.trace, "\n"))
}

// did notes what happened, for when something goes wrong.
func (f *fleet) did(format string, args ...any) {
	f.trace = append(f.trace, fmt.Sprintf(format, args...))
}

func (f *fleet) step() {
	topic := f.someTopic()
	switch n := f.rnd.IntN(20); {
	case n < 8:
		f.publish(topic, f.someHub())
	case n < 12:
		for _, sub := range topic.subs {
			if f.rnd.IntN(2) == 0 {
				f.deliver(topic, sub)
			}
		}
	case n < 13:
		f.hear(topic, f.someHub())
	case n < 15:
		f.snapshot()
	case n < 16 && f.restore != nil:
		f.restore(-1)
	case n < 17 && f.restore != nil:
		f.restore(journal.Partition(journal.TopicID(topic.url)))
	case n < 18:
		f.empty(journal.Partition(journal.TopicID(topic.url)), f.rnd.IntN(2) == 0)
	case n < 19:
		f.reset(topic, f.someHub())
	default:
		f.replaceHub()
	}
}

// hear has a hub read a head, as a hint or its retention does.
func (f *fleet) hear(topic *fleetTopic, h *fleetHub) {
	head, err := h.s.Head(f.t.Context(), topic.url)
	if err != nil {
		f.fail("Head: %v", err)
	}
	if head.Version != "" {
		h.knows[topic] = true
	}
}

// publish lets the Source send its next interval, and first what it has to send again.
func (f *fleet) publish(topic *fleetTopic, h *fleetHub) {
	last := topic.at
	for tries := 0; topic.at <= last; tries++ {
		if tries > 200 {
			f.fail("interval %d is not accepted", topic.at)
		}
		e := entry(topic.at, fmt.Sprint(topic.at))
		head, err := h.s.Head(f.t.Context(), topic.url)
		if err != nil {
			f.fail("Head: %v", err)
		}
		known, err := h.s.Interval(f.t.Context(), topic.url, e.From, e.Until)
		if errors.Is(err, errUnreconciled) {
			f.did("%s: %s: %v", topic.url, h.id, err)
			continue
		}
		d := validate.Continuity(head, f.known(known, err), e, false)
		switch d.Result {
		case validate.Append:
			e.Gap = d.Gap
			_, err := h.s.Append(f.t.Context(), time.Now(), topic.url, e, head.Version)
			if errors.Is(err, journal.ErrHeadMoved) || errors.Is(err, errUnreconciled) {
				f.did("%s: %s: %v", topic.url, h.id, err)
				continue
			}
			if err != nil {
				f.fail("Append: %v", err)
			}
			f.did("%s: %s took interval %d after %d", topic.url, h.id, topic.at, head.Last.Seq)
			if head.Version == "" && topic.at > 0 && f.known1(topic) {
				f.fail("interval %d of %s was accepted as its first", topic.at, topic.url)
			}
			h.knows[topic] = true
			fallthrough
		case validate.Duplicate:
			topic.at++
			topic.most = max(topic.most, topic.at)
		case validate.Gap, validate.Overlap:
			n := int(d.ExpectedFrom.Sub(entry(0, "").From) / time.Second)
			if n < 0 || n > topic.most {
				f.fail("interval %d is answered 409 with interval %d, of %d that were sent", topic.at, n, topic.most)
			}
			f.did("%s: %s answered interval %d: expected %d", topic.url, h.id, topic.at, n)
			topic.at = n
		default:
			f.fail("interval %d: %v", topic.at, d.Result)
		}
	}
}

// known1 reports whether a live hub knew the topic, or a subscription.
func (f *fleet) known1(topic *fleetTopic) bool {
	return slices.ContainsFunc(f.hubs, func(h *fleetHub) bool { return h.knows[topic] }) ||
		slices.ContainsFunc(topic.subs, func(s *fleetSub) bool { return s.cursor.Position > 0 })
}

// known is the interval that was found, or nil.
func (f *fleet) known(i journal.Interval, err error) *journal.Interval {
	if errors.Is(err, journal.ErrNotFound) {
		return nil
	}
	if err != nil {
		f.fail("Interval: %v", err)
	}
	return &i
}

// deliver gives a subscription the next notification, as delivery does.
func (f *fleet) deliver(topic *fleetTopic, sub *fleetSub) {
	h := f.hubs[sub.hub%len(f.hubs)]
	var entries []journal.Entry
	var err error
	eventually(f.t, "hubs that have compared", func() bool {
		entries, err = h.s.Read(f.t.Context(), topic.url, sub.cursor, 1, 1<<20)
		return !errors.Is(err, errUnreconciled)
	})
	sub.mu.Lock()
	defer sub.mu.Unlock()
	var trimmed *journal.TrimmedError
	switch {
	case errors.As(err, &trimmed):
		sub.gaps = append(sub.gaps, journal.Gap{From: sub.cursor.Until, Until: trimmed.To.Until})
		f.did("%s: a subscription at %d learns that all to %d is trimmed", topic.url, sub.cursor.Seq, trimmed.To.Seq)
		sub.cursor = trimmed.To
	case errors.Is(err, journal.ErrRolledBack):
		head, err := h.s.Head(f.t.Context(), topic.url)
		if err != nil {
			f.fail("Head: %v", err)
		}
		to, ok := head.BackFrom(sub.cursor.Position)
		if !ok {
			to = head.Trimmed
		}
		f.did("%s: a subscription at %d goes back to %d", topic.url, sub.cursor.Seq, to.Seq)
		sub.cursor = to
	case err != nil:
		f.fail("Read: %v", err)
	case len(entries) > 0:
		h.knows[topic] = h.knows[topic] || true
		sub.cursor = entries[0].Anchor()
		f.did("%s: a subscription got %d", topic.url, sub.cursor.Seq)
		sub.has[int(entries[0].From.Sub(entry(0, "").From)/time.Second)] = true
	}
}

// snapshot remembers what Redis has.
func (f *fleet) snapshot() {
	names, err := keysOf(f.t.Context(), f.client, f.prefix)
	if err != nil {
		f.fail("%v", err)
	}
	found := map[string]*redis.StringCmd{}
	_, _ = f.client.TxPipelined(f.t.Context(), func(pipe redis.Pipeliner) error {
		for _, name := range names {
			if strings.Contains(name, "{p:") {
				found[name] = pipe.Dump(f.t.Context(), name)
			}
		}
		return nil
	})
	dumps := map[string]string{}
	for name, cmd := range found {
		if dump, err := cmd.Result(); err == nil {
			dumps[name] = dump
		}
	}
	f.restore = func(partition int) { f.lose(dumps, partition, true) }
}

// empty lets a partition come back empty, on a server that was restarted or on one that
// continues.
func (f *fleet) empty(partition int, restarted bool) { f.lose(nil, partition, restarted) }

// lose lets Redis go back to an earlier state: of the whole journal, or of one partition.
func (f *fleet) lose(dumps map[string]string, partition int, restarted bool) {
	tag := "{p:"
	if partition >= 0 {
		tag = fmt.Sprintf("{p:%d}", partition)
	}
	f.losses++
	f.did("loss of %s, back to %d keys, restarted %t", tag, len(dumps), restarted)
	_, err := f.client.TxPipelined(f.t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Eval(f.t.Context(), "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end return 1", nil, f.prefix+":"+tag+"*")
		for _, name := range slices.Sorted(maps.Keys(dumps)) {
			if strings.Contains(name, tag) {
				pipe.Restore(f.t.Context(), name, 0, dumps[name])
			}
		}
		if restarted {
			pipe.Do(f.t.Context(), "DEBUG", "CHANGE-REPL-ID")
		}
		return nil
	})
	if err != nil {
		f.fail("%v", err)
	}
}

// reset has the operator reset a topic.
func (f *fleet) reset(topic *fleetTopic, h *fleetHub) {
	head, err := h.s.Head(f.t.Context(), topic.url)
	if err == nil {
		err = h.s.Reset(f.t.Context(), topic.url, head.Version)
	}
	f.did("%s: reset: %v", topic.url, err)
	topic.reset = topic.reset || err == nil
	if err != nil && !errors.Is(err, journal.ErrHeadMoved) && !errors.Is(err, errUnreconciled) {
		f.fail("Reset: %v", err)
	}
}

// replaceHub has another hub come in the place of one that ends, when others know
// what it knew.
func (f *fleet) replaceHub() {
	f.reconcileAll()
	for _, topic := range f.topics {
		for _, h := range f.hubs {
			f.hear(topic, h)
		}
	}
	i := f.rnd.IntN(len(f.hubs))
	f.did("%s ends", f.hubs[i].id)
	f.once.Lock()
	f.mu.Lock()
	old := f.hubs[i]
	f.hubs = slices.Delete(f.hubs, i, i+1)
	f.mu.Unlock()
	_, err := old.s.Leases.Heartbeat(f.t.Context(), cluster.Node{ID: old.id}, 0)
	f.once.Unlock()
	if err != nil {
		f.fail("%v", err)
	}
	f.beat(f.t.Context()) // the others know before Redis loses anything more
	if err := old.s.Close(); err != nil {
		f.fail("%v", err)
	}
	f.addHub()
}

// reconcileAll waits until every hub has compared.
func (f *fleet) reconcileAll() {
	for _, h := range f.hubs {
		h.s.reconciler.noticeHistories(f.t.Context())
		eventually(f.t, "reconciled partitions", func() bool { return h.s.histories.check() == nil })
	}
}

// end judges: after one more publish of each Source, every subscription got all that
// was accepted, or a gap.
func (f *fleet) end() {
	for _, topic := range f.topics {
		if topic.most == 0 {
			continue
		}
		f.publish(topic, f.someHub())
		head, err := f.hubs[0].s.Head(f.t.Context(), topic.url)
		if err != nil {
			f.fail("%v", err)
		}
		for n, sub := range topic.subs {
			for range 10 * (topic.most + 1) {
				f.deliver(topic, sub)
			}
			for i := range topic.most {
				if !sub.has[i] && !inGaps(sub.gaps, i) && !inGaps(recorded(topic, head), i) {
					f.fail("subscription %d of %s misses interval %d of %d without a gap (head until %v, gaps %v)", n, topic.url, i, topic.most, head.Until, head.Gaps)
				}
			}
		}
	}
	f.beating()
	f.beaten.Wait()
	for _, h := range f.hubs {
		if err := h.s.Close(); err != nil {
			f.fail("%v", err)
		}
	}
}

// recorded returns the gaps of a topic that count. After a lost tail the Source sends again
// what is in them, unless an operator said by a reset that it need not.
func recorded(topic *fleetTopic, h journal.Head) []journal.Gap {
	return slices.DeleteFunc(slices.Clone(h.Gaps), func(g journal.Gap) bool {
		return g.Reason == journal.GapRolledBack && !topic.reset
	})
}

func inGaps(gaps []journal.Gap, n int) bool {
	e := entry(n, "")
	return slices.ContainsFunc(gaps, func(g journal.Gap) bool { return !g.From.After(e.From) && !g.Until.Before(e.Until) })
}
