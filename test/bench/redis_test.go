package bench

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// fullEnv, where set, makes the benchmarks over Redis as large as the promises: 1,000,000
// subscriptions, 100,000 of one topic, 100,000 topics. Without it they are a tenth of that and last
// about three minutes on two quiet cores. In full they last about half an hour.
const fullEnv = "RSHUB_BENCH_FULL"

// sized is n, or a tenth of it.
func sized(n int) int {
	if os.Getenv(fullEnv) == "" {
		n /= 10
	}
	return n
}

// startRedis starts a Redis that writes its file once a second, which is its default and that of
// most installations.
func startRedis(b *testing.B) *redistest.Server {
	return redistest.Standalone(b, redistest.Config("appendfsync", "everysec"))
}

// startRedisHub starts a hub on a Redis and waits until it is ready.
func startRedisHub(b *testing.B, redis *redistest.Server) *app.App {
	b.Helper()
	hub := startHub(b, "--redis-url="+redis.URL())
	waitReady(b, hub)
	return hub
}

// waitReady waits until a hub has read all its subscriptions.
func waitReady(b *testing.B, hub *app.App) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+hub.AdminAddr()+"/readyz", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	b.Fatal("the hub is not ready after ten minutes")
}

// openRedis opens the store that a hub has in a Redis.
func openRedis(b *testing.B, redis *redistest.Server) *redisstore.Store {
	b.Helper()
	store, err := redisstore.Open(b.Context(), redisstore.Options{URL: redis.URL(), Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// each does something for each of many values, many at a time: so many wait for one commit together.
func each[T any](b testing.TB, values iter.Seq[T], do func(ctx context.Context, v T) error) {
	b.Helper()
	var todo sync.WaitGroup
	next := make(chan T)
	for range 1024 {
		todo.Go(func() {
			for v := range next {
				if err := do(b.Context(), v); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for v := range values {
		next <- v
	}
	close(next)
	todo.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// subscribed is a live subscription that begins at the head of its topic.
func subscribed(topic, callback string, head journal.Head) subscriptions.Subscription {
	now := time.Now()
	return subscriptions.Subscription{
		ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback, Secret: "a secret of " + callback,
		CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(24 * time.Hour), Start: head.Last,
		Cursor: journal.Cursor{Generation: journal.MintGeneration(0, now), Anchor: head.Last},
	}
}

// put stores subscriptions.
func put(b testing.TB, store subscriptions.Registry, subs iter.Seq[subscriptions.Subscription]) {
	b.Helper()
	each(b, subs, func(ctx context.Context, s subscriptions.Subscription) error {
		_, err := store.Update(ctx, s.ID, func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Subscription: &s}, nil
		})
		return err
	})
}

// usage is what a Redis has done: the calls of each command, sent to it or made by scripts.
type usage map[string]float64

// used asks a Redis what it has done. The question is not in the answer.
func used(b *testing.B, redis *redistest.Server) usage {
	b.Helper()
	u := usage{}
	for name, value := range info(b, redis, "commandstats") {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		u[strings.TrimPrefix(name, "cmdstat_")] = number(b, calls)
	}
	return u
}

// since returns what was done after an earlier look, in total and by command, without the commands
// of that look.
func (u usage) since(before usage) (all float64, of usage) {
	of = usage{}
	for name, calls := range u {
		if calls -= before[name]; name == "info" {
			calls--
		}
		if calls > 0 {
			of[name] = calls
			all += calls
		}
	}
	return all, of
}

// String lists the commands, the most frequent first.
func (u usage) String() string {
	names := slices.SortedFunc(maps.Keys(u), func(a, b string) int { return cmp.Compare(u[b], u[a]) })
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, " %s=%.0f", name, u[name])
	}
	return out.String()
}

// info reads a section of the answer to INFO.
func info(b *testing.B, redis *redistest.Server, section string) map[string]string {
	b.Helper()
	text, _ := redis.Do(b, "INFO", section).(string)
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out
}

func number(b *testing.B, text string) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// memoryOf is how many bytes a Redis uses.
func memoryOf(b *testing.B, redis *redistest.Server) float64 {
	b.Helper()
	return number(b, info(b, redis, "memory")["used_memory"])
}

// cpuOf is how many seconds a Redis has worked.
func cpuOf(b *testing.B, redis *redistest.Server) float64 {
	b.Helper()
	i := info(b, redis, "cpu")
	return number(b, i["used_cpu_user"]) + number(b, i["used_cpu_sys"])
}
