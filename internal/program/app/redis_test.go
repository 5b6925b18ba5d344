package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// eventually waits for something, a minute at most. Not returns what is the matter.
func eventually(t *testing.T, not func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		what := not()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// postUntil posts until the status is as wanted. A hub may have to wait too long for a
// Redis that is busy, and says so.
func postUntil(t *testing.T, want int, target, media, body, link string) {
	t.Helper()
	eventually(t, func() string {
		switch status, _ := post(t, target, media, body, link); status {
		case want:
			return ""
		case http.StatusServiceUnavailable:
			return "the answer asks for another try"
		default:
			t.Fatalf("a request was answered %d, want %d", status, want)
			return ""
		}
	})
}

// counting is a callback that confirms everything and counts what it gets.
type counting struct {
	*httptest.Server
	verified, delivered, denied atomic.Int64
}

func newCounting(t *testing.T) *counting {
	c := new(counting)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			c.delivered.Add(1)
		case r.URL.Query().Get("hub.mode") == "denied":
			c.denied.Add(1)
		default:
			c.verified.Add(1)
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// Two hubs on one Redis share the work. Each verifies and delivers for the shards that it owns, even if
// the other accepted the request. An operator's change reaches the owner through either of them. When
// one ends, the other owns everything.
func TestTwoHubsShareTheWork(t *testing.T) {
	server := redistest.Standalone(t)
	prefix := "app-" + uuid.NewString()
	var hubs []*App
	for i := range 2 {
		a := newApp(t, "--topic-check=off", "--public-url=http://hub.example/", "--redis-url="+server.URL(), "--redis-prefix="+prefix, "--owner-lease=20s", fmt.Sprint("--node-id=n", i))
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Stop(t.Context()) }) //nolint:usetesting // it has not ended then
		hubs = append(hubs, a)
	}
	for _, a := range hubs {
		eventually(t, func() string {
			i := a.info(t.Context())
			if len(i.Nodes) != 2 || i.Nodes[0].ID != "n0" || i.Nodes[0].Shards != 128 || i.Nodes[1].Shards != 128 || i.Unowned != "" || i.NodesError != "" || a.starting() != nil || a.shards.Load().keeper.Live() != 2 {
				return fmt.Sprintf("%+v", i)
			}
			return ""
		})
		if i := a.info(t.Context()); i.Store.Kind != "redis" || strings.Contains(i.Store.Location, "@") || i.Nodes[0].SeenAt.IsZero() {
			t.Errorf("%+v", i)
		}
	}

	// Sixteen subscriptions, taken by one hub, of which each owns about half.
	const topic, n = "http://127.0.0.1:2/topic", 16
	callbacks := make([]*counting, n)
	owned := 0
	for i := range callbacks {
		callbacks[i] = newCounting(t)
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callbacks[i].URL}}
		postUntil(t, http.StatusAccepted, "http://"+hubs[0].Addr()+"/", "application/x-www-form-urlencoded", form.Encode(), "")
		if hubs[0].shards.Load().keeper.Owns(subscriptions.Shard(subscriptions.ID(topic, callbacks[i].URL))) {
			owned++
		}
	}
	each := func(what string, count func(c *counting) int64, want int64) {
		t.Helper()
		eventually(t, func() string {
			for i, c := range callbacks {
				if got := count(c); got < want {
					return fmt.Sprintf("callback %d was %s %d times, not %d; the first hub owns %d of %d", i, what, got, want, owned, n)
				}
			}
			return ""
		})
	}
	each("verified", func(c *counting) int64 { return c.verified.Load() }, 1)
	publish := func(hub *App, minute int) {
		t.Helper()
		postUntil(t, http.StatusOK, "http://"+hub.Addr()+"/", "application/xml", notification(minute, minute+1), `<`+topic+`>; rel="self", <http://hub.example/>; rel="hub"`)
	}
	delivered := func(c *counting) int64 { return c.delivered.Load() }
	publish(hubs[1], 0)
	each("delivered to", delivered, 1)
	publish(hubs[0], 1)
	each("delivered to", delivered, 2)
	for i, c := range callbacks {
		if c.verified.Load() != 1 || c.delivered.Load() != 2 {
			t.Errorf("callback %d was verified %d times and delivered to %d times", i, c.verified.Load(), c.delivered.Load())
		}
	}

	// A topic without subscribers at either hub is known once it has notifications.
	const calm = "http://127.0.0.1:2/calm"
	for i, a := range hubs {
		if a.knowsTopic(admin.Refused{Topic: calm}) || a.knowsTopic(admin.Refused{Topic: calm + "/nothing"}) {
			t.Errorf("hub %d knows a topic that nobody published", i)
		}
	}
	postUntil(t, http.StatusOK, "http://"+hubs[0].Addr()+"/", "application/xml", notification(0, 1), `<`+calm+`>; rel="self", <http://hub.example/>; rel="hub"`)
	for i, a := range hubs {
		if !a.knowsTopic(admin.Refused{Topic: topic, Status: http.StatusConflict}) || !a.knowsTopic(admin.Refused{Topic: calm, Status: http.StatusConflict}) || a.knowsTopic(admin.Refused{Topic: calm, Status: http.StatusServiceUnavailable}) {
			t.Errorf("hub %d: which topics are known", i)
		}
	}

	// Each hub knows how both are.
	for i, a := range hubs {
		eventually(t, func() string {
			now := a.fleet.now(t.Context())
			if len(now.Hubs) != 2 || now.HubsError != "" || now.Hubs[0].Active+now.Hubs[1].Active != n {
				return fmt.Sprintf("hub %d says: %+v", i, now)
			}
			return ""
		})
		now := a.fleet.now(t.Context())
		for j, h := range now.Hubs {
			if h.ID != fmt.Sprint("n", j) || h.Shards != 128 || h.Topics != 1 || len(h.NotReady) > 0 || h.Version != "test" || h.AsOf.IsZero() {
				t.Errorf("hub %d says of %d: %+v", i, j, h)
			}
		}
		for _, node := range []string{"n0", "n1"} {
			if !slices.ContainsFunc(now.Events, func(e admin.Event) bool { return e.Node == node && e.Name == "listening" }) {
				t.Errorf("hub %d does not say that %s started: %+v", i, node, now.Events)
			}
		}
	}

	// A hub without a summary, such as one of another version, is still listed.
	if err := hubs[1].backend.board.Post(t.Context(), hubs[1].shards.Load().self.ID, []byte("something else"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if now := hubs[0].fleet.now(t.Context()); len(now.Hubs) != 2 || now.Hubs[1].ID != "n1" {
		t.Errorf("%+v", now.Hubs)
	}
	if p := hubs[0].fleet.publishers(t.Context()); !strings.Contains(p.HubsError, "hub n1 does not say") {
		t.Errorf("%+v", p)
	}

	// Counts that are too low say so.
	if p := hubs[1].fleet.publishers(t.Context()); p.HubsError != "" || len(p.Items) == 0 || p.Items[0].Accepted != 3 {
		t.Errorf("%+v", p)
	}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	if p := hubs[1].fleet.publishers(away); p.HubsError == "" || len(p.Items) == 0 || p.Items[0].Accepted != 1 {
		t.Errorf("the store does not answer: %+v", p)
	}

	// An operator's change through a hub that does not own the shard.
	gone := callbacks[0]
	id := subscriptions.ID(topic, gone.URL)
	other := hubs[0]
	if other.shards.Load().keeper.Owns(subscriptions.Shard(id)) {
		other = hubs[1]
	}
	if err := (operator{other}).control().End(t.Context(), id, subscriptions.EndRemoved, "by the test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if gone.denied.Load() == 0 {
			return "the callback is not told of the end"
		}
		if left := hubs[0].dispatcher.Load().Subscribers(topic) + hubs[1].dispatcher.Load().Subscribers(topic); left != n-1 {
			return fmt.Sprintf("the owner has not noticed it: together they deliver to %d", left)
		}
		return ""
	})
	callbacks = callbacks[1:]

	if err := hubs[0].Stop(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, func() string {
		if owned := hubs[1].shards.Load().keeper.Owned(); owned != cluster.Shards {
			return fmt.Sprintf("the hub that is left owns %d shards", owned)
		}
		return ""
	})
	publish(hubs[1], 2)
	each("delivered to", delivered, 3)
	eventually(t, func() string {
		if now := hubs[1].fleet.now(t.Context()); len(now.Hubs) != 1 || now.Hubs[0].ID != "n1" {
			return fmt.Sprintf("the hub that ended is still told of: %+v", now.Hubs)
		}
		return ""
	})
	if got := gone.delivered.Load(); got != 2 {
		t.Errorf("the callback whose subscription ended got %d notifications", got)
	}
	if err := hubs[1].Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Redis that lacks the pinned id is refused.
func TestStoreIsPinned(t *testing.T) {
	server := redistest.Standalone(t)
	a := newApp(t, "--redis-url="+server.URL(), "--redis-prefix=app-"+uuid.NewString(), "--install-id=one")
	if err := a.Start(t.Context()); !errors.Is(err, ErrStoreRefused) || !strings.Contains(err.Error(), "--accept-empty-store") {
		t.Errorf("%v", err)
	}
}

// If one subscription cannot be read, because it is damaged or a newer version wrote it, the hub still
// becomes ready and delivers to the others. The log names the subscription.
func TestUnreadableSubscriptionStopsNothing(t *testing.T) {
	server := redistest.Standalone(t)
	prefix := "app-" + uuid.NewString()
	core, logs := observer.New(zapcore.ErrorLevel)
	start := func() *App {
		a := newApp(t, "--topic-check=off", "--public-url=http://hub.example/", "--redis-url="+server.URL(), "--redis-prefix="+prefix)
		a.log = zap.New(core)
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Stop(t.Context()) }) //nolint:usetesting // it has not ended then
		eventually(t, func() string {
			if status, body := get(t, "http://"+a.AdminAddr()+"/readyz"); status != http.StatusOK {
				return body
			}
			return ""
		})
		return a
	}
	a := start()
	const topic = "http://127.0.0.1:2/topic"
	damaged, other := newCounting(t), newCounting(t)
	for _, c := range []*counting{damaged, other} {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {c.URL}}
		if status, _ := post(t, "http://"+a.Addr()+"/", "application/x-www-form-urlencoded", form.Encode(), ""); status != http.StatusAccepted {
			t.Fatalf("subscribing: %d", status)
		}
	}
	id := subscriptions.ID(topic, damaged.URL)
	for _, c := range []*counting{damaged, other} {
		eventually(t, func() string {
			if rec, err := a.backend.Get(t.Context(), subscriptions.ID(topic, c.URL)); err != nil || rec.Subscription == nil {
				return fmt.Sprintf("it is not verified: %v", err)
			}
			return ""
		})
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	damage(t, server.URL(), id)

	a = start()
	if status, _ := post(t, "http://"+a.Addr()+"/", "application/xml", notification(0, 1), `<`+topic+`>; rel="self", <http://hub.example/>; rel="hub"`); status != http.StatusOK {
		t.Fatalf("publishing: %d", status)
	}
	eventually(t, func() string {
		if other.delivered.Load() != 1 {
			return "the other subscriber got nothing"
		}
		return ""
	})
	if damaged.delivered.Load() != 0 {
		t.Error("something was delivered to a subscription that cannot be read")
	}
	for range 2 { // each backup counts it
		if file := backupOf(t, a); !bytes.Contains(file, []byte(`"subscriptions":1,"damaged":1}`)) {
			t.Errorf("a backup says %s", file[bytes.LastIndexByte(file[:len(file)-1], '\n'):])
		}
	}
	told := logs.FilterField(zap.String("event", "subscription_unreadable")).All()
	if len(told) != 1 || told[0].ContextMap()["subscription_id"] != id.String() {
		t.Errorf("the log says %v", logs.All())
	}
	if s := a.fleet.sumUp(t.Context()); s.UnreadableSubscriptions != 1 || s.UnreadableTopics != 0 {
		t.Errorf("the hub says that it continues without %d subscriptions and %d topics", s.UnreadableSubscriptions, s.UnreadableTopics)
	}
	if _, page := get(t, "http://"+a.AdminAddr()+"/metrics"); !strings.Contains(page, "rshub_unreadable{what=\"subscription\"} 1\n") {
		t.Error("the metrics do not count it")
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// damage makes the version byte of each value that has a subscription's id for its
// field one of a newer version.
func damage(t *testing.T, redisURL string, id uuid.UUID) {
	t.Helper()
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, key := range keys {
		// Most are no hash.
		if value, err := client.HGet(t.Context(), key, string(id[:])).Bytes(); err == nil && len(value) > 0 {
			value[0] = 200
			damaged++
			if err := client.HSet(t.Context(), key, string(id[:]), value).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged == 0 {
		t.Fatal("nothing is stored of the subscription")
	}
}
