package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bound limits every wait. The machine may be busy with other tests, and sentinels that
// were delayed act again only half a minute later.
const bound = 3 * time.Minute

// base is the folder of all servers of this process. A shell removes it when this
// process ends for any reason, because its standard input, a pipe, closes then.
var base = sync.OnceValues(func() (home, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return home{}, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return home{}, err
	}
	//nolint:gosec // G204: the folder was made a few lines above
	reaper := exec.Command("/bin/sh", "-c", `cat >/dev/null; sleep 1; rm -rf -- "$0"`, dir)
	reaper.Stdin = r
	reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C does not end it
	return home{dir, w}, errors.Join(reaper.Start(), r.Close())
})

type home struct {
	dir      string
	lifeline *os.File // the writing end of the pipe; it only has to stay open
}

// starter is a goroutine that is locked to its thread and starts all processes. The
// kernel ends a process when the thread that started it ends.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Server is one redis-server process. Its port and its folder stay the same after a
// restart. Its methods may be called from one goroutine at a time.
type Server struct {
	Access
	name   string
	dir    string
	port   int
	bus    int      // of a node of a Cluster: its port for the other nodes
	flags  []string // after the configuration file
	cmd    *exec.Cmd
	exited chan struct{}
}

// Addr is the host:port on which the server listens.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port)) }

// PID is the process that runs now, for what only the kernel can do to it.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Servers returns the server itself, as [Sentinels] and [Nodes] return theirs.
func (s *Server) Servers() []*Server { return []*Server{s} }

// start runs the process and waits until it answers.
func (s *Server) start() error {
	//nolint:gosec,noctx // G204: a fixed command and our own file; it ends with the test or the process
	cmd := exec.Command("redis-server", append([]string{filepath.Join(s.dir, "redis.conf")}, s.flags...)...)
	log, err := os.OpenFile(filepath.Join(s.dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = dieWithUs()
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("redistest: %w (tools/need redis-server installs it)", err)
	}
	s.cmd, s.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) { _ = cmd.Wait(); close(exited) }(s.exited)
	pid := fmt.Sprintf("process_id:%d\r\n", cmd.Process.Pid)
	err = await("an answer of "+s.name, func() error {
		select {
		case <-s.exited:
			return errEnded
		default:
		}
		info, err := s.Try("INFO", "server")
		if text, _ := info.(string); err == nil && !strings.Contains(text, pid) {
			return errEnded // another process has the port
		}
		if err != nil && strings.Contains(err.Error(), "unknown command 'INFO'") {
			err = nil // the test disabled it
		}
		if err == nil {
			_, err = s.Try("PING") // an error while the append-only file is loaded
		}
		return err
	})
	if err != nil {
		s.end()
		return fmt.Errorf("%w; its log ends:\n%s", err, s.LogTail())
	}
	return nil
}

// errEnded ends the wait for a server that cannot answer any more.
var errEnded = errors.New("the server has ended, or another has its port")

// end kills the process, if it runs.
func (s *Server) end() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// Kill ends the process as a power cut would (SIGKILL), frozen or not.
func (s *Server) Kill(testing.TB) { s.end() }

// Freeze stops the process where it is (SIGSTOP): connections stay open and
// nothing answers.
func (s *Server) Freeze(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Continue wakes a frozen process (SIGCONT).
func (s *Server) Continue(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("redistest: %v to %s: %v", sig, s.name, err)
	}
}

// Restart kills the process if it runs, starts it again on the same port and
// folder, and waits until it has loaded its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.end()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// LogTail returns the end of the server's log.
func (s *Server) LogTail() string {
	log, err := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}

// await polls until check returns nil or errEnded, or the time limit is reached.
func await(what string, check func() error) error {
	deadline := time.Now().Add(bound)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if errors.Is(err, errEnded) || time.Now().After(deadline) {
			return fmt.Errorf("redistest: waiting for %s: %w", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lull is the longest time until a failover that is about to begin becomes visible.
const lull = Dead + 2*time.Second

// Dead is the time without an answer after which Sentinels and the nodes of a Cluster
// replace a master. It is longer than a busy machine delays a healthy server.
const Dead = 4 * time.Second

// dead returns that time for the servers of a group. It is long if the test does not disturb
// them, because a failover would then only disturb the test.
func (o *options) dead() time.Duration {
	if o.steady {
		return time.Minute
	}
	return Dead
}

// mustAwait is await. It ends the test if that fails.
func mustAwait(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := await(what, check); err != nil {
		t.Fatal(err)
	}
}

// calm waits until check has returned nil for a lull.
func calm(t testing.TB, check func() error) {
	t.Helper()
	var well time.Time
	mustAwait(t, "calm after a failover", func() error {
		if err := check(); err != nil {
			well = time.Time{}
			return err
		}
		if well.IsZero() {
			well = time.Now()
		}
		if since := time.Since(well); since < lull {
			return fmt.Errorf("well for %v only", since)
		}
		return nil
	})
}
