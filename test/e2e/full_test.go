package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// overfill makes a server use more than its maxmemory, as another tenant or a lowered limit does. With
// 0 there is no limit any more.
func overfill(t *testing.T, s *redistest.Server, limit int) {
	t.Helper()
	s.Do(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(limit))
}

// While Redis is over its maxmemory, a hub delivers what it has. A 410, a notification that is passed
// over, and a kill -9 with a new start do not stop it. Earlier requests are verified, and their
// subscriptions begin. Nothing new is accepted, and a request gets the same answer whether the
// subscription exists or not (HUB-18).
func TestRedisOverItsMaxmemory(t *testing.T) {
	t.Parallel()
	const callbacks, notifications = 60, 4
	redis := redistest.Standalone(t)
	h := startHub(t, "--redis-url", redis.URL(), "--topic-check=off", "--owner-lease=3s", "--subscribe-rate=0", "--retry-first=100ms", "--retry-max=200ms")
	r := newReceiver(t, 8)
	verify, full, back := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	let := sync.OnceFunc(func() { close(verify) })
	t.Cleanup(let)
	r.onGet(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/late" {
			<-verify
		}
		_, _ = fmt.Fprint(w, req.URL.Query().Get("hub.challenge"))
	})
	isFull := func() bool {
		select {
		case <-full:
			return true
		default:
			return false
		}
	}
	r.onPost(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !isFull(), req.URL.Path == "/away" && !back.Load():
			w.WriteHeader(http.StatusInternalServerError)
		case req.URL.Path == "/gone":
			w.WriteHeader(http.StatusGone)
		case req.URL.Path == "/refuses":
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	src := newSource("http://127.0.0.1:2/full")
	paths := []string{"/gone", "/refuses", "/away"}
	for n := range callbacks {
		paths = append(paths, fmt.Sprint("/cb", n))
	}
	for n, path := range paths {
		h.subscribe(src.topic, r.url(n, path)).want(t, http.StatusAccepted)
	}
	h.active(len(paths))
	h.subscribe(src.topic, r.url(0, "/late")).want(t, http.StatusAccepted)
	eventually(t, time.Minute, func() error { return asked(r, "/late") })
	for range notifications {
		h.accepted(src.topic, src.next(0))
	}
	overfill(t, redis, 1)
	close(full)
	let()

	got := func(path string) error {
		ids := map[string]bool{}
		for _, d := range r.got() {
			if d.callback == path {
				ids[d.id] = true
			}
		}
		if len(ids) != notifications {
			return fmt.Errorf("%s got %d of %d notifications:\n%s", path, len(ids), notifications, h.log)
		}
		return nil
	}
	state := func(n int, path string) (s struct {
		State string `json:"state"`
		Lag   struct {
			Notifications int `json:"notifications"`
		} `json:"lag"`
	}, gaps string,
	) {
		id := subscriptions.ID(src.topic, r.url(n, path)).String()
		h.api("/api/v1/subscriptions/"+id, &s)
		var page struct {
			Items []struct {
				Reason string `json:"reason"`
				Count  int    `json:"count"`
			} `json:"items"`
		}
		h.api("/api/v1/subscriptions/"+id+"/gaps", &page)
		return s, fmt.Sprint(page.Items)
	}
	for _, path := range append(paths[3:], "/late") { // which asked before the first of them
		eventually(t, time.Minute, func() error { return got(path) })
	}
	eventually(t, time.Minute, func() error {
		gone, goneGaps := state(0, "/gone")
		refuses, refusesGaps := state(1, "/refuses")
		if gone.State != "ended" || !strings.Contains(goneGaps, "gone 4") || refuses.Lag.Notifications != 0 || !strings.Contains(refusesGaps, "gave_up 4") {
			return fmt.Errorf("what answers 410 is %+v %s, what refuses is %+v %s:\n%s", gone, goneGaps, refuses, refusesGaps, h.log)
		}
		return nil
	})

	h.kill()
	h.start()
	back.Store(true)
	eventually(t, time.Minute, func() error { return got("/away") })
	h.active(callbacks + 3) // what refuses, was away and came late, too

	want := h.subscribe(src.topic, r.url(0, "/nobody")).want(t, http.StatusServiceUnavailable)
	if want.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", want.header)
	}
	for n, path := range []string{"/gone", "/refuses", "/away", "/late", "/cb0", "/other"} {
		for _, mode := range []string{"subscribe", "unsubscribe"} {
			a := h.form("hub.mode", mode, "hub.topic", src.topic, "hub.callback", r.url(n, path))
			if a.status != want.status || string(a.body) != string(want.body) || a.header.Get("Retry-After") != want.header.Get("Retry-After") {
				t.Errorf("%s %s: %d %q, and one that nobody knows: %d %q", mode, path, a.status, a.body, want.status, want.body)
			}
		}
	}
	h.publish(src.topic, src.next(0)).want(t, http.StatusServiceUnavailable)
	h.form("hub.mode", "publish", "hub.url", src.topic).want(t, http.StatusServiceUnavailable)

	overfill(t, redis, 0)
	eventually(t, time.Minute, func() error {
		if a := h.subscribe(src.topic, r.url(4, "/cb1")); a.status != http.StatusAccepted {
			return fmt.Errorf("a renewal is answered %d when there is room", a.status)
		}
		return nil
	})
}

// asked is an error unless a callback was asked to verify something.
func asked(r *receiver, path string) error {
	for _, v := range r.asked() {
		if v.callback == path {
			return nil
		}
	}
	return fmt.Errorf("%s was not asked", path)
}

// However many anonymous requests arrive while Redis is over its maxmemory, they use no memory of
// it. The run of make nemesis sends 100,000.
func TestNemesisOfStrangersOnAFullRedis(t *testing.T) {
	t.Parallel()
	requests := 2000
	if *nemesisFlag >= time.Minute {
		requests = 100_000
	}
	redis := redistest.Standalone(t)
	h := startHub(t, "--redis-url", redis.URL(), "--topic-check=off", "--subscribe-rate=0")
	r := newReceiver(t, 1)
	h.subscribe("http://127.0.0.1:2/t", r.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	before := usedMemory(t, redis)
	overfill(t, redis, 1)
	const workers = 16
	var refused atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := w; n < requests; n += workers {
				form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"http://127.0.0.1:2/t"}, "hub.callback": {r.url(0, "/"+uuid.NewString())}, "hub.secret": {strings.Repeat("s", 150)}}
				a, err := try(t.Context(), http.MethodPost, h.url(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode()))
				switch {
				case err != nil:
					t.Errorf("request %d: %v", n, err)
					return
				case a.status == http.StatusServiceUnavailable:
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	grown := usedMemory(t, redis) - before
	t.Logf("%d requests over maxmemory: Redis grew by %d bytes", requests, grown)
	if grown >= 1<<20 {
		t.Errorf("%d requests over maxmemory: Redis grew by %d bytes", requests, grown)
	}
	if n := int(refused.Load()); n != requests {
		t.Errorf("%d of %d requests were answered 503", n, requests)
	}
}
