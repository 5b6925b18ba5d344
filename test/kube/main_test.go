package kube

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	servers = flag.String("servers", "", "folder with kube-apiserver, kube-controller-manager and helm; empty: nothing is tested")
	kinds   = flag.String("kinds", "", "files with the definitions of kinds that are not of Kubernetes")
	image   = flag.String("image", "", "folder with the commands of this repository")
)

// The test binary also runs within namespaces. These arguments say as what.
const (
	inside    = "rshub-kube-inside"
	container = "rshub-kube-container"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == container:
		fmt.Fprintln(os.Stderr, becomeContainer(os.Args[2]))
		os.Exit(1)
	case os.Getenv(inside) != "":
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "entering the namespaces:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	flag.Parse()
	if *servers == "" {
		os.Exit(m.Run())
	}
	os.Exit(again())
}

// again runs this test binary in namespaces of its own. When it ends, all that it started ends.
func again() int {
	signal.Ignore(os.Interrupt) // the one inside gets it, too
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "in namespaces (this needs root):", err)
		return 1
	}
	return 0
}

// enter makes the namespaces what the tests expect: mounts that nobody else sees, /proc, and a
// network with loopback and nothing else.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// The controller manager makes volumes in the last one.
	if err := os.MkdirAll("/tmp/hostpath_pv", 0o755); err != nil {
		return err
	}
	for target, kind := range map[string]string{"/proc": "proc", "/run": "tmpfs", "/tmp/hostpath_pv": "tmpfs"} {
		if err := unix.Mount(kind, target, kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}
	return network()
}

// command runs a command to its end.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return err
}

// eventually waits until check returns nil, and fails the test with its last error after limit.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s, still not after %s: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
