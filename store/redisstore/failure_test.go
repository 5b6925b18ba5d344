package redisstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

const topicName = "https://source.example/changes/"

// entry is the i-th notification of a topic, over the i-th second.
func entry(i int, body string) journal.Entry {
	from := time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC)
	return journal.Entry{
		From: from, Until: from.Add(time.Second), Kind: journal.KindChange, MediaType: "application/xml",
		SHA256: sha256.Sum256([]byte(body)), Body: []byte(body),
	}
}

// add appends the next notification of a topic.
func add(ctx context.Context, s *Store, topic, body string) (journal.Entry, error) {
	h, err := s.Head(ctx, topic)
	if err != nil {
		return journal.Entry{}, err
	}
	return s.Append(ctx, time.Now(), topic, entry(int(h.Last.Seq), body), h.Version)
}

// publish appends n notifications, and tries each until it is stored.
func publish(t testing.TB, s *Store, topic string, n int) []journal.Entry {
	t.Helper()
	var out []journal.Entry
	for i := range n {
		eventually(t, "an append", func() bool {
			e, err := add(t.Context(), s, topic, fmt.Sprint("body ", i))
			if err == nil {
				out = append(out, e)
			}
			return err == nil
		})
	}
	return out
}

func read(t testing.TB, s *Store, topic string, after journal.Anchor) []journal.Entry {
	t.Helper()
	got, err := s.Read(t.Context(), topic, after, 10_000, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Invariant 1: what was acknowledged is there after a SIGKILL of Redis, and what
// was not is there once or not at all.
func TestKilledRedisKeepsWhatWasAcknowledged(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: patience})
	const writers = 8
	var done atomic.Bool
	var acked [writers][]journal.Entry
	var refused atomic.Int64
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; !done.Load(); i++ {
				e, err := add(t.Context(), s, fmt.Sprint(topicName, w), strings.Repeat(fmt.Sprint(i), 200))
				switch {
				case err == nil:
					acked[w] = append(acked[w], e)
				case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrHeadMoved):
					t.Errorf("an append to a Redis that was killed: %v", err)
				default:
					refused.Add(1)
				}
			}
		})
	}
	for round := range int64(2) {
		publish(t, s, topicName+"before", 50) // so that the writers are in the middle of it
		server.Kill(t)
		eventually(t, "an append that fails", func() bool { return refused.Load() > round*writers })
		server.Restart(t)
	}
	after := publish(t, s, topicName+"after", 1)
	done.Store(true)
	all.Wait()
	for w := range writers {
		topic := fmt.Sprint(topicName, w)
		got := read(t, s, topic, journal.Anchor{})
		seen := map[string]int{}
		for i, e := range got {
			seen[string(e.ID[:])]++
			if e.Seq != uint64(i)+1 {
				t.Errorf("%s: seq %d at place %d", topic, e.Seq, i)
			}
		}
		for _, e := range acked[w] {
			if seen[string(e.ID[:])] != 1 {
				t.Errorf("%s: seq %d was acknowledged, and is there %d times", topic, e.Seq, seen[string(e.ID[:])])
			}
		}
	}
	if got := read(t, s, topicName+"after", journal.Anchor{}); len(got) == 0 || got[len(got)-1].ID != after[0].ID {
		t.Errorf("an append after the restart is not there")
	}
}

// A Redis that accepts connections and does not answer causes an error within the time in
// which a publish has to be answered. What was sent to it meanwhile is not stored when it goes on.
func TestFrozenRedisIsNoticedSoon(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL()})
	publish(t, s, topicName, 1)
	var h journal.Head
	eventually(t, "a head", func() (there bool) {
		var err error
		h, err = s.Head(t.Context(), topicName)
		return err == nil
	})
	server.Freeze(t)
	soon := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := s.Append(ctx, time.Now(), topicName, entry(1, "x"), h.Version)
		return errors.Is(err, ErrAway) && ctx.Err() == nil
	}
	for tries := 1; !soon(); tries++ { // the machine may be busy for once
		if tries == 3 {
			t.Fatal("Append does not return ErrAway before 2 s")
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Head(short, topicName); !errors.Is(err, ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Head for a caller with less time: %v", err)
	}
	server.Continue(t)
	eventually(t, "an answer", func() bool { _, err := s.Head(t.Context(), topicName); return err == nil })
	server.Do(t, "PING") // it has read what was sent before
	if now, err := s.Head(t.Context(), topicName); err != nil || now.Version != h.Version {
		t.Errorf("the topic has %d entries, %v", now.Last.Seq, err)
	}
	server.Kill(t)
	if _, err := s.Head(t.Context(), topicName); !errors.Is(err, ErrAway) {
		t.Errorf("Head of a Redis that is gone: %v", err)
	}
	if _, err := Open(t.Context(), Options{URL: server.URL()}); !errors.Is(err, ErrAway) {
		t.Errorf("Open of a Redis that is gone: %v", err)
	}
	server.Restart(t)
	publish(t, s, topicName, 1) // all by itself
}

// Invariant 5: a replica is promoted that lacks the tail.
func TestLostTailIsNoticed(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Sentinel(t)
		lostTail(t, servers.URL(), servers.Data, func(write func()) { servers.LoseTail(t, write) })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Cluster(t, redistest.Replicas(1))
		key, err := newKeys("")
		if err != nil {
			t.Fatal(err)
		}
		slot := servers.Slot(t, key.topic(topicName).heads)
		master, replicas := servers.Owner(t, slot)
		lostTail(t, servers.URL(), append(replicas, master), func(write func()) { servers.LoseTail(t, slot, write) })
	})
}

// failoverTimeout is for a command, such that a busy machine answers in time, and
// one to a server that is gone leaves time for others.
const failoverTimeout = 10 * time.Second

func lostTail(t *testing.T, url string, servers []*redistest.Server, loseTail func(write func())) {
	s := openStore(t, Options{URL: url, Timeout: failoverTimeout})
	kept := publish(t, s, topicName, 5)
	_, since, err := s.Changes(t.Context(), s.conn.key.topic(topicName).partition, 0)
	if err != nil {
		t.Fatal(err)
	}
	replicated(t, servers)
	var lost []journal.Entry
	loseTail(func() { lost = publish(t, s, topicName, 3) })

	other := openStore(t, Options{URL: url, Timeout: failoverTimeout}) // a hub that saw nothing of it
	for _, hub := range []*Store{s, other} {
		eventually(t, "the new master", func() bool {
			h, err := hub.Head(t.Context(), topicName)
			return err == nil && h.Last == kept[4].Anchor()
		})
	}
	check := func() {
		for i, e := range lost {
			var got []journal.Entry
			eventually(t, "a hub that has compared", func() bool {
				got, err = s.Read(t.Context(), topicName, e.Anchor(), 10, 1<<20)
				return !errors.Is(err, errUnreconciled)
			})
			if !errors.Is(err, journal.ErrRolledBack) {
				t.Errorf("reading on after lost entry %d gave %d entries and the error %v, want ErrRolledBack", i, len(got), err)
			}
		}
	}
	check()
	// The Source sends them again, through either hub, and one more.
	var again []journal.Entry
	for _, hub := range []*Store{s, other, s, other} {
		again = append(again, publish(t, hub, topicName, 1)...)
	}
	check()
	if got := read(t, s, topicName, kept[4].Anchor()); len(got) != 4 || got[3].ID != again[3].ID {
		t.Errorf("%d entries after the newest that both have", len(got))
	}
	if again[0].Position <= lost[2].Position {
		t.Errorf("position %d was given before, to an entry that was lost at %d", again[0].Position, lost[2].Position)
	}
	topics, _, err := s.Changes(t.Context(), s.conn.key.topic(topicName).partition, since)
	if err != nil || len(topics) != 1 {
		t.Errorf("the changes since before: %v (%v)", topics, err)
	}
}

// replicated waits until a master and its replicas have the same.
func replicated(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	eventually(t, "the replicas", func() bool {
		offsets := map[string]bool{}
		for _, s := range servers {
			info, _ := s.Do(t, "INFO", "replication").(string)
			for line := range strings.Lines(info) {
				if offset, ok := strings.CutPrefix(line, "master_repl_offset:"); ok {
					offsets[offset] = true
				}
			}
		}
		return len(offsets) == 1
	})
}

// cutter is a proxy before Redis that can lose answers.
type cutter struct {
	listener net.Listener
	to       string
	lose     atomic.Int64 // how many answers are to be lost, with their connections
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{listener: l, to: to}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.to) //nolint:noctx // ends with the test
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var began atomic.Bool // whether the script that is looked for was sent
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := client.Read(b)
			if err != nil {
				_ = server.Close()
				return
			}
			if strings.Contains(string(b[:n]), appendScript.Hash()) {
				began.Store(true)
			}
			_, _ = server.Write(b[:n])
		}
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil || began.Swap(false) && c.lose.Add(-1) >= 0 {
			return
		}
		_, _ = client.Write(b[:n])
	}
}

// An append succeeded, and its answer was lost. If the client can send it again, Append
// succeeds. If it cannot, the result is unknown. It never says that another hub moved the
// head.
func TestLostAnswerIsNoMovedHead(t *testing.T) {
	server := redistest.Standalone(t, redistest.Shared())
	proxy := startCutter(t, server.Addr())
	s := openStore(t, Options{URL: "redis://" + proxy.listener.Addr().String(), Prefix: freshPrefix()})
	entries := publish(t, s, topicName, 2)

	proxy.lose.Store(1)
	e, err := add(t.Context(), s, topicName, "once")
	if err != nil || e.Seq != 3 {
		t.Errorf("an append whose first answer was lost: seq %d, %v", e.Seq, err)
	}
	proxy.lose.Store(1000)
	if _, err := add(t.Context(), s, topicName, "lost for good"); err == nil || errors.Is(err, journal.ErrHeadMoved) || errors.Is(err, journal.ErrFull) {
		t.Errorf("an append whose answers were all lost: %v", err)
	}
	proxy.lose.Store(0)
	got := read(t, s, topicName, entries[1].Anchor())
	if len(got) != 2 || got[0].ID != e.ID || string(got[1].Body) != "lost for good" {
		t.Errorf("%d entries are there", len(got))
	}
}

func TestHighWaterIsRefused(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: patience})
	entries := publish(t, s, topicName, 20)
	refused := func(full bool) func() bool {
		return func() bool {
			_, err := add(t.Context(), s, topicName, "x")
			pingErr := s.Ping(t.Context(), time.Now(), []string{topicName})
			return errors.Is(err, journal.ErrFull) == full && errors.Is(pingErr, journal.ErrFull) == full
		}
	}
	used := func() int64 {
		info, err := s.conn.client.Info(t.Context(), "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		used, _ := memoryOf(info)
		return used
	}
	limit := func(bytes int64) { server.Do(t, "CONFIG", "SET", "maxmemory", fmt.Sprint(bytes)) }

	limit(used() * 106 / 100)
	eventually(t, "the high water", func() bool { return errors.Is(s.memory.full(), journal.ErrFull) })
	if !refused(true)() {
		t.Errorf("an append or a ping over 90 %% of the maxmemory is accepted")
	}
	if err := s.conn.client.Set(t.Context(), "beside", "x", 0).Err(); err != nil {
		t.Errorf("it was not the high water that refused: %v", err)
	}
	limit(used() * 2)
	eventually(t, "appends below 90 %", refused(false))

	// Before Redis was asked how full it is, it says so itself.
	limit(1 << 20)
	s.memory.most.Store(0)
	if _, err := add(t.Context(), s, topicName, "x"); !errors.Is(err, journal.ErrFull) {
		t.Errorf("an append at the maxmemory: %v", err)
	}
	h, err := s.Trim(t.Context(), topicName, journal.Cut{KeepBytes: 0})
	if err != nil || h.Entries != 0 {
		t.Errorf("a trim at the maxmemory: %d entries are left, %v", h.Entries, err)
	}
	limit(0)
	eventually(t, "appends without a maxmemory", refused(false))
	if _, err := s.Read(t.Context(), topicName, entries[0].Anchor(), 1, 1); !errors.As(err, new(*journal.TrimmedError)) {
		t.Errorf("reading what was trimmed: %v", err)
	}
}
