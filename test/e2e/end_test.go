package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

const (
	endDrain = time.Second
	// endLimit is how long the end may take here. The promise is endDrain and 2 s on an idle
	// machine.
	endLimit = endDrain + 7*time.Second
)

var endFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// endInTime asks a hub to end, and fails unless it does in time and with 0.
func (h *hub) endInTime() {
	h.t.Helper()
	began := time.Now()
	code := h.terminate()
	if took := time.Since(began); took > endLimit || code != 0 {
		h.t.Errorf("the hub ended after %v with %d:\n%s", took, code, h.log)
	}
}

// busyHub starts a hub that delivers to a callback which has not answered yet. Answer
// has it answer.
func busyHub(t *testing.T, args ...string) (h *hub, r *receiver, answer func()) {
	t.Helper()
	h = startHub(t, append([]string{"--topic-check=off", "--timeout=5m", "--drain", endDrain.String()}, args...)...)
	r = newReceiver(t, 1)
	release, delivering := make(chan struct{}), make(chan struct{}, 100)
	answer = sync.OnceFunc(func() { close(release) })
	t.Cleanup(answer)
	r.answerPost = func(w http.ResponseWriter, _ *http.Request) {
		delivering <- struct{}{}
		<-release
		w.WriteHeader(http.StatusOK)
	}
	const topic = "http://127.0.0.1:2/end"
	h.subscribe(topic, r.url(0, "/end")).want(t, http.StatusAccepted)
	h.active(1)
	do(t, http.MethodPost, h.url(), http.Header{
		"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, h.url())},
	}, notification(endFrom, endFrom.Add(time.Minute), 0)).want(t, http.StatusOK)
	<-delivering
	return h, r, answer
}

// In whatever way Redis fails when the hub is asked to end, the hub ends in time and with 0. Its log
// says truly which shards it handed back and what it could not store. The latter is delivered again.
func TestEndWithoutRedis(t *testing.T) {
	for name, fault := range map[string]func(testing.TB, *redistest.Server, *proxy){
		"frozen":     func(t testing.TB, s *redistest.Server, _ *proxy) { s.Freeze(t) },
		"killed":     func(t testing.TB, s *redistest.Server, _ *proxy) { s.Kill(t) },
		"black hole": func(_ testing.TB, _ *redistest.Server, p *proxy) { p.black.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Standalone(t)
			p := newProxy(t, redis.Addr())
			h, r, answer := busyHub(t, "--redis-url=redis://"+p.addr(), "--owner-lease=3s")
			eventually(t, time.Minute, func() error { return logged(h, "shards_taken", "delivery_started") })
			fault(t, redis, p)
			answer()
			h.endInTime()
			must(t, logged(h, `"event":"results_not_stored","results":1`, `"event":"shards_not_yielded","shards":"0-255"`, `"event":"stopped"`))
			if strings.Contains(h.log.String(), "shards_yielded") {
				t.Errorf("shards are said to be handed back that were not:\n%s", h.log)
			}
			if name != "frozen" {
				return
			}
			redis.Continue(t)
			before := len(r.got())
			h.start()
			eventually(t, time.Minute, func() error {
				if n := len(r.got()); n != before+1 {
					return fmt.Errorf("%d deliveries after %d", n, before)
				}
				return nil
			})
			h.endInTime()
			must(t, logged(h, "shards_yielded"))
		})
	}
}

// logged is an error unless the log of the hub has all of the texts.
func logged(h *hub, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(h.log.String(), text) {
			return fmt.Errorf("the log has no %s:\n%s", text, h.log)
		}
	}
	return nil
}

// A callback that never answers delays the end by --drain at most.
func TestEndWhileCallbacksHang(t *testing.T) {
	t.Parallel()
	h, _, _ := busyHub(t)
	h.endInTime()
	must(t, logged(h, `"outcome":"cut_off"`, `"event":"stopped"`))
}

// A hub that is asked to end while it starts, and its Redis never answers, ends too.
func TestEndWhileStarting(t *testing.T) {
	t.Parallel()
	p := newProxy(t, "127.0.0.1:1")
	p.black.Store(true)
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--dev", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--redis-url=redis://"+p.addr())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	must(t, cmd.Start())
	eventually(t, time.Minute, func() error {
		if p.accepted.Load() == 0 {
			return fmt.Errorf("the hub asks no Redis")
		}
		return nil
	})
	began := time.Now()
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	if took := time.Since(began); took > endLimit || err != nil {
		t.Errorf("it ended after %v with %v", took, err)
	}
}
