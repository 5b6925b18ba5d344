package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a Debian that was booted. Its network is that of this machine.
type machine struct {
	root string
	init string // the id of its systemd
}

// boot makes a Debian and boots it. It runs until the end of the test.
func boot(t *testing.T, dir string) *machine {
	t.Helper()
	m := &machine{root: filepath.Join(dir, "root")}
	run(t, "../../tools/debian", m.root, "systemd", "systemd-sysv", "dbus", "ca-certificates", "rpm", "curl", "nginx-light", "openssl")
	var log bytes.Buffer
	cmd := exec.Command("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--machine=packages", "--directory="+m.root, "--boot") //nolint:noctx // poweroff ends it
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // whatever it says, the machine is off
		close(ended)
	}()
	t.Cleanup(func() {
		if m.init != "" {
			_, _ = m.try("systemctl", "poweroff")
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Signal(syscall.SIGKILL)
			t.Error("the machine does not end")
		}
		if t.Failed() {
			t.Logf("the machine:\n%s", &log)
		}
	})
	eventually(t, "the machine is up", func() bool {
		children, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
		m.init, _, _ = strings.Cut(string(children), " ")
		if m.init == "" {
			return false
		}
		out, _ := m.try("systemctl", "is-system-running")
		return strings.TrimSpace(out) == "running"
	})
	return m
}

// try runs a command in the machine.
func (m *machine) try(args ...string) (string, error) {
	args = append([]string{"-t", m.init, "-m", "-u", "-i", "-p", "-r", "-w", "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}, args...)
	out, err := exec.Command("nsenter", args...).CombinedOutput() //nolint:noctx // it is also for the end of the test
	return string(out), err
}

// must runs a command that has to succeed.
func (m *machine) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.try(args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// state is what systemctl says of a unit: active, enabled.
func (m *machine) state(verb, name string) string {
	out, _ := m.try("systemctl", verb, name)
	return strings.TrimSpace(out)
}

// pid is the main process of a service.
func (m *machine) pid(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(m.must(t, "systemctl", "show", "--property=MainPID", "--value", name))
}

func (m *machine) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (m *machine) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(m.root, name))
	return err == nil
}

// run runs a command of this machine to its end.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for began := time.Now(); !check(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not true after a minute: %s", what)
		}
	}
}
