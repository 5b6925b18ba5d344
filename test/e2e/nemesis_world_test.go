package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// world is a run of the nemesis: hubs that are one, Sources, and callbacks.
type world struct {
	t     *testing.T
	start time.Time
	hubs  []*hub
	// binary is the rshub that hubs are started with first; empty: the one under test.
	binary string
	names  int           // of hubs that were started
	lease  time.Duration // --owner-lease
	public string        // what all hubs call themselves
	// operator is the header of requests to the operator's listeners of hubs; nil: they want no token.
	operator http.Header

	servers []*httptest.Server
	// healed is closed when no fault will come any more.
	healed     chan struct{}
	lastAnswer atomic.Pointer[string]

	mu      sync.Mutex
	c       chronicle
	bodies  map[[32]byte][2]int // topic and number
	callees map[string]int      // by path
	wants   map[string]string   // by path, the mode that it confirms now
	isGone  map[string]bool     // by path, those that answer 410
	held    bool                // every callback answers 503
	slow    time.Duration       // that every callback takes
	leave   chan struct{}       // closed when those that quit are to do so now
	checks  map[string]int      // verifications that were confirmed, by path and mode
	// changing is locked for reading while a callee subscribes or unsubscribes, and for writing
	// during faults that may lose such a change.
	changing sync.RWMutex
}

func newWorld(t *testing.T, lease time.Duration) *world {
	t.Helper()
	w := &world{
		t: t, start: time.Now(), lease: lease, public: hubURL, healed: make(chan struct{}),
		bodies: map[[32]byte][2]int{}, callees: map[string]int{}, checks: map[string]int{}, wants: map[string]string{}, isGone: map[string]bool{}, leave: make(chan struct{}),
	}
	w.lastAnswer.Store(new(string))
	for range 8 {
		w.addServer("127.0.0.1", w)
		w.servers[len(w.servers)-1].Start()
	}
	return w
}

// addServer adds a server of callbacks, which is not started yet.
func (w *world) addServer(addr string, h http.Handler) {
	w.t.Helper()
	s := httptest.NewUnstartedServer(h)
	l, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", addr+":0")
	must(w.t, err)
	_ = s.Listener.Close()
	s.Listener = l
	w.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	w.servers = append(w.servers, s)
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// addHub starts a hub that is one with the others.
func (w *world) addHub(args ...string) {
	w.t.Helper()
	w.prepareHub(args...).start()
}

// prepareHub is addHub without the start.
func (w *world) prepareHub(args ...string) *hub {
	w.t.Helper()
	w.names++
	h := newHub(w.t, append([]string{"--public-url", w.public, "--node-id", fmt.Sprint("hub-", w.names-1), "--retry-first=200ms", "--timeout=5s", "--topic-check=off"}, args...)...)
	h.binary = w.binary
	h.env = []string{"GOMAXPROCS=6"} // so it has three schedulers of deliveries
	w.hubs = append(w.hubs, h)
	return h
}

// learn remembers which interval a body is.
func (w *world) learn(body []byte, topic, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies[sha256.Sum256(body)] = [2]int{topic, n}
}

// unwanted is under which checks counts the verifications that were refused.
const unwanted = "unwanted"

// ServeHTTP is every callback: it confirms what it wants now, and answers all deliveries with 200. A
// hub that was frozen may continue with a request of long ago that was since repeated at another hub.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		mode := r.URL.Query().Get("hub.mode")
		w.mu.Lock()
		wanted := w.wants[r.URL.Path] == mode
		if !wanted {
			mode = unwanted
		}
		w.checks[r.URL.Path+" "+mode]++
		w.mu.Unlock()
		if !wanted {
			http.NotFound(rw, r)
			return
		}
		_, _ = io.WriteString(rw, r.URL.Query().Get("hub.challenge"))
		return
	}
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	time.Sleep(slow)
	if w.answerOther(rw, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the hub was cut off in the middle of it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	which, known := w.bodies[sha256.Sum256(body)]
	callee, ours := w.callees[r.URL.Path]
	if !known || !ours || w.c.callees[callee].topic != which[0] {
		w.t.Errorf("%s got what was never published to its topic: %.200q", r.URL.Path, body)
		return
	}
	w.c.arrived = append(w.c.arrived, arrival{callee, which[1], r.Header.Get("Webhook-Id"), w.now()})
}

// addTopic makes a topic and its Source.
func (w *world) addTopic() *stubbornSource {
	n := len(w.c.topics)
	story := &topicStory{damaged: map[int]bool{}, url: fmt.Sprintf("http://127.0.0.1:2/%d/", n)} // nothing answers there: the topic check only warns
	w.c.topics = append(w.c.topics, story)
	return &stubbornSource{w: w, n: n, story: story, first: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// addCallee makes a callback for a topic.
func (w *world) addCallee(topic int) *callee {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &callee{n: len(w.c.callees), path: fmt.Sprintf("/%d/%d", topic, len(w.c.callees)), topic: topic}
	w.callees[c.path] = len(w.c.callees)
	w.c.callees = append(w.c.callees, c)
	return c
}

func (w *world) callback(c *callee) string {
	return w.servers[c.n%len(w.servers)].URL + c.path
}

// askAgain is how long a subscriber waits to be verified before it asks again.
const askAgain = time.Minute

// ask posts a subscription request to any hub that answers, and returns when it was accepted and
// verified. If a hub that was frozen verifies an earlier request, that one has replaced this one, and
// ask makes this one again.
func (w *world) ask(ctx context.Context, c *callee, mode string, lease time.Duration) (s session, err error) {
	form := url.Values{"hub.mode": {mode}, "hub.topic": {w.c.topics[c.topic].url}, "hub.callback": {w.callback(c)}, "hub.secret": {"s"}}
	if lease > 0 {
		form.Set("hub.lease_seconds", strconv.Itoa(int(lease/time.Second)))
	}
	before := w.want(c, mode)
	deadline := time.Now().Add(patience)
	s.asked = w.now()
	for {
		refused := w.checked(c, unwanted)
		if err := w.post(ctx, form, deadline); err != nil {
			return s, fmt.Errorf("a request to %s %w", mode, err)
		}
		s.accepted = w.now()
		for again := time.Now().Add(askAgain); w.checked(c, mode) == before && w.checked(c, unwanted) == refused && time.Now().Before(again); {
			if time.Now().After(deadline) {
				return s, fmt.Errorf("a request to %s was not verified within %v", mode, patience)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if w.checked(c, mode) > before {
			return s, w.settled(ctx, c, mode, lease > 0, deadline)
		}
	}
}

// post makes a request until a hub accepts it.
func (w *world) post(ctx context.Context, form url.Values, deadline time.Time) error {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for n := 0; ; n++ {
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		a, err := try(limited, http.MethodPost, w.hubs[n%len(w.hubs)].url(), header, []byte(form.Encode()))
		cancel()
		if err == nil && a.status == http.StatusAccepted {
			return nil
		}
		if err == nil && a.status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return fmt.Errorf("was answered %v (%w)", a, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settled waits until a hub reports that a verified request is finished. A subscription with a short
// lease may have ended by then, because a frozen hub does not answer.
func (w *world) settled(ctx context.Context, c *callee, mode string, short bool, deadline time.Time) error {
	for n := 0; ; n++ {
		var sub struct {
			State   string
			Request *struct{} `json:"request"`
		}
		err := w.look(ctx, w.hubs[n%len(w.hubs)], "/api/v1/subscriptions/"+w.subID(c), &sub)
		if err == nil && sub.Request == nil && (short || (mode == "subscribe") == (sub.State != "ended")) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s is not settled at %s after %v: the subscription is %+v", mode, w.callback(c), patience, sub), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *world) subID(c *callee) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(w.c.topics[c.topic].url+"\n"+w.callback(c))).String()
}

// want sets what a callee confirms, and returns how often it did so before.
func (w *world) want(c *callee, mode string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wants[c.path] = mode
	return w.checks[c.path+" "+mode]
}

func (w *world) checked(c *callee, mode string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checks[c.path+" "+mode]
}

// look gets a path of a hub's operator listener.
func (w *world) look(ctx context.Context, h *hub, path string, into any) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a, err := try(limited, http.MethodGet, "http://"+h.admin+path, w.operator, nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("GET %s answered %d %s", path, a.status, a.body)
	}
	return json.Unmarshal(a.body, into)
}

// stay subscribes for good.
func (w *world) stay(ctx context.Context, c *callee) error {
	s, err := w.ask(ctx, c, "subscribe", 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.sessions = append(c.sessions, s)
	return err
}

// stayAll makes n callees of a topic and subscribes them for good.
func (w *world) stayAll(topic, n int) {
	w.t.Helper()
	failed := make(chan error, n)
	for range n {
		c := w.addCallee(topic)
		c.stays = true
		go func() { failed <- w.stay(w.t.Context(), c) }()
	}
	for range n {
		if err := <-failed; err != nil {
			w.t.Fatalf("%v\n%s", err, w.tails())
		}
	}
}

// comeAndGo subscribes and unsubscribes until ctx ends; it is subscribed then.
func (w *world) comeAndGo(ctx context.Context, c *callee, pause func() time.Duration) error {
	whole := context.WithoutCancel(ctx)
	for {
		w.changing.RLock()
		err := w.stay(whole, c)
		w.changing.RUnlock()
		if err != nil || !wait(ctx, pause()) {
			return err
		}
		w.changing.RLock()
		leaving := w.now()
		_, err = w.ask(whole, c, "unsubscribe", 0)
		over := w.now()
		w.mu.Lock()
		last := &c.sessions[len(c.sessions)-1]
		last.leaving, last.over = leaving, over
		w.mu.Unlock()
		w.changing.RUnlock()
		if err != nil {
			return err
		}
		if !wait(ctx, pause()) {
			return nil
		}
	}
}

// expire subscribes for a short lease, once.
func (w *world) expire(ctx context.Context, c *callee, lease time.Duration) error {
	w.changing.RLock()
	defer w.changing.RUnlock()
	s, err := w.ask(context.WithoutCancel(ctx), c, "subscribe", lease)
	w.want(c, "") // it is not renewed
	w.mu.Lock()
	defer w.mu.Unlock()
	// The lease runs from the verification request, which was sent before now.
	s.over, s.expires = w.now()+lease, true
	c.sessions = append(c.sessions, s)
	return err
}

// wait sleeps and reports whether ctx still goes on.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// shardOf is the shard of a subscription id, or the partition of a topic id, as
// the API counts them.
func shardOf(id uuid.UUID) int {
	h := fnv.New32a()
	_, _ = h.Write(id[:]) // never fails
	return int(h.Sum32() % 256)
}

// collect asks the hubs what they say in the end, and returns the chronicle.
func (w *world) collect(ctx context.Context) (*chronicle, error) {
	w.mu.Lock()
	c := w.c
	c.arrived = slices.Clone(w.c.arrived)
	c.explained = maps.Clone(w.c.explained)
	c.setClocks = slices.Clone(w.c.setClocks)
	w.mu.Unlock()
	c.topics = nil
	for n, t := range w.c.topics {
		w.mu.Lock()
		story := *t
		story.damaged = maps.Clone(t.damaged)
		w.mu.Unlock()
		var err error
		if story.journal, err = w.journalOf(ctx, n, t.url); err != nil {
			return nil, err
		}
		c.topics = append(c.topics, &story)
	}
	for _, callee := range w.c.callees {
		if callee.reads {
			w.mu.Lock()
			callee.gaps, callee.sessions = slices.Clone(callee.told), []session{{accepted: cmp.Or(callee.begun, never)}}
			w.mu.Unlock()
			continue
		}
		if err := w.gapsOf(ctx, callee); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// number is the interval that begins at an instant.
func number(from time.Time) int {
	return int(from.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Second)
}

func (w *world) journalOf(ctx context.Context, n int, topic string) (all []survivor, err error) {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)).String()
	for after := ""; ; {
		var page struct {
			Items []struct {
				ID   string    `json:"id"`
				From time.Time `json:"from"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if err := w.look(ctx, w.hubs[0], "/api/v1/topics/"+id+"/notifications?limit=500&after="+url.QueryEscape(after), &page); err != nil {
			return nil, fmt.Errorf("topic %d: %w", n, err)
		}
		for _, e := range page.Items {
			all = append(all, survivor{number(e.From), e.ID})
		}
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func (w *world) gapsOf(ctx context.Context, c *callee) error {
	var page struct {
		Items []struct {
			From, Until time.Time
			Reason      string
		} `json:"items"`
	}
	if err := w.look(ctx, w.hubs[0], "/api/v1/subscriptions/"+w.subID(c)+"/gaps?limit=500", &page); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.gaps = nil
	for _, g := range page.Items {
		// A gap without a beginning is from the first on.
		c.gaps = append(c.gaps, lostSpan{max(number(g.From), 0), number(g.Until) - 1, g.Reason})
	}
	return nil
}

// clusterInfo is what GET /api/v1/info says of the hubs.
type clusterInfo struct {
	Nodes []struct {
		ID     string `json:"id"`
		Shards int    `json:"shards"`
		Owns   string `json:"owns"`
	} `json:"nodes"`
	Unowned string `json:"unowned"`
}

// awaitReady waits until every hub is ready and, where there are several, no shard
// is without an owner.
func (w *world) awaitReady() {
	w.t.Helper()
	eventually(w.t, 3*time.Minute, func() error {
		for _, h := range w.hubs {
			var info clusterInfo
			if err := w.look(w.t.Context(), h, "/api/v1/info", &info); err != nil {
				return err
			}
			if len(info.Nodes) != len(w.hubs) || info.Unowned != "" {
				return fmt.Errorf("%s sees %+v", h.addr, info)
			}
			if a, err := try(w.t.Context(), http.MethodGet, "http://"+h.admin+"/readyz?verbose", nil, nil); err != nil || a.status != http.StatusOK {
				return fmt.Errorf("%s is not ready: %v (%w)", h.addr, a, err)
			}
		}
		return nil
	})
}

// tails are the ends of the hubs' logs.
func (w *world) tails() string {
	var b strings.Builder
	for n, h := range w.hubs {
		fmt.Fprintf(&b, "--- hub %d\n", n)
		for line := range strings.Lines(h.log.String()) {
			if !strings.Contains(line, `"level":"info"`) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}
