package redisstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
	"github.com/rshub/rshub/websub"
)

// fillUp lets servers exceed their maxmemory from now on.
func fillUp(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	}
}

// Every script runs over maxmemory, or is refused, as its side says.
func TestScriptsKeepToTheirSideOnAFullRedis(t *testing.T) {
	server := redistest.Standalone(t)
	client := admin(t, server.URL())
	fillUp(t, server.Servers())
	if len(scripts) < 20 {
		t.Fatalf("%d scripts", len(scripts))
	}
	for script, of := range scripts {
		// What they make of this does not matter: Redis refuses a script before it runs.
		var keys []string
		var args []any
		for n := range 10 {
			keys, args = append(keys, fmt.Sprint("key", n)), append(args, "1")
		}
		if err := script.Run(t.Context(), client, keys, args...).Err(); errors.Is(err, journal.ErrFull) != (of == grows) {
			t.Errorf("a script with %q: %v:\n%s", of, err, source(script))
		}
	}
}

func source(s *redis.Script) string { return fmt.Sprint(reflect.ValueOf(s).Elem().FieldByName("src")) }

// Whatever is not a script either reads or makes room, so that a full Redis does
// not refuse it, and it is not inside of MULTI, where Redis would. The commands
// of this package are the methods of the client to which its files give a context.
func TestPlainCommandsRunOnAFullRedis(t *testing.T) {
	server := redistest.Standalone(t, redistest.Shared())
	client, found := reflect.TypeFor[redis.UniversalClient](), map[string]bool{}
	for _, call := range callsOfThePackage(t) {
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		context, ok := call.Args[0].(*ast.Ident)
		if _, command := client.MethodByName(f.Sel.Name); command && ok && strings.HasSuffix(strings.ToLower(context.Name), "ctx") {
			found[f.Sel.Name] = true
		}
		if f.Sel.Name == "NewScript" || f.Sel.Name == "Eval" {
			found[f.Sel.Name] = true
		}
	}
	if !found["HGet"] || !found["NewScript"] || len(found) < 10 {
		t.Fatalf("found %v", found)
	}
	for name := range found {
		switch name {
		case "Eval", "Do", "Process", "TxPipelined", "Watch":
			t.Errorf("%s: use newScript", name)
		case "NewScript", "EvalSha": // see TestScriptsKeepToTheirSideOnAFullRedis
		default:
			word := regexp.MustCompile("^[A-Z]+[a-z]*").FindString(name) // CONFIG of ConfigGet
			about, _ := server.Do(t, "COMMAND", "INFO", name, strings.TrimSuffix(name, "N"), word).([]any)
			if text := fmt.Sprint(about...); strings.Contains(text, "denyoom") || !strings.Contains(text, "[") {
				t.Errorf("%s: a full Redis refuses it; use a script, which says on which side it is: %s", name, text)
			}
		}
	}
}

// callsOfThePackage are all calls in its files but those of tests.
func callsOfThePackage(t *testing.T) (calls []*ast.CallExpr) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				calls = append(calls, call)
			}
			return true
		})
	}
	return calls
}

// What a full Redis stores and what it refuses, by each method of the store. That
// of Update depends on the change, so there are several of it.
func TestFullRedis(t *testing.T) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := redistest.Standalone(t)
		fullRedis(t, server.URL(), server.Servers())
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Sentinel(t)
		fullRedis(t, servers.URL(), servers.Data)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Cluster(t)
		fullRedis(t, servers.URL(), servers.Servers())
	})
}

func fullRedis(t *testing.T, url string, servers []*redistest.Server) {
	o := Options{URL: url, Timeout: patience}
	s := openStore(t, o)
	entries := publish(t, s, topicName, 3)
	publish(t, s, topicName+"removed", 1)
	pinged, now, lease := topicName+"pinged", time.Now(), time.Hour
	head, err := s.Head(t.Context(), topicName)
	if err == nil {
		_, err = s.Append(t.Context(), now, topicName, entry(3, incompressible(2*chunkSize)), head.Version)
	}
	err = errors.Join(err, s.Ping(t.Context(), now, []string{pinged}))
	if err != nil {
		t.Fatal(err)
	}
	head, _ = s.Head(t.Context(), topicName)
	ping, _ := s.PingRecord(t.Context(), pinged)
	// Each of these subscriptions has a request that waits as well.
	subs := fill(t, s, 12)
	var requests []subscriptions.Request
	for _, sub := range subs {
		r := requestOf(sub)
		requests = append(requests, r)
		if _, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) { rec.Request = &r; return rec, nil }); err != nil {
			t.Fatal(err)
		}
	}
	// This one was never verified.
	first := subscriptionNo(1000)
	asked := requestOf(first)
	if _, err := s.Update(t.Context(), first.ID, func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{Request: &asked}, nil
	}); err != nil {
		t.Fatal(err)
	}
	commit := func(i int, more func(*subscriptions.Commit)) error {
		c := subscriptions.Commit{ID: subs[i].ID, Cursor: subs[i].Cursor, Attempts: []subscriptions.Attempt{{Number: 1}}}
		c.Cursor.Position++
		more(&c)
		return s.Commit(t.Context(), []subscriptions.Commit{c})
	}
	update := func(id uuid.UUID, change func(*subscriptions.Record)) error {
		_, err := s.Update(t.Context(), id, func(rec subscriptions.Record) (subscriptions.Record, error) {
			change(&rec)
			return rec, nil
		})
		return err
	}
	activate := func(sub subscriptions.Subscription, r subscriptions.Request) error {
		_, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Activate(rec, r.ID, now, now, time.Hour)
		})
		return err
	}
	request := func(sub subscriptions.Subscription) error {
		return update(sub.ID, func(rec *subscriptions.Record) { r := requestOf(sub); rec.Request = &r })
	}
	calls := map[string]func() error{
		"Append":          func() error { _, err := add(t.Context(), s, topicName, "x"); return err },
		"Append, the 1st": func() error { _, err := add(t.Context(), s, topicName+"new", "x"); return err },
		"Append, a large one": func() error {
			h, _ := s.Head(t.Context(), topicName)
			_, err := s.Append(t.Context(), now, topicName, entry(9, incompressible(2*chunkSize)), h.Version)
			return err
		},
		"Restore": func() error {
			return s.Restore(t.Context(), journal.Head{Topic: topicName + "restored", Version: "1"}, nil)
		},
		"Refill": func() error {
			e := entry(9, "x")
			e.ID, e.Position, e.Seq = uuid.New(), 1, 1
			_, err := s.Refill(t.Context(), topicName+"refilled", []journal.Entry{e})
			return err
		},
		"Ping":                    func() error { return s.Ping(t.Context(), now, []string{topicName}) },
		"Update, a new request":   func() error { return request(subscriptionNo(1001)) },
		"Update, a renewal":       func() error { return request(subs[9]) },
		"Update, a renewal waits": func() error { return request(subs[10]) },
		"Update, a 2nd request":   func() error { return request(first) },
		"Update, a subscription": func() error {
			sub := subscriptionNo(1002)
			return update(sub.ID, func(rec *subscriptions.Record) { rec.Subscription = &sub })
		},
		"Room":   func() error { return s.Room(t.Context()) },
		"Ready":  func() error { return s.Ready(t.Context()) },
		"Time":   func() error { _, err := s.Time(t.Context()); return err },
		"Commit": func() error { return commit(0, func(*subscriptions.Commit) {}) },
		"Commit, a gap": func() error {
			return commit(1, func(c *subscriptions.Commit) { c.Gaps = []journal.Gap{{Count: 1, Reason: journal.GapGaveUp}} })
		},
		"Commit, an end": func() error {
			return commit(2, func(c *subscriptions.Commit) { c.End, c.EndedAt, c.Lease = subscriptions.EndGone, now, now })
		},
		"Update, an activation":      func() error { return activate(first, asked) },
		"Update, a verified renewal": func() error { return activate(subs[3], requests[3]) },
		"Update, one more try": func() error {
			return update(subs[4].ID, func(rec *subscriptions.Record) { r := *rec.Request; r.Tries++; rec.Request = &r })
		},
		"Update, a request is done": func() error { return update(subs[5].ID, func(rec *subscriptions.Record) { rec.Request = nil }) },
		"Update, an end": func() error {
			return update(subs[6].ID, func(rec *subscriptions.Record) {
				*rec = subscriptions.End(*rec, subscriptions.EndRemoved, head, now)
				rec.Request = &subscriptions.Request{ID: uuid.New(), Mode: websub.ModeDenied, Topic: subs[6].Topic, Callback: subs[6].Callback, Denied: "ended"}
			})
		},
		"Update, a purge": func() error {
			return update(subs[7].ID, func(rec *subscriptions.Record) { *rec = subscriptions.Record{} })
		},
		"SetFetched":       func() error { return s.SetFetched(t.Context(), ping) },
		"DeletePingRecord": func() error { return s.DeletePingRecord(t.Context(), ping) },
		"RecordGap": func() error {
			return s.RecordGap(t.Context(), topicName, journal.Gap{From: entries[0].From, Until: entries[1].Until, Count: 2, Reason: journal.GapRolledBack, At: now})
		},
		"Reset": func() error {
			h, _ := s.Head(t.Context(), topicName)
			return s.Reset(t.Context(), topicName, h.Version)
		},
		"Remove": func() error {
			h, _ := s.Head(t.Context(), topicName+"removed")
			return s.Remove(t.Context(), topicName+"removed", h.Version)
		},
		"Trim": func() error {
			_, err := s.Trim(t.Context(), topicName, journal.Cut{KeepBytes: 8 * chunkSize, Before: entries[1].ReceivedAt})
			return err
		},

		"Heartbeat": func() error { _, err := s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "new"}, lease); return err },
		"Acquire":   func() error { _, err := s.Leases.Acquire(t.Context(), "new", []int{1, 2, 3}, lease); return err },
		"Renew":     func() error { _, _, err := s.Leases.Renew(t.Context(), "new", []int{1, 2, 3}, lease); return err },
		"Release":   func() error { return s.Leases.Release(t.Context(), "new", []int{1, 2, 3}) },
		"Owners":    func() error { _, err := s.Leases.Owners(t.Context(), []int{1, 2, 3}); return err },

		"Open":            func() error { return reopen(t, o) },
		"Open, a new one": func() error { other := o; other.Prefix = "rshub:new"; return reopen(t, other) },

		"Head": func() error { _, err := s.Head(t.Context(), topicName); return err },
		"Interval": func() error {
			_, err := s.Interval(t.Context(), topicName, entries[2].From, entries[2].Until)
			return err
		},
		"Intervals": func() error { _, err := s.Intervals(t.Context(), topicName); return err },
		"Read":      func() error { _, err := s.Read(t.Context(), topicName, entries[2].Anchor(), 10, 1<<30); return err },
		"Find":      func() error { _, _, err := s.Find(t.Context(), entries[2].ID); return err },
		"Body":      func() error { _, err := s.Body(t.Context(), topicName, entries[2]); return err },
		"Topics": func() error {
			_, err := s.Topics(t.Context(), s.conn.key.topic(topicName).partition, uuid.Nil, 10)
			return err
		},
		"Changes": func() error {
			_, _, err := s.Changes(t.Context(), s.conn.key.topic(topicName).partition, 0)
			return err
		},
		"Note":       func() error { return s.Note(t.Context(), []byte("note")) },
		"Notes":      func() error { _, err := s.Notes(t.Context()); return err },
		"Keep":       func() error { _, err := s.Keep(t.Context(), "name", []byte("value"), time.Hour); return err },
		"Kept":       func() error { _, err := s.Kept(t.Context(), "name"); return err },
		"Drop":       func() error { return s.Drop(t.Context(), "name") },
		"PingRecord": func() error { _, err := s.PingRecord(t.Context(), pinged); return err },
		"PingRecords": func() error {
			_, err := s.PingRecords(t.Context(), s.conn.key.topic(pinged).partition, uuid.Nil, 10)
			return err
		},
		"Get":      func() error { _, err := s.Get(t.Context(), subs[8].ID); return err },
		"List":     func() error { _, err := s.List(t.Context(), subscriptions.Shard(subs[8].ID), uuid.Nil, 10); return err },
		"Changed":  func() error { _, _, err := s.Changed(t.Context(), subscriptions.Shard(subs[8].ID), 0); return err },
		"Attempts": func() error { _, err := s.Attempts(t.Context(), subs[8].ID); return err },
		"Poll":     func() error { _, _, err := s.Poll(t.Context(), map[int]uint64{1: 1}, map[int]uint64{1: 1}); return err },
	}
	refused := []string{
		"Append", "Append, the 1st", "Append, a large one", "Restore", "Refill", "Ping", "Room", "Ready",
		"Update, a new request", "Update, a renewal", "Update, a renewal waits", "Update, a 2nd request", "Update, a subscription",
	}
	asksNothing := []string{"ID", "Close", "Hints", "Space"}
	for _, m := range slices.Concat(slices.Collect(reflect.TypeFor[*Store]().Methods()), slices.Collect(reflect.TypeFor[cluster.Store]().Methods())) {
		known := func(name string) bool { return name == m.Name || strings.HasPrefix(name, m.Name+", ") }
		if !slices.Contains(asksNothing, m.Name) && !slices.ContainsFunc(slices.Collect(maps.Keys(calls)), known) {
			t.Errorf("what does %s do on a full Redis?", m.Name)
		}
	}

	fillUp(t, servers)
	eventually(t, "the high water", func() bool { return errors.Is(s.memory.full(), journal.ErrFull) })
	for _, noticed := range []bool{true, false} {
		for _, name := range refused {
			if !noticed { // Redis has to refuse by itself
				if name == "Room" || name == "Ready" {
					continue
				}
				s.memory.most.Store(0)
			}
			if err := calls[name](); !errors.Is(err, journal.ErrFull) {
				t.Errorf("%s, with the high water noticed: %v: %v, want ErrFull", name, noticed, err)
			}
		}
	}
	for name, call := range calls {
		if !slices.Contains(refused, name) {
			if err := call(); err != nil {
				t.Errorf("%s on a full Redis: %v", name, err)
			}
		}
	}
	if sub := get(t, s, first.ID); sub.Subscription == nil || sub.Request != nil {
		t.Errorf("what was verified on a full Redis is stored as %+v", sub)
	}
	if sub := get(t, s, subs[1].ID); len(sub.Subscription.Gaps) != 1 {
		t.Errorf("what was passed over on a full Redis is stored as %+v", sub)
	}
	o.Keys = sealKeys(t, 1)
	if err := reopen(t, o); err != nil {
		t.Errorf("Open, which seals the secrets, on a full Redis: %v", err)
	}
}

// incompressible is a body of n bytes.
func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

// Requests that Redis itself refuses, before the hub noticed how full it is, leave
// nothing behind: neither new ones, nor renewals.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: patience})
	subs := fill(t, s, 100)
	used := func() int64 {
		info, err := s.conn.client.Info(t.Context(), "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		used, _ := memoryOf(info)
		return used
	}
	const workers, each = 8, 600
	ask := func(n int) error {
		sub := subscriptionNo(n)
		if n%3 == 0 {
			sub = subs[n%len(subs)]
		}
		s.memory.most.Store(0)
		_, err := s.Update(t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
			r := requestOf(sub)
			rec.Request = &r
			return rec, nil
		})
		return err
	}
	fillUp(t, server.Servers())
	_ = ask(1000) // the script is known now
	before := used()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := range each {
				if err := ask(1000 + w*each + n); !errors.Is(err, journal.ErrFull) {
					t.Errorf("a request: %v, want ErrFull", err)
					return
				}
			}
		})
	}
	all.Wait()
	if grown := used() - before; grown >= 1<<20 {
		t.Errorf("Redis grew by %d bytes by %d requests", grown, workers*each)
	}
	if requests, err := s.conn.client.Keys(t.Context(), s.conn.key.slot("*", "requests:*")).Result(); err != nil || len(requests) > 0 {
		t.Errorf("left are %q, %v", requests, err)
	}
}

// requestOf is a request for what a subscription is.
func requestOf(s subscriptions.Subscription) subscriptions.Request {
	return subscriptions.Request{ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: s.Topic, Callback: s.Callback, Secret: "another", Lease: time.Hour, AcceptedAt: time.Now()}
}

// reopen opens a store beside others and closes it.
func reopen(t *testing.T, o Options) error {
	s, err := Open(t.Context(), o)
	if err != nil {
		return err
	}
	return s.Close()
}
