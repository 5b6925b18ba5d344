package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/test/ports"
)

// trialOf is how many Sources the trial has; `make sources` has 200 of them.
var trialOf = flag.Int("sources", 40, "Sources in the trial of rssub follow --sources")

// trialMost is how long a change may take to be in the copy in a trial of 200 Sources or more.
const trialMost = 3 * time.Second

// trial is a process of rssub that follows a field.
type trial struct {
	*field
	dir, file, addr string
	ran             string // the file to which --on-change writes
	pid             int

	mu    sync.Mutex
	lines map[string]time.Time // when a file was reported: source, path, hash
	log   bytes.Buffer
}

// write writes the file with the Sources.
func (x *trial) write(sources []*plot) {
	x.t.Helper()
	var b strings.Builder
	b.WriteString("sources:\n")
	for _, p := range sources {
		fmt.Fprintf(&b, "  - url: %scaps.xml\n    name: %s\n    map: [\"%s=.\"]\n", p.base, p.name, p.base)
	}
	if err := os.WriteFile(x.file+".new", []byte(b.String()), 0o600); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Rename(x.file+".new", x.file); err != nil {
		x.t.Fatal(err)
	}
}

// start starts the process. End ends it with a signal.
func (x *trial) start() (end func(syscall.Signal)) {
	x.t.Helper()
	self, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	cmd := exec.CommandContext(x.t.Context(), self)
	cmd.Args = []string{
		"rssub", "follow", "--sources", x.file, "--dir", x.dir, "--dev", "--listen", x.addr, "--json", "--log-level", "warn",
		"--on-change", `printf '%s %s %s\n' "$RSSUB_SOURCE_NAME" "$RSSUB_CHANGE" "$RSSUB_HASH" >> ` + x.ran,
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	cmd.Stderr = &locked{mu: &x.mu, to: &x.log}
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.pid = cmd.Process.Pid
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			var e event
			if json.Unmarshal(s.Bytes(), &e) == nil && e.What == destination.Copied {
				x.mu.Lock()
				x.lines[e.Source+" "+e.Path+" "+e.Hash] = time.Now()
				x.mu.Unlock()
			}
		}
	}()
	return func(signal syscall.Signal) {
		_ = cmd.Process.Signal(signal)
		<-read
		if err := cmd.Wait(); err != nil && signal == syscall.SIGTERM {
			x.t.Errorf("rssub ended with %v", err)
		}
	}
}

type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// until waits until something is so of each Source, and says of which it never was.
func (x *trial) until(what string, sources []*plot, is func(*plot) bool) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Minute)
	defer cancel()
	for left := slices.Clone(sources); ; {
		if left = slices.DeleteFunc(left, is); len(left) == 0 {
			return
		}
		if !clock.Sleep(ctx, 10*time.Millisecond) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.t.Fatalf("%d of %d never were %s, such as %s:\n%.5000s", len(left), len(sources), what, left[0].name, x.log.String())
		}
	}
}

// same reports whether the copy of a Source has what the Source has.
func (x *trial) same(p *plot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, body := range p.files {
		raw, err := os.ReadFile(filepath.Join(x.dir, p.name, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.t.Error(err)
		}
		if string(raw) != body {
			return false
		}
	}
	return true
}

// round changes a file of each Source, and returns how long each change took to be reported as
// copied, the shortest first.
func (x *trial) round(sources []*plot, body string) (took []time.Duration) {
	x.t.Helper()
	sent := map[*plot]time.Time{}
	key := func(p *plot) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, hash, _ := strings.Cut(p.entry("f1").Hash, ":")
		return hash
	}
	at := func(p *plot) (time.Time, bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for line, at := range x.lines {
			if strings.HasPrefix(line, p.name+" f1 ") && strings.Contains(line, key(p)) {
				return at, true
			}
		}
		return time.Time{}, false
	}
	for _, p := range sources {
		sent[p] = time.Now()
		p.change("f1", body+p.name)
	}
	x.until("reported as changed", sources, func(p *plot) bool {
		when, ok := at(p)
		if ok {
			took = append(took, when.Sub(sent[p]))
		}
		return ok
	})
	slices.Sort(took)
	return took
}

// figures returns what the process uses, as Linux tells it.
func (x *trial) figures() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.pid))
	if err != nil {
		return "unknown here"
	}
	var memory string
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "VmRSS" || name == "VmHWM" || name == "Threads" {
			memory += name + " " + strings.TrimSpace(value) + ", "
		}
	}
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.pid))
	return memory + fmt.Sprintf("%d descriptors", len(fds))
}

// Many Sources in one process, a tenth of them hanging, gone or lying, some at hosts that serve
// others as well: the others get their changes, also if the process is killed meanwhile. One
// that is taken out of the file is unsubscribed, and no other begins again.
func TestManySources(t *testing.T) {
	x := &trial{field: newField(t, *trialOf), dir: t.TempDir(), addr: ports.Addr(), lines: map[string]time.Time{}}
	x.file = filepath.Join(t.TempDir(), "sources.yaml")
	x.ran = filepath.Join(t.TempDir(), "ran")
	x.write(x.sources)
	well := x.healthy()
	began := time.Now()
	end := x.start()
	x.until("subscribed", well, func(p *plot) bool { return x.call(p).mode == "subscribe" })
	x.until("copied", well, x.same)
	t.Logf("%d Sources, of which %d are broken: the others are copied and subscribed after %v; %s", len(x.sources), len(x.sources)-len(well), time.Since(began), x.figures())

	took := x.round(well, "pushed ")
	t.Logf("a change of each of the others is copied after %v (median), %v (longest); %s", took[len(took)/2], took[len(took)-1], x.figures())
	if *trialOf >= 200 && took[len(took)-1] > trialMost {
		t.Errorf("the longest took %v, and %v is the most", took[len(took)-1], trialMost)
	}

	// Killed while changes come.
	for i, p := range well {
		if i == len(well)/2 {
			end(syscall.SIGKILL)
		}
		p.change("f2", "while it was killed "+p.name)
	}
	began = time.Now()
	end = x.start()
	x.until("in sync after a kill", well, x.same)
	t.Logf("after kill -9 in the middle, all are in sync again after %v; %s", time.Since(began), x.figures())

	gone, rest := well[0], slices.DeleteFunc(slices.Clone(x.sources), func(p *plot) bool { return p == well[0] })
	x.write(rest)
	x.until("unsubscribed", []*plot{gone}, func(p *plot) bool { return x.call(p).mode == "unsubscribe" })
	if !x.same(gone) {
		t.Error("the copy that was left out did not stay")
	}
	took = x.round(well[1:], "later ")
	t.Logf("later changes: %v (median), %v (longest); %s", took[len(took)/2], took[len(took)-1], x.figures())
	x.until("handed to the command", well[1:], x.handed)
	end(syscall.SIGTERM)
}

// handed reports whether --on-change was run for what the Source has now, also for what came
// when the process was killed.
func (x *trial) handed(p *plot) bool {
	raw, _ := os.ReadFile(x.ran)
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.files {
		found := false
		for line := range strings.Lines(string(raw)) {
			found = found || strings.HasPrefix(line, p.name+" ") && strings.Contains(line, p.entry(name).Hash)
		}
		if !found {
			return false
		}
	}
	return true
}
