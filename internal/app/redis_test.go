package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// eventually waits for something, 20 s at most. Not returns what is the matter.
func eventually(t *testing.T, not func() string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		what := not()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
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

// Two hubs on one Redis share the work: what one accepts the other verifies and
// delivers where it owns the shard, what the operator asks of one reaches the
// owner, and each topic and callback is served by one of them. When one ends, the
// other has everything.
func TestTwoHubsShareTheWork(t *testing.T) {
	server := redistest.Standalone(t)
	prefix := "app-" + uuid.NewString()
	var hubs []*App
	for i := range 2 {
		a := newApp(t, "--topic-check=off", "--public-url=http://hub.example/", "--redis-url="+server.URL(), "--redis-prefix="+prefix, "--owner-lease=2s", fmt.Sprint("--node-id=n", i))
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Stop(t.Context()) }) //nolint:usetesting // it has not ended then
		hubs = append(hubs, a)
	}
	for _, a := range hubs {
		eventually(t, func() string {
			i := a.info(t.Context())
			if len(i.Nodes) != 2 || i.Nodes[0].ID != "n0" || i.Nodes[0].Shards != 128 || i.Nodes[1].Shards != 128 || i.Unowned != "" || i.NodesError != "" || a.starting() != nil || a.shares.Load().Live() != 2 {
				return fmt.Sprintf("%+v", i)
			}
			return ""
		})
		if i := a.info(t.Context()); i.Store.Kind != "redis" || strings.Contains(i.Store.Location, "@") || i.Nodes[0].SeenAt.IsZero() {
			t.Errorf("%+v", i)
		}
	}

	// Sixteen subscriptions, taken by one hub, of which each owns about half.
	const topic, n = "http://127.0.0.1:1/topic", 16
	callbacks := make([]*counting, n)
	owned := 0
	for i := range callbacks {
		callbacks[i] = newCounting(t)
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callbacks[i].URL}}
		if status, _ := post(t, "http://"+hubs[0].Addr()+"/", "application/x-www-form-urlencoded", form.Encode(), ""); status != http.StatusAccepted {
			t.Fatalf("subscribing: %d", status)
		}
		if hubs[0].shares.Load().Owns(subscriptions.Shard(subscriptions.ID(topic, callbacks[i].URL))) {
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
		status, _ := post(t, "http://"+hub.Addr()+"/", "application/xml", notification(minute, minute+1), `<`+topic+`>; rel="self", <http://hub.example/>; rel="hub"`)
		if status != http.StatusOK {
			t.Fatalf("publishing: %d", status)
		}
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

	// An operator's change through a hub that does not own the shard.
	gone := callbacks[0]
	id := subscriptions.ID(topic, gone.URL)
	other := hubs[0]
	if other.shares.Load().Owns(subscriptions.Shard(id)) {
		other = hubs[1]
	}
	if err := other.control().End(t.Context(), id, subscriptions.EndRemoved, "by the test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if gone.denied.Load() == 0 {
			return "the callback is not told of the end"
		}
		return ""
	})
	callbacks = callbacks[1:]

	if err := hubs[0].Stop(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, func() string {
		if owned := hubs[1].shares.Load().Owned(); owned != cluster.Shards {
			return fmt.Sprintf("the hub that is left owns %d shards", owned)
		}
		return ""
	})
	publish(hubs[1], 2)
	each("delivered to", delivered, 3)
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
