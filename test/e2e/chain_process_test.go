package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is one command that serves until it is told to end, on ports and folders
// that outlive it. That it ends by itself is an error, even if all that it needs is
// away.
type process struct {
	t    *testing.T
	name string
	args []string // the binary first
	log  *logBuffer
	hear func(line []byte) // where not nil it is told what the process prints
	// ready is the event that says that the process has started; empty: that it listens.
	ready string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	wanted bool          // to run
	starts int
}

func newProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, args: args, log: &logBuffer{}}
	t.Cleanup(p.kill)
	return p
}

// start runs the process and waits until it listens.
func (p *process) start() {
	p.t.Helper()
	if err := p.try(); err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, p.log)
	}
}

// try is start with an error.
func (p *process) try() error {
	p.mu.Lock()
	p.wanted = true
	p.mu.Unlock()
	return p.launch()
}

// launch starts the process, unless it is not wanted any more.
func (p *process) launch() error {
	p.mu.Lock()
	if !p.wanted {
		p.mu.Unlock()
		return nil
	}
	cmd := exec.CommandContext(context.Background(), p.args[0], p.args[1:]...)
	cmd.Env = environment()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		cmd.Stdout = cmd.Stderr // what it prints is of use beside its log
		err = cmd.Start()
	}
	exited, listening := make(chan struct{}), make(chan struct{})
	if err == nil {
		p.cmd, p.exited = cmd, exited
		p.starts++
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	go p.watch(cmd, stderr, listening, exited)
	select {
	case <-listening:
		return nil
	case <-exited:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted {
			return fmt.Errorf("it ended with %d before it listened", cmd.ProcessState.ExitCode())
		}
		return nil // it was killed before that
	case <-time.After(2 * time.Minute):
		return errors.New("it does not listen after two minutes")
	}
}

// watch reads the log until the process ends.
func (p *process) watch(cmd *exec.Cmd, stderr io.Reader, listening, exited chan struct{}) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for seen := false; lines.Scan(); {
		p.log.add(lines.Bytes())
		if p.hear != nil {
			p.hear(lines.Bytes())
		}
		var line struct {
			Event string `json:"event"`
		}
		if !seen && json.Unmarshal(lines.Bytes(), &line) == nil && line.Event == cmp.Or(p.ready, "listening") {
			seen = true
			close(listening)
		}
	}
	_ = cmd.Wait()
	p.mu.Lock()
	unexpected := p.wanted
	p.mu.Unlock()
	close(exited)
	if unexpected {
		p.t.Errorf("%s ended by itself with %d:\n%s", p.name, cmd.ProcessState.ExitCode(), p.log)
	}
}

// unwanted returns what runs, which is to end now.
func (p *process) unwanted() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
	return p.cmd, p.exited
}

// kill ends the process as a power cut would.
func (p *process) kill() {
	if cmd, exited := p.unwanted(); cmd != nil {
		_ = cmd.Process.Kill() // unless it has ended
		<-exited
	}
}

// terminate asks the process to end and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	cmd, exited := p.unwanted()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, p.log)
	}
	select {
	case <-exited:
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("%s still runs two minutes after SIGTERM:\n%s", p.name, p.log)
	}
	return cmd.ProcessState.ExitCode()
}

// environment is that of all commands except rshub serve.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE")}
}

// run runs a command to its end and returns its exit code and what it printed.
func run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = environment()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, &all)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

// forwarder passes connections on to one of several addresses, as a load balancer
// does: in turn, and to the next where nobody listens.
type forwarder struct {
	listen net.Listener
	to     []string
	turn   atomic.Uint32
}

func newForwarder(t *testing.T, to ...string) *forwarder {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return forward(t, l, to...)
}

// forward passes on the connections of a listener.
func forward(t *testing.T, l net.Listener, to ...string) *forwarder {
	f := &forwarder{listen: l, to: to}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.serve(ctx, in) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		running.Wait()
	})
	return f
}

func (f *forwarder) addr() string { return f.listen.Addr().String() }

// serve passes on what comes, both ways, until either end has enough.
func (f *forwarder) serve(ctx context.Context, in net.Conn) {
	defer func() { _ = in.Close() }()
	var out net.Conn
	first := int(f.turn.Add(1))
	for i := range f.to {
		var err error
		if out, err = (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", f.to[(first+i)%len(f.to)]); err == nil {
			break
		}
	}
	if out == nil {
		return // nobody is there: the connection is closed
	}
	defer func() { _ = out.Close() }()
	defer context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // broken off by the other way, or by the end
			_ = in.Close()
			_ = out.Close()
		})
	}
	both.Wait()
}
