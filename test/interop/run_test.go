package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually asks until the answer is nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// output is what a process printed, to either stream.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a program that serves until its row ends.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// start runs a program in dir, with variables besides PATH and HOME.
func start(t *testing.T, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	return startWithInput(t, nil, dir, env, name, args...)
}

func startWithInput(t *testing.T, in *os.File, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(context.Background(), name, args...), out: &output{}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.out
	p.cmd.Env = environment(t, env)
	if in != nil {
		p.cmd.Stdin = in
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // nginx and haproxy have workers
	must(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, tail(p.out.String()))
		}
	})
	return p
}

func environment(t *testing.T, env []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TZ=UTC"}, env...)
}

// stop asks the process and its children to end, and kills them if they do not.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// listens waits until the process accepts connections at addr.
func (p *process) listens(addr string) {
	p.t.Helper()
	eventually(p.t, func() error {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended before it listened:\n%s", p.cmd, tail(p.out.String()))
		default:
		}
		conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// says waits until the process has printed text.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, func() error {
		if out := p.out.String(); !strings.Contains(out, text) {
			return fmt.Errorf("%s does not print %q; it printed:\n%s", p.cmd.Args[0], text, tail(out))
		}
		return nil
	})
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// run runs a program to its end and returns its exit code and what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, environment(t, env)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// runs is run of a program that has to end with 0.
func runs(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	code, out := run(t, dir, env, name, args...)
	if code != 0 {
		t.Fatalf("%s %s ended with %d:\n%s", name, strings.Join(args, " "), code, tail(out))
	}
	return out
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) want(t *testing.T, status int) *answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %v %.300q, want %d", a.status, a.header, a.body, status)
	}
	return a
}

// client trusts the authority of an [identity] and comes from an address of this
// machine; it follows no redirect and decompresses nothing.
func client(id *identity, from string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	config := &tls.Config{}
	if id != nil {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AddCert(id.authority)
	}
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: config, DisableCompression: true, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask makes one request. header has names and values in turn.
func ask(t *testing.T, c *http.Client, method, url string, body io.Reader, header ...string) *answer {
	t.Helper()
	a, err := try(t.Context(), c, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func try(ctx context.Context, c *http.Client, method, url string, body io.Reader, header ...string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return &answer{resp.StatusCode, resp.Header, got}, err
}
