package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/ports"
)

// killAfter names a variable that has rspub-killed kill itself after so many requests were
// recorded, before the last of them is answered.
const killAfter = "RSHUB_TEST_KILL_AFTER"

// killed is rspub with that fault.
func killed() {
	left := atomic.Int64{}
	if n, err := strconv.ParseInt(os.Getenv(killAfter), 10, 64); err == nil {
		left.Store(n)
		afterRecord = func() {
			if left.Add(-1) <= 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	main()
}

// runHub runs a real hub at an address until stop.
func runHub(t *testing.T, addr, dir string) (stop func()) {
	t.Helper()
	cfg, _, err := config.Load([]string{
		"--dev", "--listen=" + addr, "--public-url=http://" + addr + "/", "--admin-listen=127.0.0.1:0", "--data-dir=" + dir, "--publish-auth=content", "--topic-check=require",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, nil, "test")
	if err == nil {
		err = a.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// receiver is a callback that keeps what it gets, each notification once.
type receiver struct {
	*httptest.Server
	verified chan struct{}

	mu   sync.Mutex
	seen map[string]bool // by Webhook-Id
	locs []string
	err  error
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{verified: make(chan struct{}, 10), seen: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			_, _ = io.WriteString(w, req.URL.Query().Get("hub.challenge"))
			r.verified <- struct{}{}
			return
		}
		r.take(req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("Webhook-Id")
	if r.seen[id] {
		return
	}
	r.seen[id] = true
	n := resourcesync.NewNotificationReader(req.Body, resourcesync.DefaultLimits)
	for {
		e, err := n.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return
		}
		r.locs = append(r.locs, e.Loc)
	}
}

func (r *receiver) got() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.locs), r.err
}

// publishing is a program that publishes changes through the relay.
type publishing struct {
	name  string
	run   []string
	lines func(i int) string
	want  []string
}

// examples are the programs of docs/examples/relay that this machine can run.
func examples(t *testing.T, changes int) (all []publishing) {
	t.Helper()
	dir, err := filepath.Abs("../../docs/examples/relay")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct{ program, file string }{{"python3", "publish.py"}, {"node", "publish.mjs"}} {
		if _, err := exec.LookPath(e.program); err != nil {
			t.Logf("there is no %s here, so %s is not run", e.program, e.file)
			continue
		}
		p := publishing{name: e.program, run: []string{e.program, filepath.Join(dir, e.file)}}
		p.lines = func(i int) string {
			return fmt.Sprintf(`{"id":"%s-%d","change":"updated","url":"https://example.org/%s/%d"}`+"\n", p.name, i, p.name, i)
		}
		for i := range changes {
			p.want = append(p.want, fmt.Sprintf("https://example.org/%s/%d", p.name, i))
		}
		all = append(all, p)
	}
	if all == nil {
		t.Skip("there is neither python3 nor node")
	}
	return all
}

// relays are one relay after another: whenever one is killed, the next starts.
type relays struct {
	lives   atomic.Int64
	mu      sync.Mutex
	current *os.Process
	ending  bool
	logs    []string // of those that have ended
}

func startRelays(t *testing.T, next func(life int) *exec.Cmd) *relays {
	r := &relays{}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			cmd := next(int(r.lives.Load()))
			var log bytes.Buffer
			cmd.Stderr = &log
			r.mu.Lock()
			if r.ending {
				r.mu.Unlock()
				return
			}
			err := cmd.Start()
			r.current = cmd.Process
			r.mu.Unlock()
			r.lives.Add(1)
			if err == nil {
				err = cmd.Wait()
			}
			r.logs = append(r.logs, log.String())
			if err == nil || err.Error() != "signal: killed" {
				t.Errorf("the relay ended with %v\n%s", err, &log)
				return
			}
		}
	})
	t.Cleanup(func() {
		r.mu.Lock()
		r.ending = true
		r.mu.Unlock()
		r.kill()
		ended.Wait()
		for life, log := range r.logs {
			if t.Failed() {
				t.Logf("relay %d logged:\n%s", life, log)
			}
		}
	})
	return r
}

func (r *relays) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		_ = r.current.Kill() // an error: it was killed already
	}
}

var relayedFlag = flag.Int("relayed", 300, "changes that each example publishes through the relay")

// The examples publish many changes each (-relayed) while the hub is down, and the relay is killed again and
// again after the changes are on disk and before it answers. When the hub is back, its subscriber
// gets all, in order, each once (SRC-08, SRC-09).
func TestRelayIsKilled_SRC08_SRC09(t *testing.T) {
	changes := *relayedFlag
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	hubAddr, public, submit := ports.Addr(), ports.Addr(), ports.Addr()
	hubDir, state := filepath.Join(t.TempDir(), "hub"), filepath.Join(t.TempDir(), "state")
	stopHub := runHub(t, hubAddr, hubDir)
	t.Cleanup(func() { stopHub() })
	hub := "http://" + hubAddr + "/"

	relays := startRelays(t, func(life int) *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), "rspub-killed", "relay", "--dev", "--hub", hub, "--public-listen", public, "--public-url", "http://"+public+"/",
			"--listen", submit, "--resource-url", "https://example.org/", "--state-dir", state, "--every", "20ms", "--log-format", "json")
		if life > 0 {
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", killAfter, 1+rnd.IntN(changes/2)))
		}
		return cmd
	})
	ask := func(method, u string, form url.Values) (status int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), method, u, strings.NewReader(form.Encode()))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	answers := func(u string) func() error {
		return func() error { _, err := ask(http.MethodGet, u, nil); return err }
	}
	eventually(t, answers("http://"+submit+"/"))
	eventually(t, answers("http://"+public+"/changes/"))
	r := newReceiver(t)
	subscription := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"http://" + public + "/changes/"}, "hub.callback": {r.URL}}
	if status, err := ask(http.MethodPost, hub, subscription); err != nil || status != http.StatusAccepted {
		t.Fatalf("subscribing: %d, %v", status, err)
	}
	select {
	case <-r.verified:
	case <-time.After(time.Minute):
		t.Fatal("the subscription is not verified")
	}
	stopHub()

	all := examples(t, changes)
	var programs sync.WaitGroup
	for _, p := range all {
		var lines strings.Builder
		for i := range changes {
			lines.WriteString(p.lines(i))
		}
		programs.Go(func() {
			cmd := exec.CommandContext(t.Context(), p.run[0], append(p.run[1:], "http://"+submit+"/")...)
			cmd.Stdin = strings.NewReader(lines.String())
			out, err := cmd.Output()
			if n := bytes.Count(out, []byte("\n")); err != nil || n != changes {
				t.Errorf("%s: %v, %d answers", p.name, err, n)
			}
		})
	}
	relays.kill() // the first has no fault
	programs.Wait()
	t.Logf("the relay was killed %d times", relays.lives.Load()-1)
	stopHub = runHub(t, hubAddr, hubDir)
	relays.kill() // or it might wait long until it tries the hub again
	eventually(t, func() error {
		got, err := r.got()
		if err == nil && len(got) < changes*len(all) {
			err = fmt.Errorf("the subscriber has %d of %d changes", len(got), changes*len(all))
		}
		return err
	})
	got, _ := r.got()
	for _, p := range all {
		var of []string
		for _, loc := range got {
			if strings.HasPrefix(loc, "https://example.org/"+p.name+"/") {
				of = append(of, loc)
			}
		}
		if !slices.Equal(of, p.want) {
			t.Errorf("of %s the subscriber got %d changes, and they are not these %d in order", p.name, len(of), len(p.want))
		}
	}
	if len(got) != changes*len(all) {
		t.Errorf("the subscriber got %d changes of %d", len(got), changes*len(all))
	}
}
