package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/test/ports"
)

// ways is a chain with one hub and a Source, whose files are written once, so that each is one
// change.
type ways struct {
	*chain
	hub     *process
	written int
}

func newWays(t *testing.T) *ways {
	t.Helper()
	w := &ways{chain: newChain(t)}
	addr := ports.Addr()
	w.hubURL = "http://" + addr + "/"
	w.addHub(addr, "--data-dir", filepath.Join(t.TempDir(), "data"))
	w.hub = w.hubs[0]
	w.addSource()
	w.write(5)
	w.hub.start()
	w.publisher.start()
	w.awaitList()
	return w
}

// write puts files into the folder, each at once as a whole.
func (w *ways) write(n int) {
	w.t.Helper()
	aside := filepath.Join(w.t.TempDir(), "file")
	for range n {
		must(w.t, os.WriteFile(aside, fmt.Append(nil, "file ", w.written), 0o600))
		must(w.t, os.Rename(aside, filepath.Join(w.folder, fmt.Sprint(w.written))))
		w.written++
	}
}

// follower is rssub follow in one way.
func (w *ways) follower(dir string, args ...string) *process {
	return newProcess(w.t, filepath.Base(dir), append(append(w.onCopy("follow", dir), "--log-format", "json"), args...)...)
}

// A Destination has the same in the end whatever the ways were in which its changes came, and
// carries out each once, although the hub is killed in between and files change while the
// Destination is away.
func TestChainWays(t *testing.T) {
	t.Parallel()
	w := newWays(t)
	dir, did, addr := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "did"), ports.Addr()
	w.copies = []string{dir}
	p := w.follower(dir, "--on-change", `echo "$RSSUB_URL" >> `+did)
	follow, rnd, each := p.args, w.rnd(1), max(2, *changesFlag/50)
	carriedOut := func() map[string]int {
		times := map[string]int{}
		raw, _ := os.ReadFile(did)
		for url := range strings.Lines(string(raw)) {
			times[strings.TrimSpace(url)]++
		}
		return times
	}
	order := []string{"callback", "stream", "poll", "auto"}
	if each > 6 { // make nemesis
		order = append(order, "poll", "callback", "poll", "stream", "callback", "auto")
	}
	for i, way := range order {
		p.ready, p.args = "stream_open", append(slices.Clone(follow), "--via", way)
		switch way {
		case "callback":
			p.ready, p.args = "", append(p.args, "--listen", addr, "--callback-url", "http://"+addr+"/")
		case "poll":
			p.ready, p.args = "polling", append(p.args, "--poll", "200ms")
		}
		if i > 0 {
			w.write(each) // while it is away
		}
		p.start()
		w.write(each)
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		w.hub.kill()
		w.write(each)
		w.hub.start()
		w.write(each)
		w.awaitCopies("what changed by way of "+way, 2*time.Minute)
		eventually(t, time.Minute, func() error {
			if n := len(carriedOut()); n != w.written {
				return fmt.Errorf("--on-change ran for %d of %d files, the last by way of %s\n%s", n, w.written, way, p.log)
			}
			return nil
		})
		if code := p.terminate(); code != 0 {
			t.Fatalf("rssub ended with %d:\n%s", code, p.log)
		}
	}
	eventually(t, time.Minute, func() error { // the lists may be behind what was pushed
		if code, out := run(t, w.onCopy("audit", dir)...); code != 0 || !strings.Contains(out, "in sync") {
			return fmt.Errorf("rssub audit ended with %d:\n%s", code, out)
		}
		return nil
	})
	twice := carriedOut()
	maps.DeleteFunc(twice, func(_ string, n int) bool { return n == 1 })
	if len(twice) > 0 {
		t.Errorf("carried out more than once: %v", twice)
	}
}

// copied is what rssub follow --json prints of a file.
type copied struct {
	At             time.Time `json:"at"`
	What           string    `json:"what"`
	URL            string    `json:"url"`
	NotificationID string    `json:"notification_id"`
}

// A Destination that nobody can call has a change at once, by the stream of the hub: in a network
// of its own, with nothing but loopback, from which connections lead out to the hub and the Source.
func TestStreamReachesWhereNoHubCan(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: a network namespace cannot be made")
	}
	t.Parallel()
	w := newWays(t)
	received := map[string]time.Time{} // by the hub, by id
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		from := subscriber.StreamOptions{Hub: w.hubURL, Topic: w.source + "changes/", After: "earliest", Client: http.DefaultClient}
		for n, err := range subscriber.Notifications(ctx, from) {
			if err == nil {
				mu.Lock()
				received[n.ID] = n.ReceivedAt
				mu.Unlock()
			}
		}
	}()
	came := map[string][]copied{}
	var inside []*process
	for _, way := range []string{"stream", "auto"} {
		dir := filepath.Join(t.TempDir(), way)
		p := w.follower(dir, "--via", way, "--json")
		p.ready = "stream_open"
		p.hear = func(line []byte) {
			var c copied
			if json.Unmarshal(line, &c) == nil && c.What == "copied" && c.NotificationID != "" {
				mu.Lock()
				defer mu.Unlock()
				came[way] = append(came[way], c)
			}
		}
		w.copies, inside = append(w.copies, dir), append(inside, p)
	}
	host := func(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/") }
	err := apart(t, []string{host(w.hubURL), host(w.source)}, func() error { return errors.Join(inside[0].try(), inside[1].try()) })
	if errors.Is(err, unix.EPERM) {
		t.Skipf("a network namespace cannot be made here: %v", err)
	}
	must(t, err)
	both := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(came["stream"]) > 1 && len(came["auto"]) > 1
	}
	for range 20 { // the first ones come from the Change List, as the hub does not know the topic yet
		w.write(1)
		w.awaitCopies("a change", time.Minute)
		if both() {
			break
		}
	}
	for _, p := range inside {
		eventually(t, time.Minute, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(came[p.name]) == 0 {
				return fmt.Errorf("--via %s: nothing came by the stream\n%s", p.name, p.log)
			}
			last := came[p.name][len(came[p.name])-1]
			at := received[last.NotificationID]
			if at.IsZero() {
				return fmt.Errorf("the hub does not have %s", last.NotificationID)
			}
			took := last.At.Sub(at)
			t.Logf("--via %s: a file is in the copy %v after the hub received its notification", p.name, took.Round(100*time.Microsecond))
			if took > 30*time.Second { // what it takes on an idle machine is above
				t.Errorf("--via %s: it took %v", p.name, took)
			}
			return nil
		})
	}
	for _, p := range inside {
		if code := p.terminate(); code != 0 {
			t.Errorf("rssub ended with %d:\n%s", code, p.log)
		}
	}
}

// apart starts something in a network of its own. What connects there to one of the addresses gets
// to this address out here. Nothing out here can connect to what is in there.
func apart(t *testing.T, addrs []string, start func() error) error {
	t.Helper()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		started <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := loopbackUp(); err != nil {
				return err
			}
			for _, addr := range addrs {
				l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
				if err != nil {
					return err
				}
				forward(t, l, addr) // which connects from a thread out here
			}
			return start()
		}()
	}()
	return <-started
}

// loopbackUp switches the loopback interface of this thread's network on.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
