package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// A Sentinel that does not know the master answers with Nil, with which Redis says that there is no such key. A hub that
// has to connect again then finds nothing, and must not take that for an empty store.
func TestSentinelsThatKnowNoMaster(t *testing.T) {
	redis := redistest.Sentinel(t)
	s, err := openPinned(t, redis.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	stored := publish(t, s, topicName, 1)
	master := redis.Master(t)
	for _, m := range redis.Monitors {
		m.Do(t, "SENTINEL", "REMOVE", "rshub")
	}
	master.Do(t, "CLIENT", "KILL", "TYPE", "normal")

	for name, ask := range map[string]func() error{
		"Head":   func() error { _, err := s.Head(t.Context(), topicName); return err },
		"Find":   func() error { _, _, err := s.Find(t.Context(), stored[0].ID); return err },
		"a body": func() error { _, err := s.reader.readChunks(t.Context(), stored[0], 1); return err },
		"Kept":   func() error { _, err := s.Kept(t.Context(), "key"); return err },
	} {
		if err := ask(); !errors.Is(err, ErrAway) || errors.Is(err, journal.ErrNotFound) || !strings.Contains(err.Error(), "know no master") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever keeps a hub from working on a Redis, the error says where that Redis is and what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	server := redistest.Standalone(t, redistest.Config("maxclients", "1000"))
	allow(t, server.Servers(), "hub", "password", aclRules)
	url, encrypted := as(server.URL(), "hub", "password"), redistest.Standalone(t, redistest.TLS())
	for name, tc := range map[string]struct {
		url, prefix, want string
		refused           bool
	}{
		"a wrong password":      {as(server.URL(), "hub", "wrong"), "rshub", "needs the user and the password", false},
		"another prefix":        {url, "other", "~other:* and &other:*", true},
		"no Cluster":            {strings.Replace(url, "redis:", "redis+cluster:", 1), "rshub", "begin the Redis URL with redis://", false},
		"a number out of range": {url + "/99", "rshub", "out of range", false},
		"no TLS":                {strings.Replace(encrypted.URL(), "rediss:", "redis:", 1), "rshub", "have reached its maxclients); if it accepts only TLS, write rediss", false},
		"no Sentinel":           {strings.Replace(url, "redis:", "redis+sentinel:", 1) + "/name", "rshub", "unknown command 'sentinel'", false},
	} {
		_, err := openPinned(t, tc.url, tc.prefix, "", false)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), " at redis") || errors.Is(err, ErrRefused) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A server without TLS waits for the rest of what it takes for a line.
	plain := strings.Replace(server.URL(), "redis:", "rediss:", 1)
	_, err := Open(t.Context(), Options{URL: plain, Timeout: time.Second / 2})
	if err == nil || !strings.Contains(err.Error(), "; if it does not speak TLS, write redis") {
		t.Errorf("TLS without need: %v", err)
	}
}

// If Redis refuses a new connection, commands that are sent in groups fail like all others, and say why. The client gives
// them no error, so they looked as if they had succeeded. No command gets an answer then, so that callers need not go on
// with the next topic.
func TestGroupsOfCommandsFailWithTheirConnection(t *testing.T) {
	server, nodes := redistest.Standalone(t), redistest.Cluster(t)
	for url, servers := range map[string][]*redistest.Server{server.URL(): server.Servers(), nodes.URL(): nodes.Servers()} {
		allow(t, servers, "hub", "password", aclRules)
		s, err := openPinned(t, as(url, "hub", "password"), "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		shards := []int{1, 2}
		if got, err := s.Leases.Acquire(t.Context(), "a", shards, time.Minute); err != nil || len(got) != len(shards) {
			t.Fatalf("acquired %v, %v", got, err)
		}
		sub := subscriptionNo(1)
		set(t, s, sub.ID, subscriptions.Record{Subscription: &sub})
		allow(t, servers, "hub", "another", aclRules)
		for _, s := range servers {
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		}

		known := map[int]uint64{1: 1}
		for name, ask := range map[string]func() error{
			"Renew":   func() error { _, _, err := s.Leases.Renew(t.Context(), "a", shards, time.Minute); return err },
			"Release": func() error { return s.Leases.Release(t.Context(), "a", shards) },
			"Poll":    func() error { _, _, err := s.Poll(t.Context(), known, known); return err },
			"Commit":  func() error { return s.Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID}}) },
			"Head":    func() error { _, err := s.Head(t.Context(), topicName); return err },
		} {
			if err := ask(); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "needs the user and the password") {
				t.Errorf("%s at %s: %v", name, url, err)
			}
		}
	}
}

// A connection that breaks before the client has introduced itself, as at a proxy whose Redis fails over, is one more
// connection that broke: the client tries again with another one.
func TestConnectionsThatBreakAtOnceAreTriedAgain(t *testing.T) {
	server := redistest.Standalone(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	var breaks atomic.Int32
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if breaks.Add(-1) >= 0 {
				_, _ = c.Read(make([]byte, 1024)) // HELLO
				_ = c.Close()
				continue
			}
			go forward(c, server.Addr())
		}
	}()
	for database, name := range map[string]string{"": "HELLO", "/3": "HELLO and SELECT"} {
		s, err := openPinned(t, "redis://"+listener.Addr().String()+database, "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			breaks.Store(1)
			server.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			if _, err := s.Head(t.Context(), topicName); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A server of a Cluster that does not answer is away, also for questions to each server.
func TestFrozenServerOfACluster(t *testing.T) {
	nodes := redistest.Cluster(t, redistest.Steady())
	s := openStore(t, Options{URL: nodes.URL(), Timeout: patience})
	master, _ := nodes.Owner(t, 0)
	master.Freeze(t)
	defer master.Continue(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.conn.inspect(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("inspect: %v", err)
	}
}

// A server of a Cluster that does not answer fails nothing that the other servers have answered in the same round trip. Else
// the hubs would lose all their leases to one server.
func TestFrozenServerOfAClusterFailsNoOthers(t *testing.T) {
	nodes := redistest.Cluster(t, redistest.Steady())
	s := openStore(t, Options{URL: nodes.URL(), Prefix: freshPrefix(), Timeout: 2 * time.Second})
	const owner = "a"
	var all, others []int
	frozen, _ := nodes.Owner(t, nodes.Slot(t, s.conn.key.owners(0)))
	for shard := range cluster.Shards {
		all = append(all, shard)
		if master, _ := nodes.Owner(t, nodes.Slot(t, s.conn.key.owners(shard))); master != frozen {
			others = append(others, shard)
		}
	}
	if got, err := s.Leases.Acquire(t.Context(), owner, all, time.Hour); err != nil || len(got) != len(all) {
		t.Fatalf("%d leases of %d, %v", len(got), len(all), err)
	}
	onFrozen := subscriptionNo(0).ID
	for i := 1; slices.Contains(others, subscriptions.Shard(onFrozen)); i++ {
		onFrozen = subscriptionNo(i).ID
	}
	frozen.Freeze(t)
	defer frozen.Continue(t)
	kept, lost, err := s.Leases.Renew(t.Context(), owner, all, time.Hour)
	slices.Sort(kept)
	if !slices.Equal(kept, others) || len(others) == 0 || lost != nil || !errors.Is(err, ErrAway) {
		t.Errorf("%d leases of %d were renewed, %d are lost: %v", len(kept), len(others), len(lost), err)
	}
	// If the others were not asked, nobody knows whether they are away too.
	var alone *subscriptions.CommitError
	if err := s.Commit(t.Context(), []subscriptions.Commit{{ID: onFrozen, Cursor: subscriptionNo(0).Cursor}}); !errors.As(err, &alone) || !errors.Is(err, ErrAway) {
		t.Errorf("a commit for a subscription of the frozen server: %v", err)
	}
}

// forward connects c to a server.
func forward(c net.Conn, addr string) {
	defer func() { _ = c.Close() }()
	server, err := net.Dial("tcp", addr) //nolint:noctx // it is on this machine
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}

// A Redis that answers and accepts no writes is not ready, from its first refusal on.
func TestRedisThatAcceptsNoWritesIsNotReady(t *testing.T) {
	server, other := redistest.Standalone(t), redistest.Standalone(t)
	s, err := openPinned(t, server.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	ready := func() bool { return s.Ready(t.Context()) == nil }
	eventually(t, "a store that is ready", ready)
	host, port, _ := strings.Cut(other.Addr(), ":")
	for _, tc := range []struct {
		change []any
		want   string
	}{
		{[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, "start or repair a replica"},
		{[]any{"CONFIG", "SET", "min-replicas-to-write", "0"}, ""},
		{[]any{"REPLICAOF", host, port}, "name the master"},
	} {
		server.Do(t, tc.change...)
		if tc.want == "" {
			eventually(t, "a store that is ready again", ready)
			continue
		}
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ready: %v, want %q", err, tc.want)
		}
		if _, err := openPinned(t, server.URL(), "", "", false); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("at the start: %v, want %q", err, tc.want)
		}
	}
}
