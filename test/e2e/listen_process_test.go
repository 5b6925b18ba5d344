package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// heard is one line of rssub listen, as it is promised to those who read it.
type heard struct {
	NotificationID string    `json:"notification_id"`
	From           time.Time `json:"from"`
	Until          time.Time `json:"until"`
	Repaired       bool      `json:"repaired"`
	NeedsBaseline  bool      `json:"needs_baseline"`
	MediaType      string    `json:"media_type"`
	Content        string    `json:"content"`
	ContentBase64  string    `json:"content_base64"`
	Changes        []struct {
		Change   string    `json:"change"`
		URL      string    `json:"url"`
		Datetime time.Time `json:"datetime"`
	} `json:"changes"`
}

// listener is rssub listen on a folder that outlives its processes.
type listener struct {
	t    *testing.T
	addr string
	dir  string
	args []string
	log  logBuffer

	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	runs [][]heard // what each process printed
}

func newListener(t *testing.T, args ...string) *listener {
	l := &listener{t: t, addr: ports.Addr(), dir: filepath.Join(t.TempDir(), "state")}
	l.args = append([]string{"listen", "--listen", l.addr, "--state-dir", l.dir, "--dev", "--log-format", "json"}, args...)
	t.Cleanup(l.kill)
	return l
}

// start starts a process; what it prints is read until it ends.
func (l *listener) start() {
	l.t.Helper()
	cmd := exec.CommandContext(context.Background(), command("rssub"), l.args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	out, err := cmd.StdoutPipe()
	must(l.t, err)
	errOut, err := cmd.StderrPipe()
	must(l.t, err)
	must(l.t, cmd.Start())
	l.mu.Lock()
	run := len(l.runs)
	l.runs = append(l.runs, nil)
	l.mu.Unlock()
	done := make(chan struct{})
	l.cmd, l.done = cmd, done
	go func() {
		defer close(done)
		var reading sync.WaitGroup
		reading.Go(func() {
			lines := bufio.NewScanner(errOut)
			for lines.Buffer(nil, 1<<20); lines.Scan(); {
				l.log.add(lines.Bytes())
			}
		})
		for in := bufio.NewReader(out); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				break // a line that was cut off was not committed
			}
			var h heard
			if err := json.Unmarshal(line, &h); err != nil {
				l.t.Errorf("%q is no line of JSON: %v", line, err)
			}
			l.mu.Lock()
			l.runs[run] = append(l.runs[run], h)
			l.mu.Unlock()
		}
		reading.Wait()
		_ = cmd.Wait()
	}()
}

// kill ends the process as a power cut would.
func (l *listener) kill() {
	if l.cmd != nil {
		_ = l.cmd.Process.Kill()
		<-l.done
		l.cmd = nil
	}
}

// terminate asks the process to end and returns its exit code.
func (l *listener) terminate() int {
	must(l.t, l.cmd.Process.Signal(syscall.SIGTERM))
	<-l.done
	code := l.cmd.ProcessState.ExitCode()
	l.cmd = nil
	return code
}

// got returns what the processes printed, one after the other.
func (l *listener) got() [][]heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]heard(nil), l.runs...)
}

// all is that in one.
func (l *listener) all() (out []heard) {
	for _, run := range l.got() {
		out = append(out, run...)
	}
	return out
}

// listenStatus is what rssub status --json tells.
type listenStatus struct {
	Topic         string `json:"topic"`
	Subscriptions []struct {
		State  string `json:"state"`
		Signed bool   `json:"signed"`
	} `json:"subscriptions"`
	Counts struct {
		Received, Duplicates, Early uint64
		Backlog, Held               int
	} `json:"counts"`
	Gaps []struct {
		State string `json:"state"`
		Why   string `json:"why"`
	} `json:"gaps"`
	Trouble string `json:"trouble"`
}

func (l *listener) status() (st listenStatus) {
	l.t.Helper()
	out, err := exec.CommandContext(l.t.Context(), command("rssub"), "status", "--state-dir", l.dir, "--json").Output()
	must(l.t, err)
	var all []listenStatus
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 1 {
		l.t.Fatalf("rssub status printed %s (%v)", out, err)
	}
	return all[0]
}

// mischief is a proxy before a callback, which drops, doubles, delays and reorders
// deliveries, from the second on: the stream of a subscriber begins with the first.
type mischief struct {
	*httptest.Server
	to    string
	begun atomic.Bool // one was delivered
	quiet atomic.Bool
	later sync.WaitGroup

	mu  sync.Mutex
	rnd *rand.Rand
	did map[string]int
}

func newMischief(t *testing.T, to string, rnd *rand.Rand) *mischief {
	m := &mischief{to: to, rnd: rnd, did: map[string]int{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() { m.Close(); m.later.Wait() })
	return m
}

// draw decides what becomes of a delivery, and after what time.
func (m *mischief) draw() (what string, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what = "passed"
	if n := m.rnd.IntN(100); m.begun.Load() && !m.quiet.Load() {
		switch {
		case n < 10:
			what = "dropped"
		case n < 25:
			what = "doubled"
		case n < 40:
			what = "delayed"
		}
	}
	m.did[what]++
	return what, time.Duration(m.rnd.IntN(300)) * time.Millisecond
}

func (m *mischief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	send := func(ctx context.Context) (*answer, error) {
		return try(ctx, r.Method, "http://"+m.to+r.URL.RequestURI(), r.Header.Clone(), body)
	}
	what, after := "passed", time.Duration(0)
	if r.Method == http.MethodPost {
		what, after = m.draw()
	}
	if what == "doubled" || what == "delayed" {
		m.later.Go(func() { //nolint:contextcheck // it outlives the request
			time.Sleep(after)
			_, _ = send(context.WithoutCancel(r.Context())) // nobody waits for it
		})
	}
	if what == "dropped" || what == "delayed" {
		return // 200, and the hub believes it
	}
	a, err := send(r.Context())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Method == http.MethodPost && a.status/100 == 2 {
		m.begun.Store(true)
	}
	w.WriteHeader(a.status)
	_, _ = io.Copy(w, bytes.NewReader(a.body))
}

// listed is a change as the Source's Change List has it.
type listed struct {
	Loc string `xml:"loc"`
	MD  struct {
		Change   string    `xml:"change,attr"`
		Datetime time.Time `xml:"datetime,attr"`
	} `xml:"http://www.openarchives.org/rs/terms/ md"`
}

func changeList(t *testing.T, url string) []listed {
	t.Helper()
	var doc struct {
		URL []listed `xml:"url"`
	}
	must(t, xml.Unmarshal(do(t, http.MethodGet, url, nil, nil).want(t, http.StatusOK).body, &doc))
	return doc.URL
}
