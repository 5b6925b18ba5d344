package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/redistest"
)

var changesFlag = flag.Int("changes", 300, "how many changes of files the chain carries while its processes are killed")

// The whole chain under kill -9: a hub with its default authorisation, a Source and
// two Destinations.
func TestChain(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	addr := ports.Addr()
	c.hubURL = "http://" + addr + "/"
	c.addHub(addr, "--data-dir", filepath.Join(t.TempDir(), "data"))
	c.run()
}

// The same with two hubs on one Redis behind one address.
func TestChainRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Config("appendfsync", "everysec"))
	c := newChain(t)
	addrs := []string{ports.Addr(), ports.Addr()}
	c.hubURL = "http://" + newForwarder(t, addrs...).addr() + "/"
	for _, addr := range addrs {
		c.addHub(addr, "--redis-url", redis.URL(), "--owner-lease", nemesisLease.String())
	}
	c.run()
}

// chain is hubs that are one, a Source over a folder, and copies of that.
type chain struct {
	t              *testing.T
	seed           uint64
	folder         string
	hubURL, source string // URLs
	admins         []string
	hubs           []*process
	publisher      *process
	followers      []*process
	copies         []string
	kills          int
}

// local lets a process without --dev call this machine.
const local = "--allow-cidr=127.0.0.0/8"

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{t: t, seed: *seedFlag, folder: t.TempDir()}
	if c.seed == 0 {
		c.seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -args -seed=%d -changes=%d)", c.seed, c.seed, *changesFlag)
	return c
}

// rnd returns random numbers of their own for each purpose.
func (c *chain) rnd(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, purpose)) }

func (c *chain) addHub(addr string, args ...string) {
	admin := ports.Addr()
	c.admins = append(c.admins, admin)
	c.hubs = append(c.hubs, newProcess(c.t, fmt.Sprint("hub ", len(c.hubs)), append([]string{
		binary, "serve", "--listen", addr, "--public-url", c.hubURL, "--admin-listen", admin, local, "--retry-first", "200ms", "--log-format", "json",
	}, args...)...))
}

func (c *chain) addSource() {
	addr := ports.Addr()
	c.source = "http://" + addr + "/"
	c.publisher = newProcess(c.t, "rspub", command("rspub"), "serve", "--dir", c.folder, "--hidden", "--listen", addr, "--public-url", c.source, local,
		"--state-dir", c.t.TempDir(), "--hub", c.hubURL, "--settle", "100ms", "--every", "100ms", "--list-every", "2s",
		"--max-deleted", "1", "--log-format", "json")
}

func (c *chain) addFollower() {
	n := len(c.followers)
	addr, dir := ports.Addr(), filepath.Join(c.t.TempDir(), fmt.Sprint("copy-", n))
	c.copies = append(c.copies, dir)
	c.followers = append(c.followers, newProcess(c.t, fmt.Sprint("rssub ", n), append(c.onCopy("follow", dir), "--listen", addr,
		"--callback-url", "http://"+addr+"/", "--log-format", "json")...))
}

// onCopy are the arguments of a command on a copy.
func (c *chain) onCopy(what, dir string) []string {
	return []string{command("rssub"), what, c.source, "--dir", dir, "--map", c.source + "data/=.", local, "--max-delete", "1000000"}
}

// run sends changes through the chain while its processes are killed, and checks the result.
func (c *chain) run() {
	t := c.t
	changes := newChanger(c.folder, t.TempDir(), c.rnd(1))
	for range 40 {
		must(t, changes.write(changes.free([]string{".", "folder 0", "folder 1"})))
	}
	c.addSource()
	c.addFollower()
	c.addFollower()
	for _, p := range c.all() {
		p.start()
		if p == c.publisher {
			c.awaitList()
		}
	}
	c.awaitCopies("the baseline", 3*time.Minute)
	c.awaitSubscribed()

	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- c.change(changes) }()
	c.torment(done)
	under := time.Since(begun)
	begun = time.Now()
	c.awaitCopies("what changed", 5*time.Minute)
	files, _, err := changes.list()
	must(t, err)
	t.Logf("%d changes to %d files in %v, %d kills; in sync %v after the last; %v", *changesFlag, len(files), under.Round(time.Millisecond), c.kills,
		time.Since(begun).Round(time.Millisecond), changes.did)
	c.summary()

	begun = time.Now()
	must(t, changes.write("the last one.txt"))
	c.awaitCopies("a change when all was over", 3*time.Minute)
	t.Logf("then one change took %v", time.Since(begun).Round(time.Millisecond))
	c.judge()
}

func (c *chain) all() []*process {
	return append(append(append([]*process{}, c.hubs...), c.publisher), c.followers...)
}

// change makes the changes, some of them close together.
func (c *chain) change(changes *changer) error {
	pace := c.rnd(2)
	for range *changesFlag {
		if err := changes.change(); err != nil {
			return err
		}
		time.Sleep(time.Duration(pace.IntN(80)) * time.Millisecond)
	}
	return nil
}

// torment kills processes, one or two at a time, until the changes are made and
// each process was killed at least twice. They run in the end.
func (c *chain) torment(done <-chan error) {
	c.t.Helper()
	rnd := c.rnd(3)
	pause := func(ms int) { time.Sleep(time.Duration(rnd.IntN(ms)) * time.Millisecond) }
	var err error
	for round, changed := 0, false; round < 2 || !changed; round++ {
		order := c.all()
		rnd.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		for len(order) > 0 {
			n := 1
			if len(order) > 1 && rnd.IntN(4) == 0 {
				n = 2
			}
			for _, p := range order[:n] {
				p.kill()
				c.kills++
			}
			pause(500)
			for _, p := range order[:n] {
				p.start()
			}
			order = order[n:]
			pause(1000)
		}
		select {
		case err = <-done:
			changed = true
		default:
		}
		if changed && err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *chain) awaitList() {
	c.t.Helper()
	eventually(c.t, time.Minute, func() error {
		a, err := try(c.t.Context(), http.MethodGet, c.source+"resourcelist.xml", nil, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("the Resource List is answered %d", a.status)
		}
		return err
	})
}

// awaitSubscribed waits until the hub has all followers.
func (c *chain) awaitSubscribed() {
	c.t.Helper()
	eventually(c.t, time.Minute, func() error {
		var page struct {
			Items []struct{} `json:"items"`
		}
		a, err := try(c.t.Context(), http.MethodGet, "http://"+c.admins[0]+"/api/v1/subscriptions?state=active", nil, nil)
		if err == nil {
			err = json.Unmarshal(a.body, &page)
		}
		if err == nil && len(page.Items) != 2*len(c.followers) { // one for changes, one for framework notifications
			err = fmt.Errorf("%d subscriptions are active", len(page.Items))
		}
		return err
	})
}

// awaitCopies waits until the copies are the folder.
func (c *chain) awaitCopies(what string, limit time.Duration) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		var err error
		for _, dir := range c.copies {
			err = errors.Join(err, sameTrees(c.folder, dir))
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			for _, p := range c.all() {
				c.t.Logf("--- %s\n%s", p.name, p.log)
			}
			c.summary()
			c.t.Fatalf("%s has not arrived after %v: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// summary says what the Destinations received and missed.
func (c *chain) summary() {
	c.t.Helper()
	for i, dir := range c.copies {
		_, out := run(c.t, command("rssub"), "status", "--state-dir", filepath.Join(dir, ".rssub"))
		c.t.Logf("%s (started %d times):\n%s", c.followers[i].name, c.followers[i].starts, out)
	}
}

// judge checks the Source and the copies with the commands.
func (c *chain) judge() {
	t := c.t
	// A file may have come and gone before anything could copy it. Its deletion may not be published
	// yet, because a scan publishes deletions last.
	eventually(t, time.Minute, func() error {
		if code, out := run(t, command("rspub"), "check", local, c.source); code != 0 {
			return fmt.Errorf("rspub check ended with %d:\n%s", code, out)
		}
		return nil
	})
	c.demand(0, binary, "validate", "--follow", "--dev", c.source+".well-known/resourcesync")
	for i, p := range c.followers {
		if code := p.terminate(); code != 0 {
			t.Errorf("%s ended with %d at SIGTERM", p.name, code)
		}
		audit := c.onCopy("audit", c.copies[i])
		eventually(t, time.Minute, func() error { // the lists may be behind what was pushed
			if code, out := run(t, audit...); code != 0 || !strings.Contains(out, "in sync") {
				return fmt.Errorf("rssub audit ended with %d:\n%s", code, out)
			}
			return nil
		})
		c.damage(c.copies[i])
		if out := c.demand(6, audit...); !strings.Contains(out, "NOT in sync") {
			t.Errorf("rssub audit says %s", out)
		}
		c.demand(0, append(audit, "--repair")...)
		if err := sameTrees(c.folder, c.copies[i]); err != nil {
			t.Errorf("after a repair %v", err)
		}
	}
	for _, p := range append([]*process{c.publisher}, c.hubs...) {
		if code := p.terminate(); code != 0 {
			t.Errorf("%s ended with %d at SIGTERM", p.name, code)
		}
	}
}

// demand runs a command and demands its exit code.
func (c *chain) demand(code int, args ...string) string {
	c.t.Helper()
	got, out := run(c.t, args...)
	if got != code {
		c.t.Errorf("%s ended with %d, want %d:\n%s", filepath.Base(args[0])+" "+strings.Join(args[1:], " "), got, code, out)
	}
	return out
}

// damage turns one bit of a file of a copy, whose length and times stay.
func (c *chain) damage(dir string) {
	c.t.Helper()
	name := filepath.Join(dir, "the last one.txt")
	info, err := os.Stat(name)
	must(c.t, err)
	b, err := os.ReadFile(name)
	must(c.t, err)
	if len(b) == 0 {
		b = []byte("x")
	}
	b[0] ^= 1
	must(c.t, os.WriteFile(name, b, 0o600))
	must(c.t, os.Chtimes(name, info.ModTime(), info.ModTime()))
}

// command is one of the binaries beside rshub.
func command(name string) string { return filepath.Join(filepath.Dir(binary), name) }
