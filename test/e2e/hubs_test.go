package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

var subsFlag = flag.Int("subs", 10_000, "how many subscriptions several hubs share in their test")

// rshub runs a command of the binary and returns what it wrote to stderr.
func rshub(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var told bytes.Buffer
	cmd.Stderr = &told
	if err := cmd.Run(); err != nil {
		t.Fatalf("rshub %s: %v\n%s", strings.Join(args, " "), err, &told)
	}
	return told.String()
}

// writeSubscriptions writes a file for rshub import: subscriptions of n callees to
// the first topic, which has no notification yet.
func (w *world) writeSubscriptions(n int) string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "rshub.jsonl")
	f, err := os.Create(name)
	if err != nil {
		w.t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	now := time.Now().UTC()
	object := func(line map[string]any) {
		if err := lines.Encode(line); err != nil {
			w.t.Fatal(err)
		}
	}
	object(map[string]any{"type": "rshub-export", "format": 1, "store": "test", "written_at": now, "secrets": "plain"})
	zero := map[string]any{"position": "0", "nonce": "0", "seq": 0}
	for range n {
		c := w.addCallee(0)
		c.sessions = []session{{}}
		object(map[string]any{
			"type": "subscription", "id": w.subID(c), "topic": w.c.topics[0].url, "callback": w.callback(c),
			"in_force": map[string]any{
				"secret": []byte("secret of " + c.path), "created_at": now, "verified_at": now, "expires_at": now.Add(time.Hour), "start": zero,
				"cursor": map[string]any{"generation": now.UnixMicro(), "position": "0", "nonce": "0", "seq": 0},
			},
		})
	}
	object(map[string]any{"type": "end", "topics": 0, "pings": 0, "subscriptions": n})
	if err := out.Flush(); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// owners returns which hub owns each shard, as a hub reports it.
func (w *world) owners(h *hub) (of [256]string, err error) {
	w.t.Helper()
	var info clusterInfo
	if err := w.look(w.t.Context(), h, "/api/v1/info", &info); err != nil {
		return of, err
	}
	for _, node := range info.Nodes {
		for piece := range strings.FieldsSeq(node.Owns) {
			from, to, several := strings.Cut(piece, "-")
			if !several {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil {
				w.t.Fatalf("%s owns %q", node.ID, node.Owns)
			}
			for n := first; n <= last; n++ {
				of[n] = node.ID
			}
		}
	}
	return of, nil
}

// shared waits until each hub owns as many shards as another, or one more, and
// returns which hub owns each.
func (w *world) shared() (of [256]string) {
	w.t.Helper()
	eventually(w.t, time.Minute, func() error {
		var err error
		if of, err = w.owners(w.hubs[0]); err != nil {
			return err
		}
		count := map[string]int{}
		for _, owner := range of {
			count[owner]++
		}
		for _, h := range w.hubs {
			if n, even := count[h.node()], 256/len(w.hubs); n < even || n > even+1 {
				return fmt.Errorf("the shares are %v", count)
			}
		}
		return nil
	})
	return of
}

// arrivedAt returns when each callee first got an interval.
func (w *world) arrivedAt(n int) map[int]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := map[int]time.Duration{}
	for _, a := range w.c.arrived {
		if _, there := at[a.callee]; a.n == n && !there {
			at[a.callee] = a.at
		}
	}
	return at
}

func (w *world) awaitArrival(n int) {
	w.t.Helper()
	there, looked := map[int]bool{}, 0 // each arrival is looked at once, as receivers wait for the lock
	eventually(w.t, 5*time.Minute, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, a := range w.c.arrived[looked:] {
			if a.n == n {
				there[a.callee] = true
			}
		}
		looked = len(w.c.arrived)
		if len(there) != len(w.c.callees) {
			return fmt.Errorf("interval %d arrived at %d callbacks of %d", n, len(there), len(w.c.callees))
		}
		return nil
	})
}

// Hubs on one Redis share its subscriptions evenly. When one is killed, the other delivers for all. A
// third hub gets a third of them.
func TestHubsShareSubscriptions(t *testing.T) {
	const lease = 3 * time.Second
	redis := redistest.Standalone(t, redistest.Config("appendfsync", "everysec"))
	w := newWorld(t, lease)
	store := []string{"--redis-url", redis.URL()}
	source := w.addTopic()
	file := w.writeSubscriptions(*subsFlag)
	start := time.Now()
	told := rshub(t, append([]string{"import", file}, store...)...)
	t.Logf("import took %v: %s", time.Since(start).Round(time.Millisecond), strings.TrimSpace(told))
	if again := rshub(t, append([]string{"import", file}, store...)...); !strings.Contains(again, " 0 are new or changed") {
		t.Errorf("the second import told %s", again)
	}

	hubArgs := append([]string{"--owner-lease", lease.String()}, store...)
	for range 2 {
		w.addHub(hubArgs...)
	}
	w.awaitReady()
	before := w.shared()
	shares, byShard := map[string]int{}, map[int][]int{}
	for i, c := range w.c.callees {
		shard := shardOf(uuid.MustParse(w.subID(c)))
		shares[before[shard]]++
		byShard[shard] = append(byShard[shard], i)
	}
	for _, h := range []string{"hub-0", "hub-1"} {
		if even := *subsFlag / 2; shares[h] < even-even/10 || shares[h] > even+even/10 {
			t.Errorf("%s has %d of %d subscriptions, which is not within a tenth of even", h, shares[h], *subsFlag)
		}
	}
	must(t, source.publish(t.Context()))
	w.awaitArrival(0)

	w.hubs[0].kill()
	killed := w.now()
	w.hubs = w.hubs[1:]
	must(t, source.publish(t.Context()))
	eventually(t, time.Minute, func() error {
		owners, err := w.owners(w.hubs[0])
		if err != nil {
			return err
		}
		for shard, owner := range owners {
			if owner != "hub-1" {
				return fmt.Errorf("shard %d belongs to %q", shard, owner)
			}
		}
		return nil
	})
	taken := w.now() - killed
	w.awaitArrival(1)
	at := w.arrivedAt(1)
	// The first delivery of the last of the shards that the dead hub owned, and the last
	// of all of its share.
	var worst, last time.Duration
	for shard, callees := range byShard {
		if before[shard] != "hub-0" {
			continue
		}
		first := at[callees[0]]
		for _, c := range callees {
			first, last = min(first, at[c]), max(last, at[c]-killed)
		}
		worst = max(worst, first-killed)
	}
	t.Logf("shares %v; the dead hub's were taken over after %v, each of its shards had a delivery after %v, and all was delivered after %v",
		shares, taken.Round(time.Millisecond), worst.Round(time.Millisecond), last.Round(time.Millisecond))
	if most := lease + 20*time.Second; taken > most { // lease + 5 s, where the machine has nothing else to do
		t.Errorf("the shards of the dead hub were taken over after %v, and not within %v", taken, most)
	}

	w.addHub(hubArgs...) // in the place of the dead one
	w.awaitReady()
	two := w.shared()
	w.addHub(hubArgs...)
	w.awaitReady()
	three, moved := w.shared(), 0
	for n := range three {
		if three[n] != two[n] {
			moved++
		}
	}
	if moved < 77 || moved > 100 {
		t.Errorf("a third hub moved %d shards of 256", moved)
	}
	must(t, source.publish(t.Context()))
	w.awaitArrival(2)
}

// node is the --node-id of h.
func (h *hub) node() string { return h.args[3] }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// While Redis is away, frozen or dead, publishes are answered 503 with Retry-After
// in under two seconds. What was accepted is delivered, and the hubs recover by themselves.
func TestRedisAway(t *testing.T) {
	redis := redistest.Standalone(t)
	m := &nemesis{world: newWorld(t, nemesisLease)}
	m.addRedisHubs(2, redis.URL())
	m.awaitReady()
	m.c.grace, m.c.perFault = time.Minute, nemesisInFlight+2*commitGroup
	source := m.addTopic()
	must(t, source.publish(t.Context()))
	m.stayAll(0, 5)
	for name, away := range map[string]struct{ begin, end func() }{
		"frozen": {func() { redis.Freeze(t) }, func() { redis.Continue(t) }},
		"dead":   {func() { redis.Kill(t) }, func() { redis.Restart(t) }},
	} {
		for range 20 {
			must(t, source.publish(t.Context()))
		}
		m.c.faults++
		away.begin()
		body := notification(source.from(len(source.bodies)), source.from(len(source.bodies)+1), 0)
		for _, h := range m.hubs {
			fastest := time.Hour // a machine that has much else to do may hold one up
			for range 3 {
				start := time.Now()
				a, err := try(t.Context(), http.MethodPost, h.url(), http.Header{"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(link, source.story.url, hubURL)}}, body)
				if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
					t.Errorf("with Redis %s a publish was answered %+v, %v", name, a, err)
				}
				fastest = min(fastest, time.Since(start))
			}
			if fastest >= 2*time.Second {
				t.Errorf("with Redis %s publishes were answered after %v at least", name, fastest)
			}
		}
		away.end()
		must(t, source.publish(t.Context()))
	}
	close(m.healed)
	m.converge()
}

// A hub that is frozen past its lease finds its shards taken over, and what it
// stores late does no harm.
func TestFrozenHub(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	m := &nemesis{world: newWorld(t, nemesisLease)}
	m.addRedisHubs(2, redis.URL())
	m.awaitReady()
	m.c.grace, m.c.perFault, m.c.freezes = time.Minute, nemesisInFlight+2*commitGroup, 3
	source := m.addTopic()
	must(t, source.publish(t.Context()))
	m.stayAll(0, 20)
	for range 3 {
		m.c.faults++
		must(t, source.publish(t.Context())) // deliveries are on their way when it freezes
		frozen := m.hubs[0]
		m.signal(frozen, syscall.SIGSTOP)
		n := len(source.bodies)
		must(t, source.publish(t.Context()))
		m.awaitArrival(n)
		m.signal(frozen, syscall.SIGCONT)
		must(t, source.publish(t.Context()))
		m.awaitArrival(n + 1)
		m.awaitReady()
	}
	m.converge()
}

// When Redis lost a tail, the topic has the gap, the Source is asked to send again what was lost, and
// that is delivered under its new ids.
func TestLostTail(t *testing.T) {
	t.Parallel()
	const before, tail = 5, 7
	redis := redistest.Standalone(t)
	// No shard moves: a hub that takes one over does not know where the loss begins.
	m := &nemesis{world: newWorld(t, 30*time.Second)}
	m.addRedisHubs(2, redis.URL())
	m.awaitReady()
	m.c.grace, m.c.perFault, m.c.faults, m.c.losses, m.c.lossy = time.Minute, 0, 1, 1, true
	m.c.explained = map[string][]span{journal.GapRolledBack: {{0, time.Hour}}}
	source := m.addTopic()
	must(t, source.publish(t.Context()))
	m.stayAll(0, 10)
	for range before {
		must(t, source.publish(t.Context()))
	}
	m.awaitArrival(before)
	redis.LoseTail(t, func() {
		for range tail {
			must(t, source.publish(t.Context()))
		}
		m.awaitArrival(before + tail)
	})
	must(t, source.publish(t.Context())) // is told of it
	if source.story.rewinds != 1 {
		t.Errorf("the Source was told %d times to send again", source.story.rewinds)
	}
	m.converge()
	for _, c := range m.c.callees {
		if len(c.gaps) != 1 || c.gaps[0] != (lostSpan{before + 1, before + tail, "rolled_back"}) {
			t.Errorf("%s has the gaps %v, want one of what was lost", c.path, c.gaps)
		}
	}
}

// When Redis is emptied while hubs work on it, the log and readiness report it, and publishers get
// 503, until the hubs are restarted. A hub with --install-id refuses the empty store.
func TestRedisEmptied(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	m := &nemesis{world: newWorld(t, nemesisLease)}
	m.addRedisHubs(2, redis.URL())
	m.awaitReady()
	source := m.addTopic()
	must(t, source.publish(t.Context()))
	redis.Do(t, "FLUSHALL")
	body := notification(source.from(1), source.from(2), 0)
	for _, h := range m.hubs {
		eventually(t, time.Minute, func() error {
			a, err := try(t.Context(), http.MethodGet, "http://"+h.admin+"/readyz?verbose", nil, nil)
			if err != nil || a.status != http.StatusServiceUnavailable || !bytes.Contains(a.body, []byte("emptied")) {
				return fmt.Errorf("readiness is %+v (%w)", a, err)
			}
			return nil
		})
		eventually(t, time.Minute, func() error {
			if log := h.log.String(); !regexp.MustCompile(`"level":"error".*"event":"store_refused"`).MatchString(log) {
				return fmt.Errorf("the log has no error of it:\n%s", log)
			}
			return nil
		})
		a, err := try(t.Context(), http.MethodPost, h.url(), http.Header{"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(link, source.story.url, hubURL)}}, body)
		if err != nil || a.status != http.StatusServiceUnavailable {
			t.Errorf("a publish was answered %+v, %v", a, err)
		}
	}
	if n := redis.Do(t, "DBSIZE"); n != int64(0) {
		// Heartbeats may be written; what counts is that no store was made.
		if keys := redis.Do(t, "HLEN", nemesisPrefix+":{meta}:store"); keys != int64(0) {
			t.Errorf("the hubs made a new store in the Redis that was emptied")
		}
	}
	m.hubs[0].kill()
	m.hubs[0].start()
	eventually(t, time.Minute, func() error {
		a, err := try(t.Context(), http.MethodGet, "http://"+m.hubs[0].admin+"/readyz", nil, nil)
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("a restarted hub is not ready: %+v (%w)", a, err)
		}
		return nil
	})
	pinned := exec.CommandContext(t.Context(), binary, "serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--redis-url", redis.URL(), "--redis-prefix", nemesisPrefix, "--install-id", uuid.NewString())
	out, err := pinned.CombinedOutput()
	if code := pinned.ProcessState.ExitCode(); err == nil || code != 4 {
		t.Errorf("a hub whose store is pinned ended with %d (%v):\n%s", code, err, out)
	}
}
