package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// box describes a container.
type box struct {
	Network  string // file of its network namespace
	Root     string // folder with the image
	Scratch  string // folder for what is written to the root folder, and for mount points
	ReadOnly bool   // the root folder
	Mounts   []mount
	Host     string // its name
	Command  []string
	Env      []string
	Dir      string
	UID, GID int
	Groups   []int
	NoCaps   bool // drop: [ALL]
	NoNew    bool // allowPrivilegeEscalation: false
}

type mount struct {
	From, To string
	ReadOnly bool
}

// start starts the container as a process. Its output goes to the end of a file.
func (b *box) start(file string) (*exec.Cmd, error) {
	output, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the process has its own
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	spec := filepath.Join(b.Scratch, "box.json")
	if err := os.WriteFile(spec, text, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", container, spec) //nolint:noctx // it is stopped in the way of Kubernetes
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Setsid:     true,
	}
	return cmd, cmd.Start()
}

// becomeContainer makes this process the container that a file describes. It returns only if that
// fails.
func becomeContainer(spec string) error {
	runtime.LockOSThread() // namespaces and rights belong to a thread, and exec keeps those of the caller
	text, err := os.ReadFile(spec)
	if err != nil {
		return err
	}
	var b box
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	for _, step := range []func() error{b.join, b.mounts, b.pivot, b.rights} {
		if err := step(); err != nil {
			return fmt.Errorf("making the container: %w", err)
		}
	}
	return fmt.Errorf("exec %s: %w", b.Command[0], unix.Exec(b.Command[0], b.Command, b.Env))
}

func (b *box) join() error {
	fd, err := unix.Open(b.Network, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Sethostname([]byte(b.Host))
}

// mounts builds the root folder: the image, and above it a layer for this container, as container
// runtimes do.
func (b *box) mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	root := filepath.Join(b.Scratch, "root")
	for _, name := range []string{"root", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(b.Scratch, name), 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", b.Root, filepath.Join(b.Scratch, "upper"), filepath.Join(b.Scratch, "work"))
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	all := []mount{{"/dev/null", "/dev/null", false}, {"/dev/zero", "/dev/zero", false}, {"/dev/urandom", "/dev/urandom", false}}
	for _, m := range append(all, b.Mounts...) {
		if err := m.in(root); err != nil {
			return fmt.Errorf("mounting %s: %w", m.To, err)
		}
	}
	proc := filepath.Join(root, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if b.ReadOnly {
		return unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return nil
}

// in binds a file or folder below root, and makes the mount point.
func (m mount) in(root string) error {
	to := filepath.Join(root, m.To)
	from, err := os.Stat(m.From)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if from.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil && !strings.Contains(err.Error(), "exists") {
		return err
	}
	if err := unix.Mount(m.From, to, "", unix.MS_BIND, ""); err != nil || !m.ReadOnly {
		return err
	}
	return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

func (b *box) pivot() error {
	if err := unix.Chdir(filepath.Join(b.Scratch, "root")); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir(b.Dir)
}

func (b *box) rights() error {
	if b.NoCaps {
		for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if b.NoNew {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := syscall.Setgroups(b.Groups); err != nil {
		return err
	}
	if err := syscall.Setgid(b.GID); err != nil {
		return err
	}
	return syscall.Setuid(b.UID)
}
