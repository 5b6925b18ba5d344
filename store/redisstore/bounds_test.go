package redisstore

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// Invariant 12.
func TestRememberedIntervalsAreBounded(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	publish(t, s, topicName, journal.Remembered+11)
	n, err := s.conn.client.LLen(t.Context(), s.conn.key.topic(topicName).intervals).Result()
	if err != nil || n < journal.Remembered || n > journal.Remembered+7 {
		t.Errorf("%d intervals are kept (%v)", n, err)
	}
}

// Invariant 5: a position that this hub saw is not given again, though Redis
// forgot it and the clock is behind it.
func TestPositionsOfALostTailAreNotUsedAgain(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	kept := publish(t, s, topicName, 1)[0]
	restore, err := snapshot(t.Context(), s.conn.client, string(s.conn.key))
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Head(t.Context(), topicName)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.Append(t.Context(), time.Now().Add(time.Hour), topicName, entry(1, "x"), h.Version)
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	again := publish(t, s, topicName, 1)[0]
	if again.Position <= lost.Position || again.Seq != lost.Seq {
		t.Errorf("position %d and seq %d, after a lost one with %d and %d", again.Position, again.Seq, lost.Position, lost.Seq)
	}
	if _, err := s.Read(t.Context(), topicName, lost.Anchor(), 1, 1); !errors.Is(err, journal.ErrRolledBack) {
		t.Errorf("reading on after the lost entry: %v", err)
	}
	if got := read(t, s, topicName, kept.Anchor()); len(got) != 1 || got[0].ID != again.ID {
		t.Errorf("%d entries", len(got))
	}
}

// However much is done at once, a server has poolSize connections of a hub at most.
func TestConnectionsAreBounded(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Prefix: freshPrefix(), Timeout: patience})
	server.Freeze(t)
	var wg sync.WaitGroup
	for n := range 4 * poolSize {
		wg.Go(func() {
			if n%2 == 0 {
				_ = s.conn.client.Ping(t.Context()).Err() // what it answers is no matter
				return
			}
			pipe := s.conn.client.Pipeline()
			pipe.Ping(t.Context())
			_, _ = pipe.Exec(t.Context())
		})
	}
	time.Sleep(time.Second)
	server.Continue(t)
	wg.Wait()
	clients, err := s.conn.client.ClientList(t.Context()).Result()
	if n := strings.Count(clients, "\n"); err != nil || n == 0 || n > poolSize {
		t.Errorf("%d connections, of %d that may be (%v)", n, poolSize, err)
	}
}

// HUB-60: no ping of two hubs is lost.
func TestPingsOfTwoHubsAreAllCounted(t *testing.T) {
	eachTopology(t, func(t *testing.T, url string) {
		prefix := freshPrefix()
		const each, workers = 10, 3
		var all sync.WaitGroup
		for range 2 {
			s := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
			for range workers {
				all.Go(func() {
					for range each {
						if err := s.Ping(t.Context(), time.Now(), []string{topicName}); err != nil {
							t.Errorf("Ping: %v", err)
						}
					}
				})
			}
		}
		all.Wait()
		s := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
		m, err := s.PingRecord(t.Context(), topicName)
		if err != nil || m.Pings != 2*workers*each {
			t.Errorf("%d pings are counted, want %d (%v)", m.Pings, 2*workers*each, err)
		}
	})
}

// A script never replaces another value than the one that was read, and says so;
// run twice, it is done once.
func TestScriptsCompareWhatTheyReplace(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	k := s.conn.key.topic(topicName)
	publish(t, s, topicName, 2)
	h, err := s.heads.read(t.Context(), k, topicName)
	if err != nil {
		t.Fatal(err)
	}
	stale := packHead(h.Head, journal.Newest)[1:headAnchorFrom] // of no record
	next := packHead(h.Head, journal.Newest)
	swap := func(revision string) map[string]func() (swapped, error) {
		was := headRecord{Head: h.Head, revision: revision}
		try := func(script *redis.Script, c call) func() (swapped, error) {
			return func() (swapped, error) { return readSwapped(s.conn.run(t.Context(), script, c.keys, c.args...)) }
		}
		announcing := func(keys []string, args ...any) call { return s.watcher.announcing(k, was, next).with(keys, args...) }
		return map[string]func() (swapped, error){
			"headScript":    try(headScript, replacing(k, was, next)),
			"restoreScript": try(restoreScript, announcing([]string{k.intervals})),
			"regainScript":  try(regainScript, announcing(nil)),
			"removeScript":  try(removeScript, announcing([]string{k.intervals, s.conn.key.partition(k.partition, namePings)}, newRevision())),
			"trimScript":    try(trimScript, replacing(k, was, next).with([]string{k.entries, k.ids}, "1-0")),
		}
	}
	for _, revision := range []string{stale, ""} {
		for name, run := range swap(revision) {
			answer, err := run()
			if got, openErr := openHead(answer.other, topicName); answer.stored || err != nil || openErr != nil || got.revision != h.revision {
				t.Errorf("%s onto another revision: stored %t, %v, %v", name, answer.stored, err, openErr)
			}
		}
	}
	if got := read(t, s, topicName, journal.Anchor{}); len(got) != 2 {
		t.Errorf("%d entries", len(got))
	}
	for range 2 {
		for name, run := range swap(h.revision) {
			if answer, err := run(); !answer.stored || err != nil {
				t.Errorf("%s, which may have run before: stored %t, %v", name, answer.stored, err)
			}
		}
	}
}

// A full Redis accepts cursors, which need no more room than before, so that
// what it has is still delivered.
func TestFullRedisAcceptsCursors(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: patience})
	sub := subscriptionNo(1)
	set(t, s, sub.ID, subscriptions.Record{Subscription: &sub})
	server.Do(t, "CONFIG", "SET", "maxmemory", "1048576")
	t.Cleanup(func() { server.Do(t, "CONFIG", "SET", "maxmemory", "0") })
	c := sub.Cursor
	c.Position++
	if err := s.Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID, Cursor: c}}); err != nil {
		t.Error(err)
	}
	if rec, err := s.Get(t.Context(), sub.ID); err != nil || rec.Subscription.Cursor.Position != c.Position {
		t.Errorf("%+v, %v", rec.Subscription, err)
	}
}
