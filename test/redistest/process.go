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

// base is the folder of all servers of this process. A shell removes it when
// this process has ended, however it ends: its standard input, a pipe, is
// closed then.
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
	reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	return home{dir, w}, errors.Join(reaper.Start(), r.Close())
})

type home struct {
	dir      string
	lifeline *os.File // nobody writes to it; kept so that it stays open
}

// starter is a goroutine on a thread of its own, which starts all processes:
// the kernel ends them when the thread ends that started them.
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

// Server is one redis-server process, on a port and in a folder that outlive
// it. Its methods may be called from one goroutine at a time.
type Server struct {
	Access
	name   string
	dir    string
	port   int
	flags  []string // after the configuration file
	cmd    *exec.Cmd
	exited chan struct{}
}

// Addr is the host:port on which the server listens.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port)) }

// Servers returns the server itself, so that a standalone one can stand where
// several do.
func (s *Server) Servers() []*Server { return []*Server{s} }

// start runs the process and waits until it answers.
func (s *Server) start() error {
	//nolint:gosec,noctx // G204: a fixed command and our own file; the test ends it, or its death does
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
			return errEnded // somebody else has the port
		}
		if err != nil && strings.Contains(err.Error(), "unknown command 'INFO'") {
			err = nil // a test took it away
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

// errEnded stops waiting for a server that can't answer any more.
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

// await polls until check returns nil or errEnded, or bound is over.
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

// lull is the longest time until a failover that is about to begin can be seen.
const lull = Dead + 2*time.Second

// Dead is the time without an answer after which Sentinels and the nodes of a Cluster
// replace a master. It is longer than a busy machine delays a server that is well.
const Dead = 4 * time.Second

// dead returns that time for the servers of a group. It is long if the test does not disturb
// them, because then a failover would only be a disturbance.
func (o *options) dead() time.Duration {
	if o.steady {
		return time.Minute
	}
	return Dead
}

// mustAwait is await, and ends the test if that fails.
func mustAwait(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := await(what, check); err != nil {
		t.Fatal(err)
	}
}

// calm waits until what check reports has been well for a lull.
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
