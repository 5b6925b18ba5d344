package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// live opens a store as a hub of that name does, which lives until the test ends.
func live(t *testing.T, url, name string, o Options) *Store {
	t.Helper()
	o.URL, o.Timeout, o.Lease = url, patience, 30*time.Millisecond // a tick of a millisecond
	s := openStore(t, o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = s.Leases.Heartbeat(ctx, cluster.Node{ID: name}, time.Minute)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return s
}

// lostTopic is a server that lost a topic, of which knows remembers two entries. It does
// not compare before compare is called; other knows nothing.
func lostTopic(t *testing.T) (server *redistest.Server, knows, other *Store, compare func()) {
	t.Helper()
	server = redistest.Standalone(t)
	var ready atomic.Bool
	ready.Store(true)
	knows = live(t, server.URL(), "knows", Options{Reached: func([]int) ([]journal.Reached, bool) { return nil, ready.Load() }})
	other = live(t, server.URL(), "other", Options{})
	server.LoseTail(t, func() {
		publish(t, knows, topicName, 2)
		ready.Store(false)
	})
	eventually(t, "the server", func() bool { _, err := other.Head(t.Context(), topicName); return err == nil })
	return server, knows, other, func() { ready.Store(true) }
}

// Invariant 5: a hub that knows nothing of a topic accepts nothing for it while one
// that may know better has not compared.
func TestAppendWaitsForEveryHub_Invariant5(t *testing.T) {
	_, knows, other, compare := lostTopic(t)
	eventually(t, "a refusal", func() bool { _, err := add(t.Context(), other, topicName, "x"); return errors.Is(err, errUnreconciled) })
	if err := other.Ready(t.Context()); !errors.Is(err, errUnreconciled) {
		t.Errorf("ready: %v", err)
	}
	compare()
	eventually(t, "a reconciled store", func() bool { return other.Ready(t.Context()) == nil && knows.Ready(t.Context()) == nil })
	h, err := other.Head(t.Context(), topicName)
	if err != nil || !h.Until.Equal(entry(0, "").From) || len(h.Gaps) != 1 || h.Gaps[0].Count != 2 || h.Gaps[0].Reason != journal.GapRolledBack {
		t.Errorf("the head of a topic that was in the lost tail: %+v (%v)", h, err)
	}
	if _, err := other.Append(t.Context(), time.Now(), topicName, entry(2, "x"), ""); !errors.Is(err, journal.ErrHeadMoved) {
		t.Errorf("an append as the topic's first: %v", err)
	}
}

// A hub whose subscriptions were at a lost entry waits until those who remember it have recorded what is left: else
// it would send all of the topic again.
func TestReaderWaitsForWhoRemembers_Invariant5(t *testing.T) {
	server := redistest.Standalone(t)
	var ready atomic.Bool
	ready.Store(true)
	knows := live(t, server.URL(), "knows", Options{Reached: func([]int) ([]journal.Reached, bool) { return nil, ready.Load() }})
	other := live(t, server.URL(), "other", Options{})
	kept := publish(t, knows, topicName, 3)[2]
	var lost journal.Entry
	server.LoseTail(t, func() {
		lost = publish(t, knows, topicName, 2)[1]
		ready.Store(false)
	})
	read := func() error {
		_, err := other.Read(t.Context(), topicName, lost.Anchor(), 1, 0)
		return err
	}
	eventually(t, "an answer", func() bool {
		err := read()
		return errors.Is(err, errUnreconciled) || errors.Is(err, journal.ErrRolledBack)
	})
	for range 20 {
		if err := read(); !errors.Is(err, errUnreconciled) {
			t.Fatalf("before the hub that remembers has compared: %v", err)
		}
	}
	ready.Store(true)
	eventually(t, "a reconciled store", func() bool { return errors.Is(read(), journal.ErrRolledBack) })
	h, err := other.Head(t.Context(), topicName)
	if to, ok := h.BackFrom(lost.Position); err != nil || !ok || to != kept.Anchor() {
		t.Errorf("%v %+v: %+v, want %+v", err, h, to, kept.Anchor())
	}
}

// Where some connections of a hub come to a replica that lags, nothing is lost: it sends no Source and no subscription
// back to an older entry.
func TestReplicaThatLagsLostNothing_Invariant5(t *testing.T) {
	master, replica := redistest.Standalone(t), redistest.Standalone(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica.Do(t, "REPLICAOF", host, port)
	eventually(t, "a replica", func() bool {
		info, _ := replica.Do(t, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	s := live(t, master.URL(), "hub", Options{})
	publish(t, s, topicName, 2)
	replicated(t, []*redistest.Server{master, replica})
	replica.Do(t, "REPLICAOF", host, "1") // where no server is
	newest := publish(t, s, topicName, 3)[2]

	there := *s.conn
	there.client = admin(t, replica.URL())
	lags := newHeads(&there, s.checks, s.histories)
	lags.seen = s.heads.seen
	r := &reader{conn: &there, heads: lags, histories: s.histories}
	a := &appender{conn: &there, checks: s.checks, heads: lags, histories: s.histories}
	if h, err := a.Head(t.Context(), topicName); err != nil || h.Last.Seq != 2 {
		t.Fatalf("the head of the replica: %+v (%v)", h, err)
	}
	current := func() bool { return s.Ready(t.Context()) == nil }
	for range 5 {
		eventually(t, "a store that is ready", current)
		if got, err := r.Read(t.Context(), topicName, newest.Anchor(), 1, 0); !errors.Is(err, errUnreconciled) {
			t.Errorf("reading on: %d entries and the error %v", len(got), err)
		}
		eventually(t, "a store that is ready", current)
		if i, err := a.Interval(t.Context(), topicName, newest.From, newest.Until); !errors.Is(err, errLags) && !errors.Is(err, errUnreconciled) {
			t.Errorf("looking for the newest interval: %+v (%v)", i, err)
		}
	}
	eventually(t, "a store that is ready", current)
	if got, err := s.Read(t.Context(), topicName, newest.Anchor(), 1, 0); err != nil || len(got) != 0 {
		t.Errorf("reading on at the master: %d entries and the error %v", len(got), err)
	}
	if h, err := s.Head(t.Context(), topicName); err != nil || len(h.Gaps) != 0 || h.Last != newest.Anchor() {
		t.Errorf("the head of the master: %+v (%v)", h, err)
	}
}

// An export or an import reconciles nothing while hubs compare, because it does not know what
// they remember.
func TestVisitorReconcilesNothing(t *testing.T) {
	server, knows, other, compare := lostTopic(t)
	visitor := openStore(t, Options{URL: server.URL(), Timeout: patience, Visitor: true})
	if _, err := visitor.Head(t.Context(), topicName); err != nil {
		t.Error(err)
	}
	eventually(t, "a refusal", func() bool { _, err := add(t.Context(), other, topicName, "x"); return errors.Is(err, errUnreconciled) })
	compare()
	eventually(t, "a reconciled store", func() bool { return other.Ready(t.Context()) == nil && knows.Ready(t.Context()) == nil })
	if h, err := other.Head(t.Context(), topicName); err != nil || len(h.Gaps) != 1 || h.Gaps[0].Count != 2 {
		t.Errorf("%+v (%v)", h, err)
	}
}

// A hub that was away while the others reconciled compares before it appends.
func TestHubThatWasAwayComparesFirst(t *testing.T) {
	server := redistest.Standalone(t)
	stays := live(t, server.URL(), "stays", Options{})
	away := openStore(t, Options{URL: server.URL(), Timeout: patience}) // others do not wait for it
	kept := publish(t, away, topicName, 1)[0]
	server.LoseTail(t, func() { publish(t, away, topicName, 3) })
	eventually(t, "a reconciled store", func() bool { return stays.Ready(t.Context()) == nil })
	again := publish(t, stays, topicName, 1)[0]
	h, err := stays.Head(t.Context(), topicName)
	if err != nil || h.Last.Seq != again.Seq {
		t.Fatalf("%+v (%v)", h, err)
	}
	publish(t, away, topicName, 1)
	if h, err = away.Head(t.Context(), topicName); err != nil || len(h.Gaps) == 0 || h.Gaps[0].Until != entry(3, "").Until {
		t.Errorf("after entry %d the gaps are %v (%v)", kept.Seq, h.Gaps, err)
	}
}

// One partition comes back empty on a server that continues: the loss is reported once, the
// topic is there again, and other topics have not changed.
func TestEmptiedPartition_Invariant10(t *testing.T) {
	server := redistest.Standalone(t)
	lost := make(chan Loss, 1000)
	hubs := []*Store{
		live(t, server.URL(), "a", Options{Lost: func(l Loss) { lost <- l }}),
		live(t, server.URL(), "b", Options{Lost: func(l Loss) { lost <- l }}),
	}
	const n = journal.Remembered + 10
	entries := publish(t, hubs[0], topicName, n)
	other := topicName + "other/"
	publish(t, hubs[1], other, 1)
	k := hubs[0].conn.key.topic(topicName)
	server.Do(t, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', ARGV[1])))", "0", fmt.Sprintf("%s:{p:%d}:*", hubs[0].conn.key, k.partition))
	if e, err := hubs[1].Append(t.Context(), time.Now(), topicName, entry(n, "x"), ""); err == nil {
		t.Errorf("entry %d was appended as the topic's first", e.Seq)
	}
	eventually(t, "a reconciled store", func() bool { return hubs[0].Ready(t.Context()) == nil && hubs[1].Ready(t.Context()) == nil })
	h, err := hubs[1].Head(t.Context(), topicName)
	if err != nil || h.Entries != 0 || len(h.Gaps) == 0 || h.Version == "" || h.Until.After(entries[n-1].From) {
		t.Errorf("%+v (%v)", h, err)
	}
	l := <-lost
	if !l.Emptied || l.Partition != k.partition {
		t.Errorf("%+v", l)
	}
	if h, err := hubs[0].Head(t.Context(), other); err != nil || h.Entries != 1 || len(h.Gaps) != 0 {
		t.Errorf("another topic: %+v (%v)", h, err)
	}
	now, err := hubs[0].histories.current(t.Context(), k.partition)
	if err != nil {
		t.Fatal(err)
	}
	if epoch := (pair{history: *now}).epoch(); epoch != 2 {
		t.Errorf("the partition has the epoch %d", epoch)
	}
}

// An operator's reset or removal of a topic stays in force when the partition comes back
// empty, even if another hub did not know of it.
func TestResetAndRemovalOutliveTheirHeads(t *testing.T) {
	server := redistest.Standalone(t)
	said := live(t, server.URL(), "said", Options{})
	other := live(t, server.URL(), "other", Options{})
	reset, removed := topicName, topicName+"removed/"
	for _, topic := range []string{reset, removed} {
		publish(t, other, topic, 3)
		h, err := said.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if topic == reset {
			err = said.Reset(t.Context(), topic, h.Version)
		} else {
			err = said.Remove(t.Context(), topic, h.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Do(t, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', ARGV[1])))", "0", fmt.Sprintf("%s:{p:*", said.conn.key))
	server.Do(t, "DEBUG", "CHANGE-REPL-ID")
	said.reconciler.noticeHistories(t.Context())
	other.reconciler.noticeHistories(t.Context())
	eventually(t, "a reconciled store", func() bool { return said.Ready(t.Context()) == nil && other.Ready(t.Context()) == nil })
	if h, err := other.Head(t.Context(), reset); err != nil || !h.Reset || h.Epoch != 1 {
		t.Errorf("reset: %+v (%v)", h, err)
	}
	if h, err := other.Head(t.Context(), removed); err != nil || !h.IsTombstone() || len(h.Gaps) > 0 {
		t.Errorf("removed: %+v (%v)", h, err)
	}
}

// If a partition is emptied again while hubs compare it, all hubs compare it again, even
// those that had confirmed.
func TestEmptiedAgainWhileHubsCompare(t *testing.T) {
	server := redistest.Standalone(t)
	var ready atomic.Bool
	ready.Store(true)
	knows := live(t, server.URL(), "knows", Options{})
	other := live(t, server.URL(), "other", Options{Reached: func([]int) ([]journal.Reached, bool) { return nil, ready.Load() }})
	publish(t, knows, topicName, 3)
	k := knows.conn.key.topic(topicName)
	ready.Store(false)
	for range 2 {
		server.Do(t, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', ARGV[1])))", "0", fmt.Sprintf("%s:{p:%d}:*", knows.conn.key, k.partition))
		for _, s := range []*Store{knows, other} {
			s.histories.invalidate(k.partition, s.histories.of[k.partition].current.Load())
		}
		eventually(t, "a hub that compared", func() bool {
			confirmed, err := knows.conn.client.HGet(t.Context(), knows.conn.key.partition(k.partition, nameConfirmed), "knows").Result()
			return err == nil && len(confirmed) == 40
		})
	}
	ready.Store(true)
	eventually(t, "a reconciled store", func() bool { return knows.Ready(t.Context()) == nil && other.Ready(t.Context()) == nil })
	if h, err := other.Head(t.Context(), topicName); err != nil || len(h.Gaps) != 1 || h.Gaps[0].Count != 3 {
		t.Errorf("%+v (%v)", h, err)
	}
}

// A history that began while an append was on its way makes it sure again that the
// entry is there.
func TestAppendOfALostServerIsNotConfirmed(t *testing.T) {
	s := live(t, topologies["standalone"](t), "a", Options{Prefix: freshPrefix()})
	e := publish(t, s, topicName, 1)[0]
	k := s.conn.key.topic(topicName)
	old := "1:of another server"
	if err := s.appender.verifyStored(t.Context(), k, e, &old); err != nil {
		t.Errorf("an entry that is there: %v", err)
	}
	if e.ID[0]++; !errors.Is(s.appender.verifyStored(t.Context(), k, e, &old), errUnreconciled) {
		t.Error("an entry that is not there is confirmed")
	}
	if err := s.appender.verifyStored(t.Context(), k, e, s.histories.of[k.partition].current.Load()); err != nil {
		t.Errorf("it was asked for while nothing changed: %v", err)
	}
}

// A hub that the registry lost counts for a lease; one that said farewell does not.
func TestHubsThatTheRegistryLost(t *testing.T) {
	var h hubs
	at := time.Now()
	nodes := func(names ...string) (all []cluster.Node) {
		for _, n := range names {
			all = append(all, cluster.Node{ID: n})
		}
		return all
	}
	const lease = 30 * time.Second
	want := func(what string, since time.Time, n int) {
		t.Helper()
		ids, ok := h.seen(since, lease)
		if len(ids) != n || ok != (n > 0) {
			t.Errorf("%s: %v %t", what, ids, ok)
		}
	}
	h.beat(at, "a", "one", lease, nodes("a", "b", "c"))
	want("too early", at.Add(-time.Second), 0)
	want("all", at.Add(-2*time.Second), 3)
	h.beat(at.Add(time.Second), "a", "one", lease, nodes("a", "b"))
	want("one ended", at.Add(-2*time.Second), 2)
	h.beat(at.Add(2*time.Second), "a", "two", lease, nodes("a"))
	want("the registry lost one", at, 2)
	h.beat(at.Add(3*time.Second+lease), "a", "two", lease, nodes("a"))
	want("which does not come back", at, 1)

	// One that dies at its start, again and again.
	at = at.Add(time.Hour)
	h.beat(at, "a", "two", lease, nodes("a", "b"))
	h.beat(at.Add(3*time.Second), "a", "two", lease, nodes("a", "b", "new 1"))
	want("one came", at, 3)
	h.beat(at.Add(lease), "a", "two", lease, nodes("a", "b", "new 1", "new 2"))
	want("it came again", at, 4)
	h.beat(at.Add(cluster.StartLimit(lease)+time.Second), "a", "two", lease, nodes("a", "b", "new 2"))
	want("it had its time", at, 2)
}

// Invariant 12.
func TestSightsAreBounded(t *testing.T) {
	m := newSeenHeads()
	for n := range 3 * seenKept {
		url := fmt.Sprint(topicName, n)
		k := keys("p").topic(url)
		k.partition = 7
		m.saw(k, journal.Head{Topic: url, Version: "v", Last: journal.Anchor{Position: 1}})
	}
	if n := len(m.all(7)); n != seenKept {
		t.Errorf("%d are remembered", n)
	}
}

// Retention, which lists all topics of a partition, does not have a hub forget those
// that are used.
func TestSightsOfUsedTopicsOutliveAList(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	const partition = 7
	var urls []string
	for n := 0; len(urls) < 2*seenKept; n++ {
		if url := fmt.Sprint(topicName, n); s.conn.key.topic(url).partition == partition {
			urls = append(urls, url)
		}
	}
	slices.SortFunc(urls, func(a, b string) int { return cmp.Compare(s.conn.key.topic(a).field, s.conn.key.topic(b).field) })
	used, others := urls[0], urls[1:] // a list begins with it
	pipe := s.conn.client.Pipeline()
	for i, url := range others {
		h := journal.Head{Topic: url, Version: "v", Kind: journal.KindChange, Last: journal.Anchor{Position: journal.Position(i + 1), Seq: 1}}
		pipe.HSet(t.Context(), s.conn.key.topic(url).heads, s.conn.key.topic(url).field, packHead(h, journal.Newest))
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if heads, err := s.Topics(t.Context(), partition, uuid.Nil, len(urls)+1); err != nil || len(heads) < len(others) {
			t.Fatalf("%d topics (%v)", len(heads), err)
		}
		publish(t, s, used, 1)
	}
	if _, err := s.Topics(t.Context(), partition, uuid.Nil, len(urls)+1); err != nil {
		t.Fatal(err)
	}
	if n := len(s.heads.seen.all(partition)); n != seenKept {
		t.Errorf("%d are remembered", n)
	}
	if _, ok := s.heads.seen.all(partition)[s.conn.key.topic(used).id]; !ok {
		t.Error("the one that is used is forgotten")
	}
}

// A partition whose slot moves to another server of a Cluster has another replication
// id there, and lost nothing.
func TestSlotThatMovesLosesNothing(t *testing.T) {
	nodes := redistest.Cluster(t)
	hubs := []*Store{live(t, nodes.URL(), "a", Options{}), live(t, nodes.URL(), "b", Options{})}
	publish(t, hubs[0], topicName, 3)
	slot := nodes.Slot(t, hubs[0].conn.key.topic(topicName).heads)
	from, _ := nodes.Owner(t, slot)
	to := nodes.Servers()[0]
	if to == from {
		to = nodes.Servers()[1]
	}
	nodes.MigrateSlot(t, slot, to)
	publish(t, hubs[1], topicName, 1)
	if h, err := hubs[0].Head(t.Context(), topicName); err != nil || h.Entries != 4 || h.Last.Seq != 4 || len(h.Gaps) > 0 {
		t.Errorf("%+v (%v)", h, err)
	}
	epoch := func(s *Store) uint64 {
		now, err := s.histories.current(t.Context(), s.conn.key.topic(topicName).partition) // hubs may still compare
		if err != nil {
			t.Fatal(err)
		}
		return (pair{history: *now}).epoch()
	}
	if n := epoch(hubs[1]); n != 2 {
		t.Errorf("the partition has the epoch %d", n)
	}
}
