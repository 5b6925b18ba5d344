package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/test/redistest"
)

// topologies are the three kinds of Redis, by what starts one that the tests of
// this package share.
var topologies = map[string]func(t testing.TB) string{
	"standalone": func(t testing.TB) string { return redistest.Standalone(t, redistest.Shared()).URL() },
	"sentinel":   func(t testing.TB) string { return redistest.Sentinel(t, redistest.Shared()).URL() },
	"cluster":    func(t testing.TB) string { return redistest.Cluster(t, redistest.Shared()).URL() },
}

// eachTopology runs a test on every kind of Redis.
func eachTopology(t *testing.T, test func(t *testing.T, url string)) {
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// patience is how long tests wait for what has to come, and for a Redis that has
// few of the machine's cores.
const patience = time.Minute

var prefixesUsed atomic.Int64

// freshPrefix is one that no other test uses.
func freshPrefix() string { return fmt.Sprintf("rshub:test%d", prefixesUsed.Add(1)) }

// openStore opens a store that is closed at the end of the test, with its keys
// deleted.
func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// admin is a client beside the stores.
func admin(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	parsed, err := parseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := connect(parsed, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keysOf returns all keys with a prefix.
func keysOf(ctx context.Context, client redis.UniversalClient, prefix string) (keys []string, err error) {
	var mu sync.Mutex
	scan := func(ctx context.Context, server redis.Cmdable) error {
		it := server.Scan(ctx, 0, prefix+":*", 10_000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, client)
	}
	return keys, err
}

// snapshot returns what puts all keys with a prefix back as they are now. No key of
// the snapshot is absent meanwhile: a Store that misses its id even once writes nothing more.
func snapshot(ctx context.Context, client redis.UniversalClient, prefix string) (restore func() error, err error) {
	names, err := keysOf(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	dumps := map[string]string{}
	for _, name := range names {
		if dumps[name], err = client.Dump(ctx, name).Result(); err != nil {
			return nil, err
		}
	}
	return func() error {
		names, err := keysOf(ctx, client, prefix)
		for _, name := range names {
			if _, ok := dumps[name]; err == nil && !ok {
				err = client.Del(ctx, name).Err()
			}
		}
		for name, dump := range dumps {
			if err == nil {
				err = client.RestoreReplace(ctx, name, 0, dump).Err()
			}
		}
		return err
	}, err
}

// everything returns the keys with a prefix, and all that is in them.
func everything(ctx context.Context, client redis.UniversalClient, prefix string) ([]byte, error) {
	names, err := keysOf(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, name := range names {
		kind, err := client.Type(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		var value any
		switch kind {
		case "string":
			value, err = client.Get(ctx, name).Result()
		case "hash":
			value, err = client.HGetAll(ctx, name).Result()
		case "list":
			value, err = client.LRange(ctx, name, 0, -1).Result()
		case "set":
			value, err = client.SMembers(ctx, name).Result()
		case "zset":
			value, err = client.ZRange(ctx, name, 0, -1).Result()
		case "stream":
			value, err = client.XRange(ctx, name, "-", "+").Result()
		default:
			err = fmt.Errorf("the key %s is of the kind %s", name, kind)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&all, name, value)
	}
	return []byte(all.String()), nil
}

// damage damages an entry in Redis.
func damage(ctx context.Context, client redis.UniversalClient, s *Store, topic string, e journal.Entry, d storetest.Damage) error {
	entries, body, id := s.conn.key.topic(topic).entries, s.conn.key.body(e.ID), streamID(e.Anchor())
	if n, err := client.Exists(ctx, body).Result(); err != nil {
		return err
	} else if n == 1 && d >= storetest.DamagedBody {
		switch d {
		case storetest.DamagedBody:
			part, err := client.HGet(ctx, body, "1").Bytes()
			part[len(part)/2] ^= 1
			return errors.Join(err, client.HSet(ctx, body, "1", part).Err())
		case storetest.ShortBody:
			part, err := client.HGet(ctx, body, "1").Result()
			return errors.Join(err, client.HSet(ctx, body, "1", part[1:]).Err())
		default:
			return client.HDel(ctx, body, "1").Err()
		}
	}
	page, err := client.XRange(ctx, entries, "-", "+").Result()
	if err != nil {
		return err
	}
	// A stream accepts no entry before another, so write it again as a whole.
	if err := client.Del(ctx, entries).Err(); err != nil {
		return err
	}
	for _, m := range page {
		packed, _ := m.Values["e"].(string)
		stored, _ := m.Values["b"].(string)
		switch {
		case m.ID != id:
		case d == storetest.MissingEntry:
			continue
		case d == storetest.DamagedEntry:
			packed = packed[:len(packed)/2]
		default:
			stored = stored[:len(stored)-1] + "\x00"
		}
		values := []any{"e", packed, "s", m.Values["s"]}
		if chunks, ok := m.Values["c"]; ok {
			values = append(values, "c", chunks)
		} else {
			values = append(values, "b", stored)
		}
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: entries, ID: m.ID, Values: values}).Err(); err != nil {
			return err
		}
	}
	return nil
}

// harness is a store under its own prefix.
func harness(t *testing.T, url string, keys *seal.Keys) *storetest.Harness {
	return harnessOf(t, url, url, keys)
}

// harnessOf is one whose tests get at Redis by another URL than the store.
func harnessOf(t *testing.T, url, adminURL string, keys *seal.Keys) *storetest.Harness {
	client, prefix := admin(t, adminURL), freshPrefix()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		names, _ := keysOf(ctx, client, prefix)
		for _, name := range names {
			_ = client.Unlink(ctx, name).Err() // if that fails, the key does no harm
		}
	})
	s := openStore(t, Options{URL: url, Prefix: prefix, Keys: keys, Timeout: patience})
	t.Cleanup(func() { _ = s.Close() }) // whichever it is by then
	reconciled := func() bool { return s.histories.check() == nil }
	eventually(t, "a reconciled store", reconciled) // a busy machine may need longer than Append waits
	reopenWith := func(with *seal.Keys) (storetest.Store, error) {
		if err := s.Close(); err != nil {
			return nil, err
		}
		again, err := Open(ctx, Options{URL: url, Prefix: prefix, Keys: with, Timeout: patience})
		if err != nil {
			return nil, err
		}
		s = again
		eventually(t, "a reconciled store", reconciled)
		return s, nil
	}
	reopen := func() (storetest.Store, error) { return reopenWith(keys) }
	return &storetest.Harness{
		Store:  s,
		Reopen: reopen,
		Snapshot: func() (func() (storetest.Store, error), error) {
			restore, err := snapshot(ctx, client, prefix)
			if err != nil {
				return nil, err
			}
			return func() (storetest.Store, error) {
				if err := s.Close(); err != nil {
					return nil, err
				}
				if err := restore(); err != nil {
					return nil, err
				}
				return reopen()
			}, nil
		},
		Damage: func(topic string, e journal.Entry, d storetest.Damage) error {
			return damage(ctx, client, s, topic, e, d)
		},
		Sealing: &storetest.Sealing{
			Reopen: reopenWith,
			Stored: func() ([]byte, error) { return everything(ctx, client, prefix) },
		},
	}
}

// Invariants 1, 2, 3, 4, 5, 10 and 12, as far as a store answers for them. Its user may
// do no more than the documents say. TestUserWithFewRightsOverTLS has each kind of connection that Sentinels lead to.
func TestStorePassesTheSuite(t *testing.T) {
	for name, start := range map[string]func() (url string, servers []*redistest.Server){
		"standalone": func() (string, []*redistest.Server) {
			s := redistest.Standalone(t, redistest.Shared())
			return s.URL(), s.Servers()
		},
		"cluster": func() (string, []*redistest.Server) {
			s := redistest.Cluster(t, redistest.Shared())
			return s.URL(), s.Servers()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, servers := start()
			allow(t, servers, "hub", "hub", aclRules)
			storetest.Run(t, func(t *testing.T) *storetest.Harness { return harnessOf(t, as(url, "hub", "hub"), url, nil) })
		})
	}
}

// Once each, with plain secrets and with sealed ones, which nobody notices, and on one server and
// on several. Sentinel only says which one server that is.
func TestStoreAgreesWithTheReference(t *testing.T) {
	for name, keys := range map[string]*seal.Keys{"cluster": nil, "standalone": sealKeys(t, 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := topologies[name](t)
			storetest.RunModel(t, func(t *testing.T) *storetest.Harness { return harness(t, url, keys) })
		})
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
