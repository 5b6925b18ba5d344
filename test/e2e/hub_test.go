package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/programs"
)

// binary is the rshub under test, built once for all tests of the package, with the
// other commands beside it.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rshub-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "rshub")
		if err := programs.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		flag.Parse()
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
		if !given { // the tests mostly wait for programs
			_ = flag.Set("test.parallel", fmt.Sprint(max(3, runtime.GOMAXPROCS(0))))
		}
		return m.Run()
	}())
}

// hub is one rshub serve process, on ports and a folder that outlive it.
type hub struct {
	t     *testing.T
	dir   string
	addr  string // of the public listener
	admin string
	args  []string
	// secure says that the public listener has a certificate, as args say.
	secure bool
	// binary is the rshub that start runs; empty: the one under test.
	binary string
	env    []string // more of its environment
	// supervised says that start runs it again if its store does not answer, as a supervisor does.
	supervised bool

	cmd    *exec.Cmd
	down   bool // killed, asked to end or frozen
	exited chan struct{}
	log    *logBuffer
}

// newHub prepares a hub on a fresh folder and free ports; start runs it.
func newHub(t *testing.T, args ...string) *hub {
	t.Helper()
	return &hub{t: t, dir: filepath.Join(t.TempDir(), "data"), addr: ports.Addr(), admin: ports.Addr(), args: args, log: &logBuffer{}}
}

func startHub(t *testing.T, args ...string) *hub {
	t.Helper()
	h := newHub(t, args...)
	h.start()
	return h
}

func (h *hub) url() string {
	if h.secure {
		return "https://" + h.addr + "/"
	}
	return "http://" + h.addr + "/"
}

// serve are the arguments of the process.
func (h *hub) serve() []string {
	return append([]string{
		"serve", "--dev", "--listen", h.addr, "--public-url", h.url(),
		"--admin-listen", h.admin, "--data-dir", h.dir, "--log-format", "json",
	}, h.args...)
}

// start runs the process and waits until it listens.
func (h *hub) start() {
	h.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		listening := h.launch()
		select {
		case <-listening:
			return
		case <-h.exited:
			if !h.supervised || !h.noStore() || time.Now().After(end) {
				h.t.Fatalf("the hub ended before it listened:\n%s", h.log)
			}
			time.Sleep(100 * time.Millisecond)
		case <-time.After(time.Until(end)):
			h.t.Fatalf("the hub does not listen after two minutes:\n%s", h.log)
		}
	}
}

// noStore reports whether the last that the hub said is that its Redis did not answer when it started.
func (h *hub) noStore() bool {
	lines := strings.Split(strings.TrimSpace(h.log.String()), "\n")
	return h.cmd.ProcessState.ExitCode() == 1 && strings.Contains(lines[len(lines)-1], "no answer from Redis")
}

// launch runs the process. The channel is closed when it listens.
func (h *hub) launch() (listening chan struct{}) {
	h.t.Helper()
	h.down = false
	h.cmd = exec.CommandContext(context.Background(), cmp.Or(h.binary, binary), h.serve()...)
	h.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir()}, h.env...)
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	cmd, exited := h.cmd, make(chan struct{})
	listening, h.exited = make(chan struct{}), exited
	go func() {
		defer close(exited)
		seen := false
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			h.log.add(lines.Bytes())
			var line struct {
				Event string `json:"event"`
			}
			if !seen && json.Unmarshal(lines.Bytes(), &line) == nil && line.Event == "listening" {
				seen = true
				close(listening)
			}
		}
		_ = cmd.Wait()
	}()
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	return listening
}

// kill ends the process as a power cut would.
func (h *hub) kill() {
	h.t.Helper()
	h.down = true
	h.signal(syscall.SIGKILL)
	<-h.exited
	client.CloseIdleConnections() // no request is to be tried on one to the dead hub
}

// signal sends a signal to the process, which must not have ended by itself.
func (h *hub) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		<-h.exited
		h.t.Fatalf("the hub ended by itself, %v:\n%s", h.cmd.ProcessState, h.log)
	}
}

// terminate asks the process to end and returns its exit code.
func (h *hub) terminate() int {
	h.t.Helper()
	h.down = true
	h.signal(syscall.SIGTERM)
	select {
	case <-h.exited:
	case <-time.After(2 * time.Minute):
		h.t.Fatalf("the hub still runs two minutes after SIGTERM:\n%s", h.log)
	}
	client.CloseIdleConnections()
	return h.cmd.ProcessState.ExitCode()
}

// peakMemory is the most resident memory the process has had, in bytes.
func (h *hub) peakMemory() int64 {
	h.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.cmd.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	h.t.Fatal("no VmHWM in the process status")
	return 0
}

// subscribe posts a subscription request; extra are further form parameters.
func (h *hub) subscribe(topic, callback string, extra ...string) *answer {
	h.t.Helper()
	return h.form(append([]string{"hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback}, extra...)...)
}

// api gets a path of the operator's listener and decodes it.
func (h *hub) api(path string, into any) {
	h.t.Helper()
	a := do(h.t, http.MethodGet, "http://"+h.admin+path, nil, nil).want(h.t, http.StatusOK)
	if err := json.Unmarshal(a.body, into); err != nil {
		h.t.Fatalf("GET %s answered %q: %v", path, a.body, err)
	}
}

// active waits until n subscriptions are active.
func (h *hub) active(n int) {
	h.t.Helper()
	eventually(h.t, 3*time.Minute, func() error {
		count, after := 0, ""
		for {
			var page struct {
				Items []struct {
					State string `json:"state"`
				} `json:"items"`
				Next string `json:"next"`
			}
			h.api("/api/v1/subscriptions?limit=500&after="+after, &page)
			for _, s := range page.Items {
				if s.State == "active" || s.State == "failing" {
					count++
				}
			}
			if page.Next == "" {
				break
			}
			after = page.Next
		}
		if count != n {
			return fmt.Errorf("%d subscriptions are active, want %d", count, n)
		}
		return nil
	})
}

// answer is what came back of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) want(t *testing.T, status int) *answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %q, want %d", a.status, a.body, status)
	}
	return a
}

var client = &http.Client{
	Timeout:       5 * time.Minute,
	Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 64},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// try makes one request; an error is one of the network.
func try(ctx context.Context, method, url string, header http.Header, body []byte) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return &answer{resp.StatusCode, resp.Header, got}, err
}

func do(t *testing.T, method, url string, header http.Header, body []byte) *answer {
	t.Helper()
	a, err := try(t.Context(), method, url, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// eventually polls until check is content.
func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// logBuffer keeps the last lines that a process wrote.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBuffer) add(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines = append(b.lines, string(line)); len(b.lines) > 2000 {
		b.lines = b.lines[1000:]
	}
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines[max(0, len(b.lines)-60):], "\n")
}
