package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

var killsFlag = flag.Int("rspub-kills", 12, "how often rspub is killed while files change; how long a hub is away from it grows with that")

// pushBed is rspub over a folder that changes, and the hubs that it pushes to, with
// all their defaults but that loopback may be called.
type pushBed struct {
	t         *testing.T
	seed      uint64
	folder    string
	aside     string // what is in the folder at once is renamed from there
	state     string // of rspub
	source    string // its URL
	publisher *process
	hubs      []*pushHub
	once      int               // how many files were written that are never touched again
	baseline  map[string]string // the hashes that the first Resource List says, by path
	listening chan struct{}     // gets a token with each start of rspub
	recorded  chan struct{}     // and with each change that it recorded
	rewound   int               // how often a hub lost its tail, by rspub's log

	mu sync.Mutex
}

// pushHub is a hub behind a gate that sees what rspub posts, and a subscriber that
// keeps what the hub delivers.
type pushHub struct {
	*process
	gate       *httptest.Server
	admin, dir string
	subscriber *receiver

	mu      sync.Mutex
	passing func(answered bool) // told of each POST before it is passed on, and of its 200
}

func newPushBed(t *testing.T, hubs int) *pushBed {
	t.Helper()
	b := &pushBed{t: t, seed: *seedFlag, folder: t.TempDir(), aside: t.TempDir(), state: t.TempDir(), listening: make(chan struct{}, 1), recorded: make(chan struct{}, 1)}
	if b.seed == 0 {
		b.seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -args -seed=%d -rspub-kills=%d)", b.seed, b.seed, *killsFlag)
	addr := ports.Addr()
	b.source = "http://" + addr + "/"
	args := []string{
		command("rspub"), "serve", "--dir", b.folder, "--hidden", "--listen", addr, "--public-url", b.source, local, "--state-dir", b.state,
		"--settle", "50ms", "--every", "100ms", "--list-every", "1s", "--rotate-at", "300", "--dump-every", "off", "--archive-every", "off",
		"--max-deleted", "1", "--json", "--log-format", "json",
	}
	for range hubs {
		h := b.addHub()
		args = append(args, "--hub", h.url())
	}
	b.publisher = newProcess(t, "rspub", args...)
	b.publisher.hear = b.heard
	return b
}

func (b *pushBed) addHub() *pushHub {
	addr := ports.Addr()
	to, err := url.Parse("http://" + addr)
	must(b.t, err)
	h := &pushHub{admin: ports.Addr(), dir: filepath.Join(b.t.TempDir(), "data"), subscriber: newReceiver(b.t, 1)}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	pass.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Method == http.MethodPost && resp.StatusCode == http.StatusOK {
			h.pass(true)
		}
		return nil
	}
	h.gate = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/xml" {
			h.pass(false)
		}
		pass.ServeHTTP(w, r)
	}))
	b.t.Cleanup(func() { h.gate.CloseClientConnections(); h.gate.Close() })
	h.process = newProcess(b.t, fmt.Sprint("hub ", len(b.hubs)), binary, "serve", "--listen", addr, "--public-url", h.url(), "--admin-listen", h.admin, local,
		"--data-dir", h.dir, "--retry-first", "200ms", "--log-format", "json")
	b.hubs = append(b.hubs, h)
	return h
}

func (h *pushHub) url() string { return h.gate.URL + "/" }

func (h *pushHub) onPass(f func(answered bool)) { h.mu.Lock(); h.passing = f; h.mu.Unlock() }

func (h *pushHub) pass(answered bool) {
	h.mu.Lock()
	f := h.passing
	h.mu.Unlock()
	if f != nil {
		f(answered)
	}
}

// heard reads what rspub prints.
func (b *pushBed) heard(line []byte) {
	var said struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(line, &said) != nil {
		return
	}
	switch said.Event {
	case "listening":
		token(b.listening)
	case "change":
		token(b.recorded)
	case "hub_rewound":
		b.mu.Lock()
		b.rewound++
		b.mu.Unlock()
	}
}

func (b *pushBed) rewinds() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rewound
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rnd returns random numbers of their own for each purpose.
func (b *pushBed) rnd(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(b.seed, purpose)) }

func (b *pushBed) topic() string { return b.source + "changes/" }

// begin starts the hubs and rspub over the folder as it is, reads the baseline and
// has subscribers at each hub.
func (b *pushBed) begin() {
	t := b.t
	t.Helper()
	for _, h := range b.hubs {
		h.start()
	}
	b.publisher.start()
	eventually(t, time.Minute, func() error {
		a, err := try(t.Context(), http.MethodGet, b.source+"resourcelist.xml", nil, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("the Resource List is answered %d", a.status)
		}
		return err
	})
	b.baseline = map[string]string{}
	for _, e := range b.document(b.source + "resourcelist.xml") {
		b.baseline[b.path(e.Loc)] = e.Hash
	}
	for _, h := range b.hubs {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {b.topic()}, "hub.callback": {h.subscriber.url(0, "/cb")}}
		header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		do(t, http.MethodPost, h.url(), header, []byte(form.Encode())).want(t, http.StatusAccepted)
	}
	eventually(t, time.Minute, func() error {
		for _, h := range b.hubs {
			if len(h.subscriber.asked()) == 0 {
				return errors.New("a hub has not asked for the intent of its subscriber")
			}
		}
		return nil
	})
}

// writeOnce puts a file into the folder that nobody touches again: one change, that
// can be neither two nor one with another.
func (b *pushBed) writeOnce() error {
	dir := filepath.Join(b.folder, fmt.Sprint("once ", b.once/500))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(b.aside, "file")
	if err := os.WriteFile(name, fmt.Append(nil, "file ", b.once), 0o644); err != nil {
		return err
	}
	err := os.Rename(name, filepath.Join(dir, fmt.Sprint(b.once)))
	b.once++
	return err
}

// change changes files until it is told to end: those of one folder at random, and
// new ones in others.
func (b *pushBed) change(c *changer, end <-chan struct{}) error {
	pace := b.rnd(2)
	for {
		var err error
		if pace.IntN(2) == 0 {
			err = b.writeOnce()
		} else {
			err = c.change()
		}
		if err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		case <-time.After(time.Duration(pace.IntN(60)) * time.Millisecond):
		}
	}
}

// changing changes files in the background; what it returns ends that.
func (b *pushBed) changing() (end func()) {
	b.t.Helper()
	busy := filepath.Join(b.folder, "busy")
	must(b.t, os.Mkdir(busy, 0o755))
	c := newChanger(busy, b.aside, b.rnd(1))
	for range 30 {
		must(b.t, c.write(c.free([]string{".", "a", "b"})))
	}
	b.begin()
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- b.change(c, done) }()
	return func() {
		b.t.Helper()
		close(done)
		must(b.t, <-ended)
		kinds := 0
		for _, n := range c.did {
			kinds += n
		}
		b.t.Logf("%d files were written once, %d changes made to others: %v", b.once, kinds, c.did)
	}
}

// finish starts what does not run, writes a last file, and waits until each hub and
// its subscriber have it and all before.
func (b *pushBed) finish(limit time.Duration) {
	b.t.Helper()
	for _, h := range b.hubs {
		h.onPass(nil)
	}
	must(b.t, b.writeOnce())
	begun := time.Now()
	for _, h := range b.hubs {
		b.await(h, limit)
	}
	b.t.Logf("all had arrived %v after the last change", time.Since(begun).Round(time.Millisecond))
}

// await waits until the last file that was written is in a hub's journal, and the
// subscriber has all that is there.
func (b *pushBed) await(h *pushHub, limit time.Duration) {
	b.t.Helper()
	last := b.source + fmt.Sprintf("data/once%%20%d/%d", (b.once-1)/500, b.once-1)
	deadline := time.Now().Add(limit)
	for {
		entries, err := b.arrived(h)
		if err == nil && !slices.ContainsFunc(entries, func(e pushed) bool { return e.Loc == last }) {
			err = fmt.Errorf("%s is not in the journal of %s", last, h.name)
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("after %v: %v\n--- %s\n%s\n--- rspub\n%s", limit, err, h.name, h.log, b.publisher.log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
