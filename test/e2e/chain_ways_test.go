package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
